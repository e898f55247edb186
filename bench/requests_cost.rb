# SPDX-License-Identifier: MIT
# What a request and a span cost: microseconds of CPU time an iteration of loops of methods that have the names of watched
# ones, best of several. The query is made by the application's own code, so the method that led to it is found at once.
# "page" is a request with six queries of 20 rows each. Like that of an application it allocates, and most of its calls are
# of methods that nobody watches.
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

# The rows of a query, one by one, as database drivers have them.
class Result
  def initialize(count)
    @count = count
    @at = 0
  end

  def each
    while (row = self.next)
      yield row
    end
  end

  def next
    return if @at == @count

    @at += 1
    step
  end

  def step
    Array.new(4) { |column| value(column) }
  end

  def value(column)
    "row #{@at} column #{column}"
  end
end

SQL = 'SELECT "items".* FROM "items" WHERE "items"."shop_id" = 17 AND "items"."name" = \'a name\' ORDER BY "items"."id" LIMIT 20'
DB = Sequel::Database.new

def page
  6.times.sum do
    rows = []
    DB.log_connection_yield(SQL, nil)
    Result.new(20).each { |row| rows << row }
    rows.join(",").size
  end
end

def cpu_us(n)
  begin_ns = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  yield n
  (Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond) - begin_ns) / 1000.0 / n
end

server = Server.new
client = Client.new
loops = {
  "request" => ->(n) { n.times { server.handle_request(client, nil) { |_| 1 } } },
  "span" => ->(n) { n.times { DB.log_connection_yield(SQL, nil) } },
  "page" => ->(n) { (n / 100).times { server.handle_request(client, nil) { |_| page } } }
}
sleep Float(ENV.fetch("WAIT", "0"))
best = loops.transform_values { Float::INFINITY }
Integer(ENV.fetch("ROUNDS", "12")).times do
  loops.each { |name, l| best[name] = [best[name], cpu_us(Integer(ENV.fetch("N", "20000"))) { |n| l.call(n) }].min }
end
best["page"] *= 100
$stderr.puts "cost #{best.map { |name, us| format("%s %.3f", name, us) }.join(" ")}"
