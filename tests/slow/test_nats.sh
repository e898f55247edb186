#!/bin/bash
# SPDX-License-Identifier: MIT
# A cluster of three NATS servers, a recorder behind a link, two collectors: each is killed at random moments.
. "$SRC/tests/tap.sh"
PATH=$PATH:/usr/sbin:/sbin

test_kills() {
  timeout 580 python3 "$SRC/tests/slow/nats_kills.py" "$RUTILE" "${KILLS:-120}" "${SEED:-1}"
}

t_case "kills of recorder, collectors, servers and link: the packets collected are those produced" test_kills
t_done
