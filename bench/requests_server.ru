# SPDX-License-Identifier: MIT
# The server of bench/requests.py: the sample application with the profiler that BENCH_PROFILER names, or, where it names
# none at all, an application that only answers.
profiler = ENV.fetch("BENCH_PROFILER", nil)
if profiler
  require_relative "app"
  app = Shop::App
else
  app = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello\n"]] }
end

case profiler
when "stackprof"
  require "stackprof"
  use(Class.new do
    def initialize(app)
      @app = app
    end

    # Started in each worker, by its first request, and left on.
    def call(env)
      @started ||= StackProf.start(mode: :wall, interval: 1000)
      @app.call(env)
    end
  end)
when "ruby-prof"
  require "ruby-prof"
  use(Class.new do
    def initialize(app)
      @app = app
    end

    def call(env)
      answer = nil
      RubyProf::Profile.new(include_threads: [Thread.current]).profile { answer = @app.call(env) }
      answer
    end
  end)
end
run app
