#!/bin/bash
# SPDX-License-Identifier: MIT
# The live tables, on what a tracer without a process finds (tests/fake/fake_tracer.c).
. "$SRC/tests/tap.sh"
R=$RUTILE_FAKE_PROGRAM

fake_shop() {
  cat "$SRC/tests/fake/shop.fake" - >shop.fake <<'EOF'
proc|200|1|0|-|script.rb
refuse|200|PID 200: not today
ends
EOF
  export RUTILE_FAKE=$PWD/shop.fake
}

# The numbers of seconds and rates are not ours to know.
tidy() {
  sed -E 's/after [0-9.]+(ns|us|ms|s)/after TIME/; s/ PER SEC$//; s/ +[0-9.]+$//'
}

calls_are_added_up() {
  fake_shop
  "$R" calls puma | tidy >got
  cat >want <<'EOF'
calls after TIME: 678 calls, 3 methods, 2 processes
             FILENAME LINE            METHOD CALLS
/srv/shop/lib/cart.rb   12  Shop::Cart#total   600
 /srv/shop/lib/ü漢.rb    3 Shop::Item#naïve?    77
     /srv/shop/app.rb    7         Shop.boot     1

calls after TIME: 678 calls, 3 methods, 2 processes (last table)
             FILENAME LINE            METHOD CALLS
/srv/shop/lib/cart.rb   12  Shop::Cart#total   600
 /srv/shop/lib/ü漢.rb    3 Shop::Item#naïve?    77
     /srv/shop/app.rb    7         Shop.boot     1
EOF
  diff want got
}

time_has_its_columns_and_limit() {
  fake_shop
  "$R" time --limit 2 --per-process --sort max puma | sed -n 2,4p >got
  cat >want <<'EOF'
PID              FILENAME LINE           METHOD CALLS TOTAL   SELF  MEAN    MAX
101 /srv/shop/lib/cart.rb   12 Shop::Cart#total   200 100ms 10.0ms 500us 9.46ms
100 /srv/shop/lib/cart.rb   12 Shop::Cart#total   400 123ms 23.5ms 309us 3.46ms
EOF
  diff want got
}

# Not on a screen, because there is no keyboard; but no line may be longer than the terminal.
a_table_fits_the_terminal() {
  command -v script >/dev/null || t_skip "script is not installed"
  fake_shop
  longest() { # all lines are as long as that of the titles
    tr -d '\r' | awk '/FILENAME/ { print length($0) }'
  }
  own=$("$R" time --last puma | longest)
  [ "$own" -gt 60 ]
  for columns in 60 200; do
    script -qec "stty cols $columns; '$R' time --last puma </dev/null" out </dev/null >/dev/null
    [ "$(longest <out)" = "$([ $columns = 60 ] && echo 60 || echo "$own")" ] || { cat out; return 1; }
  done
}

objects_by_class_and_by_line() {
  fake_shop
  "$R" objects-total puma | sed -n 2,4p | awk '{print $1, $2, $NF}' >got
  printf '%s\n' 'OBJECT COUNT BYTES' 'Shop::Cart 8 320' 'Shop 1 40' | diff - got
  for verb in objects arrays strings; do
    "$R" $verb puma | sed -n 2,4p | awk '{print $1, $2, $3, $4, $NF}' >got
    printf '%s\n' 'FILENAME LINE OBJECT COUNT BYTES' '/srv/shop/lib/cart.rb 12 Shop::Cart 8 320' \
      '/srv/shop/app.rb 7 Shop 1 40' | diff - got
  done
}

json_has_the_keys_of_the_mode() {
  fake_shop
  "$R" time --json 100 | ruby -rjson -e '
    rows = STDIN.each_line.map { |l| JSON.parse(l) }
    last = rows.select { |r| r["final"] }
    abort "#{rows.size} rows" unless rows.size == 6 && last.size == 3
    abort rows[0].keys.inspect unless rows[0].keys ==
      %w[file line class method calls total_ns self_ns max_ns pid interval]
    abort rows[0].inspect unless rows[0].values ==
      ["/srv/shop/lib/cart.rb", 12, "Shop::Cart", "Shop::Cart#total", 600, 223456789, 33456789,
       9456789, nil, 1]
    abort last.inspect unless last.all? { |r| r["interval"] == 2 }
    abort last.inspect unless last[2]["file"] == "/srv/shop/lib/ü漢.rb" && last[2]["pid"] == 101'
  "$R" objects --json --limit 1 100 | ruby -rjson -e '
    rows = STDIN.each_line.map { |l| JSON.parse(l) }
    abort rows.inspect unless rows[0].keys == %w[file line class count bytes pid interval]
    abort rows.inspect unless rows.size == 2 && rows[1]["final"] == true'
  "$R" objects-total --json 100 | ruby -rjson -e '
    rows = STDIN.each_line.map { |l| JSON.parse(l) }
    abort rows.inspect unless rows[0] ==
      {"class" => "Shop::Cart", "count" => 8, "bytes" => 320, "pid" => nil, "interval" => 1}'
}

