# SPDX-License-Identifier: MIT
"""What `rutile profile` costs: the programs in the kernel (by the kernel's own count of their time, which
kernel.bpf_stats_enabled switches on) and the process of rutile, in percent of one CPU."""
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

# 100 frames, then work or waiting.
RUBY = """
def deep(n, &block)
  n == 0 ? block.call : deep(n - 1, &block)
end
mode, rate = ARGV[0], ARGV[1].to_f
deep(97) do
  if mode == "busy"
    x = 0
    x += 1 while true
  else
    # A thread that waits and is woken, `rate` times a second.
    loop { sleep(1 / rate) }
  end
end
"""


def programs():
    """Time and runs of the eBPF programs of rutile, by name."""
    out = subprocess.run(["bpftool", "prog", "list", "-j"], capture_output=True, text=True,
                         env=os.environ | {"PATH": os.environ["PATH"] + ":/usr/sbin"})
    sums = {}
    for p in json.loads(out.stdout or "[]"):
        if p.get("name", "") in ("on_sample", "sched_switch", "sched_waking"):
            s = sums.setdefault((p["id"], p["name"]), [0, 0])
            s[0] += p.get("run_time_ns", 0)
            s[1] += p.get("run_cnt", 0)
    return sums


def measure(b, pid, args, seconds):
    """Percent of a CPU in the kernel and in rutile, and runs and ns a run of the programs."""
    before = set(programs())
    out = tempfile.mkdtemp(prefix="rutile-bench")
    p = subprocess.Popen([b.rutile, "profile", str(pid), "-o", out + "/t", *args],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # What runs at the start (symbols, mappings) is not what it costs to stay on.
    while not any(f.stat().st_size for f in pathlib.Path(out).glob("t/kernel/kernel_*")) and p.poll() is None:
        time.sleep(0.1)
    time.sleep(3)
    first, begun = programs(), time.monotonic()
    cpu = user_cpu(p.pid)
    time.sleep(seconds)
    last, elapsed = programs(), time.monotonic() - begun
    cpu = user_cpu(p.pid) - cpu
    p.send_signal(signal.SIGINT)
    p.wait()
    shutil.rmtree(out)
    rows = {}
    for key, (ns, runs) in last.items():
        if key in before or key not in first:
            continue
        r = rows.setdefault(key[1], [0, 0])
        r[0] += ns - first[key][0]
        r[1] += runs - first[key][1]
    kernel = sum(r[0] for r in rows.values()) / elapsed / 1e7
    return kernel, cpu / elapsed * 100, rows, elapsed


def user_cpu(pid):
    """Seconds on a CPU so far, of the main thread, which is all there is."""
    return int(open(f"/proc/{pid}/schedstat").read().split()[0]) / 1e9


def start(mode, rate=0):
    # Ahead of what else runs on the machine: every sample of its CPU is to be one of it.
    p = subprocess.Popen(["nice", "-n", "-19", "ruby", "-e", RUBY, mode, str(rate)])
    time.sleep(1)
    return p


def perf_cpu(pid, hz, seconds):
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.Popen(["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", str(hz), "-p", str(pid), "-o", d + "/p"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        cpu = user_cpu(p.pid)
        time.sleep(seconds)
        cpu = user_cpu(p.pid) - cpu
        p.send_signal(signal.SIGINT)
        p.wait()
        return cpu / seconds * 100


def outside(b, pid, hz, seconds):
    """rbspy's method, as a program of its own."""
    p = subprocess.Popen([b.build / "bench" / "outside", str(pid), str(hz), "100", str(seconds)])
    _, _, usage = os.wait4(p.pid, 0)
    return (usage.ru_utime + usage.ru_stime) / seconds * 100


def run(b):
    seconds = 4 if b.quick else 8
    stats = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
    was = stats.read_text()
    stats.write_text("1")
    try:
        p = start("busy")
        print("| 100 frames of Ruby, one busy thread | in the kernel | rutile itself |\n|---|---|---|")
        for hz in (99, 999):
            ms = [measure(b, p.pid, ["--hz", str(hz)], seconds) for _ in range(b.runs)]
            print(f"| `rutile profile --hz {hz}` | {statistics.median(m[0] for m in ms):.3f} % of one CPU | "
                  f"{statistics.median(m[1] for m in ms):.2f} % |")
            print(f"| reading from outside (rbspy's method), {hz} Hz | | "
                  f"{statistics.median(outside(b, p.pid, hz, seconds) for _ in range(b.runs)):.2f} % |")
            if b.have("perf"):
                print(f"| `perf record -g -F {hz}`, native frames only | not counted | "
                      f"{statistics.median(perf_cpu(p.pid, hz, seconds) for _ in range(b.runs)):.2f} % |")
        p.kill()
        p = start("wait", 5000)
        ms = [measure(b, p.pid, ["--off-cpu"], seconds) for _ in range(b.runs)]
        p.kill()
        print("\n| `rutile profile --off-cpu`, 100 frames of Ruby | |\n|---|---|")
        for name in ("sched_switch", "sched_waking"):
            runs = statistics.median(m[2][name][1] / m[3] for m in ms)
            ns = statistics.median(m[2][name][0] / max(1, m[2][name][1]) for m in ms)
            print(f"| {name} | {runs:.0f} runs a second, {ns:.0f} ns each |")
        print(f"| in the kernel | {statistics.median(m[0] for m in ms):.2f} % of one CPU |")
        print(f"| rutile itself | {statistics.median(m[1] for m in ms):.2f} % |")
    finally:
        stats.write_text(was)
