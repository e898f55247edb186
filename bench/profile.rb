# SPDX-License-Identifier: MIT
# profile.rb busy|same|many RATE: what bench/profile.py profiles. Below 100 frames of Ruby it computes (busy),
# or waits RATE times a second: always with the same stack, or with 64 different ones in turn.
#
# Prints lines with a number of units of work (or waits) done, and the CPU time that they took, in ns.
mode, rate = ARGV[0], ARGV[1].to_f
$stdout.sync = true

def deep(n, &block)
  n == 0 ? block.call : deep(n - 1, &block)
end

def cpu
  Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# 64 methods that wait, so that stacks differ in their innermost frames.
64.times { |i| Object.class_eval("def nap_#{i}(s)\n sleep(s)\nend") }
NAPS = Array.new(64) { |i| :"nap_#{i}" }

# Waits until it is time for the next wait, so that their rate is right however long one takes.
def waits(rate, naps)
  due = now
  loop do
    begun = cpu
    n = 0
    until n == 1000
      due += 1 / rate
      left = due - now
      next if left <= 0
      send(naps[n % naps.size], left)
      n += 1
    end
    puts "#{n} #{cpu - begun}"
  end
end

deep(mode == "busy" ? 97 : 94) do
  waits(rate, mode == "same" ? NAPS[0, 1] : NAPS) unless mode == "busy"
  loop do
    begun = cpu
    1_000_000.times { |x| x + 1 }
    puts "1 #{cpu - begun}"
  end
end
