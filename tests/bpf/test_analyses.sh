#!/bin/bash
# SPDX-License-Identifier: MIT
# Analyses of recorded traces, beside what the kernel itself says.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# How many descriptors the program has, at random moments, beside /proc/PID/fd.
descriptors_are_those_of_proc() {
  cc -O1 -o descriptors "$SRC/tests/bpf/descriptors.c"
  # A kernel may hide switches from every tool (test_interop.sh): what happens behind one is taken for
  # another thread's. One of ten recordings without such has to agree at every moment.
  for i in $(seq 10); do
    rm -rf t
    "$RUTILE" record -o t -e sched,syscall --buffer 64M -- ./descriptors "$i" 400 again >counts 2>err
    cat err
    if counts_agree; then return; fi
  done
  return 1
}

counts_agree() {
  "$RUTILE" view t --filter '$evt.$name == "syscall_entry_getppid"' --clock-seconds 2>/dev/null |
    sed 's/^\[\([0-9.]*\)\].*/\1/; s/\.//' >times.txt
  python3 - <<'END' >pairs || return 1
times = open("times.txt").read().split()
counts = open("counts").read().splitlines()
assert len(times) == len(counts) >= 10, (times, counts)
print("\n".join(t + " " + c for t, c in zip(times, counts)))
END
  while read -r time pid count; do
    got=$("$RUTILE" fdtop --skip-validation --end "$time" t | awk -v p="($pid)" '$2 == p { print $4 }')
    [ "$got" = "$count" ] || { echo "at $time: $got, not $count"; return 1; }
  done <pairs
}

# Two threads in a chain of pipes behind one that sleeps, and beside them one that computes on the same CPU: it is
# on no path but as what took the CPU, and the sleep is a timer's.
a_hog_is_not_on_the_critical_path() {
  cat >chain.py <<'END'
import os, sys, time
def name(s): open("/proc/self/comm", "w").write(s)
hog = os.fork()
if not hog:
    name("hog")
    while True: pass
pipes = [os.pipe() for _ in range(2)]
if not os.fork():
    name("chain-last")
    for i in range(5): os.read(pipes[1][0], 1)
    print(os.getpid(), flush=True)
    os._exit(0)
if not os.fork():
    name("chain-middle")
    for i in range(5):
        os.read(pipes[0][0], 1)
        for j in range(20000): pass
        os.write(pipes[1][1], b"x")
    os._exit(0)
name("chain-first")
for i in range(5):
    time.sleep(0.02)
    os.write(pipes[0][1], b"x")
os.wait(); os.wait()
os.kill(hog, 9)
END
  for _ in $(seq 10); do
    rm -rf t
    if path_is_right; then return; fi
  done
  return 1
}

path_is_right() {
  "$RUTILE" record -o t -e sched,irq,syscall --buffer 64M -- taskset -c "$(t_cpu)" /usr/bin/python3 chain.py >pid
  "$RUTILE" wakeupchain --skip-validation --no-intersection --mi "$(cat pid)" t >mi
  python3 - <<'END'
import json
t = {r["class"]: r for r in json.load(open("mi"))["results"]}
path, span = t["path"]["data"], t["path"]["time-range"]
names = {r[2].get("name") for r in path}
assert "hog" not in names and {"chain-first", "chain-middle", "chain-last"} <= names, names
slept = sum(r[1]["value"] for r in path if r[2].get("name") == "chain-first" and r[3]["value"] == "timer" and
            r[4]["value"] in ("nanosleep", "clock_nanosleep"))
whole = span["end"]["value"] - span["begin"]["value"]
assert 0 < slept < whole, (slept, whole)
assert sum(r[1]["value"] for r in path) == whole
assert sum(c["value"] for r in t["per-tid"]["data"] for c in r[1:]) == whole
END
}

