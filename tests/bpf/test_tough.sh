#!/bin/sh
# SPDX-License-Identifier: MIT
# Bad things that happen to a recorder: killed at any moment, folders that go away, privileges and
# file systems that are not there.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

S=u$$
fast=/dev/shm/rutile-tough.$$
cleanup() {
  for s in $("$RUTILE" list 2>/dev/null | awk -v p="^$S" '$1 ~ p {print $1}'); do
    "$RUTILE" destroy "$s" 2>/dev/null
  done
}
trap 'cleanup; rm -rf "$t_root" "$fast"' EXIT

# whole DIR: all three readers take it without a word; what babeltrace2 sees is in bt2.out.
whole() {
  readers "$1" >/dev/null
  "$RUTILE" view "$1" >view.out 2>view.err
  [ ! -s view.err ] || { cat view.err >&2; return 1; }
  [ "$(wc -l <view.out)" = "$(wc -l <bt2.out)" ]
}

# Kills the recorder with SIGKILL while it writes as much as it can: it is stopped until its rings
# hold some megabytes, then goes on, and has a moment to live. On tmpfs, where writes are cut off at
# every page.
test_kill_random() {
  need_bpf
  mkdir -p "$fast"
  cat >kill.py <<'EOF'
import os, random, signal, subprocess, sys, time
rutile, folder = sys.argv[1:3]
rec = subprocess.Popen([rutile, "record", "-a", "-o", folder, "-e", "syscall:getppid",
                        "--buffer", "64M", "--subbuf", random.choice(["16K", "256K", "2M"])],
                       stderr=subprocess.DEVNULL)
while not os.path.exists(folder + "/kernel/metadata"):
    time.sleep(0.005)
time.sleep(0.03)
rec.send_signal(signal.SIGSTOP)
end = time.monotonic() + 0.03
while time.monotonic() < end:
    for _ in range(100):
        os.getppid()
rec.send_signal(signal.SIGCONT)
end = time.monotonic() + random.random() * 0.004
while time.monotonic() < end:
    pass
rec.kill()
rec.wait()
EOF
  filled=0
  for i in $(seq 100); do
    rm -rf "$fast/t"
    python3 kill.py "$RUTILE" "$fast/t"
    babeltrace2 "$fast/t" >bt2.out 2>bt2.err
    [ ! -s bt2.err ] || { cat bt2.err; ls -l "$fast/t/kernel"; return 1; }
    [ ! -s bt2.out ] || filled=$((filled + 1))
    [ $((i % 10)) != 0 ] || whole "$fast/t"
  done
  echo "$filled traces with events"
  [ "$filled" -ge 20 ]
}

# ... and, by strace, at each of its writes and renames in turn.
test_kill_each_step() {
  need_bpf
  command -v strace >/dev/null || t_skip "no strace"
  kinds=
  for call in mkdirat renameat pwritev pwrite64; do
    for n in 1 2 3 4 5 6 7; do
      rm -rf t
      rc=0
      strace -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$n" \
        "$RUTILE" record -o t -a -e syscall:getppid --subbuf 64K -- \
        python3 -c 'import os; [os.getppid() for i in range(20000)]' 2>err || rc=$?
      [ "$rc" != 0 ] || break
      if [ -e t/kernel ]; then
        whole t
        kinds="$kinds $call$n"
      fi
    done
  done
  echo "$kinds"
  # The second write of metadata, the four steps of packets.
  echo "$kinds" | grep -q 'pwritev2.*pwrite64[67]'
}

# A snapshot that is killed leaves nothing that looks like a trace.
test_kill_snapshot() {
  need_bpf
  "$RUTILE" start ${S}a --flight --buffer 1M --subbuf 64K -e syscall:getppid
  python3 -c 'import os; [os.getppid() for i in range(20000)]'
  for n in 2 3 4; do
    rm -rf t
    rc=0
    strace -o /dev/null -e trace=pwrite64 -e "inject=pwrite64:signal=KILL:when=$n" \
      "$RUTILE" snapshot ${S}a -o t || rc=$?
    [ "$rc" != 0 ]
    [ ! -e t/kernel ]
  done
  "$RUTILE" snapshot ${S}a -o t2
  whole t2
  "$RUTILE" destroy ${S}a
}

t_case "kill -9 at 100 random moments of heavy writing: every trace is whole" test_kill_random
t_case "... and at each step of making a folder and writing a packet" test_kill_each_step
t_case "a snapshot is there or not" test_kill_snapshot
t_done
