# SPDX-License-Identifier: MIT
# Exceptions, allocations, collections, requests and calls of C methods, always the same.
# ruby_events.rb count FILE: writes to FILE what TracePoint and Ruby itself count of them, as lines of maps
# that a script prints.
# ruby_events.rb wait FILE COUNTS: first waits for FILE, and writes to COUNTS how many collections there had been before and after.
module ActionController
  class Metal
    def dispatch(name, *) = send(name)
  end
end

class Thing
end

class Special < Thing
end

# The names by which share/rutile/layers knows a server and a database.
module Puma
  class Request
    def handle_request(client, requests)
      env = client
      status = OrdersController.new.dispatch(env.action)
      [status, env]
    end
  end
end

module SQLite3
  class Database
    def execute(sql) = sql.to_s
  end
end

class Client
  attr_reader :action

  def initialize(action, path)
    @action = action
    @env = { 'REQUEST_METHOD' => 'GET', 'PATH_INFO' => path }
  end
end

class OrdersController < ActionController::Metal
  def index
    write('i')
    3.times { Thing.new }
    SQLite3::Database.new.execute('SELECT 1')
    200
  end

  def show
    write('s')
    Special.new
    missing rescue nil
    404
  end

  def broken
    write('b')
    raise IOError, 'no'
  end

  def missing = raise(ArgumentError, 'gone')
end

$null = File.open('/dev/null', 'w')
def write(text) = $null.syswrite(text)

def serve(times, fibers: false)
  times.times do |i|
    action = %i[index show broken][i % 3]
    Puma::Request.new.handle_request(Client.new(action, "/orders/#{i}"), 1) rescue nil
    write('outside')
    Fiber.yield if fibers
  end
end

# Fibers that take turns within their requests; each writes its own number of bytes.
def turns
  fibers = [1, 2, 3].map do |n|
    Fiber.new do
      Rake::Task.new("turn#{n}").execute do
        100.times do
          write('t' * (20 + n))
          Fiber.yield
        end
      end
    end
  end
  101.times { fibers.each(&:resume) }
end

module Rake
  class Task
    def initialize(name) = @name = name
    def execute = yield
  end
end

def all
  serve(300)
  2.times.map { Thread.new { serve(60) } }.each(&:join)
  fiber = Fiber.new { serve(30, fibers: true) }
  30.times { fiber.resume }
  turns
  # One that ends in the middle of a request.
  thread = Thread.new { Rake::Task.new('killed').execute { sleep } }
  Thread.pass until thread.stop?
  thread.kill.join
  5.times { catch(:out) { Rake::Task.new('thrown').execute { throw :out } } }
  write('outside')
  100.times { 'banana'.gsub('a', 'b') }
  GC.start
  children = 3.times.map { fork { serve(30) && exit!(0) } }
  children.each { |pid| Process.wait(pid) }
end

if ARGV[0] == 'wait'
  File.write("#{ARGV[1]}.up", '')
  sleep 0.01 until File.exist?(ARGV[1])
  before = GC.count
  all
  File.write(ARGV[2], "#{before} #{GC.count}\n")
  exit
end

counts = Hash.new(0)
lock = Mutex.new
add = ->(name) { lock.synchronize { counts[name] += 1 } }
children = []
trace = TracePoint.new(:raise, :c_call) do |tp|
  if tp.event == :raise
    error = tp.raised_exception
    add.call("@raise[#{error.class}, #{error.message}, #{tp.lineno}]") unless error.class == UncaughtThrowError
  elsif tp.method_id == :gsub
    add.call("@gsub[#{tp.self.class}, #{tp.lineno}]")
  end
end
trace.enable
at_exit { trace.disable }
# Children write what they count behind each other.
define_singleton_method(:fork) do |&work|
  reader, writer = IO.pipe
  children << reader
  super() do
    counts.clear
    begin
      serve(30)
    ensure
      writer.write(Marshal.dump(counts.to_a))
      exit!(0)
    end
  end.tap { writer.close }
end
all
children.each { |reader| Marshal.load(reader.read).each { |name, n| counts[name] += n } }
trace.disable
File.write(ARGV[1], counts.map { |name, count| "#{name}: #{count}\n" }.sort.join)
