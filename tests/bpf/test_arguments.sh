#!/bin/bash
# SPDX-License-Identifier: MIT
# What system calls are given beside numbers: strings that are long or not there, lists, sets, addresses.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

# An empty string is printed by babeltrace2 as the one before; view prints it.
show() {
  "$RUTILE" view "$1" >"$1.out" 2>/dev/null
  [ "$(wc -l <"$1.out")" = "$(readers "$1")" ]
}

# A string that fits and one that is cut; --string-limit moves it.
test_cut() {
  need_bpf
  cat >work.py <<'END'
import os
for n in 638, 639, 640, 4094, 4095:
    try: os.open("/" + "y" * (n - 1), 0)
    except OSError: pass
    try: os.rename("/" + "a" * (n - 1), "/" + "b" * (n - 1))
    except OSError: pass
END
  lengths() { sed -n "s/.* syscall_entry_$2: .*$3 = \"\(\/[yab][^\"]*\)\".*/\1/p" "$1.out" | grep '/[yab][yab]' | awk '{print length($0), substr($0, length($0) - 3)}'; }
  "$RUTILE" record -o d -e 'syscall:openat,syscall:rename' -- /usr/bin/python3 work.py
  "$RUTILE" record -o w --string-limit 4K -e 'syscall:openat,syscall:rename' -- /usr/bin/python3 work.py
  "$RUTILE" record -o s --string-limit 16 -e 'syscall:openat,syscall:rename' -- /usr/bin/python3 work.py
  show d; show w; show s
  [ "$(lengths d openat filename | tr '\n' ';')" = '638 yyyy;639 yyyy;639 y...;639 y...;639 y...;' ]
  [ "$(lengths d rename newname | tr '\n' ';')" = '638 bbbb;639 bbbb;639 b...;639 b...;639 b...;' ]
  [ "$(lengths w openat filename | tr '\n' ';')" = '638 yyyy;639 yyyy;640 yyyy;4094 yyyy;4095 yyyy;' ]
  [ "$(lengths w rename oldname | tr '\n' ';')" = '638 aaaa;639 aaaa;640 aaaa;4094 aaaa;4095 aaaa;' ]
  [ "$(lengths w rename newname | tr '\n' ';')" = '638 bbbb;639 bbbb;640 bbbb;4094 bbbb;4095 bbbb;' ]
  [ "$(lengths s openat filename | sort -u)" = '15 y...' ]
  for limit in 15 4097 x; do
    if "$RUTILE" record -o e --string-limit $limit -- true 2>err; then return 1; fi
    grep -q '16 to 4096 bytes' err
  done
}

# A page of the file that holds the name was never touched: the kernel fetches it in the call.
test_not_resident() {
  need_bpf
  printf '/etc/hostname\0%4096s' '' >name
  cat >work.py <<'END'
import ctypes, mmap
libc = ctypes.CDLL(None)
f = open("name", "r+b")
m = mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE)
libc.open(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), 0x80000)
libc.open(ctypes.c_void_p(8), 0x80001)
libc.open(b"", 0x80002)
libc.open(ctypes.c_void_p(0), 0x80003)
fd = libc.open(b"/etc/hostname", 0x80000)
libc.read(fd, ctypes.create_string_buffer(10), 3)
END
  "$RUTILE" record -o t -e syscall,sched -- /usr/bin/python3 work.py
  show t
  grep -q 'entry_openat.*flags = 524288, .*filename = "<fault>"' t.out
  grep -q 'entry_openat.*flags = 524289, .*filename = "<fault>"' t.out
  grep -q 'entry_openat.*flags = 524290, .*filename = ""' t.out
  grep -q 'entry_openat.*flags = 524291, .*filename = ""' t.out
  # Read at the end of that call and of no other.
  [ "$(grep -c 'rutile_syscall_string: .*argument = 1, value = "/etc/hostname"' t.out)" = 1 ]
  [ "$(grep -A3 'flags = 524289,' t.out | grep -c rutile_syscall_string)" = 0 ]
  "$RUTILE" iolog --no-progress t >log 2>/dev/null || "$RUTILE" iolog t >log
  [ "$(grep -c 'open.*/etc/hostname' log)" -ge 2 ]
}

