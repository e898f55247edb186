#!/bin/bash
# SPDX-License-Identifier: MIT
# Scripts that run for long: metrics, the live screen, and how they end.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf

# Ends a script that a failed test left.
stop() {
  kill -KILL "$script" 2>/dev/null || :
  [ ! -S "$T/tmux" ] || tmux -S "$T/tmux" kill-server 2>/dev/null || :
}

# start ARGUMENT...: in the background, until it is attached.
start() {
  "$RUTILE" run "$@" >out 2>err &
  script=$!
  trap stop EXIT
  t_wait grep -q '^Attached' err || { cat err; return 1; }
}

counting='interval:ms:10 { @n = count(); @by["a\"b", 2] = sum((uint64)3); @h = hist(5); }'

# metric NAME: the value of a sample of the answer.
metric() {
  grep -F -- "$1 " answer | sed 's/.* //'
}

metrics_are_what_the_maps_hold() {
  port=$((20000 + $$ % 20000))
  start --metrics "$port" -e "$counting"
  served() {
    curl -sf -o answer "http://127.0.0.1:$port/metrics" && [ "$(metric rutile_script_n_total)" -ge 3 ]
  }
  t_wait served
  n=$(metric rutile_script_n_total)
  [ "$(tail -n 1 answer)" = "# EOF" ]
  [ "$(metric rutile_script_h_count)" -ge 3 ]
  [ "$(metric 'rutile_script_by_total{key0="a\"b",key1="2"}')" -ge 9 ]
  # On loopback alone.
  ss -Hltn "sport = :$port" | grep -q "127.0.0.1:$port"
  kill -INT "$script"
  wait "$script"
  [ "$(sed -n 's/^@n: //p' out)" -ge "$n" ]
}

metrics_in_a_file_end_with_the_last_values() {
  "$RUTILE" run -q --metrics ./maps.prom -e 'begin { @a = count(); } end { @a = count(); }' >out
  cp maps.prom answer
  [ "$(metric rutile_script_a_total)" = 2 ]
  grep -q '^@a: 2$' out
  [ "$(ls)" = "$(printf 'answer\nmaps.prom\nout')" ]
}

metrics_at_an_address_that_is_taken() {
  not "$RUTILE" run --metrics 300000 -e 'begin { }' 2>err
  grep -q "invalid address '300000'" err
  not "$RUTILE" run --metrics /no/such/place/x -e 'begin { }' 2>err
  grep -q "cannot write '/no/such/place/x'" err
}

screen() {
  tmux -S "$T/tmux" capture-pane -p
}
shows() {
  screen | grep -qE -- "$1"
}
lacks() {
  not shows "$1"
}

the_screen_sorts_filters_and_resets() {
  script=$$0
  cat >run.sh <<END
export LC_ALL=C.UTF-8
"$RUTILE" run --monitor -e 'begin { @a["low"] = 1; @a["high"] = 50; printf("it began\n"); } interval:s:100 { }'
echo "THE END \$?"
sleep 600
END
  tmux -S "$T/tmux" -u -f /dev/null new-session -d -x 90 -y 24 "sh run.sh"
  trap stop EXIT
  t_wait shows '@a\[high\]: 50'
  t_wait shows '^it began'
  # By value, the largest first, and the other way round.
  [ "$(screen | grep -n '@a' | head -n 1 | grep -c high)" = 1 ]
  tmux -S "$T/tmux" send-keys i
  t_wait shows 'by value reversed'
  [ "$(screen | grep '@a' | head -n 1 | grep -c low)" = 1 ]
  tmux -S "$T/tmux" send-keys /
  tmux -S "$T/tmux" send-keys low Enter
  t_wait lacks 'high'
  t_wait shows '@a\[low\]: 1'
  tmux -S "$T/tmux" send-keys / Escape r
  t_wait shows 'The maps are empty'
  tmux -S "$T/tmux" send-keys q
  t_wait shows 'THE END 0'
  t_wait shows '^it began'
}

# The programs that the script has loaded, by the identifiers of the kernel, are unloaded.
gone() {
  bpftool prog show | sed -n 's/^\([0-9]*\): .*/\1/p' | sort >after
  [ -z "$(comm -12 ours after)" ]
}

