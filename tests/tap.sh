# SPDX-License-Identifier: MIT
# TAP for shell tests, which bash runs. Source it, call t_case for each test, end with t_done.
#
#	test_help() { "$RUTILE" help | grep -q Usage; }
#	t_case "help prints the usage" test_help
#	t_done
#
# A test is a function: it passes when it returns 0, and skips with `t_skip REASON`. It runs in a
# subshell under `set -eu`, in an empty directory $T that is removed afterwards. When it fails, the
# command that ended it is shown, and what it printed; t_clean, if there is such a function, ends what it left. $RUTILE is the program under test; $SRC the
# source tree. T_TIMES=1 prints how long each took.

: "${RUTILE:?the program under test}" "${SRC:?the source tree}"
t_count=0
t_reported=0
t_failed=0
t_lanes=1
t_names=()
t_pids=() # of cases that run side by side
t_root=$(mktemp -d "${TMPDIR:-/tmp}/rutile-test.XXXXXX")
trap 'rm -rf "$t_root"' EXIT

t_skip() {
  echo "$*" >"$t_out.skip"
  exit 77
}

# t_lanes N: from here on N cases run side by side. For cases that wait more than they compute, and that look
# at nothing but processes and files of their own. Their results keep the order of the file.
t_lanes() {
  t_join
  t_lanes=$1
}

# t_run FUNCTION...: one case, in a subshell of its own: its status, output and time in $t_out.*
t_run() {
  mkdir "$T"
  : >"$t_out.where"
  t_began=${EPOCHREALTIME/./}
  # Not in an `if`: that would switch `set -e` off inside the function.
  set +e
  (
    set -euE
    trap 'echo "${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND" >>"$t_out.where"' ERR
    cd "$T"
    "$@"
  ) >"$t_out" 2>&1 </dev/null
  t_status=$?
  [ $t_status = 0 ] || [ $t_status = 77 ] || ! declare -F t_clean >/dev/null || t_clean >>"$t_out" 2>&1
  echo $t_status $((${EPOCHREALTIME/./} - t_began)) >"$t_out.rc"
  rm -rf "$T"
}

# t_report: prints the result of case $t_reported + 1, which has ended.
t_report() {
  t_reported=$((t_reported + 1))
  t_out=$t_root/out.$t_reported
  # A lane with a killed shell leaves no status.
  t_rc=lost t_us=0
  [ ! -s "$t_out.rc" ] || read -r t_rc t_us <"$t_out.rc"
  t_name=${t_names[t_reported]}
  case $t_rc in
    0) echo "ok $t_reported - $t_name" ;;
    77) echo "ok $t_reported - $t_name # SKIP $(cat "$t_out.skip" 2>/dev/null)" ;;
    *)
      t_failed=$((t_failed + 1))
      echo "not ok $t_reported - $t_name"
      { tail -n 60 "$t_out"; echo "exit status $t_rc at:"; tail -n 5 "$t_out.where"; } >"$t_out.why"
      sed 's/^/# /' "$t_out.why"
      # The TAP's reader may not show comments.
      { echo "$t_name:"; cat "$t_out.why"; } >&2
      ;;
  esac
  [ -z "${T_TIMES:-}" ] || echo "# $((t_us / 1000)) ms: $t_name"
  rm -f "$t_out" "$t_out".*
}

# Waits until the cases under way have ended. Not for whatever else runs, as a server that a test has started.
t_join() {
  [ ${#t_pids[@]} = 0 ] || wait "${t_pids[@]}" || :
  t_pids=()
  while [ "$t_reported" -lt "$t_count" ]; do t_report; done
}

t_case() {
  t_count=$((t_count + 1))
  t_names[t_count]=$1
  shift
  T=$t_root/$t_count
  t_out=$t_root/out.$t_count
  if [ "$t_lanes" = 1 ]; then
    t_run "$@"
  else
    while [ "$(jobs -rp | grep -cxF -f <(printf '%s\n' "${t_pids[@]}"))" -ge "$t_lanes" ]; do wait -n "${t_pids[@]}" 2>/dev/null || :; done
    t_run "$@" &
    t_pids+=($!)
  fi
  while [ "$t_reported" -lt "$t_count" ] && [ -s "$t_root/out.$((t_reported + 1)).rc" ]; do t_report; done
}

# A port that is free at this moment, for servers that cannot choose one themselves.
free_port() {
  ruby -rsocket -e 's = TCPServer.new("127.0.0.1", 0); puts s.addr[1]'
}

# t_wait COMMAND...: until it succeeds. A test waits for what it needs, never for a time; the limit, a
# minute or two, is for what never comes.
t_wait() {
  for _ in $(seq 1000); do
    if "$@"; then return 0; fi
    sleep 0.05
  done
  echo "waited in vain for: $*" >&2
  return 1
}

# In a test of its own a plain `! command` fails nothing.
not() {
  if "$@"; then return 1; fi
}

# t_is PID LETTERS: its state is one of these. A process that has ended may be a zombie for a while.
t_is() {
  grep -qs "^State:.[$2]" "/proc/$1/status"
}
t_gone() {
  [ ! -e "/proc/$1" ] || t_is "$1" ZX
}

# t_runs PID NAME: it is that program; before, it may still be the shell that starts it.
t_runs() {
  [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ]
}

# A CPU that we may use.
t_cpu() {
  taskset -cp $$ | sed 's/.*: //; s/[-,].*//'
}

t_done() {
  t_join
  echo "1..$t_count"
  [ "$t_failed" = 0 ]
}
