# SPDX-License-Identifier: MIT
"""A client of NATS for the tests that publish: no more of the protocol than that, without a library of NATS."""

import json
import socket


class Client:
    """A connection to the server on this machine; what JetStream answers comes to the subject "reply"."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        self.socket.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":false}\r\nSUB reply 1\r\n')

    def publish(self, *subjects, body=b""):
        """The same body to each of these, in one go."""
        self.socket.sendall(b"".join(b"PUB %s reply %d\r\n%s\r\n" % (s.encode(), len(body), body) for s in subjects))

    def answer(self):
        """The next of JetStream's answers, which is no error."""
        while True:
            line = self.lines.readline()
            assert line, "the server has gone"
            if line.startswith(b"PING"):
                self.socket.sendall(b"PONG\r\n")
            elif line.startswith(b"MSG"):
                got = json.loads(self.lines.read(int(line.split()[-1]) + 2))
                assert "error" not in got, got
                return got
