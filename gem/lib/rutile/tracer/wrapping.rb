# frozen_string_literal: true

module Rutile
  module Tracer
    # The module that a tracer prepends to a class. It has methods only while they are traced, so that a
    # disabled tracer leaves nothing in the way of a call.
    #
    # The methods are defined from text by `def`, not from blocks: those could not be called in another
    # ractor. All arguments are passed on by `*args` marked ruby2_keywords, which is the one way that
    # keeps their meaning in every Ruby since 2.7.
    # @api private
    class Wrapping < Module
      # One method of the class; the constant is what the text of its wrapper calls the tracepoint.
      Entry = Struct.new(:method, :provider, :tracepoint, :constant, :wrapped)

      DEFINABLE = %r{\A(?:[[:alpha:]_][[:alnum:]_]*[?!=]?|\[\]=?|\*\*|[+\-!~]@?|[*/%<>^|&`]|<=>|===?|[!=]~|!=|<<|>>|<=|>=)\z}.freeze
      private_constant :DEFINABLE

      # Ruby warns of whoever defines or removes these; while they are wrapped they do what they did.
      NEEDED_BY_RUBY = %i[initialize object_id __id__ __send__].freeze
      private_constant :NEEDED_BY_RUBY

      attr_reader :entries

      def initialize(tracer, target)
        super()
        @tracer = tracer
        @target = target
        @entries = {}
        @added = 0
        Tracer.wrappings << self
      end

      # Takes the place of an older entry of that method, if there is one.
      def add(method, provider, tracepoint)
        constant = const_set_next(tracepoint)
        tracepoint.native_defer
        place(@entries[method], false) if @entries.key?(method)
        @entries[method] = Entry.new(method, provider, tracepoint, constant, false).tap { |entry| Tracer.manage(entry) }
      end

      # Wraps or unwraps one method.
      def place(entry, enable)
        Rutile.exclusively { enable ? wrap(entry) : unwrap(entry) }
      end

      # Wraps or unwraps one method and says so to who asked from outside.
      def switch(entry, enable)
        place(entry, enable)
        enable ? entry.tracepoint.enable : entry.tracepoint.disable
      end

      def switch_all(enable)
        @entries.values.each { |entry| switch(entry, enable) } # rubocop:disable Style/HashEachMethods -- others may add
      end

      def inspect
        "#<#{@tracer.name} of #{Helpers.module_name(@target)}>"
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
        return if entry.wrapped

        @target.prepend(self) unless @prepended
        @prepended = true
        quietly(entry.method) { define(entry) }
        entry.wrapped = true
      end

      def unwrap(entry)
        return unless entry.wrapped

        quietly(entry.method) { remove_method(entry.method) }
        entry.wrapped = false
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

      def define(entry)
        name = entry.method
        visible = visibility(name) # asked before the wrapper hides the answer
        if @tracer.wrapping_function
          define_method(name, &@tracer.wrapping_function)
        else
          define_from_text(entry)
        end
        ruby2_keywords(name) if takes_rest?(name)
        send(visible, name)
      end

      # Only methods of the form (*args) without keywords can be marked.
      def takes_rest?(name)
        kinds = instance_method(name).parameters.map(&:first)
        kinds.include?(:rest) && (kinds & %i[key keyreq keyrest]).empty?
      end

      def define_from_text(entry)
        name = entry.method
        raise BaseError, "#{@tracer} does not say what to do: it needs set_wrapping_function" unless @tracer.body

        head = name.match?(DEFINABLE) ? "def #{name}(*args, &block)" : "define_method(#{name.inspect}) do |*args, &block|"
        body = format(@tracer.body, tp: entry.constant, label: name.to_s.dump)
        module_eval("#{head}\n#{body}\nend", "(rutile: #{@tracer.name})", 0)
      end

      def visibility(name)
        return :private if @target.private_method_defined?(name)

        @target.protected_method_defined?(name) ? :protected : :public
      end
    end
  end
end
