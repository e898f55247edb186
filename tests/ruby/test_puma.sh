#!/bin/sh
# SPDX-License-Identifier: MIT
# A Puma cluster under load: attaching, tracing and detaching fail no request; restarted workers are
# followed.
# shellcheck disable=SC2086,SC2016,SC2010,SC2012,SC2046,SC2143 # words on purpose; code for Ruby; names of our own
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"
port=${PORT_BASE}8

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
  "$RUBY" -S puma -q -w 2 -t 1:4 -b "tcp://127.0.0.1:$port" >puma.out 2>&1 &
  master=$!
  trap 'kill -KILL $master $(cat "/proc/$master/task/$master/children") 2>/dev/null || :' EXIT
  for _ in $(seq 200); do
    [ "$(workers | wc -w)" != 2 ] || ! curl -s "http://127.0.0.1:$port/" >/dev/null || return 0
    sleep 0.05
  done
  cat puma.out
  return 1
}

# A connection for each request: Puma 4 closes those that are kept alive without a word, after ten.
load() {
  wrk -t 1 -c 4 -d "$1" -H 'Connection: close' "http://127.0.0.1:$port/"
}

workers() {
  cat "/proc/$master/task/$master/children"
}

no_request_fails() {
  serve
  load "${WRK_SECONDS:-18}" >wrk.out &
  load=$!
  sleep 0.5
  for mode in time objects trace calls; do
    limit="--limit 500"
    [ "$mode" != trace ] || limit=
    # A phase of wrk's run: attach, trace, detach.
    "$RUTILE" "$mode" "$master" all $limit --duration 3 >"$mode.out" 2>"$mode.err" || { cat "$mode.err"; return 1; }
  done
  wait "$load"
  cat wrk.out
  not grep -E 'Socket errors|Non-2xx' wrk.out
  # It was traced indeed: both workers' methods, by name.
  grep -q 'App#part' calls.out
  grep -q 'App.part\|App#part' trace.out
  [ "$(workers | wc -w)" = 2 ]
}

restarts_are_followed() {
  serve
  old=$(workers)
  # A shell's background jobs ignore SIGINT: env gives it back.
  env --default-signal=INT "$RUTILE" calls "$master" all --per-process --json -o rows.json 2>err &
  tool=$!
  sleep 1
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
  sleep 1
  load 2 >wrk.out
  not grep -E 'Socket errors|Non-2xx' wrk.out
  kill -INT "$tool"
  wait "$tool" || { cat err; return 1; }
  for w in $new; do
    grep '"final":true' rows.json | grep "\"pid\":${w}[,}]" | grep -q 'part' ||
      { echo "worker $w is not in the table"; grep -o '"pid":[0-9]*' rows.json | sort | uniq -c; return 1; }
  done
}

t_case "no request fails while attaching, tracing, detaching" no_request_fails
t_case "workers restarted in phases are followed" restarts_are_followed
t_done
