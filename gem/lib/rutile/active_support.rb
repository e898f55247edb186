# frozen_string_literal: true

require 'rutile/static_tracing'

module Rutile
  # What Rails says through ActiveSupport::Notifications, as tracepoints:
  #
  #     require 'rutile/active_support'
  #     Rutile::ActiveSupport.install
  #
  # Tracepoints of the provider "rails", each with its duration in ns last:
  # sql(name, statement, cached), render(kind, file), cache(operation, key, hit), job(operation, class, id,
  # queue), action(controller, action, status).
  module ActiveSupport
    # One kind of notification: which, as which tracepoint, with which values of its payload.
    Event = Struct.new(:pattern, :tracepoint, :values)

    # Ends a name like "sql.active_record" before its dot.
    WHAT = ->(name) { name[/\A[^.]+/] }
    private_constant :WHAT

    # What is subscribed to.
    EVENTS = [
      Event.new(/\Asql\.active_record\z/, Tracepoint.new('rails', 'sql', String, String, TrueClass, Integer),
                ->(_, load) { [load[:name].to_s, load[:sql].to_s, load[:cached] ? true : false] }),
      Event.new(/\Arender_\w+\.action_view\z/, Tracepoint.new('rails', 'render', String, String, Integer),
                ->(name, load) { [WHAT[name], load[:identifier].to_s] }),
      Event.new(/\Acache_\w+[?!]?\.active_support\z/, Tracepoint.new('rails', 'cache', String, String, TrueClass, Integer),
                ->(name, load) { [WHAT[name], load[:key].to_s, load[:hit] ? true : false] }),
      Event.new(/\A(?:enqueue|enqueue_at|perform)\.active_job\z/,
                Tracepoint.new('rails', 'job', String, String, String, String, Integer),
                lambda { |name, load|
                  job = load[:job]
                  [WHAT[name], job.class.name.to_s, job.job_id.to_s, job.queue_name.to_s]
                }),
      Event.new(/\Aprocess_action\.action_controller\z/,
                Tracepoint.new('rails', 'action', String, String, Integer, Integer),
                ->(_, load) { [load[:controller].to_s, load[:action].to_s, load[:status].to_i] })
    ].freeze

    # Gets the begin and the end of each notification. While nobody traces it remembers that, nothing
    # else.
    # @api private
    class Subscriber
      def initialize(event)
        @event = event
        @key = :"rutile_#{event.tracepoint.name}"
      end

      def start(_name, _id, _payload)
        stack = (Thread.current[@key] ||= [])
        stack << (@event.tracepoint.enabled? ? Rutile.nsec : nil)
      end

      def finish(name, _id, payload)
        start = Thread.current[@key]&.pop
        return unless start

        duration = Rutile.nsec - start
        @event.tracepoint.fire { @event.values.call(name, payload) << duration }
      end
    end

    class << self
      # Subscribes to the notifications; a second call does nothing.
      def install
        @subscribers ||= EVENTS.map do |event|
          ::ActiveSupport::Notifications.subscribe(event.pattern, Subscriber.new(event))
        end
        nil
      end

      # Unsubscribes.
      def uninstall
        @subscribers&.each { |subscriber| ::ActiveSupport::Notifications.unsubscribe(subscriber) }
        @subscribers = nil
      end
    end
  end
end