# What a program did and what it counts itself, beside what is recorded of it.
new_verbs_agree_with_the_program() {
  cat >work.py <<'END'
import json, os, socket, threading, time
server = socket.create_server(("127.0.0.1", 0))
def serve():
    c = server.accept()[0]
    while True:
        data = c.recv(4096)
        if not data: break
        time.sleep(0.002)
        c.sendall(b"y" * 300)
t = threading.Thread(target=serve); t.start()
c = socket.create_connection(server.getsockname())
begin = time.monotonic()
for i in range(20):
    c.sendall(b"x" * 100)
    got = 0
    while got < 300: got += len(c.recv(4096))
answers = time.monotonic() - begin
c.close(); t.join()
begin = time.monotonic()
for i in range(15): time.sleep(0.005)
slept = time.monotonic() - begin
fd = os.open("data", os.O_RDONLY)
read = 0
while True:
    n = len(os.read(fd, 65536))
    if not n: break
    read += n
print(json.dumps({"pid": os.getpid(), "port": server.getsockname()[1], "answers": answers, "slept": slept, "read": read}))
END
  head -c 1000000 /dev/zero >data
  # On a loaded machine a time may be over before the thread sleeps, and some switches may be hidden
  # from every tool: one of ten runs without such has to agree.
  for _ in $(seq 10); do
    rm -rf t
    "$RUTILE" record -o t -e sched,irq,net,timer,syscall --buffer 64M -- /usr/bin/python3 work.py >did
    if agrees; then return; fi
  done
  return 1
}

agrees() {
  pid=$(python3 -c 'import json; print(json.load(open("did"))["pid"])')
  "$RUTILE" nettop --mi --no-intersection --pid "$pid" --limit unlimited t >nettop
  "$RUTILE" offcpu --mi --no-intersection --tid "$pid" --limit unlimited t >offcpu
  "$RUTILE" series --no-intersection --pid "$pid" -r 1h t >series
  python3 - <<'END'
import csv, json
did = json.load(open("did"))
def rows(name, cls):
    return [r for t in json.load(open(name))["results"] if t["class"] == cls for r in t["data"]]
peers = {r[0]["value"]: [c and c["value"] for c in r[1:]] for r in rows("nettop", "per-peer")}
client = peers["127.0.0.1:%d" % did["port"]]
assert client[:5] == [6000, 2000, 0, 1, 0], peers
served = [p for n, p in peers.items() if n.startswith("127.0.0.1:") and p[2] == 1]
assert len(served) == 1 and served[0][:2] == [2000, 6000], peers
# An answer is what the loop waits for; the loop does a little more.
assert client[7] == 20 and 20 * 2e6 <= client[7] * client[8] <= did["answers"] * 1e9, (client, did)
slept = [r for r in rows("offcpu", "per-tid") if r[1]["value"] == "timer" and r[3] and "nanosleep" in r[3]["value"]]
assert len(slept) == 1 and slept[0][4]["value"] == 15, slept
assert 15 * 5e6 * 0.9 <= slept[0][5]["value"] <= did["slept"] * 1e9, (slept, did)
total = 0
for r in csv.DictReader(open("series")):
    if r["metric"] == "read_bytes_per_s":
        total += float(r["value"]) * (float(r["end"]) - float(r["begin"]))
# Python reads its own files too.
assert did["read"] == 1000000 and total > did["read"] + 8000 - 1, total
END
}

