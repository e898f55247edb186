# frozen_string_literal: true

require_relative 'test_helper'

class TracepointTest < Minitest::Test
  def setup
    @name = "t#{name.gsub(/\W/, '_')}"
  end

  def teardown
    Rutile::Provider.fetch(@name).destroy
  rescue Rutile::Provider::ProviderMissingError
    nil
  end

  def point(*types, **options)
    Rutile::Tracepoint.new(@name, 'p', *types, **options)
  end

  def test_declaration
    tp = point(Integer, String)
    assert_equal @name, tp.provider_name
    assert_equal 'p', tp.name
    assert_equal [Integer, String], tp.args
    assert_same Rutile::Provider.fetch(@name), tp.provider
    assert_same tp, Rutile::Tracepoint.fetch(@name, :p)
    assert_predicate tp, :on?
    refute_predicate tp, :enabled?
    assert_match(%r{\A/proc/#{$$}/fd/\d+\z}, tp.provider.path)
  end

  def test_errors_of_declaration
    assert_raises(Rutile::Tracepoint::InvalidArgType) { point(Array) }
    assert_raises(Rutile::Tracepoint::InvalidArgType) { point(*[Integer] * 13) }
    assert_raises(ArgumentError) { Rutile::Tracepoint.new(@name, 'a b') }
    assert_raises(ArgumentError) { Rutile::Tracepoint.new(@name, '') }
    assert_raises(ArgumentError) { Rutile::Tracepoint.new('a:b', 'x') }
    assert_raises(ArgumentError) { Rutile::Tracepoint.new(@name, "a\0b") }
    assert_raises(Rutile::Tracepoint::TracepointMissingError) { Rutile::Tracepoint.fetch(@name, 'none') }
    assert_raises(Rutile::Provider::ProviderMissingError) { Rutile::Provider.fetch('none') }
    assert_equal [Integer], point(Integer).args
  end

  # Code that is loaded again with another declaration: the last one counts, the old object is silent.
  def test_declared_again_with_other_types
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      require ARGV[0]
      old, same = 2.times.map { Rutile::Tracepoint.new('again', 'x', Integer) }
      TestSupport.semaphore(old, 1)
      print old.fire(1), same.fire(1)
      changed = Rutile::Tracepoint.new('again', 'x', String, Integer)
      TestSupport.semaphore(changed, 1)
      print old.on?, old.fire(1), changed.on?, changed.fire('x', 1)
      puts `readelf -nW #{changed.provider.path} 2>/dev/null`.scan("Location:").size
      exit!(0)
    RUBY
    assert_equal "truetruefalsefalsetruetrue1\n", ruby(code, File.expand_path('test_helper.rb', __dir__))
  end

  # A provider has a file as soon as it is enabled.
  def test_path_without_tracepoints
    provider = Rutile::Provider.register(@name)
    assert_match(%r{\A/proc/#{$$}/fd/\d+\z}, provider.path)
    provider.disable
    assert_equal '', provider.path
  end

  def test_nothing_happens_untraced
    tp = point(Integer)
    refute tp.fire(1)
    refute tp.fire('wrong', :number, :of)
    refute(tp.fire { flunk 'a block ran' })
    assert_equal [0, 0], [tp.fired, tp.mismatched]
  end

  def test_traced
    tp = point(Integer)
    traced(tp) do
      assert_predicate tp, :enabled?
      assert tp.fire(1)
      assert(tp.fire { 2 })
      assert(tp.fire { [3] })
    end
    refute_predicate tp, :enabled?
    assert_equal 3, tp.fired
  end

  def test_mismatches_are_counted_not_raised
    tp = point(Integer, String)
    traced(tp) do
      refute tp.fire('x', 1)
      refute tp.fire(1)
      refute tp.fire(1, 'x', 2)
      refute tp.fire(1.5, 'x')
      refute(tp.fire { raise 'in the block' })
      refute(tp.fire { nil })
      assert tp.fire(nil, nil)
      assert tp.fire(1, :symbol)
    end
    assert_equal 6, tp.mismatched
    assert_equal 2, tp.fired
  end

  def test_strict
    tp = point(Integer, strict: true)
    refute tp.fire(1)
    assert_raises(Rutile::Tracepoint::InvalidArgumentError) { tp.fire('x') }
    assert_raises(ArgumentError) { tp.fire(1, 2) }
    assert_raises(ArgumentError) { tp.fire }
    traced(tp) { assert_raises(RuntimeError) { tp.fire { raise 'in the block' } } }
  end

  # Without a listener nothing is converted or counted as cut.
  def test_strict_untraced
    tp = point(Integer, Float, String, strict: true)
    refute tp.fire(2**70, 1, 'x')
    error = assert_raises(Rutile::Tracepoint::InvalidArgumentError) { tp.fire(1, BasicObject.new, 'x') }
    assert_equal 'the tracepoint was declared with Float, but BasicObject was given', error.message
    assert_equal [0, 0, 1, 0], [tp.saturated, tp.truncated, tp.mismatched, tp.fired]
  end

  # Objects that `initialize` never saw, or that it refused.
  def test_uninitialized
    tp = Rutile::Tracepoint.allocate
    refute tp.fire(1)
    refute tp.enable.on?
    refute tp.disable.enabled?
    assert_nil tp.native_defer.native_wanted
    assert_equal [nil, nil, nil, 0], [tp.provider_name, tp.name, tp.args, tp.fired]
    assert_raises(ArgumentError) { Rutile::Provider.allocate.loaded? }
  end

  def test_saturation
    tp = point(Integer)
    traced(tp) do
      [2**63 - 1, -2**63, 2**62, -2**62].each { |v| assert tp.fire(v) }
      assert_equal 0, tp.saturated
      [2**63, -2**63 - 1, 2**64, 2**200, -2**200].each { |v| assert tp.fire(v) }
    end
    assert_equal 5, tp.saturated
    assert_equal 9, tp.fired
  end

  def test_long_strings_are_passed_where_they_lie
    tp = point(String)
    long = ('x' * 10_000) + 'y'
    traced(tp) { [long, long[0, 9_000], long[5..], "a\0b", "\u{e9}".encode('UTF-16LE')].each { |s| assert tp.fire(s) } }
    assert_equal [5, 0, 0], [tp.fired, tp.truncated, tp.mismatched]
  end

  # What ends the program, or a wait, is not the block's.
  def test_exceptions_of_blocks
    tp = Rutile::Tracepoint.new('blocks', 'exceptions', Integer)
    deep = ->(n) { deep.call(n + 1) + 1 }
    traced(tp) do
      [-> { raise Exception, 'any' }, -> { raise NotImplementedError }, -> { eval('(') }, -> { deep.call(0) }, # rubocop:disable Style/EvalWithLocation
       -> { raise Class.new(Exception) }].each { |block| refute tp.fire(&block) }
      assert_equal 5, tp.mismatched
      [SystemExit, Interrupt, SignalException.new('TERM'), NoMemoryError, Timeout::Error].each do |error|
        assert_raises(error.is_a?(Class) ? error : error.class) { tp.fire { raise error } }
      end
      assert_raises(Timeout::Error) { Timeout.timeout(0.01) { tp.fire { sleep } } }
      assert_equal 5, tp.mismatched
    end
  end

  def test_measure
    assert_equal 7, Rutile.measure(:plain) { 7 }
    point = Rutile::Tracepoint.fetch('measure', 'plain')
    Rutile.measure('shop:pay') { 1 }
    pay = Rutile::Tracepoint.fetch('shop', 'pay')
    assert_equal [[Integer, String, String]] * 2, [point, pay].map(&:args)
    traced(point) do
      assert_equal [1], Rutile.measure(:plain) { [1] }
      assert_raises(IOError) { Rutile.measure(:plain) { raise IOError } }
      assert_equal(3, catch(:out) { Rutile.measure(:plain) { throw :out, 3 } })
      assert_equal(4, Rutile.measure(:plain) { break 4 })
    end
    assert_equal [4, 0, 0], [point.fired, pay.fired, point.mismatched]
  end

  def test_break_and_throw_out_of_a_block
    tp = point(Integer)
    traced(tp) do
      assert_equal :left, (tp.fire { break :left })
      assert_equal :thrown, (catch(:it) { tp.fire { throw :it, :thrown } })
    end
    assert_equal [0, 0], [tp.fired, tp.mismatched]
  end

  def test_disable_and_enable
    tp = point
    traced(tp) do
      tp.disable
      refute_predicate tp, :on?
      refute_predicate tp, :enabled?
      refute tp.fire
      tp.enable
      assert tp.fire
      tp.provider.disable
      refute tp.fire
      assert_equal '', tp.provider.path
      tp.provider.enable
      assert tp.fire
    end
  end

  def test_added_after_enable
    provider = Rutile::Provider.register(@name)
    first = provider.add_tracepoint('first', Integer)
    second = provider.add_tracepoint('second', Integer)
    assert_equal 1, provider.paths.size
    traced(first) do
      traced(second) do
        third = provider.add_tracepoint(:third)
        assert_equal 1, provider.paths.size
        assert first.fire(1)
        assert second.fire(1)
        traced(third) { assert third.fire }
      end
    end
  end

  def test_batch
    provider = Rutile::Provider.register(@name)
    provider.batch do |p|
      50.times { |i| p.add_tracepoint("p#{i}", Integer) }
      refute_predicate provider, :loaded?
    end
    assert_equal 1, provider.paths.size
    assert_equal 50, `readelf -nW #{provider.path} 2>/dev/null`.scan("Provider: #{@name}\n").size
  end

  # Of another thread, or of a signal that comes while the provider is filled.
  def test_enable_within_a_batch
    provider = Rutile::Provider.register(@name)
    provider.disable
    provider.batch do |p|
      p.add_tracepoint('a')
      assert p.enable
    end
    assert_predicate provider, :enabled?
    assert_predicate Rutile::Tracepoint.fetch(@name, 'a'), :on?
  end

  # Another thread may add one while all are enabled: its turn comes exactly there.
  def test_added_while_all_are_switched
    require 'ruby-static-tracing'
    first = StaticTracing::Tracepoint.new(@name, 'first')
    late = ->(name) { Thread.new { StaticTracing::Tracepoint.new(@name, name) }.join }
    first.define_singleton_method(:enable) { late.call('on') && super() }
    first.define_singleton_method(:disable) { late.call('off') && super() }
    assert first.provider.enable
    refute first.provider.disable
    assert_equal %w[first on off], first.provider.tracepoints.keys
    first.provider.destroy
  end

  def test_switching_holds_for_what_is_declared_later
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      on = -> { %w[a b c].map { |name| Rutile::Tracepoint.new("#{name}#{rand}", 'x').on? }.uniq }
      print on.call, Rutile.enable!, on.call, Rutile.disable!, on.call
    RUBY
    assert_equal '[true]true[true]false[false]', ruby(code)
    assert_equal '[false]true[true]false[false]', ruby(code, env: { 'RUTILE_TRACEPOINTS' => 'off' })
  end

  def test_destroy
    tp = point(Integer)
    provider = tp.provider
    provider.destroy
    refute_predicate provider, :loaded?
    refute tp.fire(1)
    refute_predicate tp, :on?
    assert_raises(Rutile::Provider::ProviderMissingError) { Rutile::Provider.fetch(@name) }
    refute_same provider, point(String).provider
  end

  def test_allocates_nothing
    tp = point(Integer, String, Symbol, Float, TrueClass)
    string = 'some string'
    float = 1.5
    count = lambda do
      before = GC.stat(:total_allocated_objects)
      1000.times do
        tp.fire(1, string, :sym, float, true)
        tp.fire { [1, string, :sym, float, true] } unless tp.enabled?
        tp.enabled?
      end
      GC.stat(:total_allocated_objects) - before
    end
    count.call
    assert_operator count.call, :<=, 10, 'untraced'
    traced(tp) { assert_operator count.call, :<=, 10, 'traced' }
    assert_equal 1000, tp.fired
  end

  def test_no_growth
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      # AddressSanitizer maps memory of its own as it likes.
      OURS = ENV['ASAN_OPTIONS'] ? /memfd/ : /memfd|00:00 0/
      def sizes; [Dir.children('/proc/self/fd').size, File.readlines('/proc/self/maps').grep(OURS).size]; end
      once = lambda do |i|
        tp = Rutile::Tracepoint.new("grow#{i}", 'x', Integer, String)
        50.times { tp.fire(i, 'x'); tp.provider.disable; tp.provider.enable }
        tp.provider.destroy
      end
      50.times(&once)
      GC.start
      before = sizes
      rss = File.read('/proc/self/status')[/VmRSS:\s+(\d+)/, 1].to_i
      500.times(&once)
      GC.start
      p sizes.zip(before).map { |a, b| a - b }, File.read('/proc/self/status')[/VmRSS:\s+(\d+)/, 1].to_i - rss
    RUBY
    fds, maps, rss = ruby(code).scan(/-?\d+/).map(&:to_i)
    assert_equal 0, fds
    assert_operator maps, :<=, 3
    assert_operator rss, :<, 4096 unless ENV['ASAN_OPTIONS'] # which keeps what is freed
  end

  def test_under_gc_stress_and_compaction
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      require ARGV[0]
      tps = 5.times.map { |i| Rutile::Tracepoint.new('gc', "p#{i}", Integer, String, Symbol, Float) }
      tps.each { |tp| TestSupport.semaphore(tp, 1) }
      GC.stress = true
      30.times { |i| tps.each { |tp| tp.fire(i, "str#{i}"[0, 3], :"sym#{i}", i * 1.1); tp.fire { [2**70, "a" * 100, :b, 1] } } }
      GC.stress = false
      if GC.respond_to?(:compact)
        begin
          10.times { GC.compact; tps.each { |tp| tp.fire(1, "x#{tp.name}", :y, 2.0) } }
        rescue NotImplementedError
          tps.each { |tp| 10.times { tp.fire(1, 'x', :y, 2.0) } }
        end
      end
      p tps.map { |tp| [tp.name, tp.args.size, tp.fired, tp.mismatched] }
    RUBY
    helper = File.expand_path('test_helper.rb', __dir__)
    out = ruby(code, helper)
    assert_includes out, [['p0', 4, 70, 0], ['p1', 4, 70, 0], ['p2', 4, 70, 0], ['p3', 4, 70, 0], ['p4', 4, 70, 0]].inspect
  end

  def test_ractors
    skip 'no ractors in this Ruby' unless defined?(Ractor)
    code = <<~'RUBY'
      $VERBOSE = nil
      require 'rutile/static_tracing'
      require ARGV[0]
      TP = Rutile::Tracepoint.new('ractor', 'x', Integer)
      raise 'not shareable' unless Ractor.shareable?(TP)
      TestSupport.semaphore(TP, 1)
      ractors = 3.times.map { Ractor.new { 10_000.times { |i| TP.fire(i) }; Ractor.receive; TP.enabled? } }
      100.times { TP.disable; TP.enable }
      ractors.each { |r| r.send(:enabled_again) }
      p ractors.map(&:take), TP.on?
      r = 2.times.map { Ractor.new { 100.times { |i| TP.fire(i) } } }
      TP.provider.destroy
      r.each(&:take)
    RUBY
    assert_includes ruby(code, File.expand_path('test_helper.rb', __dir__)), "[true, true, true]\ntrue"
  end

  # Counted by what a recorder reads, and by the tracepoints that the main ractor finds.
  def test_declared_in_a_ractor
    skip 'no ractors in this Ruby' unless defined?(Ractor)
    code = <<~'RUBY'
      $VERBOSE = nil
      require 'rutile/static_tracing'
      require ARGV[0]
      OLD = Rutile::Tracepoint.new('shared', 'old', Integer)
      Rutile::Provider.register('hidden').disable
      TestSupport.semaphore(OLD, 1)
      ractors = 3.times.map do |n|
        Ractor.new(n) do |n|
          200.times { |i| Rutile::Tracepoint.new('shared', "of_#{n}_#{i}", Integer, String, names: %w[a b]) }
          own = Rutile::Tracepoint.new("own_#{n}", 'x', Integer, strict: true)
          hidden = Rutile::Tracepoint.new('hidden', "x#{n}", Integer)
          old = Rutile::Tracepoint.new('shared', 'old', Integer) # the same probe
          GC.start
          Ractor.yield(own)
          Ractor.receive
          100.times { |i| own.fire(i) }
          50.times { |i| old.fire(i) }
          error = begin own.fire('x') rescue $!.class end
          bad = [["a\nb", 'x', Integer], ['shared', 'a b', Integer], ['shared', 'y', Object]].map { |args| Rutile::Tracepoint.new(*args) rescue $!.class }
          [own.fired, own.on?, hidden.on?, error, bad, (own.provider rescue $!.class)]
        end
      end
      owns = ractors.map(&:take)
      GC.start
      TestSupport.semaphore(Rutile::Tracepoint.fetch('own_1', 'x'), 1)
      ractors.each { |r| r.send(:go) }
      results = ractors.map(&:take)
      p results.map(&:first), results.map { |r| r.drop(1) }.uniq
      p OLD.fired
      ractors = nil
      GC.start
      p Rutile::Provider.fetch('shared').tracepoints.size, Rutile::Provider.fetch('own_2').tracepoints.keys
      p owns[1].equal?(Rutile::Tracepoint.fetch('own_1', 'x')), owns[1].provider.paths.size
      p fork { exit!(owns[1].fire(1) && Rutile::Tracepoint.new('shared', 'child').on?) }.then { |pid| Process.wait2(pid)[1].success? }
      Rutile.disable!
      p Rutile::Provider.all.flat_map { |provider| provider.tracepoints.values }.none?(&:on?)
      p Ractor.new { Rutile::Tracepoint.new('late', 'x').on? }.take
      Rutile.enable!
      p Rutile::Tracepoint.fetch('late', 'x').on?
      Rutile::Provider.fetch('own_0').destroy
      p Ractor.new { Rutile::Tracepoint.new('own_0', 'x').on? }.take, owns[0].on?, Rutile::Provider.fetch('own_0').loaded?
    RUBY
    assert_equal [
      '[0, 100, 0]', '[[true, false, Rutile::Tracepoint::InvalidArgumentError, [ArgumentError, ArgumentError, ' \
                     'Rutile::Tracepoint::InvalidArgType], Ractor::IsolationError]]', '150', '601', '["x"]', 'true', '1', 'true',
      'true', 'false', 'true', 'true', 'false', 'true'
    ], ruby(code, File.expand_path('test_helper.rb', __dir__)).lines.map(&:chomp).reject { |line| line =~ /Run options|^# Running|^$/ }.first(14)
  end

  def test_declared_in_a_ractor_without_the_extension
    skip 'no ractors in this Ruby' unless defined?(Ractor)
    code = '$VERBOSE = nil; require "rutile/static_tracing"; p Rutile::NULL, ' \
           'Ractor.new { Rutile::Tracepoint.new("a", "x", Integer, strict: true, names: %w[n]).fire(1) }.take'
    out = IO.popen([{ 'RUTILE_TRACEPOINTS' => 'off' }, RbConfig.ruby, "-I#{LIB}", '-e', code], err: %i[child out], &:read)
    assert_equal "true\nfalse\n", out
  end

  def test_threads
    tp = point(Integer)
    traced(tp) do
      8.times.map { Thread.new { 1000.times { |i| tp.fire(i) } } }.each(&:join)
    end
    assert_equal 8000, tp.fired
  end

  def test_environment
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      a = Rutile::Tracepoint.new('shop', 'paid')
      b = Rutile::Tracepoint.new('shop', 'sent')
      p [a.on?, b.on?]
    RUBY
    assert_equal "[true, true]\n", ruby(code)
    assert_equal "[false, false]\n", ruby(code, env: { 'RUTILE_TRACEPOINTS' => 'off' })
    assert_equal "[false, true]\n", ruby(code, env: { 'RUTILE_TRACEPOINTS' => 'other:*,shop:se*' })
    assert_equal "[true, true]\n", ruby(code, env: { 'RUTILE_TRACEPOINTS' => 'shop' })
  end

  # Where the extension cannot be loaded everything can be called, and nothing is said unless asked.
  def test_without_the_extension
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      tp = Rutile::Tracepoint.new('a', 'b', Integer)
      p tp.fire(1), tp.fire { raise }, tp.enabled?, tp.on?, tp.provider.path, tp.provider.enable, Rutile.nsec.positive?
      class C; def m(a:); a; end; end
      Rutile::Tracer::Latency.register(C, :m)
      Rutile.configure { |c| c.add_tracer(Rutile::Tracer::Latency) }
      Rutile.enable!
      p C.new.m(a: 3)
      begin
        Rutile::Tracepoint.new('a', 'c', Array)
      rescue Rutile::Tracepoint::InvalidArgType
        p :raised
      end
      tp.provider.destroy
    RUBY
    same = <<~'RUBY' # with the extension and without
      require 'rutile/static_tracing'
      try = lambda do |&block|
        block.call
      rescue StandardError => e
        e.class
      end
      tp = Rutile::Tracepoint.new('s', 'x', Float, TrueClass, String, Symbol, strict: true)
      p [[1, false, :a, 'b'], [1.5, true, 'a', nil], ['1', true, 'a', :b], [1, 1, 'a', :b], [1, true, 1, :b], [1], []]
        .map { |values| try.call { tp.fire(*values) } }
      p try.call { tp.fire { raise } }, try.call { Rutile::Tracepoint.new('s', 'x', Integer).args }, try.call { Rutile::Tracepoint.new('s', '') }
    RUBY
    Dir.mktmpdir do |dir|
      out = IO.popen([{ 'RUTILE_DEBUG' => '1' }, RbConfig.ruby, "-I#{LIB}", '-e', code, chdir: dir], err: %i[child out], &:read)
      assert_equal 1, out.scan('rutile: no tracepoints here: cannot load').size, out
      assert out.end_with?("false\nfalse\nfalse\nfalse\n\"\"\nfalse\ntrue\n3\n:raised\n"), out
      quiet = IO.popen([RbConfig.ruby, "-I#{LIB}", '-e', code, chdir: dir], err: %i[child out], &:read)
      assert_equal 1, quiet.scan('rutile: no tracepoints here: cannot load').size, quiet
      assert_equal 1, quiet.scan('rutile:').size, quiet
      without = IO.popen([{ 'RUTILE_TRACEPOINTS' => 'off' }, RbConfig.ruby, "-I#{LIB}", '-e', same, chdir: dir], err: %i[child out], &:read)
      assert_equal ruby(same), without
      assert_match(/\A\[false, false, Rutile::Tracepoint::InvalidArgumentError, /, without)
    end
  end

  # Where memfd_create is forbidden (here: by a limit of descriptors) nothing is traced and nothing breaks.
  def test_without_memfd
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      Process.setrlimit(Process::RLIMIT_NOFILE, 3, 3) if ARGV.empty?
      tp = Rutile::Tracepoint.new('a', 'b', Integer)
      Rutile::Tracepoint.new('a', 'c', Integer)
      print tp.fire(1), tp.on?, tp.provider.path.empty?
    RUBY
    assert_includes ruby(code), 'falsefalsetrue'
    out = ruby(code, env: { 'RUTILE_DEBUG' => '1' })
    assert_equal 1, out.scan('no tracepoints here').size, out
  end

  def test_object_is_what_other_tools_read
    tp = point(Integer, Float, String, TrueClass, NilClass, Symbol, Integer, Integer)
    notes = `readelf -nW #{tp.provider.path} 2>/dev/null`
    assert_includes notes, 'Arguments: -8@%rdi 8@%rsi 8@%rdx 1@%cl 8@%r8 8@%r9 -8@8(%rsp) -8@16(%rsp)' if RUBY_PLATFORM.include?('x86_64')
    assert_match(/Semaphore: 0x0*[1-9a-f]/, notes)
    refute_includes File.readlines('/proc/self/maps').grep(/memfd:#{@name}/).join, 'rwx'
  end
end
