#!/bin/bash
# SPDX-License-Identifier: MIT
# The analysis of requests, on traces made by hand with known answers, and on random ones: the parts of a
# request sum up to its duration.
. "$SRC/tests/tap.sh"

mk() {
  python3 "$SRC/tests/mktrace" trace
}

run() {
  "$RUTILE" requests --skip-validation --no-intersection --gmt "$@" trace
}

# json PYTHON: with rows(CLASS): a dictionary of each row by the names of its columns
json() {
  "$RUTILE" requests --metadata >metadata.json
  python3 -c '
import json, sys
results = json.load(sys.stdin)["results"]
classes = json.load(open("metadata.json"))["table-classes"]
def val(c):
    if not isinstance(c, dict):
        return c
    return c.get("value", c.get("path", c.get("tid", c.get("pid"))))
KEYS = {"requests": "route count errors running p50 p95 p99 max total".split(),
        "slow-requests": "range route path process duration status error running trace request_id cause explanation".split()}
PLACES = "ruby system gc interrupts gvl run_queue throttled disk network pipe lock sleep child page_fault stopped fiber other unknown".split()
def rows(name):
    keys = KEYS[name] + PLACES
    return [dict(zip(keys, [val(c) for c in r])) for t in results if t["class"] == name for r in t["data"]]
def parts(r):
    return {p: r[p] for p in PLACES if r[p]}
'"$1"
}

NAMES='env vpid=10
100 7 ruby:method id=0 line=3 singleton=0 native=0 class=Shop method=index path=/srv/shop.rb
100 7 ruby:method id=1 line=9 singleton=0 native=0 class=Order method=total path=/srv/order.rb
100 7 ruby:method id=2 line=9 singleton=0 native=0 class=http method="" path=""
100 7 ruby:method id=3 line=9 singleton=0 native=0 class=sql method="" path=""'
IDLE='prev_comm=swapper/0 prev_tid=0 prev_prio=20 prev_state=0'
in_() { echo "$1 $2 sched_switch $IDLE next_comm=puma next_tid=11 next_prio=20"; }
out() { echo "$1 $2 sched_switch prev_comm=puma prev_tid=11 prev_prio=20 prev_state=$3 next_comm=swapper/0 next_tid=0 next_prio=20"; }
wake() { echo "$1 $2 sched_waking comm=puma tid=11 prio=20 target_cpu=0"; }

# One request of 9,000 ns with every part, of known length.
known_parts() {
  mk <<TRACE
$NAMES
$(in_ 900 0)
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
2_000 0 syscall_entry_connect fd=5 family=2 v4addr=[10,0,0,1] dport=5432
2_100 0 syscall_exit_connect ret=0
2_200 0 syscall_entry_read fd=5 buf=1 count=1
$(out 2_300 0 1)
$(wake 3_000 1)
$(in_ 3_200 0)
3_300 0 syscall_exit_read ret=1
4_000 0 irq_handler_entry irq=4 name=eth0
4_250 0 irq_handler_exit irq=4 ret=1
4_500 7 ruby:gc_enter a=1
5_000 7 ruby:gc_exit a=1
5_100 7 ruby:gvl_wait tid=11
5_110 0 syscall_entry_futex uaddr=99 op=0 utime=0
$(out 5_150 0 1)
$(wake 5_800 1)
$(in_ 5_900 0)
5_950 0 syscall_exit_futex ret=0
6_000 7 ruby:gvl_have tid=11
$(out 6_500 0 0)
$(in_ 6_700 0)
7_000 0 syscall_entry_clock_nanosleep clockid=1
$(out 7_010 0 1)
$(wake 8_000 0)
$(in_ 8_040 0)
8_050 0 syscall_exit_clock_nanosleep ret=0
$(out 8_100 0 2)
$(wake 8_600 0)
$(in_ 8_650 0)
8_700 0 syscall_entry_fsync fd=9
$(out 8_710 0 4)
$(wake 8_800 0)
$(in_ 8_800 0)
8_900 0 syscall_exit_fsync ret=0
10_000 7 ruby:return method=0
TRACE
  run --request 'Shop#*' --slowest 1 --mi | json '
r = rows("requests")[0]
assert (r["route"], r["count"], r["max"]) == ("Shop#index", 1, 9000), r
want = {"network": 700, "gc": 500, "interrupts": 250, "sleep": 990, "page_fault": 500, "stopped": 90,
        "run_queue": 200 + 100 + 200 + 40 + 50,
        "gvl": 50 + 650 + 100,
        "system": 200 + 100 + 10 + 10 + 10 + 100}
want["ruby"] = 9000 - sum(want.values())
assert parts(r) == want, (parts(r), want)
assert parts(rows("slow-requests")[0]) == want'
}

