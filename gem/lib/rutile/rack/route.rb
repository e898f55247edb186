# frozen_string_literal: true

module Rutile
  class Rack
    # The pattern of a request's path.
    # @api private
    module Route
      # Rails says that a path may end in a format; that is no part of what the application named.
      FORMAT = '(.:format)'
      private_constant :FORMAT

      class << self
        # @param env [Hash] as the application left it
        # @param method [String] what the request was before the application changed it
        # @param script [String]
        # @param path [String]
        # @return [String, nil]
        def of(env, method, script, path)
          pattern = rails_reported(env, script) || of_rails(env, method, script, path) ||
                    of_sinatra(env['sinatra.route']) || of_grape(env['grape.routing_args'])
          pattern ? pattern.delete_suffix(FORMAT) : path
        rescue StandardError # as of an application that put something else there
          path
        end

        private

        # Sinatra's is "GET /carts/:id".
        def of_sinatra(route)
          route&.sub(/\A[A-Z]+ /, '')
        end

        def of_grape(arguments)
          arguments && arguments[:route_info]&.pattern&.origin
        end

        # Since Rails 7.1. Not of an engine, which reports only its part, nor of a page for an error, which the
        # application may route, too.
        def rails_reported(env, script)
          env['action_dispatch.route_uri_pattern'] unless failed?(env) || env['SCRIPT_NAME'].to_s != script.to_s
        end

        # Whether Rails rendered a page for an error.
        def failed?(env)
          env.key?('action_dispatch.original_path')
        end

        # Otherwise Rails keeps only what the route gave. So the routes are asked again, for one that gives
        # the same; when that was the route of an error's page, for the first one.
        def of_rails(env, method, script, path)
          given = env['action_dispatch.request.path_parameters']
          return unless given && given[:controller] && defined?(::Rails.application) && ::Rails.application

          routes = ::Rails.application.routes
          find(routes, request(env, method, script, path), given) ||
            (find(routes, request(env, method, script, path), nil) if failed?(env))
        end

        # Without what the application derived from the request it answered last, as that of an error.
        def request(env, method, script, path)
          plain = env.reject { |key, _| key.is_a?(String) && key.start_with?('action_dispatch.', 'rack.request.') }
          ::ActionDispatch::Request.new(plain.merge('REQUEST_METHOD' => method, 'SCRIPT_NAME' => script.to_s,
                                                    'PATH_INFO' => normalize(path)))
        end

        def normalize(path)
          ::ActionDispatch::Journey::Router::Utils.normalize_path(path)
        end

        def find(routes, request, given)
          path = request.path_info
          routes.router.recognize(request) do |route, parameters|
            rest = request.path_info
            request.path_info = path
            pattern = route.path.spec.to_s
            return pattern if same?(parameters, given)

            inner = mounted(route, request, rest, given)
            return "#{pattern.chomp('/')}#{inner}" if inner
          end
          nil
        end

        def same?(parameters, given)
          return parameters.key?(:controller) if given.nil?

          parameters[:controller] == given[:controller] && parameters[:action] == given[:action]
        end

        # The route within an engine that is mounted at this one.
        def mounted(route, request, rest, given)
          application = route.app.respond_to?(:app) ? route.app.app : route.app
          return if route.path.anchored || !application.respond_to?(:routes)

          find(application.routes, ::ActionDispatch::Request.new(request.env.merge('PATH_INFO' => rest)), given)
        end
      end
    end
  end
end
