#!/bin/bash
# SPDX-License-Identifier: MIT
# Injection: what the target must not notice, and what is refused.
# shellcheck disable=SC2086,SC2016,SC2010,SC2012,SC2046,SC2143 # words on purpose; code for Ruby; names of our own
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"

# A refusal: exit 1, one line that matches, the target as it was.
refused() {
  rc=0
  inject "$1" >refused.out 2>refused.err || rc=$?
  cat refused.err
  [ "$rc" = 1 ]
  [ "$(wc -l <refused.err)" = 1 ]
  grep -q "$2" refused.err
}

blocked_once() { # CALL INJECTIONS
  "$BLOCKED" "$1" >"$1.$2" &
  b=$!
  sleep 0.3
  n=$2
  while [ "$n" -gt 0 ]; do
    # A wait with a time limit of its own may be waited out: it has ended then.
    inject "$b" >"$1.report" 2>&1 || grep -q 'has ended\|no process' "$1.report" || cat "$1.report"
    n=$((n - 1))
    sleep 0.1
  done
  wait "$b"
}

# $call without and with injections: $late, what the latter took longer, in milliseconds.
blocked_call() {
  blocked_once "$call" 0 &
  blocked_once "$call" 4 &
  wait
  set -- $(tail -n 1 "$call.0")
  want="$1 $2 ${4:-} ${5:-}"
  before=$3
  set -- $(tail -n 1 "$call.4")
  echo "$call: $want $before; injected: $1 $2 ${4:-} ${5:-} $3"
  # Never early.
  [ "$3" -ge 985 ]
  late=$(($3 - before))
  case $call in
    nanosleep_remaining)
      # What is left is what was not slept, less what the signal's handler had to wait for the CPU.
      [ "${want%left=*}" = "$1 $2 " ]
      [ "${4#left=}" -le 2 ]
      [ "${4#left=}" = 2 ] || late=600
      ;;
    *) [ "$want" = "$1 $2 ${4:-} ${5:-}" ] ;;
  esac
}

# Not restarted by the last injection, which would take 700 ms more, each time. What else this
# machine does takes longer now and then.
blocked_call_goes_on() {
  for try in 1 2 3 4 5 6; do
    blocked_call
    [ "$late" -ge 600 ] || break
  done
  [ "$late" -lt 600 ]
}

blocked_calls_go_on() {
  n=0
  jobs=
  for call in $("$BLOCKED"); do
    blocked_call_goes_on &
    jobs="$jobs $!"
    n=$((n + 1))
    [ $((n % 7)) != 0 ] || { for job in $jobs; do wait "$job"; done; jobs=; }
  done
  for job in $jobs; do wait "$job"; done
}

# Their time limit would be restarted: the kernel has no way to continue these two.
timed_calls_are_left_alone() {
  for call in "" sigtimedwait; do
    rm -f enough
    start beside.out "$BLOCKED" beside $call
    inject "$pid" 200 >reports
    cat reports
    [ "$(wc -l <reports)" = 200 ]
    not grep "^$pid " reports
    touch enough
    wait "$pid"
    cat beside.out
    [ "$(grep -c '^-1 11$' beside.out)" -ge 1 ]
    not grep -v '^-1 11$\|ready' beside.out
  done
}

# A single thread, stopped at any moment of its waits: the tracer comes too late for some, and waits that
# it never chooses are disturbed as well. None may see that, and none may end early.
short_waits_are_kept() {
  start short.out "$BLOCKED" short
  for i in 1 2 3; do
    inject "$pid" 50 >>reports 2>err || { cat err; grep -q 'try again' err; }
  done
  touch enough
  wait "$pid"
  cat short.out
  [ "$(wc -l <reports)" -ge 10 ]
  not grep '^wait ' short.out
}

# Each signal must end one read with EINTR, also when it comes while the agent is being loaded.
# call_of PID: $call, the call that it is blocked in: its number, descriptor, stack and program counter.
call_of() {
  read -r nr fd _ _ _ _ _ sp pc <"/proc/$1/syscall" || :
  call="$nr $fd $sp $pc"
}

