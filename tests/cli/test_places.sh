#!/bin/bash
# SPDX-License-Identifier: MIT
# What is added often is added in two places: where it is listed, and where it is done. A third place that must agree
# is found here before it is forgotten (docs/adding.md).
. "$SRC/tests/tap.sh"

# code PATTERN: the files of code that have it.
code() {
  grep -rlE --include='*.c' --include='*.h' "$1" src | sort
}

# two PATTERN WHAT
two() {
  n=$(code "$1" | wc -l)
  [ "$n" -ge 1 ] && [ "$n" -le 2 ] || { echo "$2 is in $n files of code:"; code "$1"; return 1; }
}

verbs() {
  sed -n 's/^\t[VA](\([a-z_]*\)[,)].*/\1/p' src/cli/verbs.h
}

a_verb_is_a_line_and_a_file() {
  cd "$SRC"
  [ "$(verbs | wc -l)" -gt 40 ]
  # The list is what the program has: help, completion and man pages are tested with that.
  verbs | tr _ - | sort | diff - <("$RUTILE" help --verbs | sort)
  for verb in $(verbs); do
    two "rut_cmd cmd_${verb}\\b|^	[VA]\\(${verb}[,)]" "the verb $verb"
  done
}

an_analysis_is_a_line_and_a_file() {
  cd "$SRC"
  sed -n 's/^\tA(\([a-z]*\),.*/\1/p' src/cli/verbs.h >"$T/names"
  while read -r name; do
    "$RUTILE" help "$name" | grep -q "^usage: rutile $name"
    [ "$(code "^	A\\($name,")" = src/cli/verbs.h ]
    [ -f "man/rutile-$name.1.scd" ]
  done <"$T/names"
  sed -n 's/^\tA([a-z]*, \([a-z]*\),.*/\1/p' src/cli/verbs.h | sort -u >"$T/analyses"
  while read -r analysis; do
    [ "$(code "^const struct rut_analysis rut_analysis_$analysis = " | wc -l)" = 1 ]
  done <"$T/analyses"
}

# Those of one analysis alone: help, completion, manual page and the link of lttng-analyses have them from its own file.
an_option_of_one_analysis_is_in_its_file() {
  cd "$SRC"
  n=0
  files=$(grep -lE '^	\.options = options,$' src/analysis/an_*.c)
  sed -n '/^#define RUT_LTTNG_ANALYSES/,/^$/s/^\tA(\([a-z]*\),.*/\1/p' src/cli/verbs.h >"$T/lttng"
  while read -r verb; do ln -s "$RUTILE" "$T/lttng-$verb"; done <"$T/lttng"
  for file in $files; do
    analysis=$(sed -n 's/^const struct rut_analysis rut_analysis_\([a-z]*\) = {$/\1/p' "$file")
    options=$(sed -n '/^static const struct rut_opt options\[\] = {$/,/^};$/s/^\t{"\([a-z-]*\)", .*/\1/p' "$file")
    [ -n "$analysis" ] && [ -n "$options" ] || { echo "$file: no options found"; return 1; }
    verbs=$(sed -n "s/^\tA(\([a-z]*\), $analysis,.*/\1/p" src/cli/verbs.h)
    for verb in $verbs; do
      "$RUTILE" help "$verb" >"$T/help"
      "$RUTILE" help --options "$verb" >"$T/completion"
      [ ! -e "$T/lttng-$verb" ] || "$T/lttng-$verb" --help | diff "$T/help" -
      for option in $options; do
        [ "$(code "^	+\\{\"$option\", .*OPT_" | grep '^src/\(analysis\|cli/analysis\)')" = "$file" ]
        grep -q -- "^ *--$option " "$T/help"
        grep -q -- "^--${option}[=	]" "$T/completion"
        grep -q -- "\*--$option\*" "man/rutile-$verb.1.scd"
        n=$((n + 1))
      done
    done
  done
  [ "$n" -ge 50 ]
  [ "$(find "$T" -name 'lttng-*' | wc -l)" -ge 19 ]
}

# What `report` shows, `top` names, in the manual page as well.
reports_follow_from_the_analyses() {
  cd "$SRC"
  not "$RUTILE" top x no-such 2>"$T/err"
  sed -n "s/.*no analysis 'no-such': \(.*\) (see.*/\1/p" "$T/err" | tr ' ' '\n' >"$T/got"
  while read -r analysis; do
    grep -lE "^const struct rut_analysis rut_analysis_$analysis = " src/analysis/*.c | xargs awk -v name="$analysis" '
      $0 == "const struct rut_analysis rut_analysis_" name " = {" { on = 1 } /^};/ { on = 0 } on && /report_needs/ { print name }'
  done < <(sed -n 's/^\tA([a-z]*, \([a-z]*\),.*KERNEL,.*/\1/p' src/cli/verbs.h | uniq) >"$T/want"
  cat "$T/err"
  diff "$T/want" "$T/got"
  grep -q "_$(tr '\n' ' ' <"$T/got" | sed 's/ $//')_" man/rutile-top.1.scd
}

# A name means one thing: modules prefix what they export, and no two types share a name.
names_have_one_meaning() {
  cd "$SRC"
  grep -rhoE --include='*.[ch]' '^(struct|enum|union) rut_[a-z0-9_]+ [{]' src | sort | uniq -d >"$T/twice"
  [ ! -s "$T/twice" ] || { echo "types that are defined twice:"; cat "$T/twice"; return 1; }
  for pair in "agent agent" "analysis an|analysis" "cli cli" "expr expr|period" "fleet fleet" "trigger trigger"; do
    # shellcheck disable=SC2086 # a module and its prefixes
    set -- $pair
    # What another module lends is named after that one.
    find "$(dirname "$RUTILE")/src/$1" -name '*.c.o' ! -name '.._*' -exec nm -g --defined-only -P {} + |
      awk '$2 ~ /^[TDBR]$/ { print $1 }' | grep -vE "^(rut_($2)_|cmd_|rb$|Init_|_)" >"$T/other" || :
    [ ! -s "$T/other" ] || { echo "src/$1 exports names without its prefix:"; cat "$T/other"; return 1; }
  done
}

contexts() { # PLAIN|TYPED
  sed -n "/define RUT_CONTEXTS_$1(C)/,/[^\\\\]\$/p" src/bpf/events.h | sed -n 's/^\tC(\([A-Z0-9_]*\), \([a-z0-9_]*\),.*/\1 \2/p'
}

a_context_is_a_line_and_how_it_is_read() {
  cd "$SRC"
  [ "$(contexts TYPED | wc -l)" -gt 20 ]
  # The counters have names of their own (perf:cpu:NAME).
  contexts PLAIN | grep -v ' perf[0-9]$' >"$T/all"
  contexts TYPED >>"$T/all"
  not "$RUTILE" record --context no-such -- true 2>"$T/err"
  sed -n "s/.*unknown context 'no-such': \(.*\), or perf:cpu.*/\1/p" "$T/err" | sed 's/, /\n/g' >"$T/got"
  sed 's/.* //' "$T/all" | diff - "$T/got"
  while read -r symbol name; do
    grep -q "\*$name\*" man/rutile-record.1.scd || { echo "man/rutile-record.1.scd does not name the context $name"; return 1; }
    # These need a kernel's symbol, or code of their own, as well.
    case $symbol in PREEMPTIBLE | INTERRUPTIBLE | USTACK | KSTACK | RSTACK) continue ;; esac
    two "\\brut_context_$symbol\\b|RUT_CONTEXT\\($symbol\\)|C\\($symbol, " "the context $symbol"
  done <"$T/all"
}

# From its line: the enumerator, the metadata, how filters read it; from the line below it, the record's member.
a_field_kind_is_in_its_table() {
  cd "$SRC"
  sed -n '/define RUT_FIELD_KINDS(K)/,/^$/s/^\tK(\([A-Z0-9_]*\),.*/\1/p' src/bpf/field_kinds.h >"$T/kinds"
  [ "$(wc -l <"$T/kinds")" -gt 40 ]
  while read -r kind; do
    [ "$(code "\\bRUT_C_$kind\\b|\\bK\\($kind, ")" = src/bpf/field_kinds.h ]
  done <"$T/kinds"
}

# They are generated: what is edited by hand would be lost.
pages_of_analyses_are_generated() {
  cd "$SRC"
  mkdir "$T/man"
  man/gen-analyses "$T/man"
  [ "$(find "$T/man" -name '*.scd' | wc -l)" -ge 35 ]
  for page in "$T"/man/*.scd; do diff "$page" "man/${page##*/}"; done
}

t_case "a verb is a line of the list and a file" a_verb_is_a_line_and_a_file
t_case "an analysis is a line of the list and a file" an_analysis_is_a_line_and_a_file
t_case "an option of one analysis is in its file" an_option_of_one_analysis_is_in_its_file
t_case "report and top follow from the analyses" reports_follow_from_the_analyses
t_case "the pages of the analyses are generated" pages_of_analyses_are_generated
t_case "a kind of field is a line of its table" a_field_kind_is_in_its_table
t_case "names have one meaning" names_have_one_meaning
t_case "a context is a line of the list and how it is read" a_context_is_a_line_and_how_it_is_read
t_done
