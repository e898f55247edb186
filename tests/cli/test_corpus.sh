#!/bin/bash
# SPDX-License-Identifier: MIT
# The corpora of tests/data/ctf: what can be read is read as babeltrace2 reads it, what is bad is refused
# by both, with the file and the place.
. "$SRC/tests/tap.sh"

export TZ=UTC
data=$SRC/tests/data/ctf

need_bt2() {
  command -v babeltrace2 >/dev/null || t_skip "babeltrace2 is not installed"
}

ctf1_equals_babeltrace2() {
  need_bt2
  n=0
  for t in "$data"/succeed/*/; do
    case $t in */ctf2*) continue ;; esac
    for names in payload,context scope; do
      babeltrace2 --names $names "$t" >expected 2>/dev/null
      "$RUTILE" view --names $names "$t" >actual 2>err
      cmp expected actual
    done
    n=$((n + $(wc -l <actual)))
  done
  [ "$n" -gt 300 ]
}

ctf2_prints_what_was_checked() {
  for name in ctf2 ctf2-compact ctf2-enumerations; do
    "$RUTILE" view "$data/succeed/$name" >actual
    cmp "$data/$name.txt" actual
  done
  # The same records described by CTF 1.8.
  "$RUTILE" view --fields none "$data/succeed/ctf2-compact" >a
  "$RUTILE" view --fields none "$data/succeed/lttng-compact-le" >b
  cmp a b
}

# Three traces with events of equal times in 18 streams: all of them, in babeltrace2's order.
equal_times_are_in_order() {
  need_bt2
  babeltrace2 "$data/succeed/equal-times" >expected
  "$RUTILE" view "$data/succeed/equal-times" >actual
  cmp expected actual
  [ "$(wc -l <actual)" = 108 ]
}