# received N: so many signals.
received() {
  [ "$(grep -c ' -1 4 \|before' eintr.out)" -ge "$1" ]
}

signals_end_calls() {
  start eintr.out "$BLOCKED" eintr
  t=$pid
  looks=0
  # libc reads in another place once there are two threads.
  inject "$t"
  kill -USR1 "$t"
  sent=1
  t_wait received 1
  t_wait t_is "$t" S
  call_of "$t"
  in_read=$call
  (for _ in $(seq 2000); do t_gone "$t" || inject "$t" 20 >/dev/null 2>&1 || :; done) &
  pids="$pids $!"
  while [ "$sent" -lt 150 ]; do
    # Only to a thread that is known to be in that read: the loader reads as well. After that, the signal
    # must not be lost.
    looks=$((looks + 1))
    [ "$looks" -lt 500000 ] || { echo "it is never in its read: $in_read, now $call"; return 1; }
    call_of "$t"
    [ "$call" = "$in_read" ] || continue
    kill -USR1 "$t"
    sent=$((sent + 1))
    t_wait received "$sent" || { echo "signal $sent was lost"; tail -n 2 eintr.out; return 1; }
  done
  [ "$(grep -c ' -1 4 \|before' eintr.out)" = "$sent" ]
  [ -z "$(grep -v ' -1 4 \|before\|ready' eintr.out)" ]
  # Between our look and the signal there is a moment.
  before=$(grep -c before eintr.out) || :
  echo "$before of $sent came while the kernel restarted the call"
  [ "$before" -lt 8 ]
}

# A handler may have interrupted malloc. What an old one left on the stack says nothing.
only_in_a_handler_refused() {
  start spin.out "$BLOCKED" spin
  inject "$pid" 3
  kill "$pid"
  start handler.out "$BLOCKED" spin handler
  refused "$pid" 'came to a place'
  kill "$pid"
}

# The tracer is killed between taking a signal and passing it on.
killed_with_a_signal_in_hand() {
  gcc -shared -fPIC -o late.so "$SRC/tests/ruby/late.c"
  start eintr.out "$BLOCKED" eintr
  sent=0
  killed=0
  while [ "$sent" -lt 300 ] && [ "$killed" -lt 5 ]; do
    ASAN_OPTIONS=verify_asan_link_order=0 LATE=signal LD_PRELOAD=./late.so inject "$pid" 50 >out 2>err &
    tool=$!
    for _ in 1 2 3 4 5 6; do
      kill -USR1 "$pid"
      sent=$((sent + 1))
      t_wait received "$sent" || { echo "signal $sent was lost"; return 1; }
    done
    kill "$tool" 2>/dev/null || :
    rc=0
    wait "$tool" 2>/dev/null || rc=$?
    [ "$rc" != 137 ] || killed=$((killed + 1))
  done
  echo "$killed tracers killed, $sent signals sent"
  [ "$killed" -ge 3 ]
}

# Loaded before, between and after: the program that comes in the end must run well.
programs_that_are_replaced() {
  for i in $(seq 60); do
    sh -c "sleep 0.00$((i % 9)); exec sh -c 'sleep 0.00$((i % 5)); exec ruby -e \"sleep 0.03\"'" &
    e=$!
    sleep "0.0$((i % 7))"
    inject "$e" >out 2>err || { cat err; [ "$(wc -l <err)" = 1 ]; grep -q 'has ended\|no process with\|is ending' err; }
    wait "$e"
  done
}

registers_are_kept() {
  start regs.out "$REGISTERS" 200
  # Interrupted in the spinning code itself, not in a system call.
  inject_until 100 ' code$'
  wait "$pid" || :
  cat regs.out
  grep -q '^rounds [1-9]' regs.out
  not grep lost regs.out
  [ "$(grep -c ' code$' reports)" -ge 100 ]
}

