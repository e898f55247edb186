/* SPDX-License-Identifier: MIT */
#include "session/rubies.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/hash.h"
#include "ring/write.h"
#include "ruby/find_vm.h"
#include "session/unwind.h"

#define WAITING_MAX 256
#define RETRY_NS    20000000ull
#define RETRY_MIN   2000000ull /* a program that was just started */
#define GIVE_UP_NS  20000000000ull

/* Processes with a VM under construction. */
struct rut_rubies {
	struct {
		int32_t pid;
		uint64_t since_ns, next_ns;
	} waiting[WAITING_MAX];
	size_t n;
};

bool rut_rubies_wanted(const struct rut_recorder *r)
{
	return r->conf.contexts & RUT_CTX_RSTACK;
}

void rut_rubies_free(struct rut_rubies *rubies)
{
	free(rubies);
}

static bool is_known(const struct rut_recorder *r, int32_t pid)
{
	struct rut_ruby_vm p;

	return !bpf_map_lookup_elem(r->fds[RUT_MAP_RUBIES], &pid, &p);
}

/* Returns 0, or -errno: -EAGAIN, it is worth another try. */
static int look(struct rut_recorder *r, int32_t pid)
{
	struct rut_err why = RUT_ERR_INIT;
	struct rut_ruby_vm p;
	int rc = rut_ruby_vm_find(&p, pid, &why);

	if (rc == -ENOTSUP)
		rut_warn("no Ruby stacks: %s", why.msg);
	if (rc)
		return rc;
	p.generation = rut_hash_u64((uint64_t)pid ^ rut_proc_start(pid) << 24) | 1;
	rc = bpf_map_update_elem(r->fds[RUT_MAP_RUBIES], &pid, &p, BPF_NOEXIST);
	if (rc == -E2BIG)
		rut_warn("no Ruby stacks of process %d: %d Ruby processes are known already", pid,
			 RUT_RUBY_PROCS);
	if (!rc)
		rut_unwind_found_ruby(r, pid);
	return rc;
}

static void await(struct rut_recorder *r, int32_t pid)
{
	struct rut_rubies *w = r->rubies;

	if (!w)
		w = r->rubies = calloc(1, sizeof(*w));
	for (size_t i = 0; w && i < w->n; i++)
		if (w->waiting[i].pid == pid)
			return;
	if (!w || w->n == WAITING_MAX)
		return;
	w->waiting[w->n].pid = pid;
	w->waiting[w->n].since_ns = rut_ring_clock();
	w->waiting[w->n++].next_ns = 0;
}

void rut_rubies_add(struct rut_recorder *r, int32_t pid)
{
	if (rut_rubies_wanted(r) && !is_known(r, pid) && look(r, pid) == -EAGAIN)
		await(r, pid);
}

void rut_rubies_mapped(struct rut_recorder *r, int32_t pid, const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	if (rut_rubies_wanted(r) && (!strncmp(base, "libruby", 7) || !strncmp(base, "ruby", 4)))
		await(r, pid);
}

static uint64_t pause_ns(uint64_t age_ns)
{
	uint64_t ns = age_ns / 4;

	return ns < RETRY_MIN ? RETRY_MIN : ns > RETRY_NS ? RETRY_NS : ns;
}

void rut_rubies_step(struct rut_recorder *r)
{
	struct rut_rubies *w = r->rubies;
	uint64_t now = rut_ring_clock();
	size_t n = 0;

	for (size_t i = 0; w && i < w->n; i++) {
		bool again = true;

		if (now >= w->waiting[i].next_ns) {
			int rc = is_known(r, w->waiting[i].pid) ? 0 : look(r, w->waiting[i].pid);

			/* The libruby of a process that is being started comes after its program.
			 */
			again = (rc == -EAGAIN || rc == -ENOEXEC) &&
				now - w->waiting[i].since_ns < GIVE_UP_NS;
			if (rc == -EAGAIN && !again)
				rut_warn("no Ruby stacks of process %d: what is needed was not "
					 "found in "
					 "its memory",
					 w->waiting[i].pid);
			w->waiting[i].next_ns = now + pause_ns(now - w->waiting[i].since_ns);
		}
		if (again)
			w->waiting[n++] = w->waiting[i];
	}
	if (w)
		w->n = n;
}

uint64_t rut_rubies_due_ns(const struct rut_recorder *r)
{
	uint64_t due = UINT64_MAX;

	for (size_t i = 0; r->rubies && i < r->rubies->n; i++)
		if (r->rubies->waiting[i].next_ns < due)
			due = r->rubies->waiting[i].next_ns;
	return due;
}
