#!/bin/bash
# SPDX-License-Identifier: MIT
# The live screen, driven by keys in a terminal of tmux.
. "$SRC/tests/tap.sh"

have_tmux() {
  command -v tmux >/dev/null || t_skip "tmux is not installed"
}

# start COLUMNS LINES COMMAND: in a server of its own, with its socket in $T
start() {
  have_tmux
  cp "$SRC/tests/fake/shop.fake" .
  [ "${EXTRA-}" = "" ] || printf '%b' "$EXTRA" >>shop.fake
  cat >run.sh <<EOF
export LC_ALL=C.UTF-8 RUTILE_FAKE=$PWD/shop.fake
trap : INT
stty -g >before
$3
echo \$? >rc
stty -g >after
echo THE END
sleep 600
EOF
  socket=$T/tmux.$((started = ${started:-0} + 1))
  tmux -S "$socket" -u -f /dev/null new-session -d -x "$1" -y "$2" "sh run.sh"
  trap 'tmux -S "$socket" kill-server 2>/dev/null || :' EXIT
}

screen() {
  tmux -S "$socket" capture-pane -p
}

keys() {
  tmux -S "$socket" send-keys "$@"
}

# shows REGEX [LINE]; lacks REGEX: what is on the screen. It is drawn from the top, so that one look may
# meet half of it: tests wait until it shows what it must, and lacks what it must not show.
shows() {
  screen | sed -n "${2:-1,\$}p" | grep -qE -- "$1"
}
lacks() {
  not shows "$@"
}
wait_for() {
  t_wait shows "$@" || { screen; return 1; }
}
wait_gone() {
  t_wait lacks "$@" || { screen; return 1; }
}

ended() {
  wait_for 'THE END'
  [ "$(cat rc)" = "$1" ]
  cmp before after
}

table_fits_and_modes_switch() {
  start 90 12 "$RUTILE_FAKE_PROGRAM calls puma"
  wait_for '678 calls in'
  cat >want <<'EOF'
                                             FILENAME LINE            METHOD CALLS
                                /srv/shop/lib/cart.rb   12  Shop::Cart#total   600
                                 /srv/shop/lib/ü漢.rb    3 Shop::Item#naïve?    77
                                     /srv/shop/app.rb    7         Shop.boot     1
EOF
  # The rate's width varies, and with it that of the path.
  as_wanted() {
    screen | sed -n 2,5p | sed -E 's/ +[0-9.]+$//; s/ PER SEC$//' >got
    for f in want got; do sed -E 's/^ +//' $f >$f.trim; done
    diff want.trim got.trim >differs
  }
  t_wait as_wanted || { cat differs; return 1; }
  keys m
  wait_for '^ time '
  wait_for 'cart.rb +12 +Shop::Cart#total +600 +223ms 33.5ms +372us 9.46ms'
  keys 4
  wait_for '^ objects .* 9 allocations'
  wait_for 'cart.rb +12 +Shop::Cart +8'
  keys M
  wait_for '^ objects-total '
  keys q
  ended 0
  wait_for '^objects-total after .*last table'
}

narrow_paths_keep_their_right_end() {
  start 60 8 "$RUTILE_FAKE_PROGRAM time puma"
  wait_for 'cart.rb +12 +.*total +600 +223ms 33.5ms +372us 9.46ms$'
  tmux -S "$socket" resize-window -x 100 -y 20
  wait_for '/srv/shop/lib/cart.rb +12  Shop::Cart#total +600'
  tmux -S "$socket" resize-window -x 20 -y 4
  wait_for '^ time'
  keys q
  ended 0
}

sort_filter_reset_pause_help() {
  start 100 20 "$RUTILE_FAKE_PROGRAM calls puma"
  wait_for 'by calls'
  keys S
  wait_for 'by method'
  wait_for 'Shop.boot' 3 # by its class, "Shop"
  keys i
  wait_for 'by method reversed'
  wait_for 'Shop::Item#naïve[?]' 3
  keys / i t e X BSpace
  wait_for 'filter: ite_'
  wait_for 'No row has this text'
  keys Escape
  wait_for 'cart.rb'
  keys / n a ï Enter
  wait_for "rows with 'naï'"
  wait_gone cart.rb
  keys Escape
  wait_for 'cart.rb'
  keys p
  wait_for '^ PAUSED'
  keys p
  wait_for '^ calls'
  keys r
  wait_for 'Nothing counted yet'
  keys h
  wait_for 'Any key returns'
  keys x
  wait_for 'Nothing counted yet'
  keys a
  wait_for ' all  by'
  grep -q '^app_paths:$' log
  keys c
  wait_for ' all\+C  by'
  keys P
  wait_for '^PID +FILENAME'
  keys C-c
  ended 0
}

many_rows_scroll() {
  EXTRA=$(for i in $(seq 100 199); do printf 'row|100|/srv/x.rb|%d|A|m%d|#|%d|0|0|0|0|0\\n' "$i" "$i" $((10000 - i)); done)
  start 80 13 "$RUTILE_FAKE_PROGRAM calls puma"
  wait_for 'm100 .*9900'
  wait_gone m110
  # The cursor moves down, and scrolls the table at its end.
  for _ in $(seq 10); do keys Down; done
  wait_for m110
  wait_gone 'm100 '
  keys PageDown
  wait_for m119
  keys End
  wait_for 'Shop.boot'
  keys Home
  wait_for 'm100 '
  keys q
  ended 0
}