nothing_stays_behind() {
  start srv.out $RUBY "$SRC/tests/ruby/server.rb"
  inject "$pid" 3
  [ "$(ls -l "/proc/$pid/fd" | grep -c memfd)" = 0 ]
  not grep -q 'rw-s.*memfd:rutile-agent (deleted)' "/proc/$pid/maps"
  # libc's text is as in the file: one private page was written and put back.
  ruby -e '
    pid = ARGV[0]
    m = File.readlines("/proc/#{pid}/maps").find { |l| l =~ /r-xp.*libc(-2\.\d+)?\.so/ }
    from, to, off = m.match(/^(\h+)-(\h+) \S+ (\h+)/).captures.map(&:hex)
    mem = File.open("/proc/#{pid}/mem", "rb") { |f| f.seek(from); f.read(to - from) }
    path = "/proc/#{pid}/map_files/%x-%x" % [from, to]
    file = File.open(path, "rb") { |f| f.seek(off); f.read(to - from) }
    mem = mem[0, file.size]
    abort "libc differs" unless mem == file' "$pid"
  grep -q '^State:.[SR]' "/proc/$pid/status"
  grep -q '^TracerPid:.0' "/proc/$pid/status"
}

refusals() {
  # The kernel never gives this number.
  refused 4194305 'no process with PID 4194305'
  start stop.out sh -c 'echo ready; exec sleep 100'
  kill -STOP "$pid"
  t_wait t_is "$pid" T
  refused "$pid" "process $pid is stopped: continue it first (kill -CONT $pid)"
  kill -CONT "$pid"
  # A zombie: the parent does not wait.
  start zombie.out sh -c 'sleep 0.2 & echo $! ready; exec sleep 100'
  zombie=$(cut -d' ' -f1 zombie.out)
  t_wait t_is "$zombie" Z
  refused "$zombie" 'is a zombie'
  # A thread is not a process.
  start thr.out $RUBY -e 'Thread.new { sleep }; sleep 0.2; puts :ready; $stdout.flush; sleep'
  tid=$(ls "/proc/$pid/task" | grep -vx "$pid" | tail -n 1)
  [ "$tid" != "$pid" ]
  refused "$tid" "is a thread of process $pid"
}

refuses_traced() {
  command -v strace >/dev/null || t_skip "no strace"
  start tr.out sh -c 'echo ready; exec sleep 100'
  strace -p "$pid" -o /dev/null 2>strace.err &
  s=$!
  pids="$pids $s"
  is_traced() { not grep -q 'TracerPid:.0' "/proc/$pid/status"; }
  t_wait is_traced
  refused "$pid" "already traced by process $s (strace)"
  kill "$s"
}

refuses_other_users() {
  [ "$(id -u)" = 0 ] || t_skip "needs root"
  start ou.out sh -c 'echo ready; exec sleep 100'
  chmod 711 .
  cp "$INJECT_TOOL" "$DUMMY" .
  chmod 755 inject_tool dummy_agent.so
  rc=0
  setpriv --reuid=65534 --clear-groups ./inject_tool "$pid" dummy_agent.so 2>err || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q "belongs to user 'root' and you are 'nobody': run rutile as root (CAP_SYS_PTRACE) or as 'root'" err
}

same_user_needs_no_root() {
  [ "$RUBY" = ruby ] || t_skip "only the machine's own Ruby"
  [ "$(id -u)" = 0 ] || t_skip "needs root to become another user"
  [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ] || t_skip "Yama forbids it"
  chmod 711 .
  cp "$INJECT_TOOL" "$DUMMY" .
  chmod 755 inject_tool dummy_agent.so
  start su.out setpriv --reuid=65534 --clear-groups $RUBY -e 'puts :ready; $stdout.flush; sleep'
  setpriv --reuid=65534 --clear-groups ./inject_tool "$pid" dummy_agent.so 2
}