# A fiber that waits is not charged with what the other one does.
known_fibers() {
  mk <<TRACE
$NAMES
$(in_ 900 0)
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
2_000 7 ruby:switch tid=11 fiber=2
2_000 7 ruby:call method=1
3_000 7 ruby:switch tid=11 fiber=1
4_000 7 ruby:return method=0
4_500 7 ruby:switch tid=11 fiber=2
6_000 7 ruby:return method=1
TRACE
  run --request '*' --mi | json '
got = {r["route"]: parts(r) for r in rows("requests")}
assert got == {"Shop#index": {"ruby": 2000, "fiber": 1000}, "Order#total": {"ruby": 2500, "fiber": 1500}}, got'
}

# Events of requests and spans: routes, errors, layers, what has not ended.
known_requests() {
  mk <<TRACE
$NAMES
$(in_ 900 0)
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:request_begin id=1 kind=2 method=0 verb=GET path=/items/17 traceparent=00-abc x_request_id=r1
1_500 7 ruby:span_begin layer=3 method=1 caller=0 depth=0 detail="SELECT ?"
2_500 7 ruby:span_end layer=3 method=1 depth=0 detail="" error=""
3_000 7 ruby:request_end id=1 kind=2 method=0 status=500 bytes=3 verb=GET path=/items/17 route="" traceparent=00-abc x_request_id=r1 error=Oops
4_000 7 ruby:request_begin id=2 kind=2 method=0 verb=GET path=/items/18 traceparent="" x_request_id=""
5_000 7 ruby:request_end id=2 kind=2 method=0 status=200 bytes=3 verb=GET path=/items/18 route="" traceparent="" x_request_id="" error=""
6_000 7 ruby:request_begin id=3 kind=2 method=0 verb=POST path=/ traceparent="" x_request_id=""
9_000 0 last a=1
TRACE
  run --slowest 3 --mi >out.json
  json '
got = {r["route"]: (r["count"], r["errors"], r["running"], r["total"]) for r in rows("requests")}
assert got == {"GET /items/:id": (2, 1, 0, 3000), "POST /": (0, 0, 1, 0)}, got
slow = [(r["path"], r["duration"], r["status"], r["error"], r["running"], r["trace"], r["request_id"]) for r in rows("slow-requests")]
assert slow == [("/", 3000, 0, "", True, "", ""), ("/items/17", 2000, 500, "Oops", False, "00-abc", "r1"),
                ("/items/18", 1000, 200, "", False, "", "")], slow' <out.json
  # One route, by its name or by a glob.
  for glob in 'GET /items/:id' 'GET *'; do
    run --route "$glob" --slowest 3 --mi >out.json
    json '
assert [r["route"] for r in rows("requests")] == ["GET /items/:id"]
assert [r["path"] for r in rows("slow-requests")] == ["/items/17", "/items/18"]' <out.json
  done
  run --route 'GET /items/17' --mi >out.json
  json 'assert not rows("requests")' <out.json
  run >out
  grep -qE 'GET /items/:id +2 +1 ' out
  grep -qE '; 1 running$' out
  grep -qE 'GET /items/:id +sql +1 +1.00 us +1.00 us$' out
}

