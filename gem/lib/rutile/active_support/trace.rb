# frozen_string_literal: true

module Rutile
  module ActiveSupport
    # A notification, or a pattern of notifications, that the application asked for: see
    # {ActiveSupport.trace}.
    # @api private
    class Trace < Subscriber
      PROVIDER = 'notifications'
      # Without keys of the payload: name, payload, exception, duration.
      TYPES = [String, String, String, Integer].freeze
      # What ActiveSupport adds to the payload of a block that raised.
      ADDED = %i[exception exception_object].freeze
      private_constant :PROVIDER, :TYPES, :ADDED

      # What is subscribed to: a String or a Regexp.
      attr_reader :pattern
      # The tracepoint of all names, nil if each has its own.
      attr_reader :tracepoint

      def initialize(pattern, as, types) # rubocop:disable Lint/MissingSuper -- there is no event
        @pattern = pattern.is_a?(String) && pattern.include?('*') ? glob(pattern) : pattern
        @keys = types.keys
        @types = types.empty? ? TYPES : types.values << Integer
        @key = :"rutile_#{object_id}"
        @points = {}
        fixed = as || (@pattern if @pattern.is_a?(String))
        @tracepoint = declare(fixed.to_s) if fixed
      end

      def gates(name)
        [point(name)].compact
      end

      private

      def glob(pattern)
        /\A#{pattern.split('*', -1).map { |part| Regexp.escape(part) }.join('.*')}\z/
      end

      def declare(name)
        Tracepoint.new(PROVIDER, Tracer::Helpers.shorten(name.gsub(/[^A-Za-z0-9_]/, '_')), *@types)
      end

      # The tracepoint of a notification; nil if it cannot be declared, which is reported once.
      def point(name)
        return @tracepoint if @tracepoint

        @points.fetch(name) { Rutile.exclusively { @points[name] ||= declare(name) } }
      rescue Tracepoint::InvalidArgType, ArgumentError => e
        Rutile.say("notification #{name}: #{e.message}")
        @points[name] = nil
      end

      def report(name, payload, duration)
        point(name)&.fire do
          @keys.empty? ? [name, text(payload), exception(payload), duration] : @keys.map { |key| payload[key] } << duration
        end
      end

      def text(payload)
        return Tracer::Helpers.describe(payload) unless payload.instance_of?(Hash)

        Tracer::Helpers.describe_pairs(payload.reject { |key, _| ADDED.include?(key) })
      end

      def exception(payload)
        payload[:exception]&.first if payload.is_a?(Hash)
      end
    end
  end
end
