#!/bin/sh
# SPDX-License-Identifier: MIT
# What the agent's hooks cost, in ns above the untraced loop: ruby_hooks.sh TRACE_TOOL [RUBY]
set -eu
tool=$1
ruby=${2:-ruby}
dir=$(cd "$(dirname "$0")" && pwd)

run() {
  name=$1
  shift
  printf '%-16s' "$name"
  "$@" "$ruby" --disable-gems "$dir/ruby_hooks.rb"
}

run untraced env
for mode in calls time objects-total objects strings trace; do
  run "$mode" "$tool" -q -m "$mode" -k '!Untraced' --
done
run 'calls c' "$tool" -q -c -m calls --
run 'time c' "$tool" -q -c -m time --
