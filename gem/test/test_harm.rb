# frozen_string_literal: true

require_relative 'test_helper'
require 'net/http'
require 'socket'

# What tracing must never do to the program: kill its children, take its descriptors, lose its events.
class HarmTest < Minitest::Test
  def setup
    @dir = Dir.mktmpdir
  end

  def teardown
    FileUtils.rm_rf(@dir)
  end

  RUBY = [RbConfig.ruby, "-I#{LIB}", "-I#{EXT}"].freeze

  def rutile(*args, **options)
    IO.popen([ENV.fetch('RUTILE'), *args, { err: %i[child out] }.merge(options)], &:read)
  end

  # The lines that babeltrace2 prints of a recording.
  def events(dir = "#{@dir}/trace")
    IO.popen(['babeltrace2', dir], err: %i[child out], &:read).lines.map(&:chomp)
  end

  def limited(code, descriptors: 256)
    out = IO.popen([*RUBY, '-e', "require 'rutile/static_tracing'\n#{code}", { rlimit_nofile: [descriptors, descriptors], err: %i[child out] }], &:read)
    assert $?.success?, out
    out
  end

  # One descriptor for all, however many there are.
  def test_few_descriptors
    out = limited(<<~'RUBY')
      count = -> { [Dir.children('/proc/self/fd').size, File.foreach('/proc/self/maps').count { |l| l.include?('memfd') }] }
      Rutile::Tracepoint.new('first', 'x')
      before = count.call
      1500.times { |i| Rutile::Tracepoint.new("prov#{i}", 'tp', Integer) }
      p count.call.zip(before).map { |a, b| a - b }
      Process.wait(fork do
        1500.times { |i| Rutile::Tracepoint.new('first', "lazy#{i}", Integer) }
        after = count.call
        p after[0] - before[0] <= 1, after[1] - before[1] <= 3, File.read('/etc/hostname').empty?, `echo hi`
        exit!(0)
      end)
    RUBY
    assert_equal "[0, 0]\ntrue\ntrue\nfalse\n\"hi\\n\"\n", out
  end

  # Declaring was quadratic: this took more than an hour.
  def test_many_tracepoints
    skip 'no rutile to test with' unless ENV['RUTILE']
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      20_000.times { |i| Rutile::Tracepoint.new('one', "p#{i}", Integer) }
      Rutile::Provider.register('batch').batch { |provider| 40_000.times { |i| provider.add_tracepoint("b#{i}", Integer) } }
      LAST = Rutile::Tracepoint.fetch('batch', 'b39999')
      FIRST = Rutile::Tracepoint.fetch('one', 'p0')
      $stdout.sync = true
      puts $$
      while gets
        LAST.fire(39_999)
        FIRST.fire(0)
        puts "#{LAST.on?} #{FIRST.on?}"
      end
    RUBY
    IO.popen([*RUBY, '-e', code], 'r+') do |program|
      pid = program.gets.to_i
      assert_equal 60_000, rutile('tracepoints', '--json', pid.to_s).lines.grep(/"provider":"(one|batch)"/).size
      recorder = spawn(ENV.fetch('RUTILE'), 'record', '-o', "#{@dir}/trace", '-e', 'ruby_static:batch:b39999', '-p', pid.to_s, err: File::NULL)
      eventually { rutile('tracepoints', '--json', pid.to_s).include?('"name":"b39999"') && recorded?(program) }
      Process.kill('INT', recorder)
      Process.wait(recorder)
      rutile('tracepoints', pid.to_s, '--disable', 'batch:b39999')
      program.puts
      assert_equal "false true\n", program.gets
    end
    refute_empty events
    events.each { |line| assert_match(/ruby_static:batch:b39999: .*\{ arg0 = 39999 \}/, line) }
  end

  def recorded?(program)
    program.puts
    program.gets
    sleep 0.1
    Dir.glob("#{@dir}/trace/*/stream").any? { |path| File.size(path).positive? }
  end

  # Each of two recorders gets all events, and each trace can be read.
  def test_two_recorders
    skip 'no rutile to test with' unless ENV['RUTILE']
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      A = Rutile::Tracepoint.new('two', 'a', Integer)
      B = Rutile::Tracepoint.new('two', 'b', Integer)
      $stdout.sync = true
      puts $$
      i = 0
      loop { A.fire(i += 1); B.fire(i); sleep 0.002 }
    RUBY
    IO.popen([*RUBY, '-e', code]) do |program|
      pid = program.gets.to_i
      tools = %w[a b].map { |name| spawn(ENV.fetch('RUTILE'), 'record', '-o', "#{@dir}/#{name}", '-e', "ruby_static:two:#{'*' if name == 'a'}#{name if name == 'b'}", '-p', pid.to_s, err: File::NULL) }
      eventually { %w[a b].all? { |name| Dir.glob("#{@dir}/#{name}/*/stream").any? { |path| File.size(path).positive? } } }
      sleep 0.5
      tools.each { |tool| Process.kill('INT', tool) }
      tools.each { |tool| assert Process.wait2(tool)[1].success? }
      Process.kill('KILL', pid)
    end
    { 'a' => %w[a b], 'b' => %w[b] }.each do |dir, names|
      lines = events("#{@dir}/#{dir}")
      assert_equal names, lines.map { |line| line[/two:(\w)/, 1] }.uniq.sort
      names.each do |name|
        numbers = lines.grep(/two:#{name}/).map { |line| line[/arg0 = (\d+)/, 1].to_i }
        assert_equal (numbers[0]..numbers[-1]).to_a, numbers
      end
    end
  end

  # As many recorders as there is room for, and one more: that one is refused by name.
  def test_too_many_recorders
    skip 'no rutile to test with' unless ENV['RUTILE']
    IO.popen([*RUBY, '-e', "require 'rutile/static_tracing'; A = Rutile::Tracepoint.new('many', 'a'); $stdout.sync = true; puts $$; loop { A.fire; sleep 0.01 }"]) do |program|
      pid = program.gets.to_i
      tools = 8.times.map { |i| spawn(ENV.fetch('RUTILE'), 'record', '-o', "#{@dir}/#{i}", '-e', 'ruby_static:many', '-p', pid.to_s, err: File::NULL) }
      eventually { 8.times.all? { |i| Dir.glob("#{@dir}/#{i}/*/stream").any? } }
      assert_includes rutile('record', '-o', "#{@dir}/more", '-e', 'ruby_static:many', '-p', pid.to_s, '--duration', '1s'), "process #{pid} is not recorded: 8 recorders"
      tools.each { |tool| Process.kill('INT', tool) && Process.wait(tool) }
      Process.kill('KILL', pid)
    end
  end

  # Of a command that rutile starts nothing is missed: not its first event, not its children's, not those of
  # a program that a child executes, however short they live.
  def test_first_events
    skip 'no rutile to test with' unless ENV['RUTILE']
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      TP = Rutile::Tracepoint.new('first', 'tp', Integer, String)
      TP.fire(0, 'parent')
      20.times do |i|
        fork do
          TP.fire(i, 'child')
          Rutile::Tracepoint.new('first', "late#{i}", Integer).fire(i)
          Process.wait(fork { TP.fire(i, 'grandchild'); exit!(0) })
          exit!(0)
        end
      end
      Process.waitall
      exec(*ARGV, '-e', "require 'rutile/static_tracing'; Rutile::Tracepoint.new('first', 'tp', Integer, String).fire(1, 'executed')")
    RUBY
    out = rutile('record', '-o', "#{@dir}/trace", '-e', 'ruby_static:first', '--', *RUBY, '-e', code, *RUBY)
    assert $?.success?, out
    lines = events
    counts = lines.group_by { |line| line[/arg1 = "(\w+)"/, 1] }.transform_values(&:size)
    assert_equal({ 'parent' => 1, 'child' => 20, 'grandchild' => 20, 'executed' => 1, nil => 20 }, counts)
    assert_equal (0..19).to_a, lines.filter_map { |line| line[/late\d+: .*arg0 = (\d+)/, 1]&.to_i }.sort
    assert_includes out, ' 0 events lost'
  end

  # Right after a fork, before librutile-usdt's handler has run, a child has its parent's page and ring.
  # A recorder that looks just then must take neither for the child's.
  def test_seen_while_forking
    skip 'no rutile to test with' unless ENV['RUTILE']
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      TP = Rutile::Tracepoint.new('slow', 'tp', Integer, String)
      TP.fire(0, 'parent')
      3.times { |i| fork { TP.fire(i, 'child'); exit!(0) } }
      5.times { |i| TP.fire(i, 'parent'); sleep 0.1 }
      Process.waitall
    RUBY
    File.write("#{@dir}/slow.c", <<~'C')
      #include <pthread.h>
      #include <unistd.h>
      static void wait(void) { usleep(700000); }
      __attribute__((constructor)) static void begin(void) { pthread_atfork(0, 0, wait); }
    C
    assert system(RbConfig::CONFIG['CC'].split[0], '-shared', '-fPIC', '-o', "#{@dir}/slow.so", "#{@dir}/slow.c")
    out = rutile('record', '-o', "#{@dir}/trace", '-e', 'ruby_static:slow', '--', 'env', "LD_PRELOAD=#{@dir}/slow.so", *RUBY, '-e', code)
    assert $?.success?, out
    assert_equal({ 'parent' => 6, 'child' => 3 }, events.map { |line| line[/arg1 = "(\w+)"/, 1] }.tally)
    assert_equal 4, Dir.children("#{@dir}/trace").grep(/ruby_static/).size
  end

  # A packet is as long as its content; of 200 events the ring's packets would be 64 KiB each.
  def test_packets_are_trimmed
    skip 'no rutile to test with' unless ENV['RUTILE']
    code = "require 'rutile/static_tracing'; TP = Rutile::Tracepoint.new('few', 'tp', Integer); 20.times { |i| TP.fire(i); sleep 0.06 }"
    out = rutile('record', '-o', "#{@dir}/trace", '-e', 'ruby_static:few', '--', *RUBY, '-e', code)
    assert_equal 20, events.size, out
    assert_operator Dir.glob("#{@dir}/trace/*/stream").sum { |path| File.size(path) }, :<, 10_000
    # Each event says on which CPU it happened.
    events.each { |line| assert_operator line[/cpu = (\d+)/, 1].to_i, :<, `getconf _NPROCESSORS_CONF`.to_i }
  end

  # What the ring has no room for is counted.
  def test_cut_strings_are_counted
    skip 'no rutile to test with' unless ENV['RUTILE']
    code = "require 'rutile/static_tracing'; TP = Rutile::Tracepoint.new('cut', 'tp', String); TP.fire('x' * 4095); TP.fire('y' * 4096); print TP.truncated"
    out = rutile('record', '-o', "#{@dir}/trace", '-e', 'ruby_static:cut', '--', *RUBY, '-e', code)
    assert_match(/^1/, out)
    assert_equal ['x' * 4095, 'y' * 4095], events.map { |line| line[/arg0 = "(\w+)"/, 1] }
  end

  def test_argument_names
    skip 'no rutile to test with' unless ENV['RUTILE']
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      TP = Rutile::Tracepoint.new('shop', 'paid', Integer, String, names: %i[order currency])
      Rutile::Provider.register('shop').add_tracepoint('sent', Float, names: ['weight']).fire(1.5)
      TP.fire(7, 'EUR')
      Rutile::Tracepoint.new('shop', 'bad', Integer, names: ['a b']) rescue print $!.class, $!.message
      Rutile::Tracepoint.new('shop', 'bad', Integer, names: []) rescue print $!.class
    RUBY
    out = rutile('record', '-o', "#{@dir}/trace", '-e', 'ruby_static:shop', '--', *RUBY, '-e', code)
    assert_includes out, 'ArgumentErrorinvalid names of arguments ["a b"]: one identifier for each, all differentArgumentError'
    assert_equal ['{ weight = 1.5 }', '{ order = 7, currency = "EUR" }'], events.map { |line| line[/\{ [^{]*\}\z/] }
  end

  # rutile's uprobes find the tracepoints by the process, although their file has no path.
  def test_probes_of_the_kernel
    skip 'needs rutile and root' unless ENV['RUTILE'] && Process.uid.zero?
    code = "require 'rutile/static_tracing'; TP = Rutile::Tracepoint.new('shop', 'paid', Integer); $stdout.sync = true; puts $$; loop { TP.fire(5); sleep 0.01 }"
    IO.popen([*RUBY, '-e', code]) do |program|
      pid = program.gets
      rutile('record', '-o', "#{@dir}/trace", '-e', "usdt:#{pid.chomp}:shop:paid", '-p', pid.chomp, '--duration', '1s')
      Process.kill('KILL', pid.to_i)
    end
    refute_empty events.grep(/shop:paid: .*\{ arg0 = 5 \}/)
  end

  APP = <<~'RUBY'
    require 'rutile/rack'
    use Rutile::Rack
    run ->(env) { [200, {}, [$$.to_s]] }
  RUBY

  CONFIG = <<~'RUBY'
    workers 2
    threads 1, 1
    preload_app!
    fork_worker 0
  RUBY

  # Workers that are forked from a traced worker answer, and are traced.
  def test_puma_with_fork_worker
    skip 'needs rutile, root, puma and bpftrace' unless ENV['RUTILE'] && bpftrace? && system('command -v puma >/dev/null')
    File.write("#{@dir}/config.ru", APP)
    File.write("#{@dir}/puma.rb", CONFIG)
    port = TCPServer.open('127.0.0.1', 0) { |server| server.addr[1] }
    puma = spawn({ 'RUBYLIB' => "#{LIB}:#{EXT}", 'RACK_ENV' => 'none' }, 'puma', '-q', '-C', 'puma.rb', '-b', "tcp://127.0.0.1:#{port}",
                 chdir: @dir, out: "#{@dir}/log", err: %i[child out], pgroup: true)
    ask = lambda do
      Net::HTTP.start('127.0.0.1', port, open_timeout: 5, read_timeout: 10) { |http| http.get('/').body.to_i }
    rescue SystemCallError, IOError, Net::OpenTimeout, Net::ReadTimeout
      nil
    end
    before = eventually { (seen = 20.times.filter_map { ask.call }.uniq).size == 2 && seen }
    file = rutile('tracepoints', '--json', puma.to_s)[/request_end.*"file":"([^"]+)"/, 1]
    answers = after = nil
    said = bpftrace('-e', "BEGIN { printf(\"ready\\n\"); } usdt:#{file}:rack:request_end { printf(\"%d GET\\n\", pid); }") do |out|
      eventually { ask.call && before.all? { |pid| File.read(out).match?(/^#{pid} GET/) } }
      Process.kill('URG', puma) # worker 0 forks the other one again
      after = eventually { (seen = 10.times.filter_map { ask.call }.uniq) && (seen - before).any? && seen }
      answers = 60.times.map { ask.call }
      eventually { ask.call && (after - before).all? { |pid| File.read(out).match?(/^#{pid} GET/) } }
    end
    refute_includes answers, nil, File.read("#{@dir}/log")
    refute_empty((answers.uniq - before) & said.scan(/^(\d+) GET/).flatten.map(&:to_i))
  ensure
    if puma
      Process.kill('KILL', -puma) rescue nil
      Process.wait(puma) rescue nil
    end
  end
end
