# frozen_string_literal: true

# Nanoseconds of what a Ruby program pays: bench.rb untraced | traced | ring
# Prints one "NAME NANOSECONDS" a line; "traced" first prints the provider's path and waits.

require 'rutile/static_tracing'

TP = Rutile::Tracepoint.new('bench', 'fire', Integer, String)
TEXT = 'text'

# The cost of one turn of each loop, without that of an empty loop. All take turns, many times, and the
# least counts: what disturbs only adds, and disturbs all alike.
def measure(bodies, rounds = 100_000, turns = 60)
  loops = { nil => ->(n) { i = 0; i += 1 while i < n } }.merge(bodies)
  least = Hash.new(Float::INFINITY)
  turns.times { loops.each { |name, body| least[name] = [least[name], time(rounds, &body)].min } }
  empty = least.delete(nil)
  least.transform_values { |ns| ns - empty }
end

def time(rounds)
  start = Rutile.nsec
  yield rounds
  (Rutile.nsec - start).fdiv(rounds)
end

# Methods of one shape: unwrapped, registered with a tracer, and disabled again after it was enabled.
class Plain
  def work(a) = a
end

class Registered
  def work(a) = a
end

class Disabled
  def work(a) = a
end

def untraced
  require 'nothing'
  nothing = Nothing.new
  plain = Plain.new
  registered = Registered.new
  disabled = Disabled.new
  Rutile::Tracer::Latency.register(Registered, :work)
  Rutile::Tracer::Stack.register(Disabled, :work)
  Rutile::Tracer::Stack.enable!
  Rutile::Tracer::Stack.disable!
  measure({
    'empty C method, 2 arguments' => ->(n) { i = 0; while i < n; nothing.fire(i, TEXT); i += 1; end },
    'fire, 2 arguments' => ->(n) { i = 0; while i < n; TP.fire(i, TEXT); i += 1; end },
    'empty C method, block' => ->(n) { i = 0; while i < n; nothing.fire { [i, TEXT] }; i += 1; end },
    'fire, block' => ->(n) { i = 0; while i < n; TP.fire { [i, TEXT] }; i += 1; end },
    'empty C method' => ->(n) { i = 0; while i < n; nothing.enabled?; i += 1; end },
    'enabled?' => ->(n) { i = 0; while i < n; TP.enabled?; i += 1; end },
    'method' => ->(n) { i = 0; while i < n; plain.work(i); i += 1; end },
    'method, tracer registered' => ->(n) { i = 0; while i < n; registered.work(i); i += 1; end },
    'method, tracer disabled again' => ->(n) { i = 0; while i < n; disabled.work(i); i += 1; end }
  })
end

def traced
  puts "path #{TP.provider.path}"
  $stdout.flush
  $stdin.gets
  measure({ 'fire, traced' => ->(n) { i = 0; while i < n; TP.fire(i, TEXT); i += 1; end } }, 20_000, 40)
end

def ring
  sleep 0.01 until TP.enabled?
  pause = ->(_) { sleep 0.01 } # the ring is emptied meanwhile
  measure({ 'fire, into the ring' => ->(n) { i = 0; while i < n; TP.fire(i, TEXT); i += 1; end }, 'pause' => pause }, 20_000, 40)
    .slice('fire, into the ring')
end

send(ARGV.fetch(0)).each { |name, ns| puts "#{name}\t#{ns.round(2)}" }
