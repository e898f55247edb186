# frozen_string_literal: true

require 'rutile/static_tracing'

module Rutile
  # A middleware of Faraday that makes each request a span and passes it on by its header "traceparent":
  #
  #     require 'rutile/faraday'
  #     Faraday.new(url) { |connection| connection.use Rutile::Faraday }
  class Faraday
    def initialize(app, _options = nil)
      @app = app
    end

    # @param env [Hash] Faraday's environment
    def call(env)
      return @app.call(env) unless Span.enabled?

      Rutile.span("#{env[:method].to_s.upcase} #{env[:url]&.host}") do |span|
        env[:request_headers]['traceparent'] = span.traceparent
        @app.call(env).tap { |response| span[:status] = response.status if response.respond_to?(:status) }
      end
    end
  end
end