refuses_static_programs() {
  printf '#include <unistd.h>\nint main(void) { write(1, "ready\\n", 6); pause(); }\n' >s.c
  gcc -static -o static s.c 2>/dev/null || t_skip "no static libc"
  start st.out ./static
  refused "$pid" "process $pid is linked statically"
}

# Its libraries are mapped, but what the processor runs is the emulator.
refuses_emulated_programs() {
  [ -z "${RUTILE_MATRIX_NAME:-}" ] || t_skip "valgrind runs the Ruby of this machine"
  start vg.out valgrind -q --tool=none "$RUBY" --disable-gems -e '
    $stdout.sync = true
    puts "ready"
    $stdin.gets
    puts "done"' < <(sleep 600)
  refused "$pid" "process $pid runs in an emulator or under valgrind"
  "$RUTILE" ps | grep "^ *$pid " && "$RUTILE" calls --duration 1s "$pid" 2>err && return 1
  grep -q 'under valgrind' err
  kill -0 "$pid"
}

refuses_32_bits() {
  printf '#include <unistd.h>\nint main(void) { write(1, "ready\\n", 6); pause(); }\n' >s.c
  gcc -m32 -o small s.c 2>/dev/null || gcc -m32 -nostdlib -static -o small "$SRC/tests/ruby/start32.S" 2>/dev/null ||
    t_skip "no 32-bit programs here"
  start st.out ./small
  refused "$pid" "process $pid is a 32-bit program"
}

refuses_musl() {
  # A file of that name is what tells it.
  printf '#include <unistd.h>\nint main(void) { write(1, "ready\\n", 6); pause(); }\n' >m.c
  cp /lib64/ld-linux-x86-64.so.2 ld-musl-x86_64.so.1
  gcc -nostdlib -static-pie -o musl "$SRC/tests/ruby/start64.S" 2>/dev/null
  cp musl ld-musl-x86_64.so.1
  start m.out ./ld-musl-x86_64.so.1
  refused "$pid" "process $pid uses the C library musl"
}

refuses_seccomp() {
  gcc -o seccomp "$SRC/tests/ruby/no_memfd.c"
  start sc.out ./seccomp
  refused "$pid" "process $pid may not call memfd_create .*seccomp filter"
  t_wait t_is "$pid" S
  start sk.out ./seccomp kill
  refused "$pid" "memfd_create.*seccomp filter"
  t_wait t_is "$pid" S
  # What only the agent calls, when it is there: ftruncate.
  start sf.out ./seccomp kill 77
  refused "$pid" "ftruncate: a seccomp filter"
  t_wait t_is "$pid" S
}

no_free_descriptor() {
  start fd.out $RUBY -e 'Process.setrlimit(:NOFILE, 64); a = []; begin; loop { a << IO.pipe }; rescue Errno::EMFILE; end; begin; loop { a << File.open("/dev/null") }; rescue Errno::EMFILE; end; $stdout.puts "ready"; $stdout.flush; sleep'
  refused "$pid" "process $pid has no free file descriptor"
}

works_in_namespaces() {
  [ "$(id -u)" = 0 ] || t_skip "needs root"
  start ns.out unshare -mpf --kill-child --mount-proc $RUBY -e 'puts "ready"; $stdout.flush; sleep'
  child=$(cat "/proc/$pid/task/$pid/children")
  inject ${child} 2
  grep -q dummy "/proc/${child% }/maps" || grep -q 'memfd:rutile-agent' "/proc/${child% }/maps"
}

refuses_without_proc() {
  [ "$(id -u)" = 0 ] || t_skip "needs root"
  mkdir -p root/lib64 root/lib
  cp -L /lib64/ld-linux-x86-64.so.2 root/lib64/
  cp -L /lib/x86_64-linux-gnu/libc.so.6 root/lib/
  printf '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("ready"); fflush(stdout); pause(); }\n' >p.c
  gcc -o root/p p.c
  start p.out chroot root /p
  refused "$pid" "process $pid has no /proc in its file system"
}

