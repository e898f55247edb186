# SPDX-License-Identifier: MIT
"""The code of the shipped scripts beside bpftrace's, which LLVM makes, of programs that ask the same: nanoseconds of an event
by the kernel's own count, on the same load, alternated. The count itself is in both columns; the first row is what it costs.
Instructions are those of all programs as the kernel has them, not those that an event executes."""

import os
import signal
import statistics
import subprocess
import time

from shared import all_programs, programs_of, programs_timed

# Exchanges data with itself, without a network. Ruby calls SSL_read() and SSL_write().
TLS = """
require "openssl"
require "socket"
key = OpenSSL::PKey::RSA.new(2048)
cert = OpenSSL::X509::Certificate.new
cert.subject = cert.issuer = OpenSSL::X509::Name.parse("/CN=x")
cert.serial, cert.version, cert.public_key = 1, 2, key
cert.not_before, cert.not_after = Time.now - 60, Time.now + 3600
cert.sign(key, "SHA256")
of_server = OpenSSL::SSL::SSLContext.new
of_server.cert, of_server.key = cert, key
a, b = UNIXSocket.pair
server = Thread.new do
  s = OpenSSL::SSL::SSLSocket.new(a, of_server)
  s.accept
  while s.sysread(100); s.syswrite("y" * 100); end
rescue EOFError, SystemCallError, OpenSSL::SSL::SSLError
end
c = OpenSSL::SSL::SSLSocket.new(b)
c.connect
ARGV[0].to_i.times { c.syswrite("x" * 100); c.sysread(100) }
b.close
server.kill
"""

SINCE = "/@since[tid]/ { @usecs[comm] = hist((nsecs - @since[tid]) / 1000); delete(@since[tid]); }"

