# SPDX-License-Identifier: MIT
# For bench/script_ruby.py. "below DEPTH": calls getpriority(), which nothing else does, in Order#wait below that many frames until it is killed. "calls": for
# each line of standard input prints the nanoseconds of CPU time that calls of Order#total, Order#other and an own loop take,
# the least of 12 times 100,000.
class Order
  def total(id) = nil
  def other(id) = nil

  def wait = loop { Process.getpriority(Process::PRIO_PROCESS, 0) }
  def deep(n) = n.zero? ? wait : deep(n - 1)
end

N = 100_000
o = Order.new
$stdout.sync = true
if ARGV[0] == 'below'
  puts 'ready'
  o.deep(Integer(ARGV[1]) - 3)
end

cpu = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond) }
least = lambda do |&calls|
  Array.new(12) do
    before = cpu.call
    calls.call
    cpu.call - before
  end.min.fdiv(N)
end
puts 'ready'
while $stdin.gets
  none = least.call { i = 0; i += 1 while i < N }
  total = least.call { i = 0; (o.total(7); i += 1) while i < N }
  other = least.call { i = 0; (o.other(7); i += 1) while i < N }
  puts format('%.1f %.1f', total - none, other - none)
end
