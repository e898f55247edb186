#!/bin/bash
# SPDX-License-Identifier: MIT
# A Puma cluster under load: attaching, tracing and detaching fail no request; restarted workers are
# followed.
# shellcheck disable=SC2086,SC2016,SC2010,SC2012,SC2046,SC2143 # words on purpose; code for Ruby; names of our own
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"

serve() {
  command -v wrk >/dev/null || t_skip "no wrk"
  "$RUBY" -S puma --version >/dev/null 2>&1 || t_skip "this Ruby has no Puma"
  cat >config.ru <<'RUBY'
class App
  def call(env)
    [200, { "content-type" => "text/plain" }, [answer(env["PATH_INFO"])]]
  end

  def answer(path)
    10.times.map { |i| part(i) }.join + path
  end

  def part(i)
    "#{i}-" * 3
  end
end
run App.new
RUBY
  # Another process may take the port in the moment in which it is free.
  for _ in 1 2 3 4 5; do
    port=$(free_port)
    "$RUBY" -S puma -q -w 2 -t 1:4 -b "tcp://127.0.0.1:$port" >puma.out 2>&1 &
    master=$!
    trap 'kill -KILL $load $master $(workers) 2>/dev/null || :' EXIT
    t_wait serves || { cat puma.out; return 1; }
    t_gone "$master" || return 0
  done
  cat puma.out
  return 1
}

serves() {
  t_gone "$master" || { [ "$(workers | wc -w)" = 2 ] && curl -s "http://127.0.0.1:$port/" >/dev/null; }
}

# A connection for each request: Puma 4 closes those that are kept alive without a word, after ten.
# Until it is interrupted: $load, its words in wrk.out.
load=
start_load() {
  env --default-signal=INT wrk -t 1 -c 4 -d 600 --timeout 60 -H 'Connection: close' "http://127.0.0.1:$port/" >wrk.out &
  load=$!
}
end_load() {
  # Until env has run it ignores the signal.
  while ! t_gone "$load"; do
    kill -INT "$load" 2>/dev/null || :
    sleep 0.1
  done
  wait "$load"
  cat wrk.out
  grep -q '[1-9][0-9]* requests in' wrk.out
  not grep -E 'Socket errors|Non-2xx' wrk.out
}

workers() {
  cat "/proc/$master/task/$master/children" 2>/dev/null || :
}

no_request_fails() {
  serve
  start_load
  for mode in time objects trace calls; do
    limit="--limit 500"
    [ "$mode" != trace ] || limit=
    # A phase of wrk's run: attach, trace, detach.
    "$RUTILE" "$mode" "$master" all $limit >"$mode.out" 2>"$mode.err" &
    tool=$!
    # It is traced indeed, its methods by name.
    seen='App[.#]part'
    [ "$mode" != objects ] || seen=config.ru
    t_wait grep -q "$seen" "$mode.out" || { kill -KILL "$tool"; cat "$mode.err"; return 1; }
    sleep 2
    kill "$tool"
    wait "$tool" || { cat "$mode.err"; return 1; }
  done
  end_load
  [ "$(workers | wc -w)" = 2 ]
}

# in_rows WORKER: its calls are counted.
in_rows() {
  grep "\"pid\":${1}[,}]" rows.json | grep -q 'App#part"'
}

restarts_are_followed() {
  serve
  old=$(workers)
  # A shell's background jobs ignore SIGINT: env gives it back.
  env --default-signal=INT "$RUTILE" calls "$master" all --per-process --json -o rows.json 2>err &
  tool=$!
  start_load
  for w in $old; do t_wait in_rows "$w" || { cat err; return 1; }; done
  end_load
  kill -USR1 "$master"
  for _ in $(seq 1200); do
    new=$(workers)
    both=1
    for w in $old; do
      case " $new " in *" $w "*) both= ;; esac
    done
    [ -z "$both" ] || [ "$(echo $new | wc -w)" != 2 ] || break
    sleep 0.05
  done
  echo "workers: $old -> $new"
  start_load
  for w in $new; do t_wait in_rows "$w" || { cat err; return 1; }; done
  end_load
  kill -INT "$tool"
  wait "$tool" || { cat err; return 1; }
  for w in $new; do
    grep '"final":true' rows.json | grep "\"pid\":${w}[,}]" | grep -q 'App#part"' ||
      { echo "worker $w is not in the table"; grep -o '"pid":[0-9]*' rows.json | sort | uniq -c; return 1; }
  done
}

t_case "no request fails while attaching, tracing, detaching" no_request_fails
t_case "workers restarted in phases are followed" restarts_are_followed
t_done
