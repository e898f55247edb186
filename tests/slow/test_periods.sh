#!/bin/bash
# SPDX-License-Identifier: MIT
# share/rutile/periods against the servers of Debian: they are given a known number of requests, and each is one period.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
PATH=$PATH:/usr/lib/postgresql/15/bin
N=50
: >"$t_root/servers"
end() {
  while read -r pid; do kill "$pid" 2>/dev/null; done <"$t_root/servers"
  rm -rf "$t_root"
}
trap end EXIT

# server COMMAND...: in a session of its own, since some end their process group; its PID in $server
server() {
  chmod a+rx "$t_root" .
  setsid "$@" >server.log 2>&1 &
  server=$!
  echo $server >>"$t_root/servers"
}
listens() {
  (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}
# counted FILE PERIOD COMMAND...: how many of them the server had while the command ran; in $count
counted() {
  "$RUTILE" record -o trace -p "$server" -e syscall --context pid,tid,procname 2>record.err &
  recorder=$!
  recording trace
  "${@:3}" >client.out 2>&1
  kill -INT $recorder
  wait $recorder
  grep -q ' 0 events lost' record.err
  "$RUTILE" periodlog --period-file "$1" --no-progress --skip-validation --no-intersection --limit unlimited trace >log
  count=$(awk -v name="$2" '$4 == name' log | tee of | wc -l)
  head -3 of
  echo "$1 $2: $count"
  kill "$server"
  wait "$server" || :
}
gets() {
  curl -sf "http://127.0.0.1:$port/${1:-f}?[1-$N]" | grep -o ok | wc -l >got
  [ "$(cat got)" = $N ]
}

apache() {
  mkdir -p www
  echo ok >www/f
  echo '<?php echo "ok";' >www/included.php
  echo '<?php include "included.php"; file_get_contents(__DIR__ . "/f");' >www/page.php
  php=(/usr/lib/apache2/modules/libphp*.so)
  cat >httpd.conf <<EOF
ServerRoot $PWD
ServerName test
PidFile $PWD/httpd.pid
ErrorLog $PWD/error.log
LoadModule mpm_prefork_module /usr/lib/apache2/modules/mod_mpm_prefork.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
TypesConfig /dev/null
LoadModule php_module ${php[0]}
AddHandler application/x-httpd-php .php
Mutex sem
User www-data
Group www-data
StartServers 1
MinSpareServers 1
MaxSpareServers 1
Listen 127.0.0.1:$port
DocumentRoot $PWD/www
EOF
  chmod -R a+rX www
  server apache2 -f "$PWD/httpd.conf" -DFOREGROUND
  t_wait listens "$port"
}
test_apache() {
  need_bpf
  port=$(free_port)
  apache
  counted apache request gets "$1"
  [ "$1" = page.php ] || [ "$count" = $N ]
  # The outermost ones.
  "$RUTILE" requests --period-file apache --request request --no-progress --skip-validation --json trace >routes
  cat routes
  [ "$(jq -r 'select(.type == "route") | .count' routes)" = $N ]
}
test_nginx() {
  need_bpf
  port=$(free_port)
  mkdir -p www
  echo ok >www/f
  chmod -R a+rX www
  printf 'daemon off; master_process off; pid %s/pid; error_log %s/error.log;\nevents {}\nhttp { access_log off; server { listen 127.0.0.1:%s; root %s/www; } }\n' \
    "$PWD" "$PWD" "$port" "$PWD" >nginx.conf
  server nginx -p "$PWD" -c "$PWD/nginx.conf"
  t_wait listens "$port"
  counted nginx request gets
  [ "$count" = $N ]
}
test_puma() {
  need_bpf
  port=$(free_port)
  echo 'run ->(env) { [200, {"content-type" => "text/plain"}, ["ok"]] }' >config.ru
  server puma -b "tcp://127.0.0.1:$port" -t 1:1 -e production config.ru
  t_wait listens "$port"
  counted puma request gets
  [ "$count" = $N ]
}
# A client of FastCGI, one connection for each request.
cgi() {
  python3 - "$port" "$N" "$PWD/page.php" <<'PY'
import socket, struct, sys
def pair(k, v):
    return struct.pack(">BI", len(k), len(v) | 1 << 31) + k.encode() + v.encode()
def record(kind, body):
    return struct.pack(">BBHHBB", 1, kind, 1, len(body), 0, 0) + body
for i in range(int(sys.argv[2])):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        params = pair("SCRIPT_FILENAME", sys.argv[3]) + pair("REQUEST_METHOD", "GET") + pair("SCRIPT_NAME", "/page.php")
        s.sendall(record(1, struct.pack(">HB5x", 1, 0)) + record(4, params) + record(4, b"") + record(5, b""))
        got = b""
        while True:
            more = s.recv(4096)
            if not more: break
            got += more
        assert b"ok" in got, got
PY
}
test_php_fpm() {
  need_bpf
  port=$(free_port)
  echo '<?php echo "ok";' >page.php
  chmod a+r page.php
  printf '[global]\nerror_log = %s/fpm.log\n[www]\nuser = www-data\ngroup = www-data\nlisten = 127.0.0.1:%s\npm = static\npm.max_children = 2\n' "$PWD" "$port" >fpm.conf
  server php-fpm8.2 -F -y "$PWD/fpm.conf"
  t_wait listens "$port"
  counted php-fpm request cgi
  [ "$count" = $N ]
}
test_mariadb() {
  need_bpf
  port=$(free_port)
  mkdir data
  chown mysql data
  chmod a+rx "$t_root" .
  mariadb-install-db --user=mysql --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db >install.log 2>&1
  server mariadbd --no-defaults --user=mysql --datadir="$PWD/data" --bind-address=127.0.0.1 --port="$port" --socket="$PWD/data/s" --pid-file="$PWD/data/pid"
  t_wait listens "$port"
  queries() { for _ in $(seq $N); do echo 'SELECT 1;'; done | mariadb --no-defaults -h 127.0.0.1 -P "$port" -u root; }
  counted mariadb query queries
  # The handshake is a message, too.
  [ "$count" -ge $N ]
  [ "$count" -le $((N + 2)) ]
}
test_postgresql() {
  need_bpf
  port=$(free_port)
  mkdir data
  chown postgres data
  chmod a+rx "$t_root" .
  (cd / && setpriv --reuid postgres --regid postgres --clear-groups initdb -D "$OLDPWD/data" -A trust -U postgres >"$OLDPWD/install.log" 2>&1)
  (cd data && exec setsid setpriv --reuid postgres --regid postgres --clear-groups postgres -D "$PWD" -h 127.0.0.1 -p "$port" -k "$PWD" >"../server.log" 2>&1) &
  server=$!
  echo $server >>"$t_root/servers"
  t_wait listens "$port"
  queries() { for _ in $(seq $N); do echo 'SELECT 1;'; done | psql -q -h 127.0.0.1 -p "$port" -U postgres; }
  t_wait queries >/dev/null 2>&1
  counted postgresql query queries
  # What it is asked when a connection begins: encryption, and the user.
  [ "$count" -ge $N ]
  [ "$count" -le $((N + 3)) ]
}
test_redis() {
  need_bpf
  port=$(free_port)
  server redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$PWD"
  t_wait listens "$port"
  counted redis command redis-cli -p "$port" -r $N ping
  [ "$(grep -c PONG client.out)" = $N ]
  # The end of the connection, too.
  [ "$count" -ge $N ]
  [ "$count" -le $((N + 1)) ]
  # Not what the server reads of itself all the time: until the next answer.
  awk '$3 > 1e6 { exit 1 }' of
}
test_memcached() {
  need_bpf
  port=$(free_port)
  server memcached -u nobody -l 127.0.0.1 -p "$port"
  t_wait listens "$port"
  commands() {
    python3 - "$port" $N <<'PY'
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    for i in range(int(sys.argv[2])):
        s.sendall(b"get x\r\n")
        assert s.recv(100) == b"END\r\n"
PY
  }
  counted memcached command commands
  # The end of the connection, too.
  [ "$count" -ge $N ]
  [ "$count" -le $((N + 1)) ]
}

t_case "Apache httpd" test_apache f
t_case "Apache httpd with PHP, which reads files itself" test_apache page.php
t_case "nginx" test_nginx
t_case "Puma" test_puma
t_case "PHP-FPM" test_php_fpm
t_case "MariaDB" test_mariadb
t_case "PostgreSQL" test_postgresql
t_case "Redis" test_redis
t_case "memcached" test_memcached
t_done
