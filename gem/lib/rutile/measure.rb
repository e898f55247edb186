# frozen_string_literal: true

module Rutile
  # What {Rutile.measure} declared.
  # @api private
  module Measure
    # Duration in ns, the result as text, class of the exception or nil.
    TYPES = [Integer, String, String].freeze
    private_constant :TYPES

    @points = {}.freeze

    class << self
      # @param name [String, Symbol] "NAME" or "PROVIDER:NAME"
      # @return [Tracepoint]
      def point(name)
        @points[name] || declare(name)
      end

      # @return the block's value
      def run(point)
        start = Rutile.nsec
        error = nil
        result = yield
      rescue Exception => e # rubocop:disable Lint/RescueException
        error = e.class
        raise
      ensure
        duration = Rutile.nsec - start
        point.fire { [duration, Tracer::Helpers.describe(result), error && Tracer::Helpers.module_name(error)] }
      end

      private

      def declare(name)
        provider, _, event = name.to_s.rpartition(':')
        Rutile.exclusively do
          point = Tracepoint.new(provider.empty? ? 'measure' : provider, event, *TYPES)
          # A new Hash, so that other threads may read the old one meanwhile.
          @points = @points.merge(name.is_a?(String) ? -name : name => point).freeze
          point
        end
      end
    end
  end

  # Measures a block while it is traced; otherwise it only calls it.
  #
  #     Rutile.measure(:pay) { gateway.charge(order) }            # measure:pay
  #     Rutile.measure('checkout:pay') { gateway.charge(order) }  # checkout:pay
  #
  # The tracepoint fires (duration in ns, the result as text, class of the exception or nil), however the block
  # ends. The duration is the first value, so `bpftrace -e 'usdt::checkout:pay { @ = hist(arg0); }'` is its
  # distribution.
  #
  # @param name [String, Symbol] a constant: each name is declared once and stays
  # @return the block's value
  def self.measure(name, &block)
    point = Measure.point(name)
    return yield unless point.enabled?

    Measure.run(point, &block)
  end
end
