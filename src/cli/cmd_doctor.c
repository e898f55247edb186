/* SPDX-License-Identifier: MIT */
/*
 * `rutile doctor`: what this machine allows, and what to do about each thing that is missing.
 *
 * A table of checks. Each tries one thing where trying is harmless (attaching to a
 * child of our own, loading an empty eBPF program), because rules written down elsewhere (seccomp
 * filters, security modules, lockdown) add up to what really happens.
 */
#include "cli/cmd.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "output/jsonl.h"
#include "probe/nop5.h"
#include "ruby/proc.h"
#include "ruby/target.h"

enum { OPT_JSON = 256 };

static const struct rut_opt options[] = {
	{"json", NULL, "print one JSON object a line", OPT_JSON},
	{0},
};

enum state {
	STATE_OK,
	STATE_LIMITED, /* works, for some things */
	STATE_NO,      /* something that rutile has cannot work */
};

static const char *const state_names[] = {"ok", "limited", "no"};

struct finding {
	enum state state;
	char detail[256];
	char advice[512]; /* empty when there is nothing to do */
};

static void found(struct finding *f, enum state state, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void found(struct finding *f, enum state state, const char *fmt, ...)
{
	va_list ap;

	f->state = state;
	va_start(ap, fmt);
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
}

static void advise(struct finding *f, const char *text)
{
	snprintf(f->advice, sizeof(f->advice), "%s", text);
}

/* The first line of a small file; false when it cannot be read. */
static bool read_line(const char *path, char *ret, size_t cap)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (rut_buf_read_file(&text, path, 65536) < 0 || !text.data)
		return false;
	snprintf(ret, cap, "%.*s", (int)strcspn(text.data, "\n"), text.data);
	return true;
}

/* Whether PTRACE_SEIZE on a child of our own works: 0 or an errno. */
static int try_ptrace(void)
{
	pid_t child = fork();
	int rc = 0;

	if (child < 0)
		return errno;
	if (child == 0) {
		pause();
		_exit(0);
	}
	if (ptrace(PTRACE_SEIZE, child, NULL, NULL) < 0)
		rc = errno;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return rc;
}

static void check_ptrace(struct finding *f)
{
	bool cap = rut_have_cap_sys_ptrace();
	int yama = rut_yama_scope(), rc = try_ptrace();

	if (rc) {
		found(f, STATE_NO, "ptrace is refused: %s", strerror(rc));
		advise(f,
		       "in a container, add the capability SYS_PTRACE and a seccomp profile that "
		       "permits ptrace; or preload the agent (see rutile(1))");
	} else if (yama == 3) {
		found(f, STATE_NO, "kernel.yama.ptrace_scope is 3: no process may attach");
		advise(f, "it cannot be lowered before the next boot; preload the agent (see "
			  "rutile(1))");
	} else if (cap) {
		found(f, STATE_OK, "every process can be attached to (CAP_SYS_PTRACE)");
	} else if (yama > 0) {
		found(f, STATE_NO, "kernel.yama.ptrace_scope is %d: only %s may attach", yama,
		      yama == 1 ? "a parent process" : "CAP_SYS_PTRACE");
		advise(f, yama == 1 ? "run rutile as root, or: sysctl kernel.yama.ptrace_scope=0, "
				      "or preload the agent (see rutile(1))"
				    : "run rutile as root");
	} else {
		found(f, STATE_LIMITED, "processes of your own user can be attached to");
		advise(f, "run rutile as root to trace those of other users");
	}
}

static void check_memfd(struct finding *f)
{
	int fd = (int)syscall(SYS_memfd_create, "rutile-doctor", 1 /* MFD_CLOEXEC */);
	char level[16];

	if (fd < 0)
		fd = (int)syscall(SYS_memfd_create, "rutile-doctor", 1 | 8 /* NOEXEC_SEAL */);
	if (fd < 0) {
		found(f, STATE_NO, "memfd_create is refused: %s", strerror(errno));
		advise(f, "permit memfd_create in the seccomp profile: the agent is loaded through "
			  "it");
		return;
	}
	close(fd);
	if (!read_line("/proc/sys/vm/memfd_noexec", level, sizeof(level)))
		snprintf(level, sizeof(level), "0");
	found(f, STATE_OK, "memfd_create works (vm.memfd_noexec is %s)", level);
}

