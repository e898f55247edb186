# SPDX-License-Identifier: MIT
# Makes calls of every kind, always the same.
# ruby_probes.rb count FILE: writes to FILE what TracePoint sees of them, as lines of the maps @call and
# @return that a script prints.
# ruby_probes.rb wait FILE: first waits for FILE.
class Order
  def total(id, **options) = id
  def deep(left) = left.zero? ? 0 : deep(left - 1)
  def refuse(kind) = raise(kind, 'no')
  def left_early(list) = list.each { |x| return x }
  define_method(:made) { |x| x }
  def self.find(name) = new
  def unwanted(id) = id
  def doubled(id)
    twice = id * 2
    twice - id
  end
end

class Special < Order
end

def calls(times)
  orders = [Order.new, Special.new]
  times.times do |i|
    orders[i & 1].total(i % 5, kind: 'a')
    orders[0].unwanted(i)
    Order.find("name #{i % 3}")
  end
end

def kinds
  order = Order.new
  order.deep(50)
  order.made(:symbol)
  order.left_early([1, 2])
  [ArgumentError, IOError].each { |kind| order.refuse(kind) rescue nil }
  catch(:out) { order.total(throw(:out)) }
  order.total(nil)
  order.doubled(7)
  fiber = Fiber.new { 10.times { |i| order.total(i); Fiber.yield } }
  10.times { |i| fiber.resume; order.deep(i) }
end

counts = Hash.new(0)
lock = Mutex.new
text = { true => :call, false => :return }
trace = TracePoint.new(:call, :return) do |tp|
  next unless tp.defined_class == Order || tp.self == Order
  next if tp.method_id == :unwanted
  locals = tp.binding
  value = locals.local_variable_get(tp.parameters.first.last)
  value = 'nil' if value.nil?
  value = "[#{value.join(', ')}]" if value.is_a?(Array)
  value = '' if value.is_a?(Class)
  name = "@#{text[tp.event == :call]}[Order, #{tp.method_id}, #{tp.self.class}, #{value}]"
  lock.synchronize { counts[name] += 1 }
end

if ARGV[0] == 'wait'
  sleep 0.01 until File.exist?(ARGV[1])
else
  trace.enable
end
calls(50_000 - 600)
kinds
4.times.map { Thread.new { calls(100) } }.each(&:join)
children = 2.times.map do
  reader, writer = IO.pipe
  fork do
    counts.clear
    calls(100)
    Thread.new { kinds }.join
    writer.write(Marshal.dump(counts.to_a))
    exit!(0)
  end
  writer.close
  reader
end
children.each { |reader| Marshal.load(reader.read).each { |name, count| counts[name] += count } }
Process.waitall
trace.disable
exit if ARGV[0] == 'wait'
File.write(ARGV[1], counts.map { |name, count| "#{name}: #{count}\n" }.sort.join)
