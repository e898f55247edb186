# frozen_string_literal: true

require 'rutile/static_tracing'

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
  # The route is what Rails or Sinatra matched, otherwise the path. The duration ends when the
  # application returns; what a server streams afterwards is not in it. A request that ends by an
  # exception has status 500.
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
      return @app.call(env) unless END_POINT.enabled?

      trace(env)
    end

    private

    def trace(env)
      start = Rutile.nsec
      response = @app.call(env)
    ensure
      duration = Rutile.nsec - start
      # In the block, where an error would not be the application's.
      END_POINT.fire { [env['REQUEST_METHOD'], route(env), response ? response[0].to_i : 500, duration, request_id(env)] }
    end

    def request_id(env)
      env['action_dispatch.request_id'] || env['HTTP_X_REQUEST_ID']
    end

    def route(env)
      env['action_dispatch.route_uri_pattern'] || env['sinatra.route'] || env['PATH_INFO']
    end
  end
end
