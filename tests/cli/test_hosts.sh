#!/bin/bash
# SPDX-License-Identifier: MIT
# Analyses over a folder of hosts: rows of one name side by side, who stands out, and one table of all.
. "$SRC/tests/tap.sh"

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
  bad 'no --refresh' diff --hosts empty empty
  # A host that cannot be read is named, the others are analysed, and the exit code says so.
  host a 20 10
  host b 20 10
  mkdir hosts/broken
  bad 'broken' cputop --hosts hosts
  grep -q '^broken  *not analysed$' out
  grep -q '^worker  *20.00 %  *20.00 %  *-$' out
  grep -q 'fewer than three hosts have none' out
}

t_case "hosts are compared, and who stands out is named" test_compare
t_case "one table of all hosts" test_merge
t_case "mistakes are one line, and a broken host does not hide the others" test_mistakes
t_done
