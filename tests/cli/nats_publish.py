#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Publishes traces to a stream of NATS JetStream as rutile's recorder does, without rutile or a library of NATS.

    nats_publish.py PORT STREAM DIR...    DIR/SESSION/FILE are the traces of the host that DIR's name is
"""

import glob
import json
import os
import struct
import sys

from nats_client import Client

port, stream, dirs = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
BEGIN, PACKET, METADATA = 1, 2, 3
PART = 4096
client = Client(port)


def ask(subject, body):
    """Publishes, and waits for the answer of JetStream."""
    client.publish(subject, body=body)
    client.answer()


def token(name):
    return "".join(c if c.isalnum() or c in "_-" else "%%%02X" % ord(c) for c in name)


def send(subject, uuid, kind, content, seq=0, offset=0, whole=0):
    for at in range(0, len(content) or 1, PART):
        piece = content[at:at + PART]
        ask(subject, struct.pack(">II16sQQQQQQIII", 0x52555431, kind, uuid, 1000, seq, offset, whole or len(content),
                                 len(content), at, 0, PART, 0) + piece)


def packets(data):
    """Offset, number and bytes of each packet that is laid out as rutile's."""
    at = 0
    while at < len(data):
        content, whole, seq = struct.unpack_from("<QQQ", data, at + 48)
        yield at, seq, data[at:at + content // 8], whole // 8
        at += whole // 8


ask(f"$JS.API.STREAM.CREATE.{stream}", json.dumps({
    "name": stream, "subjects": ["rutile.*.*.*.*", "rutile.*.*.*"], "retention": "workqueue", "storage": "memory",
    "num_replicas": 1}).encode())
for number, directory in enumerate(dirs):
    uuid = struct.pack(">QQ", number + 1, 7)
    for session in sorted(os.listdir(directory)):
        to = f"rutile.{token(os.path.basename(directory))}.{token(session)}"
        send(to + ".begin", uuid, BEGIN, b"")
        for path in sorted(glob.glob(f"{directory}/{session}/*"), key=lambda p: not p.endswith("metadata")):
            data = open(path, "rb").read()
            name = f"{to}.kernel.{token(os.path.basename(path))}"
            if path.endswith("metadata"):
                send(name, uuid, METADATA, data, seq=1)
            else:
                for at, seq, content, whole in packets(data):
                    send(name, uuid, PACKET, content, seq, at, whole)
