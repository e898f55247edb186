# SPDX-License-Identifier: MIT
"""Random patterns and texts: matches() and glob() of scripts beside Python's re and fnmatch.

script_patterns.py RUTILE SEED COUNT
"""
import fnmatch, random, re, subprocess, sys

ALPHABET = "abc."


def expression(rng, depth=0):
    kind = rng.random()
    if depth > 2 or kind < 0.4:
        return rng.choice(["a", "b", "c", ".", "[ab]", "[^a]", r"\.", "ab", "bc"])
    inner = expression(rng, depth + 1)
    if kind < 0.6:
        return inner + expression(rng, depth + 1)
    if kind < 0.75:
        return f"({inner}|{expression(rng, depth + 1)})"
    return f"({inner})" + rng.choice(["*", "+", "?", "{2}", "{1,3}"])


def pattern(rng):
    return rng.choice(["", "^"]) + expression(rng) + rng.choice(["", "$"])


def shell_pattern(rng):
    return "".join(rng.choice(["a", "b", "*", "?", "[ab]", "[!a]", "."]) for _ in range(rng.randint(1, 5)))


def text(rng):
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 9)))


def quoted(s):
    return '"' + s.replace("\\", "\\\\") + '"'


def main(rutile, seed, count):
    rng = random.Random(seed)
    statements, expected, shown = [], [], []
    for i in range(count):
        is_glob = i % 3 == 0
        patterns = [(shell_pattern if is_glob else pattern)(rng) for _ in range(rng.randint(1, 3))]
        subject = text(rng)
        if is_glob:
            yes = any(fnmatch.fnmatchcase(subject, p) for p in patterns)
        else:
            # "$" is the end here, not also what is before a last line break: the texts have none.
            yes = any(re.search(p, subject) for p in patterns)
        call = f"{'glob' if is_glob else 'matches'}({quoted(subject)}, {', '.join(map(quoted, patterns))})"
        statements.append(f"print({call});")
        expected.append("true" if yes else "false")
        shown.append(call)
    done = subprocess.run([rutile, "run", "-q", "-e", "begin { " + " ".join(statements) + " }"],
                          capture_output=True, text=True, timeout=60)
    got = done.stdout.split()
    wrong = [f"{c}: {g}, expected {e}" for c, g, e in zip(shown, got, expected) if g != e]
    if done.returncode or len(got) != count or wrong:
        sys.exit(f"exit code {done.returncode}, {len(got)} of {count} results\n{done.stderr}" + "\n".join(wrong))
    if len(set(expected)) != 2:
        sys.exit("the texts are all alike: nothing was tested")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
