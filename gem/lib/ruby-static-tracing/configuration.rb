# frozen_string_literal: true

module StaticTracing
  # A {Rutile::Configuration} whose mode is SIGNAL until another is set.
  class Configuration < Rutile::Configuration
    private

    def facade
      StaticTracing
    end

    def initial_mode
      Modes::SIGNAL
    end
  end
end
