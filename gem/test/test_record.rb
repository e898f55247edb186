# frozen_string_literal: true

require_relative 'test_helper'

# `rutile record -e ruby_static:PROVIDER:NAME`: the path without the kernel, read by babeltrace2.
class RecordTest < Minitest::Test
  PROGRAM = <<~'RUBY'
    require 'rutile/static_tracing'
    $stdout.sync = true
    TP = Rutile::Tracepoint.new('shop', 'paid', Integer, String, Symbol, Float, TrueClass, NilClass)
    QUIET = Rutile::Tracepoint.new('shop', 'quiet')
    9_000.times { TP.enabled? ? break : sleep(0.005) } and abort('never')
  RUBY

  def setup
    @dir = nil
    skip 'no rutile to test with' unless ENV['RUTILE']
    skip 'needs babeltrace2' unless system('command -v babeltrace2 >/dev/null')
    @dir = Dir.mktmpdir
  end

  def teardown
    FileUtils.rm_rf(@dir) if @dir
  end

  # Records a program; returns what rutile and the program said.
  def record(code, *options, env: {})
    ruby = [RbConfig.ruby, "-I#{LIB}", "-I#{EXT}", '-e', code]
    out = IO.popen([env, ENV.fetch('RUTILE'), 'record', '-o', "#{@dir}/trace", *options, '--', *ruby], err: %i[child out], &:read)
    assert $?.success?, out
    out
  end

  def events(*options)
    IO.popen(['babeltrace2', *options, "#{@dir}/trace"], err: %i[child out], &:read).lines.map(&:chomp)
  end

  def test_values
    record(PROGRAM + <<~'RUBY', '-e', 'ruby_static:shop:paid')
      TP.fire(-5, 'text', :symbol, -1.5, true, nil)
      TP.fire(2**100, '', nil, 0.0, false, nil)
      TP.fire(-2**63, 'x' * 2000, :b, 1e300, nil, nil)
      TP.fire('wrong')
      QUIET.fire
      p TP.fired
    RUBY
    fields = events.map { |line| line[/\{ arg0.*/] }
    assert_equal ['{ arg0 = -5, arg1 = "text", arg2 = "symbol", arg3 = -1.5, arg4 = 1, arg5 = 0 }',
                  "{ arg0 = #{2**63 - 1}, arg1 = \"\", arg2 = \"\", arg3 = 0, arg4 = 0, arg5 = 0 }",
                  "{ arg0 = #{-2**63}, arg1 = \"#{'x' * 2000}\", arg2 = \"b\", arg3 = 1e+300, arg4 = 0, arg5 = 0 }"], fields
  end

  # Every event of every thread and child arrives, in order, and rutile reads what babeltrace reads.
  def test_threads_and_children
    said = record(PROGRAM + <<~'RUBY', '-e', 'ruby_static:shop')
      4.times.map { |t| Thread.new { 5000.times { |i| TP.fire(i, "t#{t}", nil, 0.0, true, nil) } } }.each(&:join)
      2.times { |c| fork { 9_000.times { TP.enabled? ? break : sleep(0.005) } and abort('never'); 3000.times { |i| TP.fire(i, "c#{c}", nil, 0.0, true, nil); QUIET.fire } } }
      p Process.waitall.map { |_, status| status.exitstatus }
    RUBY
    assert_includes said, "[0, 0]\n"
    assert_includes said, ' 0 events lost'
    lines = events
    counts = lines.group_by { |line| [line[/ruby_static:(\S+): /, 1], line[/arg1 = "(\w+)"/, 1]] }
    assert_equal({ %w[shop:paid t0] => 5000, %w[shop:paid t1] => 5000, %w[shop:paid t2] => 5000, %w[shop:paid t3] => 5000,
                   %w[shop:paid c0] => 3000, %w[shop:paid c1] => 3000, ['shop:quiet', nil] => 6000 }, counts.transform_values(&:size))
    counts.each_value do |of_one|
      numbers = of_one.map { |line| line[/arg0 = (\d+)/, 1].to_i }
      assert_equal numbers.sort, numbers
      assert_equal 1, of_one.map { |line| line[/vtid = (\d+)/, 1] }.uniq.size if of_one[0].include?('arg1')
    end
    assert_equal 3, Dir.glob("#{@dir}/trace/ruby_static-*").size
    viewed = IO.popen([ENV.fetch('RUTILE'), 'view', "#{@dir}/trace"], &:readlines)
    assert_equal lines.size, viewed.grep(/ruby_static:/).size
  end

  # The ring is smaller than what is written at once: what is lost is counted, and no more is missing.
  def test_losses_are_counted
    record(PROGRAM + <<~'RUBY', '-e', 'ruby_static:shop:paid')
      200_000.times { |i| TP.fire(i, 'x' * 200, :abc, 1.5, true, nil) }
      print 'fired ', TP.fired, "\n"
    RUBY
    said = IO.popen([ENV.fetch('RUTILE'), 'stat', "#{@dir}/trace"], &:read)
    found = said[/^events:\s+(\d+)/, 1].to_i
    lost = said[/^lost:\s+(\d+)/, 1].to_i
    assert_operator found, :>, 10_000
    assert_equal 200_000, found + lost
  end

  # A directory of that name is left alone: an earlier process may have had the PID, and in a shared
  # directory somebody may have put a link there.
  def test_names_that_exist
    Dir.mkdir("#{@dir}/trace")
    Dir.mkdir("#{@dir}/other")
    record("File.symlink('#{@dir}/other', \"#{@dir}/trace/ruby_static-\#{$$}\")\n" + PROGRAM + <<~'RUBY', '-e', 'ruby_static:shop:paid')
      TP.fire(1, 'mine', nil, 0.0, true, nil)
    RUBY
    assert_empty Dir.children("#{@dir}/other")
    assert_equal 1, Dir.glob("#{@dir}/trace/ruby_static-*-1/stream").size
  end

  def test_both_paths_at_once
    skip 'needs root and bpftrace' unless bpftrace?
    # The tracer's programs are in place when it has said both, of which it attaches one first and one last.
    code = PROGRAM + <<~'RUBY'
      go = %w[first last].map { |name| Rutile::Tracepoint.new('go', name) }
      puts $$
      go.each(&:fire) until IO.select([$stdin], nil, nil, 0.01)
      gets
      100.times { |i| TP.fire(i, 'both', nil, 0.0, true, nil) }
      puts TP.fired
      gets
    RUBY
    script = <<~'BT'
      BEGIN { printf("ready\n"); }
      usdt::go:first { printf("first\n"); }
      usdt::shop:paid { @n = count(); }
      usdt::go:last { printf("last\n"); }
    BT
    reader, writer = IO.pipe
    mine, theirs = IO.pipe
    pid = spawn(ENV.fetch('RUTILE'), 'record', '-o', "#{@dir}/trace", '-e', 'ruby_static:shop:paid', '--', RbConfig.ruby, "-I#{LIB}", "-I#{EXT}",
                '-e', code, in: mine, out: writer, err: File::NULL)
    target = reader.gets.to_i
    said = bpftrace('-p', target.to_s, '-e', script) do |out|
      eventually { (%W[first\n last\n] - File.readlines(out)).empty? }
      assert_match(/"paid".*"tracers":1/, IO.popen([ENV.fetch('RUTILE'), 'tracepoints', '--json', target.to_s], &:read))
      theirs.puts
      assert_equal "100\n", reader.gets
    end
    theirs.puts
    Process.wait(pid)
    assert_equal 100, said[/@n: (\d+)/, 1].to_i
    assert_equal 100, events.size
  ensure
    [reader, writer, mine, theirs].each { |io| io&.close }
  end

  # Nothing of it needs a privilege.
  def test_without_privileges
    skip 'needs root and setpriv' unless Process.uid.zero? && system('command -v setpriv >/dev/null')
    # The tree and the build directory need not be open to others.
    FileUtils.cp_r([LIB, EXT], @dir)
    FileUtils.mv("#{@dir}/lib", "#{@dir}/all") if File.exist?("#{@dir}/lib")
    FileUtils.cp(ENV.fetch('RUTILE'), "#{@dir}/rutile")
    FileUtils.cp_r("#{EXT}/rutile/rutile_ext.so", "#{@dir}/all/rutile/")
    FileUtils.cp_r("#{LIB}/.", "#{@dir}/all/")
    FileUtils.chown_R(65_534, 65_534, @dir)
    code = PROGRAM + "TP.fire(1, 'mine', nil, 0.0, true, nil)"
    out = IO.popen(['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', "#{@dir}/rutile", 'record', '-o', "#{@dir}/trace", '-e',
                    'ruby_static:shop:paid', '--', RbConfig.ruby, "-I#{@dir}/all", '-e', code, { chdir: @dir, err: %i[child out] }], &:read)
    assert $?.success?, out
    assert_equal 1, events.size, events.join("\n")
  end

  # A tool that dies leaves the process untraced after the lease of its ring.
  def test_killed_tool
    running(PROGRAM.sub(/^9_000.times.*$/, 'puts $$; loop { gets; puts TP.enabled? }')) do |pid, out, input|
      out.gets
      enabled = lambda do
        input.puts
        out.gets.chomp
      end
      tool = spawn(ENV.fetch('RUTILE'), 'record', '-o', "#{@dir}/trace", '-e', 'ruby_static:*', '-p', pid.to_s, err: File::NULL)
      eventually { enabled.call == 'true' }
      Process.kill('KILL', tool)
      Process.wait(tool)
      eventually { enabled.call == 'false' }
      refute_includes File.read("/proc/#{pid}/maps"), 'rutile-usdt-ring'
    end
  end

  def test_errors
    out = IO.popen([ENV.fetch('RUTILE'), 'record', '-e', 'ruby_static:', { err: %i[child out] }], &:read)
    assert_equal 2, $?.exitstatus
    assert_includes out, 'should be ruby_static:PROVIDER:NAME'
  end
end
