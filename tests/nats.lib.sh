# SPDX-License-Identifier: MIT
# A NATS server for tests; source it after tap.sh. Its port is in $p, its pid in $t_root/nats.

# free_port: a port below those that the kernel gives away by itself.
nats_port() {
  python3 - <<'PY'
import random, socket
while True:
    p = random.randrange(10000, 32000)
    try:
        with socket.socket() as s:
            s.bind(("127.0.0.1", p))
    except OSError:
        continue
    print(p)
    break
PY
}

# nats [PORT [CONFIG]]: starts one with JetStream, which stores in js/; again with the same port after end_nats.
nats() {
  end_nats || :
  p=${1:-$(nats_port)}
  { echo "jetstream { store_dir: \"$PWD/js\" }"; [ -z "${2:-}" ] || cat "$2"; } >nats.conf
  nats-server -c nats.conf -a 127.0.0.1 -p "$p" >>nats.log 2>&1 &
  echo $! >"$t_root/nats"
  t_wait nats_ready
}
nats_ready() {
  python3 -c "
import socket
with socket.create_connection(('127.0.0.1', $p), 5) as s:
    assert b'\"jetstream\":true' in s.recv(4096)" 2>/dev/null
}
end_nats() {
  [ -s "$t_root/nats" ] || return 0
  kill "${1:--TERM}" "$(cat "$t_root/nats")" 2>/dev/null || :
  wait "$(cat "$t_root/nats")" 2>/dev/null || :
  rm -f "$t_root/nats"
}

# nkey DIR: a new key of a user, nats.nk and nats.pub.
nkey() {
  python3 - "$1" <<'PY'
import base64, os, struct, subprocess, sys


def encode(raw):
    crc = 0
    for byte in raw:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return base64.b32encode(raw + struct.pack("<H", crc)).decode().rstrip("=")


seed = os.urandom(32)
der = bytes.fromhex("302e020100300506032b657004220420") + seed
public = subprocess.run(["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"], input=der,
                        stdout=subprocess.PIPE, check=True).stdout[-32:]
user = 20 << 3
os.umask(0o077)
with open(sys.argv[1] + "/nats.nk", "w") as f:
    f.write(encode(bytes([18 << 3 | user >> 5, (user & 31) << 3]) + seed) + "\n")
with open(sys.argv[1] + "/nats.pub", "w") as f:
    f.write(encode(bytes([user]) + public) + "\n")
PY
}

# collector DIR [OPTIONS]: receives into DIR; its pid in $c.
collector() {
  "$RUTILE" collect "$@" 2>"collect.log.$#$RANDOM" &
  c=$!
  trap end_jobs EXIT
}
# What a case that fails leaves: its children. A case is a subshell of its own.
end_jobs() {
  for j in $(jobs -p); do kill "$j" 2>/dev/null || :; done
}
# The collector that just began receives.
receiving() {
  grep -qs 'receiving from' collect.log.*
}

# pub SUBJECT FILE: publishes raw bytes.
pub() {
  python3 - "$p" "$@" <<'PY'
import socket, sys
port, subject, path = sys.argv[1:]
data = open(path, "rb").read()
with socket.create_connection(("127.0.0.1", int(port)), 10) as s:
    s.sendall(b'CONNECT {"verbose":false}\r\nPUB %s %d\r\n%s\r\nPING\r\n' % (subject.encode(), len(data), data))
    got = b""
    while b"PONG" not in got and b"-ERR" not in got:
        got += s.recv(4096)
    assert b"-ERR" not in got, got
PY
}

# complete DIR: the one session below DIR is complete, all directories of it; prints where it is.
complete() {
  set -- "$1"/*/*
  [ $# = 1 ] && [ -e "$1/.complete" ] && echo "$1"
}

# same LOCAL COLLECTED: the same files with the same packets, and no gaps.
same() {
  python3 "$SRC/tests/same_packets.py" "$1" "$2"
  find "$2" -name '*.gaps' -o -name '.kernel_*' | not grep .
}
