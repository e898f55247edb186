#!/bin/bash
# SPDX-License-Identifier: MIT
# The completion scripts offer what the program says.
. "$SRC/tests/tap.sh"
R=$RUTILE_FAKE_PROGRAM

in_bash() {
  # shellcheck disable=SC2016 # for the inner shell
  bash -c '. "$SRC/completion/rutile.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rutile
    printf "%s\n" "${COMPREPLY[@]}"' bash "$R" "$@" | sort
}

bash_offers_verbs_options_files_and_targets() {
  in_bash "" | grep -v '^--' >got
  "$R" help --verbs | sort | diff - got
  [ "$(in_bash obj | tr '\n' ' ')" = "objects objects-total " ]
  "$R" help --options trace | sed 's/[=\t].*//' | sort >want
  in_bash trace --t >got
  grep -qx -- --tree got
  grep '^--t' want | diff - got
  touch out1 out2
  [ "$(in_bash calls -o out | tr '\n' ' ')" = "out1 out2 " ]
  [ "$(in_bash calls --output out | tr '\n' ' ')" = "out1 out2 " ]
  [ -z "$(in_bash calls --interval "")" ]
  in_bash calls ra | grep -qx rails
  in_bash help tra | grep -qx trace
  in_bash calls -- tru | grep -qx true
}

in_zsh() {
  # shellcheck disable=SC2016 # for the inner shell
  RUTILE_COMPLETION_TEST=1 zsh -f -c '
    compadd() { [[ $1 == -- ]] && shift; print -rl -- "$@" }
    _describe() { print -rl -- ${(P)${@[-1]}} }
    _files() { print FILES }
    _normal() { print "NORMAL $CURRENT $words" }
    source $SRC/completion/_rutile
    words=("$@"); CURRENT=$#
    _rutile' zsh "$R" "$@"
}

zsh_offers_verbs_options_files_and_targets() {
  command -v zsh >/dev/null || t_skip "zsh is not installed"
  in_zsh "" | grep -v '^--' >got
  "$R" help --verbs | diff - got
  in_zsh trace --t >got
  "$R" help --options trace | sed 's/=[^\t]*//; s/\t/:/' | diff - got
  in_zsh calls -o "" | grep -qx FILES
  [ -z "$(in_zsh calls --interval "")" ]
  in_zsh calls "" | grep -qx rails
  in_zsh help "" | grep -qx trace
  in_zsh calls -- ruby x | grep -qx 'NORMAL 2 ruby x'
}

t_case "bash: verbs, options, files, targets" bash_offers_verbs_options_files_and_targets
t_case "zsh: verbs, options, files, targets" zsh_offers_verbs_options_files_and_targets
t_done
