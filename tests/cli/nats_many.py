#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adds a message for each of many subjects of one host to the stream TRACES of NATS JetStream: nats_many.py PORT HOST COUNT"""

import sys

from nats_client import Client

host, count = sys.argv[2], int(sys.argv[3])
client = Client(int(sys.argv[1]))
for first in range(0, count, 500):
    numbers = range(first, min(first + 500, count))
    client.publish(*(f"rutile.{host}.s.kernel.c_{i}" for i in numbers), body=b"x")
    for _ in numbers:
        client.answer()
client.publish("$JS.API.STREAM.INFO.TRACES")
assert client.answer()["state"]["num_subjects"] > count
