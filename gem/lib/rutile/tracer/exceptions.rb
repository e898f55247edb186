# frozen_string_literal: true

module Rutile
  module Tracer
    # What leaves a method by exception: fires (method, class of the exception, message, where it was
    # raised). The exception propagates unchanged.
    class Exceptions < Base
      set_body <<~'RUBY'
        begin
          super(*args, &block)
        rescue ::Exception => rutile_error
          ::Rutile::Tracer::Exceptions.report(%<tp>s, %<label>s, rutile_error) if %<tp>s.enabled?
          raise
        end
      RUBY
      set_tracepoint_data_types(String, String, String, String)

      # @api private
      def self.report(tracepoint, method, error)
        where = error.backtrace_locations&.first || error.backtrace&.first
        tracepoint.fire(method, Helpers.module_name(error.class).to_s, error.message.to_s, where.to_s)
      rescue Exception => e # rubocop:disable Lint/RescueException -- `message` is the application's code
        raise if Rutile.for_application?(e)

        tracepoint.fire(method, Helpers.module_name(error.class).to_s, nil, nil)
      end
    end
  end
end
