#!/bin/bash
# SPDX-License-Identifier: MIT
. "$SRC/tests/tap.sh"
. "$SRC/tests/cases.sh"

export TZ=UTC

need_cases() {
  CASES=$(cases)
}

need_bt2() {
  command -v babeltrace2 >/dev/null || t_skip "babeltrace2 is not installed"
}

every_case_trace() {
  find "$CASES" -name metadata -exec dirname {} \;
}

equals_babeltrace2() {
  need_cases
  need_bt2
  n=0
  for t in $(every_case_trace); do
    babeltrace2 "$@" "$t" >expected 2>/dev/null
    "$RUTILE" view "$@" "$t" >actual
    "$SRC/tests/same-text" expected actual
    n=$((n + $(wc -l <actual)))
  done
  [ "$n" -gt 134000 ]
}

plain() { equals_babeltrace2; }
cycles() { equals_babeltrace2 --clock-cycles; }
dates() { equals_babeltrace2 --clock-date --clock-gmt --no-delta; }
seconds() { equals_babeltrace2 --clock-seconds --names none; }
offsets() { equals_babeltrace2 --clock-seconds --clock-offset=-1000 --names scope; }

# babeltrace2 refuses to merge these (their clocks have different UUIDs): each by itself, sorted.
random_types_read_the_same() {
  need_bt2
  python3 "$SRC/tests/same-random" "$RUTILE" 1 150
}

# A directory with a copy, and one whose streams begin later, as overlapping snapshots do.
copies_are_counted_once() {
  need_cases
  "$(dirname "$RUTILE")/bench/gen_trace" "$CASES/ref/basic-kernel-analysis" long 3
  t=long
  mkdir all
  cp -r "$t" all/a
  cp -r "$t" all/b
  cp -r "$t" all/c
  # Three packets of one size in each stream.
  find all/c -name 'chan*' -type f | while read -r path; do
    tail -c "+$(($(stat -c %s "$path") / 3 + 1))" "$path" >rest
    mv rest "$path"
  done
  n=$("$RUTILE" view --count "$t")
  [ "$n" = "$("$RUTILE" view --count all/a)" ]
  [ "$n" = "$("$RUTILE" view --count all)" ]
  [ "$n" = "$("$RUTILE" view --count all/c all/b)" ]
  "$RUTILE" view --no-delta "$t" >once
  "$RUTILE" view --no-delta all/c all/a >merged
  cmp once merged
  "$RUTILE" cputop --skip-validation "$t" >once
  "$RUTILE" cputop --skip-validation all >merged
  cmp once merged
}

# What is whole of metadata that is cut off is used, and said.
metadata_that_is_cut_off() {
  need_cases
  cp -r "$CASES/ref/basic-kernel-analysis" cut
  rm -r cut/kernel/index
  n=$("$RUTILE" view --count cut)
  for bytes in 1700 3000 9000; do
    head -c "-$bytes" "$CASES/ref/basic-kernel-analysis/kernel/metadata" >cut/kernel/metadata
    rc=0
    "$RUTILE" view --count cut >count 2>err || rc=$?
    [ "$rc" = 1 ]
    grep -q "metadata 'cut/kernel/metadata': cut off" err
    [ "$(cat count)" -gt 0 ]
  done
  mkdir empty
  cat >empty/metadata <<'END'
/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; };
stream { id = 0; };
END
  rc=0
  "$RUTILE" view empty 2>err || rc=$?
  [ "$rc" = 1 ]
  grep -q "metadata 'empty/metadata': it describes no events" err
}

several_traces_are_merged() {
  need_cases
  need_bt2
  for t in cputop irq io; do
    babeltrace2 --clock-seconds --no-delta "$CASES/$t"
  done | sort >expected
  "$RUTILE" view --clock-seconds --no-delta "$CASES/cputop" "$CASES/irq/trace/kernel/metadata" "$CASES/io" >actual
  sort actual | cmp expected -
  sed 's/^\[\([^]]*\)\].*/\1/' actual | sort -c -n
}

