# SPDX-License-Identifier: MIT
# Calls that never return: one that runs when the tracer comes, one that begins later, one in a
# fiber that waits; and many that take a little while, again and again.
class Hang
  def before; deeper; end
  def deeper; sleep; end
  def later; sleep; end
  def fiber; Fiber.yield; end
  40.times { |i| class_eval("def often#{i}; sleep 0.02; end", __FILE__, 100 + i) }
end

# A collection would have a row of its own, and take its time out of that of a method.
GC.disable
Thread.new { Hang.new.before }
fiber = Fiber.new { Hang.new.fiber }
fiber.resume
40.times { |i| Thread.new { loop { Hang.new.send("often#{i}") } } }
$stderr.puts 'ready'
$stdin.gets
Thread.new { Hang.new.later }
sleep
