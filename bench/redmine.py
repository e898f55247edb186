# SPDX-License-Identifier: MIT
"""What Debian's Redmine keeps of its throughput while it is traced: CPU time of a page, in one process that is
attached to and left in turn. The Debian in which it runs is made once, below $RUTILE_MATRIX as those of
script/matrix (500 MB; needs root and debootstrap)."""

import os
import pathlib
import shutil
import statistics
import subprocess
import time

MODES = {"untraced": None, "`calls`": ["calls"], "`time`": ["time"], "`calls all`": ["calls", "all"],
         "`calls all --c-calls`": ["calls", "all", "--c-calls"], "`time all`": ["time", "all"], "detached": None}
DATABASE = "production:\n  adapter: sqlite3\n  database: /var/lib/redmine.sqlite3\n"
SETUP = """
echo 'redmine redmine/instances/default/dbconfig-install boolean false' | debconf-set-selections
export DEBIAN_FRONTEND=noninteractive X_DEBIAN_SITEID=default RAILS_ENV=production REDMINE_LANG=en
apt-get install -y -qq --no-install-recommends redmine redmine-sqlite
mkdir -p /etc/redmine/default
cp /database.yml /etc/redmine/default/database.yml
cd /usr/share/redmine
for task in db:migrate redmine:load_default_data generate_secret_token; do rake $task; done
"""


def mirror():
    """The Debian mirror of this machine's apt."""
    return subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0]


def make(root):
    """A minimal Debian 12 with Redmine, complete when its file `ready` is there."""
    if (root / "ready").exists():
        return
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    log = root.with_suffix(".log")
    proxy = subprocess.run(["apt-config", "dump", "--format", "%v", "Acquire::http::Proxy"], stdout=subprocess.PIPE,
                           text=True, check=True).stdout.strip()
    env = dict(os.environ, **({"http_proxy": proxy} if proxy else {}))
    with log.open("w") as out:
        subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates,ruby,sqlite3", "bookworm",
                        str(root), mirror()], env=env, stdout=out, stderr=out, check=True)
        (root / "database.yml").write_text(DATABASE)
        (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
        (root / "usr/sbin/policy-rc.d").chmod(0o755)
        subprocess.run(["unshare", "--mount", "sh", "-euc", 'mount --rbind /proc "$0/proc"; mount --rbind /dev "$0/dev"; '
                        'exec chroot "$0" sh -euc "$1"', str(root), SETUP], env=env, stdout=out, stderr=out, check=True)
    (root / "ready").touch()


class Redmine:
    def __init__(self, b, root):
        shutil.copy(b.top / "bench/redmine.rb", root / "redmine.rb")
        self.child = subprocess.Popen(["unshare", "--mount", "sh", "-euc", 'mount --rbind /proc "$0/proc"; exec chroot "$0" "$@"',
                                       str(root), "ruby", "-W0", "/redmine.rb"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = ""
        while not line.startswith("ready"):
            line = self.child.stdout.readline()
            if not line:
                raise RuntimeError("Redmine does not start")

    def rounds(self, n):
        """Least and median of the milliseconds of a page."""
        self.child.stdin.write(f"{n}\n")
        self.child.stdin.flush()
        return [float(word) for word in self.child.stdout.readline().split()]

    def stop(self):
        self.child.stdin.close()
        self.child.wait()


def run(b):
    if os.geteuid() != 0 or not b.have("debootstrap"):
        b.note("Redmine: not measured, needs root and debootstrap")
        return
    cache = os.environ.get("RUTILE_MATRIX") or pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "rutile/matrix").expanduser()
    root = pathlib.Path(cache, "redmine")
    make(root)
    redmine = Redmine(b, root)
    got = {name: [] for name in MODES}
    try:
        for _ in range(b.runs):
            for name, verb in MODES.items():
                tracer = None
                if verb:
                    tracer = subprocess.Popen([b.rutile, *verb, "--last", str(redmine.child.pid)],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    time.sleep(1.5)
                # The first rounds meet hooks that are still being set, or caches that were cleared.
                redmine.rounds(8)
                got[name].append(redmine.rounds(4 if b.quick else 12))
                if tracer:
                    tracer.terminate()
                    tracer.wait()
    finally:
        redmine.stop()
    least = {name: min(pair[0] for pair in pairs) for name, pairs in got.items()}
    middle = {name: statistics.median(pair[1] for pair in pairs) for name, pairs in got.items()}
    b.table("Redmine: CPU time of a page", ["", "least, ms", "kept", "median, ms", "kept"],
            [[name, f"{least[name]:.1f}", f"{100 * least['untraced'] / least[name]:.1f} %",
              f"{middle[name]:.1f}", f"{100 * middle['untraced'] / middle[name]:.1f} %"] for name in MODES])
