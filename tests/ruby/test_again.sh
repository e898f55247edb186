#!/bin/sh
# SPDX-License-Identifier: MIT
# One process, traced again and again, in changing modes.
. "$SRC/tests/tap.sh"
RUBY=${RUBY:-ruby}
export RUBY

# Of the first tracers' hooks something stays in Ruby's heap until it is collected: it must not matter.
survives_changing_modes() {
  cat >many.rb <<'E2'
1000.times { |i| eval "class K#{i}; def m; #{i}; end; def n; m; end; end" }
things = 1000.times.map { |i| Object.const_get("K#{i}").new }
GC.disable
finish = Time.now + 60
until File.exist?('stop') || Time.now > finish
  things.each(&:n)
  sleep 0.001
end
File.write('ended', 'well')
E2
  "$RUBY" many.rb &
  pid=$!
  sleep 0.5
  for _ in 1 2 3; do
    "$RUTILE" time "$pid" all --duration 0.3 | grep -q 'K[0-9]*#n'
    "$RUTILE" calls "$pid" all --method 'K1#n' --duration 0.3 | grep -q 'K1#n'
    "$RUTILE" arrays "$pid" all --duration 0.2 >arrays
  done
  touch stop
  wait "$pid"
  [ "$(cat ended)" = well ]
}

# On a process without an agent, and on one that is still starting: one agent, and no harm.
together() { # TRACERS ROUNDS
  ruby "$SRC/tests/ruby/together.rb" "$2" "$(date +%s)" "$1" -- "$TRACE_TOOL" -s 0.15 -m MODE PID
}
young_together() {
  YOUNG=1 together "$@"
}

t_case "two tracers at the same moment" together 2 15
t_case "four tracers at the same moment" together 4 15
t_case "four tracers while the process starts" young_together 4 15
t_case "a process survives tracers of changing modes" survives_changing_modes
t_done