# The name of a layer may come after the first span of it.
late_names() {
  mk <<TRACE
env vpid=10
$(in_ 900 0)
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:request_begin id=1 kind=2 method=0 verb=GET path=/ traceparent="" x_request_id=""
1_500 7 ruby:span_begin layer=3 method=1 caller=0 depth=0 detail="SELECT ?"
2_500 7 ruby:span_end layer=3 method=1 depth=0 detail="" error=""
3_000 7 ruby:request_end id=1 kind=2 method=0 status=200 bytes=3 verb=GET path=/ route="" traceparent="" x_request_id="" error=""
4_000 7 ruby:method id=3 line=9 singleton=0 native=0 class=sql method="" path=""
5_000 7 ruby:request_begin id=2 kind=2 method=0 verb=GET path=/ traceparent="" x_request_id=""
5_500 7 ruby:span_begin layer=3 method=1 caller=0 depth=0 detail="SELECT ?"
6_500 7 ruby:span_end layer=3 method=1 depth=0 detail="" error=""
7_000 7 ruby:request_end id=2 kind=2 method=0 status=200 bytes=3 verb=GET path=/ route="" traceparent="" x_request_id="" error=""
TRACE
  run >out
  cat out
  grep -qE 'GET / +sql +2 +2.00 us +2.00 us$' out
  not grep -q 'method 3' out
}

# Equal queries are one line, and the sentence names them; a peer on this machine is named with what it did.
known_explanation() {
  {
    echo "$NAMES"
    in_ 900 0
    echo '1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:request_begin id=1 kind=2 method=0 verb=GET path=/a traceparent="" x_request_id=""'
    for i in $(seq 12); do
      t=$((i * 10000))
      cat <<TRACE
$((t)) 7 ruby:span_begin layer=3 method=1 caller=0 depth=0 detail="SELECT ? FROM t"
$((t + 100)) 0 syscall_entry_connect fd=5 family=2 v4addr=[127,0,0,1] dport=5432
$((t + 110)) 0 syscall_exit_connect ret=0
$((t + 200)) 0 syscall_entry_read fd=5 buf=1 count=1
$(out $((t + 300)) 0 1)
$((t + 400)) 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=postgres next_tid=50 next_prio=20
$((t + 7900)) 1 syscall_entry_sendto fd=7
$(wake $((t + 8000)) 1)
$((t + 8010)) 1 syscall_exit_sendto ret=7
$((t + 8020)) 1 sched_switch prev_comm=postgres prev_tid=50 prev_prio=20 prev_state=1 next_comm=swapper/1 next_tid=0 next_prio=20
$(in_ $((t + 8100)) 0)
$((t + 8200)) 0 syscall_exit_read ret=1
$((t + 9000)) 7 ruby:span_end layer=3 method=1 depth=0 detail="" error=""
TRACE
    done
    echo '150_000 7 ruby:request_end id=1 kind=2 method=0 status=200 bytes=3 verb=GET path=/a route="a#b" traceparent="" x_request_id="" error=""'
  } | mk
  run --explain >out
  cat out
  # shellcheck disable=SC2016 # a method's name
  grep -qF 'This request took 149 us because `Shop#index` asked for `SELECT ? FROM t` 12 times (9.00 us each, 108 us in all); 92.4 us went by waiting for 127.0.0.1:5432 in read(), which postgres (50) ended; it was running meanwhile' out
  grep -qE '^ +108 us  12 x sql: SELECT \? FROM t, 9.00 us each  \(from Shop#index\)$' out
  grep -qE '^ +94.8 us    12 x read\(\) 127.0.0.1:5432, waiting for the network, 7.90 us each$' out
  grep -qE '<- postgres \(50\), 92.4 us: running 99 %' out
  run --explain --json >lines
  python3 - <<'PYTHON'
import json
lines = [json.loads(line) for line in open("lines")]
assert [l["type"] for l in lines] == ["route", "request"], lines
route, request = lines
assert route["route"] == "a#b" and route["count"] == 1 and route["sum_ns"] == 149000
assert sum(request["parts"].values()) == request["duration_ns"] == 149000
assert request["cause"] == "n+1" and request["explanation"].startswith("This request took"), request
span = next(c for c in request["tree"]["children"] if c["kind"] == "span")
assert (span["layer"], span["detail"], span["count"], span["caller"]) == ("sql", "SELECT ? FROM t", 12, "Shop#index"), span
read = next(c for c in span["children"] if c.get("name") == "read")
assert read["place"] == "network" and read["object"] == "127.0.0.1:5432" and read["for"][0]["name"] == "postgres (50)", read
PYTHON
  run --explain --mi | json '
r = rows("slow-requests")[0]
assert r["cause"] == "n+1" and r["explanation"].startswith("This request took 149 us"), r'
}

