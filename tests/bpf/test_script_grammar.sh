#!/bin/bash
# SPDX-License-Identifier: MIT
# Whole scripts made from a grammar: what compiles, the kernel's verifier accepts.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf

# Another seed is other programs: script/fuzz grammar runs them for as long as asked.
what_compiles_is_accepted() {
  python3 "$SRC/fuzz/script_grammar.py" 1 120 "$RUTILE" >out || { cat out; return 1; }
  compiled=$(sed -n 's/^\([0-9]*\) of 120 compiled, 0 failed$/\1/p' out)
  # Programs that are refused test nothing here.
  [ "$compiled" -ge 110 ]
}

t_case "what is made from the grammar and compiles is accepted by the verifier" what_compiles_is_accepted
t_done