# What is shipped, its load and how often (with --quick a tenth), and the same in the language of bpftrace 0.17.
SCRIPTS = {
    "blocklat": ("direct", 8000, """
        tracepoint:block:block_rq_issue { @since[args->dev, args->sector] = nsecs; }
        tracepoint:block:block_rq_complete { $since = @since[args->dev, args->sector];
          if ($since) { @usecs[args->rwbs] = hist((nsecs - $since) / 1000); delete(@since[args->dev, args->sector]); } }"""),
    "blocksize": ("direct", 8000, """
        tracepoint:block:block_rq_issue /args->bytes > 0/ { @bytes[comm] = hist(args->bytes); @total[comm] = sum(args->bytes); }"""),
    "cpustacks": ("switch", 2000000, "profile:hz:99 /pid != 0/ { @samples[comm, ustack, kstack] = count(); }"),
    "drops": ("drop", 100000, """
        tracepoint:skb:kfree_skb { @reason[args->reason] = count(); @place[ksym(args->location)] = count(); }"""),
    "execs": ("spawn", 1500, r"""
        tracepoint:sched:sched_process_exec { printf("%-12s %-8d %-8d %s\n", strftime("%H:%M:%S", nsecs), pid,
          ((struct task_struct *)curtask)->real_parent->tgid, str(args->filename)); }"""),
    "exits": ("spawn", 1500, r"""
        tracepoint:sched:sched_process_exit /pid == tid/ { $task = (struct task_struct *)curtask; $signal = $task->exit_code & 0x7f;
          $lived = (nsecs - $task->start_boottime) / 1000000;
          if ($signal) { printf("%-8d %-16s %-12lld -%d\n", pid, comm, $lived, $signal); }
          else { printf("%-8d %-16s %-12lld %d\n", pid, comm, $lived, $task->exit_code >> 8); } }"""),
    "fsyncs": ("sync", 2000, """
        tracepoint:syscalls:sys_enter_fsync, tracepoint:syscalls:sys_enter_fdatasync, tracepoint:syscalls:sys_enter_msync,
        tracepoint:syscalls:sys_enter_sync, tracepoint:syscalls:sys_enter_syncfs, tracepoint:syscalls:sys_enter_sync_file_range
        { @since[tid] = nsecs; }
        tracepoint:syscalls:sys_exit_fsync, tracepoint:syscalls:sys_exit_fdatasync, tracepoint:syscalls:sys_exit_msync,
        tracepoint:syscalls:sys_exit_sync, tracepoint:syscalls:sys_exit_syncfs, tracepoint:syscalls:sys_exit_sync_file_range
        { $since = @since[tid]; if ($since) { @calls[comm, probe] = count(); @usecs[comm] = hist((nsecs - $since) / 1000);
          delete(@since[tid]); } }"""),
    "offcpu": ("switch", 200000, """
        tracepoint:sched:sched_switch { if (args->prev_pid != 0) { @since[args->prev_pid] = nsecs; @name[args->prev_pid] = comm;
            @stack[args->prev_pid] = kstack(8); }
          if (@since[args->next_pid] != 0) { $usecs = (nsecs - @since[args->next_pid]) / 1000;
            if ($usecs > 0) { @usecs[@name[args->next_pid], @stack[args->next_pid]] = sum($usecs); }
            delete(@since[args->next_pid]); delete(@stack[args->next_pid]); delete(@name[args->next_pid]); } }"""),
    "opens": ("open", 50000, r"""
        tracepoint:syscalls:sys_enter_open, tracepoint:syscalls:sys_enter_openat, tracepoint:syscalls:sys_enter_openat2
        { @path[tid] = args->filename; }
        tracepoint:syscalls:sys_exit_open, tracepoint:syscalls:sys_exit_openat, tracepoint:syscalls:sys_exit_openat2
        { if (@path[tid] != 0) { printf("%-8d %-16s %-4d %s\n", pid, comm, args->ret, str(@path[tid])); delete(@path[tid]); } }"""),
    "runqlat": ("switch", 400000, """
        tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @since[args->pid] = nsecs; }
        tracepoint:sched:sched_switch { if ((args->prev_state & 0xff) == 0 && args->prev_pid != 0) { @since[args->prev_pid] = nsecs; }
          $since = @since[args->next_pid];
          if ($since) { @usecs = hist((nsecs - $since) / 1000); delete(@since[args->next_pid]); } }"""),
    "signals": ("signal", 50000, r"""
        tracepoint:signal:signal_generate { printf("%-8d %-16s %-4d %-24s %-8d %s\n", pid, comm, args->sig, "SIGURG",
          args->pid, args->comm); }"""),
    "syscount": (None, 1000000, "tracepoint:raw_syscalls:sys_enter { @calls[args->id] = count(); @process[pid, comm] = count(); }"),
    "syslat": (None, 1000000, """
        tracepoint:raw_syscalls:sys_enter { @since[tid] = nsecs; }
        tracepoint:raw_syscalls:sys_exit { $since = @since[tid]; if ($since) { $ns = nsecs - $since;
          @time[args->id] = stats($ns); @slowest[args->id] = max($ns); delete(@since[tid]); } }"""),
    "tlscalls": ("tls", 20000, """
        uprobe:libssl:SSL_read, uprobe:libssl:SSL_write, uprobe:libssl:SSL_do_handshake { @since[tid] = nsecs; }
        uretprobe:libssl:SSL_read { if ((int32)retval > 0) { @read_bytes[comm] = sum((int32)retval); }
          if (@since[tid] != 0) { @read_usecs[comm] = hist((nsecs - @since[tid]) / 1000); delete(@since[tid]); } }
        uretprobe:libssl:SSL_write { if ((int32)retval > 0) { @written_bytes[comm] = sum((int32)retval); }
          if (@since[tid] != 0) { @write_usecs[comm] = hist((nsecs - @since[tid]) / 1000); delete(@since[tid]); } }
        uretprobe:libssl:SSL_do_handshake """ + SINCE.replace("@usecs", "@handshake_usecs")),
    "writeback": ("flush", 300, """
        tracepoint:writeback:writeback_start { @since[args->sb_dev, tid] = nsecs; }
        tracepoint:writeback:writeback_written { $since = @since[args->sb_dev, tid];
          if ($since) { @msecs[args->reason] = hist((nsecs - $since) / 1000000); delete(@since[args->sb_dev, tid]); } }
        tracepoint:writeback:writeback_pages_written { @pages = sum(args->pages); }"""),
}