test_lists() {
  need_bpf
  cat >work.py <<'END'
import os, select, socket, subprocess
subprocess.run(["/bin/echo", "one", "two words"], stdout=subprocess.DEVNULL)
subprocess.run(["/bin/true"] + ["x"] * 40)
a, b = socket.socketpair()
r, w = os.pipe()
os.write(w, b"x")
p = select.poll()
for fd, what in (a, select.POLLIN), (r, select.POLLIN), (w, select.POLLOUT): p.register(fd, what)
p.poll(5000)
select.select([a, r], [b], [], 0)
e = select.epoll(); e.register(r, select.EPOLLIN); e.poll(0)
many = select.poll()
for i in range(40): many.register(os.dup(r), select.POLLIN)
many.poll(5000)
print(a.fileno(), b.fileno(), r, w)
END
  "$RUTILE" record -o t -e syscall -- /usr/bin/python3 work.py >fds
  show t
  read -r a b r w <fds
  has() { grep -qF "$1" t.out || { echo "not there: $1"; return 1; }; }
  has 'filename = "/bin/echo", _argv_length = 3, argv = [ [0] = "/bin/echo", [1] = "one", [2] = "two words" ]'
  [ "$(grep -c '"/bin/true", _argv_length = 32,' t.out)" = 1 ]
  has "{ ret = 0, usockvec = [ [0] = $a, [1] = $b ] }"
  has "{ ret = 0, fildes = [ [0] = $r, [1] = $w ] }"
  has "fds = [ [0] = { fd = $a, raw_events = 0x1 }, [1] = { fd = $r, raw_events = 0x1 }, [2] = { fd = $w, raw_events = 0x4 } ] }"
  has "{ ret = 2, overflow = 0, _fds_length = 2, fds = [ [0] = { fd = $r, raw_events = 0x1 }, [1] = { fd = $w, raw_events = 0x4 } ] }"
  has "overflow = 1, _fds_length = 32, fds = [ "
  set_of() { for fd; do echo $((1 << fd)); done | paste -sd+ | { read -r sum; printf '0x%X' $((sum)); }; }
  has "_readfds_length = 1, readfds = [ [0] = $(set_of "$a" "$r") ], _writefds_length = 1, writefds = [ [0] = $(set_of "$b") ], _exceptfds_length = 0"
  has "{ ret = 2, _readfds_length = 1, readfds = [ [0] = $(set_of "$r") ], _writefds_length = 1, writefds = [ [0] = $(set_of "$b") ]"
  # The program sets 32 of the 64 bits.
  grep -q "{ ret = 1, overflow = 0, _fds_length = 1, fds = \[ \[0\] = { raw_events = 0x1, data = 0x\([0-9A-F]*0\)\?$(printf %X "$r") } \] }" t.out
}

test_addresses() {
  need_bpf
  cat >work.py <<'END'
import socket
U, I = socket.AF_UNIX, socket.AF_INET
s, t = (socket.socket(U, socket.SOCK_DGRAM) for _ in range(2))
s.bind("\0abs\0name"); t.bind("here")
t.sendto(b"12", "\0abs\0name"); s.recvfrom(10)
t.sendmsg([b"123"], [], 0, "\0abs\0name"); s.recvmsg(10)
t.connect("\0abs\0name"); t.sendmsg([b"1234"]); s.recv(9)
u = socket.socket(I, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
u.sendto(b"1", u.getsockname()); u.recvfrom(10)
u.sendmsg([b"12"], [], 0, u.getsockname()); u.recvmsg(10)
v = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); v.bind(("::1", 0))
v.sendmsg([b"12"], [], 0, v.getsockname())
print(u.getsockname()[1], v.getsockname()[1])
END
  "$RUTILE" record -o t -e syscall -- /usr/bin/python3 work.py >ports
  show t
  read -r port port6 <ports
  has() { grep -q "$1" t.out || { echo "not there: $1"; return 1; }; }
  has 'entry_bind: .*family = 1, .*sun_path = "@abs@name" }'
  has 'entry_bind: .*family = 1, .*sun_path = "here" }'
  has 'entry_sendto: .*len = 2, .*family = 1, .*sun_path = "@abs@name" }'
  has 'exit_recvfrom: .*ret = 2, family = 1, .*sun_path = "here" }'
  has 'entry_sendmsg: .*family = 1, .*sun_path = "@abs@name" }'
  has 'exit_recvmsg: .*ret = 3, family = 1, .*sun_path = "here"'
  has 'entry_connect: .*family = 1, .*sun_path = "@abs@name" }'
  has 'entry_sendmsg: .*family = 0, .*sun_path = "" }'
  has "entry_sendto: .*family = 2, dport = $port, .*v4addr = \[ \[0\] = 127, \[1\] = 0, \[2\] = 0, \[3\] = 1 \].*sun_path = \"\" }"
  has "exit_recvfrom: .*ret = 1, family = 2, sport = $port, .*sun_path = \"\" }"
  has "entry_sendmsg: .*family = 2, dport = $port,"
  has "exit_recvmsg: .*ret = 2, family = 2, sport = $port,"
  has "entry_sendmsg: .*family = 10, dport = $port6, .*\[7\] = 1 \]"
}

