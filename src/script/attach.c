/* SPDX-License-Identifier: MIT */
/*
 * Programs are attached by descriptors of this process alone: when it ends, however it ends, the
 * kernel detaches them.
 */
#include <bpf/bpf.h>
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

/* A number of the kernel's description of its uprobe events. */
static int uprobe_number(const char *file, const char *before)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char path[128];
	const char *s;

	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/uprobe/%s", file);
	if (rut_buf_read_file(&text, path, 256))
		return -1;
	s = strstr(text.data, before);
	return s ? (int)strtol(s + strlen(before), NULL, 10) : -1;
}

static int attach_uprobe(struct rut_script_links *l, const struct rut_script_program *p,
			 const struct rut_script_prog *prog, const struct rut_script_attach *a,
			 struct rut_err *err)
{
	struct perf_event_attr attr = {.config1 = (uint64_t)(uintptr_t)a->path,
				       .config2 = a->offset};
	int type = uprobe_number("type", ""), guard = -1, rc;
	int32_t pid = p->opts.pid;

	if (type < 0)
		return rut_err_set(err, ENOTSUP, "the kernel has no probes of programs (uprobes)");
	attr.type = (uint32_t)type;
	if (a->kind == RUT_PROBE_URETPROBE)
		attr.config |= 1u << uprobe_number("format/retprobe", "config:");
	attr.config |= a->semaphore << 32;
	rc = rut_nop5_guard(a->path, a->offset, a->semaphore, &guard, err);
	if (!rc)
		rc = perf_attach(l, &attr, pid ? pid : -1, pid ? -1 : 0, prog, a, err);
	if (guard >= 0)
		close(guard);
	return rc;
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
	default: /* begin, end and interval are run by the consumer */
		return 0;
	}
}

int rut_script_attach(struct rut_script_links **ret, struct rut_script_program *p, const char *pins,
		      struct rut_err *err)
{
	struct rut_script_links *l = calloc(1, sizeof(*l));

	*ret = l;
	if (!l)
		return rut_err_set(err, ENOMEM, "out of memory");
	l->pins = pins;
	for (size_t i = 0; i < p->nprogs; i++) {
		for (size_t k = 0; k < p->progs[i].nattach; k++) {
			int rc = attach_one(l, p, &p->progs[i], &p->progs[i].attach[k], err);

			if (rc)
				return rc;
			l->probes++;
		}
	}
	return 0;
}

size_t rut_script_links_count(const struct rut_script_links *l)
{
	return l->probes;
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
