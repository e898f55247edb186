# frozen_string_literal: true

require_relative 'test_helper'
require 'ruby-static-tracing'
require 'ruby-static-tracing/tracer/concerns/latency_tracer'

# The interface of ruby-static-tracing 0.0.15, as its users call it.
class CompatTest < Minitest::Test
  class Example
    def noop; end

    def with_args(*args, arg1:); args.map { |arg| arg1 + arg }; end

    def with_block(foo); yield(foo); end

    StaticTracing::Tracer::Latency.register(self, :noop, :with_args, [:with_block])
  end

  class Child < Example; end

  class Stacked
    StaticTracing::Tracer::Stack.register(self, :later)
    def later(foo); yield(foo); end
  end

  class Concerned
    def before; end
    include StaticTracing::Tracer::Concerns::Latency
    def after; end
  end

  def teardown
    StaticTracing::Tracer::Latency.disable!
    StaticTracing::Tracer::Stack.disable!
    StaticTracing::Tracers.clean
    StaticTracing.disable!
  end

  def test_module
    assert_equal '0.0.15', StaticTracing::VERSION
    assert_kind_of Integer, StaticTracing.nsec
    assert_kind_of Logger, StaticTracing.logger if defined?(Logger) # since Ruby 4.0 a gem
    assert_predicate StaticTracing::Platform, :linux?
    assert(StaticTracing::InternalError < StaticTracing::BaseError)
    StaticTracing.enable!
    assert_predicate StaticTracing, :enabled?
    assert_predicate StaticTracing::Provider.fetch('compat_test_example'), :enabled?
    StaticTracing.toggle_tracing!
    refute_predicate StaticTracing, :enabled?
    refute_predicate StaticTracing::Provider.fetch('compat_test_example'), :enabled?
  end

  # In Ruby 4.0 the library is a gem, which is not there under Bundler unless it is asked for.
  def test_without_the_library_logger
    Dir.mktmpdir do |dir|
      File.write("#{dir}/logger.rb", "raise LoadError, 'cannot load such file -- logger'")
      assert_equal "INFO -- : a\nERROR -- : b\n", ruby(<<~'RUBY', flags: ["-I#{dir}"])
        require 'ruby-static-tracing'
        StaticTracing.logger.info('a')
        StaticTracing.logger.error { 'b' }
      RUBY
    end
  end

  def test_provider
    provider = StaticTracing::Provider.register('compat_provider')
    refute_predicate provider, :enabled?
    assert_empty provider.path
    tracepoint = provider.add_tracepoint('my_method', Integer, String)
    assert_instance_of StaticTracing::Tracepoint, tracepoint
    assert_equal({ 'my_method' => tracepoint }, provider.tracepoints)
    assert provider.enable
    assert_match(%r{\A/proc/#{$$}/fd/\d+\z}, provider.path)
    provider.disable
    assert_empty provider.path
    assert_equal 'compat_provider', provider.namespace
    assert_raises(StaticTracing::Provider::ProviderMissingError) { StaticTracing::Provider.fetch('nope') }
    provider.destroy
    assert_raises(StaticTracing::Provider::ProviderMissingError) { StaticTracing::Provider.fetch('compat_provider') }
  end

  def test_tracepoint
    tracepoint = StaticTracing::Tracepoint.new('compat_tp', 'my_method', Integer, String)
    assert_equal 'compat_tp', tracepoint.provider.namespace
    assert_equal ['compat_tp', 'my_method', [Integer, String]], [tracepoint.provider_name, tracepoint.name, tracepoint.args]
    assert_same tracepoint, StaticTracing::Tracepoint.fetch('compat_tp', 'my_method')
    refute_predicate tracepoint, :enabled?
    error = assert_raises(StaticTracing::Tracepoint::InvalidArgumentError) { tracepoint.fire('hello', 1) }
    assert_match(/Integer/, error.message)
    assert_raises(StaticTracing::Tracepoint::InvalidArgType) { StaticTracing::Tracepoint.new('compat_tp', 'x', Array) }
    assert_raises(StaticTracing::Tracepoint::TracepointMissingError) { StaticTracing::Tracepoint.fetch('compat_tp', 'none') }
    tracepoint.fire(1, 'hello')
    assert_equal 0, tracepoint.fired
    tracepoint.provider.enable
    traced(tracepoint) { tracepoint.fire(1, 'hello') }
    assert_equal 1, tracepoint.fired
  end

  # A user's own tests replace methods of tracepoints.
  def test_tracepoints_can_be_stubbed
    tracepoint = StaticTracing::Tracepoint.new('compat_stub', 'x', Integer)
    def tracepoint.fire(*); :stubbed; end
    assert_equal :stubbed, tracepoint.fire(1)
  end

  def test_latency
    StaticTracing.enable!
    StaticTracing::Tracer::Latency.enable!
    point = StaticTracing::Tracepoint.fetch('compat_test_example', 'with_args')
    traced(point) do
      assert_equal [3, 4], Example.new.with_args(2, 3, arg1: 1)
      assert_equal [3, 4], Child.new.with_args(2, 3, arg1: 1)
      assert_raises(ArgumentError) { Child.new.with_args(2) }
    end
    assert_equal 3, point.fired
    assert_equal 0, point.mismatched
    StaticTracing::Tracer::Latency.disable!
    traced(point) { assert_equal [3], Example.new.with_args(2, arg1: 1) }
    assert_equal 3, point.fired
  end

  # They call fire whenever they are enabled: users count these calls in their tests.
  def test_enabled_tracers_always_call_fire
    StaticTracing::Tracer::Latency.enable!
    point = StaticTracing::Tracepoint.fetch('compat_test_example', 'noop')
    calls = []
    point.define_singleton_method(:fire) { |*args| calls << args }
    Example.new.noop
    assert_equal ['noop', Integer], [calls[0][0], calls[0][1].class]
    StaticTracing::Tracer::Latency.disable!
    Example.new.noop
    assert_equal 1, calls.size
  ensure
    point.singleton_class.send(:remove_method, :fire)
  end

  def test_stack_of_a_method_defined_later
    StaticTracing::Tracer::Stack.enable!
    StaticTracing.enable!
    point = StaticTracing::Tracepoint.fetch('compat_test_stacked', 'later')
    traced(point) { assert_equal 2, (Stacked.new.later(1) { |a| a + 1 }) }
    assert_equal 1, point.fired
  end

  def test_both_tracers_of_one_method
    klass = Class.new do
      def self.name; 'Both'; end
      def x; 1; end
    end
    self.class.const_set(:Both, klass)
    StaticTracing::Tracer::Latency.register(klass, :x)
    StaticTracing::Tracer::Stack.register(klass, :x)
    assert_equal %w[x x_stack], StaticTracing::Provider.fetch('compat_test_both').tracepoints.keys
  end

  def test_concern
    points = StaticTracing::Provider.fetch('compat_test_concerned').tracepoints
    assert_equal ['before'], points.keys
  end

  def test_custom_tracer_and_provider
    tracer = Class.new(StaticTracing::Tracer::Base) do
      set_wrapping_function(lambda { |*args, &block|
        StaticTracing::Tracepoint.fetch('custom', __method__.to_s).fire(__method__.to_s)
        super(*args, &block)
      })
      set_tracepoint_data_types(String)
    end
    klass = Class.new { def go(k:); k; end }
    tracer.register(klass, :go, provider: 'custom')
    StaticTracing.configure { |config| config.add_tracer(tracer) }
    StaticTracing.enable!
    point = StaticTracing::Tracepoint.fetch('custom', 'go')
    traced(point) { assert_equal 3, klass.new.go(k: 3) }
    assert_equal 1, point.fired
    assert_raises(StaticTracing::Tracers::InvalidTracerError) { StaticTracing::Tracers.add(String) }
  end

  def test_configuration
    code = <<~'RUBY'
      require 'ruby-static-tracing'
      config = StaticTracing::Configuration.instance
      p config.mode, config.signal
      Process.kill('PROF', $$)
      9_000.times { StaticTracing.enabled? ? break : sleep(0.01) } and abort('never')
      Process.kill('PROF', $$)
      9_000.times { StaticTracing.enabled? ? sleep(0.01) : break } and abort('never')
      config.mode = StaticTracing::Configuration::Modes::ON
      p StaticTracing.enabled?
      config.mode = StaticTracing::Configuration::Modes::OFF
      p StaticTracing.enabled?
      config.mode = 'tracing'
      p config.mode
      config.mode = StaticTracing::Configuration::Modes::SIGNAL
      config.signal = 'USR2'
      Process.kill('USR2', $$)
      9_000.times { StaticTracing.enabled? ? break : sleep(0.01) } and abort('never')
    RUBY
    assert_equal %("SIGNAL"\n"PROF"\ntrue\nfalse\n"tracing"\n), ruby(code)
  end

  def test_a_profiler_keeps_its_signal
    code = <<~'RUBY'
      profiled = 0
      trap('PROF') { profiled += 1 }
      require 'ruby-static-tracing'
      p StaticTracing::Configuration.instance.signal
      Process.kill('PROF', $$)
      9_000.times { profiled == 1 ? break : sleep(0.01) } and abort('never')
      Process.kill('URG', $$)
      9_000.times { StaticTracing.enabled? ? break : sleep(0.01) } and abort('never')
      StaticTracing::Configuration.instance.mode = 'OFF'
      Process.kill('PROF', $$)
      9_000.times { profiled == 2 ? break : sleep(0.01) } and abort('never')
    RUBY
    assert_equal %("URG"\n), ruby(code)
  end

  def test_signal_by_environment
    code = <<~'RUBY'
      require 'rutile/static_tracing'
      tp = Rutile::Tracepoint.new('a', 'b')
      p tp.on?
      Process.kill('USR1', $$)
      9_000.times { tp.on? ? break : sleep(0.01) } and abort('never')
      Process.kill('USR1', $$)
      9_000.times { tp.on? ? sleep(0.01) : break } and abort('never')
    RUBY
    assert_equal "false\n", ruby(code, env: { 'RUTILE_TRACEPOINTS' => 'signal:USR1' })
  end

  # Included, as its documents show.
  class Includer
    include StaticTracing
  end

  def test_includable
    assert_kind_of Integer, Includer.new.nsec
  end
end
