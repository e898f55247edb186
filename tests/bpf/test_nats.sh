#!/bin/bash
# SPDX-License-Identifier: MIT
# Traces sent to NATS JetStream and collected from there, against what a local directory got at the same time.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
. "$SRC/tests/nats.lib.sh"
export RUTILE_SPOOL_DIR="$t_root/spool"
mkdir "$RUTILE_SPOOL_DIR"
trap 'end_nats; rm -rf "$t_root"' EXIT

# calls N: N calls of getpgid, with an argument that no other process uses.
calls() {
  python3 -c "
import os
for i in range($1):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
}
seen() {
  babeltrace2 "$1" | grep -c 'entry_getpgid: .*pid = 424242 }'
}
end_collector() {
  kill "$1"
  wait "$1"
}

test_store() {
  need_bpf
  nats
  collector "nats://127.0.0.1:$p/T" got
  t_wait receiving
  "$RUTILE" record --to "nats://127.0.0.1:$p/T" -o local -e 'syscall:getpgid,sched_*' -- \
    python3 -c "
import os
for i in range(20000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  t_wait complete got >/dev/null
  end_collector $c
  same local "$(complete got)"
  [ "$(readers "$(complete got)")" = "$(readers local)" ]
  [ "$(seen "$(complete got)")" = 20000 ]
  # By host and session, and nowhere else.
  [ "$(ls got)" = "$(hostname)" ]
}

# Packets that are larger than the server takes come in pieces. The collector comes when all was sent.
test_pieces() {
  need_bpf
  echo 'max_payload: 100000' >more.conf
  nats "" more.conf
  collector "nats://127.0.0.1:$p/T" got --stream-size 1G
  t_wait receiving
  end_collector $c
  "$RUTILE" record --to "nats://127.0.0.1:$p/T" -o local --subbuf 1M -e 'syscall:getpgid' -- \
    python3 -c "
import os
for i in range(40000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  collector "nats://127.0.0.1:$p/T" got
  t_wait complete got >/dev/null
  end_collector $c
  same local "$(complete got)"
  [ "$(seen "$(complete got)")" = 40000 ]
}

# Each directory of a session has one there.
test_rotate() {
  need_bpf
  S=nats$$
  nats
  collector "nats://127.0.0.1:$p/T" got
  t_wait receiving
  "$RUTILE" start $S --to "nats://127.0.0.1:$p/T" -e 'syscall:getpgid'
  calls 1000
  "$RUTILE" rotate $S
  calls 500
  "$RUTILE" destroy $S
  last() { find got -path '*/archives/2/.complete' | grep -q .; }
  t_wait last
  end_collector $c
  session=$(complete got)
  [ "$(seen "$session/kernel")" = 1000 ]
  [ "$(seen "$session/archives/2")" = 500 ]
  # A snapshot is a trace of its own.
  "$RUTILE" start $S --flight -e 'syscall:getpgid'
  calls 700
  "$RUTILE" snapshot $S --to "nats://127.0.0.1:$p/T"
  "$RUTILE" destroy $S
  rm -rf got
  collector "nats://127.0.0.1:$p/T" got
  t_wait complete got >/dev/null
  end_collector $c
  [ "$(seen "$(complete got)")" = 700 ]
}

# The server is killed and comes back; so is the collector, and two share the work.
test_killed() {
  need_bpf
  touch go
  nats
  collector "nats://127.0.0.1:$p/T" got --ack-time 1s
  first=$c
  t_wait receiving
  collector "nats://127.0.0.1:$p/T" got --ack-time 1s
  "$RUTILE" record --to "nats://127.0.0.1:$p/T" -o local -e 'syscall:getpgid' -e 'sched_*' --subbuf 64k \
    -- sh -c "while [ -e go ]; do $(command -v python3) -c '
import os
for i in range(3000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass'; done" 2>err &
  r=$!
  some() { [ -n "$(find got -name 'kernel_*' -size +"$1"k)" ]; }
  t_wait some 200
  kill -9 $first
  t_wait some 600
  end_nats -KILL
  t_wait grep -q 'trying again' err
  nats "$p"
  t_wait grep -q 'connected again' err
  t_wait some 1200
  rm go
  wait $r
  t_wait complete got >/dev/null
  # Unacknowledged packets of the collector that was killed come again.
  all() { same local "$(complete got)"; }
  t_wait all
  end_collector $c
  [ "$(seen "$(complete got)")" = "$(seen local)" ]
}

# Users may send for their host only.
test_rights() {
  need_bpf
  cat >users.conf <<CONF
authorization { users: [
  { user: all, password: secret }
  { user: here, password: secret, permissions: { publish: ["rutile.$(hostname).>"], subscribe: ["_INBOX.>"] } }
  { user: there, password: secret, permissions: { publish: ["rutile.elsewhere.>"], subscribe: ["_INBOX.>"] } } ] }
CONF
  nats "" users.conf
  for user in all here there; do
    mkdir $user
    (umask 077; echo "$user:secret" >$user/nats.user)
  done
  collector "nats://127.0.0.1:$p/T" --tls all got
  t_wait receiving
  "$RUTILE" record --to "nats://127.0.0.1:$p/T" --tls here -e 'syscall:getpgid' -- \
    python3 -c "
import os
for i in range(300):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  t_wait complete got >/dev/null
  end_collector $c
  [ "$(seen "$(complete got)")" = 300 ]
  not "$RUTILE" record --to "nats://127.0.0.1:$p/T" --tls there -e 'syscall:getpgid' -- touch ran 2>err
  grep -q 'do we have the right' err
  chmod 644 here/nats.user
  not "$RUTILE" record --to "nats://127.0.0.1:$p/T" --tls here -e 'syscall:getpgid' -- touch ran 2>err
  grep -q "others may read '.*here/nats.user'" err
  [ ! -e ran ]
}

# certify NAME SAN: a certificate of the authority in pki/.
certify() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "pki/$1.key" -out pki/csr -subj "/CN=$1" 2>/dev/null
  echo "subjectAltName=$2" >pki/ext
  openssl x509 -req -in pki/csr -CA pki/ca.pem -CAkey pki/ca.key -CAcreateserial -out "pki/$1.pem" -days 2 -extfile pki/ext 2>/dev/null
}

# TLS with certificates of both sides, and an NKEY.
test_tls() {
  need_bpf
  mkdir pki us none
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout pki/ca.key -out pki/ca.pem -subj /CN=ca -days 2 2>/dev/null
  certify server IP:127.0.0.1
  certify wrong DNS:elsewhere.example
  certify client "DNS:$(hostname)"
  cp pki/ca.pem none/
  cp pki/ca.pem us/
  cp pki/client.pem us/cert.pem
  cp pki/client.key us/key.pem
  nkey us
  for s in server wrong; do
    cat >$s.conf <<CONF
tls { cert_file: "$PWD/pki/$s.pem", key_file: "$PWD/pki/$s.key", ca_file: "$PWD/pki/ca.pem", verify: true }
authorization { users: [ { nkey: "$(cat us/nats.pub)" } ] }
CONF
  done
  nats "" server.conf
  collector "natss://127.0.0.1:$p/T" --tls us got
  t_wait receiving
  "$RUTILE" record --to "natss://127.0.0.1:$p/T" --tls us -e 'syscall:getpgid' -- \
    python3 -c "
import os
for i in range(300):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  t_wait complete got >/dev/null
  end_collector $c
  [ "$(seen "$(complete got)")" = 300 ]
  # Without a certificate, without the key, in clear text, to a host that is another one.
  not "$RUTILE" record --to "natss://127.0.0.1:$p/T" --tls none -e 'syscall:getpgid' -- touch ran
  rm us/nats.nk
  not "$RUTILE" record --to "natss://127.0.0.1:$p/T" --tls us -e 'syscall:getpgid' -- touch ran
  not "$RUTILE" record --to "nats://127.0.0.1:$p/T" -e 'syscall:getpgid' -- touch ran
  nats "" wrong.conf
  not "$RUTILE" collect "natss://127.0.0.1:$p/T" --tls us got 2>err
  grep -q "cannot connect to 'tls://127.0.0.1:$p'" err
  [ ! -e ran ]
}

test_absent() {
  need_bpf
  nats
  not "$RUTILE" record --to "nats://127.0.0.1:$p/T" -e 'syscall:getpgid' -- touch ran 2>err
  grep -q "no stream 'T'" err
  end_nats
  not "$RUTILE" record --to "nats://127.0.0.1:$p/T" -e 'syscall:getpgid' -- touch ran 2>err
  grep -q "cannot connect to 'nats://127.0.0.1:$p': No server available for connection$" err
  [ "$(wc -l <err)" = 1 ]
  not "$RUTILE" collect "nats://127.0.0.1:$p/T" got 2>err
  grep -q "cannot connect" err
  not "$RUTILE" record --to "nats://127.0.0.1:$p" -- touch ran 2>err
  grep -q 'the stream is missing' err
  [ ! -e ran ]
}

# What is no part of a trace is discarded, and leads nowhere.
test_garbage() {
  mkdir in
  nats
  collector "nats://127.0.0.1:$p/T" in/got
  t_wait receiving
  head -c 3000 /dev/urandom >junk
  python3 -c "
import struct, sys
p = b'PACKET' * 100
head = b'RUT1' + struct.pack('>I16sQQQQQQIII', 2, b'u' * 16, 1, 0, 0, len(p), len(p), 0, 0, len(p), 0)
sys.stdout.buffer.write(head + p)" >packet
  n=0
  for s in rutile.h.s.p.f rutile.%2E%2E.s.p.f rutile.h.%2E%2E.p.f rutile.h.s.%2Fetc.f rutile.h.s.p.%2E%2E%2Fx rutile.h.s.begin; do
    pub "$s" junk
    pub "$s" packet
    n=$((n + 2))
  done
  discarded() { [ "$(cat collect.log.* | grep -c 'is discarded')" = $n ]; }
  t_wait discarded
  end_collector $c
  find in -type f | not grep .
  [ "$(ls in)" = got ]
}

# The end of a packet that does not come: it makes no file, and does not stay in the queue.
test_absent_packet() {
  nats
  collector "nats://127.0.0.1:$p/T" got --ack-time 200ms
  t_wait receiving
  python3 -c "
import struct, sys
sys.stdout.buffer.write(b'RUT1' + struct.pack('>I16sQQQQQQIII', 4, b'u' * 16, 1, 5, 0, 4096, 0, 0, 0, 4096, 0))" >end
  pub rutile.h.s.p.f end
  t_wait grep -q 'about a packet that does not come: it is discarded' collect.log.*
  end_collector $c
  [ -z "$(ls got)" ]
}

# What has no meaning is refused, rather than ignored.
test_options() {
  for o in --listen=127.0.0.1 --max-rate=1M --max-streams=5 --max-sessions=5 --message-time=1s; do
    not "$RUTILE" collect $o nats://127.0.0.1:1/T got 2>err
    grep -q -- "${o%=*} is not for NATS" err
  done
  for o in --group=g --replicas=2 --stream-size=1G --ack-time=1s; do
    not "$RUTILE" collect $o got 2>err
    grep -q -- "${o%=*} is for NATS only" err
  done
  [ ! -e got ]
}

t_case "what is collected is what a local directory holds" test_store
t_case "packets larger than a message come in pieces" test_pieces
t_case "each directory of a session is collected as one, and a snapshot" test_rotate
t_case "a collector and the server are killed: nothing is lost or doubled" test_killed
t_case "users have the right to send for their host only" test_rights
t_case "TLS and an NKEY, of both sides" test_tls
t_case "a server or stream that is not there is one line" test_absent
t_case "garbage is discarded and leads nowhere" test_garbage
t_case "a message about a packet that does not come is discarded" test_absent_packet
t_case "options that mean nothing for NATS are refused, and the other way round" test_options
t_done
