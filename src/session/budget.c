/* SPDX-License-Identifier: MIT */
#include "session/budget.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "session/dynamic.h"
#include "session/pin.h"
#include "session/programs.h"

/*
 * Nanoseconds of one run where nothing better is known: measured on the machine of docs/design.md
 * (getppid with and without, two events), rounded up; being called included.
 */
#define COST_EVENT	70
#define COST_SYSCALL	140  /* with the kernel's slow way into the call */
#define COST_TEXT	220  /* a system call with strings or an address */
#define COST_STACK	1200 /* each stack of it */
#define COST_RUBY	2000 /* a Ruby stack */
#define COST_TRACEPOINT 250
#define COST_PROBE	700
#define COST_RETURN	1400
#define COST_SAMPLE	3500
/* ... and of one that is shed: of a system call two thirds are the kernel's way to the program. */
#define SHED_EVENT   30
#define SHED_SYSCALL 100
/* A probe's breakpoint costs most of it; of a tracepoint the kernel still makes its own record. */
#define SHED_PROBE	500
#define SHED_RETURN	1000
#define SHED_TRACEPOINT 150

/* The kernel's own measure begins behind the call of the program; so much is not in it. */
#define COST_CALL	   15
#define CALIBRATION_MS	   50
#define CALIBRATION_SLICES 10
#define RUNS_MIN	   20 /* fewer say nothing */

static void set_class(struct rut_recorder *r, uint32_t class, const char *name, uint32_t cost,
		      uint32_t shed)
{
	struct rut_budget_class *c = &r->budget->classes[class % RUT_BUDGET_CLASSES];

	if (r->conf.contexts & RUT_CTX_USTACK)
		cost += COST_STACK;
	if (r->conf.contexts & RUT_CTX_KSTACK)
		cost += COST_STACK;
	if (r->conf.contexts & RUT_CTX_RSTACK)
		cost += COST_RUBY;
	c->cost_ns = cost;
	c->shed_ns = shed;
	snprintf(c->name, sizeof(c->name), "%s", name);
}

void rut_budget_init(struct rut_recorder *r)
{
	struct rut_syscall_desc d;
	struct rut_event e;
	char name[80];

	if (!r->conf.budget_ppm)
		return;
	for (uint32_t id = 0; id < RUT_EV_COUNT; id++) {
		rut_event_static(&e, id);
		set_class(r, id, e.name, COST_EVENT, SHED_EVENT);
	}
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++) {
		if (!rut_syscall_name(nr))
			continue;
		rut_syscall_describe(&d, nr);
		snprintf(name, sizeof(name), "%ssyscall:%s",
			 nr >= RUT_SYSCALLS_COMPAT ? "compat_" : "", rut_syscall_name(nr));
		set_class(r, RUT_BUDGET_SYSCALL + nr, name, d.slow ? COST_TEXT : COST_SYSCALL,
			  SHED_SYSCALL);
	}
}

