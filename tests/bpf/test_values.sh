#!/bin/bash
# SPDX-License-Identifier: MIT
# The values of fields: against /proc, and against the kernel's own records of the same tracepoints.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# field NAME: its value in the line that is read.
field() {
  sed -n "s/.*[{ ]$1 = \([^,}]*[^,} ]\)[ ,}].*/\1/p"
}

# A process two PID namespaces deep, with its parent outside of the inner one.
test_statedump() {
  need_bpf
  trap 'kill $outer 2>/dev/null || true' EXIT
  unshare --fork --pid --kill-child unshare --user --map-root-user --fork --pid --net --uts --mount-proc --kill-child \
    sh -c 'touch ready; sleep 100 & wait' &
  outer=$!
  wait_for ready
  shell=$(pgrep -f 'touch [r]eady; sleep 100' -n)
  sleep=$(tr -d ' ' <"/proc/$shell/task/$shell/children")
  t_wait t_runs "$sleep" sleep
  t_wait t_is "$sleep" S
  "$RUTILE" record -o t -e signal -- true
  babeltrace2 t >t.out
  inum() { stat -L -c %i "/proc/$1/ns/$2"; }

  grep "statedump_process_state.* tid = $sleep," t.out >state
  own=$(sed -n 's/^NSpid:.*\t//p' "/proc/$sleep/status")
  for pair in "vtid=$own" "vpid=$own" vppid=1 type=0 mode=5 submode=0 status=5 ns_level=2 "ppid=$shell" "ns_inum=$(inum "$sleep" pid)"; do
    [ "$(field "${pair%=*}" <state)" = "${pair#*=}" ] || { echo "$pair"; cat state; return 1; }
  done
  grep "statedump_process_state.* tid = $shell," t.out >state
  [ "$(field vpid <state) $(field vppid <state)" = "1 0" ]

  # The innermost namespace first, then those around it; of these /proc gives the numbers.
  grep "statedump_process_pid_ns.* tid = $sleep," t.out >pids
  [ "$(field vtid <pids | tr '\n' ' ')" = "$(sed -n 's/^NSpid:\t//p' "/proc/$sleep/status" | tr '\t' '\n' | tac | tr '\n' ' ')" ]
  [ "$(field ns_inum <pids | sed -n '1p;3p' | tr '\n' ' ')" = "$(inum "$sleep" pid) $(inum self pid) " ]
  for kind in cgroup ipc mnt net time uts; do
    [ "$(grep "process_${kind}_ns.* tid = $sleep," t.out | field ns_inum)" = "$(inum "$sleep" $kind)" ]
  done
  grep "statedump_process_user_ns.* tid = $sleep," t.out >users
  [ "$(field ns_inum <users | tr '\n' ' ')" = "$(inum "$sleep" user) $(inum self user) " ]
  [ "$(field ns_level <users | tr '\n' ' ')" = "1 0 " ]
  [ "$(field vuid <users | tr '\n' ' ')" = "0 0 " ]
  [ "$(grep "statedump_cgroup.* tid = $sleep," t.out | field path)" = "\"$(sed -n 's/^0:://p' "/proc/$sleep/cgroup")\"" ]
}

# A namespace between the innermost and ours in which no process is.
test_user_namespaces() {
  need_bpf
  unshare --user --map-user=7 --map-group=8 unshare --user --map-root-user sleep 100 & sleep=$!
  trap 'kill $sleep' EXIT
  t_wait t_runs $sleep sleep
  "$RUTILE" record -o t -e signal -- true
  babeltrace2 t | grep "statedump_process_user_ns.* tid = $sleep," >users
  [ "$(field ns_level <users | tr '\n' ' ')" = "2 1 0 " ]
  [ "$(field vuid <users | tr '\n' ' ')" = "0 7 0 " ]
  [ "$(field vgid <users | tr '\n' ' ')" = "0 8 0 " ]
  [ "$(field ns_inum <users | sort -u | wc -l)" = 3 ]
}

