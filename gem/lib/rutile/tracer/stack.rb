# frozen_string_literal: true

module Rutile
  module Tracer
    # Who calls: fires (method, the caller's stack, one frame a line) when the method is entered.
    class Stack < Base
      set_body <<~'RUBY'
        %<tp>s.fire(%<label>s, ::Rutile::Tracer::Helpers.stack(::Kernel.caller(1))) if %<tp>s.enabled?
        super(*args, &block)
      RUBY
      set_tracepoint_data_types(String, String)
    end
  end
end
