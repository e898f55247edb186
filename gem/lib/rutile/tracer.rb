# frozen_string_literal: true

require 'rutile/tracer/helpers'
require 'rutile/tracer/wrapping'
require 'rutile/tracer/base'
require 'rutile/tracer/latency'
require 'rutile/tracer/stack'
require 'rutile/tracer/arguments'
require 'rutile/tracer/exceptions'
require 'rutile/tracer/allocations'

module Rutile
  # Tracers put tracepoints around methods. Nothing is changed until one is enabled, by code or from
  # outside, and nothing remains changed after it was disabled.
  #
  #     Rutile::Tracer::Latency.register(Shop::Cart, :add, :total)
  #     Rutile::Tracer::Exceptions.register_namespace(Shop)
  #     Rutile::Tracer::Latency.enable!          # or: rutile tracepoints PID --enable 'shop_cart:*'
  module Tracer
    @wrappings = []
    @managed = {}.compare_by_identity

    class << self
      # Every wrapping of every tracer.
      # @api private
      attr_reader :wrappings

      # Whether enabling a provider is to show this tracepoint: not if it needs a method to be wrapped,
      # and that is not.
      # @api private
      def shows?(tracepoint)
        entry = @managed[tracepoint]
        entry.nil? || entry.wrapped
      end

      # @api private
      def manage(entry)
        @managed[entry.tracepoint] = entry
      end
    end
  end
end
