# frozen_string_literal: true

require 'rutile/static_tracing'

module Rutile
  # Sidekiq's jobs as tracepoints:
  #
  #     require 'rutile/sidekiq'
  #     Rutile::Sidekiq.install
  #
  # Tracepoints of the provider "sidekiq": push(class, id, queue) where a job is put into a queue;
  # job_begin(class, id, queue, latency in ns since it was put there) and
  # job_end(class, id, queue, duration in ns, class of the exception or nil) where it runs. While spans are traced
  # both are spans of one trace, which the job carries as "traceparent".
  module Sidekiq
    # A job is put into a queue.
    PUSH = Tracepoint.new('sidekiq', 'push', String, String, String)
    # A job begins to run.
    JOB_BEGIN = Tracepoint.new('sidekiq', 'job_begin', String, String, String, Integer)
    # A job ended, well or not.
    JOB_END = Tracepoint.new('sidekiq', 'job_end', String, String, String, Integer, String)

    # The name that the application gave to a job, also under ActiveJob.
    # @api private
    def self.job_class(job)
      (job['wrapped'] || job['class']).to_s
    end

    # Middleware of the client, which puts jobs into queues.
    class Client
      # @yieldreturn what Sidekiq returns
      def call(_worker_class, job, queue, _redis_pool = nil)
        PUSH.fire { [Sidekiq.job_class(job), job['jid'], queue.to_s] }
        return yield unless Span.enabled?

        Rutile.span("push #{Sidekiq.job_class(job)}") do |span|
          job['traceparent'] = span.traceparent
          yield
        end
      end
    end

    # Middleware of the server, which runs them.
    class Server
      # @yieldreturn what the job returns
      def call(_worker, job, queue, &block)
        JOB_BEGIN.fire { [Sidekiq.job_class(job), job['jid'], queue.to_s, waited(job)] }
        return yield unless JOB_END.enabled? || Span.enabled?

        Rutile.span("job #{Sidekiq.job_class(job)}", nil, job['traceparent']) { trace(job, queue, &block) }
      end

      private

      def trace(job, queue)
        start = Rutile.nsec
        error = nil
        yield
      rescue Exception => e # rubocop:disable Lint/RescueException
        error = e.class.name
        raise
      ensure
        duration = Rutile.nsec - start
        JOB_END.fire { [Sidekiq.job_class(job), job['jid'], queue.to_s, duration, error] }
      end

      # Sidekiq's times are seconds as Float, since version 8 milliseconds as Integer.
      def waited(job)
        put = job['enqueued_at']
        return 0 unless put

        now = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
        now - (put.is_a?(Integer) ? put * 1_000_000 : (put * 1e9).to_i)
      end
    end

    class << self
      # Adds the middlewares to this process, client or server.
      # @param sidekiq [Module] Sidekiq, or what has its interface
      def install(sidekiq = ::Sidekiq)
        sidekiq.configure_client { |config| client_chain(config) }
        sidekiq.configure_server do |config|
          client_chain(config)
          config.server_middleware { |chain| chain.add(Server) }
        end
      end

      private

      def client_chain(config)
        config.client_middleware { |chain| chain.add(Client) }
      end
    end
  end
end
