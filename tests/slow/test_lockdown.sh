#!/bin/bash
# SPDX-License-Identifier: MIT
# Debian's kernel with lockdown=confidentiality, where no program may read the kernel's memory by the helper:
# what cannot be recorded is named with the reason, and everything else is recorded.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
. "$SRC/tests/slow/lib.sh"

test_lockdown() {
  need_kernel
  make_initramfs "$SRC/tests/slow/guest-lockdown.sh"
  RUTILE_VM_APPEND=lockdown=confidentiality \
    python3 "$SRC/tests/slow/guest_run.py" "$kernel" initramfs "$PWD/serial" "$PWD/out"
  tr -d '\r' <serial >said
  cat said
  grep -q 'LOCKDOWN .*\[confidentiality\]' said
  grep -q '^DONE' said
  not grep FAILED said
  # Of all events only these two read what this kernel, without a cast, has no other way to read.
  why="the kernel refuses its program: lockdown 'confidentiality' forbids it to read kernel memory"
  grep -q "^DEFAULT rutile: 'irq_handler_entry' is not recorded: $why" said
  grep -q "^ALL rutile: 'timer_hrtimer_expire_entry' is not recorded: $why" said
  [ "$(grep 'not recorded' said | grep -c refuses)" = 3 ]
  grep -q "^STRICT rutile record: 'irq_handler_entry' cannot be recorded: $why" said
  grep -q '^DOCTOR lockdown  *limited' said
  base64 -d out | tar xz --warning=no-timestamp
  for t in default all filtered files snap; do
    readers $t >/dev/null
    cp bt2.out $t.text
  done
  for t in default all; do
    grep -q "sched_process_exec:.*filename = \"/bin/mkdir\"" $t.text
    grep -q "syscall_entry_mkdir:.*pathname = \"/tmp/marker-$t\"" $t.text
    grep -q "irq_softirq_entry:" $t.text
  done
  grep -q 'kmem_mm_page_alloc:' all.text
  grep -q 'syscall_entry_mkdir:.*pathname = "/tmp/marker-filtered"' filtered.text
  grep -q 'syscall_entry_mkdir:.*pathname = "/tmp/marker-session"' files.text
  grep -q 'syscall_entry_mkdir:.*pathname = "/tmp/marker-session"' snap.text
  grep -q 'sched_process_fork:' files.text
  readers profile >/dev/null
  grep -q 'rutile_sample:.*"sh"' bt2.out
}

t_case "lockdown=confidentiality" test_lockdown
t_done
