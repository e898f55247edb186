#!/bin/busybox sh
# The first program of the guest in test_recover.sh.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf
exec >/dev/ttyS0 2>&1
rutile record -o /tmp/t -e all -- /bin/true && echo "VERIFIED"
rutile start one --flight --buffer 8M -e sched,irq,syscall || echo "NO SESSION"
rutile start two --flight --buffer 4M -e syscall:mkdir --context pid,procname,kstack
i=0
while [ $i -lt 200 ]; do
  mkdir /tmp/marker-$i && echo "made marker-$i"
  i=$((i + 1))
done
grep -w "do_syscall_64" /proc/kallsyms
echo "READY"
mkdir /tmp/the-last
echo c >/proc/sysrq-trigger
