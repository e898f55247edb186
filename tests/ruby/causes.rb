# frozen_string_literal: true

# SPDX-License-Identifier: MIT
# Slow requests with known causes: each method of Cause is one, and takes about SLICE seconds. What it needs
# (a peer, a process beside it) is started in before_NAME, outside of the request.
#
#   causes.rb DIR NAMES...
#
# says "ready", waits for a line on standard input, runs them one after the other and prints for each
# "NAME WALL_NS CPU_NS": what it took, and how much of that its thread was on a CPU, as the kernel counts.

require 'socket'
require 'fiber'
require 'resolv'
require 'timeout'
require 'io/nonblock'

DIR = ARGV.shift
SLICE = 0.3

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)

def spin(seconds)
  till = now + seconds
  x = 0
  x += 1 while now < till
  x
end

def spin_cpu(seconds)
  till = cpu + (seconds * 1e9)
  x = 0
  # The clock is a system call: seldom.
  5_000.times { x += 1 } while cpu < till
  x
end

def child(name, &block)
  pid = fork do
    Process.setproctitle(name)
    File.write("/proc/self/comm", name)
    block.call
    exit!(0)
  end
  $children << pid
  pid
end

# A server on this machine that runs the block for each line that it gets.
def server(name, listener = TCPServer.new('127.0.0.1', 0))
  child(name) do
    loop do
      client = listener.accept
      fork do
        while client.gets
          yield
          client.write("ok\n")
        end
      rescue SystemCallError
        nil
      ensure
        exit!(0)
      end
      client.close
    end
  end
  listener
end

def ask(socket)
  socket.write("q\n")
  socket.gets
end

$children = []
at_exit { $children.each { |pid| Process.kill(:KILL, pid) rescue nil } if Process.pid == $main }
$main = Process.pid

class Database
  def initialize(socket) = @socket = socket
  def query(sql) = ask(@socket)
end

class Report
  def crunch(seconds) = spin(seconds)
  def hold(mutex, seconds) = mutex.synchronize { sleep(seconds) }
end

