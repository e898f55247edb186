# frozen_string_literal: true

module StaticTracing
  # A {Rutile::Provider} that is off until it is enabled.
  class Provider < Rutile::Provider
    class << self
      # @api private
      def auto_enable?
        false
      end

      # @api private
      def tracepoint_class
        Tracepoint
      end
    end

    # @return [String]
    attr_writer :name

    # (see Rutile::Provider#namespace)
    def name
      @name || namespace
    end
  end
end
