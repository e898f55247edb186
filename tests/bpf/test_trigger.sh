#!/bin/bash
# SPDX-License-Identifier: MIT
# Triggers: what fires them, what they do, and that they keep to their limits.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

S=trig$$
export RUTILE_LOG_DIR=$t_root/log
t_clean() {
  for t in a b c; do "$RUTILE" trigger remove $S$t 2>/dev/null; done
  "$RUTILE" destroy $S 2>/dev/null
}
end() {
  t_clean
  rm -rf "$t_root"
}
trap end EXIT

# The snapshot has been taken, whole.
is_saved() {
  compgen -G "out/*/$S/kernel/metadata" >/dev/null && idle
}
# told N: so many lines are in the file that an action writes.
told() {
  [ "$(wc -l 2>/dev/null <told || echo 0)" = "$1" ]
}
field() { # NAME COLUMN
  "$RUTILE" trigger list | awk -v n="$1" -v c="$2" '$1 == n { print $c }'
}
is_field() {
  [ "$(field "$1" "$2")" = "$3" ]
}

# The named event alone fires it, the values are the kernel's, and the snapshot holds it.
test_event() {
  need_bpf
  cp /bin/true wanted
  cp /bin/true other
  "$RUTILE" start $S --flight -e sched_process_exit
  "$RUTILE" trigger add ${S}a --when 'event sched_process_exit if comm == "wanted"' --do "snapshot $S" --output "$PWD/out"
  ./other
  ./wanted &
  wait $!
  t_wait is_saved
  t_wait is_field ${S}a 2 1
  "$RUTILE" trigger remove ${S}a
  readers out >/dev/null
  grep -q "rutile_trigger: .*name = \"${S}a\".*comm.*wanted.*tid\\\\\":$!," bt2.out
  [ "$(grep -c 'rutile_trigger:' bt2.out)" = 1 ]
  grep -q "sched_process_exit.*comm = \"wanted\", tid = $!" bt2.out
  # The cause does not limit the time that analyses look at.
  begin() { "$RUTILE" cputop --no-progress "$@" 2>/dev/null | sed -n 's/^Timerange: \[\(.*\), .*/\1/p'; }
  [ "$(begin out/*)" = "$(begin out/*/$S)" ]
  "$RUTILE" destroy $S
}

