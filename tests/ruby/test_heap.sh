#!/bin/bash
# SPDX-License-Identifier: MIT
# `rutile heap`: what lives, beside ObjectSpace's own answers, and where what stays was made.
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"
pid=

DIR=$SRC/tests/ruby

# heap ARGUMENTS: into `got`. On a loaded machine loading the agent can be refused for a while.
heap() {
  for _ in $(seq 10); do
    if timeout 100 "$RUTILE" heap "$@" >got 2>err; then return 0; fi
    grep -qs 'try again' err || break
    sleep 0.5
  done
  cat err
  return 1
}

# The process of heap.rb; `ask [junk]` prints its facts.
start_known() {
  mkfifo in
  exec 7<>in
  start out "$RUBY" "$DIR/heap.rb" <in
}
ask() {
  n=$(grep -c '^{' out || :)
  echo "${1-}" >&7
  answered() { [ "$(grep -c '^{' out)" -gt "$n" ]; }
  t_wait answered
  tail -n 1 out
}

# Nothing is collected meanwhile, so what the process counts before and after has the look between it.
classes_are_those_of_objectspace() {
  start_known
  ask >before
  heap --json "$pid"
  ask >after
  python3 - <<'PY'
import json
before, after = (json.load(open(f)) for f in ("before", "after"))
rows = {}
for line in open("got"):
    r = json.loads(line)
    assert r["class"] not in rows, r
    rows[r["class"]] = r
thing, sub = rows["Thing"], rows["Sub"]
assert thing["count"] == before["things"] == 12345 + 50, thing
assert thing["bytes"] == before["thing_bytes"], (thing, before)
assert thing["old"] == thing["count"], thing
assert sub["count"] == before["subs"] == 321, sub
nameless = [r for c, r in rows.items() if c.startswith("#<Class:0x")]
assert [r["count"] for r in nameless if r["count"] == 77], nameless
for name, count, bytes in ("String", "strings", "string_bytes"), ("Class", "classes", None):
    r = rows[name]
    assert before[count] <= r["count"] <= after[count], (r, before, after)
    if bytes:
        assert before["text_bytes"] < before[bytes] <= r["bytes"] <= after[bytes], (r, before, after)
total = sum(r["count"] for r in rows.values())
assert before["objects"] <= total <= after["objects"], (total, before, after)
PY
}

# Without a collection garbage is there, and not old; --gc collects it, though the process has the GC off, too.
garbage_is_counted_unless_it_is_collected() {
  start_known
  ask junk >before
  heap --json "$pid"
  python3 -c '
import json
r = [json.loads(l) for l in open("got")]
junk = [x for x in r if x["class"] == "Junk"][0]
assert junk["count"] == 5000 and junk["old"] == 0, junk'
  heap --json --gc "$pid"
  # One may be left in a register or on the stack.
  python3 -c '
import json
r = [json.loads(l) for l in open("got")]
assert sum(x["count"] for x in r if x["class"] == "Junk") < 50
assert [x["count"] for x in r if x["class"] == "Thing"] == [12395]'
}

# a_look_finds FILE: the last complete look has the leak first.
a_look_finds() {
  python3 - "$1" <<'PY'
import json, sys
looks = {}
for line in open(sys.argv[1]):
    if not line.endswith("\n"):
        break
    r = json.loads(line)
    looks.setdefault(r["look"], []).append(r)
for rows in list(looks.values())[:-1]:
    if len(rows) < 2:
        continue
    first = rows[0]
    session = [r for r in rows if r["class"] == "Session" and r["grew_count"] > 0]
    if (first["class"], first["line"], first["file"].endswith("leak.rb")) == ("String", 5, True) and session and \
       first["generations"] >= 3 and first["grew_old"] > 100 and first["count"] >= first["grew_count"] and \
       session[0]["line"] == 15 and session[0]["count"] <= session[0]["born"]:
        sys.exit(0)
sys.exit(1)
PY
}

the_line_that_leaks_is_first() {
  start out "$RUBY" "$DIR/leak.rb"
  target=$pid
  "$RUTILE" heap --interval 300ms --json -n 10 "$target" >looks 2>err &
  tracer=$!
  pids="$pids $tracer"
  t_wait a_look_finds looks || { tail -n 30 looks err; return 1; }
  kill "$tracer"
  wait "$tracer"
  # Each object of a line was made by it: no more live than were made.
  python3 -c '
import json
for line in open("looks"):
    r = json.loads(line)
    assert not r["file"] or r["count"] <= r["born"], r
    assert r["old"] <= r["count"] and r["old_bytes"] <= r["bytes"], r'
  # The process has no hook left, and continues.
  heap --json "$target"
  grep -q '"class":"Session"' got
}

