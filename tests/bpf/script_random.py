# SPDX-License-Identifier: MIT
"""Random programs of the script language, run by rutile and calculated here: script_random.py RUTILE SEED COUNT.

What compiles the verifier must accept, and what it prints must be what the same statements give
here, on 64 bits. Variables are given their values through a map, so that nothing is calculated when
the script is compiled.
"""
import random, subprocess, sys

M = (1 << 64) - 1


def signed(v):
    v &= M
    return v - (1 << 64) if v >> 63 else v


class Value:
    def __init__(self, text, value, is_signed, literal=False):
        self.text, self.value, self.signed, self.literal = text, value & M, is_signed, literal

    def number(self, is_signed):
        return signed(self.value) if is_signed else self.value


def both_signed(a, b):
    if a.literal:
        return b.signed
    if b.literal:
        return a.signed
    return a.signed and b.signed


def divide(op, a, b, s):
    x, y = (signed(a), signed(b)) if s else (a, b)
    if not y:
        return 0 if op == "/" else x
    q = abs(x) // abs(y)
    r = abs(x) % abs(y)
    if op == "/":
        return -q if (x < 0) != (y < 0) else q
    return -r if x < 0 else r


class Program:
    def __init__(self, rng):
        self.rng = rng
        self.vars = {}
        self.lines = []
        self.expected = []

    def literal(self):
        v = self.rng.choice([0, 1, 2, 7, 8, 63, 255, 256, 65535, 1 << 31, (1 << 32) + 5, self.rng.getrandbits(40)])
        return Value(str(v), v, True, True)

    def leaf(self):
        if self.vars and self.rng.random() < 0.7:
            name = self.rng.choice(list(self.vars))
            value, s = self.vars[name]
            return Value(name, value, s)
        return self.literal()

    def expr(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return self.leaf()
        kind = rng.randrange(10)
        a = self.expr(depth - 1)
        if kind == 0:
            op = rng.choice("~-!")
            # What is written as a number is a number, too, with a sign before it.
            if a.literal:
                a = self.variable()
            v = {"~": ~a.value, "-": -a.value, "!": int(not a.value)}[op]
            return Value(f"({op}{a.text})", v, a.signed or op == "-" if op != "!" else True)
        if kind == 1:
            c, b = self.expr(depth - 1), self.expr(depth - 1)
            if a.literal or b.literal or c.literal:
                a, b, c = self.variable(), self.variable(), self.variable()
            return Value(f"({c.text} ? {a.text} : {b.text})", a.value if c.value else b.value,
                         a.signed and b.signed)
        if kind == 2:
            bits = rng.choice([8, 16, 32, 64])
            s = rng.random() < 0.5
            v = a.value & ((1 << bits) - 1)
            if s and v >> (bits - 1):
                v -= 1 << bits
            return Value(f"(({'' if s else 'u'}int{bits}){a.text})", v, s)
        b = self.expr(depth - 1)
        if a.literal and b.literal:
            a = self.variable()
        s = both_signed(a, b)
        if kind == 3:
            op = rng.choice(["==", "!=", "<", ">", "<=", ">="])
            x, y = a.number(s), b.number(s)
            v = {"==": x == y, "!=": x != y, "<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y}[op]
            return Value(f"({a.text} {op} {b.text})", int(v), True)
        if kind == 4:
            op = rng.choice(["&&", "||"])
            v = (a.value and b.value) if op == "&&" else (a.value or b.value)
            return Value(f"({a.text} {op} {b.text})", int(bool(v)), True)
        if kind == 5:
            if a.literal:
                a = self.variable()
            n = rng.randrange(64)
            op = rng.choice(["<<", ">>"])
            v = a.value << n if op == "<<" else a.number(a.signed) >> n
            return Value(f"({a.text} {op} {n})", v, a.signed)
        op = rng.choice("+-*/%&|^")
        if op in "/%":
            if b.literal and not b.value:
                b = Value("3", 3, True, True)
                s = both_signed(a, b)
            return Value(f"({a.text} {op} {b.text})", divide(op, a.value, b.value, s), s)
        v = {"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value, "&": a.value & b.value,
             "|": a.value | b.value, "^": a.value ^ b.value}[op]
        return Value(f"({a.text} {op} {b.text})", v, s)

    def variable(self):
        name = self.rng.choice(list(self.vars))
        value, s = self.vars[name]
        return Value(name, value, s)

    def start(self):
        for i in range(5):
            s = i % 2 == 0
            v = self.rng.choice([0, 1, -1, 5, 1 << 63, self.rng.getrandbits(64), self.rng.getrandbits(16)])
            v = signed(v) if s else v & M
            text = str(v) if v != -(1 << 63) else "0x8000000000000000"
            self.lines.append(f"@v{i} = ({'' if s else 'u'}int64){text}; $v{i} = @v{i};")
            self.vars[f"$v{i}"] = (v & M, s)

    def statements(self, depth, times=1):
        """`times` > 1: in a loop whose body does the same each time."""
        rng = self.rng
        for _ in range(rng.randrange(1, 4)):
            kind = rng.randrange(6)
            e = self.expr(3)
            if kind < 3 or depth == 0:
                fmt, n = ("%ld", e.number(True)) if e.signed else ("%lu", e.value)
                self.lines.append(f'printf("{fmt}\\n", {e.text});')
                self.expected += [str(n)]
            elif kind == 3:
                self.lines.append(f"if ({e.text}) {{")
                self.branch(depth, bool(e.value))
                self.lines.append("} else {")
                self.branch(depth, not e.value)
                self.lines.append("}")
            else:
                n = rng.choice([1, 2, 3, 17])
                begin, head = len(self.expected), rng.choice(["for", "while", "unroll"])
                i = f"$i{len(self.lines)}"
                self.lines.append({"for": f"for ({i} : 0..{n}) {{", "unroll": f"unroll({n}) {{",
                                   "while": f"{i} = 0; while ({i} < {n}) {{"}[head])
                self.statements(depth - 1)
                if head == "while":
                    self.lines.append(f"{i}++;")
                self.lines.append("}")
                self.expected[begin:] = self.expected[begin:] * n

    def branch(self, depth, taken):
        kept = list(self.expected)
        self.statements(depth - 1)
        if not taken:
            self.expected = kept


def main(rutile, seed, count):
    bad = 0
    for i in range(int(count)):
        p = Program(random.Random(f"{seed}.{i}"))
        p.start()
        p.statements(2)
        text = "config = { print_maps_on_exit = 0 } begin { " + "\n".join(p.lines) + " }"
        done = subprocess.run([rutile, "run", "-q", "-e", text], capture_output=True, text=True, timeout=60)
        got = done.stdout.split("\n\n")[0].split() if done.stdout.strip() else []
        if done.returncode or done.stderr or got != p.expected:
            bad += 1
            print(f"program {i} of seed {seed}: {text}\n{done.stderr}expected {p.expected}\nprinted  {got}")
    print(f"{count} programs, {bad} wrong")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
