#!/bin/bash
# SPDX-License-Identifier: MIT
# A Ruby process that is traced crashes: its core gives the last lines of the trace.
. "$SRC/tests/tap.sh"

RUBY=${RUBY:-ruby}

# Not the shell that starts it any more.
is_ruby() {
  "$RUTILE" ps --json | grep "\"pid\":$1," | grep -q '"traceable":true'
}

test_core() {
  grep -q '^core' /proc/sys/kernel/core_pattern || t_skip "cores do not go to a file here"
  cat >app.rb <<'EOF'
class App
  def step(n, name); n + 1; end
  def idle; sleep 0.02; end
  def boom(why); Process.kill(:ABRT, Process.pid); end
  def work
    i = 0
    300.times { i = step(i, "x"); sleep 0.002 }
    boom("end")
    sleep 5
  end
end
Process.setrlimit(:CORE, :INFINITY)
app = App.new
finish = Time.now + 100
app.idle until File.exist?("go") || Time.now > finish
app.work
EOF
  "$RUBY" app.rb &
  app=$!
  trap 'kill $app 2>/dev/null || true' EXIT
  t_wait is_ruby $app
  timeout 300 "$RUTILE" trace --args $app >lines 2>err &
  tracer=$!
  # Its calls are recorded.
  t_wait grep -qs 'App.idle' lines || { cat err; return 1; }
  touch go
  wait $app || true
  wait $tracer || true
  "$RUTILE" recover core* -o out >found
  cat found
  grep -q "^out/ruby-$app.txt: [0-9]* events of Ruby" found
  tail -5 out/ruby-$app.txt
  # Its tracer may have seen less, never more than the core.
  grep -v Tracing lines | tail -1
  tail -1 out/ruby-$app.txt | grep -q "$app/$app App#boom(why=\"end\")"
  tail -2 out/ruby-$app.txt | head -1 | grep -q 'App#step(n=299, name="x")'
  # The time of day stands before each line.
  tail -1 out/ruby-$app.txt | grep -Eq '^[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} '
  # The table's 26 MB are not in the core but for what is used: beside that of one without a trace.
  traced=$(du -k core* | cut -f1)
  rm core*
  sh -c 'ulimit -c unlimited; "$1" -e "Process.kill(:ABRT, Process.pid); sleep 5"' sh "$RUBY" || true
  [ $((traced - $(du -k core* | cut -f1))) -lt 16000 ]
}

test_nothing() {
  grep -q '^core' /proc/sys/kernel/core_pattern || t_skip "cores do not go to a file here"
  sh -c 'ulimit -c unlimited; "$1" -e "Process.kill(:ABRT, Process.pid); sleep 5"' sh "$RUBY" || true
  if "$RUTILE" recover core* -o out 2>err; then return 1; fi
  grep -q "of process [0-9]* (ruby[^)]*) holds nothing that rutile recorded" err
  # Truncated, it must not crash rutile.
  for n in 10 100 1000 4096 4200 5000 8191 20000 100000; do
    head -c $n core* >part
    if "$RUTILE" recover part -o out2 2>err; then return 1; fi
    [ "$(wc -l <err)" = 1 ]
  done
}

t_case "the last lines of a traced process that crashed" test_core
t_case "a core without a trace" test_nothing
t_done
