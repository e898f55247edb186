# SPDX-License-Identifier: MIT
# Calls that are running when the tracer comes. It says "ready" on standard error, waits for a line,
# ends them, and prints between which two times (ns) the total of each must be: "METHOD FRAMES MIN MAX".
# The tracer came between @before and @after.
class Run
  def initialize
    @queue = Queue.new
    @bounds = {}
  end

  def now; Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond); end

  def ready
    $stderr.puts 'ready'
    @before = now
    $stdin.gets
    @after = now
  end

  # The end of the call is after the block began to end, and before it was over.
  def bound(name, frames = 1)
    yield
  ensure
    @bounds[name] = [frames, @last[name] - @after, now - @before]
  end

  def ends(name)
    (@last ||= {})[name] = now
  end

  def main; inner; ends :main; end
  def inner; ready; work; ends :inner; end
  def work; sleep 0.03; end

  def deep(n); n.zero? ? @queue.pop : deep(n - 1); ends :deep; end
  def returns; @queue.pop; ends :returns; end
  def raises; @queue.pop; ends :raises; raise 'x'; end
  def throws; @queue.pop; ends :throws; throw :out; end
  def ensures; @queue.pop; ensure (cleans; ends :ensures); end
  def cleans; sleep 0.03; end
  def killed; @killed = true; sleep; ensure ends :killed; end
  define_method(:block) { @queue.pop; ends :block }
  def fiber; Fiber.yield; busy; Fiber.yield; ends :fiber; end
  def busy; sleep 0.03; end
  # The first that the tracer sees of this thread is a switch to another fiber.
  def host; @queue.pop; Fiber.new { sleep 0.03 }.resume; ends :host; end
  def seen; sleep 0.03; end

  def thread(name, frames = 1, &block)
    Thread.new { bound(name, frames, &block) }
  end

  def run
    threads = [
      thread(:deep, 6) { deep(5) }, thread(:returns) { returns }, thread(:block) { block },
      thread(:raises) { raises rescue nil }, thread(:throws) { catch(:out) { throws } },
      thread(:ensures) { ensures }, thread(:host) { host }
    ]
    sleeper = thread(:killed) { killed }
    sleep 0.01 until (threads + [sleeper]).all? { |t| t.status == 'sleep' } && @killed
    waiting = Fiber.new { fiber }
    waiting.resume
    bound(:inner) { bound(:main) { main } }
    seen
    waiting.resume
    bound(:fiber) { waiting.resume }
    threads.each { @queue << 1 }
    threads.each(&:join)
    sleeper.kill.join
    @bounds.each { |name, bounds| puts "Run##{name} #{bounds.join(' ')}" }
  end
end

Run.new.run
