# frozen_string_literal: true

module StaticTracing
  module Tracer
    # See {Rutile::Tracer::Stack}.
    class Stack < Base
      set_body <<~'RUBY'
        rutile_stack = %<tp>s.enabled? ? ::Rutile::Tracer::Helpers.stack(::Kernel.caller(1)) : ''
        %<tp>s.fire(%<label>s, rutile_stack)
        super(*args, &block)
      RUBY
      set_tracepoint_data_types(String, String)
    end
  end
end
