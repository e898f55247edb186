# frozen_string_literal: true

require 'net/http'
require 'rutile/static_tracing'

module Rutile
  # Requests of Net::HTTP as spans, passed on to the server:
  #
  #     require 'rutile/net_http'
  #     Rutile::NetHTTP.install
  #
  # While spans are traced each request is one, and has its header "traceparent".
  module NetHTTP
    # Prepended to Net::HTTP.
    # @api private
    module Requests
      # A connection that was not opened opens itself and calls this again.
      def request(request, body = nil, &block)
        return super unless Span.enabled? && started?

        Rutile.span("#{request.method} #{address}") do |span|
          request['traceparent'] = span.traceparent
          super(request, body, &block).tap { |response| span[:status] = response.code.to_i }
        end
      end
    end

    # Prepends to Net::HTTP what makes its requests spans. A second call does nothing.
    # @return [nil]
    def self.install
      ::Net::HTTP.prepend(Requests)
      nil
    end
  end
end
