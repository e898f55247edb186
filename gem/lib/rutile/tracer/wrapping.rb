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
      # One method of the class.
      Entry = Struct.new(:method, :tracepoint, :wrapped)

      DEFINABLE = %r{\A(?:[[:alpha:]_][[:alnum:]_]*[?!=]?|\[\]=?|\*\*|[+\-!~]@?|[*/%<>^|&`]|<=>|===?|[!=]~|!=|<<|>>|<=|>=)\z}.freeze
      private_constant :DEFINABLE

      attr_reader :entries

      def initialize(tracer, target)
        super()
        @tracer = tracer
        @target = target
        @entries = {}
        Tracer.wrappings << self
      end

      def add(method, tracepoint)
        @entries[method] ||= begin
          const_set(:"TP_#{@entries.size}", tracepoint)
          tracepoint.native_defer
          Entry.new(method, tracepoint, false).tap { |entry| Tracer.manage(entry) }
        end
      end

      # Wraps or unwraps one method and says so to who asked from outside.
      def switch(entry, enable)
        Rutile.exclusively { enable ? wrap(entry) : unwrap(entry) }
        enable ? entry.tracepoint.enable : entry.tracepoint.disable
      end

      def switch_all(enable)
        @entries.each_value { |entry| switch(entry, enable) }
      end

      def inspect
        "#<#{@tracer.name} of #{Helpers.module_name(@target)}>"
      end
      alias to_s inspect

      private

      def wrap(entry)
        return if entry.wrapped

        @target.prepend(self) unless @prepended
        @prepended = true
        define(entry)
        entry.wrapped = true
      end

      def unwrap(entry)
        return unless entry.wrapped

        remove_method(entry.method)
        entry.wrapped = false
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
        constant = "TP_#{@entries.keys.index(name)}"
        head = name.match?(DEFINABLE) ? "def #{name}(*args, &block)" : "define_method(#{name.inspect}) do |*args, &block|"
        body = format(@tracer.body, tp: constant, label: name.to_s.dump)
        module_eval("#{head}\n#{body}\nend", "(rutile: #{@tracer.name})", 0)
      end

      def visibility(name)
        return :private if @target.private_method_defined?(name)

        @target.protected_method_defined?(name) ? :protected : :public
      end
    end
  end
end
