# frozen_string_literal: true

require 'rutile/version'

# Static tracepoints in Ruby code: named, typed, free until they are traced.
#
#     require 'rutile/static_tracing'
#
#     PAID = Rutile::Tracepoint.new('checkout', 'paid', Integer, Float)
#     ...
#     PAID.fire { [order.id, order.total] }   # the block runs only while traced
#
# From outside: `bpftrace -p PID -e 'usdt::checkout:paid { ... }'`, or any tool that knows USDT, or
# `rutile tracepoints PID`.
#
# The environment decides before any code does:
# RUTILE_TRACEPOINTS=on (default), off, signal, signal:NAME, or a list of PROVIDER:NAME globs;
# RUTILE_CONTROL=off keeps `rutile tracepoints` out; RUTILE_DEBUG=1 says on standard error why
# tracing is not possible here.
module Rutile
  # What every error class of the gem, except those that the old gem based on StandardError, is.
  BaseError = Class.new(StandardError)

  @lock = Mutex.new
  @enabled = nil

  class << self
    # Switches all providers on, also those that are made later, and the tracers that were added to the
    # {Configuration}.
    # @return [true]
    def enable!
      Tracers.enable!
      Provider.send(:native_all_enabled=, true)
      Provider.enable!
      @enabled = true
    end

    # Hides all tracepoints, also those that are declared later in other providers, and switches the tracers
    # off that were added to the {Configuration}, which restores the methods they wrapped.
    # @return [false]
    def disable!
      Tracers.disable!
      Provider.send(:native_all_enabled=, false)
      Provider.disable!
      @enabled = false
    end

    # Whether {enable!} was called last. Tracepoints are visible without it: see {Configuration#mode}.
    def enabled?
      @enabled ? true : false
    end

    # What {enable!} and {disable!} said last; nil: nothing.
    # @api private
    def switched
      @enabled
    end

    # {enable!} or {disable!}, whichever changes something.
    def toggle_tracing!
      enabled? ? disable! : enable!
    end

    # @yieldparam config [Configuration]
    def configure
      yield Configuration.instance
    end

    # Prints a message on standard error, once, if RUTILE_DEBUG is set.
    # @api private
    def debug(message)
      say(message) if ENV['RUTILE_DEBUG']
    end

    # Prints a message on standard error, once.
    # @api private
    def say(message)
      return warn("rutile: #{message}") unless main_ractor?

      @said ||= {}
      return if @said[message]

      @said[message] = true
      warn("rutile: #{message}")
    end

    # Whether the caller may use what the main ractor alone may: class variables, unshareable objects.
    # @api private
    def main_ractor?
      !defined?(::Ractor) || ::Ractor.current.equal?(::Ractor.main)
    end

    # Whether an exception is meant for the application, although code raised it that runs only while
    # traced: it ends the program, or Timeout raised it from another thread.
    # @api private
    def for_application?(error)
      case error
      when SystemExit, SignalException, NoMemoryError then true
      else
        defined?(::Timeout::Error) &&
          (::Timeout::Error === error || (defined?(::Timeout::ExitException) && ::Timeout::ExitException === error)) # rubocop:disable Style/CaseEquality
      end
    end

    # Runs a block while no other thread does so. Also in a signal handler, where Ruby forbids to wait
    # for a lock, and in a postponed job, which may have interrupted the holder.
    # @api private
    def exclusively(&block)
      return yield if @lock.owned?

      begin
        @lock.lock
      rescue ThreadError
        return yield
      end
      begin
        block.call
      ensure
        @lock.unlock
      end
    end
  end
end

require 'rutile/extension'
require 'rutile/provider'
require 'rutile/tracepoint'
require 'rutile/configuration'
require 'rutile/tracer'
require 'rutile/tracers'
require 'rutile/measure'
require 'rutile/control'

Rutile::Control.start
# Otherwise the signal would end the process.
Rutile::Configuration.instance if Rutile::Configuration.environment.signal