# The threads of threaded handlers, as /proc has them; a program may have such a name, too.
test_interrupts() {
  need_bpf
  "$RUTILE" record -o t -e signal -- true
  babeltrace2 t | sed -n 's/.*statedump_interrupt: .* irq = \([0-9]*\), tid = \([1-9][0-9]*\), name = .*, action = "\(.*\)" }/\1 \2 \3/p' | sort >got
  for comm in /proc/[0-9]*/comm; do
    pid=${comm#/proc/}; pid=${pid%/comm}
    [ -s "/proc/$pid/cmdline" ] || sed -n "s|^irq/\([0-9]*\)-\(s-\)\?\(.*\)|\1 $pid \3|p" "$comm" 2>/dev/null || :
  done | sort >want
  # Before Linux 5.17 /proc has the first 15 bytes of a name.
  [ "$(cut -d' ' -f1,2 got)" = "$(cut -d' ' -f1,2 want)" ]
}

test_states() {
  need_bpf
  sleep 100 & stopped=$!
  python3 -c 'import os, time; os.fork() or os._exit(0); open("zombie", "w"); time.sleep(100)' & parent=$!
  taskset -c "$(t_cpu)" sh -c 'while :; do :; done' & busy=$!
  trap 'kill -KILL $stopped $parent $busy' EXIT
  wait_for zombie
  zombie=$(tr -d ' ' <"/proc/$parent/task/$parent/children")
  t_wait t_is "$zombie" Z
  kill -STOP $stopped
  t_wait t_is $stopped T
  t_wait t_is $busy R
  "$RUTILE" record -o t -e signal -- true
  babeltrace2 t | grep statedump_process_state >t.out
  status() { grep " tid = $1," t.out | field status; }
  [ "$(status $stopped) $(status "$zombie") $(status $busy) $(status 1)" = "0 4 2 5" ]
  [ "$(grep " tid = $busy," t.out | field cpu)" = "$(t_cpu)" ]
  [ "$(grep " tid = 2," t.out | field type)" = 1 ]
}

test_machine() {
  need_bpf
  "$RUTILE" record -o t -e signal -- true
  babeltrace2 t >t.out
  python3 - <<'END' >want
import socket, struct, fcntl, os
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _, name in socket.if_nameindex():
    req = struct.pack("256s", name.encode())
    up = struct.unpack("16xH", fcntl.ioctl(s, 0x8913, req)[:18])[0] & 1
    try: address = struct.unpack(">I", fcntl.ioctl(s, 0x8915, req)[20:24])[0] if up else 0
    except OSError: continue
    print('address_ipv4 = 0x%X, name = "%s"' % (address, name))
END
  while read -r line; do grep -q "network_interface.*{ $line }" t.out; done <want
  [ "$(grep -c statedump_network_interface t.out)" -ge "$(wc -l <want)" ]
  [ "$(grep cpu_topology t.out | sed 's/.*model_name = "\(.*\)" }/\1/' | sort -u)" = "$(sed -n 's/^model name\t: //p' /proc/cpuinfo | sort -u)" ]
  [ "$(grep -c statedump_module t.out)" = "$(wc -l 2>/dev/null </proc/modules || echo 0)" ]
}

# What the kernel's own records of the same moments say.
test_kernel() {
  need_bpf
  cat >work.sh <<'END'
for i in 1 2 3; do echo $i | cat >/dev/null; done
dd if=/dev/zero of=file bs=64k count=20 conv=fsync 2>/dev/null
sleep 100 & kill -USR1 $!
python3 -c '
import os, signal, socket
a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
a.bind(("127.0.0.1", 0))
for i in range(20): a.sendto(b"x" * i, a.getsockname()); a.recv(99)
signal.signal(signal.SIGUSR2, lambda *a: 0)
os.kill(os.getpid(), signal.SIGUSR2)'
nice -n 5 chrt -f 3 true
# A disk that fails: its file is on a full file system.
dd if=/dev/zero of="$1" bs=64k count=8 oflag=direct 2>/dev/null || :
END
  mkdir small
  mount -t tmpfs -o size=64k none small
  trap 'losetup -d $disk; umount "$T/small"' EXIT
  truncate -s 1M small/disk
  disk=$(losetup -f --show small/disk)
  "$RUTILE" record -o t -a --buffer 256M -e sched,irq,block,net,mm,signal,timer -e 'tp:sched:sched_switch,tp:sched:sched_wak*' \
    -e 'tp:sched:sched_migrate_task,tp:sched:sched_process_[ef]*,tp:irq:*irq_[her]*,tp:block:block_rq_[ic]*' \
    -e 'tp:net:net_dev_[qx]*,tp:net:netif_receive_skb,tp:kmem:mm_page_alloc,tp:kmem:mm_page_free,tp:signal:*,tp:timer:hrtimer*' -- sh work.sh "$disk"
  python3 "$SRC/tests/bpf/values.py" compare t >out || { tail -n 20 out; return 1; }
  babeltrace2 t | grep -q ' block_rq_complete: .*error = -[1-9]'
  for field in sched_switch.prev_state sched_wakeup.target_cpu sched_process_exit.group_dead sched_process_exec.filename irq_softirq_entry.vec \
    net_if_receive_skb.name signal_deliver.sig kmem_mm_page_alloc.migratetype timer_hrtimer_start.mode; do
    grep -q "^${field%.*} ${field#*.} " out || { echo "not compared: $field"; return 1; }
  done
}

# The headers of packets, as a packet socket sees them; states of connections; what is sent again.
test_packets() {
  need_bpf
  "$RUTILE" record -a -o t --buffer 64M -e net -- python3 "$SRC/tests/bpf/packets.py" >want
  readers t >/dev/null
  "$RUTILE" view t >view.out
  cmp view.out bt2.out
  sed -n 's/^packet //p' want >packets
  [ "$(wc -l <packets)" -ge 16 ]
  while read -r line; do
    for event in net_if_receive_skb net_dev_queue; do
      grep -F " $event: " bt2.out | grep -qF "{ $line }" || { echo "not there: $event $line"; return 1; }
    done
  done <packets
  for kind in tcp udp icmp; do grep -q "\"$kind\" : container = [123] )" packets; done
  state() { grep " inet_sock_set_state: .*oldstate = ( \"TCP_$3\" .*newstate = ( \"TCP_$4\" .*protocol = 6, sport = $1, dport = $2, family = $5," bt2.out | grep -q "$6"; }
  sed -n 's/^state //p' want >states
  family=2
  v4='saddr = \[ \[0\] = 127, \[1\] = 0, \[2\] = 0, \[3\] = 1 \], daddr = \[ \[0\] = 127'
  v6='daddr_v6 = \[ \[0\] = 0x0, .* \[7\] = 0x1 \] }'
  while read -r client server; do
    [ $family = 2 ] && address=$v4 || address=$v6
    state 0 "$server" CLOSE SYN_SENT $family "$address"
    state "$client" "$server" SYN_SENT ESTABLISHED $family "$address"
    state "$server" "$client" SYN_RECV ESTABLISHED $family "$address"
    family=10
  done <states
  sed -n 's/^closed //p' want | while read -r client server; do
    state "$client" "$server" SYN_SENT CLOSE 2 "$v4"
    grep -q " rutile_tcp_connect: .*state = ( \"TCP_CLOSE\" .* errno = 0, .* sport = $client, dport = $server, " bt2.out
  done
  grep -q '^closed ' want
  sed -n 's/^again //p' want | while read -r client server times; do
    [ "$(grep -c " tcp_retransmit_skb: .*state = ( \"TCP_SYN_SENT\" : container = 2 ), sport = $client, dport = $server, family = 2," bt2.out)" -ge "$times" ]
  done
}

# Each connect() with its thread, its end, and the error that the program got.
test_connects() {
  need_bpf
  cat >connects.py <<'END'
import os, socket, threading
def connect(family, address):
    client = socket.socket(family)
    error = client.connect_ex(address)
    print(threading.get_native_id(), os.getpid(), error, client.getsockname()[1] if not error else "[1-9][0-9]*", address[1])
    return client
keep = []
for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    server, bound = socket.socket(family), socket.socket(family)
    server.bind((host, 0))
    server.listen()
    bound.bind((host, 0))
    keep += [server, bound, connect(family, server.getsockname())]
    t = threading.Thread(target=connect, args=(family, bound.getsockname()))
    t.start()
    t.join()
END
  "$RUTILE" record -o t -e rutile_tcp_connect -- python3 connects.py >want
  readers t >/dev/null
  not grep -q inet_sock_set_state bt2.out
  [ "$(grep -c ' rutile_tcp_connect: ' bt2.out)" = 4 ]
  [ "$(wc -l <want)" = 4 ]
  while read -r tid pid error sport dport; do
    [ "$error" = 0 ] && state=ESTABLISHED || state=CLOSE
    grep -qE " rutile_tcp_connect: .*state = \( \"TCP_$state\" : .* errno = $error, duration_ns = [1-9][0-9]*, tid = $tid, pid = $pid, comm = \"python3\", sport = $sport, dport = $dport, " bt2.out ||
      { echo "not there: $tid $pid $error $sport $dport"; return 1; }
  done <want
  awk '$1 != $2 && $3 == 111 { n++ } END { exit n != 2 }' want
}

# fmode of open files: what the kernel lets the program do with each.
test_file_modes() {
  need_bpf
  cat >files.py <<'END'
import os, sys
def can(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        return False
    return True
open("file", "w").write("text")
r, w = os.pipe()
os.write(w, b"text")
for fd in os.open("file", os.O_RDONLY), os.open("file", os.O_WRONLY), os.open("file", os.O_RDWR | os.O_APPEND), r, w:
    bits = (can(os.read, fd, 1), can(os.write, fd, b"y"), can(os.lseek, fd, 0, os.SEEK_SET), can(os.pread, fd, 1, 0), can(os.pwrite, fd, b"x", 0))
    print(os.getpid(), fd, sum(1 << i for i, yes in enumerate(bits) if yes))
sys.stdout.flush()
os.rename("new", "want")
sys.stdin.read()
END
  mkfifo hold
  python3 files.py <hold >new &
  trap 'kill $! 2>/dev/null || true' EXIT
  exec 7>hold
  wait_for want
  "$RUTILE" record -o t -e rutile_tcp_connect --duration 0.1
  readers t >/dev/null
  [ "$(wc -l <want)" = 5 ]
  while read -r pid fd bits; do
    mode=$(sed -n "s/.* lttng_statedump_file_descriptor: .* pid = $pid, .* fd = $fd, .* fmode = \(0x[0-9A-F]*\), .*/\1/p" bt2.out)
    [ $((mode & 7)) = $((bits & 7)) ] || { echo "fd $fd: $mode is not $bits"; return 1; }
    # FMODE_PREAD and FMODE_PWRITE say nothing of the direction.
    [ $((mode >> 3 & mode & 1)) = $((bits >> 3 & 1)) ]
    [ $((mode >> 4 & mode >> 1 & 1)) = $((bits >> 4 & 1)) ]
  done <want
  # Not only the access mode.
  awk '$3 > 3 { n++ } END { exit n != 3 }' want
}

# In a PID namespace a process has the number that its first process has outside: each has its own modes.
test_file_modes_in_a_namespace() {
  need_bpf
  cat >inside <<'END'
set -e
read -r outside _ </proc/self/stat
mount -t proc proc /proc
exec 9<>both
echo $((outside - 1)) >/proc/sys/kernel/ns_last_pid
sleep 100 9</dev/null & echo "$! $outside"
"$RUTILE" record -o t -e rutile_tcp_connect --duration 0.1
END
  RUTILE=$RUTILE unshare --pid --fork --mount bash inside >numbers
  read -r pid outside <numbers
  [ "$pid" = "$outside" ]
  readers t >/dev/null
  grep -q "lttng_statedump_file_descriptor: .* pid = $pid, .* fd = 9, .* fmode = 0x1, filename = \"/dev/null\"" bt2.out
}

# Writes that reach the disk later, in requests of the kernel's worker or of another process, are counted for those
# that changed the pages.
test_dirtied() {
  need_bpf
  truncate -s 100M image
  mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 image
  mkdir disk
  disk=$(losetup -f --show image)
  trap 'cd "$T"; umount disk || :; losetup -d $disk' EXIT
  mount "$disk" disk
  cat >work.sh <<'END'
dd if=/dev/zero of=disk/first bs=64k count=100 2>/dev/null
python3 -c '
import mmap, os
f = open("disk/second", "w+b")
f.truncate(4096 * 50)
m = mmap.mmap(f.fileno(), 0)
for i in range(50): m[4096 * i] = 1'
dd if=/dev/zero of=disk/a_name_that_is_longer_than_what_is_kept_of_it bs=4k count=10 2>/dev/null
sync -f disk/first
END
  "$RUTILE" record -a -o t --buffer 128M -e block,sched,syscall -- sh work.sh
  babeltrace2 t >t.out
  bytes() { sed -n "s/.* rutile_block_dirtied: .* bytes = \([0-9]*\), .* comm = \"$1\", .* filename = \"$2\" }/\1/p" t.out | awk '{n += $1} END {print n}'; }
  [ "$(bytes dd first)" = $((100 * 65536)) ]
  [ "$(bytes python3 second)" = $((50 * 4096)) ]
  [ "$(bytes dd a_name_that_is_longer_than_what_is_kept)" = $((10 * 4096)) ]
  grep -q " rutile_block_dirtied: .* comm = \"dd\", inode = $(stat -c %i disk/first), filename = \"first\" }" t.out
  "$RUTILE" iousagetop t --mi --limit 1000 >mi
  python3 - <<'END'
import json
for t in json.load(open("mi"))["results"]:
    kind = t["class"] if isinstance(t["class"], str) else t["class"]["inherit"]
    if kind == "per-process-top-block": blocks = t["data"] # read, then written
    if kind == "per-file-top-block": sizes = {r[0]["path"]: r[2]["value"] for r in t["data"]}
assert sizes["first"] == 6553600 and sizes["second"] == 204800, sizes
dd = [r[1]["value"] for r in blocks if r[0]["name"] == "dd"]
assert sorted(dd) == [40960, 6553600], blocks
END
  "$RUTILE" iousagetop t >text
  grep -A6 'Block I/O Write by File' text | grep -q '6.25 MiB first (inode'
}

# docs/values.md: UPDATE=1 in the environment writes it.
test_document() {
  need_bpf
  "$RUTILE" record -o t -e all -- true
  python3 "$SRC/tests/bpf/values.py" doc t/kernel/metadata "$SRC/tests/data/lttng-2.13.txt" "$SRC/docs/values.md" "${UPDATE:-}"
}

t_case "the values of the kernel's own records" test_kernel
t_case "headers of packets, states of connections" test_packets
t_case "modes of open files are those of the kernel" test_file_modes
t_case "modes of open files in a PID namespace" test_file_modes_in_a_namespace
t_case "connects have their thread, duration and error" test_connects
t_case "the processes that changed the pages that are written" test_dirtied
t_case "docs/values.md is what there is" test_document
t_case "the statedump in nested namespaces" test_statedump
t_case "user namespaces without a process in the statedump" test_user_namespaces
t_case "threads of interrupts in the statedump" test_interrupts
t_case "the states of processes in the statedump" test_states
t_case "interfaces, CPUs and modules in the statedump" test_machine
t_done
