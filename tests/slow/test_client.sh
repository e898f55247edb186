#!/bin/bash
# SPDX-License-Identifier: MIT
# One stack from Ruby over a database client's C functions to the kernel's wait for a disk, in the order of the calls: SQLite
# reads tables from a file system on a disk of its own, of which nothing is in memory.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"
ruby=${RUBY:-ruby}
disk='' pid=''
clean_up() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || :
  cd /
  umount "$T/mnt" 2>/dev/null || :
  [ -z "$disk" ] || losetup -d "$disk"
}

test_reads() {
  need_bpf
  "$ruby" -e 'require "sqlite3"' 2>/dev/null || t_skip "no sqlite3 for Ruby (ruby-sqlite3)"
  truncate -s 128M image
  disk=$(losetup -f --show image) || t_skip "no loop devices here"
  trap clean_up EXIT
  mkfs.ext4 -q "$disk"
  mkdir mnt
  mount "$disk" mnt
  cat >app.rb <<'RUBY'
require "sqlite3"
FILE = "mnt/shop.db"
class Shop
  def total(db) = db.execute("SELECT count(*), sum(length(note)) FROM items")
end
class App
  def call(db) = Shop.new.total(db)
end
db = SQLite3::Database.new(FILE)
db.execute("CREATE TABLE items (note TEXT)")
db.transaction { 20_000.times { |i| db.execute("INSERT INTO items VALUES (?)", [i.to_s * 300]) } }
db.close
system("sync")
File.write("ready", "")
until File.exist?("stop")
  File.open(FILE) { |f| f.advise(:dontneed) }
  db = SQLite3::Database.new(FILE)
  App.new.call(db)
  db.close
end
RUBY
  "$ruby" app.rb & pid=$!
  t_wait test -e ready
  "$RUTILE" profile "$pid" --off-cpu --folded --duration 5s -o trace >out
  read_bytes=$(sed -n 's/^read_bytes: //p' "/proc/$pid/io")
  : >stop
  wait "$pid"
  pid=''
  grep io_schedule out | sort -t' ' -k2n | tail -3
  # The kernel counts what it read from the disk for this process.
  [ "$read_bytes" -gt 10000000 ]
  awk '/;App#call;/ && /;io_schedule;.*\(disk\) / { all += $NF }
    /;App#call;Shop#total;SQLite3::Database#execute;.*;SQLite3::Statement#step;(\[sqlite3_native.so\];)*sqlite3_step;.*;(__libc_)?pread(64)?[^;]*;entry_SYSCALL_64[^;]*;do_syscall_64;.*;io_schedule;.*schedule;.*\(disk\) / { good += $NF }
    END { print good, all; exit !(all > 0 && good > all * 0.9) }' out
}
t_case "from Ruby over SQLite to the disk" test_reads
t_done
