#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes of Ruby's other events in scripts: exceptions, allocations, collections, requests, layers, methods written in C; and rrequest.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
ruby=${RUBY:-ruby}

need_bpf

script='' pid=''

# What a case leaves when it fails: the programs would wait for ever.
clean_up() {
  [ -z "$script" ] || kill -INT "$script" 2>/dev/null || :
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || :
}

# Says when what comes before it is attached and counts.
ready='interval:ms:20 /@ready == 0/ { print("ready"); @ready = 1; }'

# begin PROGRAM: runs a script until finish; its output is in "out".
begin() {
  "$RUTILE" run -p "$pid" -e "$1 $ready" >out 2>err & script=$!
  trap clean_up EXIT
  t_wait grep -qx ready out || { cat err; return 1; }
}

finish() {
  kill -INT "$script" 2>/dev/null || :
  wait "$script" || { cat err; return 1; }
  script=''
}

launch() {
  "$ruby" "$SRC/tests/bpf/ruby_events.rb" wait "$PWD/go" "$PWD/counts" 2>program.err & pid=$!
  trap clean_up EXIT
  t_wait test -e "$PWD/go.up"
}

go() {
  : >go
  wait "$pid" || { head -n 40 program.err; return 1; }
  pid=''
}

map() {
  grep "^@$1\\[" "$2" | LC_ALL=C sort
}

# shown LINE...: each is in the output.
shown() {
  local line
  for line in "$@"; do
    grep -qxF -- "$line" out || { echo "not there: $line"; cat out err; return 1; }
  done
}

counts=$t_root/counts
"$ruby" "$SRC/tests/bpf/ruby_events.rb" count "$counts"

exceptions_and_c_methods_are_those_of_tracepoint() {
  launch
  begin 'ruby:raise /class != "UncaughtThrowError" && class != "SystemExit"/ { @raise[class, args.message, line] = count(); } ruby:raise:IO* { @io = count(); }
    ruby:c:String#gsub { @gsub[self.class, line] = count(); } ruby:c:String#gsub:return /retval == "bbnbnb"/ { @returned = count(); }'
  go
  finish
  [ "$(map raise "$counts" | wc -l)" = 2 ]
  diff <(map raise "$counts") <(map raise out)
  diff <(map gsub "$counts") <(map gsub out)
  shown '@returned: 100' '@io: 180'
}

# 3 Things a request of index, a Special for one of show; 40 bytes each on Ruby until 3.1, and as few since.
allocations_are_counted_by_request() {
  launch
  begin 'ruby:alloc:Thing { @thing[class, rrequest] = count(); @bytes[args.bytes == 40] = count(); } ruby:alloc:Special { @special[rrequest, rmethod] = count(); }'
  go
  finish
  shown '@thing[Thing, OrdersController#index]: 540' '@bytes[true]: 540'
  shown '@special[OrdersController#show, OrdersController#show]: 180'
}

# Ruby's own count of the process itself, without its children.
collections_are_those_of_gc_count() {
  local before after
  launch
  begin "ruby:gc:start /pid == $pid/ { printf(\"start %d\\n\", args.count); @by[args.reason] = count(); } ruby:gc:end /pid == $pid/ { @end = count(); @negative += elapsed > 60000000000; }
    ruby:gc:enter { @depth += 1; } ruby:gc:exit { @depth -= 1; @pause = sum(elapsed); @wrong += elapsed == 0; }"
  go
  finish
  read -r before after <"$PWD/counts"
  seq $((before + 1)) "$after" | diff - <(awk -v a="$before" -v b="$after" '/^start/ && $2 > a && $2 <= b { print $2 }' out)
  shown '@depth: 0' '@negative: 0' '@wrong: 0' '@by[method]: 1'
}

