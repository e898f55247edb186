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

      # Methods of Ruby's, whatever the application defines on its objects.
      NAME_OF = Module.instance_method(:name)
      IS_SINGLETON = Module.instance_method(:singleton_class?)
      SINGLETON_OF = Kernel.instance_method(:singleton_class)
      CLASS_OF = Kernel.instance_method(:class)
      PLAIN_TEXT = String.instance_method(:[])
      FIRST_OF = Array.instance_method(:first)
      EACH_PAIR = Hash.instance_method(:each_pair)
      SIZE_OF = [String, Array, Hash].to_h { |type| [type, type.instance_method(:size)] }.freeze
      private_constant :NAME_OF, :IS_SINGLETON, :SINGLETON_OF, :CLASS_OF, :PLAIN_TEXT, :FIRST_OF, :EACH_PAIR, :SIZE_OF

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

      # A name within a tracepoint's limit. A hash distinguishes names that are cut.
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
        return NAME_OF.bind(mod).call unless Class === mod && IS_SINGLETON.bind(mod).call # rubocop:disable Style/CaseEquality

        object = ObjectSpace.each_object(mod).find { |candidate| SINGLETON_OF.bind(candidate).call.equal?(mod) }
        Module === object ? module_name(object) : NAME_OF.bind(CLASS_OF.bind(object).call).call # rubocop:disable Style/CaseEquality
      end

      # A short text of a value that runs none of the application's code: no `inspect`, no `to_s`, and no
      # method of a subclass of String, Array or Hash.
      # @return [String]
      def describe(value, depth = 1)
        case value
        when nil, true, false, Integer, Float, Symbol then value.inspect
        when String then describe_string(value)
        when Array then depth.zero? ? '[...]' : "[#{describe_array(value, depth)}]"
        when Hash then depth.zero? ? '{...}' : "{#{describe_hash(value, depth)}}"
        when Module then module_name(value) || '#<Class>'
        else "#<#{module_name(CLASS_OF.bind(value).call)}>"
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
        first_pairs(hash, 8).map { |key, value| "#{Symbol === key ? key : describe(key, 0)}: #{describe(value)}" }.join(', ') # rubocop:disable Style/CaseEquality
      end

      # @api private
      def describe_string(value)
        text = PLAIN_TEXT.bind(value).call(0, TEXT_MAX)
        text = String.new(text) unless text.instance_of?(String) # before Ruby 3 a slice is of the subclass
        SIZE_OF[String].bind(value).call <= TEXT_MAX ? text.inspect : "#{text.inspect}..."
      end

      # @api private
      def describe_array(value, depth)
        describe_list(FIRST_OF.bind(value).call(5), SIZE_OF[Array].bind(value).call) { |v| describe(v, depth - 1) }
      end

      # @api private
      def describe_hash(value, depth)
        size = SIZE_OF[Hash].bind(value).call
        describe_list(first_pairs(value, 5), size) { |k, v| "#{describe(k, 0)}=>#{describe(v, depth - 1)}" }
      end

      # @api private
      def first_pairs(hash, count)
        pairs = []
        EACH_PAIR.bind(hash).call do |key, value|
          break if pairs.size == count

          pairs << [key, value]
        end
        pairs
      end

      # @api private
      def describe_list(values, size, &block)
        (values.map(&block) + (size > values.size ? ['...'] : [])).join(', ')
      end
    end
  end
end
