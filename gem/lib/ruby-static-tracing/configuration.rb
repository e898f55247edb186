# frozen_string_literal: true

module StaticTracing
  # A {Rutile::Configuration} with the mode SIGNAL until another is set.
  class Configuration < Rutile::Configuration
    @instance = nil

    private

    def facade
      StaticTracing
    end

    def initial_mode
      Modes::SIGNAL
    end

    # The old gem took any.
    def check_mode(_mode); end

    # Providers are off until they are enabled: nothing is to be hidden.
    def await_signal
      enable_trap
    end
  end
end
