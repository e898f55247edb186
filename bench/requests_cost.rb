# SPDX-License-Identifier: MIT
# What a request and a span cost: microseconds of CPU time a turn of loops of methods that have the names of watched
# ones, best of several. The query is made by the application's own code, so the method that led to it is found at once.
module Puma
  module Request
    def handle_request(client, lines)
      env = client.env
      status = 200
      headers = { "Content-Length" => "17" }
      yield env, lines
      [status, headers].size
    end
  end
end

module Sequel
  class Database
    def log_connection_yield(sql, _conn)
      sql
    end
  end
end

class Client
  attr_reader :env

  def initialize
    @env = { "REQUEST_METHOD" => "GET", "REQUEST_PATH" => "/items/17", "PATH_INFO" => "/items/17", "HTTP_HOST" => "x",
             "HTTP_X_REQUEST_ID" => "0c9d8a52-5f0e-4b6e-9a53-2f0a1c7b4d11" }
  end
end

class Server
  include Puma::Request
end

SQL = 'SELECT "items".* FROM "items" WHERE "items"."shop_id" = 17 AND "items"."name" = \'a name\' ORDER BY "items"."id" LIMIT 20'
DB = Sequel::Database.new

def cpu_us(n)
  begin_ns = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  yield n
  (Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond) - begin_ns) / 1000.0 / n
end

server = Server.new
client = Client.new
loops = {
  "request" => ->(n) { n.times { server.handle_request(client, nil) { |_| 1 } } },
  "span" => ->(n) { n.times { DB.log_connection_yield(SQL, nil) } }
}
sleep Float(ENV.fetch("WAIT", "0"))
best = loops.transform_values { Float::INFINITY }
Integer(ENV.fetch("ROUNDS", "12")).times do
  loops.each { |name, l| best[name] = [best[name], cpu_us(Integer(ENV.fetch("N", "20000"))) { |n| l.call(n) }].min }
end
$stderr.puts "cost #{best.map { |name, us| format("%s %.3f", name, us) }.join(" ")}"
