# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What tests of traces made by hand share; source it after tap.sh.

# mk [DIR]: the trace that standard input describes (tests/mktrace)
mk() {
  python3 "$SRC/tests/mktrace" "${1:-trace}"
}

run() {
  verb=$1
  shift
  "$RUTILE" "$verb" --skip-validation --no-intersection --gmt "$@" trace
}

# json CODE [ARGUMENT...]: runs Python code on the JSON on standard input; rows(NAME) are those of a table
json() {
  local code=$1
  shift
  python3 -c '
import json, sys
results = json.load(sys.stdin)["results"]
def rows(name):
    out = []
    for t in results:
        c = t["class"]
        if name == c or isinstance(c, dict) and (c.get("inherit") == name or c.get("title", "").startswith(name)):
            out += t["data"]
    return out
'"$code" "$@"
}

# shellcheck disable=SC2034 # for those that source this
SWITCH='1_000 0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm=app next_tid=10 next_prio=20'

SW() { # TIME CPU PREV STATE NEXT: a switch; tid 0 is the idle thread
  echo "$1 $2 sched_switch prev_comm=t$3 prev_tid=$3 prev_prio=20 prev_state=$4 next_comm=t$5 next_tid=$5 next_prio=20"
}
