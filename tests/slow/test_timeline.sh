#!/bin/bash
# SPDX-License-Identifier: MIT
# The proof of the one timeline at its full size.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
: "${RUBY:=ruby}"

test_million() {
  need_bpf
  marker 1000000
}

t_case "a million system calls lie between the call and the return of their method" test_million
t_done