# A server's sockets, files and pipes that were open before the recording, in a thread and in what it forks and executes:
# what moved through each is what the program says, by kind; names, PIDs and priorities are those of /proc.
what_was_open_before_is_known() {
  cat >before.py <<'END'
import json, os, socket, sys, threading, time
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
served = server.accept()[0]
unix, other = socket.socketpair()
pipe, data = os.pipe(), os.open("before.data", os.O_RDWR | os.O_CREAT)
go, done = threading.Event(), threading.Event()
def work():
    go.wait()
    for i in range(30): os.write(pipe[1], b"p" * 100); os.read(pipe[0], 100)
    done.wait()
thread = threading.Thread(target=work)
thread.start()
print(json.dumps({"pid": os.getpid(), "tid": thread.native_id, "comm": open("/proc/self/comm").read().strip()}), flush=True)
sys.stdin.readline()
go.set()
for i in range(70):
    client.send(b"x" * 10240)
    served.recv(10240, socket.MSG_WAITALL)
    os.write(client.fileno(), b"z" * 10)
    os.read(served.fileno(), 10)
for i in range(40): unix.send(b"u" * 50); other.recv(50)
for i in range(30): os.write(data, b"y" * 1000)
os.pread(data, 7000, 0)
child = os.fork()
if not child:
    os.execv("/bin/sh", ["sh", "-c", "exec sleep 0.05 9>&-"])
os.waitpid(child, 0)
end = time.process_time() + 0.1
while time.process_time() < end: pass
done.set()
thread.join()
print(child, flush=True)
END
  cat >drive.py <<'END'
import json, os, subprocess, sys
rutile = sys.argv[1]
work = subprocess.Popen(["nice", "-n", "7", "/usr/bin/python3", "before.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
did = json.loads(work.stdout.readline())
recorder = subprocess.Popen([rutile, "record", "-a", "-o", "t", "-e", "sched,syscall", "--buffer", "64M", "--", "cat"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
# The command runs when everything is recorded.
recorder.stdin.write("x\n")
recorder.stdin.flush()
recorder.stdout.readline()
work.stdin.write("\n")
work.stdin.flush()
did["child"] = int(work.stdout.readline())
work.wait()
recorder.stdin.close()
assert recorder.wait() == 0
json.dump(did, open("did", "w"))
END
  # As above: one of ten recordings without hidden switches has to agree.
  for _ in $(seq 10); do
    rm -rf t before.data
    python3 drive.py "$RUTILE"
    pid=$(python3 -c 'import json; print(json.load(open("did"))["pid"])')
    "$RUTILE" iousagetop --mi --no-intersection --skip-validation --limit unlimited t >io
    "$RUTILE" cputop --mi --no-intersection --skip-validation --limit unlimited t >cpu
    "$RUTILE" syscallstats --no-intersection --skip-validation t >calls
    if was_known; then return; fi
  done
  return 1
}

was_known() {
  python3 - <<'END'
import json
did = json.load(open("did"))
def rows(name, title):
    return [r for t in json.load(open(name))["results"] for r in t["data"]
            if title in (t["class"] if isinstance(t["class"], str) else t["class"].get("title", ""))]
for way, disk, pipes in ("read", 7000, 3000), ("written", 30000, 3000):
    io = {r[0].get("tid"): [c["value"] for c in r[1:]] for r in rows("io", "Per-process top I/O operations [%s]" % way)}
    main, thread = io[did["pid"]], io[did["tid"]]
    # Python reads the event of its lock in no file; what it prints goes through a pipe.
    assert main[1:3] == [disk, 70 * 10250 + 40 * 50] and main[3] < 100, (way, main)
    assert thread == [pipes, 0, 0, pipes], (way, thread)
names = {r[0]["tid"]: r[0]["name"] for r in rows("io", "Per-process top I/O operations [read]")}
assert names[did["child"]] == "sleep", names[did["child"]]
cpu = {r[0]["tid"]: (r[0]["name"], r[2]["value"]) for r in rows("cpu", "per-process")}
assert cpu[did["pid"]] == (did["comm"], "[27]"), cpu[did["pid"]]
# All that run have a priority but the idle threads.
assert not [r for r in rows("cpu", "per-process") if r[0]["tid"] and r[2]["value"] in ("[]", "[?]")], rows("cpu", "per-process")
calls = open("calls").read()
assert "(%d, TID: %d)" % (did["pid"], did["tid"]) in calls and "(?, TID" not in calls, calls
END
}

t_case "offcpu, nettop and series agree with what the program counts" new_verbs_agree_with_the_program
t_case "an innocent thread is not on the critical path" a_hog_is_not_on_the_critical_path
t_case "descriptors are those of /proc/PID/fd" descriptors_are_those_of_proc
t_case "what was open before has its kind, threads their PIDs, names and priorities" what_was_open_before_is_known
t_done