ranges_are_seeked() {
  need_cases
  need_bt2
  t=$CASES/ref/basic-kernel-analysis
  for range in "18:39:21 18:39:22.5" "18:39:26.8 18:39:27" "18:39:00 18:39:20" "19:00:00 19:00:01"; do
    b=${range% *}
    e=${range#* }
    "$RUTILE" view --no-delta --begin "$b" --end "$e" "$t" >actual
    babeltrace2 --no-delta --begin "$b" --end "$e" "$t" >expected
    "$SRC/tests/same-text" expected actual
  done
  [ "$("$RUTILE" view --count --begin 1521484761.0 "$t")" = \
    "$("$RUTILE" view --count --begin 1521484761000000000 "$t")" ]
}

events_are_chosen_by_glob() {
  need_cases
  t=$CASES/ref/basic-kernel-analysis
  "$RUTILE" view --no-delta "$t" | grep -E ' ubuntu (sched_sw.*|irq_handler_entry): ' >expected
  "$RUTILE" view --no-delta --event 'sched_sw*' --event irq_handler_entry "$t" >actual
  cmp expected actual
  [ -z "$("$RUTILE" view --event nothing "$t")" ]
}

fields_are_chosen_by_glob() {
  need_cases
  t=$CASES/ref/basic-kernel-analysis
  "$RUTILE" view --fields 'none,next_*' --no-delta --event sched_switch "$t" | sed -n 1p >actual
  echo '[18:39:19.831514452] sched_switch: { next_comm = "lttng-consumerd", next_tid = 12039, next_prio = 20 }' >expected
  cmp expected actual
}

threads_print_the_same() {
  need_cases
  gen=$(dirname "$RUTILE")/bench/gen_trace
  "$gen" "$CASES/ref/basic-kernel-analysis/kernel" big 5
  "$RUTILE" view --threads 1 big | md5sum >one
  "$RUTILE" view --threads 3 big | md5sum >three
  cmp one three
  [ "$("$RUTILE" view --threads 3 --count big)" = 672500 ]
  "$RUTILE" view --threads 1 --clock-cycles --event 'irq_*' big | md5sum >one
  "$RUTILE" view --threads 3 --clock-cycles --event 'irq_*' big | md5sum >three
  cmp one three
  # The reader closes: every thread ends.
  "$RUTILE" view --threads 3 big 2>err | head -n 1 >/dev/null
  [ ! -s err ]
  # A bad packet in the middle is reported once, and the rest is printed.
  printf 'xxxx' >bad
  dd if=bad of=big/chan1_1 bs=1 seek=$((3 * 2646016)) conv=notrunc status=none
  rc=0
  "$RUTILE" view --threads 3 big >out 2>err || rc=$?
  [ "$rc" = 1 ]
  [ "$(wc -l <err)" = 1 ]
  grep -q "big/chan1_1', byte 7938048: no packet begins here" err
  "$RUTILE" view --threads 1 big 2>/dev/null | cmp out -
}

# Of 240 MiB of trace, and 1.1 GiB of text, nothing piles up: neither the files' pages nor the text.
memory_does_not_grow_with_the_trace() {
  [ -z "${ASAN_OPTIONS:-}" ] || t_skip "a sanitizer takes memory of its own"
  need_cases
  "$(dirname "$RUTILE")/bench/gen_trace" "$CASES/ref/basic-kernel-analysis/kernel" big 60
  for argv in "view --threads 1" "view --threads 2" stat "view --threads 2 --count"; do
    python3 - "$RUTILE" $argv big <<'PY'
import os, resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(sys.argv[2:], f"{mib:.0f} MiB")
sys.exit(mib > 150)
PY
  done
}

# shellcheck disable=SC2016 # expressions, not the shell's variables
filters_are_expressions() {
  need_cases
  t=$CASES/ref/basic-kernel-analysis
  "$RUTILE" view --no-delta "$t" | grep -E ' ubuntu sched_switch: .* next_tid = 12039, ' >expected
  "$RUTILE" view --no-delta --filter '$evt.next_tid == 12039' "$t" >actual
  cmp expected actual
  [ "$(wc -l <actual)" -gt 50 ]
  "$RUTILE" view --no-delta "$t" | grep -E ' ubuntu syscall_entry_open: .*filename = "/etc/' >expected
  "$RUTILE" view --no-delta --filter '$evt.$name == "syscall_entry_open" && $evt.filename =* "/etc/*"' "$t" >actual
  cmp expected actual
  [ -s actual ]
  rc=0
  "$RUTILE" view --filter '$evt.fd ==' "$t" 2>err || rc=$?
  [ "$rc" = 2 ]
  grep -q 'column 1[0-9]' err
}

json_says_the_same() {
  need_cases
  t=$CASES/ref/basic-kernel-analysis
  "$RUTILE" view --json "$t" >lines
  python3 - lines <<'PY' >actual
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    e = json.loads(line)
    if e["name"] == "sched_switch":
        f = e["fields"]
        print(e["timestamp"], e["cpu"], f["prev_comm"], f["prev_tid"], f["prev_state"], f["next_comm"])
PY
  "$RUTILE" view --clock-seconds --no-delta --event sched_switch "$t" | sed 's/^\[\([0-9]*\)\.\([0-9]*\)\] ubuntu sched_switch: { cpu_id = \([0-9]*\) }, { prev_comm = "\([^"]*\)", prev_tid = \([0-9]*\), prev_prio = [-0-9]*, prev_state = \([0-9]*\), next_comm = "\([^"]*\)".*/\1\2 \3 \4 \5 \6 \7/' >expected
  cmp expected actual
  [ "$(wc -l <actual)" = 1691 ]
}

stat_counts_what_babeltrace2_prints() {
  need_cases
  need_bt2
  t=$CASES/ref/basic-kernel-analysis
  babeltrace2 --no-delta "$t" | sed 's/^[^ ]* ubuntu \([^:]*\): .*/\1/' | sort | uniq -c | awk '{print $2, $1}' | sort >expected
  "$RUTILE" stat --json "$t" | python3 -c '
import json, sys
d = json.load(sys.stdin)
for name, n in d["by_name"].items(): print(name, n)
assert d["events"] == sum(d["by_name"].values()) == sum(s["events"] for s in d["streams"])
' | sort >actual
  cmp expected actual
  "$RUTILE" stat "$t" | grep -q '^events:   134500 (19299.3 a second)$'
}

a_closed_pipe_ends_quietly() {
  need_cases
  { "$RUTILE" view "$CASES/ref/basic-kernel-analysis" 2>err; echo $? >rc; } | head -n 1 >/dev/null
  [ ! -s err ]
  [ "$(cat rc)" = 0 ]
}

what_is_no_trace_is_refused() {
  mkdir empty
  rc=0
  "$RUTILE" view empty 2>err || rc=$?
  [ "$rc" = 1 ]
  grep -q "no trace in 'empty'" err
  rc=0
  "$RUTILE" view nowhere 2>err || rc=$?
  [ "$rc" = 1 ]
  grep -q "cannot open 'nowhere': No such file or directory" err
  rc=0
  "$RUTILE" view 2>err || rc=$?
  [ "$rc" = 2 ]
}

mk() {
  python3 "$SRC/tests/mktrace" "$1"
}

# The trace grows, its metadata too, and a stream comes.
a_growing_trace_is_followed() {
  first='1_000 0 one v=1
2_000 0 two v=2'
  later='3_000 0 three name=x bytes=[1,2,3]
4_000 1 four v=4
5_000 0 two v=5'
  echo "$first" | mk trace
  printf '%s\n%s\n' "$first" "$later" | mk whole
  "$RUTILE" view --follow --event 't*' --event four --clock-cycles --no-delta trace >got 2>err &
  pid=$!
  trap 'kill -KILL $pid 2>/dev/null || :' EXIT
  t_wait test -s got
  cp whole/metadata trace/.new && mv trace/.new trace/metadata
  cp whole/channel_1 trace/.new && mv trace/.new trace/channel_1
  cat whole/channel_0 >>trace/channel_0
  # The last one of the other stream comes at the end: this one might have some before it.
  t_wait grep -q four got || { cat got err; return 1; }
  kill -TERM $pid
  wait $pid || true # 1: time runs backwards where the first events come again
  sed 's/^\[[0-9]*\] [^ ]* //; s/:.*//' got | sort | uniq -c | awk '{ print $2, $1 }' >names
  printf 'four 1\nthree 1\ntwo 3\n' | diff - names
  grep 'three: .*bytes = \[ \[0\] = 1, \[1\] = 2, \[2\] = 3 \]' got
}

# A stream with packets that are not in order of time: a range finds its events all the same.
packets_out_of_order_are_found() {
  for i in 1 3 2; do
    printf '%d_000 0 tick n=%d\n%d_500 0 tick n=%d\n' $i $i $i $((i * 10)) | mk part
    cat part/channel_0 >>stream
  done
  mkdir trace
  cp part/metadata trace
  cp stream trace/channel_0
  seen() {
    "$RUTILE" view --clock-cycles --no-delta "$@" trace 2>>err | grep -o 'n = [0-9]*' | tr -d '\n'
    echo
  }
  { seen; seen --end 0.0000022; seen --begin 0.0000022 --end 0.0000028; seen --begin 0.000003; } >out
  cat out
  printf '%s\n' 'n = 1n = 10n = 3n = 30n = 2n = 20' 'n = 1n = 10n = 2' 'n = 20' 'n = 3n = 30' | cmp - out
  grep -q 'time runs backwards' err
}

t_case "packets that are there twice are read once" copies_are_counted_once
t_case "metadata that is cut off, or without events" metadata_that_is_cut_off
t_case "--follow prints what comes" a_growing_trace_is_followed
t_case "packets out of order" packets_out_of_order_are_found
t_case "view equals babeltrace2 on every case trace" plain
t_case "view --clock-cycles equals babeltrace2" cycles
t_case "view --clock-date --clock-gmt --no-delta equals babeltrace2" dates
t_case "view --clock-seconds --names none equals babeltrace2" seconds
t_case "view --clock-offset --names scope equals babeltrace2" offsets
t_case "random types are read as babeltrace2 reads them" random_types_read_the_same
t_case "several traces are merged by time" several_traces_are_merged
t_case "--begin and --end print what babeltrace2 prints" ranges_are_seeked
t_case "--event chooses by glob" events_are_chosen_by_glob
t_case "--fields chooses by glob" fields_are_chosen_by_glob
t_case "several threads print what one prints" threads_print_the_same
t_case "memory does not grow with the trace" memory_does_not_grow_with_the_trace
t_case "--filter chooses by expression" filters_are_expressions
t_case "--json says the same as the text" json_says_the_same
# Paths and host names are untrusted bytes, which must harm neither a terminal nor a reader of JSON.
names_are_anybodys_bytes() {
  directory=$(printf 'caf\303\251-\033[31m-\377')
  { printf 'env hostname="a\033b"\n'; echo '1_000 0 tick n=1'; } | python3 "$SRC/tests/mktrace" "$directory"
  LC_ALL=C "$RUTILE" stat --clock-gmt "$directory" >out
  cat -v out
  not grep -q "$(printf '\033')" out
  grep -q "^trace:  *$(printf 'caf\303\251')"'-.x1b\[31m-.xff (CTF' out
  "$RUTILE" stat --json "$directory" >json
  python3 -c '
import json
d = json.load(open("json", encoding="utf-8"))
assert d["streams"][0]["path"] == "caf\u00e9-\x1b[31m-\ufffd/channel_0", d'
}

# Terminals obey U+0080 to U+009F (here CSI, U+009B) as they obey ESC: only text passes as it is.
c1_controls_are_escaped() {
  printf '1_000 0 tick s="caf\303\251 \302\2331m \302\240 \360\237\246\200"\n' | python3 "$SRC/tests/mktrace" trace
  "$RUTILE" view trace >out
  LC_ALL=C cat -v out
  LC_ALL=C grep -qF "$(printf 's = "caf\303\251 \\u009b1m \302\240 \360\237\246\200"')" out
  "$RUTILE" view --json trace >json
  LC_ALL=C not grep -q "$(printf '\302\233')" json
  python3 -c '
import json
s = json.load(open("json", encoding="utf-8"))["fields"]["s"]
assert s == "caf\u00e9 \u009b1m \u00a0 \U0001f980", s'
}

# many DIR COUNT: traces of two files each, as of COUNT processes; the events are numbered in the order of time.
many() {
  python3 - "$1" "$2" <<'END'
import os, struct, sys, uuid
METADATA = """/* CTF 1.8 */
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; byte_order = le; uuid = "%s";
  packet.header := struct { u32 magic; u32 stream_instance_id; }; };
clock { name = m; freq = 1000000000; offset = 0; };
typealias integer { size = 64; align = 8; map = clock.m.value; } := time;
stream {
  packet.context := struct { time timestamp_begin; time timestamp_end; u64 content_size; u64 packet_size; };
  event.header := struct { u32 id; time timestamp; }; };
event { name = call; id = 0; fields := struct { u32 number; }; };
"""
base, count = sys.argv[1], int(sys.argv[2])
for i in range(count):
    directory = f"{base}/ruby-{i}"
    os.makedirs(directory)
    with open(f"{directory}/metadata", "w") as f:
        f.write(METADATA % uuid.UUID(int=i + 1))
    for stream in range(2):
        number = stream * count + i
        event = struct.pack("<IQI", 0, 1000 + number, number)
        bits = 8 * (40 + len(event))
        with open(f"{directory}/stream_{stream}", "wb") as f:
            f.write(struct.pack("<IIQQQQ", 0xC1FC1FC1, stream, 1000 + number, 1000 + number, bits, bits) + event)
END
}

# `record --ruby` makes a directory of each process.
very_many_directories() {
  many all 9000
  need_bt2
  babeltrace2 all/ruby-8999 >expected
  [ "$(grep -c 'number = 8999\|number = 17999' expected)" = 2 ]
  "$RUTILE" view all >out 2>err
  cat err
  [ ! -s err ]
  sed 's/.*number = \([0-9]*\) }$/\1/' out >numbers
  seq 0 17999 | cmp - numbers
  [ "$("$RUTILE" view --count --begin 00:00:00.000009 all)" = 10000 ]
  [ "$("$RUTILE" stat --json all | python3 -c 'import json, sys; print(json.load(sys.stdin)["events"])')" = 18000 ]
}

# Nothing is shown of a part: who counts would not know. All names are those of one file.
more_files_than_the_kernel_maps() {
  most=$(cat /proc/sys/vm/max_map_count)
  [ "$most" -le 200000 ] || t_skip "this kernel allows $most mappings"
  many all 1
  python3 - "$most" <<'END'
import os, sys
for i in range(int(sys.argv[1])):
    os.symlink("stream_0", f"all/ruby-0/link_{i}")
END
  for verb in view "cputop --skip-validation"; do
    rc=0
    "$RUTILE" $verb all >out 2>err || rc=$?
    head -n 3 out err
    [ "$rc" = 1 ]
    [ ! -s out ]
    [ "$(wc -l <err)" = 1 ]
    grep -q "more than $((most - 1024)) files at once, .*vm.max_map_count" err
  done
}

t_case "stat counts what babeltrace2 prints" stat_counts_what_babeltrace2_prints
t_case "paths that are not plain" names_are_anybodys_bytes
t_case "C1 control characters are escaped" c1_controls_are_escaped
t_case "very many directories" very_many_directories
t_case "more files than the kernel maps" more_files_than_the_kernel_maps
t_case "a closed pipe ends quietly" a_closed_pipe_ends_quietly
t_case "what is no trace is refused" what_is_no_trace_is_refused
t_done
