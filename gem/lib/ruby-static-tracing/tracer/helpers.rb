# frozen_string_literal: true

module StaticTracing
  # See {Rutile::Tracer}.
  module Tracer
    # See {Rutile::Tracer::Helpers}.
    Helpers = Rutile::Tracer::Helpers
  end
end
