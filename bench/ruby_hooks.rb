# SPDX-License-Identifier: MIT
# Nanoseconds of a loop, best of several, for what the agent's hooks cost: prints one line of
# "name ns" pairs. bench/ruby_hooks.sh runs it under each mode.
N = Integer(ENV.fetch('N', '400000'))
ROUNDS = Integer(ENV.fetch('ROUNDS', '9'))

class Traced
  def empty; end
  def nested; empty; end
end

# Outside of the filter of the benchmark: --class '!Untraced'.
class Untraced
  def empty; end
end

def measure
  best = nil
  ROUNDS.times do
    t = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
    yield
    ns = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) - t
    best = ns if best.nil? || ns < best
  end
  best.fdiv(N)
end

traced = Traced.new
untraced = Untraced.new
string = 'x'
loops = {
  'loop' => -> { i = 0; i += 1 while i < N },
  'call' => -> { i = 0; while i < N; traced.empty; i += 1; end },
  'outside' => -> { i = 0; while i < N; untraced.empty; i += 1; end },
  'c_call' => -> { i = 0; while i < N; string.bytesize; i += 1; end },
  'new' => -> { i = 0; while i < N; Object.new; i += 1; end },
  'string' => -> { i = 0; while i < N; 'abc'.dup; i += 1; end },
}
sleep Float(ENV.fetch('WAIT', '0.7')) # for the tracer, and what is dropped at first sight
loops.each_value { |l| l.call }
sleep 1.5 # hooks that the filter does not want are taken away within a second
GC.start
puts loops.map { |name, l| format('%s %.1f', name, measure(&l)) }.join(' ')