a_script_that_is_killed_leaves_nothing() {
  start -e 'tracepoint:syscalls:sys_enter_getppid { @[comm] = count(); } uprobe:libc:getppid { @u = count(); } profile:hz:7 { @p = count(); }'
  sed -n 's/^prog_id:\t*//p' /proc/"$script"/fdinfo/* | sort -u >ours
  [ "$(wc -l <ours)" -ge 3 ]
  kill -KILL "$script"
  wait "$script" 2>/dev/null || :
  t_wait gone
}

interrupts_print_the_maps_once() {
  start -e "$counting"
  kill -INT "$script"
  kill -INT "$script" 2>/dev/null || :
  kill -TERM "$script" 2>/dev/null || :
  wait "$script"
  [ "$(grep -c '^@n: ' out)" = 1 ]
  [ "$(grep -c '^@h:' out)" = 1 ]
}

# Ends all that the test of slow output leaves when it fails.
stop_slow() {
  kill -KILL "$script" "$reader" "$caller" 2>/dev/null || :
}
has_ended() {
  not kill -0 "$script" 2>/dev/null || grep -q '^State:.*Z' "/proc/$script/status"
}

an_interrupt_ends_a_script_whose_output_is_slow() {
  mkfifo slow
  (
    while IFS= read -r -N 4096 part; do
      printf '%s' "$part"
      [ -e ended ] || sleep 0.1
    done
    printf '%s' "$part"
  ) <slow >shown &
  reader=$!
  dd if=/dev/zero of=/dev/null bs=1 2>/dev/null &
  caller=$!
  "$RUTILE" run -e "tracepoint:raw_syscalls:sys_enter /pid == $caller/ { printf(\"%d %d %s\\n\", nsecs, args.id, comm); } end { printf(\"over\\n\"); }" >slow 2>err &
  script=$!
  trap stop_slow EXIT
  t_wait test -s shown
  kill -INT "$script"
  t_wait has_ended
  wait "$script"
  kill "$caller"
  : >ended
  wait "$reader"
  grep -qx over shown
}

commands_of_a_script_can_be_interrupted() {
  "$RUTILE" run -q --unsafe -e 'begin { system("exec grep SigBlk /proc/self/status"); }' >out
  grep SigBlk /proc/self/status >want
  grep -qxFf want out
}

without_rights_one_line_says_so() {
  cp "$RUTILE" ./rutile-nobody
  chmod 755 . "$t_root"
  not setpriv --reuid 65534 --regid 65534 --clear-groups ./rutile-nobody run -e 'begin { @ = 1; }' 2>err
  [ "$(wc -l <err)" = 1 ] || { cat err; return 1; }
  grep -qiE "permi|root|CAP_" err || { cat err; return 1; }
}

processes_and_files_that_are_not_there() {
  not "$RUTILE" run -p 4194304 -e 'uprobe:libc:getppid { }' 2>err
  [ "$(wc -l <err)" -le 4 ]
  not "$RUTILE" run /no/such/script.bt 2>err
  grep -q "cannot open '/no/such/script.bt'" err
  head -c 100000 /dev/urandom >noise
  not "$RUTILE" run ./noise >out 2>err
  [ "$(wc -c <err)" -lt 100000 ]
  not "$RUTILE" run -e 'let @a = hash(4000000000); begin { @a[1] = 1; }' 2>err
  [ -s err ]
}

a_process_that_ends_ends_the_script() {
  sleep 1000 &
  target=$!
  start -p "$target" -e 'interval:ms:10 { @n = count(); } end { printf("over\n"); }'
  kill "$target"
  wait "$script"
  grep -q '^over$' out
}

t_case "metrics are what the maps hold" metrics_are_what_the_maps_hold
t_case "metrics in a file end with the last values" metrics_in_a_file_end_with_the_last_values
t_case "metrics at an address that cannot be had are refused" metrics_at_an_address_that_is_taken
t_case "the screen sorts, filters and resets" the_screen_sorts_filters_and_resets
t_case "a script that is killed leaves nothing attached" a_script_that_is_killed_leaves_nothing
t_case "interrupts print the maps once" interrupts_print_the_maps_once
t_case "an interrupt ends a script with slow output" an_interrupt_ends_a_script_whose_output_is_slow
t_case "commands of a script can be interrupted" commands_of_a_script_can_be_interrupted
t_case "without rights one line says so" without_rights_one_line_says_so
t_case "processes and files that are not there" processes_and_files_that_are_not_there
t_case "a process that ends ends the script" a_process_that_ends_ends_the_script
t_done
