#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# The first program of the guest in test_lockdown.sh, a kernel with lockdown=confidentiality.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t bpf bpf /sys/fs/bpf
mount -t securityfs security /sys/kernel/security
exec >/dev/ttyS0 2>&1
echo "LOCKDOWN $(cat /sys/kernel/security/lockdown)"
libc=$(ls /lib/x86_64-linux-gnu/libc.so.6)
cd /tmp
# The default, every event with contexts, a session, a flight recorder, a probe with a string, samples.
rutile record -o default -- mkdir /tmp/marker-default 2>&1 | sed 's/^/DEFAULT /'
rutile record -o all -e all --context pid,procname,vpid,ustack -- mkdir /tmp/marker-all 2>&1 | sed 's/^/ALL /'
rutile record -o strict -e irq --strict -- mkdir /tmp/marker-strict 2>&1 | sed 's/^/STRICT /'
rutile record -o filtered -e syscall:mkdir --filter 'mode != 1' -- mkdir /tmp/marker-filtered || echo FAILED
rutile record -o probe -e "uprobe:$libc:getppid" -- rutile list || echo FAILED
rutile record -o profile --profile 200 -- sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done' || echo FAILED
rutile record -o ruby -e syscall:mkdir --context ruby_stack -- mkdir /tmp/marker-ruby || echo FAILED
rutile start files -o /tmp/files -e sched,syscall || echo FAILED
rutile start flight --flight --buffer 4M -e syscall || echo FAILED
mkdir /tmp/marker-session
rutile snapshot flight -o snap || echo FAILED
rutile destroy files
rutile destroy flight
rutile doctor | sed 's/^/DOCTOR /'
stty -F /dev/ttyS1 raw
tar czf - default all filtered profile files snap | base64 >/dev/ttyS1
echo "DONE"
sync
poweroff -f
