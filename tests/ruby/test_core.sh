#!/bin/sh
# SPDX-License-Identifier: MIT
# A Ruby process that is traced crashes: its core gives the last lines of the trace.
. "$SRC/tests/tap.sh"

RUBY=${RUBY:-ruby}

test_core() {
  grep -q '^core' /proc/sys/kernel/core_pattern || t_skip "cores do not go to a file here"
  cat >app.rb <<'EOF'
class App
  def step(n, name); n + 1; end
  def boom(why); Process.kill(:ABRT, Process.pid); end
  def work
    i = 0
    300.times { i = step(i, "x"); sleep 0.002 }
    boom("end")
    sleep 5
  end
end
Process.setrlimit(:CORE, :INFINITY)
sleep 0.1 until File.exist?("go")
App.new.work
EOF
  "$RUBY" app.rb &
  app=$!
  trap 'kill $app 2>/dev/null || true' EXIT
  sleep 0.5
  timeout 60 "$RUTILE" trace --args $app >lines 2>err &
  tracer=$!
  for _ in $(seq 200); do
    if grep -q started lines 2>/dev/null; then break; fi
    sleep 0.05
  done
  sleep 0.3
  touch go
  wait $app || true
  wait $tracer || true
  "$RUTILE" recover core* -o out >found
  cat found
  grep -q "^out/ruby-$app.txt: [0-9]* events of Ruby" found
  tail -5 out/ruby-$app.txt
  # Whoever traced it may have seen less, never more than the core.
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
  # Cut off, it is still no crash of ours.
  for n in 10 100 1000 4096 4200 5000 8191 20000 100000; do
    head -c $n core* >part
    if "$RUTILE" recover part -o out2 2>err; then return 1; fi
    [ "$(wc -l <err)" = 1 ]
  done
}

t_case "the last lines of a traced process that crashed" test_core
t_case "a core without a trace" test_nothing
t_done