# Whatever the moment: loaded, or one line that says that it has ended.
processes_that_end() {
  for i in $(seq 60); do
    $RUBY -e "sleep 0.0$((i % 10))" &
    e=$!
    sleep "0.0$((i % 7))"
    inject "$e" >out 2>err || { cat err; [ "$(wc -l <err)" = 1 ]; grep -q 'has ended\|no process with\|is ending' err; }
    wait "$e" # it ended well
  done
}

works_after_an_upgrade() {
  [ "$RUBY" = ruby ] || t_skip "only the machine's own Ruby"
  # libc and Ruby are deleted under the process.
  mkdir lib
  ruby=$(readlink -f "/proc/self/exe" >/dev/null && $RUBY -e 'puts File.readlink("/proc/self/exe")')
  cp "$ruby" ruby
  ldd "$ruby" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | while read -r f; do cp -L "$f" lib/; done
  start up.out env LD_LIBRARY_PATH="$PWD/lib" ./ruby -e 'puts "ready"; $stdout.flush; sleep'
  rm -r lib ruby
  grep -q 'libc.so.6 (deleted)' "/proc/$pid/maps"
  inject "$pid" 2
  "$RUTILE" ps --json | grep "\"pid\":$pid," | grep -q '"replaced":true,.*"traceable":true'
}

each_load_is_a_new_one() {
  start new.out $RUBY -e 'puts "ready"; $stdout.flush; sleep'
  inject "$pid" 5 >out
  [ "$(grep -c 'r-xp.*memfd:rutile-agent' "/proc/$pid/maps")" = 5 ]
}

preloaded_without_ptrace() {
  gcc -o no_ptrace "$SRC/tests/ruby/no_ptrace.c"
  code='def work; 1; end; $stdout.puts "ready"; $stdout.flush; loop { work; sleep 0.001 }'
  start bare.out $RUBY -e "$code"
  rc=0
  ASAN_OPTIONS=detect_leaks=0 ./no_ptrace "$RUTILE" calls "$pid" all --duration 0.5 2>err || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q "process $pid cannot be traced: the kernel refuses it .* preload the agent" err
  not t_gone "$pid"
  RUBYOPT=-r$AGENT start pre.out $RUBY -e "$code"
  # The leak checker of a sanitized build traces its process.
  ASAN_OPTIONS=detect_leaks=0 ./no_ptrace "$RUTILE" calls "$pid" all >calls.out 2>calls.err &
  tool=$!
  pids="$pids $tool"
  t_wait grep -q 'Object#work  *[1-9]' calls.out || { cat calls.err; return 1; }
  kill "$tool"
  wait "$tool"
}

# Another thread forks while dlopen runs: the child works, and can be injected into.
forks_in_the_middle() {
  cat >forks.rb <<'EOF'
$stdout.sync = true
Thread.new { sleep }
parent = Process.pid
halfway = -> { Dir.children("/proc/self/fd").any? { |f| (File.readlink("/proc/self/fd/#{f}") rescue "").include?("memfd:rutile-agent ") } }
puts "ready"
until File.exist?("stop")
  r, w = IO.pipe
  pid = fork do
    found = halfway.call
    w.write(found ? "y" : "n")
    w.close
    exit!(0) unless found
    %w[etc stringio strscan].each { |e| require e }
    sleep 0.1 while Process.ppid == parent
    exit!(0)
  end
  w.close
  r.read == "y" ? File.write("kids", "#{pid}\n", mode: "a") : Process.wait(pid)
  r.close
end
puts "stopped"
sleep
EOF
  start forks.out $RUBY --disable-gems forks.rb
  t=$pid
  : >kids
  # Whether one falls into the middle is luck: until two have.
  for _ in $(seq 300); do
    [ "$(wc -l <kids)" -lt 2 ] || break
    inject "$t" 30 >out
  done
  touch stop
  t_wait grep -q stopped forks.out
  kids=$(cat kids)
  echo "forked in the middle: $kids"
  for kid in $kids; do
    inject "$kid" 2 >out
  done
  # Else nothing was tried.
  [ -n "$kids" ]
}