# Firings that come while it acts, or too often, are counted, and nothing else.
test_limits() {
  "$RUTILE" trigger add ${S}a --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'" --burst 3/1h
  for i in $(seq 50); do
    "$RUTILE" trigger fire ${S}a number=$i
    [ "$i" -gt 3 ] || t_wait told "$i"
    [ "$i" -gt 3 ] || t_wait is_field ${S}a 4 0
    sleep 0.01
  done
  t_wait is_field ${S}a 3 47
  is_field ${S}a 2 3
  told 3
  [ "$(cat told)" = "number=1
number=2
number=3" ]
  "$RUTILE" trigger test ${S}a
  t_wait told 4
  # The right to fire it does not include ending it.
  chmod 666 /run/rutile/trigger/${S}a
  send() { setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/python3 -c 'import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), sys.argv[1])' /run/rutile/trigger/${S}a "$1"; }
  send test
  send end
  send "fire a=1"
  t_wait is_field ${S}a 3 48
  told 4
  "$RUTILE" trigger remove ${S}a
  [ -z "$(field ${S}a 1)" ]
  [ ! -e /run/rutile/trigger/${S}a ]
}

# What anyone may send to its socket: a thousand senders, garbage, messages that are too long, replayed, or carry descriptors, and
# senders that never read their answers. It stays small, looks for messages once a millisecond at most, and serves root meanwhile.
test_hostile() {
  need_bpf
  "$RUTILE" trigger add ${S}a --when fired --burst 1/1h --do "exec /bin/sh -c 'echo x >>$PWD/told'"
  chmod 666 /run/rutile/trigger/${S}a
  watcher=$(pgrep -f -x ".*rutile trigger add ${S}a .*")
  [ "$(wc -w <<<"$watcher")" = 1 ]
  cat >flood.py <<'EOF'
import array, os, random, socket, sys, time
path = sys.argv[1]
random.seed(1)
os.setgroups([]), os.setgid(65534), os.setuid(65534)
socks = []
for i in range(1000):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.setblocking(False)
    s.bind("")  # a name, so that it can get answers, which it does not read
    s.connect(path)
    socks.append(s)
fds = array.array("i", [s.fileno() for s in socks[:50]])
garbage = [b"", b"\0", b"fire" + b"x" * 100, b"firefire", b"test", b"end", b"status", b"\xff" * 300, b"stat"]
fires = [b"fire", b"fire why=" + b"A" * 60000, b"fire why=x\ny=z"]
sent = refused = 0
end = time.monotonic() + 6
print("begun", flush=True)
while time.monotonic() < end:
    # No firing in the first half: what fires nothing is paced as well.
    texts = garbage if end - time.monotonic() > 3 else garbage + fires
    for s in socks:
        t = random.choice(texts) if random.random() < .9 else os.urandom(random.randrange(2000))
        try:
            if random.random() < .1:
                s.sendmsg([t], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            else:
                s.send(t)
            sent += 1
        except OSError:
            refused += 1
print(sent, "sent", refused, "refused")
EOF
  anon() { sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$watcher/status"; }
  files() { find "/proc/$watcher/fd" -type l | wc -l; }
  "$RUTILE" trigger fire ${S}a why=first
  t_wait told 1
  t_wait is_field ${S}a 4 0
  # shellcheck disable=SC2016 # the script's own
  "$RUTILE" run -q -e 'begin { printf("counts\n"); } tracepoint:syscalls:sys_enter_recvmmsg { if (pid == $1) { @looks++; } }' "$watcher" >counted &
  counter=$!
  t_wait grep -q counts counted
  had=$(files) size=$(anon) begin=$(date +%s%N)
  /usr/bin/python3 flood.py "/run/rutile/trigger/${S}a" >flood.out &
  flood=$!
  t_wait test -s flood.out
  sleep 1
  # Root is served meanwhile: it answers, and takes root's test.
  "$RUTILE" trigger list | grep -q "${S}a"
  "$RUTILE" trigger test ${S}a
  t_wait told 2
  wait $flood
  took=$((($(date +%s%N) - begin) / 1000000))
  kill -INT $counter
  wait $counter
  looks=$(sed -n 's/^@looks: //p' counted)
  echo "$(tail -n 1 flood.out); $looks looks in $took ms; $(anon) KiB, before $size"
  [ "$(tail -n 1 flood.out | cut -d' ' -f1)" -gt 3000 ]
  # Those for root's own messages do not wait.
  [ "$looks" -gt 0 ]
  [ "$looks" -le $((took + 50)) ]
  [ "$(files)" = "$had" ]
  [ "$(anon)" -lt $((size + 1024)) ]
  # None of that was a test or an end; what fired was kept to its limit.
  told 2
  [ "$(field ${S}a 2)" = 2 ]
  # A process that is stopped, and whose queue is full: what asks for it ends, and says why.
  kill -STOP "$watcher"
  timeout 20 "$RUTILE" trigger list >list
  grep -q "^${S}a .*does not answer$" list
  python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setblocking(False)
try:
    while True: s.sendto(b"fire", sys.argv[1])
except BlockingIOError: pass' "/run/rutile/trigger/${S}a"
  for verb in fire test remove; do
    timeout 20 "$RUTILE" trigger $verb ${S}a 2>err && rc=0 || rc=$?
    [ $rc = 1 ]
    grep -q "has more messages waiting than it takes; this one is dropped" err
  done
  timeout 20 "$RUTILE" trigger list >list && rc=0 || rc=$?
  [ $rc = 0 ]
  grep -q "^${S}a .*has more messages waiting than it takes" list
  if grep 'has exited' list; then false; fi
  mkdir d
  echo "do = exec true" >d/${S}a.trigger
  timeout 20 "$RUTILE" service status --dir d >status && rc=0 || rc=$?
  [ $rc = 3 ]
  grep -q "^${S}a .*has more messages waiting than it takes" status
  kill -CONT "$watcher"
  t_wait is_field ${S}a 2 2
  "$RUTILE" trigger remove ${S}a
}

# A system call that lasts is seen before it is over.
test_slow() {
  need_bpf
  "$RUTILE" trigger add ${S}b --when 'slow clock_nanosleep > 300ms' --burst 1/1h \
    --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'"
  sleep 30 &
  t_wait told 1
  kill -0 $!
  grep -q '"lasts_ns":[0-9]\{9,\}' told
  grep -q "\"tid\":$!" told || echo "another program slept"
  kill $!
  "$RUTILE" trigger remove ${S}b
}

# A period of two events, while it lasts and when it is over; others that lack the name are not taken.
test_period() {
  need_bpf
  cp /bin/sleep dreams
  cat >dreams.periods <<'EOF'
short : $evt.$name == "syscall_entry_clock_nanosleep"
dream : $evt.$name == "syscall_entry_clock_nanosleep" && $evt.procname == "dreams"
	: $evt.$name == "syscall_exit_clock_nanosleep" && $evt.tid == $begin.$evt.tid
EOF
  "$RUTILE" trigger add ${S}b --burst 9/1s --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'" \
    --when "period $PWD/dreams.periods dream > 300ms"
  ./dreams 0.01
  sleep 0.4
  ./dreams 30 &
  t_wait told 1
  kill -0 $!
  jq -e ".lasts_ns >= 3e8 and .period == \"dream\" and .begin.stream_context.tid == $!" told
  kill $!
  "$RUTILE" trigger remove ${S}b
  # As a percentile it is seen when it is over.
  "$RUTILE" trigger add ${S}b --burst 9/1s --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/over'" \
    --when "period $PWD/dreams.periods dream > 100ms p50 per 1m"
  ./dreams 0.15
  [ ! -e over ]
  ./dreams 0.15
  t_wait test -s over
  jq -e '.lasted_ns >= 1e8' over
  "$RUTILE" trigger remove ${S}b
  # Those that are installed can be begun.
  for f in "$SRC"/share/rutile/periods/*.periods; do
    "$RUTILE" trigger add ${S}b --when "period $(basename "$f" .periods) > 1s" --do 'exec true'
    "$RUTILE" trigger remove ${S}b
  done
}

# A message to subscribers, and what the threads of the process do that the cause names.
test_publish() {
  port=$(free_port)
  cat >hook.py <<'EOF'
import http.server, sys
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open("got" if self.path == "/hook" else "else", "wb").write(body)
        self.send_response(204 if self.path == "/hook" else 500)
        self.end_headers()
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Hook).serve_forever()
EOF
  python3 hook.py "$port" &
  server=$!
  listens() { python3 -c "import socket; socket.create_connection(('127.0.0.1', $port))" 2>/dev/null; }
  t_wait listens
  sleep 60 &
  sleeper=$!
  asleep() { [ "$(cat /proc/$sleeper/comm)" = sleep ]; }
  t_wait asleep
  "$RUTILE" trigger add ${S}a --do stacks --do "publish http://127.0.0.1:$port/hook" --output "$PWD/out" --burst 9/1s
  "$RUTILE" trigger fire ${S}a "pid=$sleeper" 'why="x"'
  t_wait test -s got
  jq -e ".trigger == \"${S}a\" and .cause == \"pid=$sleeper why=\\\"x\\\"\" and (.snapshot | startswith(\"$PWD/out/${S}a-\"))" got
  threads=$(jq -r .snapshot got)/threads
  grep -qx "thread $sleeper" "$threads"
  grep -qx '  name sleep' "$threads"
  t_wait is_field ${S}a 2 1
  t_wait idle
  is_field ${S}a 4 0
  # Without a process, and with a server that refuses it: both are failures that the log names.
  "$RUTILE" trigger fire ${S}a uri=/pid=1
  t_wait is_field ${S}a 4 1
  "$RUTILE" trigger remove ${S}a
  "$RUTILE" trigger add ${S}a --do "publish http://127.0.0.1:$port/other"
  "$RUTILE" trigger fire ${S}a
  t_wait is_field ${S}a 4 1
  [ -e else ]
  "$RUTILE" trigger remove ${S}a
  kill $sleeper $server
}

# A percentile: two calls of ten take long, of which p90 may leave one. Others make this call rarely, and in no test that
# runs beside.
test_percentile() {
  need_bpf
  "$RUTILE" trigger add ${S}b --when 'slow semtimedop > 200ms p90 per 1m' --burst 9/1h \
    --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'"
  # It waits in vain for a semaphore.
  cat >calls.py <<'PY'
import ctypes, sys
libc = ctypes.CDLL(None)
semaphore = libc.semget(0, 1, 0o600)
for ms in sys.argv[1:]:
    libc.semtimedop(semaphore, (ctypes.c_short * 3)(0, -1, 0), 1, (ctypes.c_long * 2)(0, int(ms) * 1000000))
libc.semctl(semaphore, 0, 0)
PY
  python3 calls.py 1 1 1 1 250 1 1 1 1 1 1
  sleep 0.3
  told 0
  python3 calls.py 250
  t_wait told 1
  grep -q '"lasted_ns":[0-9]\{9\}' told
  "$RUTILE" trigger remove ${S}b
}

# Each burst of more than N fires once.
test_rate() {
  need_bpf
  cp /bin/true many
  "$RUTILE" trigger add ${S}c --when 'rate sched_process_exit if comm == "many" > 19 per 1m' --burst 9/1h \
    --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'"
  for i in $(seq 19); do ./many; done
  sleep 0.3
  told 0
  ./many
  t_wait told 1
  for i in $(seq 19); do ./many; done
  sleep 0.3
  told 1
  ./many
  t_wait told 2
  "$RUTILE" trigger remove ${S}c
}

# Deaths by signals, of the process that is named, and no others.
test_killed() {
  need_bpf
  cp /bin/sleep doomed
  cp /bin/sleep other
  "$RUTILE" trigger add ${S}a --when 'killed doom*' --burst 9/1s --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'"
  named() { [ "$(cat "/proc/$1/comm")" = "$2" ]; }
  ./other 60 &
  t_wait named $! other
  kill -ABRT $!
  wait $! || true
  ./doomed 0
  ./doomed x 2>/dev/null || true
  # A name that looks like the next line.
  python3 -c 'import ctypes, os
ctypes.CDLL(None).prctl(15, b"x\n1 9 0 0 doomA")
os.kill(os.getpid(), 9)' || true
  ./doomed 60 &
  t_wait named $! doomed
  kill -SEGV $!
  t_wait told 1
  grep -q "{\"pid\":$!,\"comm\":\"doomed\",\"signal\":\"SEGV\",\"core\":[a-z]*,\"out_of_memory\":false}" told
  [ "$(wc -l <told)" = 1 ]
  "$RUTILE" trigger remove ${S}a
}

# A thread that waits for a CPU: one of the class for idle times beside a busy one.
test_runqueue() {
  need_bpf
  cp "$(command -v bash)" starved
  "$RUTILE" trigger add ${S}a --when 'runqueue > 60ms' --burst 100/1s --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'"
  cpu=$(taskset -pc $$ | sed 's/.*: \([0-9]*\).*/\1/')
  timeout 60 taskset -c "$cpu" bash -c 'while :; do :; done' &
  busy=$!
  timeout 60 taskset -c "$cpu" chrt -i 0 ./starved -c 'while :; do :; done' &
  waits=$!
  starved() { grep -q '"wait[eds]*_ns":[0-9]\{8,\},"tid":[0-9]*,"comm":"starved"' told 2>/dev/null; }
  t_wait starved
  kill $busy $waits
  "$RUTILE" trigger remove ${S}a
}

# A thread that waits for Ruby's lock says itself by how much it woke up too late; others sleep on the same condition variables.
# A call of C holds the lock; how large its number must be is measured.
cat >"$t_root/gvl.rb" <<'RUBY'
$stdout.sync = true
def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
# A server and its worker.
if ARGV.delete("above")
  Process.wait(fork { load __FILE__ })
  exit
end
idle = Queue.new
Thread.new { idle.pop }
Thread.new { sleep }
lock = Mutex.new
Thread.new { lock.synchronize { idle.pop } }
Thread.new { sleep 0.1; lock.synchronize { } }
File.write("tid", Thread.new do
  $tid = File.readlink("/proc/thread-self").split("/").last
  loop do
    t = now
    sleep 0.02
    late = now - t - 0.02
    puts "late #{(late * 1000).round} #{$tid}" if late > 0.15 && $begun
  end
end && sleep(0.2) && $tid)
size = 500_000
begin
  size = size * 5 / 4
  x = 7**size
  t = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
  x.to_s
end while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - t < 0.5
sleep 0.1
puts "ready"
$stdin.gets
$begun = true
8.times do
  sleep 0.4
  t = now
  x.to_s
  puts "held #{((now - t) * 1000).round}"
end
sleep 0.3
puts "over"
$stdin.gets
RUBY

# gvl_case [above]: also of a process below the one that is given.
gvl_case() {
  mkfifo in
  exec 5<>in
  "${RUBY:-ruby}" --disable-gems "$t_root/gvl.rb" "$@" <in >out &
  program=$!
  t_wait grep -q ready out
  "$RUTILE" trigger add ${S}a --when "gvl $program > 200ms" --burst 1000/1s --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'"
  sleep 1.5
  # Threads that wait for anything else, for longer.
  [ ! -e told ]
  echo >&5
  t_wait grep -q over out
  t_wait idle
  cat out told
  n=$(wc -l <told)
  sleep 1
  [ "$(wc -l <told)" = "$n" ]
  # Each wait that was surely longer has fired, for its thread and its process; none that was surely shorter.
  tid=$(cat tid)
  pid=$(awk '/^Tgid/ { print $2 }' "/proc/$tid/status")
  sure=$(awk '/late/ && $2 > 260' out | wc -l)
  perhaps=$(awk '/late/ && $2 > 190' out | wc -l)
  n=$(grep -c "\"pid\":$pid,\"tid\":$tid,\"comm\":\"" told)
  [ "$sure" -ge 5 ]
  [ "$n" -ge "$sure" ]
  [ "$n" -le "$perhaps" ]
  # Ruby hands the signals to another sleeper when one wakes up. That one then waits for the lock as well: once for each time that it is held.
  [ "$(grep -vc "\"tid\":$tid," told)" -le "$(grep -c held out)" ]
  # While they last.
  [ "$(grep -c "\"waits_ns\":\([2-9][0-9]\{8\}\|[1-9][0-9]\{9,\}\),.*\"tid\":$tid," told)" -ge "$((sure / 2))" ]
  echo >&5
  wait $program
  t_wait gone
}
gone() {
  "$RUTILE" trigger list | grep -q "^${S}a .*no process of $program is left to watch"
}
test_gvl() {
  need_bpf
  gvl_case
}
test_gvl_below() {
  need_bpf
  gvl_case above
}

# Each line of a script fires; a script that ends says so in the list.
test_script() {
  need_bpf
  cp /bin/true printed
  "$RUTILE" trigger add ${S}a --burst 9/1s --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'" \
    --when 'script tracepoint:sched:sched_process_exit /comm == "printed"/ { printf("pid=%d\n", pid); }'
  ./printed &
  t_wait told 1
  [ "$(cat told)" = "pid=$!" ]
  "$RUTILE" trigger remove ${S}a
  "$RUTILE" trigger add ${S}a --when 'script interval:ms:10 { exit(3) }' --do 'exec true'
  over() { "$RUTILE" trigger list | grep -q "^${S}a .*exited: the script has ended"; }
  t_wait over
  "$RUTILE" trigger remove ${S}a
  [ -z "$(field ${S}a 1)" ]
}

# Lines of a log above a limit; the file is rotated, then truncated.
test_log() {
  echo 'rt=9.0 before' >log
  "$RUTILE" trigger add ${S}a --when "log $PWD/log matches rt=([0-9.]+) > 0.5" --burst 9/1s \
    --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'"
  printf 'rt=0.5 a\nrt=0.75 b\nno time\nrt=' >>log
  t_wait told 1
  t_wait idle
  printf '2 "c"\n' >>log
  t_wait told 2
  t_wait idle
  # The server has the old file open until it is told.
  exec 9>>log
  mv log log.1
  echo 'rt=0.6 d' >log
  t_wait told 3
  t_wait idle
  echo 'rt=0.9 late' >&9
  exec 9>&-
  t_wait told 4
  t_wait idle
  : >log
  sleep 0.6
  echo 'rt=1e3 e' >log
  t_wait told 5
  [ "$(jq -r .line told)" = 'rt=0.75 b
rt=2 "c"
rt=0.6 d
rt=0.9 late
rt=1e3 e' ]
  t_wait idle
  # Its JSON would be longer than a variable of the environment may be.
  python3 -c 'print("rt=7 " + "\x01" * 60000)' >>log
  t_wait told 6
  tail -1 told | jq -j .line | python3 -c 'import sys
line = sys.stdin.read()
assert len(line) == 4096 and line.startswith("rt=7 \x01") and line.endswith("\x01...")'
  "$RUTILE" trigger remove ${S}a
}

# The directories are made in a /run of its own, under a umask that keeps others out.
test_group() {
  need_bpf
  cat >alone <<EOF
mount -t tmpfs none /run
umask 077
"$RUTILE" trigger add ${S}a --group daemon --do 'exec true'
stat -c %a /run/rutile /run/rutile/trigger /run/rutile/trigger/${S}a
fire() {
  setpriv --reuid=65534 --regid=65534 "\$@" /usr/bin/python3 -c 'import socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"fire", "/run/rutile/trigger/${S}a")'
  echo \$?
}
fire --groups=daemon
fire --clear-groups 2>/dev/null
"$RUTILE" trigger remove ${S}a
EOF
  unshare -m sh alone >out
  [ "$(tr '\n' ' ' <out)" = '755 755 620 0 1 ' ]
}

# A request fires while it is served, a call of a method when it has ended.
test_ruby() {
  cat >config.ru <<'EOF'
class Order
  def total(file) = (sleep 0.01 until File.exist?(file))
end
run ->(env) { Order.new.total("go") if env["PATH_INFO"] == "/slow"; [200, {}, ["ok"]] }
EOF
  port=$(free_port)
  ruby -S puma -q -t 2:2 -b "tcp://127.0.0.1:$port" config.ru >puma.out 2>&1 &
  server=$!
  answers() { [ "$(curl -s "http://127.0.0.1:$port/fast")" = ok ]; }
  t_wait answers
  "$RUTILE" trigger add ${S}a --when "request $server > 300ms" --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/told'" --burst 9/1s
  "$RUTILE" trigger add ${S}b --when "method $server Order#total > 300ms" --do "exec /bin/sh -c 'echo \$RUTILE_TRIGGER_CAUSE >>$PWD/method'" --burst 9/1s
  answers
  curl -s "http://127.0.0.1:$port/slow?a=1" >slow &
  client=$!
  t_wait told 1
  [ ! -s slow ]
  jq -e ".pid == $server and .lasts_ns >= 3e8 and .verb == \"GET\" and (.path | startswith(\"/slow\"))" told
  [ ! -e method ]
  touch go
  wait $client
  t_wait test -s method
  jq -e ".pid == $server and .lasted_ns >= 3e8 and .method == \"Order#total\"" method
  # It is reported once.
  told 1
  kill $server
  wait $server || true
  over() { "$RUTILE" trigger list | grep "^${S}a " | grep -q "exited: no process of $server is left"; }
  t_wait over
  "$RUTILE" trigger remove ${S}a
  "$RUTILE" trigger remove ${S}b
}

# More detail for a while: the event is added, and removed again.
test_detail() {
  need_bpf
  "$RUTILE" start $S --flight -e sched_process_exit
  "$RUTILE" trigger add ${S}a --do "add $S sched_process_exec for 1s"
  "$RUTILE" trigger fire ${S}a
  has_exec() { "$RUTILE" save $S | grep -q sched_process_exec; }
  t_wait has_exec
  t_wait not has_exec
  # Also when it is removed meanwhile.
  "$RUTILE" trigger test ${S}a
  t_wait has_exec
  "$RUTILE" trigger remove ${S}a
  t_wait not has_exec
  "$RUTILE" destroy $S
}

# The same of Ruby events.
test_ruby_detail() {
  need_bpf
  cat >loop.rb <<'EOF'
class Order; def total = 1; end
loop { Order.new.total; sleep 0.01 }
EOF
  ruby loop.rb &
  app=$!
  "$RUTILE" start $S --flight -e sched_process_exit
  is_ruby() { "$RUTILE" ps | grep -q " $app \|^$app "; }
  t_wait is_ruby
  "$RUTILE" trigger add ${S}a --do "add $S --ruby $app:call for 1s"
  "$RUTILE" trigger fire ${S}a
  called() {
    rm -rf shot
    "$RUTILE" snapshot $S -o shot
    babeltrace2 shot 2>/dev/null | grep 'ruby:call' | grep -q 'Order#total'
  }
  t_wait called
  # Behind that, no more.
  t_wait not called
  t_wait idle
  is_field ${S}a 4 0
  "$RUTILE" trigger remove ${S}a
  "$RUTILE" destroy $S
  kill $app
}

# The oldest snapshots go, or no new ones are taken; what is not ours stays.
test_disk() {
  need_bpf
  mkdir -p out/${S}a-20200101-000000-mine
  "$RUTILE" start $S --flight -e sched_process_exit --buffer 1M
  snapshots() { [ "$(ls -d out/${S}a-*/rutile_trigger 2>/dev/null | wc -l)" = "$1" ]; }
  "$RUTILE" trigger add ${S}a --do "snapshot $S" --output "$PWD/out" --disk 1k
  "$RUTILE" trigger test ${S}a
  t_wait is_field ${S}a 2 1
  t_wait snapshots 1
  first=$(ls -d out/${S}a-*/rutile_trigger)
  t_wait idle
  "$RUTILE" trigger test ${S}a
  t_wait is_field ${S}a 2 2
  t_wait not test -e "$first"
  t_wait snapshots 1
  t_wait idle
  "$RUTILE" trigger remove ${S}a
  "$RUTILE" trigger add ${S}a --do "snapshot $S" --output "$PWD/out" --disk 1k --disk-full refuse
  "$RUTILE" trigger test ${S}a
  t_wait is_field ${S}a 4 1
  snapshots 1
  [ -d out/${S}a-20200101-000000-mine ]
  "$RUTILE" trigger remove ${S}a
  "$RUTILE" destroy $S
}
idle() {
  if "$RUTILE" trigger list | grep -q "^${S}a .*acts now"; then return 1; fi
}

# Of the service: a description beside the sessions' profiles.
test_service() {
  need_bpf
  mkdir d
  printf 'flight = yes\nevent = sched_process_exit\n' >d/$S.conf
  printf '# saves it\nwhen = fired\ndo = snapshot %s\noutput = %s\n' $S "$PWD/out" >d/${S}a.trigger
  "$RUTILE" service check --dir d
  "$RUTILE" service start --dir d
  "$RUTILE" service start --dir d
  "$RUTILE" trigger fire ${S}a why=because
  t_wait is_saved
  "$RUTILE" service status --dir d >status
  grep -q "${S}a *watches" status
  t_wait idle
  "$RUTILE" service stop --dir d
  [ -z "$(field ${S}a 1)" ]
  babeltrace2 out/*/rutile_trigger | grep -q 'cause = "why=because"'
}

test_mistakes() {
  bad() { # MESSAGE ARGUMENTS
    message=$1
    shift
    rc=0
    "$RUTILE" trigger "$@" 2>err || rc=$?
    [ "$rc" != 0 ]
    grep -qF "$message" err
    [ "$(wc -l <err)" -le 3 ]
  }
  bad 'the action is missing' add ${S}a
  bad "does not begin with" add ${S}a --when 'sometimes' --do 'exec true'
  bad "is none of" add ${S}a --do 'explode now'
  bad "invalid name" add ../x --do 'exec true'
  bad "no trigger 'nosuch'" fire nosuch
  bad "is not KEY=VALUE" fire nosuch word
  bad 'no_such_event' add ${S}a --when 'event no_such_event' --do 'exec true'
  bad "no script 'no_such_script'" add ${S}a --when 'script no_such_script' --do 'exec true'
  bad "there is no function 'foo'" add ${S}a --when 'script BEGIN { foo(1) }' --do 'exec true'
  bad 'does not say which events' add ${S}a --when 'period x : $evt.fd == 3 > 1s' --do 'exec true'
  bad 'no event of the kernel' add ${S}a --when 'period x : $evt.$name == "no_such" > 1s' --do 'exec true'
  bad 'no period' add ${S}a --when 'period apache nosuch > 1s' --do 'exec true'
  bad 'No such file' add ${S}a --when 'period nosuch > 1s' --do 'exec true'
  bad 'invalid regular expression' add ${S}a --when 'log /dev/null matches (' --do 'exec true'
  bad 'is not a file' add ${S}a --when 'log /dev/null matches x' --do 'exec true'
  bad 'no_such_process' add ${S}a --when 'request no_such_process > 1s' --do 'exec true'
  bad 'there is no group' add ${S}a --do 'exec true' --group no-such-group
  [ ! -e /run/rutile/trigger/${S}a ]
  "$RUTILE" trigger add ${S}a --do 'exec true'
  bad 'exists' add ${S}a --do 'exec true'
  # Its process is killed: that is reported, and the name can be used again.
  pid=$(awk -v s=" ${S}a[" 'index($0, s) { sub(/.*\[/, ""); sub(/\].*/, ""); p = $0 } END { print p }' "$RUTILE_LOG_DIR/trigger.log")
  kill -KILL "$pid"
  t_wait t_gone "$pid"
  "$RUTILE" trigger list | grep -q "^${S}a .*its process has exited"
  "$RUTILE" trigger add ${S}a --do 'exec true'
  "$RUTILE" trigger remove ${S}a
  # A program that does not exist fails the firing, nothing else.
  "$RUTILE" trigger add ${S}a --do 'exec /no/such/program'
  "$RUTILE" trigger fire ${S}a
  t_wait is_field ${S}a 4 1
  "$RUTILE" trigger remove ${S}a
}

t_case "an event fires, and its snapshot says why" test_event
t_case "no more than the limits say" test_limits
t_case "a thousand senders of garbage, and a process that is stopped" test_hostile
t_case "a slow system call fires while it lasts" test_slow
t_case "a period while it lasts, and a percentile of periods" test_period
t_case "stacks of the process, and a message to others" test_publish
t_case "a percentile of system calls" test_percentile
t_case "a rate fires once for each burst" test_rate
t_case "a process that dies by a signal" test_killed
t_case "a thread that waits for a CPU" test_runqueue
t_case "a thread that waits for the lock of Ruby" test_gvl
t_case "a thread that waits for the lock of Ruby, in a worker" test_gvl_below
t_case "each line of a script" test_script
t_case "lines of a log above a limit" test_log
t_case "a group may fire it" test_group
t_case "a request while it is served, and a method" test_ruby
t_case "more detail for a while" test_detail
t_case "Ruby events for a while" test_ruby_detail
t_case "snapshots keep to the budget of disk" test_disk
t_case "triggers of the service" test_service
t_case "mistakes are named" test_mistakes
t_done
