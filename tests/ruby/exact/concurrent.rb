# SPDX-License-Identifier: MIT
# Threads, fibers, and calls that never return.
class Work
  def step; end
  def steps(n); n.times { step }; end
  def resumes; Fiber.yield(step); step; end
  def forever; step; sleep; end
  def deep(n); deep(n + 1); end
  def endless; loop { Fiber.yield step }; end
  def each; return enum_for(:each) unless block_given?; yield step; yield step; end
end

def threads
  w = Work.new
  8.times.map { Thread.new { w.steps(500) } }.each(&:join)
end

def killed
  w = Work.new
  t = Array.new(3) { Thread.new { w.forever } }
  sleep 0.01 until t.all? { |x| x.status == 'sleep' }
  t.each(&:kill).each(&:join)
end

def fibers
  w = Work.new
  20.times do
    f = Fiber.new { w.resumes }
    f.resume
    f.resume
  end
  abandoned = Array.new(5) { Fiber.new { w.endless } }
  abandoned.each { |f| 3.times { f.resume } }
  e = w.each
  2.times { e.next }
end

def mixed
  w = Work.new
  4.times.map do
    Thread.new do
      f = Fiber.new { 10.times { w.steps(3); Fiber.yield } }
      10.times { f.resume; w.step }
    end
  end.each(&:join)
end

def overflow
  w = Work.new
  # The number of calls is not known: the method is on a line of its own that nothing compares.
  begin
    w.deep(0)
  rescue SystemStackError
    nil
  end
  w.steps(5)
end

Harness.ready
threads
killed
fibers
mixed
overflow
Thread.new { Thread.current.report_on_exception = false; Work.new.steps('x') rescue Work.new.step }.join
