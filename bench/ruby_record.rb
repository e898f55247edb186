# SPDX-License-Identifier: MIT
# ruby_record.rb none|block|bare: CPU time of a call of an empty method, in ns: the best of several rounds, with a
# pause after each, so that no ring is full. "block": with a TracePoint whose block counts.
what = ARGV[0]
N = 100_000
ROUNDS = Integer(ENV.fetch('ROUNDS', '15'))

class Traced
  def empty; end
end

def round(traced)
  begun = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  i = 0
  while i < N
    traced.empty
    i += 1
  end
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond) - begun
end

count = 0
traced = Traced.new
if what == 'block'
  point = TracePoint.new(:call, :return) { count += 1 }
  point.enable(target: Traced.instance_method(:empty))
end
best = ROUNDS.times.map { round(traced).tap { sleep 0.2 } }.min
$stderr.puts "ns #{best.fdiv(N)}"
