#!/bin/bash
# SPDX-License-Identifier: MIT
# Verbs on another machine, by an sshd of our own on this one.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
trap '[ ! -s "$t_root/sshd" ] || kill "$(cat "$t_root/sshd")" 2>/dev/null; rm -rf "$t_root"' EXIT

# An sshd that takes our key; $ssh is the command that reaches it.
serve() {
  K=$t_root/keys
  mkdir -p "$K" /run/sshd
  ssh-keygen -q -t ed25519 -N '' -f "$K/host"
  ssh-keygen -q -t ed25519 -N '' -f "$K/user"
  cp "$K/user.pub" "$K/authorized"
  # Without PAM, but where root's password is locked only PAM lets root in.
  for pam in no no no no no no yes yes yes yes; do
    port=$((10000 + RANDOM % 20000))
    /usr/sbin/sshd -D -e -f /dev/null -p $port -o ListenAddress=127.0.0.1 -h "$K/host" -o UsePAM=$pam -o StrictModes=no \
      -o PermitRootLogin=yes -o PidFile=none -o AuthorizedKeysFile="$K/authorized" 2>"$K/log" &
    echo $! >"$t_root/sshd"
    t_wait grep -q 'listening\|Bind\|bind' "$K/log"
    echo "ssh -p $port -i $K/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR" \
      >"$t_root/ssh"
    # shellcheck disable=SC2046 # words
    if $(cat "$t_root/ssh") -o BatchMode=yes 127.0.0.1 true; then return 0; fi
    kill "$(cat "$t_root/sshd")"
  done
}
there() {
  timeout 100 "$RUTILE" ssh --ssh "$(cat "$t_root/ssh")" --program "$RUTILE" 127.0.0.1 "$@"
}

test_verb() {
  there help | grep -q '^usage: rutile VERB'
  # Words arrive as they were given, and so does the status.
  not there view "a  'b\" \$HOME" 2>err
  grep -qF "a  'b\" \$HOME" err
  rc=0
  there nonsense 2>/dev/null || rc=$?
  [ $rc = 2 ]
}

test_record() {
  need_bpf
  there record -o got -e syscall:getpgid -- python3 -c "
import os
for i in range(3000):
    try: os.getpgid(424242)
    except ProcessLookupError: pass"
  readers got >/dev/null
  [ "$(babeltrace2 got | grep -c 'entry_getpgid: .*pid = 424242 }')" = 3000 ]
  # What there is already is not touched.
  not there record -o got -- true 2>err
  grep -q "cannot make 'got': File exists" err
  not there record --no-such-option -o other 2>/dev/null
  [ ! -e other ]
}

# An interrupt here ends the verb there, in order; its trace comes back, and nothing stays behind.
test_interrupt() {
  need_bpf
  timeout 100 "$RUTILE" ssh --ssh "$(cat "$t_root/ssh")" --program "$RUTILE" 127.0.0.1 record -o got -e syscall:getpgid 2>err &
  pid=$!
  remote() { pgrep -f "^$RUTILE record -o .*getpgid" >/dev/null; }
  t_wait remote
  made() {
    python3 -c 'import os; os.getpgid(0)'
    d=$(pgrep -af "^$RUTILE record -o .*getpgid" | sed 's/.* -o \([^ ]*\) .*/\1/')
    for f in "$d"/kernel/kernel_*; do [ ! -s "$f" ] || return 0; done
    return 1
  }
  t_wait made
  kill -TERM $pid # timeout(1) passes it on
  wait $pid || :
  readers got >/dev/null
  grep -q "the trace is in 'got'" err
  t_wait not remote
}

test_copy() {
  export HOME=$PWD
  there_copy() {
    timeout 100 "$RUTILE" ssh --ssh "$(cat "$t_root/ssh")" --copy --program /nonexistent/rutile 127.0.0.1 "$@"
  }
  had=$(ls -d /root/.cache/rutile 2>/dev/null || :)
  there_copy help | grep -q '^usage: rutile VERB'
  cmp "$RUTILE" "$(ls -t /root/.cache/rutile/*/rutile | head -1)"
  # The second time it is there.
  there_copy help | grep -q '^usage: rutile VERB'
  [ -n "$had" ] || rm -rf /root/.cache/rutile
}

# The program is a stub that makes a trace with a setuid file, and ssh is a shell with or without room for its output.
test_cut() {
  mkdir tmp
  printf '#!/bin/sh\nmkdir "$3"; echo text >"$3/metadata"; chmod 6755 "$3/metadata"\n' >program
  printf '#!/bin/sh\nTMPDIR=%s exec sh -c "$2"\n' "$PWD/tmp" >whole
  printf '#!/bin/sh\nTMPDIR=%s exec sh -c "$2" >/dev/full\n' "$PWD/tmp" >full
  chmod +x program whole full
  not "$RUTILE" ssh --ssh ./full --program ./program host record -o got 2>err
  kept=$(echo tmp/rutile-ssh.*/trace)
  [ "$(cat "$kept/metadata")" = text ]
  grep -qF "the trace stays on $(uname -n) in '$PWD/$kept'" err
  [ ! -e got ]
  rm -r tmp/*
  "$RUTILE" ssh --ssh ./whole --program ./program host record -o got
  [ "$(stat -c %a got/metadata)" = 755 ]
  [ -z "$(ls tmp)" ]
}

test_usage() {
  not "$RUTILE" ssh 2>err
  grep -q 'give a host and a verb' err
  not "$RUTILE" ssh -- -oProxyCommand=touch\ ran ps 2>err
  [ ! -e ran ]
}

serve
t_case "a verb runs on the other machine, with its words and its status" test_verb
t_case "a trace that was recorded there comes here" test_record
t_case "an interrupt ends the recording there, and its trace comes here" test_interrupt
t_case "a machine without rutile gets a copy" test_copy
t_case "a trace that cannot be sent stays where it is, and setuid bits are not restored" test_cut
t_case "a host that looks like an option is refused" test_usage
t_done
