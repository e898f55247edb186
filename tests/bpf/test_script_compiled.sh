#!/bin/bash
# SPDX-License-Identifier: MIT
# `rutile service compile`: scripts that are loaded without their text, and what is refused.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf

S=tc$$
trap 'destroy_all; rm -rf "$t_root"' EXIT

# Every kind of value, fields of tracepoints and of the kernel's structures, loops, and reads over all CPUs.
script() {
  echo >the-file
  cat >"$1" <<END
config = { max_strlen = 128 }
/* this line is of no message: a secret */
begin { printf("cpus %d\n", ncpus); @sum = sum(0); }
tracepoint:syscalls:sys_enter_openat /comm == "counted" && str(args.filename) == "$T/the-file"/ {
  @opens[comm, str(args.filename)] = count();
  @parent[pcomm, ppid == curtask.real_parent.tgid, curtask.comm] = count();
  @group[curtask.signal.nr_threads, curtask.mm.arg_start < curtask.mm.arg_end] = count();
  @sum = sum(2);
  @read[(int64)@sum > 0] = count();
  for (\$i : 0..3) { @times[\$i] = sum(\$i); }
  @flags = hist(args.flags);
  @record = (a = 1, b = "two");
  @lhist = lhist(args.flags & 0xf, 0, 10, 2);
  printf("open comm=%s file=%s how=%d\n", comm, str(args.filename), args.flags & 3);
}
rawtracepoint:sched_process_exec /str(args.p.comm) == "never"/ { @never = count(); }
END
}

# What a run prints while the file is opened three times.
ran() {
  "$RUTILE" run --no-warnings -c "sh $T/work" "$1" 2>/dev/null
}

a_compiled_script_runs_without_its_text() {
  mkdir d
  script d/opens.bt
  cp /bin/cat ./counted
  printf 'for i in 1 2 3; do ./counted %s/the-file >/dev/null; done\n' "$T" >work
  ran d/opens.bt >want
  "$RUTILE" service compile --scripts d >said
  grep -q '^opens  *d/opens.rbc$' said
  mv d/opens.rbc alone.rbc
  rm -r d
  ran ./alone.rbc >got
  diff want got
  grep -qx "@opens\[counted, $T/the-file\]: 3" got
  grep -qx '@sum: 6' got
  grep -qx '@times\[2\]: 6' got
  grep -qx "cpus $(getconf _NPROCESSORS_CONF)" got
  # Lines that no message cites are not in it.
  not grep -q secret alone.rbc
}

sessions_are_started_of_compiled_scripts() {
  mkdir d none
  script d/${S}a.bt
  "$RUTILE" service compile --scripts d ${S}a
  rm d/${S}a.bt
  "$RUTILE" service check --dir none --scripts d | grep -q "^${S}a  *ok"
  "$RUTILE" service start --dir none --scripts d
  opens 4
  "$RUTILE" show ${S}a >shown
  grep -qx "@opens\[counted, $T/the-file\]: 4" shown
  [ "$(grep -c '^open comm=counted' shown)" = 4 ]
  # Attached again after a stop, by another process.
  "$RUTILE" stop ${S}a
  opens 2
  "$RUTILE" start ${S}a
  opens 1
  "$RUTILE" show ${S}a | grep -qx "@opens\[counted, $T/the-file\]: 5"
  "$RUTILE" snapshot ${S}a -o snap
  [ "$(babeltrace2 snap/script | grep -c 'script:open')" = 5 ]
  "$RUTILE" service stop --dir none --scripts d
  not "$RUTILE" show ${S}a 2>/dev/null
}

