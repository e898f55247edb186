#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Boots a kernel in QEMU until it powers off; wakes it up when it sleeps.

    guest_run.py KERNEL INITRAMFS SERIAL-LOG OUTPUT [SECONDS]

OUTPUT gets what the guest writes to its second serial line.
"""
import json
import os
import socket
import subprocess
import sys
import time

kernel, initramfs, log, output = sys.argv[1:5]
limit = time.monotonic() + float(sys.argv[5] if len(sys.argv) > 5 else 300)
sock = log + ".qmp"
vm = subprocess.Popen(
    # No KVM: machines that run tests are often guests themselves.
    ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", os.environ.get("RUTILE_VM_MEMORY", "768"), "-smp", "2", "-nographic", "-no-reboot",
     "-kernel", kernel, "-initrd", initramfs, "-append", "console=ttyS0 panic=-1 quiet " + os.environ.get("RUTILE_VM_APPEND", ""),
     "-serial", "file:" + log, "-serial", "file:" + output, "-monitor", "none",
     "-qmp", f"unix:{sock},server=on,wait=off"],
    stdin=subprocess.DEVNULL)
while not os.path.exists(sock):
    if vm.poll() is not None or time.monotonic() > limit:
        vm.kill()
        sys.exit("QEMU did not start")
    time.sleep(0.05)
s = socket.socket(socket.AF_UNIX)
s.connect(sock)
s.settimeout(1)
s.sendall(b'{"execute": "qmp_capabilities"}\n')
pending = b""
while vm.poll() is None:
    if time.monotonic() > limit:
        vm.kill()
        sys.exit("the guest did not end in time")
    try:
        data = s.recv(65536)
    except TimeoutError:
        continue
    except ConnectionError:
        data = b""
    if not data:
        vm.wait()
        break
    pending += data
    *lines, pending = pending.split(b"\n")
    for line in lines:
        if line.strip() and json.loads(line).get("event") == "SUSPEND":
            time.sleep(20)
            s.sendall(b'{"execute": "system_wakeup"}\n')
sys.exit(vm.returncode)
