# frozen_string_literal: true

module Rutile
  module Tracer
    # The module that a tracer prepends to a class. It has methods only while they are traced, so that a
    # disabled tracer leaves nothing in the way of a call.
    #
    # The methods are defined from text by `def`, not from blocks: those could not be called in another
    # ractor. All arguments are passed on by `*args` marked ruby2_keywords, which is the one way that
    # keeps their meaning in every Ruby since 2.7.
    #
    # A wrapping refers to its class weakly: a class that the application reloads must be freed. Questions
    # to the class go through unbound methods of Module, because a class may define methods of these names.
    # @api private
    class Wrapping < Module
      # One method of the class; the constant is what the text of its wrapper calls the tracepoint.
      Entry = Struct.new(:method, :provider, :tracepoint, :constant, :wrapped)

      DEFINABLE = %r{\A(?:[[:alpha:]_][[:alnum:]_]*[?!=]?|\[\]=?|\*\*|[+\-!~]@?|[*/%<>^|&`]|<=>|===?|[!=]~|!=|<<|>>|<=|>=)\z}.freeze
      private_constant :DEFINABLE

      # Ruby warns when these are redefined or removed. The wrapper keeps their meaning.
      NEEDED_BY_RUBY = %i[initialize object_id __id__ __send__].freeze
      private_constant :NEEDED_BY_RUBY

      PREPEND = Module.instance_method(:prepend)
      IS_PRIVATE = Module.instance_method(:private_method_defined?)
      IS_PROTECTED = Module.instance_method(:protected_method_defined?)
      INSTANCE_METHOD = Module.instance_method(:instance_method)
      private_constant :PREPEND, :IS_PRIVATE, :IS_PROTECTED, :INSTANCE_METHOD

      # Stands for an optional argument that was not given.
      NONE = Object.new.freeze
      PREFIX = { req: '', opt: '', rest: '*' }.freeze
      private_constant :PREFIX

      attr_reader :entries, :tracer

      def initialize(tracer, target)
        super()
        @tracer = tracer
        @target = ObjectSpace::WeakMap.new
        @target[self] = target
        @label = Helpers.module_name(target)
        @entries = {}
        @added = 0
        @prepended = false
        Tracer.add(self)
      end

      # The class with the wrapped methods; nil when it was freed.
      def target
        @target[self]
      end

      # Replaces an older entry of that method, if there is one.
      def add(method, provider, tracepoint)
        constant = const_set_next(tracepoint)
        tracepoint.native_defer
        place(@entries[method], false) if @entries.key?(method)
        @entries[method] = Entry.new(method, provider, tracepoint, constant, false).tap { |entry| Tracer.manage(entry) }
      end

      # Wraps or unwraps one method. A method that cannot be wrapped, as of a frozen class, is reported
      # once and left as it is: the others must be traced, and the caller may be a signal handler.
      def place(entry, enable)
        Rutile.exclusively { enable ? wrap(entry) : unwrap(entry) }
      rescue StandardError, ScriptError => e
        what = e.is_a?(FrozenError) ? "methods of #{@label}" : "#{@label}##{entry.method}"
        Rutile.say("cannot trace #{what}: #{e.message} (#{e.class})")
      end

      # Wraps or unwraps one method, and shows or hides its tracepoint.
      def switch(entry, enable)
        place(entry, enable)
        show(entry)
      end

      # Shows the tracepoint while any method that shares it is wrapped: methods of one name in a class and
      # in its singleton class, or in the versions of a reloaded class.
      def show(entry)
        entry.provider.wrapped?(entry.tracepoint.name) ? entry.tracepoint.enable : entry.tracepoint.disable
      end

      def switch_all(enable)
        @entries.values.each { |entry| switch(entry, enable) } # rubocop:disable Style/HashEachMethods -- others may add
      end

      def inspect
        "#<#{@tracer.name} of #{@label}>"
      end
      alias to_s inspect

      private

      def const_set_next(tracepoint)
        constant = :"TP_#{@added}"
        const_set(constant, tracepoint)
        @added += 1
        constant
      end

      def wrap(entry)
        klass = target
        return if entry.wrapped || klass.nil?

        PREPEND.bind(klass).call(self) unless @prepended
        @prepended = true
        Tracer.prepended(self)
        quietly(entry.method) { define(entry, klass) }
        entry.wrapped = true
      end

      def unwrap(entry)
        return unless entry.wrapped

        entry.wrapped = false
        quietly(entry.method) { remove(entry.method) }
      end

      def quietly(method)
        return yield unless NEEDED_BY_RUBY.include?(method)

        begin
          verbose = $VERBOSE
          $VERBOSE = nil
          yield
        ensure
          $VERBOSE = verbose
        end
      end

      def define(entry, klass)
        name = entry.method
        visible = visibility(klass, name) # asked before the wrapper hides the answer
        if @tracer.wrapping_function
          define_method(name, &@tracer.wrapping_function)
        else
          define_from_text(entry, signature(klass, name))
        end
        ruby2_keywords(name) if takes_rest?(name)
        send(visible, name)
      rescue StandardError, ScriptError
        remove(name)
        raise
      end

      def remove(name)
        remove_method(name) if instance_methods(false).include?(name) || private_instance_methods(false).include?(name)
      end

      # Only methods of the form (*args) without keywords can be marked.
      def takes_rest?(name)
        kinds = instance_method(name).parameters.map(&:first)
        kinds.include?(:rest) && (kinds & %i[key keyreq keyrest]).empty?
      end

      def define_from_text(entry, signature)
        name = entry.method
        head = name.match?(DEFINABLE) ? "def #{name}(#{signature}&block)" : "define_method(#{name.inspect}) do |#{signature}&block|"
        body = format(@tracer.body, tp: entry.constant, label: name.to_s.dump)
        collect = collector(signature)
        module_eval("#{head}\n#{collect}#{body}\nend", "(rutile: #{@tracer.name})", collect.empty? ? 0 : -1)
      end

      # The parameters of the wrapper. Ruby 2.7 passes an empty hash for `**{}` to a method that lacks a
      # required argument, and nothing to one that takes any number. So there the wrapper has the parameters
      # of the method.
      def signature(klass, name)
        return '*args, ' if RUBY_VERSION >= '3'

        kinds = parameters_of(klass, name).map(&:first) - [:block]
        return '*args, ' unless kinds.include?(:req) && (kinds - %i[req opt rest]).empty?

        kinds.each_with_index.map { |kind, i| "#{PREFIX[kind]}rutile_#{i}#{' = ::Rutile::Tracer::Wrapping::NONE' if kind == :opt}, " }.join
      end

      # The line that makes `args` of such parameters.
      def collector(signature)
        return '' if signature == '*args, '

        "args = [#{signature.gsub(/ = [\w:]+/, '')}].reject { |value| ::Rutile::Tracer::Wrapping::NONE.equal?(value) }\n"
      end

      def parameters_of(klass, name)
        INSTANCE_METHOD.bind(klass).call(name).parameters
      rescue NameError # answered by method_missing
        []
      end

      def visibility(klass, name)
        return :private if IS_PRIVATE.bind(klass).call(name)

        IS_PROTECTED.bind(klass).call(name) ? :protected : :public
      end
    end
  end
end
