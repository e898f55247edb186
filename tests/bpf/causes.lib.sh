# SPDX-License-Identifier: MIT
# Slow requests with a known cause, because it was made (tests/ruby/causes.rb), recorded and explained; source it after
# lib.sh. The right cause is named first, and the times on a CPU and in its queue are what the kernel counted.
: "${RUBY:=ruby}"

# record NAMES...: into "trace"; what the program measured itself is in "truth".
record() {
  mkfifo in
  mkdir work
  # What else runs on this machine must not be the cause of everything.
  setsid nice -n -19 "$RUBY" -W0 --disable-gems "$SRC/tests/ruby/causes.rb" "$PWD/work" "$@" <in >truth 2>err &
  program=$!
  exec 5>in
  t_wait grep -q ready truth
  # Where sessions share the CPUs, a program's own priority counts only within its session.
  echo -19 >/proc/"$program"/autogroup || :
  "$RUTILE" record -a --buffer 128M --subbuf 256K -o trace --class Cause --class Database --class Report --class ArgumentError \
    --class SlowMiddleware -e sched,irq,block,net,signal,syscall --ruby "$program" --ruby "$program:requests" 2>record.err &
  recorder=$!
  recording trace || { cat record.err; return 1; }
  t_wait test -s trace/ruby-"$program"/names
  echo >&5
  failed=0
  wait "$program" || failed=$?
  exec 5>&-
  # All that was recorded has ended, so it may have ended by itself.
  kill -INT "$recorder" 2>/dev/null || :
  wait "$recorder" || { cat record.err; return 1; }
  [ "$failed" = 0 ] || { cat err; return 1; }
  cat record.err
  "$RUTILE" requests --skip-validation --request 'Cause#*' --slowest 1000 --explain --mi trace >out.json
}

# Slow ones are on the disk of the working directory: what is in memory has no disk.
on_a_disk() {
  disk=$(mktemp -d /var/tmp/rutile-causes.XXXXXX)
  trap 'rm -rf "$disk"' EXIT
  chmod 755 "$disk"
  cd "$disk" || return 1
  [ "$(stat -f -c %T .)" != tmpfs ] || t_skip "no directory on a disk"
}

# On a busy machine, or with a kernel that does not show every switch, chance can be the cause: what is not
# explained as it should be is recorded again, twice at most.
causes() {
  need_bpf
  for _ in 1 2 3; do
    rm -rf trace in work
    record "$@"
    if python3 "$SRC/tests/bpf/causes.py" truth out.json "$@"; then return 0; fi
    # shellcheck disable=SC2046 # words
    set -- $(cat again)
  done
  return 1
}
