# frozen_string_literal: true

RAILS = %w[action_controller/railtie active_record/railtie action_mailer/railtie active_job/railtie action_cable/engine
           active_storage/engine].freeze
begin
  $VERBOSE = nil # Rails 6.1 warns of itself
  require 'logger'
  require 'rails'
  RAILS.each { |part| require part }
rescue LoadError => e
  NO_RAILS = e.message
end
require_relative 'test_helper'
require_relative 'recorded'
require 'rutile/rack'
require 'rutile/active_support'

unless defined?(NO_RAILS)
  ENV['DATABASE_URL'] = 'sqlite3::memory:'

  # An application with what the tests need.
  class Shop < Rails::Application
    config.root = Dir.mktmpdir
    at_exit { FileUtils.rm_rf(config.root) }
    config.load_defaults 6.0
    config.eager_load = false
    config.consider_all_requests_local = false
    config.logger = Logger.new(nil)
    config.secret_key_base = 'x' * 64
    config.hosts.clear if config.respond_to?(:hosts)
    config.active_storage.service = :here
    config.active_storage.service_configurations = { 'here' => { 'service' => 'Disk', 'root' => "#{config.root}/files" } }
    config.action_mailer.delivery_method = :test
    config.action_controller.allow_forgery_protection = false
    config.active_job.queue_adapter = :inline
    config.middleware.insert_before 0, Rutile::Rack
  end

  # An engine with routes of its own.
  class Back < Rails::Engine
  end

  class CartsController < ActionController::Base
    def show; render plain: params[:id].to_s; end
    def fail; raise 'broken'; end
    def missing; raise ActiveRecord::RecordNotFound, 'none'; end
    def oops; render plain: 'sorry', status: request.path_info[1..-1].to_i; end
  end

  class Letter < ActionMailer::Base
    def hello; mail(to: 'a@example.com', from: 'b@example.com', subject: 'Hello', body: 'x'); end
  end

  class Work < ActiveJob::Base
    def perform; end
  end

  Shop.initialize!
  Back.routes.draw { get '/orders/:order', to: 'carts#show' }
  Shop.routes.draw do
    get '/carts/:id', to: 'carts#show', constraints: { id: /\d+/ }
    get '/slow/:id', to: 'carts#show'
    match '/fail/:id', to: 'carts#fail', via: %i[get post]
    scope('/shops/:shop') { get '/missing/:id', to: 'carts#missing' }
    get '/oops/:code', to: 'carts#oops'
    mount Back => '/back/:office'
    %w[404 500].each { |code| get "/#{code}", to: 'carts#oops' }
  end
end

