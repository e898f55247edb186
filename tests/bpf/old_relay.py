#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A relay daemon of a given version of the protocol, as strict as one could be: what it does not know, or what is laid out in
another way than in its version, ends it with an error. It stores one session.

    old_relay.py PORT MINOR DIR     prints the version that was agreed on, when the session has ended
"""

import os
import socket
import struct
import sys
import threading

port, minor, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
(ADD_STREAM, CREATE_SESSION, VERSION, METADATA, CLOSE_STREAM, PENDING, INDEX, SENT, ROTATE, CREATE_CHUNK, CLOSE_CHUNK,
 CONFIG) = (1, 2, 5, 6, 7, 8, 13, 16, 18, 19, 20, 22)
OK = struct.pack(">I", 10)
streams, received, lock = {}, {}, threading.Lock()


def read(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def texts(data, *lengths):
    found = []
    for n in lengths:
        text, data = data[:n], data[n:]
        assert n and text[-1:] == b"\0" and b"\0" not in text[:-1], text
        found.append(text[:-1].decode())
    assert not data, data
    return found


def packets(listener):
    s, _ = listener.accept()
    try:
        while True:
            circuit, stream, seq, size, padding = struct.unpack(">QQQII", read(s, 32))
            data = read(s, size)
            assert not circuit
            with lock:
                with open(streams[stream], "ab") as f:
                    f.write(data + b"\0" * padding)
                received[stream] = seq
    except EOFError:
        pass


def control(s):
    agreed = None
    while True:
        try:
            circuit, size, command, version = struct.unpack(">QQII", read(s, 24))
        except EOFError:
            return agreed
        body = read(s, size)
        assert circuit == version == 0
        if agreed is None and command != VERSION:
            raise ValueError("no version")
        if command == VERSION:
            theirs = struct.unpack(">II", body)
            assert theirs[0] == 2, theirs
            s.sendall(struct.pack(">II", 2, minor))
            agreed = min(theirs[1], minor)
        elif command == CREATE_SESSION:
            head = ">IIIIBB16sQQBQ" + ("I" if agreed >= 15 else "")
            n = struct.calcsize(head)
            f = struct.unpack(head, body[:n])
            # Three lengths, of which the last may be of an empty text.
            name, host, _ = texts(body[n:], *f[:3])
            assert name and host and f[6].strip(b"\0") and (agreed < 15 or f[11] == 1), f
            path = (out + "/s").encode() + b"\0"
            s.sendall(struct.pack(">QII", 1, 10, len(path)) + path)
        elif command == CONFIG and agreed >= 12:
            assert struct.unpack(">Q", body) == (0,)
            s.sendall(struct.pack(">IQ", 10, 1))
        elif command == CREATE_CHUNK:
            _, _, n = struct.unpack(">QQI", body[:20])
            assert len(body) == 20 + n
            s.sendall(OK)
        elif command == ADD_STREAM:
            a, b, _, _, _ = struct.unpack(">IIQQQ", body[:32])
            channel, path = texts(body[32:], a, b)
            assert ".." not in path + channel and not path.startswith("/")
            os.makedirs(f"{out}/{path}", exist_ok=True)
            with lock:
                streams[len(streams) + 1] = f"{out}/{path}/{channel}"
                handle = len(streams)
            s.sendall(struct.pack(">QI", handle, 10))
        elif command == METADATA:
            stream, padding = struct.unpack(">QI", body[:12])
            with open(streams[stream], "ab") as f:
                f.write(body[12:] + b"\0" * padding)
        elif command == INDEX:
            assert len(body) == 80
            s.sendall(OK)
        elif command == PENDING:
            stream, seq = struct.unpack(">QQ", body)
            with lock:
                done = received.get(stream, -1) >= seq or seq == 2**64 - 1
            s.sendall(struct.pack(">I", 0 if done else 1))
        elif command in (CLOSE_STREAM, SENT):
            assert len(body) == (16 if command == CLOSE_STREAM else 0)
            s.sendall(OK)
        elif command == CLOSE_CHUNK:
            struct.unpack(">QQBI", body)
            s.sendall(struct.pack(">II", 10, 1) + b"\0")
        else:
            raise ValueError(f"command {command}")


listeners = []
for p in (port, port + 1):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", p))
    s.listen()
    listeners.append(s)
threading.Thread(target=packets, args=(listeners[1],), daemon=True).start()
# The first connection asks for the version and ends.
agreed = [control(listeners[0].accept()[0])]
if minor >= 11:
    agreed.append(control(listeners[0].accept()[0]))
print(*agreed)
