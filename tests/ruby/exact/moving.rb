# SPDX-License-Identifier: MIT
# Threads that move between native ones (RUBY_MN_THREADS=1), each with fibers: 24 threads, 10 rounds.
# What sleeps is of one's own, and no sleep is shorter than asked for.
class Moving
  def root(pipe)
    i = 0
    while (i += 1) <= 10
      f = Fiber.new { inside }
      f.resume
      sleep 0.002
      f.resume
      talk(*pipe)
    end
  end

  def inside
    sleep 0.002
    leaf
    sleep 0.002
    Fiber.yield
    sleep 0.002
    leaf
    sleep 0.002
  end

  def talk(r, w)
    w.write('x')
    r.read(1)
  end

  def leaf; end
end

Harness.ready
work = Moving.new
24.times.map { Thread.new { work.root(IO.pipe) } }.each(&:join)
