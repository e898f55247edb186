#!/bin/sh
# SPDX-License-Identifier: MIT
. "$SRC/tests/tap.sh"

every_verb_has_help_and_a_manual_page() {
  for verb in $("$RUTILE" help --verbs); do
    "$RUTILE" help "$verb" | grep -q "^usage: rutile $verb"
    "$RUTILE" "$verb" --help | grep -q "^usage: rutile $verb"
    [ -f "$SRC/man/rutile-$verb.1.scd" ] || { echo "man/rutile-$verb.1.scd is missing"; return 1; }
  done
}

unknown_words_are_refused() {
  rc=0
  "$RUTILE" frobnicate 2>err || rc=$?
  [ "$rc" = 2 ]
  grep -q "unknown verb 'frobnicate'" err
  rc=0
  "$RUTILE" help --frobnicate 2>err || rc=$?
  [ "$rc" = 2 ]
  grep -q "unknown option '--frobnicate'" err
}

every_option_is_in_the_manual_page() {
  for verb in $("$RUTILE" help --verbs); do
    for option in $("$RUTILE" help --options "$verb" | sed 's/[=\t].*//'); do
      [ "$option" = --help ] || grep -q -- "\*$option\*" "$SRC/man/rutile-$verb.1.scd" ||
        { echo "man/rutile-$verb.1.scd does not tell of $option"; return 1; }
    done
  done
}

groups_are_not_torn() {
  "$RUTILE" help | grep ':$' | sort | uniq -d >twice
  [ ! -s twice ]
  "$RUTILE" help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | sort >shown
  "$RUTILE" help --verbs | sort | diff - shown
}

t_case "each group of verbs is shown once" groups_are_not_torn
t_case "every option is in the manual page" every_option_is_in_the_manual_page
t_case "every verb has help and a manual page" every_verb_has_help_and_a_manual_page
t_case "unknown verbs and options are refused with exit 2" unknown_words_are_refused
t_done