# Enter opens the method of the cursor: callers, and the calls below it, folded; t shows them one by one.
a_method_opens() {
  EXTRA='event|call|100|100|1000|0|0|1|Shop|boot|.|/srv/shop/app.rb|7||0\n'
  for i in 1 2 3; do
    EXTRA+="event|call|100|100|${i}100|0|1|1|Shop::Item|price|#|/srv/shop/lib/item.rb|3|qty=$i|0\n"
    EXTRA+="event|return|100|100|${i}900|200$i|1|1|Shop::Item|price|#|/srv/shop/lib/item.rb|3||0\n"
  done
  EXTRA+='event|return|100|100|9000|8000|0|1|Shop|boot|.|/srv/shop/app.rb|7||0\n'
  start 90 24 "$RUTILE_FAKE_PROGRAM time puma"
  wait_for '^ time'
  wait_for 'Cart#total'
  keys / b o o t Enter
  wait_gone 'Cart#total'
  keys Enter
  wait_for '^Shop.boot  /srv/shop/app.rb:7$'
  # By the line of the call, of both processes together.
  wait_for '^CALLS FROM *$'
  wait_for '^  600 /srv/shop/lib/cart.rb:12 *$'
  wait_for '^ +1 +8.00us +1.99us +8.00us +8.00us Shop.boot$'
  wait_for '^ +3 +6.01us +6.01us +2.00us +2.00us   Shop::Item#price$'
  grep -q "args: 0 .*inside: Shop.boot " log
  keys BSpace
  wait_gone '^Called from'
  wait_for 'Shop.boot'
  keys t
  wait_for 'Shop::Item#price\(qty=2\)'
  # What does not fit is wrapped and can be scrolled to, also when the window is resized.
  wait_for '^ Backspace goes back  q quit  h help *$'
  tmux -S "$socket" resize-window -x 40 -y 8
  wait_for 'arrows scroll [(]1-6'
  lacks 'qty=3'
  keys End
  wait_for 'qty=3'
  tmux -S "$socket" resize-window -x 90 -y 24
  wait_for '^ Backspace goes back  q quit  h help *$'
  keys Escape
  wait_gone 'qty=2'
  keys q
  ended 0
}

the_terminal_is_restored() {
  for sig in TERM HUP; do
    start 80 10 "(for i in \$(seq 1000); do [ ! -e go ] || break; sleep 0.1; done; kill -$sig \$(cat pid)) & sh -c 'echo \$\$ >pid; exec $RUTILE_FAKE_PROGRAM calls puma'"
    wait_for '^ calls'
    touch go
    ended 0
    wait_for 'last table'
    rm -f go
    tmux -S "$socket" kill-server
  done
  for sig in SEGV ABRT QUIT; do
    start 80 10 "(for i in \$(seq 1000); do [ ! -e go ] || break; sleep 0.1; done; kill -$sig \$(cat pid)) & sh -c 'echo \$\$ >pid; exec $RUTILE_FAKE_PROGRAM calls puma'"
    wait_for '^ calls'
    touch go
    wait_for 'THE END'
    [ "$(cat rc)" -gt 128 ]
    cmp before after
    rm -f go
    tmux -S "$socket" kill-server
  done
}

the_end_of_the_target_is_said() {
  EXTRA='ends\n'
  start 90 12 "$RUTILE_FAKE_PROGRAM calls puma"
  ended 0
  wait_for 'rutile calls: puma: cluster worker 0: \[shop\] \(PID 100\) has ended'
  wait_for 'last table'
}

a_commands_output_is_kept_for_the_end() {
  start 90 14 "$RUTILE_FAKE_PROGRAM calls -- sh -c 'echo hidden; for i in \$(seq 1000); do [ ! -e go ] || break; sleep 0.1; done; exit 3'"
  wait_for '^ calls'
  not shows hidden
  touch go
  ended 3
  wait_for '^hidden'
}

# Another mode is another tracer: it continues with what the shell has started, and will start.
modes_of_a_command() {
  command -v ruby >/dev/null || t_skip "ruby is not installed"
  cat >w.rb <<'EOF'
def w(_); sleep 0.001; end
w('x') until File.exist?(ARGV[0])
EOF
  start 90 14 "$RUTILE calls -- sh -c 'ruby w.rb first; while [ ! -e next ]; do sleep 0.1; done; ruby w.rb second; exit 3'"
  wait_for '^ calls'
  wait_for 'w.rb +1 +Object#w +[1-9]'
  keys 2
  wait_for '^ time'
  wait_for 'w.rb +1 +Object#w +[1-9]'
  touch first
  keys 1
  wait_for '^ calls'
  wait_for 'Nothing counted yet'
  touch next
  wait_for 'w.rb +1 +Object#w +[1-9]'
  touch second
  ended 3
}

a_terminal_that_is_not_known() {
  start 90 20 "TERM=frob $RUTILE_FAKE_PROGRAM calls --duration 300ms puma"
  ended 0
  wait_for "terminal type 'frob' is not known: tables instead of a screen"
  wait_for 'last table'
}

t_case "a table that fits; modes switch" table_fits_and_modes_switch
t_case "narrow: paths keep their right end; resizing" narrow_paths_keep_their_right_end
t_case "sort, filter, reset, pause, help, app and all" sort_filter_reset_pause_help
t_case "many rows scroll" many_rows_scroll
t_case "Enter opens a method, t traces it" a_method_opens
t_case "the terminal is restored after signals and crashes" the_terminal_is_restored
t_case "the end of the target is reported" the_end_of_the_target_is_said
t_case "a command's output is kept for the end" a_commands_output_is_kept_for_the_end
t_case "modes of a command that starts Ruby" modes_of_a_command
t_case "a terminal that is not known" a_terminal_that_is_not_known
t_done
