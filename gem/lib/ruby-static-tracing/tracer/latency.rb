# frozen_string_literal: true

module StaticTracing
  module Tracer
    # See {Rutile::Tracer::Latency}.
    class Latency < Base
      set_body <<~'RUBY'
        rutile_start = ::Rutile.nsec
        begin
          super(*args, &block)
        ensure
          %<tp>s.fire(%<label>s, ::Rutile.nsec - rutile_start)
        end
      RUBY
      set_tracepoint_data_types(String, Integer)
    end
  end
end
