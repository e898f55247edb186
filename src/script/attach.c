/* SPDX-License-Identifier: MIT */
/*
 * Programs are attached by descriptors of this process alone: when it ends, however it ends, the
 * kernel detaches them.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/leave.h"
#include "probe/nop5.h"
#include "script/load.h"
#include "script/tracefs.h"

struct rut_script_links {
	int *fds; /* owned */
	size_t n, cap;
	size_t probes;
	const char *pins; /* NULL: the descriptors alone keep the programs attached */
	size_t npinned;
};

static int keep_fd(struct rut_script_links *l, int fd, struct rut_err *err)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		int *fds = realloc(l->fds, cap * sizeof(*fds));

		if (!fds) {
			close(fd);
			return rut_err_set(err, ENOMEM, "out of memory");
		}
		l->fds = fds;
		l->cap = cap;
	}
	l->fds[l->n++] = fd;
	return 0;
}

static int perf_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	attr->size = sizeof(*attr);
	int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Takes the descriptor of a link. */
static int pin_link(struct rut_script_links *l, int link, struct rut_err *err)
{
	_cleanup_close_ int fd = link;
	char path[512];

	snprintf(path, sizeof(path), "%s/link_script:%zu", l->pins, l->npinned++);
	return bpf_obj_pin(fd, path) < 0 ? rut_err_errno(err, errno, "cannot pin '%s'", path) : 0;
}

/* Attaches the program to an event of perf. */
static int perf_attach(struct rut_script_links *l, struct perf_event_attr *attr, pid_t pid, int cpu,
		       const struct rut_script_prog *prog, const struct rut_script_attach *a,
		       struct rut_err *err)
{
	int fd = perf_open(attr, pid, cpu), rc;

	if (fd < 0)
		return rut_err_errno(err, -fd, "cannot open %s", a->name);
	rc = keep_fd(l, fd, err);
	if (rc)
		return rc;
	if (l->pins) {
		int link = bpf_link_create(prog->fd, fd, BPF_PERF_EVENT, NULL);

		return link < 0 ? rut_err_errno(err, -link, "cannot attach to %s so that it lasts",
						a->name)
				: pin_link(l, link, err);
	}
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog->fd) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		return rut_err_errno(err, errno, "cannot attach to %s", a->name);
	return 0;
}

static int attach_tracepoint(struct rut_script_links *l, const struct rut_script_prog *prog,
			     const struct rut_script_attach *a, struct rut_err *err)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT, .sample_period = 1, .wakeup_events = 1};
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char path[512];
	int rc;

	snprintf(path, sizeof(path), "%s/events/%s/%s/id", rut_script_tracefs(), a->group,
		 a->event);
	rc = rut_buf_read_file(&text, path, 64);
	if (rc)
		return rut_err_errno(err, -rc, "cannot read '%s'", path);
	attr.config = strtoull(text.data ? text.data : "0", NULL, 10);
	return perf_attach(l, &attr, -1, 0, prog, a, err);
}

/* On every CPU that is online. */
static int attach_cpus(struct rut_script_links *l, struct perf_event_attr *attr, pid_t pid,
		       const struct rut_script_prog *prog, const struct rut_script_attach *a,
		       struct rut_err *err)
{
	bool any = false;

	for (int cpu = 0; cpu < (int)rut_script_cpus(); cpu++) {
		int rc = perf_attach(l, attr, pid, cpu, prog, a, err);

		if (rc == -ENODEV)
			continue;
		if (rc)
			return rc;
		any = true;
	}
	return any ? 0 : -ENODEV;
}

static int attach_profile(struct rut_script_links *l, const struct rut_script_prog *prog,
			  const struct rut_script_attach *a, struct rut_err *err)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .config = PERF_COUNT_SW_CPU_CLOCK};

	if (a->frequency) {
		attr.freq = 1;
		attr.sample_freq = a->frequency;
	} else {
		attr.sample_period = a->period_ns;
	}
	return attach_cpus(l, &attr, -1, prog, a, err);
}

static int attach_perf(struct rut_script_links *l, const struct rut_script_program *p,
		       const struct rut_script_prog *prog, const struct rut_script_attach *a,
		       struct rut_err *err)
{
	struct perf_event_attr attr = {
		.type = a->kind == RUT_PROBE_SOFTWARE ? PERF_TYPE_SOFTWARE : PERF_TYPE_HARDWARE,
		.config = a->config,
		.sample_period = a->count,
	};

	return attach_cpus(l, &attr, p->opts.pid ? p->opts.pid : -1, prog, a, err);
}

static int attach_raw(struct rut_script_links *l, const struct rut_script_prog *prog,
		      const struct rut_script_attach *a, struct rut_err *err)
{
	int fd = bpf_raw_tracepoint_open(a->event, prog->fd);

	if (fd == -ENOENT)
		return rut_err_set(err, ENOENT, "the kernel has no raw tracepoint '%s'", a->event);
	if (fd < 0)
		return rut_err_errno(err, -fd, "cannot attach to %s", a->name);
	return l->pins ? pin_link(l, fd, err) : keep_fd(l, fd, err);
}

