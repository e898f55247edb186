# SPDX-License-Identifier: MIT
# The tracer is killed, or stopped in good order, at random moments, again and again, while the
# target serves requests. kill.rb COUNT SEED MODE -- TOOL...
#   MODE kill: SIGKILL at a random moment of attach, tracing or detach; cycle: SIGINT.
# "PID" in the tool's words is the target's. Prints a line for each fault, and figures at the end.
require "socket"
require "tempfile"

count, seed, mode = ARGV.shift(3)
ARGV.shift
tool = ARGV
count = Integer(count)
rng = Random.new(Integer(seed))
ruby = ENV["RUBY"] ? ENV["RUBY"].split : ["ruby"]
server = [*ruby, ENV["SERVER"] || File.join(__dir__, "server.rb")]
out = IO.popen(server, err: ENV["SERVER_LOG"] || File::NULL)
pid = out.pid
port = Integer(out.gets.to_s[/^ready (\d+)/, 1] || abort("the server did not start"))
at_exit { Process.kill(:KILL, pid) rescue nil }
$faults = 0

def fault(text)
  $faults += 1
  puts text if $faults < 10
end

def ask(port, word = "hello")
  s = Socket.tcp("127.0.0.1", port, connect_timeout: 60)
  s.puts word
  s.wait_readable(60) or return "no answer within 60 s"
  line = s.gets
  s.close
  line&.start_with?("answer") ? nil : "answer #{line.inspect}"
rescue SystemCallError => e
  e.message
end

def status(pid)
  File.read("/proc/#{pid}/status").scan(/^(\w+):\s*(\S+)/).to_h
end

def figures(pid)
  st = status(pid)
  { rss_kib: st["VmRSS"].to_i, threads: st["Threads"].to_i,
    fds: Dir.children("/proc/#{pid}/fd").size,
    maps: File.foreach("/proc/#{pid}/maps").count { |l| l.include?("rutile") } }
end

# Load from another thread all the time: every answer must come.
requests = 0
stop = false
load = Thread.new do
  until stop
    bad = ask(port)
    fault("request failed: #{bad}") if bad
    requests += 1
    sleep 0.002
  end
end

# In good order: repeated, as it may not listen yet.
def interrupt(child)
  500.times do
    Process.kill(:INT, child) rescue nil
    20.times do
      return $? if Process.wait(child, Process::WNOHANG)
      sleep 0.01
    end
  end
  fault("the tool does not end")
  Process.kill(:KILL, child)
  Process.wait(child)
  $?
end

# At most a minute, for what never comes.
def eventually
  3000.times do
    return true if yield
    sleep 0.02
  end
  false
end

COUNTED = /churn|server/

def run_tool(tool, pid, mode, rng, i)
  words = tool.map { |w| w == "PID" ? pid.to_s : w }
  $out = Tempfile.new("tool")
  child = Process.spawn(*words, out: $out, err: ENV["TOOL_LOG"] || File::NULL)
  case mode
  when "kill"
    case ENV["EARLY"] ? 0 : i % 3
    when 0 then sleep rng.rand * 0.012 # attach
    when 1 then sleep rng.rand * 0.3 # attach and tracing
    else # detach
      sleep 0.06 + rng.rand * 0.1
      Process.kill(:INT, child) rescue nil
      sleep rng.rand * 0.01
    end
    Process.kill(:KILL, child) rescue nil
  when "cycle"
    # At a random moment of attach or tracing; or when it has counted something.
    if i.odd?
      sleep 0.03 + rng.rand * 0.04
    else
      eventually { File.read($out.path) =~ COUNTED }
      sleep rng.rand * 0.1
    end
    return interrupt(child)
  end
  Process.wait(child)
  $?
end

# Ruby's heap finds its size.
200.times { ask(port) }
ask(port, "storm") if ENV["STORM"]
before = nil
statuses = Hash.new(0)
took_ms = []
counted = 0
count.times do |i|
  before = figures(pid) if i == [count / 5, 20].min
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond)
  st = run_tool(tool, pid, mode, rng, i)
  counted += 1 if File.read($out.path) =~ COUNTED
  $out.close!
  took_ms << Process.clock_gettime(Process::CLOCK_MONOTONIC, :millisecond) - began
  statuses[st.signaled? ? "signal #{st.termsig}" : "exit #{st.exitstatus}"] += 1
  break fault("target died at #{i}") if Process.wait(pid, Process::WNOHANG)
  s = status(pid)
  # A process that a killed tracer had stopped continues when the tracer is reaped.
  eventually { (s = status(pid)).then { |x| x["State"] !~ /[tTZ]/ && x["TracerPid"] == "0" } }
  fault("target is #{s["State"]} at #{i}") if s["State"] =~ /[tTZ]/
  fault("tracer #{s["TracerPid"]} left at #{i}") if s["TracerPid"] != "0"
  bad = ask(port)
  fault("no service at #{i}: #{bad}") if bad
  break if $faults > 5
end
if $faults.zero?
  # Attached once more, in peace.
  again = Tempfile.new("tool")
  child = Process.spawn(*tool.map { |w| w == "PID" ? pid.to_s : w }, out: again.path, err: [:child, :out])
  # Some end by themselves.
  eventually { File.size?(again.path) }
  st = ENV["EARLY"] ? Process.wait2(child)[1] : interrupt(child)
  fault("cannot be attached again: #{st}: #{File.read(again.path)}") unless st.success?
end
if mode == "cycle" && $faults.zero? && counted < count / 2
  fault("only #{counted} of #{count} tracers counted anything")
end
stop = true
load.join
if $faults.zero?
  # What a killed tracer left is given up after some seconds; requests have their threads meanwhile.
  grown = nil
  after = nil
  eventually do
    after = figures(pid)
    grown = { threads: 4, fds: 4 }.select { |what, more| after[what] > before[what] + more }.keys
    grown << :maps if after[:maps] > before[:maps] + 12 && !ENV["MAPS_MAY_GROW"]
    grown << :rss_kib if after[:rss_kib] > before[:rss_kib] * 1.2 + 24576
    grown.empty?
  end
  puts "before #{before}", "after #{after}"
  grown.each { |what| fault("#{what} grew: #{before[what]} -> #{after[what]}") }
end
puts "runs of #{took_ms.sort[took_ms.size / 2]} ms, at most #{took_ms.max} ms, #{counted} of them counted something" unless took_ms.empty?
puts "runs #{statuses} requests #{requests} faults #{$faults}"
exit $faults.zero?
