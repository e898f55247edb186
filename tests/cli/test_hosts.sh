#!/bin/bash
# SPDX-License-Identifier: MIT
# Analyses over a folder of hosts: rows of one name side by side, who stands out, and one table of all.
# shellcheck disable=SC2119 # the arguments of nats() are optional
. "$SRC/tests/tap.sh"
. "$SRC/tests/nats.lib.sh"
PATH=$PATH:/usr/sbin:/sbin
trap 'end_nats; rm -rf "$t_root"' EXIT

# host NAME SHARE COUNT: a second in which `worker` runs SHARE percent of the one CPU and makes COUNT calls of 1 ms, the first
# of them SHARE ms long; `steady` runs 10 ms.
host() {
  mkdir -p "hosts/$1"
  python3 - "$2" "$3" <<'PY' >lines
import sys
share, count = int(sys.argv[1]), int(sys.argv[2])
pid = 100 + share * 7  # the same program has another number on each host
sw = "{} 0 sched_switch prev_comm={} prev_tid={} prev_prio=20 prev_state={} next_comm={} next_tid={} next_prio=20"
print(sw.format(0, "swapper/0", 0, 0, "worker", pid))
at = 0
for i in range(count):
    print(f"{at} 0 syscall_entry_read fd=3 count=8")
    at += share * 1000000 if i == 0 and share > 50 else 1000000
    print(f"{at} 0 syscall_exit_read ret=8")
end = share * 10000000
print(sw.format(end, "worker", pid, 1, "steady", 5))
print(sw.format(end + 10000000, "steady", 5, 1, "swapper/0", 0))
print("1000000000 0 tick n=1")
print("packets")
PY
  python3 "$SRC/tests/mktrace" "hosts/$1/s" <lines
}
run() {
  "$RUTILE" "$@" --no-progress --gmt
}

test_compare() {
  for i in 1 2 3 4; do host web$i 20 100; done
  host web5 80 100
  run cputop --hosts hosts >out
  cat out
  # Each host's share, under its name; the two programs, whatever their numbers.
  grep -q '^Process  *web1  *web2  *web3  *web4  *web5$' out
  grep -q '^worker  *20.00 %  *20.00 %  *20.00 %  *20.00 %  *80.00 %  <- web5$' out
  grep -q '^steady  *1.00 %  *1.00 %  *1.00 %  *1.00 %  *1.00 %$' out
  grep -q '^web5: worker: CPU usage 80.00 %, the median of the others is 20.00 %' out
  [ "$(sed -n '/^Outliers/,$p' out | grep -c worker)" = 1 ]
  grep -q '^web1  *00:00:00.* its own$' out
  # The same as JSON for Trace Compass, each row behind its host.
  run cputop --hosts hosts --mi >json
  python3 - <<'PY'
import json
rows = [[x["value"] for x in r if "value" in x] for t in json.load(open("json"))["results"]
        if t["class"]["title"] == "Per-TID top CPU usage, by host" for r in t["data"]]
got = {r[0]: round(r[-1], 4) for r in rows if r[1] == "worker"}
assert got == {"web1": .2, "web2": .2, "web3": .2, "web4": .2, "web5": .8}, rows
PY
  # And as JSON Lines.
  run cputop --hosts hosts --json >lines
  python3 - <<'PY'
import json
lines = [json.loads(line) for line in open("lines")]
hosts = [x for x in lines if "table" not in x]
assert [x["host"] for x in hosts] == ["web1", "web2", "web3", "web4", "web5"] and all(x["complete"] for x in hosts), hosts
rows = {x["host"]: x for x in lines if x.get("table") == "Per-TID top CPU usage" and x["row"] == "worker"}
number = {h: [v for k, v in x.items() if isinstance(v, float) and not isinstance(v, bool)] for h, x in rows.items()}
assert {h: round(n[0], 4) for h, n in number.items()} == {"web1": .2, "web2": .2, "web3": .2, "web4": .2, "web5": .8}, rows
assert [h for h, x in rows.items() if x.get("outlier")] == ["web5"], rows
PY
  run cputop --hosts hosts --merge --json >lines
  python3 -c 'import json
assert [x for x in map(json.loads, open("lines")) if x.get("row") == "worker" and "host" not in x]'
  not run cputop --json hosts/web1 2>err
  grep -q -- '--json is for --hosts' err
  # Of many hosts the extremes are shown.
  host web6 20 100
  host web7 2 100
  run cputop --hosts hosts | grep '^worker  *20.00 %  *2.00 % web7  *80.00 % web5  *<- web5  <- web7$'
  # As many as are asked for.
  [ "$(run cputop --hosts hosts --limit 1 | grep -c '^steady')" = 0 ]
}

