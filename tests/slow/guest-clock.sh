#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# The first program of the guest in test_clock.sh: CPUs, clocks and sleep while sessions run.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf
exec >/dev/ttyS0 2>&1
export TZ=JST-9
# mark NAME: a system call that carries the time of day.
mark() {
  for i in 1 2 3 4 5; do mkdir "/tmp/mark-$1-$(date +%s)"; rmdir /tmp/mark-*; done
}
# next NAME: the directory that begins when the time of day has changed; a busy host makes it late.
next() {
  for i in $(seq 300); do
    [ -e "/tmp/$1/kernel/metadata" ] && return
    sleep 0.1
  done
  echo "FAILED: no $1"
}
cd /tmp
rutile start files -o /tmp/files -e syscall:mkdir,sched_process_exec || echo FAILED
rutile start flight --flight --buffer 4M -e syscall:mkdir,sched_switch || echo FAILED
mark start
echo 0 >/sys/devices/system/cpu/cpu1/online || echo FAILED
mark offline
# A session may begin while a CPU is away. (Its stacks take the guest seconds to symbolise.)
rutile start later -o /tmp/later -e syscall:mkdir,profile:50 || echo FAILED
mark later
echo 1 >/sys/devices/system/cpu/cpu1/online || echo FAILED
taskset 2 sh -c 'mkdir /tmp/mark-online-$(date +%s); rmdir /tmp/mark-*; mkdir /tmp/mark-online-$(date +%s); rmdir /tmp/mark-*'
rutile snapshot flight -o /tmp/snap-1 || echo FAILED
date -s "2031-02-03 04:05:06"
next files-1
mark set
rutile snapshot flight -o /tmp/snap-2 || echo FAILED
echo "SLEEPING"
cat /proc/uptime
echo mem >/sys/power/state || echo FAILED
cat /proc/uptime
echo "AWAKE"
next files-2
mark awake
date -s "2030-01-02 03:04:05"
next files-3
mark back
rutile status files
rutile destroy files later
rutile snapshot flight -o /tmp/snap-3 || echo FAILED
rutile destroy flight
stty -F /dev/ttyS1 raw
tar czf - files* later* snap-* | base64 >/dev/ttyS1
echo "DONE"
sync
poweroff -f