/* A number of the kernel's description of its uprobe or kprobe events. */
static int pmu_number(const char *pmu, const char *file, const char *before)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char path[128];
	const char *s;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/%s", pmu, file);
	if (rut_buf_read_file(&text, path, 256))
		return -1;
	s = strstr(text.data, before);
	return s ? (int)strtol(s + strlen(before), NULL, 10) : -1;
}

/* `pid` -1: in all processes. */
static int attach_uprobe_at(struct rut_script_links *l, const struct rut_script_prog *prog,
			    const struct rut_script_attach *a, pid_t pid, struct rut_err *err)
{
	struct perf_event_attr attr = {.config1 = (uint64_t)(uintptr_t)a->path,
				       .config2 = a->offset};
	int type = pmu_number("uprobe", "type", "");

	if (type < 0)
		return rut_err_set(err, ENOTSUP, "the kernel has no probes of programs (uprobes)");
	attr.type = (uint32_t)type;
	if (a->kind == RUT_PROBE_URETPROBE)
		attr.config |= 1u << pmu_number("uprobe", "format/retprobe", "config:");
	attr.config |= a->semaphore << 32;
	return perf_attach(l, &attr, pid, pid < 0 ? 0 : -1, prog, a, err);
}

static int attach_uprobe(struct rut_script_links *l, const struct rut_script_program *p,
			 const struct rut_script_prog *prog, const struct rut_script_attach *a,
			 struct rut_err *err)
{
	int guard = -1, rc;

	rc = rut_nop5_guard(a->path, a->offset, a->semaphore, &guard, err);
	if (!rc)
		rc = attach_uprobe_at(l, prog, a, p->opts.pid ? p->opts.pid : -1, err);
	if (guard >= 0)
		close(guard);
	return rc;
}

int rut_script_attach_place(struct rut_script_links *l, const struct rut_script_prog *prog,
			    const char *path, uint64_t offset, struct rut_err *err)
{
	struct rut_script_attach a = prog->attach[0];

	a.path = path;
	a.offset = offset;
	return attach_uprobe_at(l, prog, &a, -1, err);
}

static int attach_kprobe(struct rut_script_links *l, const struct rut_script_prog *prog,
			 const struct rut_script_attach *a, struct rut_err *err)
{
	struct perf_event_attr attr = {.config1 = (uint64_t)(uintptr_t)a->event,
				       .config2 = a->offset};
	int type = pmu_number("kprobe", "type", ""), rc;

	if (type < 0)
		return rut_err_set(err, ENOTSUP, "the kernel has no probes of its functions");
	attr.type = (uint32_t)type;
	if (a->kind == RUT_PROBE_KRETPROBE)
		attr.config |= 1u << pmu_number("kprobe", "format/retprobe", "config:");
	rc = perf_attach(l, &attr, -1, 0, prog, a, err);
	if (rc == -ENOENT)
		return rut_err_set(err, ENOENT, "the kernel has no function '%s'", a->event);
	if (rc == -EINVAL || rc == -EADDRNOTAVAIL || rc == -EILSEQ)
		return rut_err_set(err, -rc, "the kernel permits no probe in '%s'", a->event);
	return rc;
}

static int attach_trampoline(struct rut_script_links *l, const struct rut_script_prog *prog,
			     const struct rut_script_attach *a, struct rut_err *err)
{
	int fd = bpf_raw_tracepoint_open(NULL, prog->fd);

	if (fd < 0)
		return rut_err_errno(err, -fd, "the kernel cannot attach to the function '%s'",
				     a->event);
	return l->pins ? pin_link(l, fd, err) : keep_fd(l, fd, err);
}

