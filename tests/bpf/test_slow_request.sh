#!/bin/bash
# SPDX-License-Identifier: MIT
# docs/slow-request.md is true: its program, recorded and explained by its commands, gives its output, but for the
# numbers and for what else the machine did.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
: "${RUBY:=ruby}"
doc=$SRC/docs/slow-request.md

# The commands of the page that begin with these words, after "# ".
command_of() {
  grep -m 1 "^    # rutile $1" "$doc" | sed 's/^    # rutile //'
}

# run COMMAND-LINE: as a shell reads it
run() {
  eval "set -- $1"
  "$RUTILE" "$@"
}

# What the page shows below a command: up to the next line that is not indented.
shown() {
  awk -v begin="    # rutile $1" 'index($0, begin) == 1 { on = 1; next } on && NF && !/^    / { exit } on' "$doc" | sed 's/^    //'
}

# Durations, shares, times, ports and process numbers differ from run to run; so does what else the time went by with.
normal() {
  sed -E 's/Timerange.*//; s/[0-9.]+ (s|ms|us|ns)\b/T/g; s/[0-9:.]{8,}/N/g; s/\b[0-9.]+ %/P/g; s/\b[0-9]{3,}\b/N/g; s/:[0-9]+/:N/g; s/ +/ /g; s/ $//; s/(in all\)).*/\1/; s/(<- [^,]*).*/\1/' |
    grep -v '^$'
}

# shellcheck disable=SC2120 # it sets its arguments itself
walk() {
  awk '/^```ruby/ { on = 1; next } /^```/ { on = 0 } on' "$doc" >order.rb
  mkfifo in
  nice -n -19 "$RUBY" order.rb <in >out &
  program=$!
  exec 5>in
  t_wait grep -q ready out
  record=$(command_of record | sed "s/[0-9]*\$/$program/")
  eval "set -- $record"
  "$RUTILE" "$@" --buffer 128M --subbuf 256K 2>record.err &
  recorder=$!
  recording trace || { cat record.err; return 1; }
  t_wait test -s trace/ruby-"$program"/names
  echo >&5
  failed=0
  wait "$program" || failed=$?
  kill -INT "$recorder" 2>/dev/null || :
  wait "$recorder"
  [ "$failed" = 0 ]
  run "$(command_of 'requests --request .* trace$' | grep -v explain) --skip-validation" >table
  run "$(command_of 'requests .*--explain') --skip-validation" >explained
  cat table explained
}

holds_true() {
  need_bpf
  # shellcheck disable=SC2119
  walk
  if [ -n "${WRITE_DOC:-}" ]; then cp table explained "$WRITE_DOC"; fi
  # The route with its counts, the sentence, and the lines of the tree down to the wait and the process it was for.
  grep -E '^ *Order#total +3 +0 .*network' table
  normal <explained >got
  shown "requests --request 'Order#total' --slowest 1 --explain trace" | normal >want
  [ "$(wc -l <want)" -ge 8 ]
  grep -E 'because|Stock#level|Order#shipping|warehouse|poll|read' want >must
  [ "$(wc -l <must)" -ge 4 ]
  while IFS= read -r line; do
    grep -qxF -e "$line" got || { echo "not shown: $line"; cat got; return 1; }
  done <must
}

t_case 'the walk-through of a slow request is true' holds_true
t_done
