#!/bin/bash
# SPDX-License-Identifier: MIT
# The full numbers of what tests/ruby/test_inject.sh does in short. SEED=N repeats a run.
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"
export RUBY
seed=${SEED:-$(date +%s)}

killed() { # MODE-OF-RUTILE
  echo "seed $seed"
  ruby "$SRC/tests/ruby/kill.rb" 300 "$seed" kill -- "$RUTILE" "$1" all PID
}

# Killed within the microseconds of the injection itself; every load adds a copy of the dummy.
killed_while_injecting() {
  echo "seed $seed"
  MAPS_MAY_GROW=1 EARLY=1 ruby "$SRC/tests/ruby/kill.rb" 300 "$seed" kill -- \
    "$INJECT_TOOL" PID "$DUMMY" 20
}

cycles() {
  echo "seed $seed"
  STORM=1 ruby "$SRC/tests/ruby/kill.rb" 500 "$seed" cycle -- "$RUTILE" "$1" all PID
}

together() { # TRACERS ROUNDS YOUNG
  echo "seed $seed"
  YOUNG=$3 ruby "$SRC/tests/ruby/together.rb" "$2" "$seed" "$1" -- "$TRACE_TOOL" -s 0.15 -m MODE PID
}

t_case "two tracers at the same moment, 300 times" together 2 300 ""
t_case "four tracers at the same moment, 300 times" together 4 300 ""
t_case "four tracers while the process starts, 200 times" together 4 200 1
t_case "signal handlers run on top of the stub, 100 times" signal_handlers_may_run 100
t_case "300 tracers killed while injecting" killed_while_injecting
t_case "300 tracers of calls killed at random moments" killed calls
t_case "300 tracers of objects killed at random moments" killed objects
t_case "500 cycles of calls in a storm of threads and allocations" cycles calls
t_case "500 cycles of objects in a storm of threads and allocations" cycles objects
t_done
