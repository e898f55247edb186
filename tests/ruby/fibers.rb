# Requests of fibers that take turns, in several threads: each says its path at its begin, in its
# queries and at its end.
module Falcon
  class Server
    def call(request)
      5.times do |i|
        Sequel::Database.new.log_connection_yield("query of #{request.instance_variable_get(:@path)}", nil)
        Fiber.yield
        Thread.pass if i.even?
      end
      @response
    end
  end
end
module Sequel
  class Database
    def log_connection_yield(sql, conn)
      Fiber.yield
      [sql, conn]
    end
  end
end
class Request
  def initialize(path)
    @method = "GET"
    @path = path
  end
end

require "fiber" # Fiber#alive?, before Ruby 3.1
begin_work
4.times.map do |t|
  Thread.new do
    8.times do |round|
      fibers = 20.times.map do |f|
        Fiber.new { Falcon::Server.new.call(Request.new("/a#{t}b#{round}c#{f}x")) }
      end
      fibers.reject! { |f| f.resume; !f.alive? } until fibers.empty?
    end
  end
end.each(&:join)
