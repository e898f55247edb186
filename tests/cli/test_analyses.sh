#!/bin/bash
# SPDX-License-Identifier: MIT
. "$SRC/tests/tap.sh"
. "$SRC/tests/cases.sh"

need_cases() {
  c=$(cases)
}

golden() {
  need_cases
  python3 "$SRC/tests/golden" "$RUTILE" "$c" "^$1"
}

# The texts that lttng-analyses' own tests expect, without the newline at their end.
upstream() {
  need_cases
  directory=$1 verb=$2 name=$3
  shift 3
  "$RUTILE" "$verb" --skip-validation --gmt --no-progress "$@" "$c/$directory/trace" >out 2>&1 || true
  printf '%s' "$(cat out)" >ours
  printf '%s' "$(cat "$c/$directory/$name.upstream.txt")" >theirs
  cmp ours theirs
}

for family in cputop memtop syscallstats iolatencystats iolatencyfreq iolatencytop iolog iousagetop \
  irqstats irqlog irqfreq schedstats schedtop schedlog schedfreq periodstats periodlog periodtop periodfreq; do
  t_case "$family prints what lttng-$family printed" golden "$family"
done
t_case "the reference's own test of cputop" upstream cputop cputop cputop --no-intersection
t_case "the reference's own test of irqstats" upstream irq irqstats irqstats --no-intersection
t_case "the reference's own test of irqlog" upstream irq irqlog irqlog --no-intersection
t_case "the reference's own test of iousagetop" upstream io iousagetop iousagetop --no-intersection
t_case "the reference's own test of iolatencytop" upstream io iolatencytop iolatencytop --no-intersection
t_case "the reference's own test of streams that do not overlap" upstream intersect irqstats no_intersection
t_case "the reference's own test of --no-intersection" upstream intersect irqstats disable_intersect --no-intersection

links_choose_the_verb_and_the_output() {
  need_cases
  ln -s "$RUTILE" lttng-cputop-mi
  ln -s "$RUTILE" lttng-cputop
  [ "$(./lttng-cputop-mi --mi-version)" = 1.0 ]
  ./lttng-cputop-mi --metadata | python3 -c 'import json, sys; d = json.load(sys.stdin); assert d["table-classes"]["total"]'
  ./lttng-cputop-mi --skip-validation "$c/ref/picotrace" >mi
  "$RUTILE" cputop --mi "$c/ref/picotrace" >opt
  cmp mi opt
  ./lttng-cputop --skip-validation "$c/ref/picotrace" | head -n 1 | grep -q '^Timerange'
  ./lttng-cputop-mi --test-compatibility "$c/ref/picotrace"
  rc=0
  ./lttng-cputop-mi --test-compatibility . >out || rc=$?
  [ "$rc" = 1 ]
  grep -q '^{"error-message": ".*"}$' out
}

# LTTng 2.12 dumps descriptors by table of files, without the pid that the reference looks for.
a_statedump_of_lttng_2_12_names_files() {
  need_cases
  "$RUTILE" iolog --skip-validation --no-intersection "$c/statedump-2.12/trace" >out
  "$RUTILE" iousagetop --skip-validation --no-intersection "$c/statedump-2.12/trace" >out
  grep -q Timerange out
}

a_slash_in_a_period_is_a_slash() {
  need_cases
  "$RUTILE" periodlog --skip-validation --no-intersection --gmt \
    --period 'o : $evt.$name == "syscall_entry_open" && $evt.filename =* "test/open/*" : $evt.$name == "syscall_exit_open"' \
    --period-captures 'o : $evt.filename' "$c/ref/picotrace" >out
  grep -q '00:00:01.023000000, 00:00:01.024000000\].* o  *\$evt.filename = test/open/file' out
}