a_command_is_looked_at() {
  cat >kept.rb <<'RUBY'
class Thing; end
KEPT = []
2000.times { KEPT << Thing.new }
puts "made"
sleep 0.02 until File.exist?("stop")
exit 3
RUBY
  "$RUTILE" heap --interval 300ms --json -o looks -- "$RUBY" --disable-gems kept.rb >out 2>err &
  tracer=$!
  pids="$pids $tracer"
  trap kill_started EXIT
  # All of them were made while it was watched.
  t_wait grep -q '"line":3,"class":"Thing","count":2000,.*"born":2000,' looks || { cat looks err; return 1; }
  touch stop
  rc=0
  wait "$tracer" || rc=$?
  [ "$rc" = 3 ] || { cat err; return 1; }
  grep -q made out
  rc=0
  "$RUTILE" heap -- true 2>err || rc=$?
  [ "$rc" = 2 ]
  rc=0
  "$RUTILE" heap --diff 100ms -- true 2>err || rc=$?
  [ "$rc" = 1 ]
  grep 'has ended, or is not Ruby' err
}

workers_are_added_up() {
  start out "$RUBY" "$DIR/leak.rb" 2
  # Children that have only just been forked are given time to execute something else.
  all_seen() { heap "$pid" && grep -q ' 3 processes' got; }
  t_wait all_seen
  all_grow() { heap --diff 1s --by class "$pid" && grep -q ' 3 processes$' got && grep -Eq '^ *Session +[+][0-9]+' got; }
  t_wait all_grow
}

# `--interval` lasts until the target ends; that is no error.
looks_end_with_the_target() {
  start out "$RUBY" "$DIR/leak.rb"
  "$RUTILE" heap --interval 200ms --json -n 10 "$pid" >looks 2>err &
  tracer=$!
  pids="$pids $tracer"
  t_wait test -s looks
  kill -KILL "$pid"
  rc=0
  wait "$tracer" || rc=$?
  cat err
  [ "$rc" = 0 ]
}

# While several ractors run nothing is counted; when they have ended it is possible again.
ractors_are_refused() {
  "$RUBY" -e 'exit(defined?(Ractor) ? 0 : 1)' || t_skip "this Ruby has no ractors"
  cat >ractors.rb <<'RUBY'
class Kept; end
KEPT = Array.new(100) { Kept.new }
start = -> { Ractor.new { nil until Ractor.receive == :end } }
other = start.call
puts "ready"
$stdout.flush
while $stdin.gets
  if other
    other.send(:end)
    other.respond_to?(:value) ? other.value : other.take
    other = nil
    sleep 0.01 while Ractor.count > 1
    puts "alone"
  else
    other = start.call
    puts "several"
  end
  $stdout.flush
end
RUBY
  mkfifo in
  exec 7<>in
  start out "$RUBY" -W0 ractors.rb <in
  refused() {
    rc=0
    timeout 100 "$RUTILE" heap "$@" "$pid" >got 2>err || rc=$?
    cat err
    [ "$rc" != 0 ] && grep -q 'several ractors' err && [ ! -s got ]
  }
  t_wait refused
  t_wait refused --diff 50ms
  echo >&7
  t_wait grep -q alone out
  heap --json "$pid"
  grep -q '"class":"Kept".*"count":100,' got || { grep Kept got; return 1; }
  "$RUTILE" heap --interval 100ms "$pid" >looks 2>err &
  tracer=$!
  pids="$pids $tracer"
  t_wait test -s looks
  echo >&7
  t_wait grep -q several out
  rc=0
  wait "$tracer" || rc=$?
  cat err
  [ "$rc" != 0 ]
  grep -q 'several ractors' err
}

# GC.compact moves objects between the looks: each is counted once, lines that were noted before are dropped, and what is
# made afterwards has its line again.
moved_objects_are_counted_once() {
  "$RUBY" -e 'GC.compact' 2>/dev/null || t_skip "this Ruby cannot compact"
  cat >moves.rb <<'RUBY'
class Kept; def initialize; @a = "x" * 100; end; end
kept = Array.new(5000) { Kept.new }
loose = Array.new(50_000) { Object.new }
loose = loose.each_slice(7).map(&:first) # holes, into which others move
new = []
$stdout.sync = true
puts "ready"
while $stdin.gets
  500.times { new << Kept.new }
  GC.compact
  puts "compacted #{kept.size + new.size}"
end
RUBY
  mkfifo in
  exec 7<>in
  start out "$RUBY" moves.rb <in
  "$RUTILE" heap --interval 200ms --by class -n 0 "$pid" >looks 2>err &
  tracer=$!
  pids="$pids $tracer"
  # Two looks: the first one is over.
  t_wait grep -q '^heap: ' looks
  for round in 1 2 3; do
    echo >&7
    counted() { grep -Eq "^ *Kept +[+]$((500 * round)) +[+][0-9]+ +$((5000 + 500 * round)) " looks; }
    t_wait counted || { grep Kept looks | tail -3; return 1; }
  done
  kill "$tracer"
  wait "$tracer"
  cat err
  grep -q 'the heap was compacted' err
  # While some were being made a count may have found a part of them, but never more than there are.
  awk '$1 == "Kept" && $4 > 6500 { exit 1 }' looks
  heap --json "$pid"
  grep -q '"class":"Kept","count":6500,' got
}

