# SPDX-License-Identifier: MIT
# Requests to an application of Rails' parts (routes, parameters, filters, a view with a partial, JSON) within one
# process, without a database: prints the microseconds of CPU time of one, the least of ROUNDS rounds.
require 'action_controller'
require 'action_view'
require 'json'
require 'rack'
require 'tmpdir'

N = Integer(ENV.fetch('N', '40'))
ROUNDS = Integer(ENV.fetch('ROUNDS', '7'))

VIEWS = {
  'items/index.html.erb' => "<h1><%= @title %></h1>\n<ul>\n<% @items.each do |item| %><%= render 'item', item: item %><% end %></ul>\n" \
                            "<%= link_to 'next', '/items?page=2', class: 'next' %>\n",
  'items/_item.html.erb' => "<li class=\"<%= cycle 'odd', 'even' %>\"><%= item[:name].titleize %> <%= number_to_human item[:price] %></li>\n"
}.freeze

class ItemsController < ActionController::Base
  before_action { @title = params[:q].to_s.strip.presence || 'items' }
  def index
    @items = Array.new(20) { |i| { name: "item number_#{i}", price: i * 1234 } }
    request.path.end_with?('.json') ? render(json: @items) : render
  end
end

dir = File.join(Dir.mktmpdir, 'views')
Dir.mkdir(dir)
VIEWS.each do |name, text|
  path = File.join(dir, name)
  Dir.mkdir(File.dirname(path)) unless File.directory?(File.dirname(path))
  File.write(path, text)
end
at_exit { require 'fileutils'; FileUtils.rm_rf(File.dirname(dir)) }
ItemsController.prepend_view_path(dir)
routes = ActionDispatch::Routing::RouteSet.new
routes.draw { get '/items', to: 'items#index' }
app = Rack::Builder.new do
  use Rack::Head
  use Rack::ETag
  run routes
end.to_app

request = lambda do |i|
  status, _, body = app.call(Rack::MockRequest.env_for("/items?q=abc#{i}&page=#{i % 7}&f[a]=1&f[b][]=2"))
  raise "status #{status}" unless status == 200

  body.each { |part| part }
  body.close if body.respond_to?(:close)
end
cpu = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond) }
sleep Float(ENV.fetch('WAIT', '0'))
N.times(&request)
best = Array.new(ROUNDS) do
  GC.start
  before = cpu.call
  N.times(&request)
  (cpu.call - before).fdiv(N * 1000)
end.min
$stderr.puts format('request %.1f', best)
