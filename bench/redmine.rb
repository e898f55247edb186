# SPDX-License-Identifier: MIT
# Nine pages of Redmine in turn, in one process: for each number N that is read, N rounds; prints the least and the
# median of CPU time of a page, in milliseconds. Run where Debian's redmine is installed (bench/redmine.py).
ENV['RAILS_ENV'] = 'production'
ENV['X_DEBIAN_SITEID'] = 'default'
Dir.chdir('/usr/share/redmine')
require '/usr/share/redmine/config/environment'
require 'rack/mock'

PAGES = %w[/ /projects /projects/demo /issues /projects/demo/issues /issues/1 /issues/2 /login /projects/demo/activity].freeze

unless Project.find_by(identifier: 'demo')
  admin = User.find_by(login: 'admin')
  project = Project.new(name: 'Demo', is_public: true)
  project.identifier = 'demo'
  project.trackers = Tracker.all
  project.save!
  priority = IssuePriority.first || IssuePriority.create!(name: 'Normal', is_default: true)
  60.times do |i|
    Issue.new(project: project, tracker: Tracker.first, author: admin, subject: "Issue #{i}", priority: priority,
              description: "text *bold* #{i}\n\n* a\n* b", status: IssueStatus.first).save!(validate: false)
  end
end
ActiveRecord::Base.logger = nil
page = lambda do |url|
  status, _, body = Rails.application.call(Rack::MockRequest.env_for(url, 'HTTP_HOST' => 'localhost', 'REMOTE_ADDR' => '127.0.0.1'))
  raise "#{url}: status #{status}" unless status == 200

  body.each { |part| part }
  body.close if body.respond_to?(:close)
end
cpu = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) }
# A server has threads. Otherwise attaching, which adds one, would make malloc() of the process slower for good.
Thread.new { sleep }
5.times { PAGES.each(&page) }
$stdout.sync = true
puts "ready #{Process.pid}"
while (line = $stdin.gets)
  GC.start
  all = Array.new(Integer(line)) do
    before = cpu.call
    PAGES.each(&page)
    (cpu.call - before) * 1000 / PAGES.size
  end
  puts format('%.3f %.3f', all.min, all.sort[all.size / 2])
end
