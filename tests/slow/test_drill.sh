#!/bin/bash
# SPDX-License-Identifier: MIT
# The screen of `time`, driven by keys in a terminal of tmux, on a real program: a method opens, is traced and explained.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
: "${RUBY:=ruby}"

screen() {
  tmux -S "$T/tmux" capture-pane -p
}
keys() {
  tmux -S "$T/tmux" send-keys "$@"
}
shows() {
  screen | grep -qE -- "$1"
}
wait_for() {
  t_wait shows "$@" || { screen; return 1; }
}

# On a busy machine the program may not have run in those two seconds.
explained() {
  keys x
  t_wait shows 'Slowest requests|No call of|failed'
  if shows 'because'; then return 0; fi
  keys BSpace
  return 1
}

# The program: $program.
start_shop() {
  cat >shop.rb <<'RUBY'
class Item
  def price(i) = (1..i).sum
  def slow = sleep(0.02)
end
class Order
  def initialize = @item = Item.new
  def total = 5.times.sum { |i| @item.price(i * 100) } + shipping
  def shipping = @item.slow
end
puts 'ready'
$stdout.flush
loop { Order.new.total }
RUBY
  "$RUBY" --disable-gems shop.rb >out &
  program=$!
  trap 'kill $program; tmux -S "$T/tmux" kill-server 2>/dev/null || :' EXIT
  t_wait grep -q ready out
}

a_method_is_opened() {
  need_bpf
  start_shop
  tmux -S "$T/tmux" -u -f /dev/null new-session -d -x 100 -y 40 "$RUTILE time $program"
  wait_for 'Order#total'
  keys / O r d e r '#' t o t a l Enter
  t_wait not shows 'Item#price'
  keys Enter
  wait_for '^Called from'
  wait_for 's Order#total$'
  wait_for 's   Order#shipping$'
  wait_for 's     Item#slow$'
  keys BSpace
  t_wait not shows '^Called from'
  keys t
  wait_for 'Item#price\(i=300\)'
  keys BSpace
  t_wait not shows 'i=300'
  t_wait explained
  wait_for 'This request took'
  wait_for 'Item#slow'
  wait_for 'sleeping'
  keys q
  t_wait not tmux -S "$T/tmux" has-session
}

# The screen of `profile`, of waits: the same keys.
a_profile_is_opened() {
  need_bpf
  start_shop
  tmux -S "$T/tmux" -u -f /dev/null new-session -d -x 100 -y 40 "$RUTILE profile --wall --refresh 500ms $program >/dev/tty 2>err; cat err; sleep 60"
  wait_for 'Order#total'
  # A filter leaves one row.
  keys / O r d e r '#' t o t a l Enter
  t_wait not shows 'Kernel#sleep'
  keys Enter
  wait_for 'Called from'
  wait_for '^ .* Order#total$'
  wait_for '   Order#shipping$'
  wait_for '     Item#slow$'
  wait_for ' [(]sleep[)]$'
  keys BSpace
  t_wait not shows 'Called from'
  keys t
  wait_for 'Order#total'
  wait_for 'Backspace goes back'
  keys BSpace
  t_wait explained
  wait_for 'This request took'
  wait_for 'sleeping'
  keys q
  # The table at the end.
  wait_for '% +Name'
}

t_case 'a method is opened, traced and explained' a_method_is_opened
t_case 'a row of a profile is opened, traced and explained' a_profile_is_opened
t_done
