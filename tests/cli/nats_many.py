#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds a message for each of many subjects of one host to the stream TRACES of NATS JetStream: nats_many.py PORT HOST COUNT"""

import json
import socket
import sys

port, host, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
s = socket.create_connection(("127.0.0.1", port), 60)
lines = s.makefile("rb")
lines.readline()
s.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":false}\r\nSUB reply 1\r\n')


def answer():
    while True:
        line = lines.readline()
        if line.startswith(b"PING"):
            s.sendall(b"PONG\r\n")
        elif line.startswith(b"MSG"):
            return json.loads(lines.read(int(line.split()[-1]) + 2))


for first in range(0, count, 500):
    n = min(500, count - first)
    s.sendall(b"".join(b"PUB rutile.%s.s.kernel.c_%d reply 1\r\nx\r\n" % (host.encode(), first + i) for i in range(n)))
    for _ in range(n):
        got = answer()
        assert "error" not in got, got
s.sendall(b"PUB $JS.API.STREAM.INFO.TRACES reply 0\r\n\r\n")
assert answer()["state"]["num_subjects"] > count
