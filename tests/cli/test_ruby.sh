#!/bin/sh
# SPDX-License-Identifier: MIT
# The Ruby verbs on real processes. What each mode counts exactly is tested in tests/ruby; here it is
# the way from the command line to the table.
. "$SRC/tests/tap.sh"
R=$RUTILE

# A script that calls Job.run and Job#step as known, forever, and can be told to stop.
start_script() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  mkdir -p app/vendor/bundle
  cat >app/vendor/bundle/gem.rb <<'EOF'
module Gem_; def self.in_gem; end; end
EOF
  cat >app/main.rb <<'EOF'
require_relative "vendor/bundle/gem"
class Job
  def self.run
    new.step
    Gem_.in_gem
  end

  def step
    raise KeyError, "x"
  rescue KeyError
    "a" + "b"
  end
end
Process.setproctitle("rutile-test-#{ARGV[0]}")
$stdout.puts "ready"
$stdout.flush
until File.exist?("stop")
  Job.run
  sleep 0.002
end
EOF
  cd app
  # shellcheck disable=SC2094
  ruby main.rb "$$" >out 2>&1 &
  target=$!
  # shellcheck disable=SC2064
  trap "kill $target 2>/dev/null || :" EXIT
  for _ in $(seq 100); do grep -q ready out && break; sleep 0.1; done
  grep -q ready out
}

app_leaves_gems_out_and_all_does_not() {
  start_script
  "$R" calls --duration 600ms --last $target >got
  grep -qE 'main.rb +3 +Job.run' got
  grep -qE 'main.rb +8 +Job#step' got
  ! grep -q Gem_ got
  "$R" calls --duration 600ms --last all $target >got
  grep -q 'Gem_.in_gem' got
  "$R" calls --duration 600ms --last --class 'Gem*' all $target >got
  grep -q 'Gem_.in_gem' got
  ! grep -q 'Job' got
}

a_folder_removed_under_it_is_still_the_application() {
  start_script
  rm -r ../app
  "$R" calls --duration 600ms --last $target | grep -q 'Job.run'
}

# As Sinatra does: the block of a route is a method that is bound anew for each request.
a_method_bound_often_is_counted_once() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >bound.rb <<'EOF'
class A
  define_method(:route) { plain }
  route = instance_method(:route)
  remove_method :route
  ROUTE = ->(a) { route.bind(a).call }
  def plain; end
  alias_method :other, :plain
end
a = A.new
kept = Array.new(100) { a.method(:plain) }
puts "ready"
$stdout.flush
until File.exist?("stop")
  50.times { A::ROUTE.call(a) }
  sleep 0.001
end
EOF
  ruby bound.rb >out &
  target=$!
  # shellcheck disable=SC2064
  trap "kill $target 2>/dev/null || :" EXIT
  for _ in $(seq 100); do grep -q ready out && break; sleep 0.1; done
  for _ in 1 2; do
    "$R" calls --json --last --duration 700ms $target >got
    ruby -rjson -e '
      calls = STDIN.each_line.to_h { |l| r = JSON.parse(l); [r["method"], r["calls"]] }
      route, plain = calls.values_at("A#route", "A#plain")
      abort calls.inspect unless plain.to_i > 0 && (route - plain).abs <= plain / 5' <got
  done
}

the_end_of_the_target_ends_it() {
  start_script
  "$R" calls $target >got &
  pid=$!
  sleep 0.5
  touch stop
  wait $pid
  grep -q 'last table' got
  grep -q 'Job.run' got
}

it_is_found_by_name() {
  start_script
  "$R" calls --duration 500ms --last "rutile-test-$$" | grep -q 'Job#step'
}

the_first_table_does_not_wait() {
  start_script
  "$R" calls --interval 1h $target >got &
  pid=$!
  for _ in $(seq 50); do grep -q Job.run got && break; sleep 0.1; done
  kill $pid
  wait $pid
  [ "$(grep -c 'Job.run$\|Job.run ' got)" = 2 ]
}

a_command_is_traced_from_its_first_line() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >count.rb <<'EOF'
def one; end
class A; def two; end; end
7.times { one }
a = A.new
12.times { a.two }
exit 5
EOF
  rc=0
  "$R" calls --json -- ruby count.rb >got || rc=$?
  [ $rc = 5 ]
  ruby -rjson -e '
    last = STDIN.each_line.map { |l| JSON.parse(l) }.select { |r| r["final"] }
    calls = last.to_h { |r| [r["method"], r["calls"]] }
    abort calls.inspect unless calls["Object#one"] == 7 && calls["A#two"] == 12' <got
}

one_line_for_what_cannot_be_traced() {
  sleep 60 &
  pid=$!
  rc=0
  "$R" calls $pid 2>err || rc=$?
  kill $pid
  [ $rc = 1 ]
  [ "$(wc -l <err)" = 1 ]
  rc=0
  "$R" calls $pid$pid$pid 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(wc -l <err)" = 1 ]
}

t_case "app leaves gems out, all does not" app_leaves_gems_out_and_all_does_not
t_case "a folder removed under it is still the application" a_folder_removed_under_it_is_still_the_application
t_case "a method bound often is counted once" a_method_bound_often_is_counted_once
t_case "the end of the target ends it" the_end_of_the_target_ends_it
t_case "a target is found by its name" it_is_found_by_name
t_case "the first table does not wait for an interval" the_first_table_does_not_wait
t_case "a command is traced from its first line" a_command_is_traced_from_its_first_line
t_case "one line for what cannot be traced" one_line_for_what_cannot_be_traced
t_done
