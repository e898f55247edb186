#!/bin/bash
# SPDX-License-Identifier: MIT
# What scripts print, as a trace: compared with their text by babeltrace2 and rutile view.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf

# events DIR: "NAME FIELDS" of each event, as babeltrace2 shows them.
events() {
  babeltrace2 --no-delta "$1" | sed -n 's/^\[[^]]*\] script:\([^:]*\): { [^}]* }, { \(.*\) }$/\1 \2/p'
}

a_printf_with_names_is_an_event_with_fields() {
  for i in 1 2 3 4 5; do echo >"$T/file-$i"; done
  # Names that cannot be read are left out: babeltrace2 shows the string of another event for an empty one.
  # What grep prints would come between the lines of the script: grep -q prints nothing.
  "$RUTILE" run -q -o t.trace -c "grep -q word $T/file-1 $T/file-2 $T/file-3 $T/file-4 $T/file-5" -e '
    tracepoint:syscalls:sys_enter_openat /comm == "grep" && str(args.filename) != ""/ {
      printf("opened pid=%d file='\''%s'\'' cpu=%d %d\n", pid, str(args.filename), cpu, -7);
    }' >text
  grep -q "file='$T/file-5'" text
  # The same values in the same order; "arg3" is the one without a name.
  sed -n "s/^opened pid=\([0-9]*\) file='\(.*\)' cpu=\([0-9]*\) \(.*\)$/opened pid = \1, file = \"\2\", cpu = \3, arg3 = \4/p" \
    text >expected
  [ "$(wc -l <expected)" -ge 5 ]
  # It may move to another CPU: babeltrace2 merges by time, which is the order of the text too.
  events t.trace | grep '^opened' >got
  diff expected got
  # The CPU of the packet is that of the event.
  babeltrace2 t.trace | sed -n 's/.*{ cpu_id = \([0-9]*\).*cpu = \([0-9]*\),.*/\1 \2/p' >cpus
  [ -s cpus ]
  awk '$1 != $2 { exit 1 }' cpus
  "$RUTILE" view t.trace | sed -n 's/.*script:opened: .*, { \(.*\) }$/opened \1/p' >viewed
  diff expected viewed
  [ "$(readers t.trace)" = "$(wc -l <got)" ]
}

all_that_is_printed_is_in_the_trace() {
  "$RUTILE" run -q -f ctf -o out -e '
    begin {
      printf("%s and %d\n", "text", 5); print((1, "two")); time("a time\n"); warnf("warned %d", 3);
      @n["a", 1] = 5; @n["b", 2] = 6; @c = count(); @c = count(); @avg = avg(3); @avg = avg(4);
      @h = hist(0); @h = hist(5); @h = hist(6); @s = "string"; @l = lhist(15, 0, 30, 10);
      print(@n);
    }' >text 2>err
  events out >got
  cat >expected <<END
print text = "text and 5"
print text = "(1, two)"
print text = "a time"
print text = "warned 3"
@n key0 = "a", key1 = 1, value = 5
@n key0 = "b", key1 = 2, value = 6
@avg average = 3, count = 2, total = 7
@c value = 2
@h low = 0, high = 0, count = 1
@h low = 4, high = 7, count = 2
@l low = 10, high = 19, count = 1
@n key0 = "a", key1 = 1, value = 5
@n key0 = "b", key1 = 2, value = 6
@s value = "string"
END
  diff expected got
  grep -q '^text and 5$' text
}

formats_that_differ_have_classes_of_their_own() {
  "$RUTILE" run -q -o out.ctf -e 'begin { printf("x a=%d\n", (int32)1); printf("x a=%s\n", "s"); printf("x a=%d\n", (int32)2); printf("a=%d\n", 1); }' >text
  events out.ctf >got
  printf '%s\n' 'x a = 1' 'x#2 a = "s"' 'x a = 2' 'printf a = 1' >expected
  diff expected got
}

values_without_a_name_take_none_that_another_has() {
  "$RUTILE" run -q -o out.ctf -e 'begin { printf("x %d arg0=%d\n", 1, 2); printf("y arg1=%d %d %d arg3=%d\n", 1, 2, 3, 4); }' >text
  events out.ctf >got
  printf '%s\n' 'printf arg2 = 1, arg0 = 2' 'y arg1 = 1, arg4 = 2, arg2 = 3, arg3 = 4' >expected
  diff expected got
  [ "$(readers out.ctf)" = 2 ]
}

record_writes_an_event_and_prints_nothing() {
  "$RUTILE" run -q -o out.ctf -e '
    begin { $bytes = (uint64)7; record("io done", $bytes, str("text"), 1 + 1); record("io done", (a = 5, name = "n")); record("100%", $bytes); }' >text
  events out.ctf >got
  printf '%s\n' 'io done bytes = 7, arg1 = "text", arg2 = 2' 'io done#2 a = 5, name = "n"' '100_ bytes = 7' >expected
  diff expected got
  [ -z "$(tr -d '\n' <text)" ]
  not "$RUTILE" run -e 'begin { record("x", 1); }' 2>err
  grep -q 'stdin:1:9: error: record() writes into a trace: run the script with -o DIR/, or in a session' err
}

a_trace_goes_where_there_is_none() {
  mkdir dir
  "$RUTILE" run -q -o dir -e 'begin { print(1) }' >text
  [ "$(readers dir)" = 1 ]
  not "$RUTILE" run -q -o dir -e 'begin { print(1) }' >text 2>err
  grep -q "cannot make the trace 'dir/script': File exists" err
  not "$RUTILE" run -f ctf -e 'begin { print(1) }' 2>err
  grep -q 'name it with -o DIR' err
  "$RUTILE" run -q -o file -e 'begin { print(7) }'
  [ "$(head -n 1 file)" = 7 ]
}

a_killed_script_leaves_a_readable_trace() {
  "$RUTILE" run -q -o t.trace -e 'interval:ms:10 { printf("tick n=%d\n", 1); }' >text 2>err &
  script=$!
  trap 'kill -KILL $script 2>/dev/null || :' EXIT
  any_packet() {
    [ -n "$(find t.trace/script -name 'script_*' -size +0 2>/dev/null)" ]
  }
  t_wait any_packet
  kill -KILL $script
  wait $script || :
  events t.trace >got
  [ "$(sort -u got)" = 'tick n = 1' ]
}

t_case "a printf with names is an event with fields" a_printf_with_names_is_an_event_with_fields
t_case "all that is printed is in the trace" all_that_is_printed_is_in_the_trace
t_case "formats that differ have classes of their own" formats_that_differ_have_classes_of_their_own
t_case "values without a name take none that another has" values_without_a_name_take_none_that_another_has
t_case "record() writes an event and prints nothing" record_writes_an_event_and_prints_nothing
t_case "a trace needs an empty or new directory" a_trace_goes_where_there_is_none
t_case "a killed script leaves a readable trace" a_killed_script_leaves_a_readable_trace
t_done
