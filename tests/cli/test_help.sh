#!/bin/bash
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
  for word in cputo hlep objets; do
    rc=0
    "$RUTILE" $word 2>err || rc=$?
    [ "$rc" = 2 ]
    "$RUTILE" help $word 2>>err && return 1
    cat err
  done >errs
  [ "$(sed -n "s/.*did you mean '\(.*\)'?.*/\1/p" errs | xargs)" = "cputop cputop help help objects objects" ]
}

# A command line that cannot be understood: exit 2, one line that names the verb and points at its help.
wrong_command_lines_look_alike() {
  for verb in $("$RUTILE" help --verbs); do
    for line in "$verb --frobnicate" "$verb -%"; do
      check 2 "$line"
    done
  done
  for line in stop status add remove attach snapshot rotate clear destroy save recover view stat report cputop \
    iolog schedstats periodlog wakeupchain 'wakeupchain trace' tracepoints trace calls 'ps x' 'doctor -- x' 'list x' \
    'service x' 'cputop --limit x trace' 'cputop --filter = trace' 'view --filter = trace' 'help frobnicate'; do
    check 2 "$line"
  done
  for line in 'view nothing' 'stat nothing' 'cputop nothing' 'report nothing' 'status nothing' 'stop nothing' \
    'recover nothing' 'trace 0999999999'; do
    check 1 "$line"
  done
}

check() { # STATUS LINE
  rc=0
  # shellcheck disable=SC2086 # words
  timeout 10 "$RUTILE" $2 >out 2>err || rc=$?
  echo "rutile $2: $rc, $(cat err)"
  [ "$rc" = "$1" ]
  [ ! -s out ]
  [ "$(wc -l <err)" = 1 ]
  grep -q "^rutile ${2%% *}: " err
  [ "$1" = 1 ] || grep -q "(see 'rutile ${2%% *} --help')$" err
}

every_option_is_in_the_manual_page() {
  for verb in $("$RUTILE" help --verbs); do
    for option in $("$RUTILE" help --options "$verb" | sed 's/[=\t].*//'); do
      [ "$option" = --help ] || grep -q -- "\*$option\*" "$SRC/man/rutile-$verb.1.scd" ||
        { echo "man/rutile-$verb.1.scd does not describe $option"; return 1; }
    done
  done
}

# On a terminal no line is longer than it, and no word is lost; elsewhere nothing is broken.
help_fits_the_terminal() {
  command -v script >/dev/null || t_skip "script is not installed"
  for words in help 'view --help' 'start --help'; do
    # shellcheck disable=SC2086 # words
    "$RUTILE" $words >plain
    [ "$(wc -L <plain)" -gt 80 ]
    script -qec "stty cols 80; '$RUTILE' $words" out </dev/null >/dev/null
    tr -d '\r' <out | grep -av '^Script ' >shown
    # The usage line is to be copied, so it is not broken.
    [ "$(grep -v '^usage: ' shown | wc -L)" -le 80 ]
    [ "$(xargs -d '\n' <plain | tr -s ' ')" = "$(xargs -d '\n' <shown | tr -s ' ' | sed 's/ *$//')" ]
  done
}

groups_are_not_torn() {
  "$RUTILE" help | grep ':$' | sort | uniq -d >twice
  [ ! -s twice ]
  "$RUTILE" help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | sort >shown
  "$RUTILE" help --verbs | sort | diff - shown
}

# The shell of a lane is killed: its case has no status, and must not take that of another.
a_lost_case_fails() {
  cat >lost.sh <<'END'
. "$SRC/tests/tap.sh"
passes() { :; }
is_lost() {
  me=$BASHPID
  kill -KILL "$(awk '{print $4}' "/proc/$me/stat")"
}
t_lanes 2
t_case first passes
t_case lost is_lost
t_case last passes
t_done
END
  bash lost.sh >got 2>err && return 1
  [ "$(grep -v '^#' got)" = $'ok 1 - first\nnot ok 2 - lost\nok 3 - last\n1..3' ]
}

t_case "each group of verbs is shown once" groups_are_not_torn
t_case "help fits the terminal" help_fits_the_terminal
t_case "every option is in the manual page" every_option_is_in_the_manual_page
t_case "every verb has help and a manual page" every_verb_has_help_and_a_manual_page
t_case "unknown verbs and options are refused with exit 2" unknown_words_are_refused
t_case "a test with a killed shell has failed" a_lost_case_fails
t_case "wrong command lines look alike" wrong_command_lines_look_alike
t_done
