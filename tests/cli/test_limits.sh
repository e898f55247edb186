#!/bin/bash
# SPDX-License-Identifier: MIT
# Commands with limits that leave no room for the agent: they run, it is said why they are not traced, and
# nothing is left behind.
. "$SRC/tests/tap.sh"
R=$RUTILE
program='def a; end; 5.times { a }; puts "ran"; exit 3'

# expect CODE COMMAND...: its output is in out, its messages are in err.
expect() {
  want=$1
  shift
  rc=0
  timeout -s KILL 60 "$@" >out 2>err || rc=$?
  [ $rc = "$want" ] || { echo "$*: exit status $rc"; cat out err; return 1; }
}

directories() {
  find "$TMPDIR" -maxdepth 1 -name 'rutile.*' | wc -l
}

limits_of_the_command() {
  mkdir tmp
  export TMPDIR=$PWD/tmp
  for verb in calls time objects trace; do
    expect 3 "$R" $verb -- sh -c "ulimit -f 100; exec ruby -e '$program'"
    grep -q ran out
    grep -q "rutile $verb: the command was not traced: .*ulimit -f allows 50 KiB" err || { cat err; return 1; }
    not grep -q 'in the application' out err
  done
  expect 3 "$R" calls -- sh -c "ulimit -f 40000; exec ruby -e '$program'"
  grep -q "the command was not traced: cannot trace process .* it may not have files of 26 MB" err || { cat err; return 1; }
  # Too little for the agent, enough for Ruby.
  expect 3 "$R" calls -- sh -c "ulimit -n 6; exec ruby --disable-gems -e '$program'"
  grep -q ran out
  grep -q 'rutile calls: the command was not traced: .*ulimit -n' err || { cat err; return 1; }
  size=$(ruby --disable-gems -e 'print File.read("/proc/self/status")[/VmPeak:\s*(\d+)/, 1].to_i + 9000')
  expect 3 "$R" calls -- sh -c "ulimit -v $size; exec ruby --disable-gems -e '$program'"
  grep -q ran out
  grep -q "rutile calls: the command was not traced: .*ulimit -v" err || { cat out err; return 1; }
  expect 0 "$R" calls -- true
  grep -q 'not traced: it runs no Ruby' err
  [ "$(directories)" = 0 ]
}

# root's processes have no limit of this kind.
limit_of_threads() {
  cp /dev/null out
  chmod 755 .
  setpriv --reuid=65534 --regid=65534 --clear-groups bash -c \
    'ulimit -u 1; exec ruby --disable-gems -e "def a; end; \$stdout.sync = true; puts :ready; loop { a; sleep 0.01 }"' >out &
  pid=$!
  t_wait grep -q ready out
  expect 1 "$R" calls --duration 1s "$pid"
  kill "$pid"
  cat err
  grep -q "process $pid may not start another thread: raise its limit (prlimit --nproc" err
}

ps_lists() { "$R" ps | grep -q "\b$1\b"; }
limits_of_rutile_itself() {
  mkdir tmp
  export TMPDIR=$PWD/tmp
  (
    ulimit -f 10
    expect 1 "$R" calls -- ruby -e "$program"
    [ ! -s out ]
    grep -q '^rutile calls: cannot write .*(ulimit -f)$' err || { cat err; return 1; }
    # A process that runs: an error like a full disk, not the end of rutile by a signal.
    ruby --disable-gems -e 'def a; end; loop { a; sleep 0.01 }' 2>/dev/null & pid=$!
    trap 'kill "$pid" 2>/dev/null || :' EXIT
    t_wait ps_lists "$pid"
    expect 1 "$R" record --ruby "$pid:call" -o t --duration 200ms
    kill "$pid"
    grep -q '^rutile record: .*File too large' err || { cat err; return 1; }
  )
  [ "$(directories)" = 0 ]
  (
    ulimit -n 5
    expect 1 "$R" calls -- ruby -e "$program"
    grep -q '^rutile calls: .*Too many open files (ulimit -n allows 5)$' err || { cat err; return 1; }
  )
  [ "$(directories)" = 0 ]
}

t_case "the limit of threads of a process" limit_of_threads
t_case "limits of the command" limits_of_the_command
t_case "limits of rutile itself" limits_of_rutile_itself
t_done