requests_and_layers_are_counted() {
  launch
  begin 'ruby:request:begin { @begin[args.verb, args.kind] = count(); } ruby:request:end { @end[args.name, args.kind, args.error] = count(); @status[args.status] = count(); }
    ruby:span:begin { @span = count(); } ruby:span:end { @caller[args.caller] = count(); @end_span[args.layer, args.detail, method, rrequest, elapsed < 60000000000] = count(); }'
  go
  finish
  shown '@caller[OrdersController#index]: 180' '@begin[GET, http]: 540' '@begin[, rake]: 9' '@span: 180' '@end_span[sql, SELECT ?, execute, OrdersController#index, true]: 180'
  shown '@end[OrdersController#index, http, ]: 180' '@end[OrdersController#show, http, ]: 180' '@end[OrdersController#broken, http, IOError]: 180'
  shown '@end[thrown, rake, ]: 5' '@end[killed, rake, ]: 1' '@end[turn2, rake, ]: 1'
  shown '@status[200]: 180' '@status[404]: 180'
}

# Of this program and its children alone: other Rubies of the machine write, too.
# Each write is of the request that its number of bytes says, in threads, fibers that take turns, and children; "outside" in none.
rrequest_is_right_in_kernel_probes() {
  launch
  begin "tracepoint:syscalls:sys_enter_write /pid == $pid || ppid == $pid/ { @write[args.count, str(args.buf, 2), rrequest] = count(); }"
  go
  finish
  requests_of_writes
}

# In a session, which is read by another process.
rrequest_is_right_in_sessions() {
  launch
  echo "tracepoint:syscalls:sys_enter_write /pid == $pid || ppid == $pid/ { @write[args.count, str(args.buf, 2), rrequest] = count(); }" >script.bt
  "$RUTILE" start "ruby$$" --flight --script script.bt --script-target "$pid"
  go
  "$RUTILE" show "ruby$$" >out
  "$RUTILE" destroy "ruby$$"
  requests_of_writes
}

requests_of_writes() {
  sed -n 's/^@write\[\([0-9]*, [isbot]\)[^,]*, \(.*\)$/\1 \2/p' out | LC_ALL=C sort >seen
  cat >want <<'EOF2'
1, b OrdersController#broken]: 180
1, i OrdersController#index]: 180
1, s OrdersController#show]: 180
21, t turn1]: 100
22, t turn2]: 100
23, t turn3]: 100
7, o ]: 541
EOF2
  diff want seen || { cat out; return 1; }
}

a_command_is_traced_from_its_first_line() {
  : >go
  "$RUTILE" run -q -c "$ruby $SRC/tests/bpf/ruby_events.rb wait $PWD/go $PWD/counts" \
    -e 'ruby:OrdersController#index { @index[rrequest] = count(); } ruby:raise:IOError { @raise = count(); }' >out 2>err
  shown '@index[OrdersController#index]: 180' '@raise: 180'
}

# Every call once, whatever ends it; of returns those that Ruby reports: not of the methods that the stack's end left.
calls_of_a_storm_are_counted() {
  "$ruby" "$SRC/tests/bpf/ruby_storm.rb" "$PWD/go" "$PWD/counts" 2>program.err & pid=$!
  trap clean_up EXIT
  t_wait test -e "$PWD/go.up"
  begin 'ruby:Order#* { @[method] = count(); } ruby:Order#child:return { @child = count(); }'
  go
  finish
  grep -v ensured counts | diff - <(grep '^@\[' out | LC_ALL=C sort)
  shown "@child: $(sed -n 's/^@\[child\]: //p' counts)"
}

# installed NAME: runs an installed script until finish; it has no probe that says when it counts.
installed() {
  RUTILE_SCRIPTS=$SRC/share/rutile/scripts "$RUTILE" run -p "$pid" "$1" >out 2>err & script=$!
  trap clean_up EXIT
  t_wait grep -q '^Attached' err || { cat err; return 1; }
}

# The program's calls of each kind are known: see ruby_events.rb.
installed_scripts_count_what_there_was() {
  launch
  installed rubysql
  go
  finish
  shown '@calls[OrdersController#index, SELECT ?]: 180'
  grep -q '^@usecs\[OrdersController#index\]:' out
  rm -f go go.up
  launch
  installed rubyalloc
  go
  finish
  grep -q '^@sites\[OrdersController#index, Thing, .*ruby_events.rb, [0-9]*\]: 540$' out
  shown '@requests[OrdersController#show]: 180' '@requests[turn1]: 1'
  rm -f go go.up
  launch
  installed rubyroutes
  go
  finish
  shown '@calls[OrdersController#index, write]: 180' '@calls[turn3, write]: 100' '@requests[OrdersController#broken]: 180'
  not grep -q '^@since' out
}