def instructions(ids):
    return sum(p["bytes_xlated"] // 8 for p in all_programs() if p["id"] in ids)


def load(b, kind, count, directory):
    if kind is None:
        argv = [b.build / "bench/syscall_loop", str(count)]
    elif kind == "tls":
        argv = ["ruby", "-e", TLS, str(count)]
    else:
        argv = [b.build / "bench/event_load", kind, str(count)]
    subprocess.run(argv, cwd=directory, stdout=subprocess.DEVNULL, check=True)


def ns_of(b, argv, kind, count, directory):
    """Nanoseconds of an event, of all programs of the script, how many events, and instructions."""
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # Attached when all programs are there: their number does not change for a second.
        last, same = None, 0
        while p.poll() is None and same < 10:
            now = len(programs_of(p.pid))
            same = same + 1 if now and now == last else 0
            last = now
            time.sleep(0.1)
        before = programs_of(p.pid)
        size = instructions(before)
        load(b, kind, count, directory)
        after = programs_of(p.pid)
    finally:
        p.send_signal(signal.SIGINT)
        p.wait()
    ns = sum(v[0] - before.get(k, (0, 0))[0] for k, v in after.items())
    runs = sum(v[1] - before.get(k, (0, 0))[1] for k, v in after.items())
    return (ns / runs, runs, size) if runs else None


def run(b):
    if os.geteuid() != 0 or not b.have("bpftrace"):
        b.note("script_code: needs root and bpftrace")
        return
    directory = b.build / "bench-load"
    directory.mkdir(exist_ok=True)
    chosen = os.environ.get("SCRIPTS", "").split() or ["(empty)", *SCRIPTS]
    rows, ratios = [], []
    with programs_timed():
        for name in chosen:
            kind, count, program = SCRIPTS.get(name, (None, 1000000, "tracepoint:raw_syscalls:sys_enter { }"))
            count = count // 10 if b.quick else count
            mine = ["-e", program] if name not in SCRIPTS else [str(b.top / f"share/rutile/scripts/{name}.bt")]
            jobs = {"rutile": [b.rutile, "run", "-q", *mine], "bpftrace": ["bpftrace", "-e", program]}
            got = {tool: [] for tool in jobs}
            for _ in range(b.runs):
                for tool, argv in jobs.items():
                    one = ns_of(b, argv, kind, count, directory)
                    got[tool] += [one] if one else []
            if not all(got.values()):
                b.note(f"{name}: not every program ran")
                continue
            ns = {tool: statistics.median(v[0] for v in values) for tool, values in got.items()}
            least = {tool: min(v[0] for v in values) for tool, values in got.items()}
            ratios += [ns["rutile"] / ns["bpftrace"]] if name in SCRIPTS else []
            rows.append([f"`{name}`", f"{got['rutile'][0][1]:,}", *(f"{ns[t]:.0f} ({least[t]:.0f})" for t in jobs),
                         f"{ns['rutile'] / ns['bpftrace']:.2f}", f"{least['rutile'] / least['bpftrace']:.2f}", " / ".join(str(got[t][0][2]) for t in jobs)])
    b.table("An event of the shipped scripts, ns by the kernel's count: median (least)",
            ["script", "events", "rutile", "bpftrace", "ratio", "of the least", "instructions"], rows)
    if ratios:
        b.note(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}, largest {max(ratios):.2f}")
