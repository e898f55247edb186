# frozen_string_literal: true

require_relative 'test_helper'
require 'json'

# `rutile tracepoints PID`.
class ControlTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require 'rutile/static_tracing'
    PAID = Rutile::Tracepoint.new('shop', 'paid', Integer, String, Float, TrueClass)
    class Shop
      def total(a, k:); [a, k]; end
      def tax; 1; end
    end
    Rutile::Tracer::Latency.register(Shop, :total, :tax)
    $stdout.sync = true
    puts 'ready'
    while (line = gets)
      puts eval(line).inspect
    end
  RUBY

  def rutile(*args, status: 0)
    skip 'no rutile to test with' unless ENV['RUTILE']
    reader, writer = IO.pipe
    pid = spawn(ENV['RUTILE'], 'tracepoints', *args.map(&:to_s), out: writer, err: writer)
    writer.close
    out = reader.read
    Process.wait(pid)
    assert_equal status, $?.exitstatus, out
    out
  end

  def list(*args)
    rutile('--json', *args).lines.map { |line| JSON.parse(line) }
  end

  def ask(out, input, code)
    input.puts code
    out.gets&.chomp
  end

  def state(*args)
    list(*args).to_h { |tp| ["#{tp['provider']}:#{tp['name']}", tp['on']] }
  end

  def test_list
    running(PROGRAM) do |pid, out, _input|
      out.gets
      paid, total, tax = list(pid)
      assert_equal %w[shop paid], paid.values_at('provider', 'name')
      assert_equal 'int64, string, float64, bool', paid['arguments']
      assert_equal [true, true, false, 0, 0], paid.values_at('loaded', 'on', 'wraps', 'tracers', 'fired')
      assert File.exist?(paid['file'])
      assert_equal %w[total_latency tax_latency], [total, tax].map { |tp| tp['name'] }
      assert_equal [[true, false]] * 2, ([total, tax].map { |tp| tp.values_at('wraps', 'on') })
      assert_match(/^ *#{pid} shop:paid +int64, string, float64, bool +on +0 +0 +0 /, rutile(pid))
    end
  end

  def test_switch
    running(PROGRAM) do |pid, out, input|
      out.gets
      assert_equal [false, false, false], state(pid, '--disable', '*').values
      assert_equal 'false', ask(out, input, 'PAID.on?')
      assert_equal [true, false, true], state(pid, '--enable', 'shop', '--disable', '*:total*').values
      # Wrapped while the main thread waited for input, so without its help.
      assert_equal '["#<Rutile::Tracer::Latency of Shop>", "Shop"]',
                   ask(out, input, '[Shop.instance_method(:tax).owner, Shop.instance_method(:total).owner].map(&:to_s)')
      assert_equal '[[1, 2], 1]', ask(out, input, '[Shop.new.total(1, k: 2), Shop.new.tax]')
      assert_equal [true, false, false], state(pid, '--disable', 'shop:tax_latency').values
      assert_equal '[]', ask(out, input, 'Shop.ancestors.first.instance_methods(false)')
    end
  end

  def test_switch_while_threads_sleep_and_run
    code = PROGRAM.sub("puts 'ready'", <<~'RUBY')
      3.times { Thread.new { sleep } }
      Thread.new { loop { Shop.new.total(1, k: 2) } }
      puts 'ready'
    RUBY
    running(code) do |pid, out, input|
      out.gets
      10.times do
        assert_equal true, state(pid, '--enable', 'shop:total_latency')['shop:total_latency']
        assert_equal false, state(pid, '--disable', 'shop:total_latency')['shop:total_latency']
      end
      assert_equal 'true', ask(out, input, 'Thread.list.size == 5')
    end
  end

  # Of two methods with one tracepoint both are wrapped; one that cannot be keeps none from it.
  def test_methods_that_share_a_tracepoint
    code = PROGRAM.sub("puts 'ready'", <<~'RUBY')
      class First; def work; 1; end; end
      class Second; def work; 2; end; end
      class Frozen; def work; 3; end; freeze; end
      [First, Second, Frozen].each { |klass| Rutile::Tracer::Latency.register(klass, :work, provider: 'shared') }
      OWNERS = -> { [First, Second, Frozen].map { |klass| klass.instance_method(:work).owner == klass } }
      puts 'ready'
    RUBY
    running(code) do |pid, out, input|
      out.gets
      assert_equal true, state(pid, '--enable', 'shared')['shared:work_latency']
      assert_equal "rutile: cannot trace methods of Frozen: can't modify frozen class: Frozen (FrozenError)\n", out.gets
      assert_equal '[false, false, true]', ask(out, input, 'OWNERS.call')
      assert_equal false, state(pid, '--disable', 'shared')['shared:work_latency']
      assert_equal '[true, true, true]', ask(out, input, 'OWNERS.call')
    end
  end

  # The process is still there when its Ruby is not any more: what is asked then must not kill it.
  def test_after_the_end_of_ruby
    code = <<~'RUBY'
      begin
        require 'fiddle'
      rescue LoadError
        puts 'no fiddle'
        sleep
      end
      on_exit = Fiddle::Function.new(Fiddle.dlopen(nil)['on_exit'], [Fiddle::TYPE_VOIDP] * 2, Fiddle::TYPE_INT)
      on_exit.call(Fiddle.dlopen(nil)['pause'], nil)
      SAY = Fiddle::Pointer.malloc(8)
      SAY[0, 6] = "gone\n\0"
      on_exit.call(Fiddle.dlopen(nil)['dprintf'], SAY) # its descriptor is the exit status
      exit 1
    RUBY
    running(PROGRAM.sub("puts 'ready'", code)) do |pid, out, _|
      said = out.gets
      skip 'needs fiddle' if said == "no fiddle\n"
      assert_equal "gone\n", said
      assert_includes rutile(pid, '--enable', '*', status: 1), 'no tracepoints to control'
      assert_nil Process.wait(pid, Process::WNOHANG), $?.inspect
    end
  end

  def test_main_thread_sleeps_for_ever
    running(PROGRAM.sub("puts 'ready'", "Thread.new { sleep 0.05 }.join; puts 'ready'; sleep")) do |pid, out, _|
      out.gets
      assert_equal true, state(pid, '--enable', '*:tax*')['shop:tax_latency']
    end
  end

  def test_children_apart_and_together
    code = PROGRAM.sub("puts 'ready'", <<~'RUBY')
      2.times { fork { sleep } }
      sleep 0.01 until Process.clock_gettime(Process::CLOCK_MONOTONIC)
      puts 'ready'
    RUBY
    running(code) do |pid, out, input|
      out.gets
      children = File.read("/proc/#{pid}/task/#{pid}/children").split
      assert_equal 2, children.size
      eventually { list('-c', pid).size == 9 }
      rutile(children[0], '--disable', 'shop:paid')
      on = list('-c', pid).select { |tp| tp['name'] == 'paid' }.to_h { |tp| [tp['pid'].to_s, tp['on']] }
      assert_equal({ pid.to_s => true, children[0] => false, children[1] => true }, on)
      rutile('-c', pid, '--enable', '*')
      assert_equal [true], list('-c', pid).map { |tp| tp['on'] }.uniq
      # One file for all of them: a tracer of it traces every worker.
      assert_equal 1, (list('-c', pid).select { |tp| tp['name'] == 'paid' }.map { |tp| File.stat(tp['file']).ino }.uniq.size)
      assert_equal 'true', ask(out, input, 'PAID.on?')
    ensure
      children&.each { |child| Process.kill('KILL', child.to_i) }
    end
  end

  def test_errors
    assert_includes rutile(status: 2), 'which process?'
    assert_includes rutile('x', status: 2), "'x' is not a process number"
    assert_includes rutile(99_999_999, status: 1), 'no process with PID 99999999'
    running('$stdout.sync = true; puts 1; sleep') do |pid, out, _|
      out.gets
      assert_includes rutile(pid, status: 1), "process #{pid} has no tracepoints to control"
    end
    running(PROGRAM, env: { 'RUTILE_CONTROL' => 'off' }) do |pid, out, _|
      out.gets
      assert_includes rutile(pid, status: 1), 'RUTILE_CONTROL=off'
    end
    running(PROGRAM) do |pid, out, _|
      out.gets
      assert_includes rutile(pid, '--enable', 'none:*', status: 1), "no tracepoint matches 'none:*'"
    end
  end

  def test_other_users_are_refused
    skip 'needs root and setpriv' unless Process.uid.zero? && system('command -v setpriv >/dev/null')
    skip 'no rutile to test with' unless ENV['RUTILE']
    running(PROGRAM) do |pid, out, _|
      out.gets
      Dir.mktmpdir do |dir|
        # The build directory need not be open to others.
        copy = File.join(dir, 'rutile')
        IO.copy_stream(ENV['RUTILE'], copy)
        File.chmod(0o755, copy, dir)
        said = IO.popen(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', copy, 'tracepoints', pid.to_s], err: %i[child out], &:read)
        assert_includes said, 'belongs to another user'
      end
    end
  end

  # The page belongs to the process; nonsense in it must hurt neither side.
  def test_nonsense_in_the_page
    skip 'no rutile to test with' unless ENV['RUTILE']
    running(PROGRAM) do |pid, out, input|
      out.gets
      fd = Dir.children("/proc/#{pid}/fd").find { |n| File.readlink("/proc/#{pid}/fd/#{n}").include?('rutile-usdt-ctl') rescue false }
      random = Random.new(1)
      page = File.open("/proc/#{pid}/fd/#{fd}", 'r+b')
      size = page.size
      20.times do
        page.seek(8)
        page.write(random.bytes(64 * 1024))
        page.seek(0)
        page.write('RUTUSDT1')
        page.seek(8)
        page.write([4, 2].pack('VV')) # not a slot's size: refused
        page.flush
        IO.popen([ENV.fetch('RUTILE'), 'tracepoints', pid.to_s, '--enable', '*'], err: %i[child out], &:read)
        refute_predicate $?, :signaled?
        page.seek(12)
        page.write([0xffffffff].pack('V'))
        page.flush
      end
      assert_raises(SystemCallError) { File.truncate("/proc/#{pid}/fd/#{fd}", size + 1) }
      assert_equal '[1, 2]', ask(out, input, 'Shop.new.total(1, k: 2)')
    end
  end
end