test_merge() {
  host a 20 100
  host b 60 50
  run syscallstats --hosts hosts --merge --mi >json
  python3 - <<'PY'
import json
results = json.load(open("json"))["results"]
titles = [t["class"]["title"] for t in results]
t, = [t for t in results if any(c["title"].startswith("Call count") or c["title"] == "Count" for c in t["class"]["column-descriptions"])
      and any(r[1].get("value") == "read" or "read" in str(r[1]) for r in t["data"])][:1]
names = [c["title"] for c in t["class"]["column-descriptions"]]
row, = [r for r in t["data"] if "read" in str(r[1])]
v = {n: c.get("value") for n, c in zip(names, row)}
print(v)
count = [v[n] for n in names if "ount" in n][0]
assert count == 150, v
least, = [v[n] for n in names if "inimum" in n]
most, = [v[n] for n in names if "aximum" in n]
mean, = [v[n] for n in names if "verage" in n or "ean" in n]
# 149 calls of 1 ms and one of 60 ms
assert (least, most) == (1000000, 60000000), v
assert abs(mean - (149 * 1e6 + 60e6) / 150) < 1, v
# Of a deviation nothing is known.
assert [v[n] for n in names if "eviation" in n] == [None], v
PY
  run cputop --hosts hosts --merge >out
  cat out
  # The share of an average host
  grep -q '^worker .* 40.00 %$' out
  not grep -q Outliers out
}

# sched NAME TID LATENCY: two threads of `worker` wake up, one of priority 20 and one of 30, and wait LATENCY and 1,000 ns
# for a CPU; both priorities at last 10,000 ns.
sched() {
  {
    sw="0 sched_switch prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0 next_comm"
    at=1000
    for one in "$2 20 $3" "$(($2 + 1)) 30 1000" "$2 20 10000" "$(($2 + 1)) 30 10000"; do
      read -r tid prio wait <<<"$one"
      echo "$at 0 sched_waking comm=worker tid=$tid prio=$prio target_cpu=0"
      echo "$((at + wait)) $sw=worker next_tid=$tid next_prio=$prio"
      at=$((at + wait + 500))
      echo "$at 0 sched_switch prev_comm=worker prev_tid=$tid prev_prio=$prio prev_state=1 next_comm=swapper/0 next_tid=0 next_prio=20"
      at=$((at + 1000))
    done
  } | python3 "$SRC/tests/mktrace" "hosts/$1/s"
}

test_rows() {
  sched a 10 2000
  sched b 50 2000
  sched c 90 8000
  run schedstats --per-prio --total --per-tid --percentiles --hosts hosts >out
  cat out
  # A row for each priority, and one for all threads of a name; what is compared is the average latency.
  grep -q '^Scheduling latency stats (per-prio): Average latency (us)$' out
  sed -n '/(per-prio)/,/^$/p' out >prio
  grep -q '^20  *6.000  *6.000  *9.000' prio
  grep -q '^30  *5.500  *5.500  *5.500$' prio
  sed -n '/(total)/,/^$/p' out | grep -q '5.750  *5.750  *7.250'
  # Percentiles of two threads of a name are not known; those of all are.
  sed -n '/^Percentiles/,/^$/p' out >pct
  grep -q '^worker  *-  *-  *-$' pct
  grep -q '^all  *[0-9.]*  *[0-9.]*  *[0-9.]*' pct
  not grep -q '([0-9]*)' pct
  # Events and distributions are not compared: one line says so, or, where there is nothing else, an error.
  run schedstats --stats --log --freq --hosts hosts >out
  grep -q '^Scheduling log: not compared, its rows are single events$' out
  grep -q 'frequency distribution: not compared, its intervals are not the same on all hosts$' out
  run schedstats --log --hosts hosts --mi 2>err | python3 -c 'import json, sys
assert not [t for t in json.load(sys.stdin)["results"] if "log" in t["class"]["title"]]'
  grep -q 'Scheduling log: not compared' err
  for verb in schedlog schedfreq schedtop irqlog irqfreq iolog; do
    rc=0
    run $verb --hosts hosts >out 2>err || rc=$?
    [ $rc = 2 ]
    grep -q 'nothing to compare' err
    [ "$(wc -l <err)" = 1 ]
    [ ! -s out ]
  done
}

# gc NAME MINOR BEFORE AFTER: so many minor collections, with the most live slots before one, and the fewest after one.
gc() {
  {
    echo 'env vpid=10'
    for ((i = 1; i <= $2; i++)); do
      echo "${i}000 7 ruby:gc_enter"
      echo "${i}100 7 ruby:gc_start count=$i live_slots=$(($3 - i + 1)) major=0 by=1"
      echo "${i}200 7 ruby:gc_sweep_end count=$i live_slots=$(($4 + i - 1)) major=0 by=1"
      echo "${i}500 7 ruby:gc_exit"
    done
    echo "90000 7 last n=1"
  } | python3 "$SRC/tests/mktrace" "hosts/$1/s"
}

