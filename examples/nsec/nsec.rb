# frozen_string_literal: true

# How long a method takes: a latency tracer wraps it, and only while it is enabled.
#
#     ruby nsec.rb &
#     rutile tracepoints $! --enable 'kitchen:cook_latency'
#     bpftrace -p $! nsec.bt

require 'rutile/static_tracing'

# Takes longer for more.
class Kitchen
  def cook(portions)
    (1..portions * 1000).sum { |i| i % 7 }
  end
end

Rutile::Tracer::Latency.register(Kitchen, :cook)
Rutile::Tracer::Latency.enable! if ARGV.include?('--enable')

puts "#{$$} #{Rutile::Provider.fetch('kitchen').path}"
$stdout.flush

kitchen = Kitchen.new
loop do
  (1..4).each { |portions| kitchen.cook(portions) }
  sleep Float(ENV.fetch('INTERVAL', 0.01))
end