signals_end_it_with_the_last_table() {
  fake_shop
  sed -i /^ends/d shop.fake
  for sig in INT TERM HUP; do
    rm -f out
    "$R" calls --interval 50ms 100 >out &
    pid=$!
    t_wait grep -qs CALLS out
    kill -$sig $pid
    wait $pid
    [ "$(grep -c 'last table' out)" = 1 ]
  done
}

duration_ends_it() {
  fake_shop
  sed -i /^ends/d shop.fake
  "$R" calls --duration 3s --interval 50ms 100 >out
  [ "$(grep -c '^calls after' out)" -ge 3 ]
  grep -q 'last table' out
}

reset_counts_anew() {
  fake_shop
  sed -i /^ends/d shop.fake
  # What the tracer finds never grows: after the reset there is nothing.
  "$R" calls --duration 3s --interval 50ms --reset 250ms 100 >out
  grep -q 'calls after.*: 0 calls' out
  "$R" calls --duration 500ms --interval 50ms --reset 0 100 >out
  not grep -q 'calls after.*: 0 calls' out
}

a_file_is_not_replaced_silently() {
  fake_shop
  "$R" calls -o out.txt 100 2>err >std
  [ ! -s std ]
  [ ! -s err ]
  grep -q 'last table' out.txt
  "$R" calls -o out.txt 100 2>err
  grep -qx "rutile: replacing 'out.txt'" err
  rc=0
  "$R" calls -o /nonexistent/x 100 2>err || rc=$?
  [ $rc = 1 ] && grep -q "cannot write '/nonexistent/x'" err
}

filters_reach_the_tracer() {
  fake_shop
  "$R" calls puma >/dev/null
  grep -qx 'app_paths: /srv/shop/\* \[!/<(\]\*' log || { cat log; false; }
  grep -q 'not_paths:.* /srv/shop/vendor/bundle/\*' log
  grep -qx 'c_calls: 0' log
  rm log
  "$R" calls all --c-calls --class 'Shop*' --class '!Shop::Item' --method 'A#b' --path '!*x*' puma >/dev/null
  grep -qx 'app_paths:' log
  grep -qx 'paths: !\*x\*' log
  grep -qx 'classes: Shop\* !Shop::Item' log
  grep -qx 'methods: A#b' log
  grep -qx 'c_calls: 1' log
  rm log
  "$R" calls --path '/x/*' puma >/dev/null # paths that are given are meant
  grep -qx 'app_paths:' log
  rm log
  sed -i /^refuse/d shop.fake
  "$R" calls 200 >/dev/null # no root is known
  grep -qx 'app_paths: \*' log
  grep -q '^not_paths: \*/gems/\*' log
}

a_target_that_refuses() {
  fake_shop
  rc=0
  "$R" calls 200 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(cat err)" = "rutile calls: PID 200: not today" ]
  sed -i 's/^refuse.*/&\nrefuse|100|PID 100: nor this/' shop.fake
  rc=0
  "$R" calls 100 200 2>err || rc=$?
  [ $rc = 1 ]
  tail -n 1 err | grep -qx 'rutile calls: none of 2 processes can be traced: PID 100: nor this'
  sed -i '/^refuse|100/d' shop.fake
  "$R" calls 100 200 2>err >out
  [ "$(cat err)" = "rutile calls: PID 200: not today" ]
  grep -q 'last table' out
}

what_a_name_means_but_may_not_be_traced() {
  fake_shop
  echo 'proc|300|1|0|/x|shop of another|process 300 belongs to somebody' >>shop.fake
  rc=0
  "$R" calls 300 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(cat err)" = 'rutile calls: process 300 belongs to somebody' ]
  rc=0
  "$R" calls 'of another' 2>err || rc=$?
  [ $rc = 1 ]
  [ "$(cat err)" = 'rutile calls: process 300 belongs to somebody' ]
  "$R" calls shop 2>err >out
  [ "$(cat err)" = 'rutile: process 300 belongs to somebody' ]
  grep -q 'last table' out
}

bad_words() {
  fake_shop
  while IFS='|' read -r args want; do
    rc=0
    # shellcheck disable=SC2086 # a list of words
    timeout 20 "$R" $args 2>err >out || rc=$?
    [ $rc = 2 ] || { echo "$args: $rc"; return 1; }
    grep -qF -- "$want" err || { cat err; return 1; }
  done <<'EOF'
calls|which process?
calls --interval x 100|--interval: 'x' is not a time
calls --interval 1ns 100|--interval: at least 1ms
calls --limit -3 100|--limit: '-3' is not a number
calls --sort bytes 100|no column 'bytes' here: file, line, method, calls, rate
calls app all 100|exclude each other
calls 100 -- ruby|not both
calls --|needs a command
calls --path ! 100|is empty
trace --slow 0 100|--slow
trace --ring 4q 100|--ring: '4q' is not a size
foreman-tracer 100 frob|unknown mode 'frob'
foreman-tracer 100 calls some|neither 'app' nor 'all'
foreman-tracer 100 calls app x|not a number
EOF
  rc=0
  "$R" calls nobody 2>err || rc=$?
  [ $rc = 1 ]
  grep -q "no Ruby process is called 'nobody'" err
  rc=0
  "$R" calls 99999999999999 2>err || rc=$?
  [ $rc = 1 ]
}

