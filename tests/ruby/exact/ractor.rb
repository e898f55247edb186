# SPDX-License-Identifier: MIT
# Calls that are running when the tracer comes, in the main ractor and in another one.
class Work
  def outer; inner; sleep 0.03; done; end
  def inner; $stderr.puts 'ready'; $stdin.gets; end
  def done; end
  def far; $stderr.puts 'there'; Ractor.receive; sleep 0.03; end
end

told, tell = IO.pipe
ractor = Ractor.new(tell) { |err| $stderr = err; Work.new.far }
told.gets
Work.new.outer
ractor.send 1
ractor.respond_to?(:value) ? ractor.value : ractor.take # Ruby 4.0; before
