#!/bin/bash
# SPDX-License-Identifier: MIT
# One process, traced again and again, in changing modes.
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"
RUBY=${RUBY:-ruby}
export RUBY

# until_seen PATTERN VERB ARGUMENTS...: traces until a table has it.
until_seen() {
  what=$1
  shift
  : >seen
  "$RUTILE" "$@" --interval 0.2 >seen &
  tool=$!
  t_wait grep -q "$what" seen || { kill -KILL $tool; cat seen; return 1; }
  kill $tool
  wait $tool
}

# Of the first tracers' hooks something stays in Ruby's heap until it is collected: it must not matter.
survives_changing_modes() {
  cat >many.rb <<'E2'
1000.times { |i| eval "class K#{i}; def m; #{i}; end; def n; m; end; end" }
things = 1000.times.map { |i| Object.const_get("K#{i}").new }
GC.disable
File.write('ready', '')
finish = Time.now + 500
until File.exist?('stop') || Time.now > finish
  things.each(&:n)
  sleep 0.001
end
File.write('ended', 'well')
E2
  "$RUBY" many.rb &
  pid=$!
  trap 'kill $pid 2>/dev/null || :' EXIT
  t_wait test -e ready
  for _ in 1 2 3; do
    until_seen 'K[0-9]*#n' time "$pid" all
    until_seen 'K1#n' calls "$pid" all --method 'K1#n'
    "$RUTILE" arrays "$pid" all --duration 0.2 >arrays
  done
  touch stop
  wait "$pid"
  [ "$(cat ended)" = well ]
}

# What Ruby itself forgets to free (2.7 most, 3.1 some) must not add up, however many methods there are.
memory_does_not_grow() {
  cat >grow.rb <<'E2'
eval((0...3000).map { |i| "class K#{i % 50}; def m#{i}; [1].each { |x| x }; end; end" }.join("\n"), binding, "grow_methods.rb")
$stdout.sync = true
puts "ready"
# Not asleep in gets: the agent lets a sleeper sleep, so that each attach to it takes seconds.
loop do
  nil until IO.select([$stdin], nil, nil, 0.001)
  break unless $stdin.gets
  4.times { GC.start }
  puts "#{File.read("/proc/self/status")[/VmRSS:\s*(\d+)/, 1]} #{ObjectSpace.each_object(TracePoint).count(&:enabled?)}"
end
E2
  mkfifo in answer
  "$RUBY" --disable-gems grow.rb <in >answer &
  pid=$!
  exec 5>in 6<answer
  read -r _ <&6
  for n in 1 2 3 4; do
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
      "$TRACE_TOOL" -q -s 0.05 -m calls "$pid"
    done
    # A moment later the last one's are removed.
    for _ in $(seq 200); do
      echo >&5
      read -r "rss$n" hooks <&6
      [ "$hooks" != 0 ] || break
      sleep 0.1
    done
    sleep 1
    echo >&5
    read -r "rss$n" hooks <&6
  done
  exec 5>&- 6<&-
  wait "$pid"
  # shellcheck disable=SC2154 # read
  echo "KiB after 15, 30, 45, 60: $rss1 $rss2 $rss3 $rss4; $hooks hooks"
  [ "$hooks" = 0 ]
  # Ruby's heap grows in steps, a leak all the time.
  [ $((rss3 - rss2)) -lt 500 ] || [ $((rss4 - rss3)) -lt 500 ]
}

# The control page of a process: the agent of this version, resident.
page_of() {
  find "/proc/$1/fd" -lname '/memfd:rutile-agent-7 *' | head -n 1
}

# The agent that another version of rutile left is no obstacle, unless nothing can be loaded.
another_version_is_there() {
  gcc -o no_ptrace "$SRC/tests/ruby/no_ptrace.c"
  start out "$RUBY" -W0 "$SRC/tests/ruby/versions.rb"
  rc=0
  ASAN_OPTIONS=detect_leaks=0 ./no_ptrace "$RUTILE" calls "$pid" all --duration 0.2 >none 2>err || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q "^rutile calls: process $pid has the agent of another version of rutile, and ours may not" err
  [ "$(wc -l <err)" = 1 ]
  not grep -q rutile_agent "/proc/$pid/maps"
  until_seen 'Object#work  *[1-9]' calls "$pid" all
  [ -n "$(page_of "$pid")" ]
}

