/* SPDX-License-Identifier: MIT */
/* The state model: threads, CPUs, hooks, and which event is handled where. */
#include "analysis/state.h"
#include "analysis/state_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Small things ---- */

const char *rut_an_state_intern(struct rut_state *st, const char *s, size_t len)
{
	int64_t id;

	/* Arrays of characters end at the first NUL. */
	len = strnlen(s, len);
	id = rut_strtab_intern(&st->strings, s, len);
	if (id < 0) {
		st->failed = true;
		return "";
	}
	return st->strings.strs[id].data;
}

const char *rut_an_state_name_slow(struct rut_state *st, const struct rut_ctf_event *ev,
				   const struct rut_ctf_ref *ref, struct rut_state_name *kept)
{
	const char *name;
	size_t len;
	const char *s = rut_ctf_str(ev, ref, &len);

	name = rut_an_state_intern(st, s, len);
	if (!kept)
		return name;
	memcpy(kept->raw, s, sizeof(kept->raw));
	kept->name = name;
	return name;
}

const char *rut_an_state_str(struct rut_state *st, const struct rut_ctf_event *ev,
			     const struct rut_ctf_ref *ref)
{
	size_t len;
	const char *s = rut_ctf_str(ev, ref, &len);

	return rut_an_state_intern(st, s, len);
}

struct rut_cpu *rut_an_state_add_cpu(struct rut_state *st, int cpu)
{
	struct rut_cpu *cpus;
	size_t n;

	if (cpu < 0 || cpu > 65535)
		return &st->nowhere;
	if ((size_t)cpu >= st->n_cpus) {
		n = ((size_t)cpu + 16) & ~(size_t)15;
		cpus = realloc(st->cpus, n * sizeof(*cpus));
		if (!cpus) {
			st->failed = true;
			return &st->nowhere;
		}
		memset(cpus + st->n_cpus, 0, (n - st->n_cpus) * sizeof(*cpus));
		st->cpus = cpus;
		st->n_cpus = n;
	}
	if (!st->cpus[cpu].seen) {
		st->cpus[cpu].seen = true;
		st->cpus_seen++;
	}
	return &st->cpus[cpu];
}

/* ---- Threads ---- */

static void free_thread(struct rut_thread *t)
{
	rut_an_state_free_fds(t);
	free(t);
}

/* One of zeros. */
static struct rut_thread *take_thread(struct rut_state *st)
{
	struct rut_thread *t = st->free_threads;

	if (!t)
		return calloc(1, sizeof(*t));
	st->free_threads = t->next_free;
	memset(t, 0, sizeof(*t));
	return t;
}

static bool grow_threads(struct rut_state *st)
{
	size_t cap = st->cap_all ? st->cap_all * 2 : 256;
	void *all = realloc(st->all, cap * sizeof(*st->all)), *indexes;

	if (!all)
		return false;
	st->all = all;
	indexes = realloc(st->free_indexes, cap * sizeof(*st->free_indexes));
	if (!indexes)
		return false;
	st->free_indexes = indexes;
	st->cap_all = cap;
	return true;
}

struct rut_thread *rut_an_state_add_thread(struct rut_state *st, int64_t tid)
{
	static struct rut_thread nobody = {.comm = "", .pid = -1};
	struct rut_thread *t;

	if (!st->n_free && st->n_all == st->cap_all && !grow_threads(st)) {
		st->failed = true;
		return &nobody;
	}
	t = take_thread(st);
	if (!t || rut_index_put(&st->tids, (uint64_t)tid + 1, t)) {
		free(t);
		st->failed = true;
		return &nobody;
	}
	t->tid = tid;
	t->pid = tid == 0 ? 0 : -1;
	t->comm = st->empty;
	t->last_wakeup_ns = t->wake.ns = RUT_NO_TIME;
	t->index = st->n_free ? st->free_indexes[--st->n_free] : (uint32_t)st->n_all++;
	t->serial = st->serials++;
	st->all[t->index] = t;
	return t;
}

