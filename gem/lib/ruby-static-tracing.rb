# frozen_string_literal: true

# The programming interface of the gem ruby-static-tracing 0.0.15, on top of Rutile. A program written
# for that gem runs unchanged: it requires the same names and finds the same classes.
#
# What differs, because it was a defect: keyword arguments, forks, subclasses, exceptions and repeated
# switching work; nothing leaks; values have the right sign; there may be 12 of them, and Floats, Symbols
# and booleans. If something else in the process handles SIGPROF, another signal toggles tracing.

begin
  require 'logger'
rescue LoadError # since Ruby 4.0 a gem, which the application's Gemfile may not have
  nil
end
require 'rutile/static_tracing'

require 'ruby-static-tracing/version'
require 'ruby-static-tracing/platform'
require 'ruby-static-tracing/provider'
require 'ruby-static-tracing/tracepoint'
require 'ruby-static-tracing/configuration'
require 'ruby-static-tracing/tracer'
require 'ruby-static-tracing/tracers'

# See {file:README.md}. Everything here is documented at its namesake in {Rutile}.
module StaticTracing
  extend self

  # What the old gem's C code raised.
  BaseError = Class.new(StandardError)
  # Never raised any more.
  USDTError = Class.new(BaseError)
  # Never raised any more.
  InternalError = Class.new(BaseError)

  # What stands in for a Logger where there is none.
  # @api private
  module PlainLogger
    %i[debug info warn error fatal unknown].each do |severity|
      define_singleton_method(severity) do |message = nil, &block|
        $stderr.puts("#{severity.upcase} -- : #{message || block&.call}") # rubocop:disable Style/StderrPuts
        true
      end
    end
  end

  # @return [Logger]
  attr_accessor :logger

  self.logger = defined?(Logger) ? Logger.new($stderr) : PlainLogger

  # Says once that nothing will be traced on this platform.
  def issue_disabled_tracepoints_warning
    return if defined?(@warning_issued)

    @warning_issued = true
    logger.info("USDT tracepoints are not supported on #{RUBY_PLATFORM}: all operations do nothing")
  end

  # The monotonic clock.
  # @return [Integer] nanoseconds
  def nsec
    Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end

  # Whether {enable!} was called last.
  def enabled?
    @enabled ? true : false
  end

  # Enables the tracers that were added to the configuration, and all providers.
  def enable!
    StaticTracing::Tracers.enable!
    StaticTracing::Provider.enable!
    @enabled = true
  end

  # Disables them.
  def disable!
    StaticTracing::Tracers.disable!
    StaticTracing::Provider.disable!
    @enabled = false
  end

  # {enable!} or {disable!}, whichever changes something.
  def toggle_tracing!
    enabled? ? disable! : enable!
  end

  # @yieldparam config [Configuration]
  def configure
    yield Configuration.instance
  end
end
