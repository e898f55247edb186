#!/bin/bash
# SPDX-License-Identifier: MIT
# A cluster of three NATS servers, a recorder behind a link, two collectors: each is killed at random moments.
# KILLS=N: how many (1000 take 20 minutes), SEED=N: which.
. "$SRC/tests/tap.sh"
PATH=$PATH:/usr/sbin:/sbin

kills() {
  command -v nats-server >/dev/null || t_skip "no nats-server"
  timeout $(($1 * 5 + 300)) python3 "$SRC/tests/slow/nats_kills.py" "$RUTILE" "$1" "${SEED:-1}" "${@:2}"
}
test_senders() { KINDS=recorder,collector,link kills "${KILLS:-200}" "$FEED"; }
test_servers() { kills "${KILLS:-60}" "$FEED"; }
test_recorders() { kills "${KILLS:-40}"; }

t_case "kills of senders, collectors and link: the packets collected are those produced" test_senders
t_case "the same, and the servers of the cluster are killed" test_servers
t_case "the same with recorders of the kernel's events" test_recorders
t_done
