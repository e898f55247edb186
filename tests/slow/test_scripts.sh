#!/bin/bash
# SPDX-License-Identifier: MIT
# Scripts on Debian's kernels, which have what the kernels that tests run on may lack: kprobe, kretprobe, fentry, fexit. Scripts
# that are compiled here run there, where structures and tracepoints are laid out otherwise.
. "$SRC/tests/tap.sh"
. "$SRC/tests/slow/lib.sh"

# Counts what is known: mkdir by busybox, 25 times. Fields of structures are at other places in each kernel.
compiled() {
  mkdir -p c root/compiled
  cat >c/fields.bt <<'END'
tracepoint:syscalls:sys_enter_mkdir /comm == "mkdir"/ {
  @n = count();
  @mode[args.mode] = count();
  @name[strncmp(str(args.pathname), "/tmp/counted-compiled-", 22)] = count();
  @self[curtask.pid == tid, curtask.tgid == pid, curtask.comm == comm] = count();
  @parent[curtask.real_parent.tgid == ppid, curtask.real_parent.comm == pcomm, curtask.group_leader.pid == pid] = count();
  @memory[curtask.mm.arg_start < curtask.mm.arg_end, curtask.mm.arg_end <= curtask.mm.env_start] = count();
  @threads[curtask.signal.nr_threads] = count();
}
tracepoint:sched:sched_process_exit /comm == "mkdir"/ { @gone[args.pid == tid, args.comm] = count(); }
rawtracepoint:sched_process_exit /comm == "mkdir"/ { @exit[args.p.pid == tid, args.p.comm] = count(); }
END
  cat >c/many.bt <<'END'
tracepoint:syscalls:sys_enter_* /comm == "mkdir"/ { @calls = count(); }
tracepoint:syscalls:sys_enter_mkd* /comm == "mkdir"/ { @n = count(); }
END
  cp "$SRC/share/rutile/scripts/"{blocksize,cpustacks,execs,exits,signals}.bt c
  "$RUTILE" service compile --scripts c
  cp c/*.rbc root/compiled
}

test_scripts() {
  need_kernel_of "$1"
  mkdir -p root/scripts
  cp "$SRC"/share/rutile/scripts/*.bt root/scripts
  cp -r "$SRC/share/rutile/layers" root/layers
  compiled
  make_initramfs "$SRC/tests/slow/guest-scripts.sh"
  # QEMU without KVM misses timer interrupts on a busy machine, which the kernel would take for broken hardware.
  RUTILE_VM_APPEND=no_timer_check python3 "$SRC/tests/slow/guest_run.py" "$kernel" initramfs "$PWD/serial" "$PWD/out" 500
  tr -d '\r' <serial >said
  cat said
  grep -q '^DONE' said
  # mkdir is busybox's, with mode 0777.
  for probe in kprobe kretprobe offset glob fentry fexit module iter; do
    grep -qx "$probe @n: 25" said
  done
  for probe in kprobe fentry fexit; do
    grep -qx "$probe @mode\[511\]: 25" said
  done
  for probe in kretprobe fexit; do
    grep -qx "$probe @result\[0\]: 25" said
  done
  grep -qx 'kprobe @func\[do_mkdirat\]: 25' said
  if [ "$1" = bullseye ]; then
    # Its function has another parameter; it has no loops, and drops packets without a reason.
    grep -q "^fentryname stdin:1:.*: error: struct _fentry_do_mkdirat has no field 'name'" said
    grep -q '^loops stdin:1:1: error: this kernel has no loops: they need Linux 5.17' said
    grep -q "^LIBRARY drops 1 .*: error: struct _tracepoint_skb_kfree_skb has no field 'reason'" said
    [ "$(grep -c '^LIBRARY ruby[a-z]* 1 .*: error: names and stacks of Ruby need Linux 5.12' said)" = 6 ]
    sed -i '/^LIBRARY drops 1/d; /names and stacks of Ruby need/d' said
  else
    grep -qx 'fentryname @name\[0\]: 25' said
    grep -qx 'loops @n: 75' said
  fi
  grep -q "^none rutile run: the kernel has no function 'no_such_function'" said
  # Each script that is installed loads, but those about other programs, which say what they miss.
  [ "$(grep -c '^LIBRARY ' serial)" = "$(find "$SRC/share/rutile/scripts" -name '*.bt' | wc -l)" ]
  grep '^LIBRARY [a-z]* [^0]' said >others || :
  not grep -qv "^LIBRARY rubylib 1 .* has no function 'malloc'" others
  not grep -i 'verifier' said
  # Those that were compiled on this machine.
  [ "$(grep -c '^COMPILED [a-z]* 0 ' said)" = 7 ]
  for line in '@n: 25' '@mode\[511\]: 25' '@name\[0\]: 25' '@self\[true, true, true\]: 25' '@parent\[true, true, true\]: 25' \
    '@memory\[true, true\]: 25' '@threads\[1\]: 25' '@gone\[true, mkdir\]: 25' '@exit\[true, mkdir\]: 25'; do
    grep -qx "compiled $line" said
  done
  # Events that this kernel does not have are left out.
  grep -qx 'many @n: 25' said
  grep -q 'many @calls: [0-9][0-9]' said
}

bullseye() { test_scripts bullseye; }
bookworm() { test_scripts bookworm; }
trixie() { test_scripts trixie; }

t_case "scripts on Linux 5.10 of Debian 11" bullseye
t_case "scripts on Linux 6.1 of Debian 12" bookworm
t_case "scripts on Linux 6.12 of Debian 13" trixie
t_done