# refused MESSAGE OPTION...
refused() {
  local message=$1
  shift
  if timeout 20 "$RUTILE" run "$@" >out 2>err; then cat err; return 1; fi
  grep -qF -- "$message" err || { cat err; return 1; }
}

what_is_wrong_is_said() {
  refused 'hint: did you mean ruby:request:end?' -p $$ -e 'ruby:request:ed { }'
  refused 'this probe has no args.byts' -p $$ -e 'ruby:request:end { print(args.byts); }'
  grep -qx 'hint: did you mean args.bytes?' err
  [ "$(grep -c hint err)" = 1 ]
  refused 'this probe has no arguments' -p $$ -e 'ruby:c:String#gsub { print(args.x); }'
  refused 'only probes of methods written in Ruby have numbered arguments' -p $$ -e 'ruby:raise { print(args[0]); }'
  refused 'only probes of returns and ends have elapsed' -p $$ -e 'ruby:gc:start { print(elapsed); }'
  refused 'this probe has no line' -p $$ -e 'ruby:gc:start { print(line); }'
  refused 'requests are known of processes' -e 'begin { print(rrequest); }'
  launch
  begin 'ruby:OrdersController#indx { } ruby:Kernel#puts { }'
  finish
  grep -q "^stdin:1:1: warning: no method is 'OrdersController#indx' so far: the probe waits for one; names like .*: OrdersController#index" err
  grep -q "^stdin:1:[0-9]*: warning: no method is 'Kernel#puts' so far" err
  if ! "$ruby" -e 'exit RUBY_VERSION.to_f >= 3.2'; then
    refused 'probes of the GVL need Ruby 3.2 or later' -p "$pid" "$SRC/share/rutile/scripts/rubygvl.bt"
  fi
  go
}

# Three threads compute for two seconds: one has the lock, two wait for it. Before Ruby 3.2 it is said that there is no such event.
gvl_is_held_by_one_thread() {
  cat >gvl.rb <<'EOF'
finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 2
3.times.map { Thread.new { x = 0; x += 1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish } }.each(&:join)
EOF
  "$RUTILE" run -e 'ruby:gvl:wait { @waits = count(); } ruby:gvl:have { @haves = count(); @waited = sum(elapsed); }
    ruby:gvl:release { @held = sum(elapsed); }' -c "$ruby gvl.rb" >out 2>err
  cat out err
  if "$ruby" -e 'exit RUBY_VERSION < "3.2"'; then
    grep -q 'the command was not traced: .*probes of the GVL need Ruby 3.2 or later' err
    return
  fi
  awk '{ v[$1] = $2 } END { waits = v["@waits:"]; haves = v["@haves:"]; held = v["@held:"] / 1e9; waited = v["@waited:"] / 1e9
    exit !(waits > 5 && haves >= waits - 3 && haves <= waits + 3 && held > 1.8 && held < 2.2 && waited > 3.6 && waited < 4.4) }' out
}

t_case "the lock is held by one thread, the others wait" gvl_is_held_by_one_thread
t_case "exceptions and methods written in C are counted as by TracePoint" exceptions_and_c_methods_are_those_of_tracepoint
t_case "allocations are counted, by request" allocations_are_counted_by_request
t_case "collections are those of GC.count" collections_are_those_of_gc_count
t_case "requests and layers are counted" requests_and_layers_are_counted
t_case "rrequest is right in kernel probes: threads, fibers, exceptions, throw, kill, fork" rrequest_is_right_in_kernel_probes
t_case "rrequest is right in a flight recorder" rrequest_is_right_in_sessions
t_case "a command is traced from its first line" a_command_is_traced_from_its_first_line
t_case "calls are counted once in a storm of forks, kills, exceptions and a deep stack" calls_of_a_storm_are_counted
t_case "rubysql, rubyalloc, rubyroutes" installed_scripts_count_what_there_was
t_case "what is wrong is said" what_is_wrong_is_said
t_done
