#!/bin/bash
# SPDX-License-Identifier: MIT
# `rutile recover`, for real: a Debian kernel with flight recorders panics in QEMU; what the dump
# gives back is compared with what the guest had printed. Every program runs on another kernel's
# verifier on the way.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
. "$SRC/tests/slow/lib.sh"

crash() {
  need_kernel
  make_initramfs "$SRC/tests/slow/guest-init.sh"
  python3 "$SRC/tests/slow/guest.py" "$kernel" initramfs "$PWD/serial" "$PWD/dump" "$1"
  tr -d '\r' <serial >said
  for s in all filter ruby sample probe; do
    grep -q "^LOADED $s" said || { cat said; return 1; }
  done
  # The one tracepoint that came with Linux 6.13.
  sed '/is not recorded: this kernel has no tracepoint .hrtimer_setup.$/d' said >rest
  not grep -E '^LOAD .*(refuse|not recorded)' rest
  # Memory that is not zero by chance: libkdumpfile reads some that it has not set.
  MALLOC_PERTURB_=191 "$RUTILE" recover dump -o out >found
  cat found
  [ "$(grep -cE '^out/(one|two): ' found)" = 2 ]
  # Recordings that have ended can be found in memory that nothing has used since: without packets.
  not grep -vE '^out/(one|two): |: 0\.0 MiB in 0 packets' found
  for s in one two; do
    readers out/$s >/dev/null
    grep -o 'made marker-[0-9]*' serial | while read -r _ marker; do
      grep -q "syscall_entry_mkdir:.*\"/tmp/$marker\"" bt2.out || { echo "$s lacks $marker"; exit 1; }
    done
    # The last thing that happened before the panic.
    grep -q 'syscall_entry_mkdir:.*"/tmp/the-last"' bt2.out
  done
  [ "$(grep -c 'made marker' serial)" = 200 ]
  grep -q 'procname = "mkdir"' bt2.out
  # Its stacks are there, by address: each goes through the function by which calls enter the kernel.
  grep -q '^out/two: .* [1-9][0-9]* stacks' found
  "$RUTILE" view --stacks --json --event 'syscall_entry_mkdir' out/two >stacks
  python3 - "$(sed -n 's/^\([0-9a-f]*\) [tT] do_syscall_64.*/\1/p' serial)" <<'END'
import json, sys
place, n = int(sys.argv[1], 16), 0
for line in open("stacks"):
    frames = [int(f, 16) for f in json.loads(line)["kstack"]]
    assert any(place < f < place + 0x1000 for f in frames), (hex(place), line)
    n += 1
print(n, "calls with their stacks")
assert n >= 201, n
END
}

test_elf() { crash elf; }
test_kdump() { crash kdump-zlib; }

test_refuses() {
  head -c 100000 /dev/urandom >noise
  if "$RUTILE" recover noise -o out 2>err; then return 1; fi
  grep -q "'noise' is not a memory dump" err
  if "$RUTILE" recover /nowhere 2>err; then return 1; fi
  grep -q "cannot open '/nowhere'" err
}

t_case "what is no dump is refused" test_refuses
t_case "two flight recorders out of an ELF dump after a panic" test_elf
t_case "... and out of a kdump-compressed one" test_kdump
t_done