/* The threads of a process as they are now. *ret is owned; returns how many, or -errno. */
static int threads_of(pid_t pid, pid_t **ret)
{
	_cleanup_free_ pid_t *tids = NULL;
	const struct dirent *entry;
	char path[64];
	DIR *dir;
	int n = 0;

	*ret = NULL;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		pid_t *more;

		if (entry->d_name[0] == '.')
			continue;
		more = realloc(tids, ((size_t)n + 1) * sizeof(*tids));
		if (!more) {
			closedir(dir);
			return -ENOMEM;
		}
		tids = more;
		tids[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	closedir(dir);
	*ret = tids;
	tids = NULL;
	return n;
}

/*
 * To every thread of the process, and to those that they start. They are listed first: one that is
 * started meanwhile has the event of its parent, and would count twice with one of its own.
 */
static int attach_threads(struct rut_script_links *l, struct perf_event_attr *attr, pid_t pid,
			  const struct rut_script_prog *prog, const struct rut_script_attach *a,
			  struct rut_err *err)
{
	_cleanup_free_ pid_t *tids = NULL;
	int n = threads_of(pid, &tids), rc = -ESRCH;

	if (n < 0)
		return rut_err_errno(err, -n, "cannot list the threads of process %d", (int)pid);
	attr->inherit = attr->inherit_thread = 1;
	for (int i = 0; i < n; i++) {
		struct rut_err why = RUT_ERR_INIT;
		int one = perf_attach(l, attr, tids[i], -1, prog, a, &why);

		if (one && one != -ESRCH) {
			*err = why;
			return one;
		}
		rc = one ? rc : 0;
	}
	return rc ? rut_err_errno(err, -rc, "cannot open %s", a->name) : 0;
}

/* In a process the address is one of its memory; of all, one of the kernel's. */
static int attach_watchpoint(struct rut_script_links *l, const struct rut_script_program *p,
			     const struct rut_script_prog *prog, const struct rut_script_attach *a,
			     struct rut_err *err)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.bp_type = a->config,
		.bp_addr = a->offset,
		.bp_len = a->count,
		.sample_period = 1,
	};

	if (p->opts.pid)
		return attach_threads(l, &attr, p->opts.pid, prog, a, err);
	return attach_cpus(l, &attr, -1, prog, a, err);
}

static int attach_one(struct rut_script_links *l, const struct rut_script_program *p,
		      const struct rut_script_prog *prog, const struct rut_script_attach *a,
		      struct rut_err *err)
{
	switch (a->kind) {
	case RUT_PROBE_TRACEPOINT:
		return attach_tracepoint(l, prog, a, err);
	case RUT_PROBE_PROFILE:
		return attach_profile(l, prog, a, err);
	case RUT_PROBE_SOFTWARE:
	case RUT_PROBE_HARDWARE:
		return attach_perf(l, p, prog, a, err);
	case RUT_PROBE_RAWTRACEPOINT:
		return attach_raw(l, prog, a, err);
	case RUT_PROBE_UPROBE:
	case RUT_PROBE_URETPROBE:
	case RUT_PROBE_USDT:
		return attach_uprobe(l, p, prog, a, err);
	case RUT_PROBE_KPROBE:
	case RUT_PROBE_KRETPROBE:
		return attach_kprobe(l, prog, a, err);
	case RUT_PROBE_FENTRY:
	case RUT_PROBE_FEXIT:
		return attach_trampoline(l, prog, a, err);
	case RUT_PROBE_WATCHPOINT:
		return attach_watchpoint(l, p, prog, a, err);
	default: /* begin, end, interval and iter are run by the consumer */
		return 0;
	}
}

static int attach_prog(struct rut_script_links *l, struct rut_script_program *p,
		       struct rut_script_prog *prog, struct rut_err *err)
{
	for (size_t k = 0; k < prog->nattach; k++) {
		int rc = attach_one(l, p, prog, &prog->attach[k], err);

		if (rc)
			return rc;
		/* A static tracepoint is one probe, wherever it is inlined. */
		if (!k || strcmp(prog->attach[k].name, prog->attach[k - 1].name) != 0)
			l->probes++;
	}
	return 0;
}

static bool is_of_program(const struct rut_script_prog *prog)
{
	enum rut_probe_kind kind = prog->nattach ? prog->attach[0].kind : RUT_PROBE_BEGIN;

	return kind == RUT_PROBE_UPROBE || kind == RUT_PROBE_URETPROBE || kind == RUT_PROBE_USDT;
}

struct rut_script_links *rut_script_links_new(void)
{
	return calloc(1, sizeof(struct rut_script_links));
}

int rut_script_attach(struct rut_script_links **ret, struct rut_script_program *p, const char *pins,
		      struct rut_err *err)
{
	struct rut_script_links *l = rut_script_links_new();
	int rc = 0;

	*ret = l;
	if (!l)
		return rut_err_set(err, ENOMEM, "out of memory");
	l->pins = pins;
	for (size_t i = 0; i < p->nprogs && !rc; i++)
		if (!is_of_program(&p->progs[i]))
			rc = attach_prog(l, p, &p->progs[i], err);
	/* The kernel runs the latest first there; the script's order is kept. */
	for (size_t i = p->nprogs; i-- > 0 && !rc;)
		if (is_of_program(&p->progs[i]))
			rc = attach_prog(l, p, &p->progs[i], err);
	return rc;
}

size_t rut_script_links_count(const struct rut_script_links *l)
{
	return l->probes;
}

void rut_script_links_leave(struct rut_script_links *l)
{
	if (l && l->n >= RUT_LEAVE_MIN)
		rut_leave_behind(l->fds, l->n, -1);
	rut_script_links_free(l);
}

void rut_script_links_free(struct rut_script_links *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		close(l->fds[i]);
	free(l->fds);
	free(l);
}
