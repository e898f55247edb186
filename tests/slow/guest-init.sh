#!/bin/busybox sh
# The first program of the guest in test_recover.sh.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf
exec >/dev/ttyS0 2>&1
# loads NAME OPTION...: this kernel refuses none of the programs.
loads() {
  name=$1
  shift
  rutile record -o "/tmp/$name" "$@" -- /bin/true 2>&1 | sed "s/^/LOAD $name /"
  rm -r "/tmp/$name" && echo "LOADED $name"
}
loads all -e all
loads filter -e syscall,sched_switch,irq_softirq_entry --filter 'pid != 1' --context pid
loads ruby -e syscall,sched_switch --context ruby_stack,ustack
loads sample --profile 100 --context ruby_stack
loads probe -e "uprobe:/lib/x86_64-linux-gnu/libc.so.6:getppid(a:s32,b:str)" --filter 'a != 1'
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
