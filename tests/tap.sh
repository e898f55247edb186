# SPDX-License-Identifier: MIT
# TAP for shell tests, which bash runs. Source it, call t_case for each test, end with t_done.
#
#	test_help() { "$RUTILE" help | grep -q Usage; }
#	t_case "help prints the usage" test_help
#	t_done
#
# A test is a function: it passes when it returns 0, and skips with `t_skip REASON`. It runs in a
# subshell under `set -eu`, in an empty folder $T that is removed afterwards. When it fails, the
# command that ended it is shown, and what it printed. $RUTILE is the program under test; $SRC the
# source tree.

: "${RUTILE:?the program under test}" "${SRC:?the source tree}"
t_count=0
t_failed=0
t_root=$(mktemp -d "${TMPDIR:-/tmp}/rutile-test.XXXXXX")
trap 'rm -rf "$t_root"' EXIT

t_skip() {
  echo "$*" >"$t_root/skip"
  exit 77
}

t_case() {
  t_name=$1
  shift
  t_count=$((t_count + 1))
  T=$t_root/$t_count
  mkdir "$T"
  : >"$t_root/where"
  # Not in an `if`: that would switch `set -e` off inside the function.
  set +e
  (
    set -euE
    trap 'echo "${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND" >>"$t_root/where"' ERR
    cd "$T"
    "$@"
  ) >"$t_root/out" 2>&1 </dev/null
  t_rc=$?
  case $t_rc in
    0) echo "ok $t_count - $t_name" ;;
    77) echo "ok $t_count - $t_name # SKIP $(cat "$t_root/skip" 2>/dev/null)" ;;
    *)
      t_failed=$((t_failed + 1))
      echo "not ok $t_count - $t_name"
      { tail -n 60 "$t_root/out"; echo "exit status $t_rc at:"; tail -n 5 "$t_root/where"; } >"$t_root/why"
      sed 's/^/# /' "$t_root/why"
      # Who reads the TAP may keep the comments to himself.
      { echo "$t_name:"; cat "$t_root/why"; } >&2
      ;;
  esac
  rm -rf "$T"
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
  echo "1..$t_count"
  [ "$t_failed" = 0 ]
}
