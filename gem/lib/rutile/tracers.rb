# frozen_string_literal: true

module Rutile
  # The tracers that {Rutile.enable!} and {Rutile.disable!} switch.
  class Tracers
    # Not a subclass of {Tracer::Base}.
    class InvalidTracerError < StandardError
      def initialize
        super('not a tracer: it has to be a subclass of Tracer::Base')
      end
    end

    class << self
      # @param tracer [Class] a subclass of {Tracer::Base}
      # @raise [InvalidTracerError]
      def add(tracer)
        raise self::InvalidTracerError unless tracer.is_a?(Class) && tracer < Tracer::Base

        tracers << tracer unless tracers.include?(tracer)
        tracers
      end

      # Wraps the methods that were registered with each tracer. A tracer that fails is reported once and
      # does not keep the others from being enabled.
      def enable!
        tracers.each do |tracer|
          tracer.enable!
        rescue StandardError => e
          Rutile.say("#{tracer.name || 'a tracer'}: #{e.message} (#{e.class})")
        end
      end

      # Unwraps them.
      def disable!
        tracers.each(&:disable!)
      end

      # Forgets all tracers, unwrapping their methods.
      def clean
        tracers.each(&:disable!)
        @tracers = []
      end

      private

      def tracers
        @tracers ||= []
      end
    end
  end
end
