# SPDX-License-Identifier: MIT
# Work of known shares; what it was is printed at the end: "METHOD SECONDS" lines.
# profile.rb cpu|waits|gvl GO TRUTH
what, go, truth = ARGV
$spent = Hash.new(0)

def clock(id)
  Process.clock_gettime(id)
end

def burn(name, seconds)
  begun = clock(Process::CLOCK_THREAD_CPUTIME_ID)
  x = 0
  x += 1 until x % 256 == 0 && clock(Process::CLOCK_THREAD_CPUTIME_ID) - begun >= seconds
  $spent[name] += clock(Process::CLOCK_THREAD_CPUTIME_ID) - begun
end

def timed(name)
  begun = clock(Process::CLOCK_MONOTONIC)
  yield
  $spent[name] += clock(Process::CLOCK_MONOTONIC) - begun
end

def sixty = burn("Object#sixty", 0.06)
def thirty = burn("Object#thirty", 0.03)
def ten = burn("Object#ten", 0.01)

def nap = timed("Object#nap") { sleep 0.15 }
def from_pipe(io) = timed("Object#from_pipe") { io.read(1) }
def locked(mutex) = timed("Object#locked") { mutex.synchronize {} }

def waits
  r, w = IO.pipe
  10.times do
    nap
    writer = Thread.new { sleep 0.05; w.write("x") }
    from_pipe(r)
    writer.join
    mutex = Mutex.new
    held = Queue.new
    holder = Thread.new { mutex.synchronize { held << 1; sleep 0.08 } }
    held.pop
    locked(mutex)
    holder.join
  end
end

sleep 0.01 until File.exist?(go)
case what
when "cpu" then 40.times { sixty; thirty; ten }
when "waits" then waits
when "gvl" then 2.times.map { Thread.new { burn("Object#burn", 1) } }.each(&:join)
end
File.write(truth, $spent.map { |name, s| "#{name} #{s}\n" }.join)