/* Frees a thread that no event can name any more. */
static void reap(struct rut_state *st, struct rut_thread *t)
{
	if (st->keep_threads || t->kept || t->running)
		return;
	/* Its TID may be another's by now. */
	if (rut_index_get(&st->tids, (uint64_t)t->tid + 1) == t)
		rut_index_put(&st->tids, (uint64_t)t->tid + 1, NULL);
	st->all[t->index] = NULL;
	st->free_indexes[st->n_free++] = t->index;
	rut_an_state_free_fds(t);
#ifdef __SANITIZE_ADDRESS__
	free(t); /* so that a later use of it is found */
#else
	t->next_free = st->free_threads;
	st->free_threads = t;
#endif
}

/* It is freed soon, and has not been used for long. */
static void prefetch_thread(const struct rut_thread *t)
{
	if (!t)
		return;
	__builtin_prefetch(t);
	__builtin_prefetch(&t->fds);
	__builtin_prefetch(&t->kept);
}

void rut_an_state_thread_ended(struct rut_state *st, struct rut_thread *t)
{
	struct rut_thread *oldest;

	if (t->dead || !t->tid)
		return;
	if (!st->dead)
		st->dead = calloc(RUT_STATE_DEAD, sizeof(struct rut_thread *));
	if (!st->dead) {
		st->failed = true;
		return;
	}
	t->dead = true;
	oldest = st->dead[st->dead_at];
	prefetch_thread(st->dead[(st->dead_at + 8) % RUT_STATE_DEAD]);
	st->dead[st->dead_at] = t;
	st->dead_at = (st->dead_at + 1) % RUT_STATE_DEAD;
	if (oldest)
		reap(st, oldest);
}

struct rut_thread *rut_an_state_thread_replace(struct rut_state *st, int64_t tid)
{
	struct rut_thread *old = rut_an_state_thread(st, tid),
			  *t = rut_an_state_add_thread(st, tid);

	for (size_t i = 0; old && i < st->n_cpus; i++) {
		if (st->cpus[i].current == old) {
			st->cpus[i].current = t;
			t->running++;
			old->running--;
		}
	}
	if (old)
		rut_an_state_thread_ended(st, old);
	return t;
}

void rut_an_state_thread_revived(struct rut_state *st, struct rut_thread *t)
{
	t->exiting = false;
	if (!t->dead)
		return;
	t->dead = false;
	for (size_t i = 0; i < RUT_STATE_DEAD; i++)
		if (st->dead[i] == t)
			st->dead[i] = NULL;
}

bool rut_an_state_has_ended(const struct rut_state *st, int64_t tid)
{
	const struct rut_thread *t = rut_index_get(&st->tids, (uint64_t)tid + 1);

	return !t || t->dead;
}

int64_t rut_an_state_pid(struct rut_state *st, int64_t tid, int64_t known)
{
	const struct rut_thread *t = known < 0 ? rut_an_state_thread(st, tid) : NULL;

	return t ? t->pid : known;
}

void rut_an_state_set_comm(struct rut_state *st, struct rut_thread *t, const char *s, size_t len)
{
	len = strnlen(s, len);
	if (strncmp(t->comm, s, len) != 0 || t->comm[len])
		rut_an_state_rename(st, t, rut_an_state_intern(st, s, len));
}

struct rut_thread *rut_an_state_find_leader(struct rut_state *st, struct rut_thread *t)
{
	struct rut_thread *leader = rut_an_state_thread_new(st, t->pid);

	if (leader->pid < 0)
		leader->pid = t->pid;
	if (!*leader->comm)
		rut_an_state_rename(st, leader, t->comm);
	return leader;
}

/* Without sched_switch the context of the event itself names the running thread. */
struct rut_thread *rut_an_state_current_of(struct rut_state *st, const struct rut_ctf_event *ev,
					   const struct rut_state_class *c)
{
	struct rut_thread *t;
	int64_t tid;
	size_t len;
	const char *s;

	if (!rut_ctf_ref_ok(&c->ctx_tid))
		return NULL;
	tid = rut_ctf_i64(ev, &c->ctx_tid);
	if (tid <= 0)
		return NULL;
	t = rut_an_state_thread_new(st, tid);
	rut_an_state_get_cpu(st, st->cpu)->current = t;
	if (rut_ctf_ref_ok(&c->ctx_procname)) {
		s = rut_ctf_str(ev, &c->ctx_procname, &len);
		rut_an_state_set_comm(st, t, s, len);
	}
	if (rut_ctf_ref_ok(&c->ctx_pid) && t->pid < 0)
		t->pid = rut_ctf_i64(ev, &c->ctx_pid);
	return t;
}

