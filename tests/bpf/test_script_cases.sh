#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs of bpftrace's language beside what bpftrace prints: tests/script/cases.py.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf
cd "$t_root" || exit 1
python3 "$SRC/tests/script/run_cases.py" "$RUTILE" "$SRC"/tests/script/cases/*.cases