two_injections_at_once() {
  start two.out $RUBY "$SRC/tests/ruby/server.rb"
  t=$pid
  for i in 1 2 3 4; do
    inject "$t" 10 >"two.$i" 2>&1 &
    eval "p$i=$!"
  done
  for i in 1 2 3 4; do
    eval "wait \$p$i" || { cat "two.$i"; return 1; }
    [ "$(wc -l <"two.$i")" = 10 ]
  done
}

# The stub has given up and closed its memfd, and the number is that of a file of the program.
late_tracers_spare_files() {
  gcc -o reuse "$SRC/tests/ruby/reuse.c"
  gcc -shared -fPIC -o late.so "$SRC/tests/ruby/late.c"
  yes 'of value' | head -c 3000000 >want
  cp want precious
  start reuse.out ./reuse precious 30
  late=0
  for _ in 1 2 3; do
    ASAN_OPTIONS=verify_asan_link_order=0 LATE=fd LD_PRELOAD=./late.so inject "$pid" >out 2>err || cat err
    cmp precious want
    [ -s out ] || late=$((late + 1))
  done
  # On a busy machine the stub is late as well, and may wait long enough: then there is nothing to spare.
  echo "too late $late times"
  not t_gone "$pid"
}

inject_at_last() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    if inject "$1"; then return 0; fi
  done
  return 1
}

# As on a machine that is far too busy: the stub returns by itself while its tracer still waits for it.
late_tracers_do_no_harm() { # PROGRAM
  gcc -shared -fPIC -o late.so "$SRC/tests/ruby/late.c"
  case $1 in
    storm) start late.out "$BLOCKED" storm 100 ;;
    registers) start late.out "$REGISTERS" 100 ;;
  esac
  loaded=0
  for i in 1 2 3 4 5 6 7 8; do
    if ASAN_OPTIONS=verify_asan_link_order=0 LATE=$i LD_PRELOAD=./late.so inject "$pid" >out 2>err; then
      loaded=$((loaded + 1))
    else
      cat err
      grep -q 'try again' err
    fi
    not t_gone "$pid"
  done
  # A program like these may take several, as the message says.
  inject_at_last "$pid"
  kill "$pid"
  not grep lost late.out
  echo "loaded $loaded"
  [ "$loaded" -ge 2 ]
}

# The tracer, or the process itself, is stopped at any moment of it, and continued later.
suspended_halfway() {
  start sus.out $RUBY "$SRC/tests/ruby/server.rb"
  t=$pid
  port=$(sed -n 's/^ready //p' sus.out)
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    inject "$t" 30 >out 2>err &
    tool=$!
    who=$tool
    [ $((i % 2)) = 0 ] || who=$t
    sleep "0.0$((i % 4))$((i % 10))"
    kill -STOP "$who" 2>/dev/null || :
    sleep 0.15
    kill -CONT "$who" 2>/dev/null || :
    rc=0
    wait "$tool" || rc=$?
    [ "$rc" = 0 ] || { cat err; grep -q 'try again\|is stopped' err; }
    ruby -rsocket -e 's = TCPSocket.new("127.0.0.1", ARGV[0].to_i); s.puts "x"; s.gets&.start_with?("answer") or exit 1' "$port"
  done
  inject "$t"
}

killed_tracers() {
  seed=${SEED:-$(date +%s)}
  echo "seed $seed"
  $RUBY -e 'exit' # warm
  ruby "$SRC/tests/ruby/kill.rb" 24 "$seed" kill -- "$RUTILE" calls all PID
}

cycles() {
  seed=${SEED:-$(date +%s)}
  echo "seed $seed"
  STORM=1 ruby "$SRC/tests/ruby/kill.rb" 20 "$seed" cycle -- "$RUTILE" calls all PID
}

