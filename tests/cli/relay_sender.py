# SPDX-License-Identifier: MIT
"""A producer of the relay protocol that follows its argument, valid or not: relay_sender.py PORT WHAT"""

import glob
import os
import random
import socket
import struct
import sys
import time

port = int(sys.argv[1])
OK = 10


def connect(data=False):
    s = socket.create_connection(("127.0.0.1", port + data))
    s.settimeout(20)
    return s


def read(s, n):
    got = b""
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more:
            raise EOFError
        got += more
    return got


def cmd(c, p=b""):
    return struct.pack(">QQII", 0, len(p), c, 0) + p


def text(*names):
    return [n.encode() + b"\0" for n in names]


def version(s, minor=13):
    s.sendall(cmd(5, struct.pack(">II", 2, minor)))
    return struct.unpack(">II", read(s, 8))


def session(s, name="s", host="h"):
    n, h, b = text(name, host, "")
    head = struct.pack(">IIIIBB16sQQBQ", len(n), len(h), len(b), 0, 0, 0, b"u" * 16, 1, 1700000000, 0, 0)
    s.sendall(cmd(2, head + n + h + b))
    ident, status, length = struct.unpack(">QII", read(s, 16))
    return status, read(s, length)


def chunk(s, ident=0):
    s.sendall(cmd(19, struct.pack(">QQI", ident, 1, 0)))
    return struct.unpack(">I", read(s, 4))[0]


def stream(s, channel, path="kernel"):
    c, p = text(channel, path)
    s.sendall(cmd(1, struct.pack(">IIQQQ", len(c), len(p), 0, 0, 0) + c + p))
    return struct.unpack(">QI", read(s, 12))


def begin(name="s", host="h"):
    s = connect()
    version(s)
    status, path = session(s, name, host)
    assert status == OK and chunk(s) == OK
    return s


def packet(handle, seq, body, padding=0):
    return struct.pack(">QQQII", 0, handle, seq, len(body), padding) + body


def pending(s, handle, seq):
    s.sendall(cmd(8, struct.pack(">QQ", handle, seq)))
    return struct.unpack(">I", read(s, 4))[0]


def store(name, bodies):
    """A session whose stream x gets these packets; returns when they are stored."""
    s, d = begin(name), connect(True)
    handle, status = stream(s, "x")
    assert status == OK
    for i, body in enumerate(bodies):
        d.sendall(packet(handle, i, body, 3))
    while pending(s, handle, len(bodies) - 1):
        time.sleep(0.01)
    return s, d, handle


def closed(s):
    """Does the receiver close the connection?"""
    try:
        while s.recv(65536):
            pass
        return True
    except ConnectionResetError:
        return True
    except socket.timeout:
        return False


def good():
    s, d, handle = store("good", [b"abc" * 1000, b"d"])
    s.close()


def names():
    for name, host in (("..", "h"), ("a/b", "h"), ("s", ".."), ("s", "../x"), ("", "h"), ("s", "a\nb"), ("." * 3, "h")):
        s = connect()
        version(s)
        assert session(s, name, host)[0] != OK, (name, host)
        assert closed(s)
    for channel, path in (("..", "kernel"), ("a/b", "kernel"), ("x", ".."), ("x", "a/../../../b"), ("x", "/../b"),
                          ("x", ""), ("x", "a/b/c/d/e/f/g/h/i"), ("x" * 300, "k")):
        s = begin("names")
        assert stream(s, channel, path)[1] != OK, (channel, path)
        assert closed(s)
    s = connect()
    assert version(s, 4) == (2, 15) and closed(s)


def garbage():
    random.seed(1)
    for i in range(150):
        s = connect(i % 2 == 1)
        try:
            s.sendall(random.randbytes(random.randrange(1, 5000)))
        except OSError:
            pass
        s.close()
    # Sizes that are not there.
    s = connect()
    s.sendall(struct.pack(">QQII", 0, 1 << 40, 2, 0))
    assert closed(s)
    s, d, handle = store("sizes", [b"a"])
    d.sendall(struct.pack(">QQQII", 0, handle, 1, 0xFFFFFFFF, 0xFFFFFFFF))
    assert closed(d)
    # A packet that does not end, and one of a stream that is not there.
    s, d, handle = store("cut", [b"whole"])
    d.sendall(packet(handle, 1, b"x" * 100000)[:50000])
    d.close()
    d = connect(True)
    d.sendall(packet(handle ^ 1, 1, b"x"))
    assert closed(d)


def slow():
    """Connections that send a byte and wait; others work meanwhile."""
    held = []
    for i in range(200):
        s = connect(i % 2 == 1)
        s.sendall(b"\0")
        held.append(s)
    store("beside", [b"abc"])
    # Those inside a message are closed when their time is over, by the receiver.
    for s in held[::2]:
        assert closed(s)


