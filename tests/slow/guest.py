#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Boots a kernel in QEMU until it panics, then dumps its memory.

    guest.py KERNEL INITRAMFS SERIAL-LOG DUMP elf|kdump-zlib
"""
import json
import os
import socket
import subprocess
import sys
import time

kernel, initramfs, log, dump, form = sys.argv[1:]
sock = log + ".qmp"
vm = subprocess.Popen(
    # No KVM: machines that run tests are often guests themselves.
    ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "2", "-nographic", "-no-reboot",
     "-kernel", kernel, "-initrd", initramfs, "-append", "console=ttyS0 panic=0 quiet",
     "-serial", "file:" + log, "-monitor", "none", "-qmp", f"unix:{sock},server=on,wait=off"],
    stdin=subprocess.DEVNULL)


def fail(what):
    vm.kill()
    sys.exit(what)


for _ in range(400 * 10):
    time.sleep(0.1)
    text = open(log, errors="replace").read() if os.path.exists(log) else ""
    if "Kernel panic" in text and "end Kernel panic" in text:
        break
    if vm.poll() is not None:
        fail("QEMU ended before the panic")
else:
    fail("no panic in time")

s = socket.socket(socket.AF_UNIX)
s.connect(sock)
f = s.makefile("rw")


def command(name, **arguments):
    f.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
    f.flush()
    while True:
        answer = json.loads(f.readline())
        if "return" in answer:
            return
        if "error" in answer:
            fail(answer["error"]["desc"])


json.loads(f.readline())
command("qmp_capabilities")
command("dump-guest-memory", paging=False, protocol="file:" + dump, format=form)
command("quit")
vm.wait()
