#!/bin/sh
# SPDX-License-Identifier: MIT
# What the agent's hooks cost: ns an iteration of each loop of ruby_hooks.rb, under each mode, best of
# several: ruby_hooks.sh TRACE_TOOL [RUBY]. The class Untraced is outside of the filter.
set -eu
tool=$1
RUTILE_BENCH_RUBY=${2:-ruby}
RUTILE_BENCH=$(cd "$(dirname "$0")" && pwd)/ruby_hooks.rb
export RUTILE_BENCH_RUBY RUTILE_BENCH

# The figures go to standard error, past what the tracer prints.
run() {
  printf '%-14s' "$1"
  shift
  # shellcheck disable=SC2016
  "$@" sh -c 'exec "$RUTILE_BENCH_RUBY" --disable-gems "$RUTILE_BENCH" >&2' 2>&1 >/dev/null |
    grep '^loop'
}

run untraced env
for mode in calls time trace objects objects-total strings; do
  run "$mode" "$tool" -q -m "$mode" -k '!Untraced' -p '*ruby_hooks.rb' --
done
run 'calls, C' "$tool" -q -c -m calls --
run 'time, C' "$tool" -q -c -m time --
