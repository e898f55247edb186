#!/bin/bash
# SPDX-License-Identifier: MIT
# The full number of what tests/bpf/test_tough.sh does in short.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

fast=/dev/shm/rutile-kill.$$
trap 'rm -rf "$t_root" "$fast"' EXIT

t_case "kill -9 at 100 random moments of heavy writing: every trace is whole" killed_at_random_moments 100 "$fast"
t_done
