#!/bin/bash
# SPDX-License-Identifier: MIT
# Programs that the kernel's verifier refuses, at the line of the script that the kernel itself cites.
. "$SRC/tests/tap.sh"
. "$SRC/tests/bpf/lib.sh"

need_bpf

# A value with as many paths to it as the verifier has patience for, when all of its bits matter.
too_many_paths() {
  local i
  echo 'tracepoint:syscalls:sys_enter_getppid {'
  echo '  $a = (uint64)0;'
  for i in {0..25}; do echo "  if (nsecs & $((1 << i))) { \$a += $((1 << (i < 20 ? i : 5))); }"; done
  echo '  @ = str(curtask, $a & 63); @c[$a] = count(); }'
}

# What the kernel says of its own accord: of 6.9 and later with the file and the line.
cited() {
  sed -n "s/^; .* @ $1:\([0-9]*\)\$/\1/p" "$2" | tail -1
}

the_line_is_the_kernels() {
  local line
  too_many_paths >paths.bt
  not "$RUTILE" run paths.bt 2>out
  cat out
  line=$(sed -n 's/^paths.bt:\([0-9]*\):3: error: the kernel refuses this: BPF program is too large.*/\1/p' out)
  [ -n "$line" ]
  # The line itself is below, and what to do.
  [ "$(sed -n 2p out)" = "$(sed -n "${line}p" paths.bt)" ]
  grep -q '^hint: the kernel follows every path' out
  [ "$(wc -l <out)" = 4 ]
  "$RUTILE" run -v paths.bt 2>out && return 1
  grep -qx "the kernel's log:" out
  grep -q "^; if (nsecs & " out
  if grep -q '^; .* @ ' out; then
    [ "$(cited paths.bt out)" = "$line" ]
  fi
}

# Of an imported file the lines are its own.
lines_of_imported_files() {
  { echo 'macro often($a) {'; for i in {0..25}; do echo "  if (nsecs & $((1 << i))) { \$a += $((1 << (i < 20 ? i : 5))); }"; done; echo '}'; } >often.bt
  printf 'import "./often.bt";\n\nbegin {\n $a = (uint64)0;\n often($a);\n @ = str(curtask, $a & 63); @c[$a] = count(); exit(); }\n' >importing.bt
  not "$RUTILE" run -v importing.bt 2>out
  head -3 out
  line=$(sed -n '1s/^\(.*\/\)\?often.bt:\([0-9]*\):[0-9]*: error: the kernel refuses this: .*/\2/p' out)
  [ -n "$line" ]
  if grep -q '^; .* @ ' out; then
    [ "$(cited often.bt out)" = "$line" ]
  fi
}

# A compiled script whose code was changed: the file has the line, and the kernel says what is wrong.
compiled_scripts() {
  mkdir d
  printf 'begin\n{\n\t@a = 1;\n\t@ = 1311768467;\n\texit();\n}\n' >d/x.bt
  "$RUTILE" service compile --scripts d >/dev/null
  rm d/x.bt
  python3 - <<'END'
import struct
M = (1 << 64) - 1
whole = bytearray(open("d/x.rbc", "rb").read())
number = struct.pack("<i", 1311768467)
at, changed = whole.find(number), 0
while at > 0:
    # rD = number: rD = *(u64 *)(rD + 0), of a register that holds nothing.
    if whole[at - 4] in (0xb7, 0xb4):
        d = whole[at - 3] & 15
        whole[at - 4:at + 4] = bytes([0x79, d | d << 4, 0, 0, 0, 0, 0, 0])
        changed += 1
    # *(u64 *)(rD + off) = number: of r2, which holds nothing there.
    elif whole[at - 4] == 0x7a:
        whole[at - 3] = 2
        changed += 1
    at = whole.find(number, at + 1)
assert changed, "the number is in no instruction"
body = bytes(whole[64:])
h = 0x9e3779b97f4a7c15 ^ len(body)
for i in range(0, len(body), 8):
    h = ((h ^ int.from_bytes(body[i:i + 8], "little")) * 0xff51afd7ed558ccd) & M
    if i + 8 <= len(body):
        h ^= h >> 32
h ^= h >> 30
h = h * 0xbf58476d1ce4e5b9 & M
h ^= h >> 27
h = h * 0x94d049bb133111eb & M
h ^= h >> 31
whole[48:56] = h.to_bytes(8, "little")
open("changed.rbc", "wb").write(whole)
END
  not "$RUTILE" run -v ./changed.rbc >out 2>&1
  cat out
  grep -q '^x.bt:4:[0-9]*: error: the kernel refuses this: R[0-9] \(!read_ok\|invalid mem access .*\)$' out
  [ "$(sed -n 2p out)" = ' @ = 1311768467;' ]
  grep -q '^; @ = 1311768467;' out
  if grep -q '^; .* @ ' out; then
    [ "$(cited x.bt out)" = 4 ]
  fi
}

# bpftool shows programs of the kernel with the lines that they are of.
lines_are_in_the_kernel() {
  local id
  cat >lines.bt <<'END'
config = { max_strlen = 128 }
tracepoint:syscalls:sys_enter_getppid /pid > 0/ {
  @first = count();
  $x = 1;
  while ($x < 5) {
    @looped[$x] = sum($x);
    $x++;
  }
	printf("a text of %d\n", $x);
}
END
  "$RUTILE" run lines.bt >out 2>&1 & script=$!
  t_wait grep -q '^Attached' out
  id=$(python3 - $script <<'END'
import os, re, sys
for fd in os.listdir(f"/proc/{sys.argv[1]}/fdinfo"):
    m = re.search(r"^prog_id:\s*(\d+)", open(f"/proc/{sys.argv[1]}/fdinfo/{fd}").read(), re.M)
    if m:
        print(m[1])
        break
END
  )
  bpftool prog dump xlated id "$id" linum >dump
  kill -INT $script
  wait $script
  sed -n 's/^; \(.*\) \[file:lines.bt line_num:\([0-9]*\) line_col:[0-9]*\]$/\2 \1/p' dump | sort -un >got
  cat got
  grep -n '' lines.bt | sed 's/:[ \t]*/ /' >numbered
  # Each that is shown is as it stands in the file, and all that do something are shown.
  while read -r line; do grep -qxF -- "$line" numbered; done <got
  for line in 3 5 6 7 9; do grep -q "^$line " got; done
  # Each loop and the probe are functions.
  grep -q '^long script(long ctx):' dump
  grep -q '^long loop(' dump
}

t_case "a refusal is at the line that the kernel cites" the_line_is_the_kernels
t_case "a refusal in an imported file is at its own line" lines_of_imported_files
t_case "a compiled script that the kernel refuses" compiled_scripts
t_case "programs in the kernel have the lines of the script" lines_are_in_the_kernel
t_done
