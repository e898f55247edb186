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

      # The signals that toggle, by default: the first without a handler.
      module SIGNALS
        # The old gem's.
        SIGPROF = 'PROF'
        # It is unused, and ignored by default.
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

    @instance = nil

    class << self
      # @return [Configuration] the one of the process
      def instance
        @instance || Rutile.exclusively { @instance ||= new }
      end

      # @api private
      def environment
        return Environment.new(ENV['RUTILE_TRACEPOINTS']) unless Rutile.main_ractor?

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
    rescue ArgumentError, SystemCallError => e # the environment names no signal that can be handled: no reason to stop the application
      warn("rutile: RUTILE_TRACEPOINTS: #{e.message}")
      @signal = nil
    end

    # @param new_mode [String] one of {Modes}
    # @raise [ArgumentError] if it is none of them
    def mode=(new_mode)
      check_mode(new_mode)
      disable_trap
      @mode = new_mode
      case new_mode
      when Modes::SIGNAL then await_signal
      when Modes::ON then facade.enable!
      when Modes::OFF then facade.disable!
      end
    end

    # From now on this signal toggles, whatever the mode is.
    # @param new_signal [String] a name that Signal.trap takes
    # @raise [ArgumentError] if it does not
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

    def check_mode(mode)
      known = [Modes::ON, Modes::OFF, Modes::SIGNAL]
      raise ArgumentError, "no mode #{mode.inspect}: it has to be one of #{known.join(', ')}" unless known.include?(mode)
    end

    # What was visible by default waits for the signal, too.
    def await_signal
      facade.disable! unless facade.enabled?
      enable_trap
    end

    # Restores the signal's handler, unless another was installed meanwhile.
    def disable_trap
      return unless @trapped

      signal, handler, previous = @trapped
      @trapped = nil
      current = Signal.trap(signal, previous || 'DEFAULT')
      Signal.trap(signal, current) unless current.nil? || current.equal?(handler)
    end

    def enable_trap
      unless @signal
        Rutile.debug('no signal is free to toggle tracing: set one')
        return
      end
      handler = proc { toggle }
      @trapped = [@signal, handler, Signal.trap(@signal, handler)]
    end

    # In a signal handler an error would end the application.
    def toggle
      facade.toggle_tracing!
    rescue StandardError => e
      Rutile.debug("toggling: #{e.class}: #{e.message}")
    end
  end
end
