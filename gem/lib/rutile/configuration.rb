# frozen_string_literal: true

module Rutile
  # How tracing is switched on and off.
  class Configuration
    # Modes of operation.
    module Modes
      # Everything is on.
      ON = 'ON'
      # Everything is off.
      OFF = 'OFF'
      # Off until a signal comes, which toggles it.
      SIGNAL = 'SIGNAL'

      # The signals that toggle, unless told otherwise: the first that nobody else handles.
      module SIGNALS
        # The old gem's.
        SIGPROF = 'PROF'
        # Nobody uses it, and it is ignored by default.
        SIGURG = 'URG'
      end
    end

    # What the variable RUTILE_TRACEPOINTS says.
    # @api private
    class Environment
      def initialize(text)
        @text = text.to_s.strip
        @word = @text.downcase[/\A(on|off|signal)(?=\z|:)/] || (@text.empty? ? 'on' : nil)
        @globs = @word ? [] : @text.split(',').map(&:strip)
      end

      # The signal's name, '' for the default one, nil if signals were not asked for.
      def signal
        @text[/:(?:SIG)?(\w+)\z/i, 1].to_s.upcase if @word == 'signal'
      end

      # Whether providers are visible without being enabled by code.
      def auto_enable?
        @word.nil? || @word == 'on'
      end

      # Whether a tracepoint starts switched on.
      def default_on?(provider, name)
        @globs.empty? ? true : asked_for?(provider, name)
      end

      # Whether the variable names this tracepoint: tracers wrap those methods at once.
      def asked_for?(provider, name)
        @globs.any? { |glob| File.fnmatch(glob.include?(':') ? glob : "#{glob}:*", "#{provider}:#{name}") }
      end
    end

    class << self
      # @return [Configuration] the one of the process
      def instance
        @instance ||= new
      end

      # @api private
      def environment
        @@environment ||= Environment.new(ENV['RUTILE_TRACEPOINTS']) # rubocop:disable Style/ClassVars
      end
    end

    # @return [String] one of {Modes}
    attr_reader :mode
    # @return [String, nil] the name of the signal that toggles, nil if all were taken
    attr_reader :signal

    # Use {Configuration.instance}.
    # @api private
    def initialize
      @mode = initial_mode
      @signal = initial_signal
      enable_trap if @mode == Modes::SIGNAL
    end

    # @param new_mode [String] one of {Modes}
    def mode=(new_mode)
      disable_trap if @mode == Modes::SIGNAL
      @mode = new_mode
      case new_mode
      when Modes::SIGNAL then enable_trap
      when Modes::ON then facade.enable!
      when Modes::OFF then facade.disable!
      end
    end

    # @param new_signal [String] a name that Signal.trap takes
    def signal=(new_signal)
      disable_trap
      @signal = new_signal
      enable_trap
    end

    # @param tracer [Class] a subclass of {Tracer::Base}
    def add_tracer(tracer)
      facade::Tracers.add(tracer)
    end

    private

    # The module that this configuration switches.
    def facade
      Rutile
    end

    def initial_mode
      return Modes::SIGNAL if self.class.environment.signal

      self.class.environment.auto_enable? ? Modes::ON : Modes::OFF
    end

    def initial_signal
      asked = self.class.environment.signal.to_s
      return asked unless asked.empty?

      [Modes::SIGNALS::SIGPROF, Modes::SIGNALS::SIGURG].find { |name| Control.free?(name) }
    end

    def disable_trap
      return unless @signal

      Signal.trap(@signal, @previous || 'DEFAULT')
      @previous = nil
    end

    def enable_trap
      unless @signal
        Rutile.debug('no signal is free to toggle tracing: set one')
        return
      end
      @previous = Signal.trap(@signal) { facade.toggle_tracing! }
    end
  end
end