/* Loads a program that returns 0: 0 or an errno. */
static int try_bpf(void)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {0};
	int fd;

	attr.prog_type = BPF_PROG_TYPE_TRACEPOINT;
	attr.insn_cnt = 2;
	attr.insns = (uintptr_t)insns;
	attr.license = (uintptr_t) "GPL";
	fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static void check_bpf(struct finding *f)
{
	int rc = try_bpf();

	if (!rc) {
		found(f, STATE_OK, "programs can be loaded");
	} else if (rc == ENOSYS) {
		found(f, STATE_NO, "the kernel has no eBPF");
		advise(f,
		       "recording kernel events needs CONFIG_BPF_SYSCALL; tracing Ruby does not");
	} else {
		found(f, STATE_NO, "programs cannot be loaded: %s", strerror(rc));
		advise(f, geteuid() == 0
				  ? "give the container CAP_BPF and CAP_PERFMON (or "
				    "CAP_SYS_ADMIN); tracing Ruby does not need it"
				  : "run rutile as root to record kernel events; tracing Ruby "
				    "does not need it");
	}
}

static void check_btf(struct finding *f)
{
	struct stat st;

	errno = 0;
	if (access("/sys/kernel/btf/vmlinux", R_OK) == 0 && !stat("/sys/kernel/btf/vmlinux", &st) &&
	    st.st_size) {
		found(f, STATE_OK, "/sys/kernel/btf/vmlinux");
		return;
	}
	found(f, STATE_NO, "/sys/kernel/btf/vmlinux: %s", errno ? strerror(errno) : "empty");
	advise(f, "recording kernel events and system calls needs a kernel with "
		  "CONFIG_DEBUG_INFO_BTF; probes and tracing Ruby do not");
}

static void check_mount(struct finding *f, const char *path, long magic, const char *type)
{
	struct statfs fs;

	if (statfs(path, &fs) == 0 && fs.f_type == magic) {
		if (access(path, R_OK | X_OK) == 0) {
			found(f, STATE_OK, "%s", path);
			return;
		}
		found(f, STATE_NO, "%s: %s", path, strerror(errno));
		advise(f, "run rutile as root");
		return;
	}
	found(f, STATE_NO, "%s is not mounted", path);
	snprintf(f->advice, sizeof(f->advice), "mount -t %s %s %s", type, type, path);
}

static void check_bpffs(struct finding *f)
{
	check_mount(f, "/sys/fs/bpf", BPF_FS_MAGIC, "bpf");
}

static void check_tracefs(struct finding *f)
{
	check_mount(f, "/sys/kernel/tracing", TRACEFS_MAGIC, "tracefs");
}

static bool is_mounted_securityfs(void)
{
	struct statfs fs;

	return statfs("/sys/kernel/security", &fs) == 0 && fs.f_type == SECURITYFS_MAGIC;
}

static void check_lockdown(struct finding *f)
{
	char line[128], *open, *end;

	if (!read_line("/sys/kernel/security/lockdown", line, sizeof(line))) {
		if (is_mounted_securityfs()) {
			found(f, STATE_OK, "none");
			return;
		}
		found(f, STATE_OK, "unknown: /sys/kernel/security is not mounted");
		advise(f, "mount -t securityfs securityfs /sys/kernel/security");
		return;
	}
	open = strchr(line, '[');
	end = open ? strchr(open, ']') : NULL;
	if (end)
		*end = 0;
	if (open && !strcmp(open + 1, "confidentiality")) {
		found(f, STATE_LIMITED, "confidentiality: programs may not read kernel memory");
		advise(f, "events with fields that need it are left out; boot with "
			  "lockdown=integrity to "
			  "have them");
	} else {
		found(f, STATE_OK, "%s", open ? open + 1 : line);
	}
}

static void check_uprobes(struct finding *f)
{
	char type[32];

	if (read_line("/sys/bus/event_source/devices/uprobe/type", type, sizeof(type))) {
		found(f, STATE_OK, "supported (perf event type %s)", type);
		return;
	}
	found(f, STATE_NO, "the kernel has no perf event type for them");
	advise(f, "static tracepoints need CONFIG_UPROBE_EVENTS; tracing Ruby does not");
}

static void check_children(struct finding *f)
{
	switch (rut_nop5_kernel()) {
	case RUT_NOP5_SAFE:
		found(f, STATE_OK, "children of traced processes survive");
		return;
	case RUT_NOP5_UNKNOWN:
		found(f, STATE_OK, "not tested: this user may not set probes");
		return;
	case RUT_NOP5_GUARDED:
		found(f, STATE_LIMITED,
		      "a probe on a 5-byte nop kills children of the process that it hits");
		advise(f, "a bug of this kernel: rutile places its probes so that it does not "
			  "happen, and the gem repairs its sites; do not use other tools on such "
			  "nops of programs that fork");
		return;
	case RUT_NOP5_FATAL:
		found(f, STATE_LIMITED,
		      "a probe on a 5-byte nop kills children of the process that it hits");
		advise(f, "a bug of this kernel: rutile refuses such probes, and the gem repairs "
			  "its sites; do not use other tools on such nops of programs that fork");
		return;
	}
}