test_how_numbers_merge() {
  gc a 3 1000 600
  gc b 5 900 700
  run rubygc --no-intersection --hosts hosts --merge --mi >json
  python3 - <<'PY'
import json
t, = [t for t in json.load(open("json"))["results"] if "by method" not in t["class"]["title"] and len(t["class"]["column-descriptions"]) > 6]
names = [c["title"] for c in t["class"]["column-descriptions"]]
row, = t["data"]
v = dict(zip(names, [c.get("value") for c in row]))
print(v)
assert v["Minor collections"] == 8, v
assert v["Most live slots before one"] == 1000 and v["Fewest live slots after one"] == 600, v
# Eight pauses of 500 ns
assert (v["Pauses"], v["Average pause"], v["Longest pause"]) == (8, 500, 500), v
PY
}

# Who stands out, against a calculation of its own
test_outliers() {
  for i in 01 02 03 04 05 06 07 08 09 10 11 12 13; do host h$i $((10 + 10#$i % 3)) 1; done
  host h14 90 1
  host h15 2 1
  host h16 37 1
  run cputop --hosts hosts >out
  cat out
  run cputop --hosts hosts --mi >json
  python3 - <<'PY' >want
import json, statistics
tables = {t["class"]["title"]: t["data"] for t in json.load(open("json"))["results"]}
rows = {r[0]["value"]: r[-1]["value"] for r in tables["Per-TID top CPU usage, by host"] if r[1]["value"] == "worker"}
assert len(rows) == 16
for host, own in sorted(rows.items()):
    others = [v for h, v in rows.items() if h != host]
    m = statistics.median(others)
    far = 1.4826 * statistics.median(abs(v - m) for v in others)
    if (own > 3 * m or own < m / 3) and abs(own - m) > 5 * far and abs(own - m) >= max(rows.values()) / 20:
        print(host, f"{m * 100:.2f}")
PY
  [ "$(wc -l <want)" = 3 ]
  sed -n 's/^\(h[0-9]*\): worker: .* median of the others is \([0-9.]*\) %.*/\1 \2/p' out | sort >got
  diff want got
}

test_directories() {
  host a 20 10
  host b 20 10
  mkdir -p hosts/empty/below hosts/lost+found real
  host linked 20 10
  mv hosts/linked real
  ln -s ../real/linked hosts/linked
  echo note >note
  ln -s ../note hosts/note
  host $'w\e[31mx' 20 10
  run cputop --hosts hosts >out
  cat -v out
  [ "$(sed -n '2,/^$/p' out | cut -d' ' -f1 | tr '\n' ' ')" = 'a b linked w\x1b[31mx  ' ]
  not grep -q $'\e' out
  # Messages name the host, and neither do they have its escape sequences; progress is not that of hosts.
  run cputop --hosts hosts --mi --output-progress >json 2>err
  python3 -m json.tool json >/dev/null
  run nettop --begin 23:00:00 --hosts hosts >out 2>err || :
  cat -v err
  grep -q '^rutile: linked: the trace has no event in this time range$' err
  grep -qF 'rutile: w\x1b[31mx: ' err
  not grep -q $'\e' err
}

test_mistakes() {
  bad() { # MESSAGE ARGUMENT...
    rc=0
    "$RUTILE" "${@:2}" >out 2>err || rc=$?
    [ "$rc" != 0 ]
    grep -qF -- "$1" err
  }
  mkdir empty
  bad 'each host has one' cputop --hosts empty
  bad "cannot read 'nothing'" cputop --hosts nothing
  bad '--merge is for --hosts' cputop --merge empty
  bad '--hosts takes one directory' cputop --hosts empty empty
  bad "unknown option '--hosts'" diff --hosts empty empty
  bad "unknown option '--hosts'" series --hosts empty
  bad 'nothing to compare' schedlog --hosts empty
  # A host that cannot be read is named, the others are analysed, and the exit code says so.
  host a 20 10
  host b 20 10
  mkdir hosts/broken
  echo '/* CTF 1.8 */ broken' >hosts/broken/metadata
  bad 'broken' cputop --hosts hosts
  grep -q '^broken  *not analysed$' out
  grep -q '^worker  *20.00 %  *20.00 %  *-$' out
  grep -q 'fewer than three hosts have none' out
}

# What is stored in a stream of NATS: all hosts, some, one; it stays there, and nothing of it stays here.
test_nats() {
  for i in 1 2 3 4; do host web$i 20 100; done
  host web5 80 100
  host db.example 20 400
  nats
  python3 "$SRC/tests/cli/nats_publish.py" "$p" TRACES hosts/*
  mkdir tmp
  export TMPDIR=$PWD/tmp
  url=nats://127.0.0.1:$p/TRACES
  for what in 'cputop' 'syscallstats --merge' 'cputop --mi'; do
    # shellcheck disable=SC2086 # words
    run $what --hosts hosts >want
    # shellcheck disable=SC2086 # words
    run $what --hosts "$url/*" >got 2>err || { cat err; return 1; }
    [ ! -s err ]
    diff want got
  done
  run cputop "$url" | diff <(run cputop --hosts hosts) -
  mkdir some
  cp -r hosts/web[1-3] some
  run cputop "$url/web[1-3]" | diff <(run cputop --hosts some) -
  # One host is a trace as any other; its name has a dot.
  run cputop "$url/db.example" | diff <(run cputop hosts/db.example) -
  run cputop --hosts "$url/db.*" | grep -q 'db.example'
  run cputop "$url/web5/s" | diff <(run cputop hosts/web5) -
  # Events too: of one host, and of all on one timeline.
  "$RUTILE" view "$url/db.example" | diff <("$RUTILE" view hosts/db.example) -
  [ "$("$RUTILE" view "$url/db.example" | wc -l)" = "$(babeltrace2 hosts/db.example | wc -l)" ]
  "$RUTILE" view "$url" | sort | diff <("$RUTILE" view hosts | sort) -
  "$RUTILE" stat --json "$url/web[1-3]" | python3 -c "import json, sys; print(json.load(sys.stdin)['by_name'])" |
    diff <("$RUTILE" stat --json some | python3 -c "import json, sys; print(json.load(sys.stdin)['by_name'])") -
  not "$RUTILE" view "$url/web1" hosts/web2 2>err
  grep -q "cannot be read together with other traces" err
  not "$RUTILE" view --follow "$url/web1" 2>err
  grep -q -- '--follow does not follow a stream of NATS' err
  not "$RUTILE" view "$url/nobody" 2>err
  grep -q "the stream 'TRACES' has nothing of a host 'nobody'$" err
  not run cputop "$url/nobody" 2>err
  grep -q "the stream 'TRACES' has nothing of a host 'nobody'$" err
  not run cputop "$url/web1/other" 2>err
  grep -q "nothing of a host 'web1' and a session 'other'$" err
  not run cputop "nats://127.0.0.1:$p/NONE/web1" 2>err
  grep -q "there is no stream 'NONE'$" err
  not run cputop "nats://127.0.0.1:$p" 2>err
  grep -q 'invalid source' err
  not run cputop "nats://127.0.0.1:1/TRACES/web1" 2>err
  grep -q 'cannot connect' err
  # A reader that is killed leaves nothing either.
  kill -STOP "$(cat "$t_root/nats")"
  run cputop "$url/*" >/dev/null 2>&1 &
  some() { [ -n "$(ls tmp)" ]; }
  none() { [ -z "$(ls tmp)" ]; }
  t_wait some
  kill -9 "$(pgrep -P $! -x rutile || echo $!)"
  kill -CONT "$(cat "$t_root/nats")"
  t_wait none
  # All of it is there for a collector.
  "$RUTILE" collect "nats://127.0.0.1:$p/TRACES" in 2>/dev/null &
  pid=$!
  all() { [ "$(find in -name 'channel_0' | wc -l)" = 6 ]; }
  t_wait all
  kill $pid
  end_nats
}

# The server lists 100,000 subjects at a time, in their order: that of the host that is wanted is behind them.
test_nats_many() {
  host web1 20 100
  host web2 80 100
  nats
  python3 "$SRC/tests/cli/nats_publish.py" "$p" TRACES hosts/*
  python3 "$SRC/tests/cli/nats_many.py" "$p" aaa 100010
  mkdir tmp
  export TMPDIR=$PWD/tmp
  url=nats://127.0.0.1:$p/TRACES
  run cputop --hosts "$url/w*" | diff <(run cputop --hosts hosts) -
  run cputop "$url/web2" | diff <(run cputop hosts/web2) -
  run cputop "$url/web2/[r-t]" | diff <(run cputop hosts/web2) -
  end_nats
}

t_case "hosts of a stream of NATS are read where they are" test_nats
t_case "the same behind more subjects than the server lists at a time" test_nats_many
t_case "hosts are compared, and who stands out is named" test_compare
t_case "one table of all hosts" test_merge
t_case "priorities and names of threads are rows, events and distributions are left out" test_rows
t_case "maxima, minima and averages of counts merge as what they are" test_how_numbers_merge
t_case "the hosts that stand out are those of another calculation" test_outliers
t_case "a host is a directory with a trace, and its name is harmless" test_directories
t_case "mistakes are one line, and a broken host does not hide the others" test_mistakes
t_done
