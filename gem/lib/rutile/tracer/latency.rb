# frozen_string_literal: true

module Rutile
  module Tracer
    # How long each call takes, also one that ends by an exception or a throw: fires (method,
    # nanoseconds).
    class Latency < Base
      set_body <<~'RUBY'
        return super(*args, &block) unless %<tp>s.enabled?
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
