# frozen_string_literal: true

module StaticTracing
  module Tracer
    # A {Rutile::Tracer::Base} that names tracepoints like the methods, and takes methods
    # which are not defined yet.
    class Base < Rutile::Tracer::Base
      class << self
        include Helpers

        private

        def provider_class
          Provider
        end

        # Two tracers of one method cannot both have its name when their values differ.
        def tracepoint_name(method, provider = nil)
          taken = provider&.tracepoints&.fetch(Helpers.shorten(method.to_s), nil)
          taken && taken.args != tracepoint_data_types ? super(method) : Helpers.shorten(method.to_s)
        end

        def answers?(_klass, _method)
          true
        end
      end
    end
  end
end
