# frozen_string_literal: true

# A clock that says tick and tock, twice a second, to a tracer.
#
#     ruby tick_tock.rb &
#     bpftrace -p $! tick_tock.bt

require 'rutile/static_tracing'

TICK = Rutile::Tracepoint.new('clock', 'tick', Integer, String)

puts "#{$$} #{TICK.provider.path}"
$stdout.flush

beats = 0
loop do
  beats += 1
  TICK.fire { [beats, beats.odd? ? 'tick' : 'tock'] }
  sleep Float(ENV.fetch('INTERVAL', 0.5))
end