errors_point_at_the_column() {
  rc=0
  "$RUTILE" cputop --period 'x : $evt.fd ==' nothing 2>err || rc=$?
  [ "$rc" = 1 ]
  grep -q 'column 15: ' err
  grep -q '^  x : \$evt.fd ==$' err
  "$RUTILE" cputop --filter '$evt.fd = 3' nothing 2>err && return 1
  grep -q "column 9: '=' alone" err
  "$RUTILE" cputop --period 'b(a) : 1' nothing 2>err && return 1
  grep -q "'a', which is not defined" err
}

a_closed_pipe_ends_quietly() {
  need_cases
  (
    "$RUTILE" iolog --skip-validation "$c/ref/basic-kernel-analysis" 2>err
    echo $? >rc
  ) | head -n 1 >/dev/null
  [ "$(cat rc)" = 0 ]
  [ ! -s err ]
}

times_are_understood() {
  need_cases
  t=$c/ref/picotrace
  "$RUTILE" iolog --skip-validation --gmt --timerange '[00:00:01.008,00:00:01.010]' "$t" >a
  "$RUTILE" iolog --skip-validation --gmt --begin 1008000000 --end '1970-01-01 00:00:01.010' "$t" >b
  cmp a b
  [ "$(grep -c '^\[' a)" = 1 ]
  "$RUTILE" iolog --begin nonsense "$t" 2>err && return 1
  grep -q nonsense err
}

a_filter_counts_less() {
  need_cases
  "$RUTILE" iolatencystats --skip-validation --filter '$evt.$name == "syscall_exit_read" && $evt.ret == 42' \
    "$c/ref/picotrace" >out
  grep -q '^Read  *1 ' out
  grep -q '^Write  *0 ' out
}

percentiles_are_extra() {
  need_cases
  t=$c/ref/basic-kernel-analysis
  "$RUTILE" schedstats --total --skip-validation "$t" >plain
  "$RUTILE" schedstats --total --skip-validation --percentiles "$t" >"more"
  head -n "$(wc -l <plain)" more | cmp - plain
  grep -q '^all  *[0-9]' more
}

# The commands between ``` in the pages of the verbs that read traces.
examples_of_the_manual_run() {
  need_cases
  cp -r "$c/ref/basic-kernel-analysis" trace
  mkdir bin
  ln -s "$RUTILE" bin/rutile
  n=0
  grep -l '^rutile .*\btrace\b' "$SRC"/man/*.scd >pages
  while read -r page; do
    sed -n '/^# EXAMPLES/,/^# [^E]/s/^rutile .*\btrace\b/&/p' "$page" >commands
    while read -r command; do
      n=$((n + 1))
      echo "$command"
      PATH=$PWD/bin:$PATH TZ=UTC sh -euc "$command" >out
    done <commands
  done <pages
  [ "$n" -gt 25 ]
}

several_reports_come_from_one_pass() {
  need_cases
  "$RUTILE" report --no-intersection "$c/ref/basic-kernel-analysis" >out
  [ "$(grep -c '^== ' out)" -ge 6 ]
  "$RUTILE" report --mi --no-intersection "$c/ref/basic-kernel-analysis" | python3 -c '
import json, sys
d = json.load(sys.stdin)["reports"]
assert d["Top CPU usage"]["results"]'
}

t_case "lttng-NAME and lttng-NAME-mi are links" links_choose_the_verb_and_the_output
t_case "a statedump of LTTng 2.12 does not hurt" a_statedump_of_lttng_2_12_names_files
t_case "a slash in a string of a period" a_slash_in_a_period_is_a_slash
t_case "errors point at the column" errors_point_at_the_column
t_case "a closed pipe ends quietly" a_closed_pipe_ends_quietly
t_case "begin, end and time range" times_are_understood
t_case "--filter leaves events out" a_filter_counts_less
t_case "--percentiles adds and changes nothing" percentiles_are_extra
t_case "the examples of the manual pages run" examples_of_the_manual_run
t_case "report runs what the trace supports" several_reports_come_from_one_pass
t_done
