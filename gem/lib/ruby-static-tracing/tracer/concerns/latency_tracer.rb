# frozen_string_literal: true

require 'ruby-static-tracing'

module StaticTracing
  module Tracer
    # Modules to include.
    module Concerns
      # Registers the public methods that a class has when it includes this.
      module Latency
        # @api private
        def self.included(base)
          StaticTracing::Tracer::Latency.register(base, base.public_instance_methods(false))
        end
      end
    end
  end
end