# A debugger opens what the loader's list names, in itself. With pipes for descriptors it would wait
# on a name like /proc/self/fd/N.
debuggers_read_the_process() {
  start debugged.out $RUBY -e '$stdout.sync = true; puts "ready"; sleep'
  inject "$pid"
  mkfifo pipe
  exec 3<>pipe 4<>pipe 5<>pipe 6<>pipe 7<>pipe 8<>pipe 9<>pipe
  timeout -s KILL 60 gdb -nx -batch -p "$pid" -ex 'info sharedlibrary' -ex bt -ex "generate-core-file $T/core" </dev/null >gdb.live 2>&1
  timeout -s KILL 60 gdb -nx -batch "$(readlink -f "/proc/$pid/exe")" core -ex 'info sharedlibrary' -ex bt </dev/null >gdb.core 2>&1
  cat gdb.live gdb.core
  for f in gdb.live gdb.core; do
    grep -q libc.so "$f"
    grep -q '^#1 ' "$f"
    not grep -q /proc/self "$f"
  done
  t_is "$pid" SR
}

# The path that the stub gave to the loader is of no use to anybody.
loader_errors_name_no_descriptor() {
  start unloadable.out $RUBY -e '$stdout.sync = true; puts "ready"; sleep'
  { head -c 64 "$DUMMY"; head -c 8192 /dev/zero; } >nothing.so
  rc=0
  "$INJECT_TOOL" "$pid" nothing.so >out 2>err || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -qx "process $pid cannot load the agent: [a-z][^/]*" err
}

# These wait.
t_lanes 4
t_case "programs that call exec meanwhile" programs_that_are_replaced
t_case "blocked system calls go on as if nothing had happened" blocked_calls_go_on
t_case "tracers that are late do no harm to registers" late_tracers_do_no_harm registers
t_case "tracers that are late do no harm to handlers" late_tracers_do_no_harm storm
t_case "no descriptor, mapping or changed byte stays" nothing_stays_behind
t_case "refused: no process, stopped, zombie, thread" refusals
t_case "refused: traced by another" refuses_traced
t_case "refused: another user's process" refuses_other_users
t_case "the same user needs no root" same_user_needs_no_root
t_case "refused: statically linked" refuses_static_programs
t_case "refused: under valgrind" refuses_emulated_programs
t_case "refused: 32 bits" refuses_32_bits
t_case "refused: musl" refuses_musl
t_case "refused: seccomp forbids memfd_create, the target survives" refuses_seccomp
t_case "refused: no free file descriptor" no_free_descriptor
t_case "refused: no /proc" refuses_without_proc
t_case "processes that end meanwhile" processes_that_end
t_case "other mount and PID namespaces" works_in_namespaces
t_case "files replaced by an upgrade" works_after_an_upgrade
t_case "preloaded: traced without ptrace" preloaded_without_ptrace
t_case "each load is a new one" each_load_is_a_new_one
t_case "debuggers read the process and its core" debuggers_read_the_process
t_case "errors of the loader" loader_errors_name_no_descriptor
t_case "children that are forked in the middle" forks_in_the_middle
t_case "four injections at once" two_injections_at_once
t_case "tracer or process suspended halfway" suspended_halfway
# These compute, or need moments that others would blur.
t_lanes 1
t_case "a tracer that comes late spares the program's files" late_tracers_spare_files
t_case "timed calls are left alone when another thread will do" timed_calls_are_left_alone
t_case "short waits of any kind are neither interrupted nor shortened" short_waits_are_kept
t_case "signals end blocked calls, also during injection" signals_end_calls
t_case "refused: in a signal handler, but not for what an old one left" only_in_a_handler_refused
t_case "a tracer that is killed with a signal in hand" killed_with_a_signal_in_hand
t_case "signal handlers run on top of the stub" signal_handlers_may_run 30
t_case "all registers, flags and the red zone are kept" registers_are_kept
t_case "tracers killed at random moments" killed_tracers
t_case "attaching again and again in a storm of threads" cycles
t_done
