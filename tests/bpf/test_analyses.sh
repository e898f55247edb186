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

# What /proc calls the threads of a program at its end: one has executed another program, and threads have renamed
# themselves and each other.
names_are_those_of_proc() {
  cat >names.py <<'END'
import os, threading, time
def comm(tid, name=None):
    with open(f"/proc/self/task/{tid}/comm", "w" if name else "r") as f:
        return f.write(name) if name else f.read().strip()
def work():
    for i in range(20):
        os.getppid()
        bytearray(1 << 20)
        time.sleep(0.001)
done, ids = threading.Event(), []
def body():
    ids.append(threading.get_native_id())
    work()
    done.wait()
    work()
threads = [threading.Thread(target=body) for i in range(2)]
for t in threads: t.start()
work()
comm(ids[0], "others-name")
comm(os.getpid(), "own-name")
done.set()
for t in ids: print(t, comm(t), flush=True)
for t in threads: t.join()
child = os.fork()
if not child:
    os.execv("/bin/sh", ["sh", "-c", "i=0; while [ $i -lt 20 ]; do i=$((i + 1)); sleep 0.001; done; echo $$ $(cat /proc/$$/comm)"])
os.waitpid(child, 0)
print(os.getpid(), comm(os.getpid()))
END
  "$RUTILE" record -o t -e sched,mm,syscall --buffer 64M -- /usr/bin/python3 names.py >known
  cat known
  for verb in cputop memtop syscallstats iousagetop offcpu; do
    limit="--limit unlimited"
    [ $verb != syscallstats ] || limit=
    "$RUTILE" $verb --mi --skip-validation --no-intersection $limit t >mi
    python3 - $verb <<'END'
import json, sys
known = {int(l.split()[0]): l.split()[1] for l in open("known")}
assert len(known) == 4 and {"others-name", "own-name"} <= set(known.values()), known
got = {}
for t in json.load(open("mi"))["results"]:
    for c in (c for r in t["data"] for c in r if isinstance(c, dict) and c.get("class") == "process"):
        got.setdefault(c.get("tid"), set()).add(c.get("name"))
bad = {tid: got.get(tid) for tid, name in known.items() if got.get(tid) != {name}}
assert not bad, (sys.argv[1], bad, known)
END
  done
}

# What the kernel counts of a disk (/sys/block/DISK/stat: reads, writes, discards), beside iousagetop. It counts zeroes
# and flushes as writes, although no data moves.
disks_agree_with_the_kernel() {
  truncate -s 64M image
  disk=$(losetup -f --show image 2>err) || t_skip "no loop device: $(cat err)"
  trap 'losetup -d "$disk"' EXIT
  blkdiscard -o 32M -l 1M "$disk" 2>err || t_skip "it cannot discard: $(cat err)"
  stat=/sys/block/${disk#/dev/}/stat
  cat >work <<END
blkdiscard -o 0 -l 8M $disk
blkdiscard -z -o 8M -l 4M $disk
dd if=/dev/zero of=$disk bs=64k count=16 oflag=direct
dd if=$disk of=/dev/null bs=64k count=10 iflag=direct
sync $disk
END
  cat "$stat" >before
  "$RUTILE" record -a -o t -e block,sched --buffer 64M -- sh work
  cat "$stat" >after
  "$RUTILE" iousagetop --mi --skip-validation --no-intersection --limit unlimited t >mi
  python3 - "${disk#/dev/}" <<'END'
import json, sys
before, after = (list(map(int, open(f).read().split())) for f in ("before", "after"))
kernel = [b - a for a, b in zip(before, after)]
requests, sectors = kernel[0] + kernel[4], kernel[2] + kernel[6]
got = {}
for t in json.load(open("mi"))["results"]:
    c = t["class"] if isinstance(t["class"], str) else t["class"].get("inherit")
    got.setdefault(c, []).extend(r for r in t["data"] if r[0].get("name") == sys.argv[1])
none = {r[1]["value"]: r for r in got["per-disk-no-data"]}
assert (none["discard"][3]["value"], none["discard"][4]["value"]) == (kernel[11], kernel[13] * 512), (none, kernel)
assert kernel[13] * 512 == 8 << 20 and none["other"][4]["value"] == 4 << 20, (none, kernel)
assert none["discard"][2]["name"] == none["other"][2]["name"] == "blkdiscard", none
assert got["per-disk-top-sector"][0][1]["value"] == sectors - (4 << 11), (got, kernel)
assert got["per-disk-top-request"][0][1]["value"] == requests - none["other"][3]["value"] - kernel[15], (got, kernel)
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

t_case "bytes of disks agree with the kernel, discards apart" disks_agree_with_the_kernel
t_case "names of threads are those of /proc" names_are_those_of_proc
t_case "offcpu, nettop and series agree with what the program counts" new_verbs_agree_with_the_program
t_case "an innocent thread is not on the critical path" a_hog_is_not_on_the_critical_path
t_case "descriptors are those of /proc/PID/fd" descriptors_are_those_of_proc
t_case "what was open before has its kind, threads their PIDs, names and priorities" what_was_open_before_is_known
t_done
