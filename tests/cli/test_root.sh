#!/bin/bash
# SPDX-License-Identifier: MIT
# What "the application" is, in processes that do all they can to hide it; and what is said when
# nothing of it is called.
. "$SRC/tests/tap.sh"
R=$RUTILE

# rel/1 is the application, "current" the link to it that a deployment makes.
make_app() {
  mkdir -p rel/1/lib rel/1/vendor/bundle other
  ln -s rel/1 current
  cat >rel/1/lib/half.rb <<'END'
def half; 2; end
END
  echo 'def bundled; 3; end' >rel/1/vendor/bundle/bundled.rb
  cat >rel/1/main.rb <<'END'
require_relative "lib/half"
require_relative "vendor/bundle/bundled"
def whole; half + bundled; end
Dir.chdir(ENV["GO"]) if ENV["GO"]
puts "ready"
$stdout.flush
finish = Time.now + 300
until File.exist?(ENV["STOP"]) || Time.now > finish
  whole
  sleep 0.002
end
END
  export STOP=$PWD/stop
}

# has_both RUBY ARGUMENTS...: attached to it, both methods of the application count, and nothing else.
has_both() {
  : >out
  "$@" >out 2>err &
  target=$!
  # shellcheck disable=SC2064
  trap "kill $target 2>/dev/null || :" EXIT
  t_wait grep -q ready out
  "$R" calls --json --last --interval 100ms --duration 1s $target >got 2>why
  kill $target
  wait $target || :
  ruby -rjson -e '
    seen = STDIN.each_line.map { |l| JSON.parse(l)["method"] }.sort
    abort "#{seen}" unless seen == %w[Object#half Object#whole]' <got || { cat why; return 1; }
}

links_and_relative_paths() {
  make_app
  t=$PWD
  has_both ruby current/main.rb
  ln -s "$t/rel/1/main.rb" other/linked.rb
  cd other
  has_both ruby ../current/main.rb
  has_both ruby ../rel/1/main.rb
  cd /
  has_both ruby "/$t//rel/1/main.rb"
  # A deployment starts the server through the link, and the files say so.
  GO=$t/current has_both ruby "$t/other/linked.rb"
}

a_directory_that_was_left() {
  make_app
  t=$PWD
  GO=/ has_both ruby rel/1/main.rb
  cd rel/1
  GO=/tmp has_both ruby main.rb
  cd "$t"
  touch other/Gemfile
  GO=$t/other has_both ruby rel/1/main.rb
}

commands_go_where_they_want() {
  make_app
  cat >rel/1/short.rb <<'END'
require_relative "lib/half"
7.times { half }
END
  for c in 'cd other && exec ruby ../current/short.rb' 'ruby current/short.rb' "cd / && ruby $PWD/current/short.rb"; do
    "$R" calls --json --last -- sh -c "$c" >got
    grep -q '"method":"Object#half","calls":7,' got || { echo "$c"; cat got; return 1; }
  done
}

# Where Rails and Bundler keep it: as they do, but without them.
rails_and_bundler_know_it() {
  make_app
  t=$PWD
  mkdir -p srv/bin
  sed "s|require_relative \"|require \"$t/rel/1/|" rel/1/main.rb >rel/1/config.rb
  cat >srv/bin/rails.rb <<END
require "pathname"
class RailsConfig; def initialize; @root = Pathname.new("$t/current"); end; end
class RailsApp; def initialize; @config = RailsConfig.new; end; def config; abort "asked"; end; end
module Rails; @application = RailsApp.new; def self.root; abort "asked"; end; end
def outside; end
load "$t/rel/1/config.rb"
END
  has_both ruby srv/bin/rails.rb
  mkdir -p bundled/bin
  # A program of a gem: its own directory says nothing.
  mkdir -p gems/server-1.0/bin
  cat >gems/server-1.0/bin/puma <<END
load "$t/rel/1/config.rb"
END
  BUNDLE_GEMFILE=$t/current/Gemfile has_both ruby gems/server-1.0/bin/puma
  cat >gems/server-1.0/bin/puma <<END
autoload :Rails, "$t/never.rb"
module Bundler; @root = "$t/rel/1"; end
load "$t/rel/1/config.rb"
END
  has_both ruby gems/server-1.0/bin/puma
}

tools_are_their_own_application() {
  mkdir -p gems/mytool-1.2/bin gems/mytool-1.2/lib gems/other-1.0/lib site bin
  echo 'class MyTool; def build; OtherGem.new.help; end; end' >gems/mytool-1.2/lib/mytool.rb
  echo 'class OtherGem; def help; end; end' >gems/other-1.0/lib/other_gem.rb
  cat >gems/mytool-1.2/bin/mytool <<END
\$:.unshift "$PWD/gems/mytool-1.2/lib", "$PWD/gems/other-1.0/lib"
require "mytool"
require "other_gem"
5.times { MyTool.new.build }
END
  echo "load '$PWD/gems/mytool-1.2/bin/mytool'" >bin/mytool
  cd site
  for tool in ../bin/mytool ../gems/mytool-1.2/bin/mytool; do
    "$R" calls --json --last -- ruby $tool >got
    grep -q '"method":"MyTool#build","calls":5,' got || { cat got; return 1; }
    not grep -q OtherGem got
  done
}

an_empty_table_says_why() {
  make_app
  mkdir -p gems/thing-1.0
  cp rel/1/lib/half.rb gems/thing-1.0/half.rb
  cat >rel/1/quiet.rb <<END
require "$PWD/gems/thing-1.0/half"
puts "ready"
\$stdout.flush
finish = Time.now + 300
until File.exist?(ENV["STOP"]) || Time.now > finish
  half
  sleep 0.002
end
END
  : >out
  ruby rel/1/quiet.rb >out &
  target=$!
  # shellcheck disable=SC2064
  trap "kill $target 2>/dev/null || :" EXIT
  t_wait grep -q ready out
  : >got
  "$R" calls --interval 100ms $target >got &
  pid=$!
  t_wait grep -qE "^no call in the application: $PWD/rel/1 \(main script\); [1-9][0-9]* calls of any method in .*: 'all'" got || { cat got; return 1; }
  kill $pid
  wait $pid
  "$R" calls --json --last --duration 1s $target >got 2>err
  [ ! -s got ]
  grep -qE "no call in the application: $PWD/rel/1 \(main script\); [1-9][0-9]* calls" err
  "$R" trace --duration 1s $target >got 2>err
  grep -qE "no call in the application: $PWD/rel/1 \(main script\); [1-9][0-9]* calls of any method in .*: 'all' counts .*; '--all-classes' shows those of String" err
  "$R" trace --all-classes --duration 1s $target >got 2>err
  grep -qE "no call in the application: $PWD/rel/1 \(main script\); [1-9][0-9]* calls" err
  not grep -q "all-classes'" err
  "$R" trace --class '!Order' --duration 1s $target >got 2>err
  grep -qE "no call that passes the filter in the application: $PWD/rel/1 " err
  "$R" calls --last --duration 1s all $target >got 2>err
  grep -q 'Object#half' got
  not grep -q 'no call' got err
}


names_as_they_are_written() {
  cat >shop.rb <<'END'
class Order
  def save; check; end
  def check; end
  def self.save; end
end
puts "ready"
$stdout.flush
finish = Time.now + 300
until File.exist?(ENV["STOP"]) || Time.now > finish
  Order.new.save
  Order.save
  sleep 0.002
end
END
  export STOP=$PWD/stop
  : >out
  ruby shop.rb >out &
  target=$!
  # shellcheck disable=SC2064
  trap "kill $target 2>/dev/null || :" EXIT
  t_wait grep -q ready out
  methods() {
    "$R" calls --json --last --interval 100ms --duration 500ms --method "$1" $target |
      grep -o '"method":"[^"]*"' | cut -d '"' -f 4 | LC_ALL=C sort | tr '\n' ' '
  }
  [ "$(methods save)" = "Order#save Order.save " ]
  [ "$(methods 'Order#save')" = "Order#save " ]
  # As a plain trace prints both.
  [ "$(methods 'Order.save')" = "Order#save Order.save " ]
  [ "$(methods '!save')" = "Order#check " ]
  [ "$(methods 'ch*')" = "Order#check " ]
  for inside in save Order.save 'Order#save'; do
    "$R" trace --tree --inside "$inside" --duration 500ms $target >got
    grep -q 'Order#check' got
  done
  # Attached, and from the first line.
  "$R" calls --last --duration 1s --method zzzqqq $target >got
  grep -q "; no name is like 'zzzqqq', most called: .*Order#" got || { cat got; return 1; }
  "$R" calls --last --duration 1s --method 'Order#sav' $target >got
  grep -q "; names like 'Order#sav': Order#save" got || { cat got; return 1; }
  "$R" calls --last --duration 1s --class Odrer $target >got
  grep -q "; names like 'Odrer': Order" got || { cat got; return 1; }
  "$R" trace --inside chekc --duration 1s $target >got 2>err
  grep -q "rutile trace: no call of --inside 'chekc'; names like 'chekc': Order#check" err || { cat err; return 1; }
  echo 'class Order; def save; end; end; Order.new.save' >once.rb
  "$R" calls --method Order#svae -- ruby once.rb >got
  grep -q "; names like 'Order#svae': Order#save" got || { cat got; return 1; }
}

t_case "links and relative paths" links_and_relative_paths
t_case "a directory that was left" a_directory_that_was_left
t_case "commands go where they want" commands_go_where_they_want
t_case "Rails and Bundler know it" rails_and_bundler_know_it
t_case "tools are their own application" tools_are_their_own_application
t_case "an empty table says why" an_empty_table_says_why
t_case "names as they are written" names_as_they_are_written
t_done
