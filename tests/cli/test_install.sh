#!/bin/bash
# SPDX-License-Identifier: MIT
# `meson install` brings everything, and what it brought works from there.
. "$SRC/tests/tap.sh"

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

t_case "everything is installed" all_is_installed
t_done