def many():
    """More connections than one client may have: the others are closed, nothing else happens."""
    held = [connect() for _ in range(1000)]
    refused = 0
    for s in held:
        try:
            refused += version(s)[0] != 2
        except OSError:
            refused += 1
        except EOFError:
            refused += 1
    assert refused == 1000 - 256, refused
    for s in held:
        s.close()


def limits():
    """Started with --max-streams 2 --max-bytes 10000 --max-sessions 3."""
    s = begin()
    assert stream(s, "a")[1] == OK and stream(s, "b")[1] == OK and stream(s, "c")[1] != OK
    assert closed(s)
    held = [begin() for _ in range(3)]
    s = connect()
    version(s)
    assert session(s)[0] != OK
    for s in held:
        s.close()
    s = begin("much")
    handle, status = stream(s, "x")
    d = connect(True)
    for i in range(20):
        try:
            d.sendall(packet(handle, i, b"x" * 1000))
        except OSError:
            break
    assert closed(d)

def bodies_of(number):
    """What sender `number` sends, and the packet in which it is killed; None: it is not."""
    r = random.Random(number)
    bodies = [bytes([number]) * r.randrange(1, 20000) for _ in range(40)]
    return bodies, r.randrange(40) if number % 2 else None


def send_and_die(number):
    bodies, last = bodies_of(number)
    s, d = begin(f"many{number}"), connect(True)
    handle, status = stream(s, "x")
    assert status == OK
    for i, body in enumerate(bodies):
        whole = packet(handle, i, body, 3)
        if i == last:
            d.sendall(whole[:random.Random(number + 1000).randrange(len(whole))])
            os.kill(os.getpid(), 9)
        d.sendall(whole)
    while pending(s, handle, len(bodies) - 1):
        time.sleep(0.01)


def senders():
    """Fifty at once, every second of which is killed in the middle of something."""
    pids = {}
    for number in range(50):
        pid = os.fork()
        if not pid:
            try:
                send_and_die(number)
                os._exit(0)
            except BaseException as e:
                print(number, repr(e), file=sys.stderr)
                os._exit(1)
        pids[pid] = number
    for pid, number in pids.items():
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == (-9 if number % 2 else 0), (number, code)


def stored_senders():
    """What is stored of them, below in/dir: all packets, or whole ones from the first on."""
    for number in range(50):
        bodies, last = bodies_of(number)
        paths = glob.glob(f"in/dir/h/many{number}-*/kernel/x")
        got = open(paths[0], "rb").read() if paths else b""
        at = 0
        for i, body in enumerate(bodies):
            if at == len(got) and last is not None and i <= last:
                break
            assert i != last and got[at:at + len(body) + 3] == body + b"\0\0\0", (number, i)
            at += len(body) + 3
        assert at == len(got), number


MOVE, DELETE = 0, 2


def end_chunk(s, ident, how):
    s.sendall(cmd(20, struct.pack(">QQBI", ident, 1, 1, how)))
    status, length = struct.unpack(">II", read(s, 8))
    read(s, length)
    return status


def clear_allowed(s):
    s.sendall(cmd(22, struct.pack(">Q", 0)))
    status, flags = struct.unpack(">IQ", read(s, 12))
    assert status == OK and flags in (0, 1), (status, flags)
    return flags == 1


def stored(what):
    return sorted(path.split("/", 4)[-1] for path in glob.glob(f"in/dir/h/{what}-*/**/x", recursive=True))


def clear():
    s, d, handle = store("clear", [b"first"])
    assert clear_allowed(s)
    assert end_chunk(s, 0, MOVE) == OK and chunk(s, 1) == OK and chunk(s, 2) == OK
    assert end_chunk(s, 1, DELETE) == OK
    assert end_chunk(s, 2, DELETE) == OK
    assert stored("clear") == ["archives/1/kernel/x"], stored("clear")
    s, d, handle = store("all", [b"first"])
    assert chunk(s, 1) == OK and end_chunk(s, 0, DELETE) == OK
    assert stored("all") == [], stored("all")


def no_clear():
    for ident in (0, 1):
        s, d, handle = store(f"kept{ident}", [b"first"])
        assert not clear_allowed(s)
        assert chunk(s, 1) == OK
        assert end_chunk(s, ident, DELETE) != OK
        assert closed(s)
        assert stored(f"kept{ident}") == ["archives/1/kernel/x"], stored(f"kept{ident}")
    s, d, handle = store("last", [b"first"])
    assert end_chunk(s, 0, DELETE) != OK
    assert stored("last") == ["kernel/x"], stored("last")


globals()[sys.argv[2]]()
