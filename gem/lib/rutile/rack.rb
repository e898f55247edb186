# frozen_string_literal: true

require 'rutile/static_tracing'
require 'rutile/rack/route'
require 'rutile/active_support/status'

module Rutile
  # A Rack middleware:
  #
  #     require 'rutile/rack'
  #     use Rutile::Rack
  #
  # Tracepoints of the provider "rack":
  # request_begin(method, path, request id) and
  # request_end(method, route, status, duration in ns, request id).
  #
  # The route is the pattern that Rails, Sinatra or Grape matched ("/carts/:id"), otherwise the path of the
  # request. The duration ends when the application returns; what a server streams afterwards is not in it.
  # While spans are traced each request is one, part of the trace that its header "traceparent" names: see
  # {Rutile.span}.
  # A request that ends by an exception has the status that Rails answers this exception with, otherwise 500.
  class Rack
    # @return [Rutile::Tracepoint]
    BEGIN_POINT = Tracepoint.new('rack', 'request_begin', String, String, String)
    # @return [Rutile::Tracepoint]
    END_POINT = Tracepoint.new('rack', 'request_end', String, String, Integer, Integer, String)

    def initialize(app)
      @app = app
    end

    # @param env [Hash] Rack's environment
    # @return [Array] what the application returned
    def call(env)
      BEGIN_POINT.fire { [env['REQUEST_METHOD'], env['PATH_INFO'], request_id(env)] }
      return @app.call(env) unless END_POINT.enabled? || Span.enabled?

      Rutile.span('request', nil, env['HTTP_TRACEPARENT']) { |span| trace(env, span) }
    end

    private

    # Applications change the method and the path on their way, as Rails does to render an error.
    def trace(env, span)
      method, script, path = env.values_at('REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO')
      start = Rutile.nsec
      error = nil
      response = @app.call(env)
    rescue Exception => e # rubocop:disable Lint/RescueException
      error = e.class
      raise
    ensure
      finish(env, span, Rutile.nsec - start, [method, script, path], response, error)
    end

    def finish(env, span, duration, request, response, error)
      route = Route.of(env, *request)
      code = status(response, error)
      span.name = "#{request[0]} #{route}"
      span[:status] = code
      END_POINT.fire { [request[0], route, code, duration, request_id(env)] }
    rescue StandardError => e # not a valid response: left to the server
      Rutile.debug("rack: #{e.message} (#{e.class})")
    end

    # Of a request that was left by a throw there is neither.
    def status(response, error)
      response ? response[0].to_i : Status.of_exception(error && Tracer::Helpers.module_name(error))
    end

    def request_id(env)
      env['action_dispatch.request_id'] || env['HTTP_X_REQUEST_ID']
    end
  end
end
