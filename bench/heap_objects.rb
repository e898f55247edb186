# SPDX-License-Identifier: MIT
# A heap of N objects with a string each, half of them in an Array and half in a Hash. Until a line is read, a loop reads the CPU time of its own
# thread, in which the agent does its work: what two readings are apart is a slice of that work. Prints the longest and the number of slices.
class Item
  def initialize(text) = @text = text
end

n = Integer(ARGV[0]) / 4 # an object and its string, in two halves
ITEMS = Array.new(n) { |i| Item.new("item #{i}") }
INDEX = {}
n.times { |i| INDEX[i] = Item.new("item #{i}") }
3.times { GC.start }
GC.disable
stop = false
reader = Thread.new do
  $stdin.gets
  stop = true
end
$stdout.sync = true
puts "ready"
longest = slices = 0
last = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
until stop
  now = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  took = now - last
  slices += 1 if took > 500_000
  longest = took if took > longest
  last = now
end
reader.join
puts "#{longest} #{slices}"
