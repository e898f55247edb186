# frozen_string_literal: true

module StaticTracing
  # See {Rutile::Tracers}.
  class Tracers < Rutile::Tracers
  end
end
