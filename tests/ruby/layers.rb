# What test_requests.sh records: one call of each layer, in jobs, tasks and requests.
require "active_record"
require "action_controller"
require "active_job"
require "active_support/cache"
require "mail"
require "net/http"
require "rack/mock"
require "redis"
require "sidekiq"
require "sidekiq/processor"
require "sinatra/base"
require "socket"
require "sqlite3"
require "tilt/erb"

ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:")
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:items) { |t| t.string :name } }
ActiveJob::Base.logger = nil
class Item < ActiveRecord::Base; end
Item.first

class ItemsController < ActionController::Base
  def show
    Item.where(name: "secret").to_a
    render inline: "<%= 1 + 1 %>"
  end
end

class Pages < Sinatra::Base
  set :environment, :production
  set :protection, false
  get("/hello/:name") { "hello" }
end

# As a server calls it.
module Falcon
  class Server
    Request = Struct.new(:env)
    def call(request)
      @response = APPS[request.instance_variable_get(:@path)].call(Rack::MockRequest.env_for(request.instance_variable_get(:@path)))
    end
  end
end
APPS = { "/items/1" => ItemsController.action(:show), "/hello/x" => Pages }.freeze

class Failing < ActiveJob::Base
  def perform = raise(IndexError, "on purpose")
end
class Outer < ActiveJob::Base
  self.queue_adapter = :inline
  def perform = Inner.perform_later
end
class Inner < ActiveJob::Base
  self.queue_adapter = :inline
  def perform = Item.create!(name: "secret")
end
class HardWorker
  include Sidekiq::Worker
  def perform = nil
end

class Calls < ActiveJob::Base
  def perform(web, red)
    Net::HTTP.get(URI("http://user:secret@127.0.0.1:#{web}/secret?y=z"))
    redis = Redis.new(port: red)
    redis.set("secret", "b")
    redis.pipelined { |p| p.get("secret") }
    cache = ActiveSupport::Cache::MemoryStore.new
    cache.fetch("views/items/17-2026") { 1 }
    db = SQLite3::Database.new(":memory:")
    db.execute("select 'secret', 17")
    begin
      db.execute("select * from nothing")
    rescue SQLite3::SQLException
      nil
    end
    mail = Mail.new(from: "a@b", to: "c@d", body: "x")
    mail.delivery_method :test
    mail.deliver
    File.write("page.erb", "<%= 1 %>")
    Tilt::ERBTemplate.new("page.erb").render
  end
end

# serve { |connection| }: the port of a server that does this.
def server
  socket = TCPServer.new("127.0.0.1", 0)
  Thread.new { loop { Thread.new(socket.accept) { |c| yield c } } }
  socket.addr[1]
end
web = server do |c|
  nil until [nil, "\r\n"].include?(c.gets)
  c.write "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
  c.close
end
red = server do |c|
  while (line = c.gets)
    line[1..].to_i.times { 2.times { c.gets } }
    c.write "+OK\r\n"
  end
end
get = lambda do |path|
  request = Falcon::Server::Request.new
  request.instance_variable_set(:@method, "GET")
  request.instance_variable_set(:@path, path)
  Falcon::Server.new.call(request)
end

begin_work
get["/items/1"]
get["/hello/x"]
begin
  Failing.perform_now
rescue IndexError
  nil
end
Outer.perform_now
processor = Sidekiq::Processor.new(nil, fetch: nil)
Sidekiq.logger.level = Logger::FATAL
processor.send(:dispatch, { "class" => "HardWorker", "jid" => "j1" }, "default", "{}", &:perform)
Calls.perform_now(web, red)