# The process of retained.rb; its heap goes into `dump`.
start_holders() {
  mkfifo in
  exec 7<>in
  start out "$RUBY" "$DIR/retained.rb" <in
}
dump() {
  n=$(grep -c dumped out || :)
  echo "${1-}" >&7
  dumped() { [ "$(grep -c dumped out)" -gt "$n" ]; }
  t_wait dumped
}

# What each object holds, beside what cannot be reached any more without it, by the dump of a copy of the process. Of the
# structures of the program to the byte; of class Object, which has all of them and Ruby's own, to a hundredth: the dump has made
# some objects, and leaves out some references between Ruby's own.
what_is_retained_is_lost_without_it() {
  start_holders
  dump
  heap --retained --json --limit 100 "$pid"
  python3 - <<'PY'
import json
refs, size, kind, roots = {}, {}, {}, []
for line in open("dump"):
    o = json.loads(line)
    if o["type"] == "ROOT":
        roots += o.get("references", [])
        continue
    a = o["address"]
    kind[a] = o["type"]
    size[a] = o.get("memsize", 40)
    refs[a] = [] if o.get("imemo_type") == "constcache" else o.get("references", []) + ([] if o["type"] == "IMEMO" else [o.get("class")]) # of a call cache: weak
def reach(without):
    seen, todo = set(), [r for r in roots if r != without and r in refs]
    while todo:
        a = todo.pop()
        if a in seen: continue
        seen.add(a)
        todo += [r for r in refs[a] if r not in seen and r != without and r in refs]
    return seen
everything = reach(None)
rows = [json.loads(l) for l in open("got")]
found = {}
assert [r for r in rows if r["class_name"] == "Object"], rows
for r in rows:
    a = r["address"]
    if a not in refs: # Ruby 2.7 leaves out what it hides from programs
        assert r["class"].startswith("(hidden"), r
        continue
    lost = everything - reach(a)
    bytes = sum(size[x] for x in lost)
    found[r["name"] or r["class"]] = r
    own = r["class"] in ("Cache", "Hash", "Array", "Link", "Session", "Ring", "Pair") and r["retained"] > 50_000
    if own and r["class_name"] is None and r.get("root") != "stack":
        assert (r["retained"], r["retained_objects"]) == (bytes, len(lost)), (r, bytes, len(lost))
    elif r["class_name"] == "Object":
        assert abs(r["retained"] - bytes) <= 0.01 * bytes, (r, bytes)
# By the names that the program has for them.
held = [(r["name"], r["class"], r.get("root"), r["retained"]) for r in rows]
assert {"CACHE", "@entries", "LIST", "RING", "SHARED", "PAIR"} <= set(found), (held, open("err").read())
assert found["CACHE"]["class"] == "Cache" and found["CACHE"]["retained"] > 20_000_000, found["CACHE"]
assert found["@entries"]["class"] == "Hash" and rows[found["@entries"]["holder"]]["name"] == "CACHE"
assert found["LIST"]["chain"] > 4000 and found["LIST"]["retained_objects"] == 10_000, found["LIST"]
assert found["RING"]["retained_objects"] == 4, found["RING"]
# Neither of the two arrays holds the sessions, the array of both does.
assert found["SHARED"]["retained"] > 1_150_000, found["SHARED"]
assert [r for r in rows if r["class"] == "Array" and r.get("root") == "global variable" and r["retained_objects"] == 60_001], rows
assert found["PAIR"]["class"] == "Pair" and found["PAIR"]["retained"] > 70_000
PY
}

