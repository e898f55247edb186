#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# The first program of the guest in test_scripts.sh: scripts on a kernel that has kprobes and fentry.
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tracefs tracefs /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
exec >/dev/ttyS0 2>&1
cd /tmp
echo "KERNEL $(uname -r)"
# counts NAME SCRIPT: the script while 25 directories are made.
cat >work <<'END'
i=0
while [ $i -lt 25 ]; do
  mkdir /tmp/counted-$1-$i
  i=$((i + 1))
done
END
counts() {
  rutile run -q -c "sh /tmp/work $1" -e "$2" 2>&1 | sed "s/^/$1 /"
}
counts kprobe 'kprobe:do_mkdirat /comm == "mkdir"/ { @n = count(); @mode[arg2] = count(); @func[func] = count(); }'
counts kretprobe 'kretprobe:do_mkdirat /comm == "mkdir"/ { @n = count(); @result[(int32)retval] = count(); }'
counts offset 'kprobe:do_mkdirat+0 /comm == "mkdir"/ { @n = count(); }'
counts glob 'kprobe:do_mkdira? /comm == "mkdir"/ { @n = count(); }'
counts fentry 'fentry:do_mkdirat /comm == "mkdir"/ { @n = count(); @mode[args.mode] = count(); }'
counts fentryname 'fentry:do_mkdirat /comm == "mkdir"/ { @name[strncmp(str(args.name.name), "/tmp/counted-fentryname-", 24)] = count(); }'
counts fexit 'fexit:do_mkdirat /comm == "mkdir"/ { @n = count(); @result[retval] = count(); @mode[args.mode] = count(); }'
counts module 'fentry:vmlinux:do_mkdirat /comm == "mkdir"/ { @n = count(); }'
counts iter 'iter:task { @comm[ctx.task.comm] = count(); } tracepoint:syscalls:sys_enter_mkdir /comm == "mkdir"/ { @n = count(); }'
counts none 'kprobe:no_such_function { @n = count(); }'
counts loops 'tracepoint:syscalls:sys_enter_mkdir /comm == "mkdir"/ { for ($i : 0..3) { @n = sum($i); } } '
# Scripts that were compiled on another kernel.
rutile run -q -c "sh /tmp/work compiled" /compiled/fields.rbc 2>&1 | sed "s/^/compiled /"
rutile run -q -c "sh /tmp/work many" /compiled/many.rbc 2>&1 | grep -v '^[t ]*[~^]*$\|^tracepoint' | sed "s/^/many /"
for script in /compiled/*.rbc; do
  rutile run -q -c true "$script" >/tmp/said 2>&1 </dev/null
  echo "COMPILED $(basename "$script" .rbc) $? $(grep -m1 error /tmp/said || tail -n 1 /tmp/said)"
done
export RUTILE_LAYERS=/layers
for script in /scripts/*.bt; do
  name=$(basename "$script" .bt)
  # Those of libraries that are not here compile where the libraries are.
  [ "$name" = rubylib ] && set -- /bin/busybox malloc || set --
  rutile run -q -c true "$script" "$@" >/tmp/said 2>&1 </dev/null
  echo "LIBRARY $name $? $(grep -m1 error /tmp/said || tail -n 1 /tmp/said)"
done
echo "DONE"
sync
poweroff -f
