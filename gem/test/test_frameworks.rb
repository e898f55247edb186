# frozen_string_literal: true

require_relative 'test_helper'
require_relative 'recorded'
require 'rutile/rack'
require 'rutile/sidekiq'

# Rack, ActiveSupport::Notifications, Sidekiq: what is fired, and that nothing else changes.
class FrameworksTest < Minitest::Test
  include Recorded

  def setup
    @mismatched = Rutile::Provider.all.flat_map { |p| p.tracepoints.values }.sum(&:mismatched)
  end

  def teardown
    assert_equal @mismatched, Rutile::Provider.all.flat_map { |p| p.tracepoints.values }.sum(&:mismatched)
  end

  def points(provider)
    Rutile::Provider.fetch(provider).tracepoints.values
  end

  ENVIRONMENT = { 'REQUEST_METHOD' => 'GET', 'PATH_INFO' => '/carts/7', 'HTTP_X_REQUEST_ID' => 'r-1' }.freeze

  def test_rack
    response = [201, {}, ['body']]
    app = Rutile::Rack.new(->(_) { response })
    assert_same response, app.call(ENVIRONMENT.dup)
    before = Rutile.nsec
    fired = recorded(*points('rack')) { assert_same response, app.call(ENVIRONMENT.dup) }
    assert_equal ['request_begin', 'GET', '/carts/7', 'r-1'], fired[0]
    assert_equal ['request_end', 'GET', '/carts/7', 201, 'r-1'], fired[1].values_at(0, 1, 2, 3, 5)
    assert_includes 0..(Rutile.nsec - before), fired[1][4]
  end

  def test_rack_route_and_exception
    routed = Rutile::Rack.new(->(env) { env['sinatra.route'] = 'GET /carts/:id' and [200, {}, []] })
    failing = Rutile::Rack.new(->(_) { raise ArgumentError, 'mine' })
    fired = recorded(*points('rack')) do
      routed.call(ENVIRONMENT.dup)
      assert_equal 'mine', assert_raises(ArgumentError) { failing.call(ENVIRONMENT.dup) }.message
      assert_equal :thrown, (catch(:async) { Rutile::Rack.new(->(_) { throw :async, :thrown }).call(ENVIRONMENT.dup) })
    end
    # What an application returns is left to the server.
    recorded(*points('rack')) { assert_nil Rutile::Rack.new(->(_) {}).call(ENVIRONMENT.dup) }
    ends = fired.select { |f| f[0] == 'request_end' }
    assert_equal ['/carts/:id', '/carts/7', '/carts/7'], (ends.map { |f| f[2] })
    assert_equal [200, 500, 500], (ends.map { |f| f[3] })
  end

  def notifications
    require 'active_support'
    require 'active_support/notifications'
    require 'rutile/active_support'
    Rutile::ActiveSupport.install
    Rutile::ActiveSupport.install
    yield ActiveSupport::Notifications
    Rutile::ActiveSupport.uninstall
  rescue LoadError
    skip 'needs activesupport'
  end

  Job = Struct.new(:job_id, :queue_name)

  def test_active_support
    notifications do |bus|
      fire = lambda do
        bus.instrument('sql.active_record', name: 'User Load', sql: 'SELECT 1', cached: true) { :result }
        bus.instrument('render_partial.action_view', identifier: '/a/_b.erb') do
          bus.instrument('cache_fetch_hit.active_support', key: 'k', hit: true)
        end
        bus.instrument('perform.active_job', job: Job.new('j1', 'mail'))
        bus.instrument('process_action.action_controller', controller: 'Carts', action: 'show', status: 200)
        bus.instrument('other.event')
        assert_raises(RuntimeError) { bus.instrument('sql.active_record', sql: 'BAD') { raise 'x' } }
      end
      assert_empty recorded { fire.call }
      fired = recorded(*points('rails'), &fire)
      assert_equal [['sql', 'User Load', 'SELECT 1', true], ['cache', 'cache_fetch_hit', 'k', true],
                    ['render', 'render_partial', '/a/_b.erb'], ['job', 'perform', 'FrameworksTest::Job', 'j1', 'mail'],
                    ['action', 'Carts', 'show', 200], ['sql', '', 'BAD', false]], (fired.map { |f| f[0...-1] })
      fired.each { |f| assert_includes 0..60_000_000_000, f.last }
    end
  end

  # Any notification of the application.
  def test_any_notification
    notifications do |bus|
      trace = Rutile::ActiveSupport.method(:trace)
      plain = trace.call('paid.checkout')
      typed = trace.call('refunded.checkout', order: Integer, why: String)
      all = trace.call(/\Aslow/, as: 'slow')
      assert_nil trace.call('*.warehouse')
      fire = lambda do
        bus.instrument('paid.checkout', order: 7, items: [1, 'b']) { :result }
        assert_raises(ArgumentError) { bus.instrument('paid.checkout', order: 8) { raise ArgumentError, 'x' } }
        bus.instrument('refunded.checkout', order: 7, why: 'late', other: 1)
        bus.instrument('slow.one')
        bus.instrument('slow.two', nil)
        bus.instrument('sent.warehouse', box: :b)
        bus.publish('paid.checkout', Time.at(1), Time.at(3.5), 'id', { order: 9 })
        bus.instrument('paid.elsewhere')
      end
      fire.call # the tracepoints of a pattern exist from the first time on
      sent = Rutile::Tracepoint.fetch('notifications', 'sent_warehouse')
      assert_equal %w[paid_checkout refunded_checkout slow], [plain, typed, all].map(&:name)
      assert_empty recorded(&fire)
      fired = recorded(plain, typed, all, sent, &fire)
      fired.each { |values| assert_includes 0..60_000_000_000, values.last }
      assert_equal [['paid_checkout', 'paid.checkout', 'order: 7, items: [1, "b"]', nil],
                    ['paid_checkout', 'paid.checkout', 'order: 8', 'ArgumentError'],
                    ['refunded_checkout', 7, 'late'], ['slow', 'slow.one', '', nil], ['slow', 'slow.two', 'nil', nil],
                    ['sent_warehouse', 'sent.warehouse', 'box: :b', nil], ['paid_checkout', 'paid.checkout', 'order: 9', nil]],
                   (fired.map { |values| values[0...-1] })
      assert_equal 2_500_000_000, fired.last.last
      assert_raises(Rutile::Tracepoint::InvalidArgType) { trace.call('paid.checkout', order: Array) }
      assert_equal 127, trace.call("#{'long' * 50}.name").name.size
    end
  end

  # Begun before it was traced, ended after, and the other way round, in each other.
  def test_switched_meanwhile
    notifications do |bus|
      point = Rutile::Tracepoint.fetch('rails', 'sql')
      on = -> { TestSupport.semaphore(point, 1) }
      off = -> { TestSupport.semaphore(point, -1) }
      fired = point.fired
      sql = ->(text, &block) { bus.instrument('sql.active_record', sql: text, &block) }
      sql.call('outer') { on.call; sql.call('inner') { sql.call('lost') { off.call } } }
      assert_equal fired, point.fired
      sql.call('outer') { sql.call('inner') { on.call } }
      assert_equal fired, point.fired
      sql.call('all') { sql.call('inner') { nil } }
      off.call
      assert_equal fired + 2, point.fired
    end
  end

  # What a notification does that is not traced: the same calls as without the gem.
  def test_untraced_notifications_cost_nothing
    notifications do |bus|
      Rutile::ActiveSupport.trace('cheap.event')
      events = %w[sql.active_record cheap.event]
      installed = calls(events, bus)
      listener = bus.subscribe(/./, Class.new { def start(*); end; def finish(*); end }.new)
      heard = calls(events, bus)
      assert_equal([false, true], [installed, heard].map { |done| done.include?(:finish) })
      Rutile::ActiveSupport.uninstall
      assert_equal calls(events, bus), heard
      bus.unsubscribe(listener)
      assert_equal calls(events, bus), installed
    end
  end

  # The names of the methods that are called, when all that is remembered is remembered.
  def calls(events, bus)
    run = proc { events.each { |name| bus.instrument(name, a: 1) { nil } } }
    3.times(&run)
    called = []
    TracePoint.new(:call, :c_call) { |tp| called << tp.method_id }.enable(&run)
    called
  end

  # Sidekiq's interface of middlewares.
  class FakeSidekiq
    Chain = Struct.new(:all) do
      def add(klass, *args); all << klass.new(*args); end

      def invoke(*args, &block)
        all.reverse.inject(block) { |inner, middleware| -> { middleware.call(*args, &inner) } }.call
      end
    end

    attr_reader :client, :server

    def initialize
      @client = Chain.new([])
      @server = Chain.new([])
    end

    def configure_client; nil; end
    def configure_server; yield(self); end
    def client_middleware; yield(@client); end
    def server_middleware; yield(@server); end
  end

  def test_sidekiq
    sidekiq = FakeSidekiq.new
    Rutile::Sidekiq.install(sidekiq)
    assert_equal [1, 1], [sidekiq.client.all.size, sidekiq.server.all.size]
    job = { 'class' => 'HardJob', 'jid' => 'abc', 'enqueued_at' => Process.clock_gettime(Process::CLOCK_REALTIME) - 2 }
    run = lambda do
      assert_equal :pushed, (sidekiq.client.invoke('HardJob', job, 'default', nil) { :pushed })
      assert_equal :done, (sidekiq.server.invoke(Object.new, job, 'default') { :done })
      assert_raises(IOError) { sidekiq.server.invoke(Object.new, job.merge('wrapped' => 'Real'), 'low') { raise IOError } }
    end
    run.call
    fired = recorded(*points('sidekiq'), &run)
    assert_equal [%w[push HardJob abc default], %w[job_begin HardJob abc default], %w[job_end HardJob abc default],
                  %w[job_begin Real abc low], %w[job_end Real abc low]], (fired.map { |f| f[0..3] })
    assert_operator fired[1][4], :>=, 2_000_000_000
    assert_equal [nil, 'IOError'], [fired[2][5], fired[4][5]]
  end
end
