# frozen_string_literal: true

module Rutile
  module Tracer
    # What a method is called with: fires (method, the arguments as text). The text is cut to a readable
    # length and made without calling the application's code: objects of its classes show their class only.
    class Arguments < Base
      set_body <<~'RUBY'
        %<tp>s.fire(%<label>s, ::Rutile::Tracer::Helpers.describe_call(args)) if %<tp>s.enabled?
        super(*args, &block)
      RUBY
      set_tracepoint_data_types(String, String)
    end
  end
end
