# SPDX-License-Identifier: MIT
# Tracers that start at the same moment on a process that has no agent yet, round after round, each
# on a process of its own: together.rb ROUNDS SEED TRACERS -- TOOL...
# "PID" and "MODE" in the tool's words are the target's PID and one of the modes. $MODES names them.
# The target must end well, with one agent in it. Each tracer must
# see the calls. Prints a line for each fault, and figures at the end.
rounds, seed, tracers = ARGV.shift(3).map { |n| Integer(n) }
ARGV.shift
tool = ARGV
rng = Random.new(seed)
young = !ENV["YOUNG"].to_s.empty? # while the target still starts: a tracer may say that it cannot, then
ruby = ENV["RUBY"] ? ENV["RUBY"].split : ["ruby"]
modes = (ENV["MODES"] || "calls time objects trace").split
$faults = 0
Process.setrlimit(:CORE, Process.getrlimit(:CORE)[1])

def fault(text)
  $faults += 1
  puts text if $faults < 10
end

# Threads, allocations and calls, until its standard input ends.
TARGET = <<~'E'
  class Work
    def step(i); [i.to_s, i]; end
  end
  w = Work.new
  $stdout.sync = true
  Thread.new { loop { Thread.new { w.step(1) }.join; sleep 0.001 } }
  Thread.new { loop { sleep 0.001; w.step(2) } }
  puts "ready"
  reader = Thread.new { $stdin.read }
  200.times { |i| w.step(i) } until reader.join(0.001)
  exit!(7)
E
program = File.join(Dir.pwd, "together-target.rb")
File.write(program, TARGET)

def agents(pid)
  threads = Dir.children("/proc/#{pid}/task").count do |t|
    File.read("/proc/#{pid}/task/#{t}/comm") == "rutile\n" rescue false
  end
  code = File.foreach("/proc/#{pid}/maps").count { |l| l.include?("r-xp") && l.include?("memfd:rutile-agent") }
  [threads, code]
end

statuses = Hash.new(0)
counted = 0
rounds.times do |round|
  stdin, go = IO.pipe
  out = IO.popen([*ruby, "--disable-gems", program], in: stdin, err: ENV["SERVER_LOG"] || File::NULL)
  stdin.close
  if young
    sleep rng.rand * 0.08
  else
    out.gets == "ready\n" or abort "the target did not start"
  end
  # Each tracer waits for the starting shot, all of them on one pipe.
  wait, shot = IO.pipe
  logs = Array.new(tracers) { |i| "together-#{i}.out" }
  children = Array.new(tracers) do |i|
    words = tool.map { |w| { "PID" => out.pid.to_s, "MODE" => modes[rng.rand(modes.size)] }[w] || w }
    # Some a little later than the others.
    late = rng.rand < 0.5 ? 0 : rng.rand * 0.012
    Process.spawn("/bin/sh", "-c", "cat >/dev/null; #{"sleep #{late.round(4)};" if late > 0} exec \"$@\"", "sh", *words,
                  in: wait, out: logs[i], err: "#{logs[i]}.err", shot => :close, go => :close)
  end
  wait.close
  shot.close
  children.each_with_index do |child, i|
    _, st = Process.wait2(child)
    statuses[st.signaled? ? "signal #{st.termsig}" : "exit #{st.exitstatus}"] += 1
    fault("round #{round}: a tracer: #{st}: #{File.read("#{logs[i]}.err")[0, 300]}") unless st.success? || (young && st.exitstatus == 1)
    counted += 1 if File.read(logs[i]).include?("together-target.rb")
  end
  if Process.wait(out.pid, Process::WNOHANG)
    fault("round #{round}: the target died: #{$?}")
  else
    threads, code = agents(out.pid)
    fault("round #{round}: #{code} agents loaded, #{threads} of their threads") unless [threads, code] == [1, 1] || (young && code < 2)
    go.close
    # It must come to its end by itself.
    ended = 6000.times.any? { Process.wait(out.pid, Process::WNOHANG) or (sleep 0.01; false) }
    if !ended
      fault("round #{round}: the target #{out.pid} hangs")
      break if ENV["KEEP"]
      Process.kill(:KILL, out.pid)
      Process.wait(out.pid)
    elsif $?.exitstatus != 7
      fault("round #{round}: the target ended: #{$?}")
    end
  end
  out.close rescue nil
  go.close
  break if $faults > 5
end
fault("only #{counted} of #{rounds * tracers} tracers saw the calls") if counted < rounds * tracers && !young
Dir["core*"].each do |core|
  exe = IO.popen(["file", core], err: File::NULL, &:read)[/execfn: '([^']+)'/, 1] rescue nil
  system("gdb", "-batch", "-ex", "x/3i $pc", "-ex", "info registers", "-ex", "bt 30", *exe, core, err: File::NULL)
end
puts "tracers #{statuses}, #{counted} saw the calls, faults #{$faults}"
exit $faults.zero?
