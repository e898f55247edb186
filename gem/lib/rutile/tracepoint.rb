# frozen_string_literal: true

module Rutile
  # One named moment of a program, with typed values. {#fire} and {#enabled?} are in C: while nothing
  # traces they cost what the call of an empty method costs.
  #
  # A tracepoint is frozen and may be declared and used by any thread and any ractor. In other ractors than
  # the main one only the tracepoint itself is there: {#provider}, {fetch} and the class {Provider} belong to
  # the main one, which knows the tracepoints of all.
  class Tracepoint
    # There is no tracepoint of that name.
    class TracepointMissingError < StandardError; end

    # A value that does not fit its declaration (strict tracepoints only).
    class InvalidArgumentError
      # @param argument [Object] what was given
      # @param expected_type [Class]
      def initialize(argument, expected_type)
        given = Kernel.instance_method(:class).bind(argument).call # also of a BasicObject
        super("the tracepoint was declared with #{expected_type}, but #{given} was given")
      end
    end

    # An argument's declared type is none of those that can be, or the arguments are too many.
    class InvalidArgType; end

    # What an argument may be declared as.
    VALID_ARGS_TYPES = [Integer, Float, String, Symbol, TrueClass, FalseClass, NilClass].freeze

    class << self
      # @param provider [String] the provider's name
      # @param name [String, Symbol]
      # @return [Tracepoint]
      # @raise [Provider::ProviderMissingError, TracepointMissingError]
      def fetch(provider, name)
        provider_class.fetch(provider).tracepoints.fetch(name.to_s) do
          raise self::TracepointMissingError, "no tracepoint #{provider}:#{name}"
        end
      end

      # @api private
      def provider_class
        Provider
      end
    end

    # Declares a tracepoint, and its provider if there is none of that name. The same declaration again
    # gives another object for the same tracepoint; with other types it replaces the tracepoint, and the
    # object of the old one is never seen again.
    #
    # @param provider_name [String, Symbol]
    # @param name [String, Symbol]
    # @param types [Array<Class>] at most 12 of {VALID_ARGS_TYPES}
    # @param strict [Boolean] raise at {#fire} if the values do not fit, traced or not
    # @param names [Array<String, Symbol>, nil] what recordings of `rutile record` call the values; other
    #   tracers know them by number
    # @raise [InvalidArgType] for a type that cannot be, or too many
    # @raise [ArgumentError] for a name that tracers could not read
    def initialize(provider_name, name, *types, strict: false, names: nil)
      provider = self.class.provider_class.register(provider_name)
      native_create(provider, provider.namespace, name.to_s.dup.freeze, types.freeze, strict)
      native_name_args(names.map(&:to_s)) if names
      provider.add_tracepoint(self)
      freeze if freeze?
      self.class.provider_class.hand_over(self) unless Rutile.main_ractor?
    end

    # @return [Provider]
    def provider
      self.class.provider_class.fetch(provider_name)
    end

    # @return [String]
    def inspect
      "#<#{self.class} #{provider_name}:#{name}(#{args.join(', ')})#{' traced' if enabled?}>"
    end

    private

    def freeze?
      true
    end
  end
end
