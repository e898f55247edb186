# frozen_string_literal: true

require 'rutile/static_tracing'
require 'rutile/active_support/status'
require 'rutile/active_support/events'
require 'rutile/active_support/subscriber'
require 'rutile/active_support/trace'
require 'rutile/active_support/cache'

module Rutile
  # What Rails reports through ActiveSupport::Notifications, as tracepoints:
  #
  #     require 'rutile/active_support'
  #     Rutile::ActiveSupport.install
  #
  # Tracepoints of the provider "rails", each with its duration in ns last:
  # sql(name, statement, cached), render(kind, file), cache(operation, key, hit), job(operation, class, id,
  # queue), action(controller, action, status), transaction(outcome), mail(operation, mailer, action or
  # message id), cable(operation, channel or broadcasting, action), storage(operation, service, key).
  #
  # Any other notification becomes a tracepoint of the provider "notifications" on request:
  #
  #     Rutile::ActiveSupport.trace 'checkout.paid'                    # notifications:checkout_paid
  #     Rutile::ActiveSupport.trace 'checkout.paid', order: Integer    # with this value of its payload
  #     Rutile::ActiveSupport.trace '*.checkout'                       # each name that matches
  #
  # A notification with an untraced tracepoint costs what it costs without the gem: see
  # rutile/active_support/cache.rb.
  module ActiveSupport
    @subscribers = {}.compare_by_identity
    @installed = nil

    class << self
      # Subscribes to the notifications of Rails. A second call does nothing.
      # @return [nil]
      def install
        return if @installed

        @installed = true
        EVENTS.each { |event| subscribe(event.pattern, Subscriber.new(event)) }
        subscribe(STATEMENTS.pattern, TransactionSubscriber.new(STATEMENTS))
        nil
      end

      # Makes a notification, or all that match a pattern, a tracepoint of the provider "notifications". The
      # tracepoint of "checkout.paid" is checkout_paid, with the values
      # (name, payload as text, class of the exception or nil, duration in ns); with keys of the payload and
      # their types, those values in this order and the duration. Each name that matches a pattern gets a
      # tracepoint when it first occurs.
      #
      # @param pattern [String, Regexp] a name, a name with `*` for any text, or an expression
      # @param as [String, Symbol, nil] one tracepoint of this name for all that match
      # @param types [Hash{Symbol => Class}] keys of the payload and what their values are declared as
      # @return [Tracepoint, nil] nil for a pattern without `as`
      # @raise [Tracepoint::InvalidArgType]
      def trace(pattern, as: nil, **types)
        Trace.new(pattern, as, types).tap { |trace| subscribe(trace.pattern, trace) }.tracepoint
      end

      # Unsubscribes from everything.
      # @return [nil]
      def uninstall
        require 'active_support/core_ext/object/try' # which ActiveSupport 6.0 uses without requiring it
        @subscribers.each_key { |subscription| ::ActiveSupport::Notifications.unsubscribe(subscription) }
        @subscribers.clear
        @installed = nil
      end

      # The list of listeners to a notification as the notifier is to remember it.
      # @param name [String]
      # @param listeners [Array] of ActiveSupport's objects
      # @return [Listeners, Array]
      # @api private
      def filter(name, listeners)
        ours, others = listeners.partition { |listener| @subscribers.key?(listener) }
        return listeners if ours.empty?

        Listeners.new(others, listeners, ours.flat_map { |listener| @subscribers[listener].gates(name) })
      rescue StandardError => e
        Rutile.say("notification #{name}: #{e.message} (#{e.class})")
        listeners
      end

      private

      def subscribe(pattern, subscriber)
        notifier = ::ActiveSupport::Notifications.notifier
        Cache.install(notifier)
        # Known before the notifier can see it.
        Rutile.exclusively do
          subscription = notifier.subscribe(pattern, subscriber)
          @subscribers[subscription] = subscriber
        end
        Cache.clear(notifier)
      end
    end
  end
end