struct rut_thread *rut_an_state_group(struct rut_state *st, struct rut_thread *t, bool by_cgroup)
{
	const char *name = t->cgroup ? t->cgroup : st->unknown;
	struct rut_thread *g;

	if (!by_cgroup)
		return rut_an_state_leader(st, t);
	if (!t->tid)
		return t;
	g = rut_map_get(&st->groups, (uintptr_t)name);
	if (g)
		return g;
	g = take_thread(st);
	if (!g || rut_map_put(&st->groups, (uintptr_t)name, g) < 0) {
		free(g);
		st->failed = true;
		return t;
	}
	g->tid = -1 - (int64_t)st->groups.count;
	g->pid = -1;
	g->comm = name;
	return g;
}

/* ---- Hooks ---- */

int rut_an_state_subscribe(struct rut_state *st, enum rut_hook hook, rut_hook_fn fn, void *arg)
{
	struct rut_hook_list *l = &st->hooks[hook];

	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 4;
		void *subs = realloc(l->subs, cap * sizeof(*l->subs));

		if (!subs)
			return -ENOMEM;
		l->subs = subs;
		l->cap = cap;
	}
	l->subs[l->n++] = (struct rut_hook_sub){fn, arg};
	return 0;
}

void rut_an_state_unsubscribe(struct rut_state *st, void *arg)
{
	for (int h = 0; h < RUT_HOOK_COUNT; h++) {
		struct rut_hook_list *l = &st->hooks[h];
		size_t kept = 0;

		for (size_t i = 0; i < l->n; i++)
			if (l->subs[i].arg != arg)
				l->subs[kept++] = l->subs[i];
		l->n = kept;
	}
}

/* ---- Life ---- */

int rut_an_state_init(struct rut_state *st)
{
	*st = (struct rut_state){.origin = RUT_FD_FOUND, .listens = UINT32_MAX};
	st->empty = rut_an_state_intern(st, "", 0);
	st->unknown = rut_an_state_intern(st, "unknown", 7);
	st->socket = rut_an_state_intern(st, "socket", 6);
	return st->failed ? -ENOMEM : 0;
}

static void free_disk(struct rut_disk *d)
{
	rut_map_each(&d->pending, s)
		free(s->value);
	rut_map_fini(&d->pending);
	free(d);
}

static void free_table(struct rut_file_table *t)
{
	free(t->pids);
	free(t->fds);
	free(t);
}

