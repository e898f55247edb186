#!/bin/bash
# SPDX-License-Identifier: MIT
# docs/memory-leak.md and docs/stuck-worker.md are true: their programs, inspected by their commands, show what stands there,
# but for the numbers.
. "$SRC/tests/tap.sh"
. "$SRC/tests/ruby/lib.sh"
pid=

# page NAME FILE: the page $doc; its program runs as FILE.
page() {
  doc=$SRC/docs/$1.md
  awk '/^```ruby/ { on = 1; next } /^```/ { on = 0 } on' "$doc" >"$2"
  start out "$RUBY" "$2"
}

# shellcheck disable=SC2120 # it sets its arguments itself
# run WORDS: the command of the page that begins with them, with our process; its output is in `got`.
run() {
  line=$(grep -m 1 "^    # rutile $1" "$doc")
  words=${line#*rutile }
  eval "set -- ${words% *}"
  timeout 100 "$RUTILE" "$@" "$pid" >got 2>err || { cat err; return 1; }
}

# What the page shows below that command.
shown() {
  awk -v begin="    # rutile $1" 'index($0, begin) == 1 { on = 1; next } on && NF && !/^    / { exit } on && NF' "$doc" | sed 's/^    //'
}

# File, line and class of the first two rows that have a line.
rows() {
  awk 'NR > 2 && $2 != "-" && ++n <= 2 { print $1, $2, $3 }'
}

# The lines of the leak come first. When the machine is busy the program may not have run between two looks. (Whether
# the Hash grows depends on when it was enlarged last.)
leak_is_shown() {
  run 'heap --diff' || return 1
  rows <got >lines
  cmp -s want lines
}

# Between two requests the Hash may be held by its server alone.
holder_is_shown() {
  run 'heap --retained' || return 1
  awk 'NR == 3 && $2 > 50 && ($5 == "Hash" || $5 == "Server") { ok = 1 } END { exit !ok }' got
}

a_memory_leak() {
  page memory-leak server.rb
  run 'heap --limit'
  # Titles and (of Ruby 3) the first class are as shown; the next ones depend on the version.
  [ "$(awk 'NR == 2' got | xargs)" = "$(shown 'heap --limit' | awk 'NR == 2' | xargs)" ]
  if "$RUBY" -e 'exit RUBY_VERSION >= "3"'; then
    class() { awk 'NR > 2 && $1 !~ /^[(]/ { print $1; exit }'; }
    [ "$(class <got)" = "$(shown 'heap --limit' | class)" ]
  fi
  shown 'heap --diff' | rows >want
  [ "$(wc -l <want)" = 2 ]
  t_wait leak_is_shown || { cat got; return 1; }
  shown 'heap --retained' | awk 'NR == 3' | grep -q ' Hash  <- stack$'
  t_wait holder_is_shown || { cat got; return 1; }
  # The lines that the text names.
  grep -n '@basket = ' server.rb | grep -q '^4:'
  grep -n 'Session.new' server.rb | grep -q '^12:'
}

# Which worker came first is not the page's matter.
normal() {
  sed -E 's/worker [0-9]/worker N/g; s/\b[0-9]{3,}\b/N/g; s/ +/ /g; s/ $//'
}

# A line for each thread, with its frames.
by_thread() {
  awk '/^  thread/ { if (t) print t; t = ""; next } { sub(/^ */, ""); t = t " | " $0 } END { print t }' | normal | sort
}

a_stuck_worker() {
  "$RUBY" -e 'exit RUBY_VERSION.start_with?("3.1")' || t_skip "the page has the labels of Ruby 3.1"
  page stuck-worker workers.rb
  run stacks
  shown stacks | by_thread >want
  by_thread <got >have
  [ "$(wc -l <want)" = 5 ]
  diff want have
  run 'requests --running'
  shown 'requests --running' | normal | sort >want
  grep . got | normal | sort >have
  [ "$(wc -l <want)" -ge 10 ]
  diff want have
  grep -n 'synchronize' workers.rb | grep -q '^13:'
}

t_case "the walk-through of a memory leak is true" a_memory_leak
t_case "the walk-through of a stuck worker is true" a_stuck_worker
t_done
