# frozen_string_literal: true

require_relative 'test_helper'
require 'rutile/rack'
require 'rutile/sidekiq'

# Rack, ActiveSupport::Notifications, Sidekiq: what is fired, and that nothing else changes.
class FrameworksTest < Minitest::Test
  # Records what blocks and calls of a tracepoint give, in place of firing it.
  def recorded(*tracepoints)
    values = []
    tracepoints.each { |tp| TestSupport.semaphore(tp, 1) }
    recorder = Module.new do
      define_method(:fire) do |*args, &block|
        got = args.empty? && block && enabled? ? Array(block.call) : args
        values << [name, *got] if enabled? && tracepoints.include?(self)
        super(*got)
      end
    end
    FrameworksTest.intercept = recorder
    yield
    values
  ensure
    FrameworksTest.intercept = nil
    tracepoints.each { |tp| TestSupport.semaphore(tp, -1) }
  end

  class << self
    attr_accessor :recorder

    # Tracepoints are frozen, so the class is what is intercepted, and only while it is.
    def intercept=(mod)
      if mod
        fire = mod.instance_method(:fire)
        Interceptor.define_method(:fire, fire)
      else
        Interceptor.remove_method(:fire)
      end
    end
  end

  Interceptor = Module.new
  Rutile::Tracepoint.prepend(Interceptor)
  module Recorder; end

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
    # What an application returns is the server's business, not the middleware's.
    recorded(*points('rack')) { assert_nil Rutile::Rack.new(->(_) {}).call(ENVIRONMENT.dup) }
    ends = fired.select { |f| f[0] == 'request_end' }
    assert_equal ['GET /carts/:id', '/carts/7', '/carts/7'], (ends.map { |f| f[2] })
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
