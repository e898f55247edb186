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
    # A class that the application reloads must be freed. The code of a wrapper refers to the class
    # whose method it called, so a wrapping is held here only until it is prepended; after that the class
    # holds it.
    @wrappings = ObjectSpace::WeakMap.new
    @waiting = {}.compare_by_identity
    @managed = ObjectSpace::WeakMap.new

    class << self
      # Every wrapping of a class that lives, of every tracer.
      # @api private
      def wrappings
        @wrappings.keys.select(&:target)
      end

      # @api private
      def add(wrapping)
        @waiting.keep_if { |waiting, _| waiting.target }
        @waiting[wrapping] = true
        @wrappings[wrapping] = wrapping
      end

      # The wrapping was prepended to its class.
      # @api private
      def prepended(wrapping)
        @waiting.delete(wrapping)
      end

      # Whether enabling a provider is to show this tracepoint: not if it needs a method to be wrapped,
      # and that is not.
      # @api private
      def shows?(tracepoint)
        entry = @managed[tracepoint]
        entry.nil? || entry.provider.wrapped?(tracepoint.name)
      end

      # @api private
      def manage(entry)
        @managed[entry.tracepoint] = entry
        entry.provider.manage(entry)
      end
    end
  end
end
