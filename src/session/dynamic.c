/* SPDX-License-Identifier: MIT */
#include "session/dynamic.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "session/building.h"
#include "session/dynamic_user.h"
#include "session/programs.h"
#include "session/tracefs.h"

static int add_tracepoint(struct rut_recorder *r, const char *spec, const char *category,
			  const char *name, uint32_t id, struct rut_err *err)
{
	struct rut_tracefs_format format;
	struct bpf_program *prog = NULL;
	struct bpf_link *link;
	struct rut_building b;
	int rc = rut_tracefs_read(category, name, &format, err);

	if (rc)
		return rc;
	rut_building_begin(&b, r, spec, id);
	snprintf(b.title, sizeof(b.title), "%s:%s", category, name);
	format.conf.id = b.conf.id;
	b.conf = format.conf;
	memcpy(b.event.fields, format.fields, format.nfields * sizeof(*format.fields));
	b.event.nfields = format.nfields;
	rc = rut_building_load(&b, "on_tracepoint", &prog, err);
	if (!rc)
		rc = rut_building_describe(&b, err);
	if (!rc && !r->load_only) {
		link = bpf_program__attach_tracepoint(prog, category, name);
		rc = link ? rut_building_keep_link(&b, link, 0, err)
			  : rut_err_errno(err, errno, "cannot attach to '%s:%s'", category, name);
	}
	return rut_building_finish(&b, rc);
}

static int add_tracepoints(struct rut_recorder *r, const char *spec, uint32_t id,
			   struct rut_err *err)
{
	bool raw = !strncmp(spec, "tp:", 3);
	_cleanup_free_ char *copy = strdup(raw ? spec + 3 : spec);
	struct rut_strtab names = {0};
	char *colon;
	int rc;

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	colon = strchr(copy, ':');
	if (!colon)
		/* cppcheck-suppress memleak ; it has a cleanup attribute */
		return rut_err_set(err, EINVAL, "'%s' should be tp:CATEGORY:NAME", spec);
	*colon = '\0';
	rc = rut_tracefs_find(copy, colon + 1, &names, err);
	for (size_t i = 0; i < names.count && !rc; i++) {
		_cleanup_buf_ struct rut_buf ours = RUT_BUF_INIT;
		char one[256];

		/* Those that are events of ours were selected as such. */
		if (!raw && !id && rut_events_of_tracepoint(&ours, "", copy, names.strs[i].data))
			continue;
		snprintf(one, sizeof(one), "%s%s:%s", raw ? "tp:" : "", copy, names.strs[i].data);
		rc = add_tracepoint(r, one, copy, names.strs[i].data, id, err);
	}
	rut_strtab_fini(&names);
	return rc;
}

/* One clock a CPU; it counts time, so it works where there is no performance counter. */
static int open_clock(int cpu, unsigned int hz)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = hz,
		.freq = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int add_profile(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	unsigned long hz = strtoul(spec + 8, NULL, 10);
	struct bpf_program *prog = NULL;
	struct rut_building b;
	int rc;

	if (!hz || hz > 10000)
		return rut_err_set(err, EINVAL, "'%s': 1 to 10000 samples a second", spec);
	if (r->nsets < RUT_STACK_SETS)
		return rut_err_set(
			err, ENOTSUP,
			"session '%s' was started without room for stacks: start one with "
			"--profile, or --context ustack or kstack",
			r->conf.name);
	for (uint32_t i = 0; !id && i < r->meta->ndynamic; i++)
		if (r->meta->dynamic[i].id && !strncmp(r->meta->dynamic[i].spec, "profile:", 8))
			return rut_err_set(err, EEXIST, "session '%s' takes samples already: '%s'",
					   r->conf.name, r->meta->dynamic[i].spec);
	rut_building_begin(&b, r, spec, id);
	strcpy(b.title, "rutile_sample");
	rut_building_add_field(&b, RUT_FK_S32, 0, "pid");
	rut_building_add_field(&b, RUT_FK_S32, 0, "tid");
	rut_building_add_field(&b, RUT_FK_TEXT16, 0, "procname");
	rut_building_add_field(&b, RUT_FK_X64, 0, "ustack_id");
	rut_building_add_field(&b, RUT_FK_X64, 0, "kstack_id");
	rc = rut_building_load(&b, "on_sample", &prog, err);
	if (!rc)
		rc = rut_building_describe(&b, err);
	for (int cpu = 0; cpu < r->ncpus && !rc && !r->load_only; cpu++) {
		int fd = open_clock(cpu, (unsigned int)hz);
		struct bpf_link *link;

		if (fd < 0 && errno == ENODEV)
			continue; /* offline */
		if (fd < 0)
			rc = rut_err_errno(err, errno, "cannot sample CPU %d", cpu);
		if (rc)
			break;
		link = bpf_program__attach_perf_event(prog, fd);
		rc = link ? rut_building_keep_link(&b, link, (size_t)cpu, err)
			  : rut_err_errno(err, errno, "cannot sample CPU %d", cpu);
		if (!link)
			close(fd);
		else if (!rc)
			r->links[r->nlinks - 1].clock_fd = fd;
	}
	return rut_building_finish(&b, rc);
}

