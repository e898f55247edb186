# frozen_string_literal: true

require_relative 'test_helper'
require 'net/http'

# Servers that fork: every worker can be traced, one by one and all together.
class ForkTest < Minitest::Test
  APP = <<~'RUBY'
    require 'rutile/rack'
    use Rutile::Rack
    run ->(env) { [200, { 'Content-Type' => 'text/plain' }, ["#{Process.pid}"]] }
  RUBY

  def get(port, path)
    Net::HTTP.start('127.0.0.1', port, open_timeout: 2, read_timeout: 10) { |http| http.get(path, 'X-Request-Id' => "id-#{path[1..]}").body }
  rescue SystemCallError, IOError, Net::OpenTimeout, Net::ReadTimeout
    nil
  end

  def free_port
    server = TCPServer.new('127.0.0.1', 0)
    server.addr[1]
  ensure
    server&.close
  end

  # Starts a server with two workers; yields its pid, the port and the workers' pids.
  def server(*command, dir:)
    port = free_port
    out = File.join(dir, 'server.log')
    command = command.map { |word| word.gsub('PORT', port.to_s) }
    pid = spawn({ 'RUBYLIB' => "#{LIB}:#{EXT}", 'RACK_ENV' => 'none' }, *command, chdir: dir, out: out, err: %i[child out], pgroup: true)
    workers = eventually do
      flunk(File.read(out)) if Process.wait(pid, Process::WNOHANG)
      seen = 20.times.map { get(port, '/who') }.compact.uniq
      seen if seen.size == 2
    end
    yield pid, port, workers.map(&:to_i)
  ensure
    if pid
      Process.kill('KILL', -pid) rescue nil
      Process.wait(pid) rescue nil
    end
  end

  SCRIPT = 'BEGIN { printf("ready\n"); } %s { printf("%%d %%s %%s %%d %%d %%s\n", pid, str(arg0), str(arg1), arg2, arg3 > 0, str(arg4)); }'

  # What bpftrace says of requests, by worker.
  def requests(port, workers, *args)
    sent = 0
    said = bpftrace(*args) do |out|
      # A server need not spread requests evenly.
      eventually do
        8.times { get(port, "/n#{sent += 1}") }
        workers.all? { |worker| File.read(out).match?(/^#{worker} GET/) }
      end
    end
    said.lines.grep(/GET/).each { |line| assert_match(%r{^\d+ GET /n\d+ 200 1 id-n\d+$}, line) }
    said.scan(/^(\d+) GET/).flatten.map(&:to_i)
  end

  def check_workers(port, workers)
    skip 'needs rutile, root and bpftrace' unless ENV['RUTILE'] && bpftrace?
    workers.each do |worker|
      pids = requests(port, [worker], '-p', worker.to_s, '-e', format(SCRIPT, 'usdt::rack:request_end'))
      assert_equal [worker], pids.uniq
    end
    file = IO.popen([ENV.fetch('RUTILE'), 'tracepoints', '--json', workers[0].to_s], &:read)[/request_end.*"file":"([^"]+)"/, 1]
    pids = requests(port, workers, '-e', format(SCRIPT, "usdt:#{file}:rack:request_end"))
    assert_equal workers.sort, pids.uniq.sort
  end

  def test_puma_cluster
    skip 'needs puma' unless system('command -v puma >/dev/null')
    Dir.mktmpdir do |dir|
      File.write("#{dir}/config.ru", APP)
      server('puma', '-q', '-w', '2', '-t', '1:2', '--preload', '-b', 'tcp://127.0.0.1:PORT', dir: dir) do |_, port, workers|
        refute_match(/Thread/, File.read("#{dir}/server.log"), 'puma warns of no thread of ours')
        check_workers(port, workers)
      end
    end
  end

  def test_unicorn
    skip 'needs unicorn' unless system('command -v unicorn >/dev/null')
    Dir.mktmpdir do |dir|
      File.write("#{dir}/config.ru", APP)
      File.write("#{dir}/unicorn.rb", "worker_processes 2\npreload_app true\n")
      server('unicorn', '-c', 'unicorn.rb', '-l', '127.0.0.1:PORT', dir: dir) { |_, port, workers| check_workers(port, workers) }
    end
  end

  # A job runner that forks a child for each job, as Resque does, and one that daemonizes.
  def test_fork_per_job_and_daemon
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      require ARGV[0]
      TP = Rutile::Tracepoint.new('jobs', 'run', Integer)
      r, w = IO.pipe
      3.times do |i|
        fork do
          TestSupport.semaphore(TP, 1)
          later = Rutile::Tracepoint.new('jobs', "later#{i}", Integer)
          TestSupport.semaphore(later, 1)
          w.puts [TP.fire(i), later.fire(i), TP.fired, TP.provider.path.start_with?("/proc/#{$$}/"), TP.provider.paths.size].inspect
          exit!(0)
        end
      end
      3.times { Process.wait }
      w.puts [TP.enabled?, TP.fired, TP.provider.paths.size].inspect
      pid = fork do
        Process.daemon(true, true)
        TestSupport.semaphore(TP, 1)
        w.puts [TP.fire(1), TP.provider.path.start_with?("/proc/#{$$}/")].inspect
        exit!(0)
      end
      Process.wait(pid)
      w.close
      puts r.read
    RUBY
    out = ruby(code, File.expand_path('test_helper.rb', __dir__))
    assert_equal (["[true, true, 1, true, 2]"] * 3) + ['[false, 0, 1]', '[true, true]'], out.lines.map(&:chomp).grep(/\A\[/)
  end

  # A child that closes all descriptors and opens its own at the same numbers.
  def test_closed_descriptors
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      TP = Rutile::Tracepoint.new('closed', 'x')
      $stdout.sync = true
      pid = fork do
        mine = (3..30).map { |fd| IO.for_fd(fd, autoclose: false) rescue nil }.compact
        files = (3..30).map { |fd| File.readlink("/proc/self/fd/#{fd}") rescue nil }
        (3..30).each { |fd| IO.for_fd(fd, autoclose: false).close if files[fd - 3].to_s.include?('memfd') }
        opened = 5.times.map { File.open('/dev/null') }
        grandchild = fork do
          puts opened.map { |f| File.readlink("/proc/self/fd/#{f.fileno}") }.uniq.inspect, TP.fire
          TP.provider.destroy
          puts opened.map { |f| File.readlink("/proc/self/fd/#{f.fileno}") }.uniq.inspect
        end
        Process.wait(grandchild)
        exit!(0)
      end
      Process.wait(pid)
    RUBY
    assert_equal %(["/dev/null"]\nfalse\n["/dev/null"]\n), ruby(code, flags: ['-W0'])
  end

  def test_threads_fork_while_others_declare
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      threads = 3.times.map do |i|
        Thread.new { 60.times { |k| tp = Rutile::Tracepoint.new("t#{i}", "p#{k}"); tp.fire; tp.provider.destroy if (k % 10).zero? } }
      end
      pids = 15.times.map { fork { Rutile::Tracepoint.new('child', 'x').fire; exit!(0) } }
      threads.each(&:join)
      p pids.map { |pid| Process.wait2(pid)[1].exitstatus }.uniq
    RUBY
    assert_equal "[0]\n", ruby(code)
  end
end
