#!/bin/bash
# SPDX-License-Identifier: MIT
# Requests to hosts over NATS.
# shellcheck disable=SC2119 # the arguments of nats() are optional
. "$SRC/tests/tap.sh"
. "$SRC/tests/nats.lib.sh"
PATH=$PATH:/usr/sbin:/sbin
: >"$t_root/hosts"
trap 'end_hosts; end_nats; rm -rf "$t_root"' EXIT

# host NAME [OPTIONS]: a daemon with the rules on standard input; it is there when this returns.
host() {
  cat >"$1.conf"
  "$RUTILE" fleetd --server "nats://127.0.0.1:$p" --name "$1" --config "$1.conf" "${@:2}" 2>"$1.log" &
  echo "$1 $!" >>"$t_root/hosts"
  t_wait grep -q "answers what" "$1.log"
}
end_hosts() {
  while read -r _ pid; do
    kill "$pid" 2>/dev/null || :
    wait "$pid" 2>/dev/null || :
  done <"$t_root/hosts"
  : >"$t_root/hosts"
}
fleet() {
  "$RUTILE" fleet --server "nats://127.0.0.1:$p" --timeout 60s "$@"
}
pid_of() {
  awk -v n="$1" '$1 == n { print $2 }' "$t_root/hosts"
}

test_answers() {
  nats
  for h in web1 web2 db.example; do
    host $h <<'CONF'
# What may be asked for.
allow = status --help
allow = status **
CONF
  done
  # Text that is the same whatever else runs on this machine.
  "$RUTILE" status --help >want
  fleet status --help >out
  for h in db.example web1 web2; do sed "s/^/$(printf '%-10s' $h)  /" want; done >all
  diff all out
  # Only those that are meant.
  fleet --hosts 'web*' status --help >out
  grep '^web' all | sed 's/^\(web.\) */\1  /' | diff - <(sed 's/^\(web.\) */\1  /' out)
  fleet --hosts web1,db.example status --help >out
  grep -v '^web2' all | diff - out
  # A verb that fails: its exit code and what it says.
  not fleet --hosts web1 status nothing >out 2>err
  grep -q '^web1  rutile status: ' err
  grep -qx 'web1  exit status 1' err
  end_hosts
}

# One that does not answer is named, until it is forgotten; so is one that was never there but is meant.
test_silent() {
  nats
  for h in a b c; do host $h <<<'allow = status --help'; done
  kill -9 "$(pid_of b)"
  # A named host without a daemon is not waited for; the others' answers are all there.
  not fleet --hosts a,b,c,ghost,ghost status --help >out 2>err
  grep -qx 'rutile fleet: no answer from b, ghost' err
  [ "$(cut -d' ' -f1 out | sort -u | xargs)" = "a c" ]
  not fleet --timeout 8s status --help >out 2>err
  grep -qx 'rutile fleet: no answer from b' err
  [ "$(cut -d' ' -f1 out | sort -u | xargs)" = "a c" ]
  fleet forget b
  not fleet forget b 2>err
  grep -qx "rutile fleet: no host 'b' is known" err
  fleet status --help 2>err
  not grep . err
  end_hosts
}

# Output that is longer than what the server takes in a message.
test_small_messages() {
  nats
  end_nats
  echo 'max_payload: 300' >small
  nats "$p" small
  host a <<<'allow = start --help'
  "$RUTILE" start --help | sed 's/^/a  /' >want
  [ "$(wc -c <want)" -gt 1000 ]
  fleet --hosts a start --help | diff want -
  end_hosts
}

# Globs and a server without a list of hosts: all have until the timeout.
test_unknown() {
  end_nats # of the case before
  p=$(nats_port)
  nats-server -a 127.0.0.1 -p "$p" >plain.log 2>&1 &
  echo $! >"$t_root/nats"
  t_wait grep -q 'Server is ready' plain.log
  for h in a b; do host $h <<<'allow = status --help'; done
  fleet --timeout 8s status --help >out 2>err
  grep -qx 'rutile fleet: the server has no list of hosts: there may be others' err
  [ "$(cut -d' ' -f1 out | sort -u | xargs)" = "a b" ]
  end_hosts
}

# The rights that the manual page lists are enough, and with them no host can answer as another.
test_rights() {
  rights() {
    cat <<CONF
    { user: $1, password: $1, permissions: {
      subscribe: ["rutile-fleet.ask", "rutile-fleet.host.$1", "_INBOX.>"]
      publish: ["_INBOX.*.ask.$1", "\$JS.API.STREAM.INFO.KV_rutile-fleet",
        "\$JS.API.STREAM.CREATE.KV_rutile-fleet", "\$KV.rutile-fleet.$1"] } }
CONF
  }
  cat >users <<CONF
authorization { users: [
$(rights a)
$(rights b)
    { user: ops, password: ops, permissions: {
      subscribe: ["_INBOX.>"]
      publish: ["rutile-fleet.ask", "rutile-fleet.host.*", "\$JS.API.STREAM.NAMES", "\$JS.API.STREAM.INFO.KV_rutile-fleet",
        "\$JS.API.CONSUMER.CREATE.KV_rutile-fleet", "\$JS.API.CONSUMER.DELETE.KV_rutile-fleet.>",
        "\$KV.rutile-fleet.*"] } }
  ] }
CONF
  for u in a b ops; do
    mkdir $u
    (umask 077 && echo $u:$u >$u/nats.user)
  done
  nats "$(nats_port)" users
  host a --tls "$PWD/a" <<<'allow = status --help'
  host b --tls "$PWD/b" <<<'allow = status --help'
  fleet --tls "$PWD/ops" status --help >out 2>err
  [ "$(cut -d' ' -f1 out | sort -u | xargs)" = "a b" ]
  not grep . err
  kill "$(pid_of b)"
  host b --tls "$PWD/a" <<<'allow = status --help'
  not fleet --tls "$PWD/ops" --hosts b --timeout 1s status --help >out 2>err
  [ ! -s out ]
  grep -qx 'rutile fleet: no answer from b' err
  fleet --tls "$PWD/ops" forget b
  end_hosts
}