# Random traces: whatever happens in whatever order, the parts are not negative and sum up exactly.
property() {
  for seed in $(seq 12); do
    rm -rf trace
    python3 "$SRC/tests/cli/requests_random.py" "$seed" | mk
    run --request '*' --slowest 100 --explain --mi | json '
slow = rows("slow-requests")
for r in slow + rows("requests"):
    whole = r["duration"] if "duration" in r else r["total"]
    assert sum(r[p] for p in PLACES) == whole, r
    assert all(r[p] >= 0 for p in PLACES), r
assert len(slow) > 5, len(slow)'
  done
}

# A lock that was refused and is asked for again after a sleep; an unanswered connection, whose SYN is sent again; a disk that a
# thread of the kernel serves for another process.
known_causes() {
  mk <<TRACE
$NAMES
$(in_ 900 0)
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
1_100 0 syscall_entry_openat dfd=-100 filename=/srv/shop.db flags=2
1_110 0 syscall_exit_openat ret=8
1_120 0 syscall_entry_fcntl fd=8 cmd=6 arg=1
1_130 0 syscall_exit_fcntl ret=-11
1_200 0 syscall_entry_clock_nanosleep clockid=1
$(out 1_210 0 1)
$(wake 2_200 1)
$(in_ 2_210 0)
2_220 0 syscall_exit_clock_nanosleep ret=0
2_230 0 syscall_entry_fcntl fd=8 cmd=6 arg=1
2_240 0 syscall_exit_fcntl ret=0
2_400 0 syscall_entry_clock_nanosleep clockid=1
$(out 2_410 0 1)
$(wake 2_500 1)
$(in_ 2_500 0)
2_510 0 syscall_exit_clock_nanosleep ret=0
2_900 7 ruby:return method=0
3_000 7 ruby:call method=0
3_100 0 syscall_entry_connect fd=5 family=2 v4addr=[10,0,0,1] dport=5432
$(out 3_110 0 1)
3_500 1 tcp_retransmit_skb family=2 sport=50000 dport=5432 saddr=[10,0,0,9] daddr=[10,0,0,1] saddr_v6=[0,0,0,0,0,0,0,0] daddr_v6=[0,0,0,0,0,0,0,0]
$(wake 4_000 1)
$(in_ 4_000 0)
4_010 0 syscall_exit_connect ret=-110
4_100 7 ruby:return method=0
5_000 7 ruby:call method=0
5_100 0 syscall_entry_fsync fd=8
5_105 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=backup next_tid=70 next_prio=20
5_110 1 sched_switch prev_comm=backup prev_tid=70 prev_prio=20 prev_state=1 next_comm=kworker/1:2H next_tid=60 next_prio=20
5_115 1 block_rq_insert dev=8 sector=800 nr_sector=8 tid=70 rwbs=1
5_120 1 block_rq_issue dev=8 sector=800 nr_sector=8 tid=60 rwbs=1
$(out 5_130 0 2)
5_900 1 block_rq_complete dev=8 sector=800 nr_sector=8 error=0 rwbs=1
$(wake 6_000 1)
$(in_ 6_000 0)
6_010 0 syscall_exit_fsync ret=0
6_100 7 ruby:return method=0
TRACE
  run --request 'Shop#*' --slowest 3 --explain >out
  cat out
  grep -q '990 ns went by waiting for a lock on /srv/shop.db' out
  grep -q 'sleep 4.7 %' out
  grep -q '890 ns went by waiting for a connection to 10.0.0.1:5432 in connect(); 1 lost segment of TCP was sent again meanwhile' out
  grep -q '870 ns went by waiting for a disk in fsync() of /srv/shop.db that backup (70) kept busy' out
}

