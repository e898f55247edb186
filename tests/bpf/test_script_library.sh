#!/bin/bash
# SPDX-License-Identifier: MIT
# The scripts that are installed with rutile, each beside an independent count.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf

script='' disk=''

# What a test leaves when it ends, or fails.
clean_up() {
  [ -z "$script" ] || kill -INT "$script" 2>/dev/null || :
  umount mnt 2>/dev/null || :
  [ -z "$disk" ] || losetup -d "$disk"
}

# begin SCRIPT ARGUMENT...: runs it until finish; its output is in the file "out".
begin() {
  trap clean_up EXIT
  "$RUTILE" run "$@" >out 2>err &
  script=$!
  t_wait grep -q '^Attached' err || { cat err; return 1; }
}

finish() {
  kill -INT "$script"
  wait "$script" || { cat err; return 1; }
  script=''
}

# An own name for a program: others of that kind run on the machine too.
named() {
  cp "$(type -P "$1")" "$T/$2"
}

# total REGEX: sum of the numbers behind ": " of lines that match.
total() {
  awk -v re="$1" '$0 ~ re { n += $NF } END { print n + 0 }' out
}

# rows NAME: sum of the counts of the histograms of keys that match, "@usecs[W".
hist_total() {
  awk -v re="$1" '/^@/ { on = index($0, re) == 1 } on && /\|/ { sub(/.*[])] */, ""); n += $1 }
    END { print n + 0 }' out
}

# A disk of 8 MiB that only the test uses: $disk.
make_disk() {
  trap clean_up EXIT
  truncate -s 8M image
  disk=$(losetup -f --show "$PWD/image")
}

completed() {
  awk '{ print $1 + $5 }' "/sys/block/${disk#/dev/}/stat"
}

