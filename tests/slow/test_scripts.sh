#!/bin/bash
# SPDX-License-Identifier: MIT
# Scripts on Debian's kernel, which has what the kernels that tests run on may lack: kprobe, kretprobe, fentry, fexit.
. "$SRC/tests/tap.sh"
. "$SRC/tests/slow/lib.sh"

test_scripts() {
  need_kernel
  mkdir -p root/scripts
  cp "$SRC"/share/rutile/scripts/*.bt root/scripts
  cp -r "$SRC/share/rutile/layers" root/layers
  make_initramfs "$SRC/tests/slow/guest-scripts.sh"
  python3 "$SRC/tests/slow/guest_run.py" "$kernel" initramfs "$PWD/serial" "$PWD/out"
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
  grep -qx 'fentry @name\[0\]: 25' said
  grep -qx 'loops @n: 75' said
  grep -q "^none rutile run: the kernel has no function 'no_such_function'" said
  # Each script that is installed loads, but those about other programs, which say what they miss.
  [ "$(grep -c '^LIBRARY ' said)" = "$(find "$SRC/share/rutile/scripts" -name '*.bt' | wc -l)" ]
  grep '^LIBRARY [a-z]* [^0]' said >others || :
  not grep -qv "^LIBRARY rubylib 1 .* has no function 'malloc'" others
  not grep -i 'verifier' said
}

t_case "scripts on Debian's kernel" test_scripts
t_done
