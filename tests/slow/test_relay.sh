#!/bin/bash
# SPDX-License-Identifier: MIT
# A recorder that sends by the relay protocol, and the collector, are killed at random moments.
# KILLS=N: how many (100 take 5 minutes), SEED=N: which.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

test_kills() {
  need_bpf
  kills=${KILLS:-40}
  timeout $((kills * 10 + 120)) python3 "$SRC/tests/slow/relay_kills.py" "$RUTILE" "$kills" "${SEED:-1}"
}

t_case "kill -9 of the recorder or the collector: what is stored is readable each time, and nothing is missing" test_kills
t_done
