#!/bin/bash
# SPDX-License-Identifier: MIT
# `meson install` brings everything, and what it brought works from there.
. "$SRC/tests/tap.sh"
. "$SRC/tests/cases.sh"

all_is_installed() {
  DESTDIR=$T/root meson install -C "$(dirname "$RUTILE")" --no-rebuild --quiet
  prefix=$T/root/usr/local
  for verb in $("$RUTILE" help --verbs); do
    [ -s "$prefix/share/man/man1/rutile-$verb.1" ] || { echo "no rutile-$verb.1"; return 1; }
  done
  [ -s "$prefix/share/man/man1/rutile.1" ]
  [ -s "$prefix/share/man/man1/foreman-tracer.1" ]
  [ -s "$prefix/share/bash-completion/completions/rutile" ]
  [ -e "$prefix/share/bash-completion/completions/foreman-tracer" ]
  [ -s "$prefix/share/zsh/site-functions/_rutile" ]
  [ -s "$prefix/share/doc/rutile/README.md" ]
  "$prefix/bin/rutile" --version | grep -q '^rutile [0-9]'
  "$prefix/bin/foreman-tracer" --help | grep -q '^usage: foreman-tracer'
}

# Another program, by pkg-config alone, counts what babeltrace counts.
a_program_reads_traces() {
  DESTDIR=$T/root meson install -C "$(dirname "$RUTILE")" --no-rebuild --quiet
  pc=$(find "$T/root" -name rutile-ctf.pc)
  export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$T/root
  # shellcheck disable=SC2046 # lists of words
  cc -Wall -Wextra -Werror -o count "$SRC/examples/ctf/count.c" $(pkg-config --cflags --libs rutile-ctf)
  export LD_LIBRARY_PATH
  LD_LIBRARY_PATH=$(dirname "${pc%/*}")
  for trace in ref/basic-kernel-analysis ref/picotrace; do
    trace=$(cases)/$trace
    ./count "$trace" | grep -v ' discarded$' | awk '{ print $1, $2 }' | sort -k2 >got
    babeltrace2 "$trace" 2>/dev/null | sed -E 's/: \{.*//; s/.* //' | sort | uniq -c | awk '{ print $1, $2 }' | sort -k2 >want
    diff want got
    [ -s got ]
  done
  rc=0
  ./count nothing 2>err || rc=$?
  [ "$rc" = 1 ]
  grep -q "nothing" err
}

# What programs were compiled against stays: symbols may be added to the list, never removed, and structs may grow.
the_interface_of_the_library_is_the_one_listed() {
  nm -D --defined-only "$(dirname "$RUTILE")/src/ctf/librutile-ctf.so" | awk '{ print $3 }' | sort >got
  cat >sizes.c <<'C'
#include <stdio.h>
#include <rutile/ctf.h>
#define S(s) printf("sizeof %s %zu\n", #s, sizeof(s))
int main(void) { S(struct rutile_ctf_counts); S(struct rutile_ctf_value); return 0; }
C
  cc -I"$SRC/include" -o sizes sizes.c
  ./sizes >>got
  diff "$SRC/tests/data/rutile-ctf.symbols" got
}

t_case "everything is installed" all_is_installed
t_case "librutile-ctf: another program counts what babeltrace counts" a_program_reads_traces
t_case "librutile-ctf: its interface is the one listed" the_interface_of_the_library_is_the_one_listed
t_done