# Several messages at once, of 64-bit and of 32-bit calls; socketcall and the old select, which 32-bit programs have.
test_messages() {
  need_bpf
  cc -o work "$SRC/tests/bpf/messages.c"
  "$RUTILE" record -o t -e syscall -- ./work >numbers
  show t
  read -r port a u one two <numbers
  has() { grep -qF "$1" t.out || { echo "not there: $1"; grep -E 'mmsg|socketcall|_select' t.out | head -20; return 1; }; }
  home='_v4addr_length = 4, _v6addr_length = 0, v4addr = [ [0] = 127, [1] = 0, [2] = 0, [3] = 1 ], v6addr = [ ], sun_path = "" }'
  to="{ family = 2, dport = $port, $home"
  from="family = 2, sport = $port, $home"
  has "overflow = 0, _msgs_length = 3, msgs = [ [0] = $to, [1] = $to, [2] = $to ] }"
  has "{ ret = 3, overflow = 0, _msg_len_length = 3, msg_len = [ [0] = 1, [1] = 2, [2] = 3 ] }"
  has "{ ret = 3, overflow = 0, _msgs_length = 3, msgs = [ [0] = { msg_len = 1, $from, [1] = { msg_len = 2, $from, [2] = { msg_len = 3, $from ] }"
  has '_msgs_length = 1, msgs = [ [0] = { family = 1, dport = 0, _v4addr_length = 0, _v6addr_length = 0, v4addr = [ ], v6addr = [ ], sun_path = "@abs" } ] }'
  grep compat_ t.out >t32.out; mv t32.out t.out
  has "overflow = 0, _msgs_length = 2, msgs = [ [0] = $to, [1] = $to ] }"
  has "{ ret = 2, overflow = 0, _msg_len_length = 2, msg_len = [ [0] = 5, [1] = 6 ] }"
  has "{ ret = 2, overflow = 0, _msgs_length = 2, msgs = [ [0] = { msg_len = 5, $from, [1] = { msg_len = 6, $from ] }"
  has "_values_length = 6, values = [ [0] = $(printf 0x%X "$a"), "
  grep -F 'entry_socketcall: ' t.out | grep -F 'call = 11, ' | grep -F '[2] = 0x7, ' | grep -qF "${to#*{ }"
  grep -F 'entry_socketcall: ' t.out | grep -F 'call = 3, ' | grep -qF "_values_length = 3, values = [ [0] = $(printf 0x%X "$a"), "
  grep -F "exit_socketcall: " t.out | grep -F "ret = 7, " | grep -qF "${from% \}}"
  grep -F 'call = 11, args = 0x8, ' t.out | grep -qF '_values_length = 0, values = [ ], family = 0'
  has "_usockvec_length = 2, usockvec = [ [0] = $one, [1] = $two ] }"
  has "_readfds_length = 1, readfds = [ [0] = $(printf 0x%X $((1 << a | 1 << u))) ]"
}

t_case "strings that are cut" test_cut
t_case "strings that are not resident" test_not_resident
t_case "lists and sets of arguments" test_lists
t_case "addresses of messages, abstract sockets" test_addresses
t_case "several messages, 32-bit variants" test_messages
t_done