static int add(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	if (!strncmp(spec, "usdt:", 5))
		return rut_dynamic_add_usdt(r, spec, id, err);
	if (!strncmp(spec, "uprobe:", 7) || !strncmp(spec, "uretprobe:", 10))
		return rut_dynamic_add_uprobe(r, spec, id, err);
	if (!strncmp(spec, "profile:", 8))
		return add_profile(r, spec, id, err);
	return add_tracepoints(r, spec, id, err);
}

int rut_dynamic_add(struct rut_recorder *r, const char *spec, struct rut_err *err)
{
	return add(r, spec, 0, err);
}

/* What this machine lacks is named, and the rest is recorded. */
static int add_or_warn(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	struct rut_err why = RUT_ERR_INIT;
	int rc = add(r, spec, id, &why);

	if (rc >= 0)
		return 0;
	if (rc == -ENOMEM || rc == -EPERM || r->conf.strict)
		return rut_err_set(err, why.code, "%s", why.msg);
	rut_warn("'%s' is not recorded: %s", spec, why.msg);
	return 1;
}

int rut_dynamic_try(struct rut_recorder *r, const char *spec, struct rut_err *err)
{
	int rc = add_or_warn(r, spec, 0, err);

	return rc < 0 ? rc : 0;
}

int rut_dynamic_resume(struct rut_recorder *r, struct rut_err *err)
{
	for (uint32_t i = 0; i < r->meta->ndynamic; i++) {
		int rc;

		if (!r->meta->dynamic[i].id)
			continue; /* removed */
		rc = add_or_warn(r, r->meta->dynamic[i].spec, r->meta->dynamic[i].id, err);
		if (rc < 0)
			return rc;
		if (rc)
			r->meta->dynamic[i].id = 0;
	}
	return 0;
}

void rut_dynamic_detach(struct rut_recorder *r, uint32_t id)
{
	char prefix[32], name[24];
	size_t n = 0;

	snprintf(prefix, sizeof(prefix), "dyn:%u:", id);
	rut_programs_drop_links(r, prefix);
	rut_building_object_name(name, id);
	for (size_t i = 0; i < r->nobjects; i++) {
		if (strcmp(bpf_object__name(r->objects[i]), name) != 0)
			r->objects[n++] = r->objects[i];
		else
			bpf_object__close(r->objects[i]);
	}
	r->nobjects = n;
}

int rut_dynamic_attach(struct rut_recorder *r, uint32_t id, struct rut_err *err)
{
	for (uint32_t i = 0; i < r->meta->ndynamic; i++)
		if (r->meta->dynamic[i].id == id) {
			int rc = add_or_warn(r, r->meta->dynamic[i].spec, id, err);

			return rc < 0 ? rc : 0;
		}
	return 0;
}
