# frozen_string_literal: true

# SPDX-License-Identifier: MIT
# Slow requests with known causes: each method of Cause is one, and takes about SLICE seconds. What it needs
# (a peer, a process beside it) is started in before_NAME, outside of the request.
#
#   causes.rb DIR NAMES...
#
# says "ready", waits for a line on standard input, runs them one after the other and prints for each
# "NAME WALL_NS CPU_NS QUEUE_NS": what it took, and how much of that its thread was on a CPU or waited for one, as
# the kernel counts. What takes long to prepare is prepared in prepare_NAME, before "ready".

require 'socket'
require 'fiber'
require 'resolv'
require 'timeout'
require 'io/nonblock'
require 'logger'
require 'erb'
require 'rbconfig'

DIR = ARGV.shift
SLICE = 0.3

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
def cpu = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)

# Nanoseconds that this thread was on a CPU, and that it waited for one.
def counted = [cpu, File.read('/proc/thread-self/schedstat').split[1].to_i]

# The CPUs that we may use.
CPU_LIST = File.read('/proc/self/status')[/Cpus_allowed_list:\s*(\S+)/, 1]
CPUS = CPU_LIST.split(',').flat_map { |r| Range.new(*r.split('-').minmax.map(&:to_i)).to_a }

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

# Calls the next one, as those of Rack do.
class SlowMiddleware
  def initialize(app) = @app = app

  def call(env)
    spin_cpu(SLICE)
    @app.call(env)
  end
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

  def prepare_template_compile
    require 'tilt'
    require 'tilt/erb'
    Tilt::ERBTemplate.new { '' }.render
    @source = Array.new(16_000) { |i| "<% if x == #{i} %><%= y + #{i} %> text <% end %>\n" }.join
  end

  def template_compile = Tilt::ERBTemplate.new('items.erb') { @source }.render(self, x: 1, y: 2)

  def slow_middleware
    app = ->(_env) { [200, {}, []] }
    SlowMiddleware.new(app).call({})
  end

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
  def run_on(cpus) = system("taskset -apc #{cpus} #{$$} >/dev/null")

  def before_run_queue
    run_on(CPUS[0])
    @hogs = 3.times.map { child('cpuhog') { loop {} } }
    sleep(0.1)
  end

  def run_queue = spin_cpu(SLICE / 3)

  def after_run_queue
    @hogs.each { |pid| Process.kill(:KILL, pid) }
    run_on(CPU_LIST)
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

  # A peer that loses what it gets, for a while: a filter on its socket.
  SO_ATTACH_FILTER = 26
  SO_DETACH_FILTER = 27
  def lose_all(socket)
    socket.setsockopt(:SOCKET, SO_ATTACH_FILTER, [1].pack('Sx6') + [[6, 0, 0, 0].pack('SCCL')].pack('p'))
  end

  def before_retransmission
    listener = TCPServer.new('127.0.0.1', 0)
    go, gone = IO.pipe
    child('lossypeer') do
      client = listener.accept
      lose_all(client)
      gone.write('x')
      sleep(0.1)
      client.setsockopt(:SOCKET, SO_DETACH_FILTER, 0)
      client.gets
      client.write("ok\n")
      sleep
    end
    $socket = connect_to(listener)
    go.read(1)
  end

  def retransmission = ask($socket)

  # SYNs are lost.
  def before_connect_timeout
    $listener = TCPServer.new('127.0.0.1', 0)
    lose_all($listener)
  end

  def connect_timeout
    Socket.tcp('127.0.0.1', $listener.addr[1], connect_timeout: SLICE)
  rescue Errno::ETIMEDOUT
    nil
  end

  # ---- databases ----
  def postgres(command) = "setpriv --reuid=nobody --regid=nogroup --clear-groups #{@bin}/#{command}"

  def prepare_database_lock
    require 'pg'
    @bin = Dir['/usr/lib/postgresql/*/bin'].max
    @pg = "#{DIR}/pg"
    Dir.mkdir(@pg)
    system("chown nobody #{@pg} && #{postgres("initdb -D #{@pg}/db -A trust -U me --no-sync")} >/dev/null") or abort 'no initdb'
    options = "-k #{@pg} -c listen_addresses= -c fsync=off -c autovacuum=off"
    system("#{postgres("pg_ctl -D #{@pg}/db -w -l #{@pg}/log -o '#{options}' start")} >/dev/null") or abort 'no server'
    at_exit { system("#{postgres("pg_ctl -D #{@pg}/db -m immediate stop")} >/dev/null") if Process.pid == $main }
    connect_database.exec('CREATE TABLE items (id int, n int); INSERT INTO items VALUES (1, 1)')
  end

  def connect_database = PG.connect(host: @pg, user: 'me', dbname: 'postgres')

  def before_database_lock
    $db = connect_database
    go, gone = IO.pipe
    child('other') do
      db = connect_database
      db.exec('BEGIN; UPDATE items SET n = 2 WHERE id = 1')
      gone.write('x')
      sleep(SLICE)
      db.exec('COMMIT')
      sleep
    end
    go.read(1)
  end

  def database_lock = $db.exec('UPDATE items SET n = 3 WHERE id = 1')

  def before_sqlite_lock
    require 'sqlite3'
    $db = SQLite3::Database.new("#{DIR}/shop.db")
    $db.busy_timeout(5000)
    $db.execute('CREATE TABLE items (id)')
    go, gone = IO.pipe
    child('other') do
      db = SQLite3::Database.new("#{DIR}/shop.db")
      db.execute('BEGIN EXCLUSIVE')
      gone.write('x')
      sleep(SLICE)
      db.execute('COMMIT')
      sleep
    end
    go.read(1)
  end

  def sqlite_lock = $db.execute('INSERT INTO items VALUES (1)')

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

  # A log that is on the disk when its write returns.
  def before_slow_log
    $log = Logger.new(File.open("#{DIR}/production.log", File::WRONLY | File::CREAT | File::SYNC))
  end

  def slow_log
    till = now + SLICE
    $log.info('x' * 8192) while now < till
  end

  # A disk of which we can read 40 pages a second.
  def before_slow_disk
    File.write("#{DIR}/image", '')
    File.truncate("#{DIR}/image", 8 << 20)
    @disk = IO.popen(['/sbin/losetup', '--find', '--show', "#{DIR}/image"], &:read).chomp
    number = File.read("/sys/class/block/#{File.basename(@disk)}/dev").chomp
    controller = Dir.exist?('/sys/fs/cgroup/blkio') ? 'blkio' : 'io'
    in_group(controller, 'blkio.throttle.read_iops_device' => "#{number} 40", 'io.max' => "#{number} riops=40")
    $big = File.open(@disk)
    $big.advise(:random)
  end

  def slow_disk = 20.times { |i| $big.pread(4096, i * 8192) }

  def after_slow_disk
    leave_group
    $big.close
    system('/sbin/losetup', '-d', @disk)
  end

  # Others write to the disk as fast as it takes it.
  def before_disk_queue
    before_cache_miss
    system("cp /bin/dd #{DIR}/diskhog")
    2.times do |i|
      $children << spawn("exec setsid #{DIR}/diskhog if=#{DIR}/big of=#{DIR}/hog#{i} bs=4M iflag=direct oflag=direct status=none count=12; ")
    end
    sleep(0.1)
  end

  def disk_queue = cache_miss

  def prepare_swap
    file = "#{DIR}/swapfile"
    system("fallocate -l 128M #{file} && chmod 600 #{file} && /sbin/mkswap #{file} >/dev/null && /sbin/swapon #{file}") or abort 'no swap'
    at_exit { system("/sbin/swapoff #{DIR}/swapfile") if Process.pid == $main }
  end

  # More pages than our control group may have in memory.
  def before_swap
    in_group('memory', 'memory.limit_in_bytes' => 24 << 20, 'memory.max' => 24 << 20)
    $pages = IO::Buffer.new(48 << 20, IO::Buffer::MAPPED)
    bytes = Random.bytes(1 << 20)
    48.times { |i| $pages.set_string(bytes, i << 20) }
  end

  def after_swap = leave_group

  def swap
    random = Random.new(3)
    till = now + SLICE
    $pages.get_value(:U8, random.rand(12_000) * 4096) while now < till
  end

  # ---- others ----
  def before_stopped
    me = Process.pid
    child('stopper') { sleep(0.1); Process.kill(:STOP, me); sleep(SLICE); Process.kill(:CONT, me); sleep }
  end

  def stopped = spin_cpu(0.2)

  # Another process gets packets, and the kernel receives them on our CPU. It has a network of its own.
  def before_interrupts
    run_on(CPUS[0])
    mask = (1 << CPUS[0]).to_s(16)
    # What a packet takes the kernel are filters of 3,000 additions, of each socket that sees it.
    flood = <<~'RUBY'
      File.write('/proc/self/comm', 'flood')
      require 'socket'
      to = UDPSocket.new.tap { |s| s.bind('127.0.0.1', 0) }
      filter = [4, 0, 0, 1].pack('SCCL') * 3000 + [6, 0, 0, 0].pack('SCCL')
      all = Array.new(40) { Socket.new(17, :RAW, [0x0800].pack('n').unpack1('S')) }
      all.each { |s| s.setsockopt(:SOCKET, 26, [3001].pack('Sx6') + [filter].pack('p')) }
      from = UDPSocket.new.tap { |s| s.connect('127.0.0.1', to.addr[1]) }
      loop { from.send('x', 0) }
    RUBY
    $children << spawn('unshare', '-n', '-m', 'sh', '-c', <<~SH, '-', RbConfig.ruby, flood)
      set -e
      mount -t sysfs none /sys
      ip link set lo up
      echo #{mask} >/sys/class/net/lo/queues/rx-0/rps_cpus
      exec taskset -c #{CPUS[1] || CPUS[0]} "$1" --disable-gems -e "$2"
    SH
    sleep(0.5)
  end

  def interrupts = spin_cpu(SLICE)
  def after_interrupts = run_on(CPU_LIST)

  # Moves us into a control group with these limits, of which each version has its own.
  def in_group(controller, limits)
    old = "/sys/fs/cgroup/#{controller}"
    top = Dir.exist?(old) ? old : '/sys/fs/cgroup'
    is_old = top == old
    @home = top + File.read('/proc/self/cgroup')[is_old ? /^\d+:(?:[a-z,]*,)?#{controller}(?:,[a-z,]*)?:(.*)/ : /^0::(.*)/, 1]
    @group = "#{top}/rutile-test-#{$$}"
    File.write("#{top}/cgroup.subtree_control", "+#{controller}") unless is_old
    Dir.mkdir(@group)
    limits.each { |name, value| File.write("#{@group}/#{name}", value.to_s) if File.exist?("#{@group}/#{name}") }
    File.write("#{@group}/cgroup.procs", $$.to_s)
  end

  def leave_group
    File.write("#{@home}/cgroup.procs", $$.to_s)
    Dir.rmdir(@group)
  end

  def before_throttled = in_group('cpu', 'cpu.cfs_period_us' => 100_000, 'cpu.cfs_quota_us' => 20_000, 'cpu.max' => '20000 100000')
  def throttled = spin_cpu(0.15)
  def after_throttled = leave_group

  def fiber
    other = Fiber.new { Report.new.crunch(SLICE) }
    other.resume
  end
end

cause = Cause.new
in_thread = %w[mutex_in_thread]
ARGV.each { |name| cause.send("prepare_#{name}") if cause.respond_to?("prepare_#{name}") }
puts 'ready'
$stdout.flush
$stdin.gets
ARGV.each do |name|
  cause.send("before_#{name}") if cause.respond_to?("before_#{name}")
  run = lambda do
    wall0, counted0 = now, counted
    cause.send(name)
    wall, counted1 = now - wall0, counted
    [name, (wall * 1e9).to_i, *counted1.zip(counted0).map { |a, b| a - b }].join(' ')
  end
  puts in_thread.include?(name) ? Thread.new(&run).value : run.call
  $stdout.flush
  cause.send("after_#{name}") if cause.respond_to?("after_#{name}")
  $children.each { |pid| Process.kill(:KILL, pid) rescue nil }
  $children.each { |pid| Process.wait(pid) rescue nil }
  $children.clear
end
