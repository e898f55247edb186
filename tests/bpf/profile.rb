# SPDX-License-Identifier: MIT
# Work of known shares. It writes the file TRUTH.ready, waits for the file GO, and writes TRUTH at the
# end: "METHOD SECONDS" lines, for methods that wait "METHOD SECONDS LEAST WAITS": what the program
# itself measured, and how long it cannot but have waited, in how many waits.
# Of allocations: "METHOD LINE OBJECTS", and "all - OBJECTS" as Ruby counts them.
# profile.rb cpu|waits|disk|gvl|alloc|fork GO TRUTH
what, go, truth = ARGV
$spent = Hash.new(0)
$least = {}

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

# Sleeps while the main thread waits: it has come to this place, and has stopped there.
def sleep_beside(place, seconds)
  sleep 0.001 until $at == place && Thread.main.stop?
  sleep seconds
end

def waits
  r, w = IO.pipe
  10.times do
    nap
    $at = nil
    writer = Thread.new { sleep_beside(:pipe, 0.05); w.write("x") }
    $at = :pipe
    from_pipe(r)
    writer.join
    mutex = Mutex.new
    held = Queue.new
    holder = Thread.new { mutex.synchronize { held << 1; sleep_beside(:lock, 0.08) } }
    held.pop
    $at = :lock
    locked(mutex)
    holder.join
  end
  $least = {"Object#nap" => 1.5, "Object#from_pipe" => 0.5, "Object#locked" => 0.8}
end

def from_disk(io, page) = timed("Object#from_disk") { io.pread(4096, page * 4096) }

# Reads pages of the device $DISK, of which we may read $READS a second, one after the other.
def disk
  io = File.open(ENV["DISK"])
  io.advise(:random)
  60.times { |i| from_disk(io, i * 2) }
  nap
  # The first ones are free.
  $least = {"Object#from_disk" => 55 / ENV["READS"].to_f}
end

def six = 60.times { Object.new }
def three = 30.times { "a" + "b" }
def one = 10.times { [1, 2] }

def allocate(times)
  times.times do
    six
    three
    one
  end
end

def allocations
  before = GC.stat(:total_allocated_objects)
  allocate(10_000)
  all = GC.stat(:total_allocated_objects) - before
  lines = %i[six three one].to_h { |name| [name, method(name).source_location[1]] }
  # The strings that are added up are objects, too.
  {six: 600_000, three: 900_000, one: 100_000}.map { |name, n| "Object##{name} #{lines[name]} #{n}\n" }.join + "all - #{all}\n"
end

File.write("#{truth}.ready", "")
sleep 0.01 until File.exist?(go)
case what
when "cpu" then 40.times { sixty; thirty; ten }
when "waits" then waits
when "disk" then disk
when "alloc"
  File.write(truth, allocations)
  exit
when "fork"
  20.times { Process.wait(fork { allocate(100) }) }
  exit
when "gvl" then 2.times.map { Thread.new { burn("Object#burn", 1) } }.each(&:join)
end
File.write(truth, $spent.map { |name, s| [name, s, *($least[name] && [$least[name], 10])].join(" ") + "\n" }.join)
