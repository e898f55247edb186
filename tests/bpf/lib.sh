# SPDX-License-Identifier: MIT
# What the tests of recording share; source it after tap.sh.

# What sessions log stays in the test's directory.
export RUTILE_LOG_DIR="$t_root/log"

# Where the administrator's programs are: after a plain `su` they are not found.
PATH=$PATH:/usr/sbin:/sbin

# need_bpf: skips the test where eBPF programs cannot be loaded.
need_bpf() {
  [ "$(id -u)" = 0 ] || t_skip "not root"
  [ -r /sys/kernel/btf/vmlinux ] || t_skip "the kernel has no BTF"
  grep -q '^CapEff:.*[0-9a-f]*$' /proc/self/status
}

# need_slow_disk: skips the test where none can be made.
need_slow_disk() {
  [ -w /sys/fs/cgroup/blkio/blkio.throttle.read_iops_device ] || grep -sqw io /sys/fs/cgroup/cgroup.controllers ||
    t_skip "no control groups with I/O limits"
  losetup -f || t_skip "no loop devices"
}

# slow_disk READS: makes a block device, $disk, of which the processes in the control group $slow_group can read
# so many pages a second. Undone by no_slow_disk.
slow_disk() {
  local group number
  need_slow_disk
  if [ -w /sys/fs/cgroup/blkio/blkio.throttle.read_iops_device ]; then
    group=/sys/fs/cgroup/blkio/rutile-test-$$
  else
    group=/sys/fs/cgroup/rutile-test-$$
    echo +io >/sys/fs/cgroup/cgroup.subtree_control
  fi
  truncate -s 8M image
  disk=$(losetup --find --show image) || t_skip "no loop devices"
  mkdir "$group"
  slow_group=$group
  # Its number is "7:0".
  number=$(cat "/sys/class/block/${disk#/dev/}/dev")
  if [ -e "$slow_group/blkio.throttle.read_iops_device" ]; then
    echo "$number $1" >"$slow_group/blkio.throttle.read_iops_device"
  else
    echo "$number riops=$1" >"$slow_group/io.max"
  fi
}
no_slow_disk() {
  # A group goes once its last process has ended.
  [ -z "${slow_group:-}" ] || t_wait rmdir "$slow_group"
  [ -z "${disk:-}" ] || losetup -d "$disk"
}

# Peers are not what is tested: without the checks of malloc that meson asks for. Babeltrace 1, and what
# is built on it, reads memory that it has freed, and crashes with some of them.
peer() {
  MALLOC_PERTURB_=0 command "$@"
}
babeltrace() {
  peer babeltrace "$@"
}
babeltrace2() {
  peer babeltrace2 "$@"
}

# readers DIR: both versions of babeltrace read it, without a word on standard error, and see the
# same number of events, which is printed.
readers() {
  babeltrace2 "$1" >bt2.out 2>bt2.err
  babeltrace "$1" >bt1.out 2>bt1.err
  if [ -s bt2.err ] || [ -s bt1.err ]; then
    cat bt2.err bt1.err >&2
    return 1
  fi
  # A string may hold ends of lines, which babeltrace 1 prints as they are.
  n2=$(grep -c "^\[" bt2.out || :)
  n1=$(grep -c "^\[" bt1.out || :)
  [ "$n1" = "$n2" ] || {
    echo "babeltrace2 reads $n2 events, babeltrace $n1" >&2
    return 1
  }
  echo "$n2"
}

# whole DIR: all three readers take it without a word; what babeltrace2 sees is in bt2.out.
whole() {
  readers "$1" >/dev/null
  "$RUTILE" view "$1" >view.out 2>view.err
  [ ! -s view.err ] || { cat view.err >&2; return 1; }
  [ "$(wc -l <view.out)" = "$(wc -l <bt2.out)" ]
}