# Clocks of any frequency against Python's integers; where babeltrace2's floats are exact, against it, too.
clocks_are_exact() {
  need_bt2
  python3 - "$data/generate" "$RUTILE" <<'EOP'
import importlib.machinery, importlib.util, pathlib, shutil, subprocess, sys

loader = importlib.machinery.SourceFileLoader("generate", sys.argv[1])
g = importlib.util.module_from_spec(importlib.util.spec_from_loader("generate", loader))
loader.exec_module(g)
g.HERE = pathlib.Path(".").resolve()


def times(command):
    out = subprocess.run([*command, "--clock-seconds", "--no-delta", "t/x"], check=True, capture_output=True, text=True).stdout
    return [line[1:line.index("]")] for line in out.splitlines()]


for freq, offset in ((3, 2), (7, 6), (999, 998), (32768, 5), (1000000, 999999), (2399999999, 2399999998),
                     (2**40 + 15, 2**40), (10**10, 10**10 - 1), (1000000000, 999999999)):
    shutil.rmtree("t", ignore_errors=True)
    values = sorted({v for v in (0, 1, 2, 3, freq - 1, freq, freq + 1, 7 * freq + 3, 2**31, 2**53 + 1, 2**60 + 7)
                     if v // freq < 6 * 10**9})

    def events(b):
        for v in values:
            b.put(0, 16); b.put(v, 64); b.put(0, 8)

    text = g.meta(False, g.FLAT % "" + g.event(0, "e", "uint8_t v;"))
    text = text.replace("freq = 1000000000; offset_s = 1500000000; offset = 5", f"freq = {freq}; offset_s = 1500000000; offset = {offset}")
    g.write("t", "x", text, {"s_0": g.packet(False, events, values[0], values[-1])})
    want = [1500000000 * 10**9 + (v + offset) * 10**9 // freq for v in values]
    want = [f"{ns // 10**9}.{ns % 10**9:09d}" for ns in want]
    got = times([sys.argv[2], "view"])
    assert got == want, (freq, got, want)
    reference = times(["babeltrace2"])
    # It rounds the offset and the value apart, and each in a float of 53 bits.
    exact = [v for v in range(len(values)) if values[v] * 10**9 < 2**53 and values[v] * 10**9 % freq == 0]
    assert freq == 3 or exact, freq
    assert [got[i] for i in exact] == [reference[i] for i in exact], (freq, got, reference)
EOP
}

json_is_valid() {
  for t in "$data"/succeed/*/; do
    "$RUTILE" view --json "$t" 2>err | python3 -c '
import json, sys
n = 0
for line in sys.stdin.buffer:
    json.loads(line.decode())
    n += 1
assert n >= 3, n'
  done
  "$RUTILE" view --json "$data/succeed/ctf2" | tail -n 1 | python3 -c '
import json, sys
f = json.loads(sys.stdin.read())["fields"]
assert f["flag"] is False and f["sel"] == -100 and f["opt"] is None and f["var"] == -1000, f
assert f["inner"] == {"len": 2, "data": [-70, 70], "up": [1, 2, 3]}, f'
}

# Packets with the UUID of another trace.
another_uuid_is_read_and_said() {
  need_bt2
  babeltrace2 "$data/strict/wrong-uuid" >expected
  rc=0
  "$RUTILE" view "$data/strict/wrong-uuid" >actual 2>err || rc=$?
  [ "$rc" = 1 ]
  cmp expected actual
  [ "$(grep -c 'of another trace' err)" = 1 ]
}

bad_input_is_refused() {
  n=0
  for t in "$data"/fail/*/ "$data"/strict/*/; do
    rc=0
    "$RUTILE" view "$t" >out 2>err || rc=$?
    name=$(basename "$t")
    [ "$rc" = 1 ] || { echo "$name: exit status $rc"; return 1; }
    grep -Eq "$name/(s_0', byte [0-9]+: |metadata': )" err || { echo "$name:"; cat err; return 1; }
    n=$((n + 1))
  done
  [ "$n" -ge 50 ]
}

babeltrace2_refuses_it_too() {
  need_bt2
  for t in "$data"/fail/*/; do
    rc=0
    (timeout 20 babeltrace2 "$t" >out 2>err) 2>/dev/null || rc=$?
    [ "$rc" != 0 ] || { echo "babeltrace2 accepts $t"; return 1; }
  done
}

# NAME LINES: what stands before the bad place is printed.
keeps() {
  [ "$("$RUTILE" view "$data/fail/$1" 2>/dev/null | wc -l)" = "$2" ] || { echo "$1"; return 1; }
}

what_can_be_read_is_read() {
  keeps cut-second 3
  keeps wrong-magic-second 3
  keeps cut-packet 1
  keeps content-cuts-event 2
  keeps time-backwards 3
  keeps packet-size-huge 3
  keeps wrong-magic 0
  # One bad trace does not keep the others from being read.
  rc=0
  "$RUTILE" view --count "$data/fail/cut-second" "$data/succeed/types-le" >out 2>err || rc=$?
  [ "$rc" = 1 ]
  [ "$(cat out)" = 16 ]
}

losses_are_reported() {
  "$RUTILE" view --count "$data/succeed/streams" >out 2>err
  grep -q "3 events were lost in '.*/streams/a_0' between 1500000000.000001105 and 1500000000.000001305" err
  grep -q "2 packets were lost in '.*/streams/a_0' between 1500000000.000001305 and 1500000000.000001405" err
  [ "$(wc -l <err)" = 2 ]
  "$RUTILE" stat --json "$data/succeed/streams" 2>err | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert (d["discarded"], d["lost_packets"], d["errors"], d["events"]) == (3, 2, 0, 66), d
assert [s["packets"] for s in d["streams"]] == [3, 1, 1], d'
}

unreadable_files_are_named() {
  cp -r "$data/succeed/streams" t
  rm t/a_0
  ln -s nowhere t/a_0
  mkfifo t/pipe
  rc=0
  "$RUTILE" view --count t >out 2>err || rc=$?
  [ "$rc" = 1 ]
  grep -q "cannot open 't/a_0': No such file or directory" err
  grep -q "'t/pipe' is not a regular file" err
  [ "$(cat out)" = 54 ]
  [ "$(id -u)" != 0 ] || return 0 # root can read everything
  cp "$data/succeed/streams/a_0" t/locked
  chmod 0 t/locked
  "$RUTILE" view --count t >out 2>err || rc=$?
  grep -q "cannot open 't/locked': Permission denied" err
}

a_directory_in_place_of_a_file() {
  mkdir -p t/metadata
  rc=0
  "$RUTILE" view t 2>err || rc=$?
  [ "$rc" = 1 ]
  grep -q "no trace in 't'" err
}

# An event that the metadata lacks: the rest of its packet is skipped, the next packet is read, and every
# verb says how much is missing.
unknown_events_are_counted() {
  for n in 1 2 3 4 5 6 7 8 9 10 11; do
    if [ $n = 4 ]; then echo "$n 0 surprise"; else echo "$n 0 syscall_entry_getppid"; fi
  done | "$SRC/tests/mktrace" a
  for n in 101 102 103 104 105 106 107 108 109 110; do echo "$n 0 syscall_entry_getppid"; done |
    "$SRC/tests/mktrace" b
  # Two packets of one stream.
  mkdir t
  python3 -c '
import re, sys
sys.stdout.write(re.sub(r"event \{\s*name = .surprise.*?\n\};", "", sys.stdin.read(), flags=re.S))' \
    <a/metadata >t/metadata
  cat a/channel_0 b/channel_0 >t/channel_0
  not grep surprise t/metadata
  rc=0
  "$RUTILE" view --fields none t >out 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(grep -c getppid out)" = 13 ]
  grep -q "'t/channel_0', byte 88: the metadata has no event 1; the rest of the packet (to byte 184) is skipped" err
  grep -q "96 bytes could not be read: about 5 events are missing" err
  "$RUTILE" stat t >out 2>/dev/null || true
  grep -q '^skipped:  96 bytes could not be read: about 5 events are missing$' out
  "$RUTILE" stat --json t 2>/dev/null | grep -q '"skipped_bytes":96,'
  "$RUTILE" syscallstats --no-intersection t >/dev/null 2>err
  grep -q "96 bytes could not be read: about 5 events are missing" err
}

t_case "packets of another trace are read, and that is reported" another_uuid_is_read_and_said
t_case "CTF 1.8: equal to babeltrace2, in both byte orders" ctf1_equals_babeltrace2
t_case "events of equal times are in babeltrace2's order" equal_times_are_in_order
t_case "clocks of any frequency are exact" clocks_are_exact
t_case "CTF 2: equal to what was checked by hand" ctf2_prints_what_was_checked
t_case "--json is valid JSON" json_is_valid
t_case "bad input: exit 1, the file and the place" bad_input_is_refused
t_case "bad input: babeltrace2 refuses it too" babeltrace2_refuses_it_too
t_case "bad input: what can be read is read" what_can_be_read_is_read
t_case "losses are reported with stream and time" losses_are_reported
t_case "unreadable files are named" unreadable_files_are_named
t_case "a directory named metadata is no trace" a_directory_in_place_of_a_file
t_case "an unknown event costs the rest of its packet, and every verb says so" unknown_events_are_counted
t_done