# Rack, Rails and its notifications: what is fired by a real application.
class RailsTest < Minitest::Test
  include Recorded

  def setup
    skip "needs Rails: #{NO_RAILS}" if defined?(NO_RAILS)
    @mismatched = Rutile::Provider.all.flat_map { |p| p.tracepoints.values }.sum(&:mismatched)
  end

  def teardown
    return if defined?(NO_RAILS)

    Rutile::ActiveSupport.uninstall
    assert_equal @mismatched, Rutile::Provider.all.flat_map { |p| p.tracepoints.values }.sum(&:mismatched)
  end

  def points(provider, *names)
    tracepoints = Rutile::Provider.fetch(provider).tracepoints
    names.empty? ? tracepoints.values : tracepoints.values_at(*names)
  end

  def request(path, method: 'GET')
    Shop.call(Rack::MockRequest.env_for(path, method: method))[0]
  end

  # What request_end had: method, route, status.
  def ends(&block)
    recorded(*points('rack', 'request_end'), &block).map { |values| values[1..3] }
  end

  def test_routes
    ended = ends do
      assert_equal 200, request('/carts/7')
      assert_equal 200, request('/slow/8.json?x=1')
      assert_equal 200, request('/back/north/orders/12')
      assert_equal 404, request('/nowhere')
    end
    assert_equal [['GET', '/carts/:id', 200], ['GET', '/slow/:id', 200], ['GET', '/back/:office/orders/:order', 200],
                  ['GET', '/nowhere', 404]], ended
  end

  # Rails renders the page of an error as a GET of "/500".
  def test_failed_requests
    ended = ends do
      assert_equal 500, request('/fail/3', method: 'POST')
      assert_equal 404, request('/shops/2/missing/4')
      shown = Shop.env_config['action_dispatch.show_exceptions']
      Shop.env_config['action_dispatch.show_exceptions'] = shown == true ? false : :none
      assert_raises(RuntimeError) { request('/fail/3') }
      assert_raises(ActiveRecord::RecordNotFound) { request('/shops/1/missing/4') }
      Shop.env_config['action_dispatch.show_exceptions'] = shown
    end
    assert_equal [['POST', '/fail/:id', 500], ['GET', '/shops/:shop/missing/:id', 404],
                  ['GET', '/fail/:id', 500], ['GET', '/shops/:shop/missing/:id', 404]], ended
  end

  # The application's own routes render its pages for errors.
  def test_errors_that_the_application_routes
    show = ActionDispatch::ShowExceptions.new(Shop.routes, Shop.routes)
    app = Rutile::Rack.new(show)
    env = Rack::MockRequest.env_for('/fail/3').merge(Shop.env_config)
    assert_equal([['GET', '/fail/:id', 500]], ends { assert_equal 500, app.call(env)[0] })
  end

  def test_status_of_actions
    Rutile::ActiveSupport.install
    fired = recorded(*points('rails', 'action')) { %w[/carts/7 /fail/3 /shops/1/missing/4].each { |path| request(path) } }
    assert_equal [['action', 'CartsController', 'show', 200], ['action', 'CartsController', 'fail', 500],
                  ['action', 'CartsController', 'missing', 404]], (fired.map { |values| values[0..3] })
  end

  def test_transactions
    Rutile::ActiveSupport.install
    db = ActiveRecord::Base.connection
    db.execute('CREATE TABLE IF NOT EXISTS carts (id INTEGER)')
    fired = recorded(*points('rails', 'transaction', 'sql')) do
      ActiveRecord::Base.transaction { db.execute('INSERT INTO carts VALUES (1)') }
      ActiveRecord::Base.transaction do
        db.execute('INSERT INTO carts VALUES (2)')
        ActiveRecord::Base.transaction(requires_new: true) { db.execute('INSERT INTO carts VALUES (3)') }
        raise ActiveRecord::Rollback
      end
    end
    ended = fired.select { |values| values[0] == 'transaction' }
    # Rails 7.1 reports savepoints, too.
    assert_equal %w[commit rollback], (ended.map { |values| values[1] }.uniq)
    ended.each { |values| assert_includes 0..60_000_000_000, values[2] }
  end

  def test_mail_jobs_storage_cable
    Rutile::ActiveSupport.install
    fired = recorded(*points('rails', 'mail', 'job', 'storage', 'cable')) do
      Letter.hello.deliver_now
      Work.perform_later
      service = ActiveStorage::Service.configure(:here, Shop.config.active_storage.service_configurations)
      service.upload('k1', StringIO.new('text'))
      assert_equal 'text', service.download('k1')
      ActionCable.server.config.cable = { 'adapter' => 'async' }
      ActionCable.server.broadcast('room', { a: 1 })
    end
    mails, others = fired.partition { |values| values[0] == 'mail' }
    assert_equal [%w[process Letter hello], %w[deliver Letter]], [mails[0][1..3], mails[1][1..2]]
    assert_match(/@/, mails[1][3])
    assert_equal([%w[job enqueue Work], %w[job perform Work]].sort,
                 others.select { |values| values[0] == 'job' }.map { |values| values[0..2] }.sort)
    assert_equal [%w[storage service_upload Disk k1], %w[storage service_download Disk k1], ['cable', 'broadcast', 'room', '']],
                 (others.reject { |values| values[0] == 'job' }.map { |values| values[0..3] })
  end
end