void rut_budget_name(struct rut_recorder *r, uint32_t id, const char *name, const char *spec)
{
	static const struct {
		const char *prefix;
		uint32_t cost, shed;
	} kinds[] = {
		{"usdt:", COST_PROBE, SHED_PROBE},	  {"uprobe:", COST_PROBE, SHED_PROBE},
		{"uretprobe:", COST_RETURN, SHED_RETURN}, {"profile:", COST_SAMPLE, SHED_EVENT},
		{"", COST_TRACEPOINT, SHED_TRACEPOINT},
	};
	size_t i = 0;

	if (!r->conf.budget_ppm)
		return;
	while (strncmp(spec, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
		i++;
	set_class(r, rut_budget_class(id), name, kinds[i].cost, kinds[i].shed);
}

static int by_mean(const void *a, const void *b)
{
	const struct rut_budget_slice *x = a, *y = b;
	uint64_t p = x->ns / x->runs, q = y->ns / y->runs;

	return p < q ? -1 : p > q;
}

uint32_t rut_budget_typical_ns(struct rut_budget_slice *slices, size_t n)
{
	uint64_t runs = 0, sum = 0;
	size_t used = 0, i = 0;

	for (size_t k = 0; k < n; k++) {
		runs += slices[k].runs;
		if (slices[k].runs)
			slices[used++] = slices[k];
	}
	if (runs < RUNS_MIN)
		return 0;
	qsort(slices, used, sizeof(*slices), by_mean);
	while ((sum += slices[i].runs) * 2 < runs)
		i++;
	return (uint32_t)(slices[i].ns / slices[i].runs);
}

/* A program's measured cost is charged to its classes. */
static void set_measured(struct rut_recorder *r, const char *program, uint32_t ns)
{
	struct rut_event e;

	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		rut_event_static(&e, id);
		if (!strcmp(e.tracepoint, program))
			r->budget->classes[id].cost_ns = ns;
	}
}

/* A program that is measured. */
struct measured {
	const char *name; /* borrowed from its object */
	int fd;		  /* borrowed */
	uint64_t runs, ns;
	struct rut_budget_slice slices[CALIBRATION_SLICES];
};

static bool run_stats(int fd, uint64_t *ret_runs, uint64_t *ret_ns)
{
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return false;
	*ret_runs = info.run_cnt;
	*ret_ns = info.run_time_ns;
	return true;
}

static size_t list_programs(const struct rut_recorder *r, struct measured **ret)
{
	struct bpf_program *prog;
	size_t n = 0;

	for (size_t i = 0; i < r->nobjects; i++)
		bpf_object__for_each_program(prog, r->objects[i]) n++;
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret)
		return 0;
	n = 0;
	for (size_t i = 0; i < r->nobjects; i++) {
		bpf_object__for_each_program(prog, r->objects[i])
		{
			struct measured *m = &(*ret)[n];

			m->name = bpf_program__name(prog);
			m->fd = bpf_program__fd(prog);
			n += run_stats(m->fd, &m->runs, &m->ns);
		}
	}
	return n;
}

void rut_budget_calibrate(struct rut_recorder *r)
{
	_cleanup_close_ int stats = -1;
	_cleanup_free_ struct measured *list = NULL;
	size_t n;

	if (!r->conf.budget_ppm)
		return;
	stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (stats < 0)
		return;
	n = list_programs(r, &list);
	for (size_t k = 0; k < CALIBRATION_SLICES; k++) {
		poll(NULL, 0, CALIBRATION_MS / CALIBRATION_SLICES);
		for (size_t i = 0; i < n; i++) {
			uint64_t runs = list[i].runs, ns = list[i].ns;

			if (!run_stats(list[i].fd, &list[i].runs, &list[i].ns))
				continue;
			list[i].slices[k].runs = list[i].runs - runs;
			list[i].slices[k].ns = list[i].ns - ns;
		}
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t ns = rut_budget_typical_ns(list[i].slices, CALIBRATION_SLICES);

		if (ns)
			set_measured(r, list[i].name, ns + COST_CALL);
	}
}

bool rut_budget_is_shed(const struct rut_recorder *r, uint32_t class, uint64_t *ret_left_ns)
{
	uint64_t until = __atomic_load_n(&r->budget->classes[class].until_ns, __ATOMIC_RELAXED);
	uint64_t now = rut_ring_clock();

	*ret_left_ns = until > now ? until - now : 0;
	return until > now;
}

/* What a session with a process does more: it says what happens, and detaches programs. */

static void tell_changes(struct rut_budget_follower *f, struct rut_recorder *r)
{
	for (uint32_t class = 0; class < RUT_BUDGET_CLASSES; class ++) {
		const char *name = r->budget->classes[class].name;
		uint64_t left;
		bool shed = rut_budget_is_shed(r, class, &left);

		if (shed && !f->shed[class])
			rut_warn("'%s' is not recorded for %.0f s: with it the session would take "
				 "more than %g %% of a CPU",
				 name, (double)left / 1e9, r->conf.budget_ppm / 1e4);
		else if (!shed && f->shed[class])
			rut_info("'%s' is recorded again", name);
		f->shed[class] = shed;
	}
}

