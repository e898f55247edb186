#!/bin/bash
# SPDX-License-Identifier: MIT
# rutile ps and rutile doctor, against what the processes themselves say.
# shellcheck disable=SC2086,SC2016,SC2010,SC2012,SC2046,SC2143 # words on purpose; code for Ruby; names of our own
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"

# One value of one process: field PID KEY.
field() {
  "$RUTILE" ps --json | ruby -rjson -e '
    line = STDIN.each_line.map { |l| JSON.parse(l) }.find { |h| h["pid"] == ARGV[0].to_i }
    abort "PID #{ARGV[0]} is not listed" unless line
    puts line.fetch(ARGV[1]).inspect' "$1" "$2"
}

say='puts "ready"; $stdout.flush; sleep'

version_user_and_uptime() {
  began=$(date +%s)
  start v.out $RUBY -e "$say"
  [ "$(field "$pid" ruby)" = "\"$($RUBY -e 'print RUBY_VERSION')\"" ]
  [ "$(field "$pid" user)" = "\"$(id -un)\"" ]
  [ "$(field "$pid" ppid)" = "$(awk '/^PPid/ { print $2 }' "/proc/$pid/status")" ]
  [ "$(field "$pid" role)" = '"script"' ]
  [ "$(field "$pid" name)" = '"-e"' ]
  [ "$(field "$pid" traceable)" = true ]
  up=$(field "$pid" uptime_s)
  [ "$up" -le $(($(date +%s) - began + 1)) ]
}

