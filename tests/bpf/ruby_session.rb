# SPDX-License-Identifier: MIT
# Calls Order#total in this process and in children, once the file DIR/go is there. A TracePoint in each counts the calls,
# into DIR/counts.PID. They end when DIR/stop is there.
dir, calls, children = ARGV

class Order
  def total(kind) = kind

  def closes = File.open("/dev/null", &:fileno)
end

work = lambda do |n|
  seen = 0
  trace = TracePoint.new(:call) { seen += 1 }
  trace.enable(target: Order.instance_method(:total)) do
    sleep 0.02 until File.exist?("#{dir}/go")
    n.times { |i| Order.new.total(i.even? ? :even : :odd) }
  end
  3.times { Order.new.closes }
  File.write("#{dir}/counts.#{$$}.new", "#{seen}\n")
  File.rename("#{dir}/counts.#{$$}.new", "#{dir}/counts.#{$$}")
  sleep 0.02 until File.exist?("#{dir}/stop")
end
pids = Array.new(children.to_i) { |i| fork { work.call(calls.to_i + i + 1) } }
work.call(calls.to_i)
pids.each { |pid| Process.wait(pid) }