void rut_an_state_fini(struct rut_state *st)
{
	for (size_t i = 0; i < st->n_all; i++)
		if (st->all[i])
			free_thread(st->all[i]);
	for (struct rut_thread *t = st->free_threads, *next; t; t = next) {
		next = t->next_free;
		free(t);
	}
	free(st->all);
	free(st->free_indexes);
	free(st->dead);
	free(st->cpus);
	rut_map_each(&st->groups, g)
		free(g->value);
	rut_map_fini(&st->groups);
	rut_index_fini(&st->tids);
	rut_map_each(&st->disks, d)
		free_disk(d->value);
	rut_map_fini(&st->disks);
	free(st->disk_list);
	rut_map_each(&st->tables, t)
		free_table(t->value);
	rut_map_fini(&st->tables);
	for (struct rut_remap *r = st->remaps, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	for (struct rut_block_rq *r = st->free_rqs, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	for (size_t i = 0; i < st->syscall_names.count && st->syscalls; i++)
		free(st->syscalls[i]);
	free(st->syscalls);
	rut_strtab_fini(&st->syscall_names);
	rut_strtab_fini(&st->strings);
	for (int h = 0; h < RUT_HOOK_COUNT; h++)
		free(st->hooks[h].subs);
	free(st->classes);
	rut_an_state_ruby_fini(st->ruby);
	*st = (struct rut_state){0};
}

/* ---- Classes ---- */

static bool starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static const struct rut_syscall_info *syscall_info(struct rut_state *st, const char *name)
{
	int64_t id = rut_strtab_intern(&st->syscall_names, name, strlen(name));
	struct rut_syscall_info *info, **list;

	if (id < 0)
		return NULL;
	if (st->syscalls && (size_t)id + 1 < st->syscall_names.count)
		return st->syscalls[id];
	if (st->syscalls && (size_t)id < st->syscall_names.count && st->syscalls[id])
		return st->syscalls[id];
	list = realloc(st->syscalls, ((size_t)id + 2) * sizeof(*list));
	info = calloc(1, sizeof(*info));
	if (!list || !info) {
		free(info);
		if (list)
			st->syscalls = list;
		st->failed = true;
		return NULL;
	}
	st->syscalls = list;
	list[id] = info;
	list[id + 1] = NULL;
	info->name = st->syscall_names.strs[id].data;
	info->id = (uint32_t)id;
	info->compat = !strncmp(name, "compat_", 7);
	if (info->compat)
		name += strlen("compat_");
	info->io = rut_an_state_io_kind(name);
	info->fd_call = rut_an_state_fd_call(name);
	info->wait = rut_an_state_wait_kind(name);
	info->of_socket =
		(starts(name, "recv") || starts(name, "send")) && !starts(name, "sendfile");
	return info;
}

/*
 * The name of the system call that an entry event belongs to, for every generation of LTTng:
 * sys_X, syscall_entry_X, compat_sys_X, compat_syscall_entry_X. The calls of 32-bit programs keep
 * their "compat_". Returns whether it is an entry.
 */
static bool entry_name(const char *event, char *out, size_t size)
{
	bool compat = starts(event, "compat_");
	const char *s = compat ? event + 7 : event;

	if (starts(s, "syscall_entry_"))
		s += strlen("syscall_entry_");
	else if (starts(s, "sys_"))
		s += strlen("sys_");
	else
		return false;
	snprintf(out, size, "%s%s", compat ? "compat_" : "", s);
	return true;
}

static bool is_exit(const char *event)
{
	const char *s = starts(event, "compat_") ? event + 7 : event;

	return starts(s, "exit_syscall") || starts(s, "syscall_exit_");
}

static void find_refs(struct rut_state_class *c, const struct rut_ctf_event_class *cls,
		      const char *const *fields)
{
	for (int i = 0; fields && i < RUT_STATE_FIELDS && fields[i]; i++)
		rut_ctf_ref_find(cls, RUT_CTF_SCOPE_ANY, fields[i], &c->f[i]);
}

static const struct rut_state_def *find_def(const char *name)
{
	const struct rut_state_def *const lists[] = {
		rut_an_state_sched_defs, rut_an_state_irq_defs,	 rut_an_state_block_defs,
		rut_an_state_dump_defs,	 rut_an_state_ruby_defs, rut_an_state_wake_defs};

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		for (const struct rut_state_def *d = lists[i]; d->name; d++)
			if (!strcmp(d->name, name))
				return d;
	return NULL;
}

/* The priorities in wakeup events were off by 100 until LTTng 2.7.1. */
static bool has_old_prio(const struct rut_ctf_trace *trace)
{
	static const char *const names[] = {"tracer_major", "tracer_minor", "tracer_patchlevel"};
	static const int64_t fixed[] = {2, 7, 1};

	for (int i = 0; i < 3; i++) {
		const struct rut_ctf_env *env = rut_ctf_trace_env(trace, names[i]);
		int64_t v;

		if (!env)
			return false;
		v = env->str ? atoll(env->str) : env->num;
		if (v != fixed[i])
			return v < fixed[i];
	}
	return false;
}

#define CALLS                                                                                      \
	(RUT_STATE_SERVES_IO | RUT_HOOK_BIT(RUT_HOOK_SYSCALL_ENTRY) |                              \
	 RUT_HOOK_BIT(RUT_HOOK_POLL) | RUT_HOOK_BIT(RUT_HOOK_WAKEUP) |                             \
	 RUT_HOOK_BIT(RUT_HOOK_SYSCALL_EXIT))

static void bind_class(struct rut_state *st, const struct rut_ctf_event_class *cls)
{
	struct rut_state_class *c = &st->classes[cls->index];
	const struct rut_state_def *def = find_def(cls->name);
	struct rut_ctf_ref ref;
	char name[256];

	*c = (struct rut_state_class){.serves = UINT32_MAX};
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_ANY, "tid", &c->ctx_tid);
	if (c->ctx_tid.scope == RUT_CTF_SCOPE_PAYLOAD)
		c->ctx_tid = (struct rut_ctf_ref){0};
	if (!rut_ctf_ref_ok(&c->ctx_tid) &&
	    !rut_ctf_ref_find(cls, RUT_CTF_SCOPE_STREAM_CONTEXT, "tid", &c->ctx_tid))
		rut_ctf_ref_find(cls, RUT_CTF_SCOPE_EVENT_CONTEXT, "tid", &c->ctx_tid);
	if (!rut_ctf_ref_find(cls, RUT_CTF_SCOPE_STREAM_CONTEXT, "pid", &c->ctx_pid))
		rut_ctf_ref_find(cls, RUT_CTF_SCOPE_EVENT_CONTEXT, "pid", &c->ctx_pid);
	if (!rut_ctf_ref_find(cls, RUT_CTF_SCOPE_STREAM_CONTEXT, "procname", &c->ctx_procname))
		rut_ctf_ref_find(cls, RUT_CTF_SCOPE_EVENT_CONTEXT, "procname", &c->ctx_procname);
	/* Where the event itself says it, that is what counts. */
	if (rut_ctf_ref_find(cls, RUT_CTF_SCOPE_ANY, "cpu_id", &ref) &&
	    ref.scope != RUT_CTF_SCOPE_PACKET_CONTEXT && ref.scope != RUT_CTF_SCOPE_PACKET_HEADER) {
		c->cpu = ref;
		c->own_cpu = true;
	}
	c->fix_pid = rut_ctf_ref_find(cls, RUT_CTF_SCOPE_STREAM_CONTEXT, "pid", &ref) &&
		     !rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "pid", &ref);
	c->old_prio = has_old_prio(cls->stream_class->trace);
	c->of_tracer = rut_ctf_trace_env(cls->stream_class->trace, "tracer_name") != NULL;
	if (def) {
		c->fn = def->fn;
		c->serves = def->serves ? def->serves : UINT32_MAX;
		find_refs(c, cls, def->fields);
	} else if (entry_name(cls->name, name, sizeof(name))) {
		c->fn = rut_an_state_sys_entry;
		c->serves = c->fix_pid ? UINT32_MAX : CALLS;
		c->syscall = syscall_info(st, name);
		st->has_calls = true;
		if (c->syscall) {
			c->special = c->syscall->io || c->syscall->fd_call ||
				     c->syscall->wait == RUT_WAIT_FUTEX ||
				     c->syscall->wait == RUT_WAIT_POLL;
			find_refs(c, cls, rut_an_state_io_fields(c->syscall->io));
			rut_an_state_fd_bind(cls, c->syscall->fd_call, c->fd_f);
			if (c->syscall->wait == RUT_WAIT_FUTEX)
				rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "uaddr", &c->f[0]);
		} else {
			c->fn = NULL;
		}
	} else if (is_exit(cls->name)) {
		c->fn = rut_an_state_sys_exit;
		c->serves = CALLS;
		/* After a signal LTTng may show one kind's exit for the other's entry. */
		c->compat_exit = starts(cls->name, "compat_");
		c->native_exit = starts(cls->name, "syscall_exit_");
		find_refs(c, cls, rut_an_state_io_exit_fields());
	}
}

int rut_an_state_bind(struct rut_state *st, const struct rut_ctf_set *set)
{
	size_t n = rut_ctf_set_n_classes(set);
	struct rut_state_class *classes = realloc(st->classes, (n + 1) * sizeof(*classes));

	if (!classes)
		return -ENOMEM;
	st->classes = classes;
	st->n_classes = n;
	st->use_context = true;
	for (size_t i = 0; i < n; i++) {
		const struct rut_ctf_event_class *cls = rut_ctf_set_class(set, i);

		if (!strcmp(cls->name, "sched_switch"))
			st->use_context = false;
		if (!strcmp(cls->name, "irq_handler_entry"))
			st->has_irqs = true;
		bind_class(st, cls);
	}
	return st->failed ? -ENOMEM : 0;
}

bool rut_an_state_needs(const struct rut_state *st, size_t cls, uint32_t hooks)
{
	const struct rut_state_class *c = &st->classes[cls];

	/* Where contexts name the running thread, every event does. */
	return c->fn && (st->use_context || (c->serves & hooks));
}