the_script_itself_comes_first() {
  mkdir d none
  echo 'begin { @which = 1; } tracepoint:syscalls:sys_enter_mkdir { @n++ }' >d/${S}b.bt
  "$RUTILE" service compile --scripts d
  echo 'begin { @which = 2; } tracepoint:syscalls:sys_enter_mkdir { @n++ }' >d/${S}b.bt
  "$RUTILE" service start --dir none --scripts d
  "$RUTILE" show ${S}b | grep -qx '@which: 2'
  "$RUTILE" service stop --dir none --scripts d
  rm d/${S}b.bt
  "$RUTILE" service start --dir none --scripts d
  "$RUTILE" show ${S}b | grep -qx '@which: 1'
  "$RUTILE" service stop --dir none --scripts d
}

# One line, whatever is wrong with the file, and nothing is run.
damaged_files_are_refused() {
  mkdir d
  cat >d/x.bt <<'END'
begin { printf("it ran\n"); exit(); }
END
  "$RUTILE" service compile --scripts d
  python3 - <<'END'
import random
whole = open("d/x.rbc", "rb").read()
random.seed(1)
cuts = [4, 8, 40, 63, 64, 72] + [random.randrange(4, len(whole)) for _ in range(30)] + [len(whole) - 1]
cases = [whole[:n] for n in cuts] + [whole + b"\0"]
for _ in range(60):
    b = bytearray(whole)
    b[random.randrange(4, len(b))] ^= 1 << random.randrange(8)
    cases.append(bytes(b))
for i, b in enumerate(cases):
    open(f"bad{i}.rbc", "wb").write(b)
b = bytearray(whole)
b[16:48] = b"0.0.9".ljust(32, b"\0")
open("old.rbc", "wb").write(bytes(b))
b = bytearray(whole)
b[12:16] = (1).to_bytes(4, "little")
open("other.rbc", "wb").write(bytes(b))
END
  for f in bad*.rbc; do
    rc=0
    "$RUTILE" run ./"$f" >out 2>&1 || rc=$?
    [ "$rc" = 1 ] || { echo "$f: $rc"; cat out; return 1; }
    [ "$(wc -l <out)" = 1 ]
    grep -aq '^rutile run: the \(compiled \)\?script .* \(is damaged or not whole\|was compiled \)' out
  done
  not "$RUTILE" run ./old.rbc >out 2>&1
  grep -q 'was compiled by rutile 0.0.9, this is .*: compile it again' out
  not "$RUTILE" run ./other.rbc >out 2>&1
  grep -q 'was compiled for another kind of processor' out
  "$RUTILE" run d/x.rbc | grep -qx 'it ran'
  not "$RUTILE" run d/x.rbc argument 2>out
  grep -q 'its parameters are in it' out
}

# refused PROGRAM WORDS
refused() {
  rm -rf d
  mkdir d
  echo "$1" >d/x.bt
  rc=0
  "$RUTILE" service compile --scripts d >out 2>&1 || rc=$?
  { [ "$rc" = 1 ] && grep -q "^d/x.bt:1:[0-9]*: error: $2" out && [ ! -e d/x.rbc ]; } || { cat out; return 1; }
}

what_is_of_this_machine_is_refused() {
  refused 'begin { @ = kaddr("jiffies"); }' 'an address of its kernel is one of this machine alone'
  refused 'begin { @ = cgroupid("/sys/fs/cgroup"); }' 'the number of a cgroup'
  refused 'begin { $t = *curtask; @ = $t.pid; }' 'a whole structure of the kernel'
  refused 'begin { @ = offsetof(struct task_struct, pid); }' 'where fields of its structures are'
  refused 'begin { @ = rmethod; }' 'names and probes of Ruby are found where the script runs'
  refused 'begin { @ = nothing; }' "'nothing' is not known"
}

t_case "a compiled script runs without its text" a_compiled_script_runs_without_its_text
t_case "sessions are started of compiled scripts" sessions_are_started_of_compiled_scripts
t_case "the script itself comes first" the_script_itself_comes_first
t_case "damaged files are refused" damaged_files_are_refused
t_case "what is of this machine alone is refused" what_is_of_this_machine_is_refused
t_done
