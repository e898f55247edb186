#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes scripts from a table of productions: whole programs, most of which compile.

    script_grammar.py SEED COUNT           prints COUNT programs, each in one line
    script_grammar.py SEED COUNT RUTILE [SECONDS]
                                           compiles, loads and runs each, as root: what compiles, the verifier accepts

With RUTILE the exit status is 1 when a program is refused by the verifier, crashes, or does not end; the program is printed.
SEED and the number of the program make it again.
"""
import os
import random
import re
import subprocess
import sys
import time

# Alternatives of each symbol; <x> is a symbol, <x:2> one that is chosen more often. Terminals are text.
GRAMMAR = {
    "program": ["<config> <defs> <begin> <probe>", "<config> <defs> <begin> <probe> <probe>"],
    "config": ["", "config = { max_strlen = <strlen> }", "config = { stack_mode = perf; max_map_keys = 64 }"],
    "strlen": ["16", "64", "200", "512", "1024", "4096"],
    "defs": ["let @lru = lruhash(8); struct s { int a; char b[16]; long c[4]; unsigned d:3; unsigned e:7; } enum e { ONE = 1, TWO, TEN = 10 } "
             "fn twice($v : int64) : int64 { return $v * 2; } macro add(a, b) { a + b }"],
    "begin": ["begin { <vars> @n = 1; @s = \"text\"; @h = hist(3); @l = lhist(3, 0, 100, 10); @c = count(); @t = (1, \"a\"); @k[1] = 2; "
              "@z[\"z\"] = 1; @r = (a = 1, b = \"two\"); @lru[1] = 1; @sum = 0; @two[1, \"b\"] = 3; @j = 0; @deep[(1, (2, \"c\"))] = 1; "
              "@a1[1] = count(); @a2[\"a\"] = sum(1); @a3[comm, 1] = avg(2); <stmts> }"],
    "vars": ["$v = (int64)1; $w = \"w\"; $p = (1, \"two\");"],
    "stmts": ["<stmt>;", "<stmt>; <stmt>;", "<stmt>; <stmt>; <stmt>;", "<stmt>; <stmt>; <stmt>; <stmt>; <stmt>;"],
    "stmt": ["<assign>", "<assign>", "<assign>", "<print>", "<if>", "<loop>", "<update>", "<call>", "unroll(3) { <assign>; }", "$v = <int>", "$w = <str>",
             "$p = (<int>, <str>)"],
    "assign": ["@n = <int>", "@k[<int>] = <int>", "@s = <str>", "@t = (<int>, <str>)", "@r = (a = <int>, b = <str>)", "@n++", "@n += <int>",
               "@k[<int>]--", "@z[<str>] = <int>", "@st[kstack(3)] = count()", "@u[ustack(perf, 3), comm] = sum(<int>)", "@lru[<int>] = <int>",
               "@two[<int>, <str>] = <int>", "@deep[(<int>, (<int>, <str>))] = <int>", "@k[<int>] += <int>", "@z[<str>]++", "@v = $p",
               "@ks[ksym(<int>)] = count()", "@e[strerror(<int>)] = <int>", "@a1[<int>] = count()", "@a2[<str>] = sum(<int>)", "@a3[comm, <int>] = avg(<int>)",
               "@a4 = min(<int>)", "@a5[<int>] = max(<int>)", "@a6[<str>] = stats(<int>)", "@h = hist(<int>)", "@a8[<int>] = hist(<int>, 2)",
               "@l = lhist(<int>, 0, 100, 10)", "@a9 = tseries(<int>, 1s, 4)", "@b1[probe, <int>] = count()", "@b2[kstack, ustack] = count()"],
    "update": ["delete(@k, <int>)", "clear(@a1)", "zero(@a2)", "@c = count()", "delete(@z, <str>)", "delete(@two, (<int>, <str>))", "clear(@lru)"],
    "print": ["printf(\"%d %s %llx\\n\", <int>, <str>, <int>)", "print(<int>)", "print(<str>)", "print((<int>, <str>, <int>))", "print(@k)", "print(@h)",
              "printf(\"%c%5d|%-8s|%r\\n\", <int>, <int>, <str>, buf(comm, 4))", "time(\"%H\")", "print(@t.1)", "print($p)", "print(@a3, 3)",
              "printf(\"%s %s\\n\", strftime(\"%T\", nsecs), ntop(<int>))", "print(p90(@h))", "print(@k[<int>])", "errorf(\"%d\", <int>)"],
    "if": ["if (<cond>) { <stmts> }", "if (<cond>) { <stmts> } else { <stmts> }", "if (<cond>) { <assign>; } else if (<cond>) { <print>; }"],
    "loop": ["for ($i : 0..<small>) { <body> @sum += $i; }", "$j = 0; while ($j < <small>) { $j++; <body> }", "for ($kv : @k) { @sum += $kv.1; <body> }",
             "for ($a : 0..3) { for ($b : 0..<small>) { @n += $a * $b; } }", "for ($i : 0..5) { if ($i == 3) { break; } <body> }",
             "for ($kv : @z) { print($kv); <body> }", "while (@j < <small>) { @j++; if (<cond>) { continue; } <body> }"],
    "body": ["<assign>;", "<print>;", "<if>", "<update>;", "<assign>; <assign>;"],
    "small": ["1", "2", "7", "20"],
    "call": ["cat(\"/none\")", "print(strlen(<str>))", "@n = has_key(@k, <int>)", "@n = len(@k)", "print(p50(@h))"],
    "cond": ["<int> <cmp> <int>", "<int> <cmp> <int>", "<str> == <str>", "<str> != \"x\"", "<cond> && <cond>", "<cond> || <cond>", "!(<cond>)", "<int> > 0",
             "strncmp(<str>, <str>, 3) == 0", "has_key(@k, <int>)", "strcontains(<str>, \"a\")", "matches(comm, \"^a.*b$\")", "glob(comm, \"*sh\")"],
    "pred": ["pid <cmp> <num>", "comm != \"x\"", "@n <cmp> <num>", "strncmp(comm, \"a\", 1)"],
    "cmp": ["==", "!=", "<", ">", "<=", ">="],
    "int": ["<num>", "<num>", "<num>", "<builtin>", "<builtin>", "@n", "@k[<int>]", "(<int> <op> <int>)", "(<int> <op> <int>)", "-(<int>)", "~(<int>)",
            "(<cond> ? <int> : <int>)", "(<cast>)(<int>)", "strlen(<str>)", "$v", "(int64)@c", "len(@k)", "@t.0", "(1, <int>).1", "twice((int64)(<int>))",
            "add((int64)(<int>), <num>)", "bswap((uint32)(<int>))", "{ $q = (int64)(<int>); $q + 1 }", "<argint>", "<argint>", "$p.0",
            "((struct s *)0)->a", "((struct s *)(<int>))->d", "((struct s *)nsecs)->c[<index>]", "curtask.pid", "curtask.mm.total_vm", "nsecs(boot)",
            "ONE", "sizeof(struct s)", "*(uint64 *)nsecs", "@r.a", "(rand % 5)", "@two[<int>, <str>]", "@lru[<int>]"],
    "index": ["0", "1", "3"],
    "num": ["0", "1", "2", "5", "63", "64", "255", "-1", "4096", "1000000", "0x7fffffff", "0xffffffff", "9223372036854775807", "1ms"],
    "builtin": ["pid", "tid", "uid", "gid", "nsecs", "cpu", "ncpus", "elapsed", "rand", "cgroup", "ppid", "jiffies", "numaid"],
    "op": ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"],
    "cast": ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"],
    "str": ["\"abc\"", "\"\"", "comm", "comm", "str(nsecs)", "@s", "$w", "(<cond> ? \"a\" : \"bcd\")", "<argstr>", "<argstr>", "str_concat(<str>, \"x\")", "@t.1",
            "pcomm", "@r.b", "((struct s *)nsecs)->b", "\"a rather long text, longer than some\"", "$p.1", "str((uint64)(<int>), 10)"],
}
# Names of probes, and what their bodies know of the event: numbers and texts.
PROBES = [
    ("interval:ms:5", ["cpu"], ["comm"]),
    ("interval:us:700", ["pid"], ["comm"]),
    ("tracepoint:sched:sched_switch", ["args.prev_pid", "args.next_prio", "args.prev_state"], ["args.next_comm", "args.prev_comm"]),
    ("rawtracepoint:sched_switch", ["args.prev.pid", "arg0", "args.next.mm.total_vm"], ["args.prev.comm", "str(args.next.comm)"]),
    ("profile:hz:99", ["cpu"], ["comm"]),
    ("software:cpu-clock:1000000", ["tid"], ["comm"]),
    ("tracepoint:syscalls:sys_enter_write", ["args.fd", "args.count"], ["str(args.buf, 20)", "str(args.buf)"]),
    ("uprobe:/bin/bash:main", ["arg0", "arg1"], ["str(*(uint64 *)arg1)", "func"]),
    ("tracepoint:raw_syscalls:sys_enter", ["args.id", "args.args[2]", "args.args[<index>]"], ["comm"]),
    ("end", ["1"], ["\"end\""]),
]
DEPTH = 7


def expand(rng, symbol, event, depth=0):
    if symbol == "probe":
        name, numbers, texts = rng.choice(PROBES)
        event = {"argint": numbers, "argstr": texts}
        if rng.random() < 0.3:
            return f'{name} /{expand(rng, "pred", event, depth)}/ {{ {GRAMMAR["vars"][0]} {expand(rng, "stmts", event, depth)} }}'
        return f'{name} {{ {GRAMMAR["vars"][0]} {expand(rng, "stmts", event, depth)} }}'
    choices = event.get(symbol) or GRAMMAR[symbol]
    # Deep inside, what has no symbols in it ends the recursion.
    if depth > DEPTH:
        choices = [c for c in choices if not re.search("<[a-z]+>", c)] or choices
    return re.sub("<([a-z]+)>", lambda m: expand(rng, m.group(1), event, depth + 1), rng.choice(choices))


def program(seed, number):
    return expand(random.Random(f"{seed}/{number}"), "program", {"argint": ["pid"], "argstr": ["comm"]})


def judge(rutile, text):
    """What is wrong with rutile's answer, or None; and whether the program compiled."""
    command = [rutile, "run", "-q", "-e", text + " interval:ms:40 { exit(); }"]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=30, errors="replace", stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "it does not end", True
    if ran.returncode < 0:
        return f"it ends by signal {-ran.returncode}", False
    if "verifier" in ran.stderr or "internal error" in ran.stderr or "runtime error:" in ran.stderr or "Sanitizer" in ran.stderr:
        return ran.stderr[:600], True
    if ran.returncode and "error:" not in ran.stderr and not ran.stderr.startswith("rutile run:"):
        return f"exit status {ran.returncode}: {ran.stderr[:300]}", False
    return None, ran.returncode == 0


def main():
    seed, count = sys.argv[1], int(sys.argv[2])
    compiled = bad = done = 0
    limit = time.monotonic() + (float(sys.argv[4]) if len(sys.argv) > 4 else 1e9)
    for number in range(count):
        if time.monotonic() > limit:
            break
        done += 1
        text = program(seed, number)
        if len(sys.argv) < 4:
            print(text)
            continue
        wrong, ran = judge(sys.argv[3], text)
        compiled += ran
        if wrong:
            bad += 1
            print(f"program {number} of seed {seed}: {text}\n{wrong}", flush=True)
    if len(sys.argv) > 3:
        print(f"{compiled} of {done} compiled, {bad} failed")
    return bad > 0


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    sys.exit(main())
