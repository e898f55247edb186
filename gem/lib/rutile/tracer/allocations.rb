# frozen_string_literal: true

module Rutile
  module Tracer
    # How many objects Ruby allocates during a call: fires (method, number). Ruby counts per process, so
    # the number includes what other threads allocate meanwhile.
    class Allocations < Base
      set_body <<~'RUBY'
        return super(*args, &block) unless %<tp>s.enabled?
        rutile_before = ::GC.stat(:total_allocated_objects)
        begin
          super(*args, &block)
        ensure
          %<tp>s.fire(%<label>s, ::GC.stat(:total_allocated_objects) - rutile_before)
        end
      RUBY
      set_tracepoint_data_types(String, Integer)
    end
  end
end
