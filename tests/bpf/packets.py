# SPDX-License-Identifier: MIT
"""Sends over the loopback device and prints what a packet socket sees of it, as lines that a trace must have;
then a connection whose first packet is sent again, and how often."""
import socket
import struct
import time

SO_TIMEOUT = struct.pack("ll", 0, 300000)
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sniffer.bind(("lo", 0))
sniffer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, SO_TIMEOUT)


def numbers(values, form="%d"):
    return "[ " + ", ".join(f"[{i}] = " + form % v for i, v in enumerate(values)) + " ]"


def transport(protocol, data):
    if protocol == 6:
        sport, dport, seq, ack, bits, window, check, urgent = struct.unpack(">HHIIHHHH", data[:20])
        return ('transport_header_type = ( "tcp" : container = 1 ), transport_header = { { '
                f"source_port = {sport}, dest_port = {dport}, seq = {seq}, ack_seq = {ack}, data_offset = {bits >> 12}, "
                f"reserved = {bits >> 9 & 7}, flags = 0x{bits & 511:X}, window_size = {window}, checksum = 0x{check:X}, urg_ptr = {urgent} }} }}")
    if protocol == 17:
        return ('transport_header_type = ( "udp" : container = 2 ), transport_header = { { '
                "source_port = %d, dest_port = %d, len = %d, check = %d } }" % struct.unpack(">HHHH", data[:8]))
    if protocol == 1:
        return ('transport_header_type = ( "icmp" : container = 3 ), transport_header = { { '
                "type = %d, code = %d, checksum = %d, gateway = %d } }" % struct.unpack(">BBHI", data[:8]))
    return 'transport_header_type = ( "unknown" : container = 0 ), transport_header = { { } }'


def header(frame):
    kind, data = struct.unpack(">H", frame[12:14])[0], frame[14:]
    if kind == 0x800:
        first, tos, length, ident, frag, ttl, protocol, check = struct.unpack(">BBHHHBBH", data[:12])
        return (f"version = {first >> 4}, ihl = {first & 15}, tos = {tos}, tot_len = {length}, id = 0x{ident:X}, frag_off = {frag}, "
                f"ttl = {ttl}, protocol = ( \"{ {6: 'tcp', 17: 'udp', 1: 'icmp'}[protocol] }\" : container = {protocol} ), "
                f"checksum = 0x{check:X}, saddr = {numbers(data[12:16])}, daddr = {numbers(data[16:20])}, "
                + transport(protocol, data[(first & 15) * 4:]))
    if kind == 0x86DD:
        length, following, hops = struct.unpack(">HBB", data[4:8])
        return (f"version = {data[0] >> 4}, prio = {data[0] & 15}, flow_lbl = {numbers(data[1:4], '0x%X')}, payload_len = {length}, "
                f"nexthdr = ( \"{ {6: 'tcp', 17: 'udp'}.get(following, 'unknown') }\" : container = {following} ), hop_limit = {hops}, "
                f"saddr = {numbers(struct.unpack('>8H', data[8:24]), '0x%X')}, daddr = {numbers(struct.unpack('>8H', data[24:40]), '0x%X')}, "
                + transport(following, data[40:]))
    return None


def talk(family, address):
    server, client = socket.socket(family), socket.socket(family)
    server.bind((address, 0))
    server.listen()
    client.connect(server.getsockname())
    peer, _ = server.accept()
    client.send(b"hello")
    peer.recv(9)
    print("state", client.getsockname()[1], server.getsockname()[1])
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    datagrams.bind((address, 0))
    datagrams.sendto(b"x", datagrams.getsockname())
    closed = datagrams.getsockname()
    datagrams.close()
    # No listener: an ICMP message comes back.
    socket.socket(family, socket.SOCK_DGRAM).sendto(b"y", closed)


talk(socket.AF_INET, "127.0.0.1")
talk(socket.AF_INET6, "::1")
while True:
    try:
        frame, origin = sniffer.recvfrom(2000)
    except OSError:
        break
    line = header(frame)
    if line and origin[2] == 0: # received: the device shows what is sent, too
        print("packet", line)
# A full backlog: the first packet of one more connection is dropped, and sent again.
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
clients = [socket.socket() for _ in range(4)]
for client in clients:
    client.setblocking(False)
    client.connect_ex(server.getsockname())


def again(client):
    info = client.getsockopt(socket.IPPROTO_TCP, 11, 104)
    return struct.unpack_from("I", info, 100)[0]


while not any(map(again, clients)):
    time.sleep(0.02)
for client in clients:
    if again(client):
        print("again", client.getsockname()[1], server.getsockname()[1], again(client))
        # Not answered, and given up.
        print("closed", client.getsockname()[1], server.getsockname()[1])
        client.close()