all_scripts_are_listed_and_compile() {
  "$RUTILE" run --list >list
  for f in "$SRC"/share/rutile/scripts/*.bt; do
    name=$(basename "$f" .bt)
    grep -q "^$name  *[a-zA-Z]" list || { echo "$name has no summary"; return 1; }
    head -n 1 "$f" | grep -q "^// $name: "
    arguments=()
    [ "$name" != rubylib ] || arguments=(libc getpid)
    # Probes of Ruby are of a process; it is not looked at here.
    case $name in rubysql | rubyroutes | rubyalloc | rubygvl) arguments=(-p $$) ;; esac
    "$RUTILE" run -d "$name" "${arguments[@]}" >code 2>err || { cat err; return 1; }
    grep -q instructions code
    grep -qx "## $name" "$SRC/docs/installed-scripts.md" || { echo "$name has no page"; return 1; }
  done
  [ "$(wc -l <list)" = "$(ls "$SRC"/share/rutile/scripts/*.bt | wc -l)" ]
  not "$RUTILE" run runqlatt 2>err
  grep -q "did you mean 'runqlat'" err
}

block_requests() {
  make_disk
  begin blocklat
  before=$(completed)
  dd if=/dev/zero of="$disk" bs=4k count=20 oflag=direct 2>/dev/null
  dd if="$disk" of=/dev/null bs=4k count=10 iflag=direct 2>/dev/null
  count=$(($(completed) - before))
  finish
  [ "$count" -ge 30 ]
  [ "$(hist_total @usecs)" -ge "$count" ]
}

block_sizes_by_process() {
  make_disk
  named dd "dd-$$"
  begin blocksize
  "./dd-$$" if=/dev/zero of="$disk" bs=4k count=25 oflag=direct 2>/dev/null
  finish
  [ "$(total "^@total.dd-$$")" = $((25 * 4096)) ]
  [ "$(hist_total "@bytes[dd-$$")" = 25 ]
}

files_that_are_opened() {
  named cat "cat-$$"
  echo here >here-$$
  begin opens
  "./cat-$$" here-$$ here-$$ gone-$$ >/dev/null 2>&1 || :
  finish
  [ "$(grep -c "cat-$$ .* [0-9][0-9]*  *here-$$\$" out)" = 2 ]
  [ "$(grep -c "cat-$$ .* -2  *gone-$$\$" out)" = 1 ]
  begin opens failed
  "./cat-$$" here-$$ gone-$$ >/dev/null 2>&1 || :
  finish
  [ "$(grep -c "here-$$\$" out)" = 0 ]
  [ "$(grep -c "gone-$$\$" out)" = 1 ]
}

programs_that_are_executed() {
  named true "true-$$"
  begin execs
  for _ in 1 2 3; do "./true-$$"; done
  finish
  me=$BASHPID
  [ "$(grep -c "  *$me  *./true-$$\$" out)" = 3 ] || { cat out; return 1; }
}

processes_that_end() {
  named sh "sh-$$"
  begin exits
  "./sh-$$" -c 'exit 3' || :
  "./sh-$$" -c 'kill -9 $$' || :
  finish
  grep -q "sh-$$ .* 3\$" out
  grep -q "sh-$$ .* -9\$" out
}

system_calls_by_process() {
  named dd "dd-$$"
  strace -f -c -o counts "./dd-$$" if=/dev/zero of=/dev/null bs=1 count=3000 2>/dev/null
  counted=$(awk '$NF == "total" { print $(NF - 1) + 0 ? $(NF - 2) : $(NF - 1) }' counts)
  begin syscount
  "./dd-$$" if=/dev/zero of=/dev/null bs=1 count=3000 2>/dev/null
  finish
  seen=$(total "^@process.*dd-$$")
  # strace does not see the first execve, and the kernel's calls of the loader may differ by a few.
  [ "$seen" -ge $((counted - 20)) ] && [ "$seen" -le $((counted + 20)) ] || {
    echo "$seen calls, strace says $counted"
    return 1
  }
  [ "$(total '^@calls.read')" -ge 3000 ]
}

time_in_system_calls() {
  begin syslat
  sleep 0.3
  finish
  [ "$(total '^@slowest.clock_nanosleep')" -ge 300000000 ]
  grep -q '^@time\[clock_nanosleep\]: { .count = ' out
}

signals_that_are_sent() {
  sleep 1000 &
  first=$!
  sleep 1000 &
  second=$!
  begin signals
  kill -USR2 $first
  kill -KILL $second
  finish
  grep -qE " 12 +User defined signal 2 +$first +sleep" out
  grep -qE " 9 +Killed +$second +sleep" out
}

no_ports() {
  awk '/^Udp: [0-9]/ { print $3 }' /proc/net/snmp
}

packets_that_are_dropped() {
  begin drops
  before=$(no_ports)
  for _ in $(seq 30); do echo x >/dev/udp/127.0.0.1/9 || :; done 2>/dev/null
  count=$(($(no_ports) - before))
  finish
  [ "$count" -ge 30 ]
  [ "$(total '^@reason')" -ge "$count" ] || { cat out; return 1; }
}

# Connections that a full queue of a socket does not take: their first segment is sent again. In a network
# of their own, the kernel's counters are theirs alone. A timer that ends while the machine is too busy to
# have sent the first one counts in /proc/net/tcp, but sends nothing.
segments_that_are_sent_again() {
  begin retransmits
  unshare -n sh -c 'ip link set lo up && exec perl -MSocket -MFcntl -e "$1"' sh '
    socket(L, PF_INET, SOCK_STREAM, 0); bind(L, sockaddr_in(0, INADDR_LOOPBACK)); listen(L, 0);
    my ($port) = sockaddr_in(getsockname(L));
    for (1 .. 4) { socket($c, PF_INET, SOCK_STREAM, 0); fcntl($c, F_SETFL, O_NONBLOCK);
      connect($c, sockaddr_in($port, INADDR_LOOPBACK)); push @all, $c; }
    $| = 1; print "$port\n"; sleep 100' >port &
  connecting=$!
  counter() {
    nsenter --net=/proc/self/fd/9 cat /proc/net/snmp /proc/net/netstat | awk -v name="$1" '
      $1 == last { for (i = 2; i <= NF; i++) if (field[i] == name) print $i }
      { last = $1; split($0, field) }'
  }
  again() {
    count=$(($(counter RetransSegs) - $(counter TCPRetransFail)))
    [ "$count" -ge 1 ]
  }
  t_wait test -s port
  exec 9<"/proc/$connecting/ns/net"
  t_wait again
  kill -KILL $connecting
  wait $connecting || :
  again
  finish
  seen=$(total "^@segments.*127.0.0.1, $(cat port)]")
  [ "$seen" = "$count" ] || { echo "$seen of $count"; cat out; return 1; }
}

pages_that_are_written_back() {
  make_disk
  mkfs.ext4 -q "$disk"
  mkdir mnt
  mount "$disk" mnt
  begin writeback
  dd if=/dev/zero of=mnt/file bs=4k count=300 2>/dev/null
  sync -f mnt/file
  finish
  [ "$(total '^@pages')" -ge 300 ] || { cat out; return 1; }
  [ "$(hist_total @msecs)" -ge 1 ]
}

tls_bytes_by_process() {
  named openssl "ossl-$$"
  openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=x 2>/dev/null
  begin tlscalls
  "./ossl-$$" s_server -quiet -accept 127.0.0.1:0 -key key.pem -cert cert.pem -naccept 1 >got 2>server.err < <(sleep 60) &
  server=$!
  listening() { port=$(ss -Hltnp | sed -n "s/.*127.0.0.1:\([0-9]*\) .*pid=$server,.*/\1/p"); [ -n "$port" ]; }
  t_wait listening
  { head -c 10000 /dev/zero | tr '\0' x; sleep 1; } |
    "./ossl-$$" s_client -quiet -no_ign_eof -connect "127.0.0.1:$port" >/dev/null 2>&1 || :
  wait $server || :
  finish
  [ "$(wc -c <got)" = 10000 ]
  [ "$(total "^@written_bytes.ossl-$$")" = 10000 ] || { cat out; return 1; }
  [ "$(total "^@read_bytes.ossl-$$")" = 10000 ]
  [ "$(hist_total "@handshake_usecs[ossl-$$")" -ge 1 ] || [ "$(hist_total "@write_usecs[ossl-$$")" -ge 1 ]
}

# Name and context switches of a program that sleeps 200 times, which it prints.
sleeper() {
  perl -e '$0 = $ARGV[0]; select(undef, undef, undef, 0.001) for 1 .. 200;
    open(S, "/proc/self/status"); $n = 0; /ctxt_switches:\s+(\d+)/ and $n += $1 while <S>; print "$n\n"' "$1"
}

waits_for_a_cpu() {
  begin runqlat "slp-$$"
  switches=$(sleeper "slp-$$")
  finish
  seen=$(hist_total @usecs)
  # Once for each time that it was taken off, and once for the first. The kernel leaves out the program of
  # an event that comes while another one's runs on the CPU.
  [ "$seen" -ge $((switches * 3 / 4)) ] && [ "$seen" -le $((switches + 5)) ] || { echo "$seen, $switches"; return 1; }
}

time_off_the_cpu() {
  begin offcpu "slp-$$"
  before=$(date +%s%N)
  perl -e '$0 = $ARGV[0]; select(undef, undef, undef, 0.3)' "slp-$$"
  elapsed=$((($(date +%s%N) - before) / 1000))
  finish
  usecs=$(awk -v re="@usecs[slp-$$" '/^@/ { on = index($0, re) == 1 } on && /^\]: / { n += $2 } END { print n + 0 }' out)
  [ "$usecs" -ge 300000 ] && [ "$usecs" -le "$elapsed" ] || { echo "$usecs of $elapsed"; cat out; return 1; }
}

calls_that_wait_for_the_disk() {
  named dd "dd-$$"
  begin fsyncs
  "./dd-$$" if=/dev/zero of=f bs=4k count=1 conv=fsync 2>/dev/null
  "./dd-$$" if=/dev/zero of=f bs=4k count=1 conv=fdatasync 2>/dev/null
  finish
  [ "$(total "^@calls.dd-$$, tracepoint:syscalls:sys_exit_fsync")" = 1 ]
  [ "$(total "^@calls.dd-$$, tracepoint:syscalls:sys_exit_fdatasync")" = 1 ]
  [ "$(hist_total "@usecs[dd-$$")" = 2 ]
}

stacks_on_the_cpu() {
  begin cpustacks "spin-$$"
  ticks=$(perl -e '$0 = $ARGV[0]; do { 1 for 1 .. 100000 } while (times)[0] + (times)[1] < 0.6;
    print int(99 * ((times)[0] + (times)[1]))' "spin-$$")
  finish
  seen=$(awk -v re="@samples[spin-$$" '/^@/ { on = index($0, re) == 1 } on && /^\]: / { n += $2 } END { print n + 0 }' out)
  [ "$seen" -ge $((ticks / 2)) ] && [ "$seen" -le $((ticks * 3 / 2)) ] || { echo "$seen, not $ticks"; return 1; }
}

t_case "all scripts are listed, and compile" all_scripts_are_listed_and_compile
t_case "blocklat: requests of a disk are those that the disk counts" block_requests
t_case "blocksize: bytes by process" block_sizes_by_process
t_case "opens: files and errors" files_that_are_opened
t_case "execs: one line for each program" programs_that_are_executed
t_case "exits: exit status and signal" processes_that_end
t_case "syscount: as many calls as strace counts" system_calls_by_process
t_case "syslat: a sleep is a slow call" time_in_system_calls
t_case "signals: number, name and receiver" signals_that_are_sent
t_case "drops: packets without a socket" packets_that_are_dropped
t_case "retransmits: as many segments as the kernel counts" segments_that_are_sent_again
t_case "writeback: pages of a file system" pages_that_are_written_back
t_case "tlscalls: bytes that openssl sends" tls_bytes_by_process
t_case "runqlat: once for each switch to the thread" waits_for_a_cpu
t_case "offcpu: the time that a thread sleeps" time_off_the_cpu
t_case "fsyncs: calls by process" calls_that_wait_for_the_disk
t_case "cpustacks: as many samples as CPU time" stacks_on_the_cpu
t_done
