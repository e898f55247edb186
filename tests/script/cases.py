# SPDX-License-Identifier: MIT
"""Programs of bpftrace's language and what they print, one file a subject.

	@ name
	the program, any number of lines
	= a line that it prints

or "!" in place of the output: the program is refused. "~ why" says that bpftrace prints something
else there, and why rutile does not. What is in the file "pending" bpftrace runs and rutile refuses.
"""


class Case:
    def __init__(self, name):
        self.name = name
        self.program = ""
        self.expected = ""
        self.refused = False
        self.different = None

    def text(self):
        lines = "".join("=" + (" " + l if l else "") + "\n" for l in self.expected.split("\n")[:-1])
        return (f"@ {self.name}\n{self.program}" + (f"~ {self.different}\n" if self.different else "") +
                ("!\n" if self.refused else lines))


def read(path):
    found = []
    with open(path) as f:
        for line in f:
            if line.startswith("@ ") and (not found or not line.startswith("@ =")):
                found.append(Case(line[2:].rstrip("\n")))
            elif line.startswith("= ") or line == "=\n":
                found[-1].expected += line[2:] if line.startswith("= ") else "\n"
            elif line == "!\n":
                found[-1].refused = True
            elif line.startswith("~ "):
                found[-1].different = line[2:].rstrip("\n")
            else:
                found[-1].program += line
    return found
