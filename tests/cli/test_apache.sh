#!/bin/bash
# SPDX-License-Identifier: MIT
# mod_rutile in Apache httpd, under each of its MPMs, with triggers.
. "$SRC/tests/tap.sh"

S=apache$$
export RUTILE_LOG_DIR=$t_root/log
end() {
  "$RUTILE" trigger remove $S 2>/dev/null
  [ ! -s "$t_root/servers" ] || xargs kill <"$t_root/servers" 2>/dev/null
  rm -rf "$t_root"
}
trap end EXIT

# Answers behind Apache: /slow/MS after so many milliseconds.
backend() {
  cat >backend.py <<'PY'
import http.server, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(int(self.path.split("?")[0].rsplit("/", 1)[1]) / 1000)
        self.send_response(503 if "fail" in self.path else 200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")
    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
PY
  python3 backend.py "$1" &
  echo $! >>"$t_root/servers"
}

# apache MPM: with the directives of standard input, on $port.
apache() {
  port=$(free_port)
  back=$(free_port)
  mkdir -p www
  echo hello >www/fast
  chmod -R a+rX "$t_root" .
  backend "$back"
  cat >httpd.conf - <<EOF
ServerRoot $PWD
ServerName test
PidFile $PWD/httpd.pid
ErrorLog $PWD/error.log
LoadModule mpm_$1_module /usr/lib/apache2/modules/mod_mpm_$1.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule unique_id_module /usr/lib/apache2/modules/mod_unique_id.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
LoadModule rutile_module $MOD_RUTILE
Mutex sem
User www-data
Group www-data
StartServers 2
Listen 127.0.0.1:$port
DocumentRoot $PWD/www
ProxyPass /slow http://127.0.0.1:$back/slow
ProxyPass /other http://127.0.0.1:$back/other
RutileSlowRequest 200ms
RutileTrigger $S
RutileRate 100
$(cat)
EOF
  # Apache ends its whole process group.
  setsid apache2 -f "$PWD/httpd.conf" -DFOREGROUND &
  server=$!
  echo $server >>"$t_root/servers"
  t_wait curl -s -o /dev/null "http://127.0.0.1:$port/fast"
  t_wait curl -s -o /dev/null "http://127.0.0.1:$back/slow/0"
}
stop_apache() {
  kill $server
  wait $server || true
}
get() {
  curl -s -o /dev/null -w '%{http_code}\n' -H 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' "http://127.0.0.1:$port$1"
}
# What the trigger received, by its own counts.
firings() {
  "$RUTILE" trigger list | awk -v n=$S '$1 == n { print $2 + $3 }'
}
are_firings() {
  [ "$(firings)" = "$1" ]
}

test_mpm() {
  "$RUTILE" trigger add $S --group www-data --burst 100/1s \
    --do "exec /bin/sh -c 'echo \"\$RUTILE_TRIGGER_CAUSE\" >>$PWD/causes'"
  apache "$1" <<'EOF'
<Location /slow/900>
  RutileSlowRequest off
</Location>
<Location /other>
  RutileSlowRequest 600ms
  RutileQuery on
</Location>
EOF
  [ "$(get '/slow/300?secret=1')" = 200 ]
  t_wait are_firings 1
  for i in $(seq 20); do [ "$(get /fast)" = 200 ]; done
  [ "$(get /slow/900)" = 200 ]
  [ "$(get /other/300)" = 200 ]
  [ "$(get '/other/fail/700?q=a%20b')" = 503 ]
  t_wait are_firings 2
  cat causes
  grep -q '^method=GET uri=/slow/300 status=200 duration_us=[0-9]* pid=[0-9]* tid=[0-9]* host=test id=[^- ][^ ]* traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01$' causes
  # As long as the backend slept, at the least; which of our processes it was.
  [ "$(sed -n 's/.*slow\/300 .*duration_us=\([0-9]*\).*/\1/p' causes)" -ge 300000 ]
  [ "$(grep -c 'slow request: method=GET uri=/slow/300 ' error.log)" = 1 ]
  grep -q 'uri=/other/fail/700?q=a%20b status=503' error.log
  [ "$(grep -c 'slow request' error.log)" = 2 ]
  # Several at once, and a new generation of processes.
  kill -USR1 $server
  gets=()
  for i in $(seq 8); do
    get /slow/400 >"code$i" &
    gets+=($!)
  done
  wait "${gets[@]}"
  [ "$(cat code? | sort | uniq -c | tr -d ' ')" = 8200 ]
  t_wait are_firings 10
  # Without the trigger requests are answered as before, and the log says what is missing.
  "$RUTILE" trigger remove $S
  [ "$(get /slow/301)" = 200 ]
  told() { grep -q 'uri=/slow/301 .*; cannot fire the trigger: No such file or directory' error.log; }
  t_wait told
  stop_apache
}

test_rate() {
  "$RUTILE" trigger add $S --group www-data --do 'exec true'
  apache event <<'EOF'
RutileSlowRequest 1ms
RutileRate 3
ServerLimit 1
ThreadsPerChild 25
MaxRequestWorkers 25
EOF
  # One process: in each second of the clock at most three.
  begin=$(date +%s)
  gets=()
  for i in $(seq 20); do
    get /slow/20 >"code$i" &
    gets+=($!)
  done
  wait "${gets[@]}"
  end=$(date +%s)
  [ "$(cat code* | sort | uniq -c | tr -d ' ')" = 20200 ]
  n=$(grep -c 'slow request' error.log)
  [ "$n" -ge 3 ]
  [ "$n" -le $((3 * (end - begin + 2))) ]
  stop_apache
  "$RUTILE" trigger remove $S
}

test_mistakes() {
  bad() { # MESSAGE DIRECTIVE
    printf 'ServerRoot %s\nServerName x\nLoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\nLoadModule rutile_module %s\n%s\n' \
      "$PWD" "$MOD_RUTILE" "$2" >bad.conf
    rc=0
    apache2 -t -f "$PWD/bad.conf" 2>err || rc=$?
    [ "$rc" != 0 ]
    grep -qF "$1" err
  }
  bad "invalid time 'soon'" 'RutileSlowRequest soon'
  bad "invalid time '0'" 'RutileSlowRequest 0'
  bad "invalid trigger name 'a/b'" 'RutileTrigger a/b'
  bad "invalid number of firings a second '0'" 'RutileRate 0'
}

t_case "prefork: slow requests fire the trigger" test_mpm prefork
t_case "worker: slow requests fire the trigger" test_mpm worker
t_case "event: slow requests fire the trigger" test_mpm event
t_case "no more firings than the rate" test_rate
t_case "mistakes in directives are named" test_mistakes
t_done