# Before Ruby 3.2: the thread that gave the GVL away is preempted by the one that it woke, before it waits itself.
known_gvl() {
  mk <<TRACE
$NAMES
200 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=puma next_tid=12 next_prio=20
300 7 ruby:switch tid=12 fiber=2
400 1 sched_switch prev_comm=puma prev_tid=12 prev_prio=20 prev_state=1 next_comm=swapper/1 next_tid=0 next_prio=20
$(in_ 500 0)
600 7 ruby:switch tid=11 fiber=1
$(out 700 0 1)
$(in_ 900 0)
1_000 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
1_100 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=puma next_tid=12 next_prio=20
1_300 0 syscall_entry_futex uaddr=99 op=0 utime=0
$(out 1_310 0 1)
5_000 1 syscall_entry_futex uaddr=99 op=1 utime=0
$(wake 5_010 1)
5_020 1 syscall_exit_futex ret=1
5_030 1 sched_switch prev_comm=puma prev_tid=12 prev_prio=20 prev_state=0 next_comm=puma next_tid=11 next_prio=20
5_040 1 syscall_exit_futex ret=0
5_500 7 ruby:return method=0
TRACE
  run --request 'Shop#*' --slowest 1 --mi | json '
assert parts(rows("requests")[0]).get("gvl") == 3700, parts(rows("requests")[0])'
}

# Before Ruby 3.2: a thread sleeps while another one computes. The timer's interrupt comes while `find` is in a system call, or exits.
known_sleep() {
  for end in '3_500 0 syscall_entry_read fd=3 buf=1 count=1' '3_500 0 syscall_entry_exit_group error_code=0
3_600 0 sched_process_exit comm=find tid=50 prio=20'; do
    rm -rf trace
    mk <<TRACE
$NAMES
200 1 sched_switch prev_comm=swapper/1 prev_tid=0 prev_prio=20 prev_state=0 next_comm=puma next_tid=12 next_prio=20
300 7 ruby:switch tid=12 fiber=2
$(in_ 500 0)
550 0 syscall_entry_ppoll nfds=0
560 0 syscall_exit_ppoll ret=1
600 7 ruby:switch tid=11 fiber=1
1_000 7 ruby:call method=0
1_300 0 syscall_entry_futex uaddr=99 op=137 utime=1
$(out 1_310 0 1)
2_000 0 sched_switch $IDLE next_comm=find next_tid=50 next_prio=20
$end
4_000 0 sched_waking comm=puma tid=11 prio=20 target_cpu=0
4_010 0 sched_switch prev_comm=find prev_tid=50 prev_prio=20 prev_state=256 next_comm=puma next_tid=11 next_prio=20
4_020 0 syscall_exit_futex ret=-110
4_500 7 ruby:return method=0
TRACE
    run --request 'Shop#*' --slowest 1 --explain --mi | json '
r = rows("slow-requests")[0]
assert parts(r).get("sleep") == 2690 and not {"gvl", "lock"} & set(parts(r)), parts(r)
assert "us went by sleeping, and" in r["explanation"], r["explanation"]'
  done
}

t_case 'a request is divided into its parts' known_parts
t_case 'a sleep is one while others compute and exit, too' known_sleep
t_case 'a wait for the GVL is one when its holder was preempted, too' known_gvl
t_case 'a fiber is not charged with the time of another' known_fibers
t_case 'requests have routes, errors, layers; those that have not ended are listed' known_requests
t_case 'the name of a layer may come after its first span' late_names
t_case 'the slowest requests are explained' known_explanation
t_case 'polled locks, lost segments and the owners of disk requests are named' known_causes
t_case 'the parts of requests sum up in random traces' property
t_done