# Only what the file allows, whatever is asked for.
test_refused() {
  nats
  host h <<'CONF'
allow = status web
allow = snapshot web -o /srv/traces/*
allow = report --top=* **
allow = start web*
CONF
  refused() {
    not fleet "$@" >out 2>err
    grep -q '^h  not allowed by /etc/rutile/fleet.conf' err
    [ ! -s out ]
  }
  refused ps
  refused status
  refused status db
  refused status web more
  refused snapshot web -o /etc
  refused snapshot web -o /srv/traces/../x
  refused snapshot web -o /srv/traces/.x
  refused start web --script x.bt
  refused start -- web
  refused start --flight
  refused report --top=3 -x
  not fleet status web 2>err
  grep -qx 'h  exit status 1' err
  # Verbs that no file can allow.
  not fleet record 2>err
  grep -q "hosts cannot be asked for 'record'" err
  end_hosts
  # A hostile request: the program under test is not what sends it.
  host h <<<'allow = list'
  for words in 'record\0-o\0/tmp/x' 'run\0-e\0x' 'ssh\0h' '' '\0'; do
    printf %b "rutile-fleet 1\\0*\\0$words\\0" >request
    pub rutile-fleet.ask request
    head -c 3000 /dev/urandom >request
    pub rutile-fleet.ask request
  done
  fleet list >/dev/null
  not grep -q 'runs: [^l]' h.log
  end_hosts
}

test_config() {
  nats
  for line in 'allow = record' 'allow =' 'nonsense' 'timeout = x' 'server = http://x' 'more = 1'; do
    echo "$line" >c
    not "$RUTILE" fleetd --server "nats://127.0.0.1:$p" --config c 2>err
    grep -q '^rutile fleetd: c, line 1: ' err
    [ "$(wc -l <err)" = 1 ]
  done
  echo 'allow = ps' >c
  chmod 666 c
  not "$RUTILE" fleetd --server "nats://127.0.0.1:$p" --config c 2>err
  grep -q "others may write to 'c'" err
  chmod 644 c
  if [ "$(id -u)" = 0 ]; then
    chown nobody c
    not "$RUTILE" fleetd --config c 2>err
    grep -q "'c' belongs to another user" err
    chown root c
  fi
  not "$RUTILE" fleetd --config c 2>err
  grep -q 'which server?' err
  not "$RUTILE" fleet --server "nats://127.0.0.1:1" list 2>err
  grep -q "cannot connect to 'nats://127.0.0.1:1'" err
  not "$RUTILE" fleet --server "nats://127.0.0.1:$p" list 2>err
}

t_case "each host's lines stand behind its name" test_answers
t_case "hosts that do not answer are named" test_silent
t_case "output comes in pieces that the server takes" test_small_messages
t_case "without a list of hosts all have until the timeout" test_unknown
t_case "the rights of the manual page suffice, and bind a name" test_rights
t_case "a host runs what its file allows, and nothing else" test_refused
# Servers that come later than the host, with names that are not known yet: said once; what no waiting helps ends it.
test_late() {
  end_nats || :
  p=$(nats_port)
  echo 'allow = status --help' >h.conf
  "$RUTILE" fleetd --server "nats://127.0.0.1:$p,nothing.invalid:$p" --name h --config h.conf 2>h.log &
  echo "h $!" >>"$t_root/hosts"
  t_wait grep -q 'trying again' h.log
  sleep 2
  nats "$p"
  t_wait grep -q 'answers what' h.log
  [ "$(wc -l <h.log)" = 2 ]
  grep -q "^rutile fleetd: cannot connect to 'nats://127.0.0.1:$p' and the others: .*; trying again$" h.log
  fleet status --help >out
  grep -q '^h ' out
  end_hosts
  # It can be ended while it waits.
  "$RUTILE" fleetd --server "nats://127.0.0.1:1" --name h --config h.conf 2>h.log &
  pid=$!
  t_wait grep -q 'trying again' h.log
  kill $pid
  wait $pid
  # Wrong credentials.
  echo 'authorization { user: u, password: secret }' >auth.conf
  nats "$(nats_port)" auth.conf
  mkdir -m 700 tls
  (umask 077; echo 'u:wrong' >tls/nats.user)
  not timeout 20 "$RUTILE" fleetd --server "nats://127.0.0.1:$p" --tls tls --config h.conf 2>err
  [ "$(wc -l <err)" = 1 ]
  grep -qi 'authoriz\|authentic' err
}

t_case "servers that come later are waited for" test_late
t_case "a file that is wrong and a server that is not there are one line" test_config
t_done
