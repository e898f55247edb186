/* SPDX-License-Identifier: MIT */
/*
 * Programs are attached by descriptors of this process alone: when it ends, however it ends, the
 * kernel detaches them.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/load.h"
#include "script/tracefs.h"

struct rut_script_links {
	int *fds; /* owned */
	size_t n, cap;
	size_t probes;
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

static int attach_one(struct rut_script_links *l, const struct rut_script_prog *prog,
		      const struct rut_script_attach *a, struct rut_err *err)
{
	switch (a->kind) {
	case RUT_PROBE_TRACEPOINT:
		return attach_tracepoint(l, prog, a, err);
	case RUT_PROBE_PROFILE:
		return attach_profile(l, prog, a, err);
	default: /* begin, end and interval are run by the consumer */
		return 0;
	}
}

int rut_script_attach(struct rut_script_links **ret, struct rut_script_program *p,
		      struct rut_err *err)
{
	struct rut_script_links *l = calloc(1, sizeof(*l));

	*ret = l;
	if (!l)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < p->nprogs; i++) {
		for (size_t k = 0; k < p->progs[i].nattach; k++) {
			int rc = attach_one(l, &p->progs[i], &p->progs[i].attach[k], err);

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
