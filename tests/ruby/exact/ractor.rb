# SPDX-License-Identifier: MIT
# Calls that are running when the tracer comes, in the main ractor and in another one.
class Work
  def outer; inner; sleep 0.03; done; end
  def inner; $stderr.puts 'ready'; $stdin.gets; end
  def done; end
  def far; Ractor.yield 1; Ractor.receive; sleep 0.03; end
end

ractor = Ractor.new { Work.new.far }
ractor.take
Work.new.outer
ractor.send 1
ractor.take
