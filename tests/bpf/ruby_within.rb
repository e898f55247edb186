# SPDX-License-Identifier: MIT
# Writes one byte where Order#total, Order#made or Order#größe is on the stack of the thread, or a block of them, and two where
# neither is, as the program's own control flow has it: in threads, fibers of a scheduler, after exceptions, throws and
# overflows of the stack, in blocks that outlive their method, in calls that began before the script, and in a child. It
# counts both into a file.
counts, go, ready = ARGV
$null = File.open("/dev/null", "w")

# Each thread counts for itself.
def mark(inside)
  $null.syswrite(inside ? "x" : "xx")
  name = inside ? :inside : :outside
  Thread.current.thread_variable_set(name, (Thread.current.thread_variable_get(name) || 0) + 1)
end

class Order
  def total(depth = 0)
    mark(true)
    total(depth - 1) if depth > 0
    yield if block_given?
    mark(true)
    proc { mark(true) }
  end

  def Order.total = mark(false)

  define_method(:made) { |&block| [1].each { mark(true) } and block.call }

  def größe = mark(true)

  def plain = mark(false)
end

class Other
  def total = mark(false)
end

def raises(o)
  o.total { raise "no" }
rescue RuntimeError
  mark(false)
end

def throws(o)
  catch(:done) { o.total { o.total { throw :done } } }
  mark(false)
end

def breaks(o)
  o.total { break }
  mark(false)
end

def ensures(o)
  o.total do
    raise "no"
  ensure
    mark(true)
  end
rescue RuntimeError
  mark(false)
end

def endless = endless

def down(depth, &block) = depth.zero? ? block.call : down(depth - 1, &block)

# Ruby reports no returns while a SystemStackError unwinds: what is deeper in the stack than the method was finds out.
def overflows(o)
  begin
    o.total { endless }
  rescue SystemStackError
    nil
  end
  down(60) do
    o.total
    mark(false)
  end
  mark(false)
end

def work(o)
  mark(false)
  block = o.total(3)
  mark(false)
  raises(o)
  throws(o)
  breaks(o)
  ensures(o)
  o.made { mark(true) }
  block.call
  o.größe
  o.plain
  Order.total
  Other.new.total
end

# Fibers go on in turn.
class Scheduler
  def initialize = @ready = []

  def run = (@ready.shift.resume until @ready.empty?)

  def close = run

  def block(*) = (@ready << Fiber.current and Fiber.yield)

  def unblock(*) = nil

  def kernel_sleep(*) = block

  def io_wait(_, events, _) = block && events

  def fiber(&block) = Fiber.new(blocking: false, &block).tap(&:resume)
end

def fibers(o, rounds)
  Fiber.set_scheduler(Scheduler.new)
  4.times do |i|
    Fiber.schedule do
      rounds.times do
        if i.even?
          o.total { sleep(0) or mark(true) }
        else
          mark(false)
          sleep 0
          mark(false)
        end
      end
    end
  end
end

def counted(thread = Thread.current)
  %i[inside outside].map { |name| thread.thread_variable_get(name) || 0 }
end

# It goes on in the method that the parent is in.
def child(o)
  pid = nil
  o.total do
    pid = fork do
      100.times { mark(true) }
      o.total { mark(true) }
      Process.exit!(0)
    end
    mark(true)
    Process.wait(pid)
  end
end

o = Order.new
begun = Queue.new
wait = -> { sleep 0.01 until File.exist?(go) }
early = Thread.new do
  o.total do
    begun << 1
    wait.call
    100.times { mark(true) }
  end
end
waits = Fiber.new { o.total { Fiber.yield or 50.times { mark(true) } } }
waits.resume
begun.pop
idle = Thread.new { wait.call or 100.times { mark(false) } }
idle.join(0.05)
before = [*counted, *counted(early)]
File.write(ready, "")
wait.call
waits.resume
outlives = Thread.new(&o.total)
threads = Array.new(2) { Thread.new { 2_000.times { work(o) } and 20.times { overflows(o) } } }
threads << Thread.new { fibers(o, 4_000) }
values = Enumerator.new { |y| 2.times { o.total { y << 1 and mark(true) } } }
2.times { values.next and mark(false) }
child(o)
[early, idle, outlives, *threads].each(&:join)
sums = [Thread.current, early, idle, outlives, *threads].map { |t| counted(t) }.transpose.map(&:sum)
# The child's 103 marks are not in its parent's count.
File.write(counts, "#{sums[0] + 103 - before[0] - before[2]} #{sums[1] - before[1] - before[3]}\n")
