# frozen_string_literal: true

module Rutile
  module Tracer
    # Names of tracepoints, and texts of values.
    module Helpers
      OPERATORS = {
        '+' => 'add', '-' => 'sub', '*' => 'mul', '/' => 'div', '%' => 'mod', '**' => 'pow', '==' => 'eq',
        '!=' => 'ne', '<' => 'lt', '<=' => 'le', '>' => 'gt', '>=' => 'ge', '<=>' => 'cmp', '===' => 'case_eq',
        '<<' => 'lshift', '>>' => 'rshift', '!' => 'not', '=~' => 'match', '!~' => 'nomatch', '[]' => 'aref',
        '[]=' => 'aset', '+@' => 'uplus', '-@' => 'uminus', '~' => 'compl', '&' => 'and', '|' => 'or', '^' => 'xor',
        '`' => 'backtick'
      }.freeze
      private_constant :OPERATORS

      TEXT_MAX = 100
      NAME_MAX = 127
      private_constant :TEXT_MAX, :NAME_MAX

      module_function

      # "Shop::CartItem" becomes "shop_cart_item".
      # @param class_name [String]
      # @return [String]
      def underscore(class_name)
        class_name.gsub('::', '_')
                  .gsub(/([A-Z]+)([A-Z][a-z])/, '\1_\2')
                  .gsub(/([a-z\d])([A-Z])/, '\1_\2')
                  .tr('-', '_')
                  .downcase
      end

      # A method's name in letters that every tracer's command line takes: "valid?" becomes "valid_p".
      # @param method [Symbol, String]
      # @return [String]
      def probe_name(method)
        name = method.to_s
        name = OPERATORS.fetch(name) { name.sub(/\?\z/, '_p').sub(/!\z/, '_bang').sub(/=\z/, '_set') }
        name.gsub(/[^A-Za-z0-9_]/) { |char| format('_%x', char.ord) }
      end

      # A name that is not longer than a tracepoint's may be. What is cut is told apart by a hash.
      # @param name [String]
      # @param ending [String] is kept
      # @return [String]
      def shorten(name, ending = '')
        return "#{name}#{ending}" if name.size + ending.size <= NAME_MAX

        hash = name.each_byte.inject(0xcbf29ce484222325) { |h, byte| ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff } # FNV-1a
        "#{name[0, NAME_MAX - ending.size - 17]}_#{format('%016x', hash)}#{ending}"
      end

      # The name of a class or module, also of one that overrides `name`; of a singleton class that of its
      # object.
      # @param mod [Module]
      # @return [String, nil]
      def module_name(mod)
        return Module.instance_method(:name).bind(mod).call unless mod.is_a?(Class) && mod.singleton_class?

        ObjectSpace.each_object(mod).find { |object| object.singleton_class.equal?(mod) }
                   .then { |object| object.is_a?(Module) ? module_name(object) : object.class.name }
      end

      # A short text of a value that runs none of the application's code: no `inspect`, no `to_s`.
      # @return [String]
      def describe(value, depth = 1)
        case value
        when nil, true, false, Integer, Float, Symbol then value.inspect
        when String then describe_string(value)
        when Array then depth.zero? ? '[...]' : "[#{describe_list(value.first(5), value.size) { |v| describe(v, depth - 1) }}]"
        when Hash then depth.zero? ? '{...}' : "{#{describe_hash(value, depth)}}"
        when Module then module_name(value) || '#<Class>'
        else "#<#{module_name(Kernel.instance_method(:class).bind(value).call)}>"
        end
      rescue StandardError
        '#<?>'
      end

      # A stack as text, without the frames of tracers.
      # @return [String]
      def stack(frames)
        frames.reject { |frame| frame.start_with?('(rutile: ') }.join("\n")
      end

      # The arguments of a call as text.
      # @return [String]
      def describe_call(args)
        keywords = args.last if Hash === args.last && Hash.ruby2_keywords_hash?(args.last)
        text = (keywords ? args[0...-1] : args).first(8).map { |value| describe(value) }
        text << describe_pairs(keywords) if keywords
        text.join(', ')
      end

      # The keys and values of a Hash as those of keyword arguments.
      # @return [String]
      def describe_pairs(hash)
        hash.first(8).map { |key, value| "#{key}: #{describe(value)}" }.join(', ')
      end

      # @api private
      def describe_string(value)
        value.size <= TEXT_MAX ? value.inspect : "#{value[0, TEXT_MAX].inspect}..."
      end

      # @api private
      def describe_hash(value, depth)
        describe_list(value.first(5), value.size) { |k, v| "#{describe(k, 0)}=>#{describe(v, depth - 1)}" }
      end

      # @api private
      def describe_list(values, size, &block)
        (values.map(&block) + (size > values.size ? ['...'] : [])).join(', ')
      end
    end
  end
end
