#!/bin/bash
# SPDX-License-Identifier: MIT
# Requests and spans in traces: the same ones as in the servers' own logs, with their fields.
# shellcheck disable=SC2013,SC2016,SC2046,SC2086 # words on purpose; code for Ruby
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
  sleep 0.3 if path == "/pause"
  sleep 0.02 while path == "/hang" && File.exist?("hanging")
  [status > 0 ? status : 200, { "Content-Length" => body.bytesize.to_s }, [body]]
end
RUBY
echo 'require ENV["APP"]; run APP' >"$t_root/config.ru"
export APP=$t_root/app.rb

# view DIR: the events of a trace as "NAME FIELD=VALUE|..." without braces and enumerations.
view() {
  "$RUTILE" view "$1" 2>/dev/null |
    sed -nE 's/.*\) \(([0-9]+)\) ruby:((request|span)_[a-z]*|switch): \{[^}]*\}, \{ (.*) \}$/pid=\1, \2, \4/p' |
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
  # It may have ended with its target.
  kill -INT "$recorder" 2>/dev/null || :
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

# same_as_log [VERB]: the requests of the trace are those of the log, but for the server's own ones of this verb.
same_as_log() {
  sort log >expected
  view trace | grep request_end | grep -v '"/probe' | grep -v "verb = \"${1:-none}\"" |
    sed -E 's/.* status = ([0-9]+), bytes = (-?[0-9]+), verb = "([A-Z]*)", path = "([^"]*)".*/\1 \3 \4 \2/' |
    sed -E 's/^(500 .*) [-0-9]+$/\1/' | sort >got
  sed -Ei 's/^(500 .*) [-0-9]+$/\1/' expected
  diff expected got
}

# Other Rubies (script/matrix) may be without.
needs() {
  for lib in "$@"; do
    "$RUBY" -e 'gem ARGV[0]' "$lib" 2>/dev/null || t_skip "this Ruby has no $lib"
  done
}

puma_requests_equal_the_log() {
  needs puma rack
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
  needs puma rack
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


# same_from SERVER COMMAND...: its requests equal the application's log.
same_from() {
  serve "$@"
  record "${worker:-$server}:requests"
  t_wait recorded "$(served_by)"
  load 24
  t_wait recorded "$(served_by)"
  end_record
  same_as_log
}
# The process that answers.
served_by() {
  set -- $(cat /proc/$server/task/$server/children)
  echo "${1:-$server}"
}
other_servers_too() {
  needs rack webrick unicorn
  echo 'worker_processes 1' >unicorn.rb
  same_from "$RUBY" -S unicorn -c unicorn.rb -l 127.0.0.1:PORT "$t_root/config.ru"
  kill -KILL $(served_by) $server
  rm -rf trace
  same_from "$RUBY" -S rackup -q -s webrick -o 127.0.0.1 -p PORT "$t_root/config.ru"
}
thin_too() {
  needs thin rack
  same_from "$RUBY" -S thin start -q -a 127.0.0.1 -p PORT -R "$t_root/config.ru"
}
# It starts the application in a process that is no child of its own.
passenger_too() {
  if [ ! -x /usr/bin/passenger ] || [ "$RUBY" != ruby ]; then t_skip "no Passenger"; fi
  mkdir -p app/public
  cp "$t_root/config.ru" app
  serve passenger start --engine builtin --address 127.0.0.1 --port PORT --max-pool-size 1 --spawn-method direct \
    --disable-security-update-check --disable-anonymous-telemetry --log-file "$PWD/pass.log" --pid-file "$PWD/pass.pid" app
  served_by() { pgrep -f "^Passenger RubyApp: $PWD/app"; }
  t_wait served_by
  worker=$(served_by)
  record "$worker:requests"
  t_wait recorded "$worker"
  load 24
  t_wait recorded "$worker"
  end_record
  same_as_log HEAD
  # Its other processes end with it.
  kill "$server"
  t_wait t_gone "$server"
}

# run FILE: a program is recorded from its line "ready" on: "text" has its events.
run() {
  mkfifo in
  "$RUBY" -W0 "$1" <in >out 2>err &
  program=$!
  pids="$pids $program"
  trap kill_started EXIT
  exec 5>in
  t_wait grep -q ready out || { cat err; return 1; }
  # shellcheck disable=SC2086 # more options
  record "$program:requests${2:-}" ${3:+--ruby "$program:$3"}
  # It asks whether it is recorded by calling a method that is watched.
  t_wait in_text "Rake::Task#execute"
  echo >&5
  wait "$program" || { cat err; return 1; }
  wait "$recorder" || { cat record.err; return 1; }
  view trace | sed -E 's/^pid=[0-9]+, //; s/ id = [0-9]+,//; s/ caller = [^,]*,//; s/\\(.)/\1/g' >text
}
in_text() {
  view trace 2>/dev/null | grep -q "$1"
}
# The program's side: calls the task until it is asked to stop.
cat >"$t_root/begin.rb" <<'RUBY'
require "rake"
def begin_work
  include Rake::DSL
  puts "ready"
  $stdout.flush
  probe = task(:probe) { }
  probe.execute until $stdin.wait_readable(0.05)
end
require "io/wait"
RUBY

# has LINE...: in this order.
has() {
  "$RUBY" -e '
    lines = File.readlines("text", chomp: true)
    at = 0
    $stdin.each_line(chomp: true) do |l|
      found = (at...lines.size).find { |i| lines[i].include?(l) } or (puts "missing: #{l}"; exit 1)
      at = found + 1
    end' >missing || { cat text missing; return 1; }
}

layers_have_their_spans() {
  needs activerecord actionpack activejob redis sidekiq sinatra
  cat >layers.rb <<RUBY
require "$t_root/begin.rb"
$(cat "$SRC/tests/ruby/layers.rb")
RUBY
  run layers.rb
  has <"$SRC/tests/ruby/layers.expected"
  not grep secret text
  not grep 'user:' text
  # A query is one span, of Active Record or of the driver.
  [ "$(grep -c 'span_begin.*FROM "items"' text)" = 1 ]
}

# What Debian has, and classes of the same shape.
runners_and_frameworks() {
  needs grape delayed_job_active_record activejob
  cat >runners.rb <<RUBY
require "$t_root/begin.rb"
$(cat "$SRC/tests/ruby/runners.rb")
RUBY
  run runners.rb
  has <<'END'
request_begin, kind = "http", method = "Falcon::Server#call", verb = "GET", path = "/orders/17"
request_end, kind = "http", method = "Falcon::Server#call", status = 200, bytes = -1, verb = "GET", path = "/orders/17", route = "GET /orders/:id"
request_end, kind = "http", method = "Falcon::Server#call", status = 500, bytes = -1, verb = "GET", path = "/broken", route = "GET /broken", traceparent = "", x_request_id = "", error = "ArgumentError"
request_end, kind = "http", method = "PhusionPassenger::Rack::ThreadHandlerExtension#process_request", status = 204, bytes = -1, verb = "PUT", path = "/a", route = "", traceparent = "", x_request_id = "r2", error = ""
request_end, kind = "http", method = "PhusionPassenger::Rack::ThreadHandlerExtension#process_request", status = 500, bytes = -1, verb = "PUT", path = "/a", route = "", traceparent = "", x_request_id = "r1", error = "RangeError"
request_end, kind = "job", method = "Delayed::Worker#run", status = 0, bytes = -1, verb = "", path = "Mailing", route = "Mailing", traceparent = "", x_request_id = "", error = ""
request_end, kind = "job", method = "Delayed::Worker#run", status = 0, bytes = -1, verb = "", path = "Mailing", route = "Mailing", traceparent = "", x_request_id = "", error = "IOError"
request_end, kind = "job", method = "GoodJob::Job#perform", status = 0, bytes = -1, verb = "", path = "Report", route = "Report",
request_end, kind = "job", method = "GoodJob::Job#perform", status = 0, bytes = -1, verb = "", path = "Report", route = "Report",
request_end, kind = "job", method = "Resque::Job#perform", status = 0, bytes = -1, verb = "", path = "Mailer", route = "Mailer"
request_end, kind = "job", method = "Resque::Job#perform", status = 0, bytes = -1, verb = "", path = "Report", route = "Report"
request_end, kind = "job", method = "Resque::Job#perform", status = 0, bytes = -1, verb = "", path = "Broken", route = "Broken", traceparent = "", x_request_id = "", error = "FloatDomainError"
END
  grep 'request_end.*GoodJob' text | sed -n 1p | grep 'error = ""'
  grep 'request_end.*GoodJob' text | sed -n 2p | grep 'error = "KeyError"'
}

queries_have_values_and_callers() {
  needs sqlite3
  cat >values.rb <<RUBY
require "$t_root/begin.rb"
require "sqlite3"
class Order
  def total
    [1, 2].each { |i| SQLite3::Database.new(":memory:").execute("select 'secret', #{i}") }
  end
end
begin_work
Order.new.total
SQLite3::Database.new(":memory:").execute("select 3")
RUBY
  run values.rb ,sql_values
  grep -F "select 'secret', 1" text
  # The method of the application that asks, also from a block.
  view trace | grep span_begin >spans
  [ "$(grep -c 'caller = "Order#total"' spans)" = 2 ]
  grep 'select 3' spans | grep 'caller = "<main>"'
}

fibers_and_threads_are_kept_apart() {
  cat >fibers.rb <<RUBY
require "$t_root/begin.rb"
$(cat "$SRC/tests/ruby/fibers.rb")
RUBY
  run fibers.rb
  "$RUBY" "$SRC/tests/ruby/fibers_check.rb" 640 <"text"
}


# Two --ruby for one process have a stream each, with the same fibers.
calls_of_another_stream_are_in_the_request() {
  cat >both.rb <<RUBY
require "$t_root/begin.rb"
class Order
  def total
    Fiber.new { part }.resume
    part
  end

  def part
    Thread.new { sleep 0.02 }.join
  end
end
begin_work
Rake::Task.define_task(:work) { Order.new.total }.execute
RUBY
  run both.rb "" call,return
  "$RUTILE" requests --skip-validation --slowest 1 --explain trace >report
  grep 'work' report
  grep 'Order#total' report
  grep 'Order#part' report
  # Only the fiber that it made had the thread for a while.
  "$RUTILE" view trace | sed -nE 's/.*ruby:switch.*\{ (tid = [0-9]+, fiber = [0-9]+) \}/\1/p' | sort | uniq -c | sort -rn >fibers
  main=$(sed -n "s/.*tid = $program, //p" fibers | wc -l)
  [ "$main" = 2 ] || { cat fibers; return 1; }
}

# The live view: all requests of the log, by route; and one that does not end while it runs.
live_counts_equal_the_log() {
  needs puma rack
  serve "$RUBY" -S puma -q -w 2 -t 2:2 -b tcp://127.0.0.1:PORT "$t_root/config.ru"
  env --default-signal=INT "$RUTILE" requests "$server" --json --interval 100ms -o live.json &
  tool=$!
  pids="$pids $tool"
  for w in $(cat /proc/$server/task/$server/children); do t_wait shown_by "$w"; done
  load 60
  touch hanging
  curl -s "http://127.0.0.1:$port/hang" >/dev/null &
  t_wait grep -q '"type":"running".*"verb":"GET","path":"/hang"' live.json
  rm hanging
  t_wait grep -q '"route":"GET /hang"' live.json
  kill -INT "$tool"
  wait "$tool"
  # Routes have no identifiers of paths.
  "$RUBY" -rjson -e '
    rows = File.readlines("live.json").map { |l| JSON.parse(l) }.select { |r| r["final"] && r["type"] == "route" }
    rows.reject! { |r| r["route"] =~ /probe|hang|pause/ }
    log = File.readlines("log").map(&:split)
    want = log.group_by { |_, verb, _| verb }.map { |verb, l| ["#{verb} /:id/:id", l.size, l.count { |s, *| s == "500" }] }
    got = rows.map { |r| [r["route"], r["count"], r["errors"]] }
    abort "#{got} is not #{want}" unless got.sort == want.sort
    abort "percentiles" unless rows.all? { |r| r["p50_ns"] <= r["p95_ns"] && r["p95_ns"] <= r["p99_ns"] && r["p99_ns"] <= r["max_ns"] && r["max_ns"] <= r["sum_ns"] }'
}
shown_by() {
  curl -s "http://127.0.0.1:$port/pause" >/dev/null &
  sleep 0.1
  grep -q '"type":"running".*"pid":'"$1"',' live.json
}

# It began before rutile came, and hangs: where, and that it is over when it is.
a_request_that_hangs_is_explained() {
  needs puma rack
  serve "$RUBY" -S puma -q -t 2:2 -b tcp://127.0.0.1:PORT "$t_root/config.ru"
  touch hanging
  curl -s "http://127.0.0.1:$port/hang" >/dev/null &
  t_wait hang_is_explained || { cat hang hang.err; return 1; }
  grep -Eq '^Puma::(Request|Server)#handle_request  process '"$server" hang
  [ "$(grep -c '^Puma' hang)" = 1 ]
  rm hanging
  t_wait nothing_hangs
}
hang_is_explained() {
  "$RUTILE" requests --running --explain "$server" >hang 2>hang.err || return 1
  grep -Eq '^  It sleeps in (Kernel#)?sleep at .*/app.rb:9[.]$' hang
}
nothing_hangs() {
  "$RUTILE" requests --running "$server" >hang 2>hang.err && [ ! -s hang ] && grep -q 'no request runs' hang.err
}

# Two threads compute: at each moment one of them has the GVL, and the other one waits for it.
who_has_the_gvl_is_named() {
  "$RUBY" -e 'exit Thread.method_defined?(:native_thread_id)' || t_skip "threads of this Ruby do not say their number"
  cat >spin.rb <<'RUBY'
class Work
  def spin; i = 0; i += 1 while true; end
  def count; n = 0; n += 1 while true; end
end
spinner = Thread.new { Thread.current.name = "spinner"; Work.new.spin }
Thread.new { Thread.current.name = "counter"; Work.new.count }
puts "ready"
$stdout.flush
spinner.join
RUBY
  start out "$RUBY" spin.rb
  t_wait holder_is_named || { cat hang hang.err; return 1; }
  kill "$pid"
}
holder_is_named() {
  "$RUTILE" requests --running --explain --request 'Work#*' "$pid" >hang 2>hang.err || return 1
  grep -Eq 'waits for the GVL in .*#(spin|count) at spin.rb:[23]; thread [0-9]+ (spinner|counter) [(]run[)] runs in .*#(spin|count) at spin.rb:[23][.]$' hang
}

the_screen_shows_requests() {
  needs puma rack
  command -v tmux >/dev/null || t_skip "tmux is not installed"
  serve "$RUBY" -S puma -q -t 2:2 -b tcp://127.0.0.1:PORT "$t_root/config.ru"
  socket=$PWD/tmux
  tmux -S "$socket" -u -f /dev/null new-session -d -x 120 -y 20 \
    "LC_ALL=C.UTF-8 '$RUTILE' requests $server --interval 100ms; echo THE END; sleep 600"
  trap 'tmux -S "$socket" kill-server 2>/dev/null || :; kill_started' EXIT
  t_wait pane 'requests after .* 1 process'
  t_wait pane_after_request 'GET /probe *$'
  # Nor does a terminal of 80 columns cut names of routes.
  tmux -S "$socket" resize-window -x 80 -y 24
  t_wait pane '^REQ/S +COUNT +ERRORS +P50 +P95 +MAX +TIME +SPENT IN +ROUTE *$'
  t_wait pane 'GET /probe *$'
  tmux -S "$socket" resize-window -x 120 -y 20
  t_wait pane ' P99 '
  # t and x record the route under the cursor for a moment, kernel included.
  "$RUTILE" doctor >doctor.out 2>&1 || :
  if [ "$(id -u)" = 0 ] && grep -q '^eBPF *ok' doctor.out; then
    tmux -S "$socket" send-keys t
    t_wait pane_after_request 'Slowest requests'
    t_wait pane '[0-9] [mu]?s  GET /probe'
    tmux -S "$socket" send-keys x
    t_wait pane_after_request 'This request took'
    tmux -S "$socket" send-keys BSpace
    t_wait no_pane 'This request took'
  fi
  touch hanging
  curl -s "http://127.0.0.1:$port/hang" >/dev/null &
  t_wait pane 'RUNS FOR.*DOES'
  t_wait pane 'GET /hang'
  # x: what hangs, with its stack, until Backspace.
  tmux -S "$socket" send-keys x
  t_wait pane 'Requests that run now, and what they wait for'
  t_wait pane 'handle_request  process'
  tmux -S "$socket" send-keys BSpace
  t_wait pane 'RUNS FOR.*DOES'
  rm hanging
  tmux -S "$socket" send-keys / h a n g Enter
  t_wait pane 'GET /hang *$'
  t_wait no_pane 'GET /probe'
  # Enter opens the route under the cursor, Backspace returns.
  tmux -S "$socket" send-keys Enter
  t_wait pane 'SLOWEST *REQUEST'
  pane 'GET /hang *$'
  tmux -S "$socket" send-keys BSpace
  t_wait no_pane 'SLOWEST *REQUEST'
  tmux -S "$socket" send-keys r
  t_wait pane 'No request has ended yet'
  tmux -S "$socket" send-keys h
  t_wait pane 'Any key returns'
  tmux -S "$socket" send-keys x q
  t_wait pane 'THE END'
}
pane() {
  tmux -S "$socket" capture-pane -p | grep -qE -- "$1"
}
no_pane() {
  not pane "$1"
}
pane_after_request() {
  curl -s "http://127.0.0.1:$port/probe" >/dev/null
  pane "$1"
}

# Fibers that are abandoned in a request report no end. Later requests are recorded all the same, and
# one that continues when its state was freed is counted as lost.
abandoned_fibers_leave_room() {
  cat >fibers.rb <<'EOF'
module Puma
  module Request
    def handle_request(client, lines)
      yield
      [200, { "Content-Length" => "17" }].size
    end
  end
end
class Server; include Puma::Request; end
class Client
  attr_reader :env
  def initialize(env) @env = env end
end
SERVER = Server.new
def request(path, &block)
  SERVER.handle_request(Client.new({ "REQUEST_METHOD" => "GET", "PATH_INFO" => path }), 1, &block)
end
$stdout.sync = true
puts "ready"
request("/early") { sleep 0.01 } until File.exist?("go")
first = Fiber.new { request("/first") { Fiber.yield } }
first.resume
fibers = Array.new(4200) { |i| Fiber.new { request("/abandoned/#{i}") { Fiber.yield } }.tap(&:resume) }
10.times { |i| request("/late/#{i}") { } }
first.resume
puts fibers.size
EOF
  start fibers.out "$RUBY" -W0 fibers.rb
  record "$pid:requests"
  t_wait early_is_recorded
  : >go
  t_wait t_gone "$pid"
  end_record
  view trace >events
  [ "$(grep -c 'request_end.*path = "/late/' events)" = 10 ]
  [ "$(grep -c 'request_begin.*path = "/abandoned/' events)" = 4200 ]
  not grep 'request_end.*path = "/first"' events
  grep -Eq 'Ruby: .* [1-9][0-9]* events lost' record.err
}
early_is_recorded() {
  view trace | grep -q 'request_end.*path = "/early"'
}

# Methods that no layer file names, and blocks, get no hook: a hook is a TracePoint of the process, which counts them.
only_watched_methods_are_hooked() {
  cat >many.rb <<'EOF'
module Puma
  module Request
    def handle_request(client, lines)
      yield
      [200, { "Content-Length" => "17" }].size
    end
  end
end
class Server; include Puma::Request; end
class Client
  def initialize
    @env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => "/early" }
  end
end
class Many
  300.times { |i| class_eval "def m#{i}; [1].each { |x| x }; end" }
  300.times { |i| define_method("d#{i}") { i } }
end
File.write("later.rb", "class Later\n" + Array.new(100) { |i| "def l#{i}; [1].map { |x| x }; end\n" }.join + "end\n")
hooks = -> { ObjectSpace.each_object(TracePoint).count(&:enabled?) }
$stdout.sync = true
puts hooks.call, "ready"
Server.new.handle_request(Client.new, 1) { sleep 0.01 } until File.exist?("go")
require_relative "later"
puts hooks.call
EOF
  start hooks "$RUBY" -W0 many.rb
  record "$pid:requests"
  t_wait early_is_recorded
  : >go
  t_wait t_gone "$pid"
  end_record
  # Few more, and these are the session's own and that of the one watched method.
  awk 'NR == 1 { before = $1 } NR == 3 { hooks = $1 } END { print hooks - before; exit !(hooks > before && hooks - before <= 20) }' hooks
}

# What is known of a watched method's code outlives collections: only the first request asks for it, which makes
# dozens of objects.
code_is_looked_at_once() {
  cat >collect.rb <<'EOF'
module Puma
  module Request
    def handle_request(client, lines)
      yield
      [200, { "Content-Length" => "17" }].size
    end
  end
end
class Server; include Puma::Request; end
class Client
  def initialize(path)
    @env = { "REQUEST_METHOD" => "GET", "PATH_INFO" => path }
  end
end
$stdout.sync = true
puts "ready"
Server.new.handle_request(Client.new("/early"), 1) { sleep 0.01 } until File.exist?("go")
objects = 20.times.map do |i|
  server, client = Server.new, Client.new("/late/#{i}")
  GC.start
  before = GC.stat(:total_allocated_objects)
  server.handle_request(client, 1) { }
  GC.stat(:total_allocated_objects) - before
end
puts objects.max
EOF
  start collect.out "$RUBY" -W0 collect.rb
  record "$pid:requests"
  t_wait early_is_recorded
  : >go
  t_wait t_gone "$pid"
  end_record
  cat collect.out
  [ "$(tail -n 1 collect.out)" -lt 15 ]
  [ "$(view trace | grep -c 'request_end.*path = "/late/[0-9]')" = 20 ]
}

t_case "requests of a Puma cluster equal its application's log, workers forked meanwhile too" puma_requests_equal_the_log
t_case "traceparent and X-Request-Id are fields of a request, the query string is not" contexts_of_the_outside_are_fields
t_case "requests of Unicorn and WEBrick equal their application's log" other_servers_too
t_case "requests of Thin equal their application's log" thin_too
t_case "requests of Passenger equal their application's log" passenger_too
t_case "Grape, Delayed Job and classes like those of Falcon, GoodJob and Resque are known" runners_and_frameworks
t_case "layers have their spans, jobs and tasks are requests" layers_have_their_spans
t_case "SQL has its values when they are asked for, and the method that led to it" queries_have_values_and_callers
t_case "requests of the fibers and threads of a process are kept apart" fibers_and_threads_are_kept_apart
t_case "calls that another --ruby records are in the request" calls_of_another_stream_are_in_the_request
t_case "the live view has all requests by route, and those that run" live_counts_equal_the_log
t_case "a request that hangs is explained while it hangs" a_request_that_hangs_is_explained
t_case "the thread that has the GVL is named" who_has_the_gvl_is_named
t_case "the screen shows routes and what runs, keys filter and reset" the_screen_shows_requests
t_case "fibers that are abandoned in a request" abandoned_fibers_leave_room
t_case "only methods that are watched get a hook" only_watched_methods_are_hooked
t_case "the code of watched methods is looked at once, whatever is collected" code_is_looked_at_once
t_done