class Cause
  # ---- CPU ----
  def ruby_loop = spin_cpu(SLICE)

  def regexp
    r = /\A(a|aa)+\z/
    till = now + SLICE
    r.match?("#{'a' * 24}b") while now < till
  end

  def big_integers
    till = now + SLICE
    3.pow(60_000).to_s while now < till
  end

  def kernel_read
    zero = File.open('/dev/zero')
    buf = String.new(capacity: 1 << 22)
    till = now + SLICE
    zero.sysread(1 << 22, buf) while now < till
  end

  def exceptions
    till = now + SLICE
    raise_one while now < till
  end

  def raise_one
    raise ArgumentError, 'control flow'
  rescue ArgumentError
    nil
  end

  def before_cold_code
    Dir.mkdir("#{DIR}/cold")
    100.times do |i|
      File.write("#{DIR}/cold/c#{i}.rb", 100.times.map { |k| "def cold_#{i}_#{k}(a) = [a, #{k}, \"x\"].map { |v| v.to_s }\n" }.join)
    end
  end

  def cold_code = 100.times { |i| require "#{DIR}/cold/c#{i}.rb" }

  # ---- GC ----
  def before_gc_start = ($ballast = Array.new(400_000) { |i| "string #{i}" * 2 })

  def gc_start
    till = now + SLICE
    GC.start while now < till
  end

  def gc_stress
    GC.stress = true
    till = now + SLICE
    Object.new while now < till
  ensure
    GC.stress = false
  end

  # ---- GVL ----
  def before_gvl_thread = ($holder = Thread.new { Report.new.crunch(3) })
  def gvl_thread = 6.times { sleep(0.001) }
  def after_gvl_thread = $holder.kill.join

  def before_gvl_native = ($holder = Thread.new { till = now + 3; 3.pow(2_000_000).to_s while now < till })
  def gvl_native = 3.times { sleep(0.001) }
  def after_gvl_native = $holder.kill.join

  # ---- run queue ----
  def before_run_queue
    @cpu = File.read('/proc/self/status')[/Cpus_allowed_list:\s*(\d+)/, 1]
    @list = File.read('/proc/self/status')[/Cpus_allowed_list:\s*(\S+)/, 1]
    system("taskset -apc #{@cpu} #{$$} >/dev/null")
    @hogs = 3.times.map { child('cpuhog') { loop {} } }
    sleep(0.1)
  end

  def run_queue = spin_cpu(SLICE / 3)

  def after_run_queue
    @hogs.each { |pid| Process.kill(:KILL, pid) }
    system("taskset -apc #{@list} #{$$} >/dev/null")
  end

  def before_low_priority
    before_run_queue
    Process.setpriority(Process::PRIO_PROCESS, 0, Process.getpriority(Process::PRIO_PROCESS, 0) + 2)
  end

  def low_priority = spin_cpu(0.05)

  def after_low_priority
    Process.setpriority(Process::PRIO_PROCESS, 0, Process.getpriority(Process::PRIO_PROCESS, 0) - 2)
    after_run_queue
  end

  # ---- sleeps ----
  def sleeping = sleep(SLICE)
  def sleep_nested = Report.new.then { pause }
  def pause = sleep(SLICE)
  def select_timeout = IO.select(nil, nil, nil, SLICE)
  def half_sleep = [spin_cpu(SLICE / 2), sleep(SLICE / 2)]

  # ---- threads ----
  def before_mutex
    $mutex = Mutex.new
    $holder = Thread.new { Report.new.hold($mutex, SLICE + 0.1) }
    sleep(0.1)
  end

  def mutex = $mutex.synchronize { 1 }

  alias before_mutex_in_thread before_mutex
  def mutex_in_thread = $mutex.synchronize { 1 }

  def before_queue
    $queue = Queue.new
    Thread.new { sleep(SLICE); $queue << 1 }
  end

  def queue = $queue.pop

  def before_sized_queue
    $queue = SizedQueue.new(1)
    $queue << 1
    Thread.new { sleep(SLICE); $queue.pop }
  end

  def sized_queue = $queue.push(2)

  def before_condition
    $mutex = Mutex.new
    $condition = ConditionVariable.new
    Thread.new { sleep(SLICE); $mutex.synchronize { $condition.signal } }
  end

  def condition = $mutex.synchronize { $condition.wait($mutex) }

  def before_join = ($other = Thread.new { sleep(SLICE) })
  def join = $other.join

  # ---- pipes and children ----
  def before_pipe_reader
    r, $pipe = IO.pipe
    child('slowreader') { sleep(SLICE); r.read }
  end

  def pipe_reader = $pipe.write('x' * 300_000)

  def before_pipe_writer
    $pipe, w = IO.pipe
    child('slowwriter') { sleep(SLICE); w.write('x'); sleep }
  end

  def pipe_writer = $pipe.read(1)
  alias before_pipe_select before_pipe_writer
  def pipe_select = IO.select([$pipe])

  def before_fifo
    File.mkfifo("#{DIR}/fifo")
    child('fifowriter') { sleep(SLICE); File.open("#{DIR}/fifo", 'w') { |f| f.write('x') } }
  end

  def fifo
    File.read("#{DIR}/fifo")
  rescue Errno::EINTR
    retry
  end

  def before_wait_child = ($pid = child('worker') { sleep(SLICE) })
  def wait_child = Process.wait($pid)
  def system_sleep = system("sleep #{SLICE}")
  def backticks = `sleep #{SLICE}; echo x`

  # ---- locks of files ----
  def before_flock
    File.write("#{DIR}/lock", '')
    child('lockholder') { File.open("#{DIR}/lock").flock(File::LOCK_EX); sleep(SLICE) }
    sleep(0.05)
  end

  def flock = File.open("#{DIR}/lock") { |f| f.flock(File::LOCK_EX) }

  F_SETLKW = 7
  def setlk(file)
    file.fcntl(F_SETLKW, [1, 0, 0, 0, 0, 0, 0, 0].pack('s!s!l!l!l!l!l!l!'))
  rescue Errno::EINTR
    retry
  end

  def before_record_lock
    File.write("#{DIR}/record", '')
    child('recordholder') { f = File.open("#{DIR}/record", 'r+'); setlk(f); sleep(SLICE); f.close }
    sleep(0.05)
  end

  def record_lock = File.open("#{DIR}/record", 'r+') { |f| setlk(f) }

  # ---- network ----
  def before_slow_peer = ($socket = connect_to(server('slowpeer') { sleep(SLICE) }))
  def connect_to(listener) = TCPSocket.new('127.0.0.1', listener.addr[1])
  def slow_peer = ask($socket)

  def before_slow_query = ($db = Database.new(connect_to(server('database') { sleep(SLICE) })))
  def slow_query = $db.query('SELECT pg_sleep(1)')

  def before_busy_peer = ($socket = connect_to(server('busypeer') { spin(SLICE) }))
  def busy_peer = ask($socket)

  def before_locked_peer
    before_flock
    $socket = connect_to(server('lockedpeer') { File.open("#{DIR}/lock") { |f| f.flock(File::LOCK_EX) } })
  end

  def locked_peer = ask($socket)

  def before_unix_peer = ($socket = (path = "#{DIR}/s.sock") && server('unixpeer', UNIXServer.new(path)) { sleep(SLICE) } && UNIXSocket.new(path))
  def unix_peer = ask($socket)

  def before_n_plus_one = ($db = Database.new(connect_to(server('database') { sleep(0.002) })))
  def n_plus_one = 150.times { |i| $db.query("SELECT #{i}") }

  def before_slow_client
    listener = TCPServer.new('127.0.0.1', 0)
    child('slowclient') { s = connect_to(listener); sleep(SLICE); s.read(100_000_000) }
    $socket = listener.accept
  end

  def slow_client = $socket.write('x' * 20_000_000)

  # Nobody takes connections from the queue, which is full: the kernel drops what asks for another one.
  def before_accept_queue
    $listener = Socket.new(:INET, :STREAM)
    $listener.bind(Addrinfo.tcp('127.0.0.1', 0))
    $listener.listen(0)
    $queued = 3.times.map do
      s = Socket.new(:INET, :STREAM)
      s.connect_nonblock($listener.local_address, exception: false)
      s
    end
    sleep(0.1)
  end

  def accept_queue
    s = Socket.new(:INET, :STREAM)
    s.connect_nonblock($listener.local_address, exception: false)
    s.wait_writable(SLICE)
  end

  def before_dns
    $dns = UDPSocket.new
    $dns.bind('127.0.0.1', 0)
    $resolver = Resolv::DNS.new(nameserver_port: [['127.0.0.1', $dns.addr[1]]], search: [], ndots: 1)
    $resolver.timeouts = SLICE
  end

  def dns = $resolver.getresources('does-not-answer.example', Resolv::DNS::Resource::IN::A)

  def before_timeout = before_slow_peer
  def timeout
    Timeout.timeout(SLICE / 2) { ask($socket) }
  rescue Timeout::Error
    nil
  end

  # ---- disk ----
  def fsync
    File.open("#{DIR}/fsync", 'w') do |f|
      till = now + SLICE
      while now < till
        f.write('x' * 8192)
        f.fsync
      end
    end
  end

  def before_cache_miss
    File.open("#{DIR}/big", 'w') { |f| 64.times { f.write(Random.bytes(1 << 20)) }; f.fsync }
    $big = File.open("#{DIR}/big")
    $big.advise(:dontneed)
    $big.advise(:random)
  end

  def cache_miss
    random = Random.new(1)
    till = now + SLICE
    while now < till
      $big.pread(4096, random.rand(16_000) * 4096)
      $big.advise(:dontneed)
    end
  end

  def before_page_fault
    before_cache_miss
    $map = IO::Buffer.map($big, nil, 0, IO::Buffer::READONLY)
  end

  def page_fault
    random = Random.new(2)
    14_000.times { $map.get_value(:U8, random.rand(16_000) * 4096) }
  end

  # ---- others ----
  def before_stopped
    me = Process.pid
    child('stopper') { sleep(0.1); Process.kill(:STOP, me); sleep(SLICE); Process.kill(:CONT, me); sleep }
  end

  def stopped = spin_cpu(0.2)

  def before_throttled
    old = File.exist?('/sys/fs/cgroup/cpu/cpu.cfs_quota_us') # version 1
    top = old ? '/sys/fs/cgroup/cpu' : '/sys/fs/cgroup'
    @home = top + File.read('/proc/self/cgroup')[old ? /^\d+:(?:[a-z,]*,)?cpu(?:,[a-z,]*)?:(.*)/ : /^0::(.*)/, 1]
    @group = "#{top}/rutile-test-#{$$}"
    File.write("#{top}/cgroup.subtree_control", '+cpu') unless old
    Dir.mkdir(@group)
    if old
      File.write("#{@group}/cpu.cfs_period_us", '100000')
      File.write("#{@group}/cpu.cfs_quota_us", '20000')
    else
      File.write("#{@group}/cpu.max", '20000 100000')
    end
    File.write("#{@group}/cgroup.procs", $$.to_s)
  end

  def throttled = spin_cpu(0.15)

  def after_throttled
    File.write("#{@home}/cgroup.procs", $$.to_s)
    Dir.rmdir(@group)
  end

  def fiber
    other = Fiber.new { Report.new.crunch(SLICE) }
    other.resume
  end
end

cause = Cause.new
in_thread = %w[mutex_in_thread]
puts 'ready'
$stdout.flush
$stdin.gets
ARGV.each do |name|
  cause.send("before_#{name}") if cause.respond_to?("before_#{name}")
  run = lambda do
    wall0, cpu0 = now, cpu
    cause.send(name)
    "#{name} #{((now - wall0) * 1e9).to_i} #{cpu - cpu0}"
  end
  puts in_thread.include?(name) ? Thread.new(&run).value : run.call
  $stdout.flush
  cause.send("after_#{name}") if cause.respond_to?("after_#{name}")
  $children.each { |pid| Process.kill(:KILL, pid) rescue nil }
  $children.each { |pid| Process.wait(pid) rescue nil }
  $children.clear
end