static void format_limit(char *ret, size_t cap, rlim_t value)
{
	if (value == RLIM_INFINITY)
		snprintf(ret, cap, "unlimited");
	else
		snprintf(ret, cap, "%llu", (unsigned long long)value);
}

static void check_memlock(struct finding *f)
{
	struct rlimit lim = {0};
	char value[32];

	getrlimit(RLIMIT_MEMLOCK, &lim);
	format_limit(value, sizeof(value), lim.rlim_cur);
	/* Since 5.11 the memory of eBPF is counted by the control group. */
	found(f, STATE_OK, "%s%s", value,
	      lim.rlim_cur == RLIM_INFINITY ? "" : " bytes: not needed since Linux 5.11");
}

static void check_nofile(struct finding *f)
{
	struct rlimit lim = {0};
	char value[32];

	getrlimit(RLIMIT_NOFILE, &lim);
	format_limit(value, sizeof(value), lim.rlim_cur);
	found(f, lim.rlim_cur < 256 ? STATE_LIMITED : STATE_OK, "%s", value);
	if (lim.rlim_cur < 256)
		advise(f, "raise it to trace many processes at once: ulimit -n 1024");
}

static const struct check {
	const char *name;
	void (*fn)(struct finding *f);
} checks[] = {
	{"ptrace", check_ptrace},
	{"memfd", check_memfd},
	{"eBPF", check_bpf},
	{"BTF", check_btf},
	{"bpffs", check_bpffs},
	{"tracefs", check_tracefs},
	{"lockdown", check_lockdown},
	{"uprobes", check_uprobes},
	{"uprobes, fork", check_children},
	{"RLIMIT_MEMLOCK", check_memlock},
	{"RLIMIT_NOFILE", check_nofile},
};

static void print(const char *name, const struct finding *f, bool json)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	if (json) {
		rut_jsonl_begin(&out);
		rut_jsonl_str(&out, "check", name);
		rut_jsonl_str(&out, "state", state_names[f->state]);
		rut_jsonl_str(&out, "detail", f->detail);
		rut_jsonl_str(&out, "advice", f->advice[0] ? f->advice : NULL);
		rut_jsonl_end(&out);
	} else {
		rut_buf_printf(&out, "%-15s %-8s %s\n", name, state_names[f->state], f->detail);
		if (f->advice[0])
			rut_buf_printf(&out, "%24s -> %s\n", "", f->advice);
	}
	if (out.len)
		fwrite(out.data, 1, out.len, stdout);
}

/* One line for all, and one for each process that cannot be traced. */
static enum state print_ruby(const struct rut_ruby_procs *ps, bool json)
{
	struct finding f = {0};
	size_t good = 0;

	for (size_t i = 0; i < ps->count; i++)
		good += !ps->procs[i].why_not;
	if (!ps->count) {
		found(&f, STATE_OK, "no Ruby process is running");
	} else {
		found(&f,
		      good == ps->count ? STATE_OK
		      : good		? STATE_LIMITED
					: STATE_NO,
		      "%zu process%s, %zu can be traced", ps->count, ps->count == 1 ? "" : "es",
		      good);
		advise(&f, "'rutile ps' lists them");
	}
	print("Ruby", &f, json);
	for (size_t i = 0; i < ps->count; i++) {
		struct finding one = {.state = STATE_NO};

		if (!ps->procs[i].why_not)
			continue;
		snprintf(one.detail, sizeof(one.detail), "%d %.200s", ps->procs[i].pid,
			 ps->procs[i].name);
		advise(&one, ps->procs[i].why_not);
		print("Ruby", &one, json);
	}
	return f.state;
}

static int examine(const struct rut_cmd *cmd, bool json)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_ruby_procs ps;
	bool bad = false;

	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
		struct finding f = {0};

		checks[i].fn(&f);
		print(checks[i].name, &f, json);
		bad |= f.state == STATE_NO;
	}
	if (rut_ruby_procs_list(&ps, &err) < 0)
		return rut_cli_fail(cmd, &err);
	bad |= print_ruby(&ps, json) == STATE_NO;
	rut_ruby_procs_fini(&ps);
	return bad ? RUT_EXIT_FAIL : RUT_EXIT_OK;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	bool json = false;
	int rc = rut_cli_args_flag(cmd, argc, argv, &json);

	if (rc)
		return rc == RUT_ARGS_HELP ? RUT_EXIT_OK : rc;
	fflush(stdout); /* before fork */
	return examine(cmd, json);
}

const struct rut_cmd cmd_doctor = {
	.name = "doctor",
	.group = "About rutile",
	.summary = "check what this machine supports, with remedies",
	.usage = "[--json]",
	.options = options,
	.run = run,
};
