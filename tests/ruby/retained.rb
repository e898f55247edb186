# Structures that hold memory. For each line that it reads it writes what its heap is, from a copy of itself, to a file: all
# objects with their references, by Ruby's own ObjectSpace.
require "objspace"

class Cache
  def initialize(n)
    @entries = (0...n).map { |i| ["key #{i}", "x" * 1000] }.to_h
  end
end

class Link
  def initialize(rest)
    @rest = rest
    @load = "y" * 100
  end
end

class Session
  def initialize(shared)
    @shared = shared
    @own = "z" * 500
  end
end

class Ring
  attr_accessor :other

  def initialize
    @load = "r" * 5000
  end
end

Pair = Struct.new(:left, :right)

# Made by a thread that has ended when the heap is read: what is left of old calls on the stack of the main thread would refer to these
# objects, too, now and then, and would be their holder.
Thread.new do
  # Of a hash and an array with more elements than are written at once, in a variable, in a constant, in a global variable.
  CACHE = Cache.new(20_000)
  $rows = Array.new(30_000) { |i| [i, "row #{i}" * 4] }
  LIST = (1..5000).inject(nil) { |rest, _| Link.new(rest) }
  SHARED = [Array.new(300), Array.new(300)].tap do |a, b|
    text = "s" * 1_000_000
    300.times { |i| a[i] = b[i] = Session.new(text) }
  end
  RING = Ring.new.tap { |a| a.other = Ring.new.tap { |b| b.other = a } }
  PAIR = Pair.new("l" * 70_000, proc { |x| x + RING.to_s }.curry)
  WATCHED = []
  nil
end.join

Thread.new { 3.times { GC.start } }.join # it has objects on its stack, too
GC.disable
$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  # In a thread of its own: a stack may refer to objects for a while after its methods have returned.
  Thread.new { 2000.times { WATCHED << Session.new("seen") } }.join if line == "more\n"
  pid = fork { File.open("dump", "w") { |f| ObjectSpace.dump_all(output: f) } }
  Process.wait(pid)
  puts "dumped"
end
