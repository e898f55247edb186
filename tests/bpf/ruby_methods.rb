# SPDX-License-Identifier: MIT
# ruby_methods.rb COUNTS GO: writes one byte to /dev/null from many methods, in threads that compete for
# Ruby's lock, in fibers of a scheduler and in a child; COUNTS gets "METHOD<TAB>writes" of each, as Ruby
# itself counts them. Waits for the file GO, or for SIGUSR1, calling Wait#step.
$null = File.open("/dev/null", "w")
$null.sync = true
$counts = Hash.new(0)
$lock = Mutex.new

def counted(name, n)
  $lock.synchronize { $counts[name] += n }
end

# The least that Ruby asks of a scheduler: fibers that sleep, in the order of their time.
class Scheduler
  def initialize
    @sleeping = []
  end

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap(&:resume)
  end

  def kernel_sleep(duration = 0)
    @sleeping << Fiber.current
    Fiber.yield
  end

  def close
    @sleeping.shift.resume until @sleeping.empty?
  end

  def block(*) = raise("not used")
  def unblock(*) = raise("not used")
  def io_wait(_io, events, _timeout) = events
end

class Wait
  def step
    $null.syswrite("w")
    sleep 0.01
  end
end

class Order
  def total(n)
    n.times { $null.syswrite("x") }
    counted("Order#total", n)
  end

  def self.find(n)
    while n > 0
      [1].each { $null.syswrite("x") }
      counted("Order.find", 1)
      n -= 1
    end
  end

  define_method(:dynamic) do |n|
    n.times { $null.syswrite("x") }
    counted("Order#dynamic", n)
  end

  def inherited(n)
    n.times { $null.syswrite("x") }
    counted("Order#inherited", n)
  end
end

class Special < Order
  def total(n)
    $null.syswrite("x")
    counted("Special#total", 1)
    super
    $null.syswrite("x")
    counted("Special#total", 1)
  end
end

module Tasks
  module_function

  # In the middle of their loops fibers take turns.
  def left(n)
    n.times do |i|
      $null.syswrite("x")
      sleep(0) if i % 10 == 0
    end
    counted("Tasks.left", n)
  end

  def right(n)
    n.times do |i|
      sleep(0) if i % 7 == 0
      $null.syswrite("x")
    end
    counted("Tasks.right", n)
  end
end

gone = false
trap("USR1") { gone = true }
Wait.new.step until gone || File.exist?(ARGV[1])

threads = [
  Thread.new { 100.times { Order.new.total(100) } },
  Thread.new { 100.times { Order.find(100) } }
]
10.times { Order.new.dynamic(1000) }
10.times { Special.new.inherited(1000) }
500.times { Special.new.total(18) }
threads.each(&:join)
Thread.new do
  Fiber.set_scheduler(Scheduler.new)
  2.times do
    Fiber.schedule { Tasks.left(12_250) }
    Fiber.schedule { Tasks.right(12_250) }
  end
end.join
reader, writer = IO.pipe
child = fork do
  $counts.clear
  Order.new.total(1000)
  writer.puts $counts["Order#total"]
  exit!(0)
end
writer.close
$counts["Order#total"] += reader.read.to_i
Process.wait(child)
File.write(ARGV[0], $counts.sort.map { |name, n| "#{name}\t#{n}\n" }.join)