a_command_is_run_and_its_status_passed_on() {
  fake_shop
  rc=0
  "$R" calls -- sh -c 'echo from the command; exit 7' >out || rc=$?
  [ $rc = 7 ]
  grep -q 'from the command' out
  grep -q 'last table' out
}

a_closed_pipe_ends_quietly() {
  fake_shop
  sed -i /^ends/d shop.fake
  { "$R" calls --interval 20ms 100 2>err; echo $? >rc; } | head -n 2 >/dev/null
  [ "$(cat rc)" = 0 ]
  [ ! -s err ]
}

under_the_name_foreman_tracer() {
  fake_shop
  sed -i 's/^proc|100|1|3/proc|100|1|1/' shop.fake
  ln -s "$R" foreman-tracer
  ./foreman-tracer --help | grep -q '^usage: foreman-tracer'
  ./foreman-tracer foreman calls all 2 >got
  {
    for i in 1 2; do
      [ $i = 1 ] || echo
      printf '%80s %6s %30s %6s\n' FILENAME LINE METHOD CALLS \
        /srv/shop/lib/cart.rb 12 total 600
      # printf(1) counts bytes, terminals columns: this path is 20 columns wide.
      printf '%60s/srv/shop/lib/ü漢.rb      3                         naïve?     77\n' ''
    done
  } | diff - got
  grep -qx 'c_calls: 1' log
  ./foreman-tracer rails time app 1 >got
  grep -qx "$(printf '%80s %6s %30s %6s' /srv/shop/lib/cart.rb 12 total 223456)" got
  grep -q 'app_paths: /usr/share/foreman\*' log
  ./foreman-tracer 100 objects >got
  grep -qx "$(printf '%70s %6s %40s %6s' FILENAME LINE OBJECT COUNT)" got
  grep -qx "$(printf '%70s %6s %40s %6s' /srv/shop/lib/cart.rb 12 Shop::Cart 8)" got
  rc=0
  ./foreman-tracer proxy calls 2>err || rc=$?
  [ $rc = 1 ]
}

# Two processes that answer at the same time; and one that does not.
stacks_do_not_mix() {
  cat >shop.fake <<'EOF'
proc|100|1|3|/srv/shop|puma: cluster worker 0: [shop]
proc|101|1|3|/srv/shop|puma: cluster worker 1: [shop]
proc|102|1|3|/srv/shop|puma: cluster worker 2: [shop]
event|slow|100|100|1|0|0|0|-|main (sleep)|#|-|0|-|0
caller|-|rESC[2Jun|#|/srv/shop/app.rb|7
event|slow|101|101|2|0|0|0|-|main (run)|#|-|0|-|0
event|slow|100|110|3|0|0|0|-|(sleep)|#|-|0|-|0
EOF
  sed -i "s/ESC/$(printf '\033')/" shop.fake
  export RUTILE_FAKE=$PWD/shop.fake
  "$R" stacks puma >got 2>err
  cat >want <<'EOF'
process 100
  thread 100 main (sleep)
    r\x1b[2Jun  /srv/shop/app.rb:7
  thread 110 (sleep)

process 101
  thread 101 main (run)
EOF
  diff want got
  grep -q '^rutile stacks: 1 of 3 processes did not answer: ' err
}

code_that_is_not_counted_yet_is_said() {
  fake_shop
  echo unsettled >>shop.fake
  "$R" calls --last puma >got
  grep -q '^calls after .*: 678 calls, 3 methods, 2 processes, not all code yet (last table)$' got
}

t_case "calls of several processes are added up" calls_are_added_up
t_case "time has its columns, sorts and limits" time_has_its_columns_and_limit
t_case "objects by class and by line" objects_by_class_and_by_line
t_case "JSON Lines have the keys of the mode" json_has_the_keys_of_the_mode
t_case "signals end it with the last table" signals_end_it_with_the_last_table
t_case "--duration ends it" duration_ends_it
t_case "a table fits the terminal" a_table_fits_the_terminal
t_case "--reset resets the counters" reset_counts_anew
t_case "-o says that it replaces a file" a_file_is_not_replaced_silently
t_case "filters reach the tracer" filters_reach_the_tracer
t_case "a target that refuses" a_target_that_refuses
t_case "what a name means but may not be traced" what_a_name_means_but_may_not_be_traced
t_case "bad words are refused with the reason" bad_words
t_case "a command is run and its status passed on" a_command_is_run_and_its_status_passed_on
t_case "a closed pipe ends it quietly" a_closed_pipe_ends_quietly
t_case "under the name foreman-tracer" under_the_name_foreman_tracer
t_case "stacks of processes that answer at the same time" stacks_do_not_mix
t_case "hooks that are still being set are said" code_that_is_not_counted_yet_is_said
t_done
