#!/bin/bash
# SPDX-License-Identifier: MIT
# The proof of the one timeline at its full size.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
: "${RUBY:=ruby}"

test_million() {
  need_bpf
  marker 1000000
}

# A process's table of names is bounded: what comes last is named "(other)", and that is reported.
test_more_names_than_room() {
  cat >many.rb <<'RUBY'
270.times do |i|
  src = "class M#{i}\n".dup
  1000.times { |j| src << "def m#{j}; end\n" }
  eval src << "end", nil, "m/#{i}.rb", 1
  o = Object.const_get("M#{i}").new
  1000.times { |j| o.send("m#{j}") }
  sleep 0.01 # the recorder keeps up on a loaded machine, too
end
RUBY
  "$RUTILE" record -o trace --ruby :call --path 'm/*' -- "$RUBY" --disable-gems many.rb 2>err
  cat err
  grep -q ' 0 events lost' err
  [ "$(grep -c 'more Ruby methods than the table of names has room for' err)" = 1 ]
  "$RUTILE" view trace >view
  [ "$(grep -c ' ruby:call: ' view)" = 270000 ]
  [ "$(grep -c '"M[0-9]*#m[0-9]*"' view)" = 262142 ]
  [ "$(grep -c ' ruby:call: .*"(other)"' view)" = 7858 ]
}

t_case "more methods than the table of names holds" test_more_names_than_room
t_case "a million system calls lie between the call and the return of their method" test_million
t_done