/* Notes what is shed now; the time at which all of it may come back. */
static uint64_t select_shed(struct rut_budget_follower *f, const struct rut_recorder *r)
{
	struct rut_selection *ret = &f->detached;
	uint64_t left, most = 0;
	bool calls = false;

	memset(ret, 0, sizeof(*ret));
	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		ret->events[id] = rut_budget_is_shed(r, id, &left);
		most = left > most ? left : most;
	}
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++) {
		calls |= rut_budget_is_shed(r, RUT_BUDGET_SYSCALL + nr, &left);
		most = left > most ? left : most;
	}
	if (calls)
		rut_selection_set_syscalls(ret, &r->meta->active);
	f->nprobes = 0;
	for (uint32_t i = 0; i < r->meta->ndynamic; i++) {
		uint32_t id = r->meta->dynamic[i].id;

		if (!id || !rut_budget_is_shed(r, rut_budget_class(id), &left))
			continue;
		f->probes[f->nprobes++] = id;
		most = left > most ? left : most;
	}
	return most ? rut_ring_clock() + most : 0;
}

static void detach(struct rut_budget_follower *f, struct rut_recorder *r)
{
	struct rut_selection rest = r->meta->active;

	f->until_ns = select_shed(f, r);
	if (!f->until_ns)
		return;
	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++)
		rest.events[id] &= !f->detached.events[id];
	if (rut_selection_any_syscall(&f->detached)) {
		rut_selection_set_syscalls(&rest, NULL);
		rut_warn("no system calls are recorded for %.0f s: even being asked about each "
			 "would take more than %g %% of a CPU",
			 (double)(f->until_ns - rut_ring_clock()) / 1e9, r->conf.budget_ppm / 1e4);
	}
	rut_programs_detach_unwanted(r, &rest);
	if (!f->foreground)
		rut_session_unpin_links(r, &rest);
	for (uint32_t i = 0; i < f->nprobes; i++) {
		if (f->foreground)
			rut_dynamic_detach(r, f->probes[i]);
		else
			rut_session_unpin_dynamic(r, f->probes[i]);
	}
}

/* Those that a command has attached meanwhile, or removed, are left alone. */
static int attach_probes(struct rut_budget_follower *f, struct rut_recorder *r, struct rut_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < f->nprobes && !rc; i++)
		if (f->foreground || !rut_session_has_dynamic(r, f->probes[i]))
			rc = rut_dynamic_attach(r, f->probes[i], err);
	f->nprobes = 0;
	return rc;
}

static void attach_again(struct rut_budget_follower *f, struct rut_recorder *r)
{
	struct rut_err err = RUT_ERR_INIT;
	int rc = 0;

	f->until_ns = 0;
	if (!r->meta->running)
		return;
	r->drains = true;
	if (f->foreground) {
		rc = rut_programs_attach(r, &err);
		if (!rc)
			rc = attach_probes(f, r, &err);
	} else {
		r->conf.selection = r->meta->active;
		rc = rut_programs_load(r, &f->detached, &err);
		if (!rc)
			rc = rut_programs_attach(r, &err);
		if (!rc)
			rc = attach_probes(f, r, &err);
		if (!rc)
			rc = rut_session_pin_links(r, &err);
		rut_programs_free(r);
	}
	r->drains = false;
	if (rc)
		rut_warn("what was shed cannot be recorded again: %s", err.msg);
}

void rut_budget_follow(struct rut_budget_follower *f, struct rut_recorder *r)
{
	const struct rut_budget *b = r->budget;
	uint64_t now = rut_ring_clock(), limit;
	_cleanup_close_ int lock = -1;

	if (!r->conf.budget_ppm || now - f->looked_ns < 50000000)
		return;
	f->looked_ns = now;
	tell_changes(f, r);
	limit = __atomic_load_n(&b->shed_limit, __ATOMIC_RELAXED);
	if (limit == f->limit && (!f->until_ns || now < f->until_ns))
		return;
	/* A command is under way, which may wait for us: at the next look. */
	if (!f->foreground) {
		lock = rut_session_try_lock(r->conf.name);
		if (lock < 0)
			return;
	}
	if (limit != f->limit && !f->until_ns)
		detach(f, r);
	f->limit = limit;
	if (f->until_ns && now >= f->until_ns)
		attach_again(f, r);
}
