# frozen_string_literal: true

module StaticTracing
  # A {Rutile::Tracepoint} that raises at {#fire} if the values do not fit, and that is not frozen.
  class Tracepoint < Rutile::Tracepoint
    class << self
      # @api private
      def provider_class
        Provider
      end
    end

    # @param provider_name [String]
    # @param name [String]
    # @param args [Array<Class>]
    def initialize(provider_name, name, *args)
      super(provider_name, name, *args, strict: true)
      StaticTracing.issue_disabled_tracepoints_warning unless Platform.supported_platform?
    end

    private

    def freeze?
      false
    end
  end
end
