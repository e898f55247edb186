# frozen_string_literal: true

require_relative 'test_helper'

# The probes as other people's tools see them.
class TraceTest < Minitest::Test
  # The semaphore rises a moment before the tracer's program is in place. So the target fires two
  # probes, of which the tracer attaches one first and one last, until the test has seen both.
  WAIT = <<~'RUBY'
    require 'rutile/static_tracing'
    GO = %w[first last].map { |name| Rutile::Tracepoint.new('go', name) }
    WAIT = -> { GO.each(&:fire) until IO.select([$stdin], nil, nil, 0.01) }
  RUBY

  # As bpftrace(), for a target that waits by WAIT: returns when that has said something.
  def traced_values(pid, out, input, script)
    script = <<~BT
      BEGIN { printf("ready\\n"); }
      usdt::go:first { printf("first\\n"); }
      #{script}
      usdt::go:last { printf("last\\n"); }
    BT
    bpftrace('-p', pid.to_s, '-e', script) do |said|
      eventually { (%W[first\n last\n] - File.readlines(said)).empty? }
      input.puts
      out.gets
      # It prints what it has from time to time; what comes later than this has everything before it.
      seen = File.readlines(said).count("first\n")
      eventually { File.readlines(said).count("first\n") >= seen + 5 }
    end
  end

  EXAMPLES = File.expand_path('../../examples', __dir__)

  def example(name, *args, env: {})
    running("load #{"#{EXAMPLES}/#{name}/#{name}.rb".inspect}", *args, env: env) do |pid, out, _|
      yield pid, out.gets.split.last
    end
  end

  def test_tick_tock
    example('tick_tock', env: { 'INTERVAL' => '0.02' }) do |pid, _|
      said = bpftrace('-p', pid.to_s, "#{EXAMPLES}/tick_tock/tick_tock.bt") do |out|
        eventually { File.read(out).scan(/^\d+ t/).size >= 10 }
      end
      beats = said.scan(/^(\d+) (tick|tock)$/)
      assert_operator beats.size, :>=, 10
      beats.each { |n, word| assert_equal n.to_i.odd? ? 'tick' : 'tock', word }
      beats.each_cons(2) { |a, b| assert_equal a[0].to_i + 1, b[0].to_i }
    end
  end

  # What bpftrace says after a while; after a longer one when that was not enough for the block, as on
  # a machine that is far too busy.
  def said_by(pid, example)
    said = nil
    [1, 5, 20].any? do |seconds|
      said = bpftrace('-p', pid.to_s, "#{EXAMPLES}/#{example}/#{example}.bt") { sleep seconds }
      yield said
    end
    said
  end

  def test_distribution
    example('distribution') do |pid, _|
      said = said_by(pid, 'distribution') { |text| text[/@throws: (\d+)/, 1].to_i > 50 }
      rows = said.scan(/^\[(\d+), (\d+)\) +(\d+)/).map { |row| row.map(&:to_i) }
      assert_operator rows.sum(&:last), :>, 50, said
      assert_equal said[/@throws: (\d+)/, 1].to_i, rows.sum(&:last)
      rows.each { |from, _, n| assert_includes 2..12, from if n.positive? }
    end
  end

  def test_nsec
    example('nsec', '--enable') do |pid, _|
      said = said_by(pid, 'nsec') { |text| text[/@calls: (\d+)/, 1].to_i >= 4 }
      assert_operator said[/@calls: (\d+)/, 1].to_i, :>=, 4, said
      assert_includes said, '@ns[cook]'
    end
  end

  VALUES = WAIT + <<~'RUBY'
    $stdout.sync = true
    TP = Rutile::Tracepoint.new('values', 'all', Integer, String, Symbol, Float, TrueClass, NilClass)
    MANY = Rutile::Tracepoint.new('values', 'many', *[Integer] * 12)
    puts "#{$$} #{TP.provider.path}"
    WAIT.call
    TP.fire(-5, 'text', :symbol, -1.5, true, nil)
    TP.fire(2**100, "\u00e9" * 3, :"odd symbol", 0.0, false, nil)
    TP.fire(-2**100, 'abcdef'[0, 3], nil, 1, nil, nil)
    TP.fire(nil, nil, 'string', Float::INFINITY, true, nil)
    TP.fire('wrong')
    MANY.fire(*(1..12).map { |i| -i })
    puts 'done'
    loop { GO.each(&:fire) && sleep(0.01) }
  RUBY

  def values
    running(VALUES) do |pid, out, input|
      path = out.gets.split.last
      yield pid, path, out, input
    end
  end

  def test_values_by_bpftrace
    script = 'usdt::values:all { printf("%lld|%s|%s|%llx|%d|%d\n", arg0, str(arg1), str(arg2), arg3, arg4, arg5); }'
    values do |pid, _, out, input|
      said = traced_values(pid, out, input, script)
      floats = [-1.5, 0.0, 1.0, Float::INFINITY].map { |f| f.zero? ? '0' : [f].pack('G').unpack1('H*') }
      assert_equal ["-5|text|symbol|#{floats[0]}|1|0", "#{2**63 - 1}|ééé|odd symbol|#{floats[1]}|0|0",
                    "#{-2**63}|abc||#{floats[2]}|0|0", "0||string|#{floats[3]}|1|0"], said.lines.grep(/\|/).map(&:chomp)
    end
  end

  # The kernel's own uprobes, which perf and trace-cmd use: all 12 arguments, those on the stack too.
  def test_values_by_tracefs
    events = '/sys/kernel/tracing/uprobe_events'
    # systemd mounts it; a machine without systemd may not have done so.
    system('mount', '-t', 'tracefs', 'tracefs', '/sys/kernel/tracing') if Process.uid.zero? && !File.exist?(events)
    skip 'needs root and tracefs' unless File.writable?(events) && RUBY_PLATFORM.include?('x86_64')
    values do |pid, path, out, input|
      notes = `readelf -nW #{path} 2>/dev/null`
      site, semaphore = notes[/Name: many\n.*?(0x\h+), Base: 0x\h+, Semaphore: (0x\h+)/m] && [$1.hex, $2.hex]
      places = %w[di si dx cx r8 r9].map { |reg| "%#{reg}" } + (1..6).map { |i| "+#{8 * i}(%sp)" }
      args = places.each_with_index.map { |place, i| "a#{i + 1}=#{place}:s64" }.join(' ')
      group = "rutile_test_#{$$}"
      File.write(events, "p:#{group}/many #{path}:#{site}(#{semaphore}) #{args}\n", mode: 'a')
      begin
        dir = "/sys/kernel/tracing/instances/#{group}"
        Dir.mkdir(dir)
        File.write("#{dir}/events/#{group}/many/enable", '1')
        input.puts
        out.gets
        said = File.read("#{dir}/trace")
        File.write("#{dir}/events/#{group}/many/enable", '0')
      ensure
        Dir.rmdir(dir)
        File.write(events, "-:#{group}/many\n", mode: 'a')
      end
      assert_includes said, (1..12).map { |i| "a#{i}=-#{i}" }.join(' ')
    end
  end

  def test_found_by_bcc
    skip 'needs root and bcc' unless Process.uid.zero? && system('command -v tplist-bpfcc >/dev/null')
    values do |pid, _path, _, _|
      said = `tplist-bpfcc -v -p #{pid} 2>&1`
      assert_match(/values:all \[sema 0x\h+\]/, said)
      assert_includes said, '6 argument(s)'
      assert_includes said, '12 argument(s)'
    end
  end

  def test_found_by_gdb
    skip 'needs gdb' unless system('command -v gdb >/dev/null')
    values do |_pid, path, _, _|
      said = `gdb -nx -batch -ex 'info probes stap' #{path} 2>&1`
      assert_match(/values +many +0x\h+ +0x\h+/, said)
    end
  end

  # The kernel counts tracers: the semaphore goes up while one is there, and down again.
  def test_semaphore_follows_the_tracer
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      $stdout.sync = true
      TP = Rutile::Tracepoint.new('sem', 'x')
      puts TP.provider.path
      loop { gets; puts TP.enabled? }
    RUBY
    running(code) do |pid, out, input|
      out.gets
      enabled = lambda do
        input.puts
        out.gets.chomp
      end
      assert_equal 'false', enabled.call
      bpftrace('-p', pid.to_s, '-e', 'BEGIN { printf("ready\n"); } usdt::sem:x { @ = count(); }') do
        eventually { enabled.call == 'true' }
      end
      eventually { enabled.call == 'false' }
    end
  end

  # All the tracers, seen from outside, through return, exception and throw.
  def test_tracers
    code = WAIT + <<~'RUBY'
      $stdout.sync = true
      class Shop
        def total(a, k: 1); Array.new(100) { Object.new }.size; end
        def fail; raise(ArgumentError, 'no money'); end
      end
      T = Rutile::Tracer
      [T::Latency, T::Stack, T::Arguments, T::Exceptions, T::Allocations].each { |t| t.register(Shop); t.enable! }
      puts 'ready'
      WAIT.call
      Shop.new.total(3, k: :x)
      begin
        Shop.new.fail
      rescue ArgumentError
      end
      puts 'done'
      loop { GO.each(&:fire) && sleep(0.01) }
    RUBY
    script = <<~'BT'
      usdt::shop:total_latency { printf("latency %s %d\n", str(arg0), arg1 > 100); }
      usdt::shop:fail_latency { printf("latency %s %d\n", str(arg0), arg1 > 100); }
      usdt::shop:total_stack { printf("stack %s %s\n", str(arg0), str(arg1)); }
      usdt::shop:total_arguments { printf("arguments %s %s\n", str(arg0), str(arg1)); }
      usdt::shop:total_allocations { printf("allocations %s %d\n", str(arg0), arg1 >= 101); }
      usdt::shop:fail_exceptions { printf("exceptions %s %s\n", str(arg0), str(arg1)); printf("%s %s\n", str(arg2), str(arg3)); }
    BT
    running(code) do |pid, out, input|
      out.gets
      said = traced_values(pid, out, input, script)
      assert_includes said, "latency total 1\n"
      assert_includes said, "latency fail 1\n"
      assert_match(/^stack total -e:\d+:in `<main>'$/, said)
      assert_includes said, "arguments total 3, k: :x\n"
      assert_includes said, "allocations total 1\n"
      assert_match(/^exceptions fail ArgumentError\nno money -e:\d+:in `fail'$/, said)
    end
  end
end
