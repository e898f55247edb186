#!/bin/bash
# SPDX-License-Identifier: MIT
# A few slow requests of known causes; tests/slow/test_causes.sh has all of them.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
. "$SRC/tests/bpf/causes.lib.sh"

some() {
  causes sleeping mutex pipe_writer wait_child flock slow_peer sqlite_lock retransmission connect_timeout
}

test_slow_disk() {
  need_slow_disk
  causes slow_disk
}

t_case 'slow requests are explained by the right causes' some
t_case 'a request that waits for a slow disk has the time that its reads took' test_slow_disk
t_done
