#!/bin/bash
# SPDX-License-Identifier: MIT
# Probes of Ruby methods in scripts, against what TracePoint counts of the same calls in another process.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
ruby=${RUBY:-ruby}

need_bpf

script='' pid='' held=''

# What a case leaves when it fails: the programs would never end.
clean_up() {
  [ -z "$script" ] || kill -INT "$script" 2>/dev/null || :
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || :
  [ -z "$held" ] || kill -KILL "$held" 2>/dev/null || :
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

# A program that waits for a line makes its calls, and the script ends after them.
let_it_end() {
  echo >&8
  t_wait grep -qx over said
  finish
  exec 8>&-
}

launch() {
  "$ruby" "$SRC/tests/bpf/ruby_probes.rb" wait "$PWD/go" 2>program.err & pid=$!
  trap clean_up EXIT
  t_wait mapped "$pid"
}

go() {
  : >go
  wait "$pid" || { head -n 40 program.err; return 1; }
  pid=''
}

mapped() {
  grep -qE 'libruby|/ruby' "/proc/$1/maps"
}

same() {
  [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }
}

map() {
  grep "^@$1\\[" "$2" | LC_ALL=C sort
}

counts=$t_root/counts
"$ruby" "$SRC/tests/bpf/ruby_probes.rb" count "$counts"

# A class as an argument is its address.
wanted='class == "Order" && method != "unwanted"'
fields='class, method, self.class, strncmp(args[0], "#<Class", 7) ? args[0] : ""'

all_calls_are_counted() {
  launch
  begin "ruby:Order* /$wanted/ { @call[$fields] = count(); }"
  go
  finish
  [ "$(map call "$counts" | wc -l)" -ge 20 ]
  diff <(map call "$counts") <(map call out)
}

returns_are_counted() {
  launch
  begin "ruby:Order*:return /$wanted/ { @return[$fields] = count(); @negative += elapsed > 60000000000; }"
  go
  finish
  diff <(map return "$counts") <(map return out)
  grep -qx '@negative: 0' out
}

named_methods_alone_are_hooked() {
  launch
  begin 'ruby:Order#total { @total[self.class] = count(); } ruby:Order.find:return { @found[retval != ""] = count(); }
    ruby:Order#doubled:return { @doubled[args.id, args[0], args.twice == "", args[1] == ""] = count(); }
    ruby:find { @find = count(); } ruby:Order#de?p:return { @deep = max(elapsed); @deeps = count(); }'
  go
  finish
  local total find deep
  total=$(map call "$counts" | awk -F': ' '/, total,/ { n += $2 } END { print n }')
  find=$(map call "$counts" | awk -F': ' '/, find,/ { n += $2 } END { print n }')
  deep=$(map call "$counts" | awk -F': ' '/, deep,/ { n += $2 } END { print n }')
  same "$(awk -F': ' '/^@total\[/ { n += $2 } END { print n }' out)" "$total"
  grep -qx "@find: $find" out
  grep -qx "@found\\[true\\]: $find" out
  grep -qx "@deeps: $deep" out
  # What a method keeps in a variable of its own is no argument.
  grep -q '^@doubled\[7, 7, true, true\]: ' out
}

# The first probe is deferred, the second one is not: it uses rand. The program says how often each of its threads called.
threads_and_times_of_deferred_hits() {
  mkfifo to
  "$ruby" -e 'class Order; def total(id) = nil; end
    o = Order.new; $stdout.sync = true
    calls = ->(times, id) { times.times { o.total(id) }; tid = File.readlink("/proc/thread-self").split("/")
      puts "[#{tid[0]}, #{tid[2]}, #{File.read("/proc/thread-self/comm").chomp}, #{id}]: #{times}" }
    puts "here"; $stdin.gets; calls.(500, 1)
    4.times.map { |n| Thread.new { Thread.current.name = "thread #{n}"; sleep 0.01; calls.(200, n) } }.each(&:join)
    3.times.map { |n| fork { calls.(100, n); Thread.new { Thread.current.name = "in a child"; sleep 0.01; calls.(50, n) }.join; Process.kill(:KILL, $$) } }
      .each { |c| Process.wait(c) }
    # With the name that it has at the call, whoever gives it.
    File.write("/proc/thread-self/comm", "renamed"); calls.(7, 1)
    puts "over"; $stdin.gets' <to >said & pid=$!
  trap clean_up EXIT
  exec 8>to
  t_wait grep -qx here said
  begin 'ruby:Order#total { @late[pid, tid, comm, args.id] = count(); @first[0] = min(nsecs); @last[0] = max(nsecs(monotonic)); }
    ruby:Order#total { $x = rand; @once[pid, tid, comm, args.id] = count(); @first[1] = min(nsecs); @last[1] = max(nsecs(monotonic)); }'
  let_it_end
  wait "$pid"
  pid=''
  same "$(map late out | wc -l)" 12
  diff <(grep '^\[' said | LC_ALL=C sort) <(map late out | sed 's/^@late//')
  diff <(map late out | sed 's/^@late//') <(map once out | sed 's/^@once//')
  # Of one call: the second probe is hit when the first one has been.
  awk -F': ' '/^@(first|last)\[0/ { a[substr($1, 2, 4)] = $2 } /^@(first|last)\[1/ { d = $2 - a[substr($1, 2, 4)]; n++; bad += d <= 0 || d > 1e9 }
    END { exit n != 2 || bad }' out || { cat out; return 1; }
}

# Its clock is a day ahead of ours: the first probe's hits must trap, too, or their times would be its own.
times_of_another_namespace() {
  unshare --time true 2>/dev/null || t_skip "no time namespaces"
  mkfifo to
  unshare --time --fork --boottime 86400 --monotonic 86400 "$ruby" -e 'class Order; def total = nil; end
    $stdout.sync = true; puts "here"; $stdin.gets; 50.times { Order.new.total }; puts "over"; $stdin.gets' <to >said & held=$!
  trap clean_up EXIT
  exec 8>to
  t_wait grep -qx here said
  pid=$(pgrep -P "$held")
  begin 'ruby:Order#total { @n = count(); @last = max(nsecs); printf("hit %d\n", tid); } ruby:Order#total { $x = rand; @trapped = max(nsecs); }'
  let_it_end
  wait "$held"
  held=''
  same "$(grep -cx "hit $pid" out)" 50
  pid=''
  grep -qx '@n: 50' out
  awk -F': ' '$1 == "@last" { a = $2 } $1 == "@trapped" { b = $2 } END { print b - a; exit !a || b < a || b - a > 1e9 }' out
}

# The program writes down its calls, and which thread made them, in their order; a probe of the kernel comes behind each.
what_deferred_hits_print_is_in_order() {
  mkfifo to
  "$ruby" -e 'class Order; def total(id) = nil; def other = nil; end
    o = Order.new; $stdout.sync = true; m = Mutex.new; n = 0; log = File.open("log", "a")
    step = lambda { m.synchronize { tid = File.readlink("/proc/thread-self").split("/")[2]
      o.total(n += 1); log.syswrite("total #{n} #{tid}\n"); Process.getpriority(Process::PRIO_USER, 0); log.syswrite("nice #{tid}\n"); o.other; log.syswrite("other #{tid}\n") } }
    puts "here"; $stdin.gets; 200.times { step.() }
    4.times.map { Thread.new { 100.times { step.() } } }.each(&:join)
    20.times { Process.wait(fork { 10.times { step.() } }); n += 10; 5.times { step.() } }
    puts "over"; $stdin.gets' <to >said & pid=$!
  trap clean_up EXIT
  exec 8>to
  t_wait grep -qx here said
  begin 'ruby:Order#total { printf("total %s %d\n", args.id, tid); @n = count(); } ruby:Order#other { print(("other", tid)); }
    tracepoint:syscalls:sys_enter_getpriority /args.which == 2/ { printf("nice %d\n", tid); } interval:ms:30 { printf("n %d\n", @n); }'
  let_it_end
  wait "$pid"
  pid=''
  same "$(wc -l <log)" 2700
  # Other programs may call it, too.
  awk 'NR == FNR { ours[$NF] = 1; next } /^\(other, [0-9]+\)$/ { gsub(/[(),]/, "") } /^(total|other|nice) / && $NF in ours' log out >seen
  diff log seen
  # An interval has counted all that was printed before the last one, and nothing that was not.
  awk '$1 == "total" { n++ } $1 == "n" { bad += $2 > n || $2 < before; before = n; m++ } END { print m, bad + 0; exit !m || bad }' out
  grep -qx '@n: 900' out
}

# 20,000 records are more than the kernel's buffer has room for; 60,000 hits more than the agent's: the last ones trap, and
# what they print is lost, but not their counts.
hits_wait_until_they_are_printed() {
  mkfifo to
  "$ruby" -e 'class Order; def total(id) = nil; end
    o = Order.new; $stdout.sync = true; pad = "x" * 60
    while (n = $stdin.gets) do Integer(n).times { |i| o.total("#{i} #{pad}") }; puts "did #{n}"; end' <to >said & pid=$!
  trap clean_up EXIT
  exec 8>to
  t_wait mapped "$pid"
  begin 'ruby:Order#total { printf("%s %d\n", args.id, tid); @n = count(); }'
  kill -STOP "$script"
  echo 20000 >&8
  t_wait grep -qx 'did 20000' said
  kill -CONT "$script"
  t_wait grep -q '^19999 ' out
  kill -STOP "$script"
  echo 60000 >&8
  t_wait grep -qx 'did 60000' said
  kill -CONT "$script"
  # The first ones may come before there is room again.
  local calls=80000
  one_more_is_printed() {
    echo 1 >&8
    calls=$((calls + 1))
    [ "$(grep -c '^0 x' out)" -ge 3 ]
  }
  t_wait one_more_is_printed
  all_are_done() { [ "$(grep -cx 'did 1' said)" = $((calls - 80000)) ]; }
  t_wait all_are_done
  finish
  exec 8>&-
  wait "$pid"
  pid=''
  grep -qx "@n: $calls" out
  local lost
  lost=$(sed -n 's/.* \([0-9]*\) records were lost because the buffer was full.*/\1/p' err)
  awk -v lost="$lost" -v calls="$calls" '
    /^[0-9]+ x/ { n++; if ($1 < last) turns++; else if (turns < 1) bad += $1 > 0 && $1 != last + 1; last = $1 }
    END { print n, turns, bad + 0, lost, calls; exit n + lost != calls || turns != 2 || bad }' out
  [ "$lost" -gt 0 ]
}

# The first probe is deferred, the second one is not: it uses rand. 9 MB of hits while nobody takes them are more than the
# ring has room for; the children end at once after their last call.
deferred_hits_are_those_that_trap() {
  mkfifo to
  "$ruby" -e 'class Order; def total(id) = nil; end
    o = Order.new; $stdout.sync = true
    $stdin.gets; 100_000.times { |i| o.total("#{"x" * 40}#{i % 7}") }; puts "full"
    $stdin.gets; 3.times.map { |n| fork { 1000.times { o.total("child #{n}") }; Process.kill(:KILL, $$) } }.each { |c| Process.wait(c) }
    puts "over"; $stdin.gets' <to >said & pid=$!
  trap clean_up EXIT
  exec 8>to
  t_wait mapped "$pid"
  begin 'ruby:Order#total { if (strlen(args.id) > 8) { $x = 2; } @late[args.id, line, $x] = sum(3); @n++; }
    ruby:Order#total { $x = strlen(args.id) > 8 ? 2 : 0; @once[args.id, line, $x] = sum(3); @any[rand >= 0] = count(); }'
  kill -STOP "$script"
  echo >&8
  t_wait grep -qx full said
  kill -CONT "$script"
  let_it_end
  wait "$pid"
  pid=''
  same "$(map late out | wc -l)" 10
  diff <(map late out | sed 's/^@late//') <(map once out | sed 's/^@once//')
  grep -qx '@n: 103000' out
  grep -qx '@any\[true\]: 103000' out
}

# A server whose workers alone have the application.
methods_of_children_are_known() {
  mkfifo to
  "$ruby" -e '$stdout.sync = true; pids = Array.new(2) { fork { eval "class Order; def total = nil; end"; puts "here"; sleep 0.02 until File.exist?("go"); 70.times { Order.new.total } } }
    pids.each { |c| Process.wait(c) }; puts "over"; $stdin.gets' <to >said & pid=$!
  trap clean_up EXIT
  exec 8>to
  t_wait grep_count 2 '^here$' said
  # A child that is younger may be about to execute another program, and is attached to later.
  sleep 2.2
  begin 'ruby:Order#total { @[pid] = count(); }'
  : >go
  t_wait grep -qx over said
  finish
  exec 8>&-
  wait "$pid"
  pid=''
  not grep -q 'no method is' err
  grep_count 2 '^@\[[0-9]*\]: 70$' out
}

grep_count() {
  [ "$(grep -c "$2" "$3")" = "$1" ]
}

# get FROM TO: requests, each of 50 of the application's 1,000 methods.
get() {
  "$ruby" -rnet/http -e 'ARGV[1].to_i.upto(ARGV[2].to_i) { |i| Net::HTTP.get(URI("http://127.0.0.1:#{ARGV[0]}/#{i}")) }' "$port" "$1" "$2"
}

workers_are() {
  [ "$(pgrep -cP "$pid")" = 2 ] || return 1
  grep_count 2 "booted.*phase: $1" puma.out
}

# A cluster of Puma that replaces its workers, one of which is killed besides. Each worker writes down how many calls it has counted.
a_server_of_a_thousand_methods() {
  "$ruby" -S puma --version >/dev/null 2>&1 || t_skip "no puma"
  cat >config.ru <<'END'
class Shop
  NAMES = Array.new(1000) { |i| :"m#{i}" }
  LOCK = Mutex.new
  @calls = 0
  class << self; attr_accessor :calls; end
  NAMES.each { |name| class_eval "def #{name}(x) = (Shop.calls += 1; x)" }

  def call(env)
    n = env['PATH_INFO'][/\d+/].to_i * 50
    LOCK.synchronize do
      50.times { |k| send(NAMES[(n + k) % 1000], k) }
      File.write("calls.#{$$}.new", Shop.calls)
      File.rename("calls.#{$$}.new", "calls.#{$$}")
    end
    [200, {}, ["#{$$}\n"]]
  end
end
run Shop.new
END
  port=$("$ruby" -rsocket -e 'puts TCPServer.new("127.0.0.1", 0).addr[1]')
  "$ruby" -S puma -w 2 -t 2:2 -b "tcp://127.0.0.1:$port" config.ru >puma.out 2>&1 & pid=$!
  trap clean_up EXIT
  t_wait workers_are 0
  sleep 2.2
  begin 'ruby:Shop#m* { @calls[pid] = count(); @by[method, tid > 0] = count(); @n = count(); }'
  get 1 60
  kill -USR1 "$pid"
  t_wait workers_are 1
  get 61 120
  kill -KILL "$(pgrep -P "$pid" | head -n 1)"
  t_wait grep_count 3 'booted.*phase: 1' puma.out
  get 121 180
  finish
  grep_count 0 'no method is' err
  kill "$pid"
  wait "$pid" || :
  pid=''
  # Requests may fail while a worker is killed; all that were answered count.
  for file in calls.*; do echo "@calls[${file#calls.}]: $(cat "$file")"; done | sort >wanted
  diff wanted <(map calls out)
  [ "$(wc -l <wanted)" -ge 2 ]
  same "$(sed -n 's/^@n: //p' out)" "$(awk '{ n += $2 } END { print n }' wanted)"
  same "$(map by out | wc -l)" 1000
}

# What is deferred counts before a probe that traps ends the script.
exit_in_another_probe_loses_no_hit() {
  mkfifo to
  "$ruby" -e 'class Order; def total = nil; def last = nil; end
    o = Order.new; $stdin.gets; 500.times { o.total }; o.last; $stdin.gets' <to & pid=$!
  trap clean_up EXIT
  exec 8>to
  t_wait mapped "$pid"
  begin 'ruby:Order#total { @n = count(); } ruby:Order#last { printf("last\n"); exit(); }'
  echo >&8
  wait "$script" || { cat err; return 1; }
  script=''
  exec 8>&-
  wait "$pid"
  pid=''
  grep -qx last out
  grep -qx '@n: 500' out
}

# In a PID namespace, of children that end at once: pid is rutile's number of them, not the one that they have there.
pids_are_those_of_hits() {
  mkfifo to
  unshare --pid --fork "$ruby" -e 'class Order; def total = nil; end
    o = Order.new; $stdout.sync = true
    puts "here"; $stdin.gets; 3.times { Process.wait(fork { 100.times { o.total }; Process.kill(:KILL, $$) }) }; puts "over"; $stdin.gets' \
    <to >said & held=$!
  trap clean_up EXIT
  exec 8>to
  t_wait grep -qx here said
  pid=$(pgrep -P "$held")
  begin 'ruby:Order#total { @[pid] = count(); }'
  let_it_end
  wait "$held"
  held='' pid=''
  same "$(grep -c '^@\[.*: 100$' out)" 3
  # PIDs below 300 are not given twice.
  not grep -qE '^@\[.?.\]' out
}

two_scripts_count_each_its_own() {
  launch
  "$RUTILE" run -p "$pid" -e "ruby:Order#total { @ = count(); } $ready" >out2 2>err2 & local other=$!
  t_wait grep -qx ready out2
  begin 'ruby:Order.find { @ = count(); }'
  go
  finish
  kill -INT "$other" 2>/dev/null || :
  wait "$other"
  same "$(sed -n 's/^@: //p' out2)" "$(map call "$counts" | awk -F': ' '/, total,/ { n += $2 } END { print n }')"
  same "$(sed -n 's/^@: //p' out)" "$(map call "$counts" | awk -F': ' '/, find,/ { n += $2 } END { print n }')"
}

# States of the slots of the agent's page: struct rut_agent_ctl has 64 bytes, then the slots, each of which begins with its state.
slots() {
  local page bytes i
  page=$(find "/proc/$1/fd" -lname '/memfd:rutile-agent-7 *' | head -n 1)
  bytes=$(stat -L -c %s "$page")
  for i in 0 1 2 3 4 5 6 7; do
    od -An -t u4 -j $((64 + i * (bytes - 64) / 8)) -N 4 "$page" | tr -d ' '
  done
}

slots_are_free() {
  [ "$(slots "$1" | sort -u)" = 0 ]
}

a_killed_script_leaves_nothing() {
  launch
  begin 'ruby:Order#total { @ = count(); }'
  [ "$(slots "$pid" | grep -cx 2)" = 1 ]
  kill -KILL "$script"
  wait "$script" || :
  t_wait slots_are_free "$pid"
  begin 'ruby:Order#total { @ = count(); }'
  go
  finish
  same "$(sed -n 's/^@: //p' out)" "$(map call "$counts" | awk -F': ' '/, total,/ { n += $2 } END { print n }')"
}

# One that a function of C holds: what is attached to already is waited for, and the other is attached to alone.
processes_that_are_held() {
  "$ruby" -e 'require "fiddle"' 2>/dev/null || t_skip "no fiddle in this Ruby"
  "$ruby" "$SRC/tests/bpf/held.rb" "$PWD/go" >held & held=$!
  trap clean_up EXIT
  t_wait grep -qx ready held
  pid=$held
  begin 'ruby:Order#total { }'
  finish
  : >go
  t_wait grep -qx held held
  "$RUTILE" run -p "$held" -e 'ruby:Order#total { } begin { print("begun"); }' >out 2>err & script=$!
  t_wait grep -qx "stdin: warning: waiting for process $held, which has not set all of its hooks yet" err
  kill -INT "$script"
  not wait "$script"
  script=''
  grep -qx "rutile run: stopped before process $held had all of its hooks" err
  not grep -q begun out
}

# The agent is not in it, and cannot be loaded.
targets_that_fail_are_named() {
  "$ruby" -e 'require "fiddle"' 2>/dev/null || t_skip "no fiddle in this Ruby"
  : >now
  "$ruby" "$SRC/tests/bpf/held.rb" "$PWD/now" >held & held=$!
  launch
  t_wait grep -qx held held
  "$RUTILE" run -p "$held" -p "$pid" -e "ruby:Order#total { @ = count(); } $ready" >out 2>err & script=$!
  t_wait grep -qx ready out
  grep -q "^stdin: warning: .* process $held " err
  refused 'stdin:1:22: error: a probe of one process, and -p names 2' -p "$held" -p "$pid" -e 'ruby:Order#total { } software:cpu-clock:1000 { }'
  go
  finish
  same "$(sed -n 's/^@: //p' out)" "$(map call "$counts" | awk -F': ' '/, total,/ { n += $2 } END { print n }')"
}

# refused MESSAGE OPTION...
refused() {
  local message=$1
  shift
  if timeout 20 "$RUTILE" run "$@" >out 2>err; then cat err; return 1; fi
  grep -qF -- "$message" err || { cat err; return 1; }
}

what_is_wrong_is_said_at_its_place() {
  refused 'stdin:1:1: error: a probe of Ruby needs processes: -p PID' -e 'ruby:Order#total { }'
  refused "stdin:1:11: error: process $$ (" -p $$ -e 'begin { } ruby:Order#total { }'
  echo 'ruby:Order#total { }' >script.bt
  not "$RUTILE" start "rubyprobe-$$" --flight --script script.bt 2>err
  grep -qF ':1:1: error: which processes? name them with --script-target TARGET' err
  refused "'Order:total' is not a Ruby method" -p $$ -e 'ruby:Order:total { }'
  refused "of self only its class is known, not 'name'" -p $$ -e 'ruby:Order#total { print(self.name); }'
  refused 'only probes of returns have retval' -p $$ -e 'ruby:Order#total { print(retval); }'
  refused "only probes of Ruby have 'method'" -p $$ -e 'begin { print(method); }'
  refused 'of args one is a value: args[0], args.id' -p $$ -e 'ruby:Order#total { print(args); }'
}

t_case "all calls are counted: classes, arguments, recursion, exceptions, fibers, threads, forks" all_calls_are_counted
t_case "all returns are counted, with their arguments" returns_are_counted
t_case "names and globs choose the methods" named_methods_alone_are_hooked
t_case "deferred hits are those that trap, also when the ring is full and processes are killed" deferred_hits_are_those_that_trap
t_case "the thread and the time of deferred hits are those of the calls" threads_and_times_of_deferred_hits
t_case "the time of a hit is ours, also in another time namespace" times_of_another_namespace
t_case "what deferred hits print is in order of time with all other output" what_deferred_hits_print_is_in_order
t_case "hits wait until they are printed, and those without room count" hits_wait_until_they_are_printed
t_case "methods that only children of the process have are known" methods_of_children_are_known
t_case "a server of a thousand methods counts each call, while its workers are replaced and killed" a_server_of_a_thousand_methods
t_case "exit() in another probe loses no hit" exit_in_another_probe_loses_no_hit
t_case "pid is that of the process that was hit, in PID namespaces too" pids_are_those_of_hits
t_case "two scripts count each its own" two_scripts_count_each_its_own
t_case "a killed script leaves nothing behind" a_killed_script_leaves_nothing
t_case "a process that is held is waited for, until Ctrl+C" processes_that_are_held
t_case "of several processes those that fail are named" targets_that_fail_are_named
t_case "errors name their place" what_is_wrong_is_said_at_its_place
t_done
