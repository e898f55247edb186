#!/bin/bash
# SPDX-License-Identifier: MIT
# Requests and spans in traces: the same ones as in the servers' own logs, with their fields.
# shellcheck disable=SC2016,SC2046,SC2086 # words on purpose; code for Ruby
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"

# An application that logs each request itself: "STATUS VERB PATH BYTES".
cat >"$t_root/app.rb" <<'RUBY'
LOG = File.open(ENV["LOG"], "a").tap { |f| f.sync = true }
APP = lambda do |env|
  path = env["PATH_INFO"]
  status = path[%r{\A/(\d+)}, 1].to_i
  body = "x" * path[%r{/(\d+)\z}, 1].to_i
  LOG.syswrite("#{status} #{env["REQUEST_METHOD"]} #{path} #{body.bytesize}\n") if status > 0
  raise ArgumentError, "on purpose" if status == 500
  [status > 0 ? status : 200, { "Content-Length" => body.bytesize.to_s }, [body]]
end
RUBY
echo 'require ENV["APP"]; run APP' >"$t_root/config.ru"
export APP=$t_root/app.rb

# view DIR: the events of a trace as "NAME FIELD=VALUE|..." without braces and enumerations.
view() {
  "$RUTILE" view "$1" 2>/dev/null |
    sed -nE 's/.*\) \(([0-9]+)\) ruby:((request|span)_[a-z]*): \{[^}]*\}, \{ (.*) \}$/pid=\1, \2, \4/p' |
    sed -E 's/\( "([^"]*)" : container = [0-9]+ \)/"\1"/g'
}

# serve COMMAND...: a server on $port that answers, $server.
serve() {
  LOG=$PWD/log
  export LOG
  : >"$LOG"
  for _ in 1 2 3 4 5; do
    port=$(free_port)
    env PORT="$port" bash -c 'exec "$@"' - "${@//PORT/$port}" >server.out 2>&1 &
    server=$!
    pids="$pids $server"
    trap kill_started EXIT
    t_wait answers || { cat server.out; return 1; }
    t_gone "$server" || return 0
  done
  cat server.out
  return 1
}
answers() {
  t_gone "$server" || curl -s "http://127.0.0.1:$port/probe" >/dev/null
}

# record TARGET:EVENTS: into "trace", until end_record.
record() {
  env --default-signal=INT "$RUTILE" record -o trace --ruby "$@" 2>record.err &
  recorder=$!
  pids="$pids $recorder"
}
end_record() {
  kill -INT "$recorder"
  wait "$recorder" || { cat record.err; return 1; }
}

# A request of this process is in the trace.
recorded() {
  for _ in 1 2 3 4; do curl -s "http://127.0.0.1:$port/probe" >/dev/null; done
  view trace 2>/dev/null | grep -q "^pid=$1, request_end.*path = \"/probe\""
}

# load N: requests of several kinds, two at a time.
load() {
  "$RUBY" -rnet/http -e '
    paths = %w[/200/10 /404/0 /201/12345 /500/7]
    2.times.map { |t|
      Thread.new do
        Integer(ARGV[1]).times do |i|
          verb = i % 3 == 0 ? Net::HTTP::Post : Net::HTTP::Get
          req = verb.new(paths[(i + t) % 4])
          req["Connection"] = "close"
          Net::HTTP.start("127.0.0.1", ARGV[0]) { |h| h.request(req) }
        end
      end
    }.each(&:join)' "$port" "$1"
}

# The requests of the trace are those of the log.
same_as_log() {
  sort log >expected
  view trace | grep request_end | grep -v '"/probe' |
    sed -E 's/.* status = ([0-9]+), bytes = (-?[0-9]+), verb = "([A-Z]*)", path = "([^"]*)".*/\1 \3 \4 \2/' |
    sed -E 's/^(500 .*) [-0-9]+$/\1/' | sort >got
  sed -Ei 's/^(500 .*) [-0-9]+$/\1/' expected
  diff expected got
}

puma_requests_equal_the_log() {
  serve "$RUBY" -S puma -q -w 2 -t 1:4 -b tcp://127.0.0.1:PORT "$t_root/config.ru"
  workers=$(cat /proc/$server/task/$server/children)
  record "$server:requests"
  for w in $workers; do t_wait recorded "$w"; done
  load 100
  # A worker that the master forks later is recorded from its first request on.
  old=${workers%% *}
  kill -KILL "$old"
  t_wait replaced
  load 50
  for w in $(cat /proc/$server/task/$server/children); do t_wait recorded "$w"; done
  end_record
  same_as_log
  [ "$(wc -l <expected)" -ge 300 ]
  # Each has a begin of the same number, and 500s say what was raised.
  view trace | grep -o 'request_[a-z]*, id = [0-9]*' | sort | awk '{ n[$4]++ } END { for (i in n) if (n[i] != 2) { print i, n[i]; bad = 1 } exit bad }'
  not grep -v 'error = "ArgumentError"' <(view trace | grep 'request_end.*status = 500')
  not grep -v 'error = ""' <(view trace | grep 'request_end.*status = 20')
}
replaced() {
  now=$(cat /proc/$server/task/$server/children)
  case " $now " in *" $old "*) return 1 ;; esac
  [ "$(echo $now | wc -w)" = 2 ]
}

contexts_of_the_outside_are_fields() {
  serve "$RUBY" -S puma -q -t 2:2 -b tcp://127.0.0.1:PORT "$t_root/config.ru"
  record "$server:requests"
  t_wait recorded "$server"
  curl -s -H 'X-Request-Id: r-17' -H 'traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' \
    "http://127.0.0.1:$port/200/3?secret=1" >/dev/null
  t_wait recorded "$server"
  end_record
  view trace >text
  grep 'request_end.*path = "/200/3"' text | grep 'x_request_id = "r-17"' | grep 'traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"'
  not grep secret text
}

t_case "requests of a Puma cluster equal its application's log, workers forked meanwhile too" puma_requests_equal_the_log
t_case "traceparent and X-Request-Id are fields of a request, the query string is not" contexts_of_the_outside_are_fields
t_done