titles() {
  while IFS='|' read -r title role root; do
    start t.out $RUBY -e "Process.setproctitle(ARGV[0]); $say" "$title"
    echo "$title: $(field "$pid" role) $(field "$pid" application)"
    [ "$(field "$pid" role)" = "\"$role\"" ]
    [ "$(field "$pid" name)" = "\"$title\"" ]
    [ -z "$root" ] || [ "$(field "$pid" application)" = "\"$root\"" ]
    kill "$pid"
    : >t.out
  done <<'LIST'
puma 6.0.0 (tcp://0.0.0.0:9292) [shop]|puma|
puma: cluster worker 0: 1 [shop]|puma-worker|
unicorn master -c config/unicorn.rb|unicorn-master|
unicorn worker[1] -c config/unicorn.rb|unicorn-worker|
Passenger RubyApp: /srv/shop (production)|passenger|/srv/shop
Passenger RackApp: /usr/share/foreman (production)|foreman-rails|/usr/share/foreman
sidekiq 6.5.12 shop [0 of 10 busy]|sidekiq|
rake db:migrate|rake|
ruby /usr/share/foreman-proxy/bin/smart-proxy --no-daemonize|foreman-proxy|
LIST
}

roots() {
  mkdir -p app/bin app/lib plain other
  touch app/config.ru
  echo "$say" >app/bin/serve.rb
  echo "$say" >plain/job.rb
  start a.out $RUBY app/bin/serve.rb
  [ "$(field "$pid" application)" = "\"$PWD/app\"" ]
  [ "$(field "$pid" name)" = '"app/bin/serve.rb"' ]
  start b.out $RUBY -I app/lib -W0 "$PWD/plain/job.rb" --flag
  [ "$(field "$pid" application)" = "\"$PWD/plain\"" ]
  cd app
  start c.out $RUBY -C "$PWD" -rjson -e "$say"
  [ "$(field "$pid" application)" = "\"$PWD\"" ]
}

a_puma_cluster() {
  command -v puma >/dev/null || t_skip "no puma"
  echo 'run ->(e) { [200, {}, ["x"]] }' >config.ru
  puma -q -w 2 -b "unix://$PWD/socket" >p.out 2>&1 &
  master=$!
  pids="$pids $master"
  trap 'kill $pids 2>/dev/null || :' EXIT
  two_workers() { [ "$("$RUTILE" ps --json | grep -c "\"ppid\":$master,.*puma-worker")" -ge 2 ]; }
  t_wait two_workers || { cat p.out; return 1; }
  [ "$(field "$master" role)" = '"puma-master"' ]
  [ "$("$RUTILE" ps --json | grep -c "\"ppid\":$master,.*puma-worker")" = 2 ]
  [ "$(field "$master" application)" = "\"$PWD\"" ]
}

not_ruby_is_not_listed() {
  start n.out sh -c 'echo ready; exec sleep 100'
  t_wait t_runs "$pid" sleep
  [ -z "$("$RUTILE" ps --json | grep "\"pid\":$pid,")" ]
  rc=0
  "$RUTILE" calls "$pid" 2>err >/dev/null || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q "process $pid (sleep) is not Ruby" err
  [ "$(wc -l <err)" = 1 ]
  # Who may not read its mappings goes by the name of its program, not by what it is given.
  start s.out sh -c 'echo ready; exec tail -f /dev/null "$0/ruby_program.rb"' "$T"
  t_wait t_runs "$pid" tail
  [ "$(id -u)" = 0 ] || return 0
  cp "$RUTILE" rutile
  chmod 755 . .. rutile
  other=$pid
  start r.out $RUBY -e 'puts "ready"; $stdout.flush; sleep 100'
  setpriv --reuid=65534 --clear-groups ./rutile ps --json >ps.json
  grep -q "\"pid\":$pid," ps.json
  ! grep "\"pid\":$other," ps.json
}

# refused VERSION WHY: what calls itself such a Ruby is one to us.
refused() {
  cat >other.c <<C
#include <stdio.h>
#include <unistd.h>
const char ruby_version[] = "$1";
int main(void) { puts("ready"); fflush(stdout); pause(); }
C
  gcc -rdynamic -o ruby-other other.c
  start o.out ./ruby-other
  [ "$(field "$pid" traceable)" = false ]
  field "$pid" why_not | grep -q "process $pid runs Ruby $1: $2"
  rc=0
  "$RUTILE" calls "$pid" 2>err >/dev/null || rc=$?
  cat err
  [ "$rc" = 1 ]
  grep -q "process $pid runs Ruby $1: $2" err
  not t_gone "$pid"
}

too_old_and_too_new() {
  refused 2.3.8 'that is too old, Ruby 2.5 is the oldest'
  refused 2.4.10 'that is too old, Ruby 2.5 is the oldest'
  refused 4.2.0 'that is newer than what this version of rutile knows, Ruby 4.0'
  refused 5.0.0 'that is newer than what this version of rutile knows, Ruby 4.0'
}

# A row of the table that is not released: refused, unless the user asks for it. This one has nothing but a version, so
# what fails then is the agent.
unreleased() {
  refused 4.1.0 'that is not released'
  grep -q -- '--try-newer' err
  for verb in 'calls' 'trace' 'stacks'; do
    rc=0
    "$RUTILE" $verb --try-newer "$pid" 2>err >/dev/null || rc=$?
    cat err
    [ "$rc" = 1 ]
    grep -q "process $pid" err
    not grep -q 'not released' err
  done
  not t_gone "$pid"
}

# What a command runs is known when the agent in it says so.
unreleased_command() {
  lib=$(ldd "$(command -v $RUBY)" | awk '/libruby/ { print $3 }')
  [ -n "$lib" ] || { echo "this Ruby has no libruby: its version cannot be changed"; return 0; }
  cp -L "$lib" "$(basename "$lib")"
  ruby -e '
    lib = File.binread(ARGV[0])
    at = lib.index("\0#{RUBY_VERSION}\0")
    while at
      lib[at + 1, 5] = "4.1.0"
      at = lib.index("\0#{RUBY_VERSION}\0", at + 1)
    end
    File.binwrite(ARGV[0], lib)' "$(basename "$lib")"
  rc=0
  LD_LIBRARY_PATH=$PWD "$RUTILE" calls --duration 20s -- $RUBY --disable-gems -e 'puts RUBY_VERSION; sleep 0.2' >out 2>err || rc=$?
  cat out err
  grep -q '^4.1.0$' out
  grep -q 'runs Ruby 4.1.0: that is not released' err
}

stopped_and_containers() {
  start s.out $RUBY -e "$say"
  kill -STOP "$pid"
  t_wait t_is "$pid" T
  [ "$(field "$pid" traceable)" = false ]
  field "$pid" why_not | grep -q 'is stopped: continue it first'
  kill -CONT "$pid"
  [ "$(id -u)" = 0 ] || t_skip "the rest needs root"
  start c.out unshare -mpf --kill-child --mount-proc $RUBY -e "$say"
  child=$(cat "/proc/$pid/task/$pid/children")
  [ "$(field ${child} container)" = true ]
  [ "$(field ${child} ruby)" = "\"$($RUBY -e 'print RUBY_VERSION')\"" ]
}

doctor_agrees() {
  "$RUTILE" doctor --json >doc.json || :
  ruby -rjson -e '
    rows = File.readlines(ARGV[0]).map { |l| JSON.parse(l) }
    %w[ptrace memfd eBPF BTF bpffs tracefs lockdown uprobes RLIMIT_MEMLOCK RLIMIT_NOFILE Ruby].each do |c|
      rows.any? { |r| r["check"] == c } or abort "no #{c}"
    end
    rows.each { |r| %w[ok limited no].include?(r["state"]) or abort r.to_s }
    rows.each { |r| r["state"] != "no" || r["advice"] or abort "no advice: #{r}" }
    btf = rows.find { |r| r["check"] == "BTF" }["state"]
    (btf == "ok") == File.readable?("/sys/kernel/btf/vmlinux") or abort "BTF #{btf}"
    bpffs = rows.find { |r| r["check"] == "bpffs" }["state"]
    mounted = File.read("/proc/mounts").match?(%r{^\S+ /sys/fs/bpf bpf })
    mounted || bpffs == "no" or abort "bpffs #{bpffs}"' doc.json
  start d.out $RUBY -e "$say"
  "$RUTILE" doctor | grep -q '^Ruby .* can be traced'
}

other_allocators() {
  # It needs no other library: $RUBY may be a script that enters another system.
  echo 'int nothing(void) { return 0; }' | gcc -shared -fPIC -nostdlib -x c - -o libjemalloc.so.2
  start j.out env LD_PRELOAD="$PWD/libjemalloc.so.2" $RUBY -e "$say"
  [ "$(field "$pid" allocator)" = '"jemalloc"' ]
  "$RUTILE" ps | grep -qE "^ *$pid .*\(jemalloc\)"
  start n.out $RUBY -e "$say"
  [ "$(field "$pid" allocator)" = nil ]
}

t_case "version, user, uptime" version_user_and_uptime
t_case "titles of servers" titles
t_case "application roots" roots
t_case "a Puma cluster" a_puma_cluster
t_case "other allocators" other_allocators
t_case "what is not Ruby" not_ruby_is_not_listed
t_case "a Ruby too old, one too new" too_old_and_too_new
t_case "a Ruby that is not released is traced with --try-newer only" unreleased
t_case "a command's Ruby that is not released" unreleased_command
t_case "stopped processes and containers" stopped_and_containers
t_case "doctor says what is so" doctor_agrees
t_done
