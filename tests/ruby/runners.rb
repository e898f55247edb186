# What test_requests.sh records: Grape, Delayed Job, and classes of the shape of Falcon's, GoodJob's and Resque's, which Debian 12
# does not have.
require "active_record"
require "active_job"
require "delayed_job"
require "delayed_job_active_record"
require "grape"
require "rack/mock"

ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:")
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table :delayed_jobs do |t|
    t.integer :priority, :attempts, default: 0
    t.text :handler, :last_error
    t.datetime :run_at, :locked_at, :failed_at
    t.string :locked_by, :queue
    t.timestamps null: true
  end
end
ActiveJob::Base.logger = nil
Delayed::Worker.logger = nil

class Api < Grape::API
  format :json
  rescue_from(:all) { error!("broken", 500) }
  get("/orders/:id") { { id: params[:id] } }
  get("/broken") { raise ArgumentError, "on purpose" }
end

# Since Falcon 0.49 the parameters are (...). As other servers do, it raises and rescues on its own while it answers.
eval <<'SERVER', nil, "/usr/lib/falcon/server.rb", 1
module Falcon
  class Server
    Request = Struct.new(:env)
    Response = Struct.new(:env)
    def call(...) = answer(...)

    def answer(request)
      status, = Api.call(Rack::MockRequest.env_for(request.instance_variable_get(:@path)))
      Queue.new.pop(true) rescue ThreadError
      Response.new.tap { |r| r.instance_variable_set(:@status, status) }
    end
  end
end
SERVER

# Passenger rescues what the application raises, and returns false.
module PhusionPassenger
  module Rack
    module ThreadHandlerExtension
      def process_request(env, _connection, _wrapper, _full)
        begin
          status, headers, = @app.call(env)
        rescue => e
          @rescued = e
          return false
        end
        @sent = [status, headers]
        false
      end
    end
  end
end
class Handler
  include PhusionPassenger::Rack::ThreadHandlerExtension
  def initialize(app) = @app = app
end

Mailing = Struct.new(:to)
class Mailing
  def perform = to == "nobody" ? raise(IOError, "on purpose") : to
end
class Report < ActiveJob::Base
  def perform(fails) = fails && raise(KeyError, "on purpose")
end

module GoodJob
  Result = Class.new { def initialize(handled, unhandled) = (@handled_error, @unhandled_error = handled, unhandled) }
  class Job
    def perform(lock_id:, job:)
      [lock_id].map do
        result = begin
          ActiveJob::Base.execute(job)
          Result.new(nil, nil)
        rescue StandardError => e
          Result.new(nil, e)
        end
        break result
      end
    end
  end
end

module Resque
  class Job
    def initialize(payload) = @payload = payload

    def perform
      @payload["class"] == "Broken" ? raise(FloatDomainError, "on purpose") : true
    rescue Object => e
      @failed = e
      raise e
    end
  end
end

serve = lambda do |path|
  request = Falcon::Server::Request.new
  request.instance_variable_set(:@method, "GET")
  request.instance_variable_set(:@path, path)
  Falcon::Server.new.call(request)
end
resque = lambda do |payload|
  Resque::Job.new(payload).perform
rescue FloatDomainError
  nil
end

begin_work
serve["/orders/17"]
serve["/broken"]
pass = { "REQUEST_METHOD" => "PUT", "PATH_INFO" => "/a", "HTTP_X_REQUEST_ID" => "r1" }
Handler.new(->(_) { [204, { "X-Request-Id" => "r2" }, []] }).process_request(pass, nil, nil, true)
Handler.new(->(_) { raise RangeError, "on purpose" }).process_request(pass, nil, nil, true)
Delayed::Job.enqueue(Mailing.new("somebody"))
Delayed::Job.enqueue(Mailing.new("nobody"))
Delayed::Worker.new(quiet: true).work_off(2)
GoodJob::Job.new.perform(lock_id: 1, job: Report.new(false).serialize)
GoodJob::Job.new.perform(lock_id: 1, job: Report.new(true).serialize)
resque[{ "class" => "Mailer", "args" => [1] }]
resque[{ "class" => "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper", "args" => [{ "job_class" => "Report" }] }]
resque[{ "class" => "Broken" }]
