# SPDX-License-Identifier: MIT
"""What several sections need: the kernel's count of eBPF programs, and ports."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import socket
import subprocess

BPF_ENABLE_STATS = 32


@contextlib.contextmanager
def programs_timed():
    """The kernel counts runs and time of programs while this is open, and no longer, also when this process is killed."""
    libc = ctypes.CDLL(None, use_errno=True)
    attr = ctypes.create_string_buffer(128)
    fd = libc.syscall(321 if os.uname().machine == "x86_64" else 280, BPF_ENABLE_STATS, attr, 128)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "the kernel counts no time of programs")
    try:
        yield
    finally:
        os.close(fd)


def all_programs():
    """What bpftool says of each program that is loaded: its id, name, bytes_xlated, and while programs are timed run_time_ns and run_cnt."""
    out = subprocess.run(["bpftool", "-j", "prog", "show"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
                         env=os.environ | {"PATH": os.environ["PATH"] + ":/usr/sbin"}).stdout
    return json.loads(out)


def programs_of(pid):
    """{id: (ns, runs)} of the programs that the process holds; none when it has ended."""
    found = {}
    with contextlib.suppress(OSError):
        for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                fields = dict(re.findall(r"^(prog_id|run_time_ns|run_cnt):\s*(\d+)", info.read_text(), re.M))
                if "run_cnt" in fields:
                    found[int(fields["prog_id"])] = (int(fields["run_time_ns"]), int(fields["run_cnt"]))
    return found


def free_ports():
    """A port of 127.0.0.1 that is free, for a server that takes the ones after it as well."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port < 65500:
            return port
