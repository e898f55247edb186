# frozen_string_literal: true

# Throws two dice in a loop. The tracer, not the program, makes the statistics.
#
#     ruby distribution.rb &
#     bpftrace -p $! distribution.bt

require 'rutile/static_tracing'

THROW = Rutile::Tracepoint.new('dice', 'throw', Integer, Integer)

puts "#{$$} #{THROW.provider.path}"
$stdout.flush

dice = Random.new(42)
loop do
  THROW.fire(dice.rand(1..6), dice.rand(1..6)) if THROW.enabled?
  sleep Float(ENV.fetch('INTERVAL', 0.001))
end
