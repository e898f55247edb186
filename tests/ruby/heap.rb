# A heap of known content, which answers on its standard output: a line of JSON for each line that it reads.
require "json"
require "objspace"

class Thing
  def initialize(n)
    @n = n
  end
end

class Sub < Thing; end

class Junk; end

# What is kept: slots of several sizes, memory outside of them, singleton classes, a class without a name.
KEPT = Array.new(12_345) { |i| Thing.new(i) } + Array.new(321) { |i| Sub.new(i) }
TEXTS = Array.new(1000) { |i| "x" * (i * 7) }
SINGLE = Array.new(50) { |i| Thing.new(i).tap { |t| def t.own; 1; end } }
nameless = Class.new
OTHERS = Array.new(77) { nameless.new }
# Objects are old when they have survived three collections.
4.times { GC.start }

def junk
  5000.times { Junk.new }
end

def facts
  counts = ObjectSpace.count_objects
  { objects: counts[:TOTAL] - counts[:FREE],
    things: ObjectSpace.each_object(Thing).count { |t| t.instance_of?(Thing) },
    thing_bytes: ObjectSpace.each_object(Thing).sum { |t| t.instance_of?(Thing) ? ObjectSpace.memsize_of(t) : 0 },
    text_bytes: TEXTS.sum { |t| ObjectSpace.memsize_of(t) },
    subs: ObjectSpace.each_object(Sub).count, others: OTHERS.size,
    strings: ObjectSpace.each_object(String).count, string_bytes: ObjectSpace.memsize_of_all(String),
    classes: ObjectSpace.each_object(Class).count }
end

GC.disable
$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  junk if line == "junk\n"
  puts JSON.generate(facts)
end