# All objects of a class at once, and of a line.
groups_are_lost_together() {
  start_holders
  "$RUTILE" heap --retained --watch 6s --by line --json "$pid" >lines 2>err &
  tracer=$!
  pids="$pids $tracer"
  sleep 2 # the command has no way to say that it notes lines now; on a busy machine more is noted later
  dump more
  wait "$tracer" || { cat err; return 1; }
  heap --retained --by class --json "$pid"
  dump
  python3 - <<'PY'
import json
refs, size, cls, roots, names = {}, {}, {}, [], {}
for line in open("dump"):
    o = json.loads(line)
    if o["type"] == "ROOT":
        roots += o.get("references", [])
        continue
    a = o["address"]
    size[a] = o.get("memsize", 40)
    cls[a] = o.get("class") if o["type"] != "IMEMO" else None # a cache of calls has one, too
    if o["type"] == "CLASS": names[o.get("name")] = a
    refs[a] = [] if o.get("imemo_type") == "constcache" else o.get("references", []) + ([] if o["type"] == "IMEMO" else [o.get("class")]) # of a call cache: weak
def reach(without):
    seen, todo = set(), [r for r in roots if r not in without and r in refs]
    while todo:
        a = todo.pop()
        if a in seen: continue
        seen.add(a)
        todo += [r for r in refs[a] if r not in seen and r not in without and r in refs]
    return seen
everything = reach(set())
rows = {r["class"]: r for r in map(json.loads, open("got"))}
for name in "Session", "Link", "Ring", "Cache":
    group = {a for a in everything if cls[a] == names[name]}
    lost = everything - reach(group)
    r = rows[name]
    assert (r["retained"], r["retained_objects"], r["count"]) == (sum(size[a] for a in lost), len(lost), len(group)), (name, r, len(lost))
lines = [json.loads(l) for l in open("lines")]
more = [r for r in lines if r["class"] == "Session" and (r["file"] or "").endswith("retained.rb")]
# 2,000 sessions and their texts of 501 bytes, which Ruby 3.3 has in slots of 640; the text "seen" of each, too.
assert len(more) == 1 and more[0]["count"] == 2000 and 2000 * 580 < more[0]["retained"] <= 2000 * 720, more
PY
}

# Processes of a tree one after the other; options that do not go together are refused.
each_process_has_its_table() {
  start out "$RUBY" "$DIR/leak.rb" 2
  all_seen() { heap --retained --limit 3 "$pid" && [ "$(grep -c '^heap of process' got)" = 3 ]; }
  t_wait all_seen
  cat got
  for words in "--diff 1s" "--sort bytes" "--by line" "--limit 0" "--limit 10001" "--limit 18446744073709551615"; do
    rc=0
    # shellcheck disable=SC2086 # they are words
    "$RUTILE" heap --retained $words "$pid" 2>err || rc=$?
    [ "$rc" = 2 ] || { echo "$words: $rc"; return 1; }
  done
  rc=0
  "$RUTILE" heap --watch 1s "$pid" 2>err || rc=$?
  [ "$rc" = 2 ]
  rc=0
  "$RUTILE" heap --retained "$pid" >/dev/full 2>err || rc=$?
  [ "$rc" = 1 ]
  [ "$(grep -c 'cannot write' err)" = 1 ]
  not grep 'left out' err
}

# Anonymous memory in KiB, mappings, descriptors.
footprint() {
  echo "$(awk '/^RssAnon/ { print $2 }' "/proc/$1/status") $(wc -l <"/proc/$1/maps") $(find "/proc/$1/fd" -mindepth 1 | wc -l)"
}

# Each look with its notes needs memory of the process, and gives all of it back.
nothing_stays_in_the_process() {
  cat >flat.rb <<'RUBY'
KEPT = Array.new(10_000) { |i| "text #{i}" }
puts "ready"
$stdout.flush
loop { 1000.times { "x" * 50 } && sleep(0.005) }
RUBY
  start out "$RUBY" flat.rb
  look() { heap --diff 50ms "$pid" && heap --retained "$pid"; }
  for _ in 1 2 3 4 5; do look; done
  read -r rss maps fds <<<"$(footprint "$pid")"
  for _ in $(seq 15); do look; done
  echo "$rss $maps $fds, then $(footprint "$pid")"
  # The hooks are removed after the tracer's exit: the last session may still be ending.
  as_before() {
    read -r rss_now maps_now fds_now <<<"$(footprint "$pid")"
    [ "$rss_now" -lt $((rss + 1024)) ] || return 1
    [ "$maps_now" -le $((maps + 3)) ] || return 1
    [ "$fds_now" -le "$fds" ]
  }
  t_wait as_before
}

t_case "classes, counts and bytes are those of ObjectSpace" classes_are_those_of_objectspace
t_case "garbage is counted unless --gc collects it" garbage_is_counted_unless_it_is_collected
t_case "of two looks the line that leaks is first" the_line_that_leaks_is_first
t_case "a command is looked at from its first line on" a_command_is_looked_at
t_case "workers are added up" workers_are_added_up
t_case "looks end with the target" looks_end_with_the_target
t_case "several ractors are refused" ractors_are_refused
t_case "moved objects are counted once" moved_objects_are_counted_once
t_case "what an object retains is lost without it" what_is_retained_is_lost_without_it
t_case "classes and lines are lost together" groups_are_lost_together
t_case "each process has its own table of holders" each_process_has_its_table
t_case "looks leave nothing behind in the process" nothing_stays_in_the_process
t_done