# A page that is not what its name says is refused and not written to.
page_of_another_version() {
  start out "$RUBY" -W0 -e '$stdout.sync = true; puts "ready"; loop { sleep 0.01 }'
  "$RUTILE" calls "$pid" all --last --duration 0.1 >none
  page=$(page_of "$pid")
  printf '\377' | dd of="$page" bs=1 seek=4 conv=notrunc status=none
  cp "$page" before
  rc=0
  "$RUTILE" calls "$pid" all --duration 0.2 >none 2>err || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q "^rutile calls: the agent in process $pid is of another version of rutile: restart" err
  [ "$(wc -l <err)" = 1 ]
  cmp before "$page"
}

# There is room for eight tracers. The ninth is refused and does not disturb the others.
nine_tracers() {
  start out "$RUBY" -W0 -e 'def work; sleep 0.001; end; $stdout.sync = true; puts "ready"; loop { work }'
  tracers=
  for i in 1 2 3 4 5 6 7 8; do
    "$RUTILE" calls "$pid" all --json --interval 100ms >"out.$i" &
    tracers="$tracers $!"
  done
  for i in 1 2 3 4 5 6 7 8; do
    t_wait grep -q 'Object#work' "out.$i"
  done
  rc=0
  "$RUTILE" calls "$pid" all --duration 0.2 >none 2>err || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q "process $pid is already traced by 8 tracers" err
  # struct rut_agent_ctl: 64 bytes, then the slots; each begins with its state.
  # 1 and 2: RUT_SLOT_START and RUT_SLOT_ACTIVE.
  page=$(page_of "$pid")
  bytes=$(stat -L -c %s "$page")
  states=
  for i in 0 1 2 3 4 5 6 7; do
    states="$states$(od -An -t u4 -j $((64 + i * (bytes - 64) / 8)) -N 4 "$page" | tr -d ' ')"
  done
  echo "states: $states"
  echo "$states" | grep -qE '^[12]{8}$'
  # shellcheck disable=SC2086 # a list of numbers
  kill -INT $tracers
}

gone_or() {
  t_gone "$pid" || "$@"
}

# Hooks go while the application's own TracePoint is at an event of the same method, before the hooks' turn.
# What Ruby then reads was freed, once: the memory must not look as if it were not.
hooks_go_inside_a_tracepoint() {
  cat >inside.rb <<'E2'
class Order
  def total(id)
    id
  end
end
traced = [:call, :return]
TracePoint.new(*traced) do |tp|
  next if tp.method_id != :total || tp.event != traced.first || !File.exist?('wait')
  File.write('inside', '')
  sleep 0.001 while ObjectSpace.each_object(TracePoint).count(&:enabled?) > 1
  File.delete('inside', 'wait')
  traced.rotate!
end.enable
order = Order.new
$stdout.sync = true
puts 'ready'
until File.exist?('stop')
  order.total(1)
  sleep 0.001
end
puts 'ended well'
E2
  MALLOC_PERTURB_=56 GLIBC_TUNABLES=glibc.malloc.tcache_count=0 start out "$RUBY" --disable-gems inside.rb
  for how in 'INT calls' 'INT time' 'KILL trace' 'INT trace' 'KILL calls' 'KILL time'; do
    : >seen
    [ "${how#* }" = trace ] || set -- --interval 0.1
    "$RUTILE" "${how#* }" "$pid" all --method 'Order#total' "$@" >seen &
    tool=$!
    set --
    t_wait gone_or grep -q 'Order.total' seen
    touch wait
    t_wait gone_or test -e inside
    kill -s "${how% *}" $tool
    wait $tool || :
    t_wait gone_or not test -e wait
    ! t_gone "$pid" || break
  done
  touch stop
  wait "$pid" || { echo "after $how:"; head -n 1 out.err; return 1; }
  grep -q 'ended well' out
}

# On a process without an agent, and on one that is still starting: one agent, and no harm.
together() { # TRACERS ROUNDS
  seed=${SEED:-$(date +%s)}
  echo "seed $seed"
  ruby "$SRC/tests/ruby/together.rb" "$2" "$seed" "$1" -- "$TRACE_TOOL" -s 0.15 -m MODE PID
}
young_together() {
  YOUNG=1 together "$@"
}

t_case "two tracers at the same moment" together 2 15
t_case "four tracers at the same moment" together 4 15
t_case "four tracers while the process starts" young_together 4 15
t_case "attached sixty times: memory does not grow" memory_does_not_grow
t_case "another version of rutile was there" another_version_is_there
t_case "a page of another version" page_of_another_version
t_case "nine tracers" nine_tracers
t_case "hooks go while a TracePoint of the application runs" hooks_go_inside_a_tracepoint
t_case "a process survives tracers of changing modes" survives_changing_modes
t_done
