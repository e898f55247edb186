# frozen_string_literal: true

module Rutile
  module ActiveSupport
    # Gets the begin and the end of each notification that is traced, and fires its tracepoint.
    # @api private
    class Subscriber
      def initialize(event)
        @event = event
        @key = :"rutile_#{object_id}"
      end

      # The tracepoints that a notification of this name needs it for.
      # @return [Array<Tracepoint>]
      def gates(_name)
        [@event.tracepoint]
      end

      # Asked by ActiveSupport since 7.1.
      def silenced?(name)
        gates(name).none?(&:enabled?)
      end

      def start(name, _id, payload)
        return if silenced?(name)

        (Thread.current[@key] ||= []) << [payload, name, Rutile.nsec]
      end

      def finish(name, _id, payload)
        begun = Thread.current[@key]
        return if begun.nil? || begun.empty?

        at = position(begun, name, payload) or return
        start = begun[at][2]
        begun.slice!(at..-1) # those above never ended: tracing was switched off meanwhile
        report(name, payload, Rutile.nsec - start)
      end

      # A notification without a block that says itself when it began and ended.
      def publish(name, *args)
        return if silenced?(name)

        start, finish, _id, payload = args
        timed = [start, finish].all? { |time| Time === time || Numeric === time } # rubocop:disable Style/CaseEquality
        report(name, payload || {}, timed ? ((finish - start) * 1e9).to_i : 0)
      end

      private

      # A notification that began before it was traced has no entry.
      def position(begun, name, payload)
        begun.rindex { |entry| entry[0].equal?(payload) } || (begun.size - 1 if begun.last[1] == name)
      end

      def report(name, payload, duration)
        @event.tracepoint.fire { @event.values.call(name, payload) << duration }
      end
    end

    # Before Rails 7.1 a transaction is known by its statements only: "rails:transaction" is fired from them.
    # The time of its begin is kept by the thread.
    # @api private
    class TransactionSubscriber < Subscriber
      BEGINNING = /\A\s*(?:BEGIN|START TRANSACTION)/i.freeze
      ENDING = /\A\s*(COMMIT|ROLLBACK)(?!.*\bTO\b)/i.freeze
      private_constant :BEGINNING, :ENDING

      private

      def report(_name, payload, duration)
        return if defined?(::ActiveRecord::ConnectionAdapters::TransactionInstrumenter)

        begun = (Thread.current[@key_of_begin ||= :"#{@key}_begin"] ||= {}.compare_by_identity)
        case payload[:sql]
        when BEGINNING then begun[payload[:connection]] = Rutile.nsec - duration
        when ENDING
          outcome = Regexp.last_match(1).downcase
          start = begun.delete(payload[:connection])
          @event.tracepoint.fire(outcome, Rutile.nsec - start) if start
        end
      end
    end
  end
end