# Kills the recorder with SIGKILL while it writes as much as it can: it is stopped until its rings
# hold some megabytes, then goes on, and lives until it has written a random part of that. DIR is on
# tmpfs, where writes are cut off at every page.
killed_at_random_moments() { # TIMES DIR
  need_bpf
  mkdir -p "$2"
  cat >kill.py <<'EOF'
import os, random, signal, subprocess, sys, time
rutile, directory = sys.argv[1:3]
subbuf = random.choice(["16K", "64K", "256K"])
rec = subprocess.Popen([rutile, "record", "-p", str(os.getpid()), "-o", directory, "-e", "syscall:getppid",
                        "--buffer", "64M", "--subbuf", subbuf, "--", "cat"],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
# The command runs when everything is recorded.
rec.stdin.write(b"x\n")
rec.stdin.flush()
rec.stdout.readline()
def written():
    try:
        return sum(e.stat().st_size for e in os.scandir(directory + "/kernel") if e.name.startswith("kernel_"))
    except FileNotFoundError:
        return 0
before = written()
rec.send_signal(signal.SIGSTOP)
# Some 1.2 MB
for _ in range(50000):
    os.getppid()
enough = before + random.random() * 1e6
rec.send_signal(signal.SIGCONT)
end = time.monotonic() + 10
while written() < enough and time.monotonic() < end:
    pass
rec.kill()
rec.wait()
print("%s: killed at %d KiB" % (subbuf, written() >> 10))
EOF
  filled=0
  for i in $(seq "$1"); do
    rm -rf "$2/t"
    python3 kill.py "$RUTILE" "$2/t"
    babeltrace2 "$2/t" >bt2.out 2>bt2.err
    [ ! -s bt2.err ] || { cat bt2.err; ls -l "$2/t/kernel"; return 1; }
    [ ! -s bt2.out ] || filled=$((filled + 1))
    [ $((i % 5)) != 0 ] || whole "$2/t"
  done
  echo "$filled traces with events"
  [ "$filled" -ge $(($1 / 2)) ]
}

# wait_for FILE: until it is there.
wait_for() {
  t_wait test -e "$1"
}

# recording DIR: until a recorder in the background records. Its directory is there before its programs
# are; a packet is written after they are attached and the state of the machine was dumped.
written() {
  for w_file in "$1"/kernel/kernel_*; do [ ! -s "$w_file" ] || return 0; done
  return 1
}
recording() {
  t_wait written "$1"
}

# holds N EVENT DIR: so many of these are in its packets by now.
holds() {
  [ "$(babeltrace2 "$3" 2>/dev/null | grep -c "$2")" -ge "$1" ]
}

# company: another process on this machine that makes calls all the time; without it there may be
# a second without a single call. Ended by the caller: kill $company.
company() {
  timeout 100 sh -c 'while :; do sleep 0.01; done' &
  company=$!
}

# marker N: a method makes one system call, N times, recorded by `rutile record --ruby -- COMMAND`; in
# the trace, as babeltrace2 merges it, each call's events lie between those of its method.
marker() {
  cat >marker.rb <<'RUBY'
class Marker
  def mark; Process.ppid; end
end
m = Marker.new
Integer(ARGV[0]).times do |i|
  m.mark
  sleep 0.05 if i % 10_000 == 9_999 # the recorder keeps up on a loaded machine, too
end
RUBY
  "$RUTILE" record -o trace --buffer 64M -e syscall:getppid --ruby :call,return -- \
    "$RUBY" --disable-gems marker.rb "$1" 2>record.err
  cat record.err
  [ "$(grep -c ' 0 events lost' record.err)" = 2 ]
  # Before that a shell may run that starts this Ruby.
  babeltrace2 trace | sed -n '/ ruby:call: /,$p' |
    grep -oE ' (ruby:call|ruby:return|syscall_(entry|exit)_getppid): ' | paste - - - - | sort | uniq -c >quads
  cat quads
  [ "$(wc -l <quads)" = 1 ]
  read -r -a quad <quads
  [ "${quad[*]}" = "$1 ruby:call: syscall_entry_getppid: syscall_exit_getppid: ruby:return:" ]
}

# destroy_all: the sessions of this test, whose names begin with $S.
destroy_all() {
  for s in $("$RUTILE" list 2>/dev/null | awk -v p="^$S" '$1 ~ p {print $1}'); do
    "$RUTILE" destroy "$s" 2>/dev/null
  done
}

# lost_events FILE: how many events the tracer discarded, by all that babeltrace2 said of it there.
lost_events() {
  sed -n 's/.*Tracer discarded \([0-9]*\) event.*/\1/p' "$1" | awk '{ n += $1 } END { print n + 0 }'
}

# opens N: a file is opened so often, by processes of a name that no other has.
opens() {
  cp /bin/cat ./counted
  for _ in $(seq "$1"); do ./counted "$T/the-file" >/dev/null; done
}
