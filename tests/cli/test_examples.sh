#!/bin/bash
# SPDX-License-Identifier: MIT
# Parts of the examples that need no recording. examples/slow-requests itself is in tests/slow.
. "$SRC/tests/tap.sh"

# pattern HOW: a file in place of the computer's, in a mount namespace. HOW ends the process that needs the pattern.
pattern() {
  unshare -m true 2>/dev/null || t_skip "cannot mount"
  echo '|/lib/handler %P' >pattern
  cat >inside <<'SH'
mount --bind pattern /proc/sys/kernel/core_pattern
sleep 300 & process=$!
# In a group of its own, as a shell's job.
setsid "$1/examples/slow-requests/core-pattern" $process & guard=$!
for _ in $(seq 200); do ! grep -qx core pattern || break; sleep 0.05; done
cat pattern >during
case $2 in
  restore) kill -USR1 $guard ;;
  all) kill -INT $guard; kill -TERM $guard; kill -HUP $guard; kill -9 $process ;;
  *) kill "-$2" $process ;;
esac
wait $guard
kill $process 2>/dev/null || true
SH
  before=$(cat /proc/sys/kernel/core_pattern)
  timeout 60 unshare -m bash inside "$SRC" "$1"
  grep -qx core during
  grep -qxF '|/lib/handler %P' pattern
  [ "$(cat /proc/sys/kernel/core_pattern)" = "$before" ]
}

t_case "the pattern of core dumps is restored when the example is killed" pattern KILL
t_case "the same when it is told to end" pattern TERM
t_case "the same when everything is told to end" pattern all
t_case "the same when the example says so" pattern restore
t_done
