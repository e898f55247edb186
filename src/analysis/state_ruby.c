/* SPDX-License-Identifier: MIT */
#include "analysis/ruby.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/state_priv.h"
#include "base/buf.h"

#define UNKNOWN_CPU INT64_MIN

struct frame {
	const struct rut_ruby_method *method;
	int64_t begin_ns, cpu_ns;	    /* when it began, by both clocks; UNKNOWN_CPU */
	int64_t inner_ns;		    /* of callees and of other fibers */
	int64_t inner_cpu_ns;		    /* of callees */
	const struct rut_ruby_method *last; /* the callee that returned last, and when */
	int64_t last_end_ns, last_end_cpu_ns;
};

/* A thread ran from `on_ns` to `off_ns`; by then it had used `cpu_ns` on CPUs. */
struct ran {
	int64_t on_ns, off_ns, cpu_ns;
};

#define RAN_MAX 8192

/* A thread: its time on CPUs, and the fiber that it ran last. */
struct ruby_thread {
	int64_t tid;
	struct ran *ran; /* owned; when it ran lately, for calls that are reported late */
	uint32_t nran, ran_cap;
	int64_t cpu_ns,
		since_ns; /* until, and since, it was put on a CPU; RUT_NO_TIME: it is not */
	struct fiber *last;
};

struct process;

struct fiber {
	struct ruby_thread *thread;
	struct process *process;
	uint32_t number;
	struct frame *frames; /* owned */
	uint32_t count, cap;
	int64_t out_ns,
		out_cpu_ns;  /* when its thread went to another fiber; RUT_NO_TIME: it runs */
	int64_t away_cpu_ns; /* that other fibers of its thread used meanwhile */
};

struct process {
	int64_t pid;
	/*
	 * It is in another PID namespace: its thread numbers are not those of the kernel's events,
	 * and another such process may have the same ones.
	 */
	bool foreign;
	struct rut_ruby_method **methods; /* owned array, by number; borrowed methods */
	size_t cap;
};

struct stream {
	struct process *process;
	struct fiber *fiber; /* the fiber of the current records; NULL: not known */
};

struct rut_ruby {
	struct stream *streams; /* owned, by index of the stream */
	size_t nstreams;
	struct rut_map processes; /* address of the trace -> struct process, owned */
	struct rut_map fibers;	  /* hash of stream, thread and number -> struct fiber, owned */
	struct rut_map threads;	  /* tid + 1 -> struct ruby_thread, owned */
	struct rut_strtab keys;	  /* "LINE PATH NAME" -> index of the method */
	struct rut_ruby_method **methods; /* owned, by index */
	bool has_cpu;			  /* the trace has switches of CPUs */
	bool seen;
};

static struct rut_ruby *model(struct rut_state *st)
{
	if (!st->ruby)
		st->ruby = calloc(1, sizeof(*st->ruby));
	if (!st->ruby)
		st->failed = true;
	return st->ruby;
}

static bool wanted(const struct rut_state *st)
{
	return st->hooks[RUT_HOOK_RUBY_CALL].n || st->hooks[RUT_HOOK_RUBY_BEGIN].n ||
	       st->hooks[RUT_HOOK_RUBY_EVENT].n || st->hooks[RUT_HOOK_RUBY_REQUEST].n ||
	       st->hooks[RUT_HOOK_RUBY_SPAN].n || st->hooks[RUT_HOOK_RUBY_FIBER].n;
}

/* ---- threads and their CPU time ---- */

static uint64_t thread_key(const struct process *p, int64_t tid)
{
	return (p && p->foreign ? (uint64_t)p->pid << 32 : 0) + (uint64_t)tid + 1;
}

/* `p` NULL: as the kernel's events number it. */
static struct ruby_thread *thread_of(struct rut_state *st, struct rut_ruby *m,
				     const struct process *p, int64_t tid)
{
	uint64_t key = thread_key(p, tid);
	struct ruby_thread *t = rut_map_get(&m->threads, key);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t || rut_map_put(&m->threads, key, t)) {
		free(t);
		st->failed = true;
		return NULL;
	}
	t->tid = tid;
	t->since_ns = RUT_NO_TIME;
	return t;
}

/* Of a thread that leaves its CPU. When memory is short, or after many switches, what is older
 * goes. */
static void note_ran(struct ruby_thread *t, int64_t ts_ns)
{
	if (t->nran == t->ran_cap && t->ran_cap < RAN_MAX) {
		uint32_t cap = t->ran_cap ? t->ran_cap * 2 : 16;
		struct ran *to = realloc(t->ran, cap * sizeof(*to));

		if (to) {
			t->ran = to;
			t->ran_cap = cap;
		}
	}
	if (t->nran == t->ran_cap) {
		t->nran /= 2;
		memmove(t->ran, t->ran + t->ran_cap - t->nran, t->nran * sizeof(*t->ran));
	}
	if (t->nran < t->ran_cap)
		t->ran[t->nran++] = (struct ran){t->since_ns, ts_ns, t->cpu_ns};
}

/* What it had used at an earlier time; -1: not known any more. */
static int64_t cpu_then(const struct ruby_thread *t, int64_t ts_ns)
{
	int64_t cpu = -1;

	if (t->since_ns != RUT_NO_TIME && ts_ns >= t->since_ns)
		return t->cpu_ns + (ts_ns - t->since_ns);
	for (uint32_t i = t->nran; i-- > 0;) {
		const struct ran *r = &t->ran[i];

		if (ts_ns >= r->off_ns)
			return r->cpu_ns;
		if (ts_ns >= r->on_ns)
			return r->cpu_ns - (r->off_ns - ts_ns);
	}
	return cpu;
}

void rut_an_state_ruby_switch(struct rut_state *st, int64_t ts_ns, int64_t prev_tid,
			      int64_t next_tid)
{
	struct rut_ruby *m = wanted(st) ? model(st) : NULL;
	struct ruby_thread *t;

	if (!m)
		return;
	m->has_cpu = true;
	t = prev_tid ? thread_of(st, m, NULL, prev_tid) : NULL;
	if (t && t->since_ns != RUT_NO_TIME) {
		t->cpu_ns += ts_ns - t->since_ns;
		note_ran(t, ts_ns);
	}
	if (t)
		t->since_ns = RUT_NO_TIME;
	t = next_tid ? thread_of(st, m, NULL, next_tid) : NULL;
	if (t)
		t->since_ns = ts_ns;
}

/* Without a word of where it is. */
static int64_t cpu_at(const struct rut_ruby *m, const struct ruby_thread *t, int64_t ts_ns)
{
	return !m->has_cpu ? 0 : t->cpu_ns + (t->since_ns == RUT_NO_TIME ? 0 : ts_ns - t->since_ns);
}

/* A thread that makes a record is on a CPU, also before the first switch says so. */
static int64_t cpu_now(const struct rut_ruby *m, struct ruby_thread *t, int64_t ts_ns)
{
	if (!m->has_cpu)
		return 0;
	if (t->since_ns == RUT_NO_TIME)
		t->since_ns = ts_ns;
	return t->cpu_ns + (ts_ns - t->since_ns);
}

/* The time on a CPU that a fiber has used; another one of its thread may run. */
static int64_t fiber_cpu(const struct rut_ruby *m, const struct fiber *f, int64_t ts_ns)
{
	int64_t cpu = f->out_ns != RUT_NO_TIME ? f->out_cpu_ns : cpu_at(m, f->thread, ts_ns);

	return cpu - f->away_cpu_ns;
}

/* ---- streams and fibers ---- */

static struct stream *stream_of(struct rut_state *st, struct rut_ruby *m,
				const struct rut_ctf_event *ev)
{
	uint32_t i = ev->stream->index;
	uint64_t key = (uintptr_t)ev->stream->trace;
	struct stream *s;

	m->seen = true;
	if (i >= m->nstreams) {
		struct stream *to = realloc(m->streams, (i + 1) * sizeof(*to));

		if (!to) {
			st->failed = true;
			return NULL;
		}
		memset(to + m->nstreams, 0, (i + 1 - m->nstreams) * sizeof(*to));
		m->streams = to;
		m->nstreams = i + 1;
	}
	s = &m->streams[i];
	if (!s->process) {
		const struct rut_ctf_env *env = rut_ctf_trace_env(ev->stream->trace, "vpid");

		s->process = rut_map_get(&m->processes, key);
		if (s->process)
			return s;
		s->process = calloc(1, sizeof(*s->process));
		if (!s->process || rut_map_put(&m->processes, key, s->process)) {
			free(s->process);
			s->process = NULL;
			st->failed = true;
			return NULL;
		}
		s->process->pid = !env ? -1 : env->str ? atoll(env->str) : env->num;
	}
	return s;
}

static struct fiber *fiber_of(struct rut_state *st, struct rut_ruby *m, uint32_t stream,
			      int64_t tid, uint32_t number)
{
	/* A number belongs to one process, which has a stream for each --ruby that means it. */
	int64_t pid = m->streams[stream].process->pid;
	uint64_t of = pid >= 0 ? (uint64_t)pid : 1ull << 31 | stream;
	uint64_t key = rut_hash_u64(of << 32 | number) ^ ((uint64_t)tid + 1);
	struct fiber *f = rut_map_get(&m->fibers, key);

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (f)
		f->thread = thread_of(st, m, m->streams[stream].process, tid);
	if (!f || !f->thread || rut_map_put(&m->fibers, key, f)) {
		free(f);
		st->failed = true;
		return NULL;
	}
	f->number = number;
	f->process = m->streams[stream].process;
	f->out_ns = RUT_NO_TIME;
	return f;
}

static struct rut_thread *kernel_thread(const struct rut_state *st, const struct process *p,
					int64_t tid)
{
	return p->foreign ? NULL : rut_index_get(&st->tids, (uint64_t)tid + 1);
}

/* Requests are accounted for by thread, also before the kernel's events name it. */
static void know_thread(struct rut_state *st, const struct process *p, int64_t tid)
{
	struct rut_thread *t = rut_an_state_thread_new(st, tid);

	if (t->pid < 0)
		t->pid = p->pid;
	if (!*t->comm)
		rut_an_state_set_comm(st, t, "ruby", 4);
}

enum { SWITCH_TID, SWITCH_FIBER, SWITCH_PID };

static void ruby_switch(struct rut_state *st, const struct rut_ctf_event *ev,
			const struct rut_state_class *c)
{
	struct rut_ruby *m = wanted(st) ? model(st) : NULL;
	struct stream *s = m ? stream_of(st, m, ev) : NULL;
	struct rut_hook_ruby_fiber h;
	struct fiber *f, *left;

	if (!s)
		return;
	/* The packet has the number that the process knows itself by. */
	if (rut_ctf_ref_ok(&c->f[SWITCH_PID]) &&
	    rut_ctf_i64(ev, &c->f[SWITCH_PID]) != s->process->pid)
		s->process->foreign = true;
	f = fiber_of(st, m, ev->stream->index, rut_ctf_i64(ev, &c->f[SWITCH_TID]),
		     (uint32_t)rut_ctf_u64(ev, &c->f[SWITCH_FIBER]));
	s->fiber = f;
	if (f && st->hooks[RUT_HOOK_RUBY_REQUEST].n && !s->process->foreign)
		know_thread(st, s->process, f->thread->tid);
	if (!f || f->thread->last == f)
		return;
	left = f->thread->last;
	if (left) {
		left->out_ns = ev->ts_ns;
		left->out_cpu_ns = cpu_now(m, f->thread, ev->ts_ns);
	}
	if (f->out_ns != RUT_NO_TIME && f->count) {
		f->frames[f->count - 1].inner_ns += ev->ts_ns - f->out_ns;
	}
	if (f->out_ns != RUT_NO_TIME)
		f->away_cpu_ns += cpu_now(m, f->thread, ev->ts_ns) - f->out_cpu_ns;
	f->out_ns = RUT_NO_TIME;
	f->thread->last = f;
	h = (struct rut_hook_ruby_fiber){ev->ts_ns, s->process->pid, f->thread->tid, f->number,
					 kernel_thread(st, s->process, f->thread->tid)};
	rut_state_notify(st, RUT_HOOK_RUBY_FIBER, &h);
}

/* ---- names ---- */

enum { NAME_ID, NAME_LINE, NAME_SINGLETON, NAME_NATIVE, NAME_CLASS, NAME_METHOD, NAME_PATH };

static struct rut_ruby_method *intern_method(struct rut_state *st, struct rut_ruby *m,
					     const char *name, const char *path, uint32_t line,
					     bool native)
{
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;
	struct rut_ruby_method *method, **to;
	int64_t id;

	rut_buf_printf(&key, "%u %s %s", line, path, name);
	id = key.failed ? -1 : rut_strtab_intern(&m->keys, key.data, key.len);
	if (id >= 0 && (size_t)id + 1 < m->keys.count)
		return m->methods[id];
	if (id >= 0 && m->methods && m->methods[id])
		return m->methods[id];
	to = id < 0 ? NULL : realloc(m->methods, ((size_t)id + 2) * sizeof(*to));
	method = calloc(1, sizeof(*method));
	if (to)
		m->methods = to;
	if (to)
		to[id] = to[id + 1] = NULL;
	if (!to || !method) {
		free(method);
		st->failed = true;
		return NULL;
	}
	to[id] = method;
	to[id + 1] = NULL;
	*method = (struct rut_ruby_method){name, path, line, (uint32_t)id, native};
	return method;
}

static bool put_method(struct process *p, uint64_t id, struct rut_ruby_method *method)
{
	if (id >= p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		struct rut_ruby_method **to;

		while (cap <= id)
			cap *= 2;
		to = realloc(p->methods, cap * sizeof(*to));
		if (!to)
			return false;
		memset(to + p->cap, 0, (cap - p->cap) * sizeof(*to));
		p->methods = to;
		p->cap = cap;
	}
	p->methods[id] = method;
	return true;
}

#define IDS_MAX (1u << 24)

static void ruby_method(struct rut_state *st, const struct rut_ctf_event *ev,
			const struct rut_state_class *c)
{
	struct rut_ruby *m = wanted(st) ? model(st) : NULL;
	struct stream *s = m ? stream_of(st, m, ev) : NULL;
	const char *klass, *method, *path;
	uint64_t id = rut_ctf_u64(ev, &c->f[NAME_ID]);
	_cleanup_buf_ struct rut_buf name = RUT_BUF_INIT;
	struct rut_ruby_method *to;

	if (!s || id >= IDS_MAX)
		return;
	klass = rut_an_state_str(st, ev, &c->f[NAME_CLASS]);
	method = rut_an_state_str(st, ev, &c->f[NAME_METHOD]);
	path = rut_an_state_str(st, ev, &c->f[NAME_PATH]);
	rut_buf_printf(&name, "%s%s%s", klass,
		       !*method || !*klass			? ""
		       : rut_ctf_u64(ev, &c->f[NAME_SINGLETON]) ? "."
								: "#",
		       method);
	if (name.failed) {
		st->failed = true;
		return;
	}
	to = intern_method(st, m, rut_an_state_intern(st, name.data, name.len), path,
			   (uint32_t)rut_ctf_u64(ev, &c->f[NAME_LINE]),
			   rut_ctf_u64(ev, &c->f[NAME_NATIVE]));
	/* Rows that were made before the name arrived read it there. */
	if (to && id < s->process->cap && s->process->methods[id] &&
	    s->process->methods[id]->unnamed) {
		struct rut_ruby_method *old = s->process->methods[id];

		*old = (struct rut_ruby_method){to->name,   to->path,	to->line,
						old->index, to->native, false};
	}
	if (!to || !put_method(s->process, id, to))
		st->failed = true;
}

/* A number without a name in the trace has a row of its own. */
static const struct rut_ruby_method *method_of(struct rut_state *st, struct rut_ruby *m,
					       struct process *p, uint64_t id)
{
	struct rut_ruby_method *method;
	char name[64];

	if (id < p->cap && p->methods[id])
		return p->methods[id];
	if (id >= IDS_MAX)
		return NULL;
	snprintf(name, sizeof(name), "method %llu of %lld", (unsigned long long)id,
		 (long long)p->pid);
	method = intern_method(st, m, rut_an_state_intern(st, name, strlen(name)), st->empty, 0,
			       false);
	if (method)
		method->unnamed = true;
	return method && put_method(p, id, method) ? method : NULL;
}

/* ---- calls ---- */

static bool outermost(const struct fiber *f, uint32_t at)
{
	for (uint32_t i = 0; i < at; i++)
		if (f->frames[i].method == f->frames[at].method)
			return false;
	return true;
}

static struct rut_hook_ruby_call call_at(const struct rut_state *st, const struct process *p,
					 const struct fiber *f, uint32_t at, int64_t now_ns)
{
	const struct frame *fr = &f->frames[at];
	struct rut_hook_ruby_call h = {
		.begin_ns = fr->begin_ns,
		.end_ns = now_ns,
		.pid = p->pid,
		.tid = f->thread->tid,
		.fiber = f->number,
		.thread = kernel_thread(st, p, f->thread->tid),
		.method = fr->method,
		.self_ns = now_ns - fr->begin_ns - fr->inner_ns,
		.cpu_ns = -1,
		.self_cpu_ns = -1,
		.depth = at,
		.outermost = outermost(f, at),
	};

	if (st->ruby->has_cpu && !p->foreign && fr->cpu_ns != UNKNOWN_CPU) {
		h.cpu_ns = fiber_cpu(st->ruby, f, now_ns) - fr->cpu_ns;
		h.self_cpu_ns = h.cpu_ns - fr->inner_cpu_ns;
	}
	return h;
}

/* What a record of a call or return is about. */
struct subject {
	struct rut_ruby *m;
	struct process *process;
	struct fiber *fiber;
	const struct rut_ruby_method *method;
};

/* False: no analysis wants calls, or the record's fiber is not known. */
static bool subject_of(struct rut_state *st, const struct rut_ctf_event *ev,
		       const struct rut_state_class *c, struct subject *ret)
{
	struct rut_ruby *m = wanted(st) ? model(st) : NULL;
	const struct stream *s = m ? stream_of(st, m, ev) : NULL;

	if (!s || !s->fiber)
		return false;
	*ret = (struct subject){m, s->process, s->fiber,
				method_of(st, m, s->process, rut_ctf_u64(ev, &c->f[0]))};
	return ret->method != NULL;
}

/* A call began `ago_ns` before its record. */
static void begun(struct rut_state *st, const struct rut_ctf_event *ev,
		  const struct rut_state_class *c, int64_t ago_ns)
{
	int64_t begin_ns = ev->ts_ns - ago_ns, cpu_ns;
	struct subject of;
	struct fiber *f;

	if (!subject_of(st, ev, c, &of))
		return;
	f = of.fiber;
	if (f->count == f->cap) {
		uint32_t cap = f->cap ? f->cap * 2 : 32;
		struct frame *to = realloc(f->frames, cap * sizeof(*to));

		if (!to) {
			st->failed = true;
			return;
		}
		f->frames = to;
		f->cap = cap;
	}
	cpu_now(of.m, f->thread, ev->ts_ns);
	cpu_ns = ago_ns ? cpu_then(f->thread, begin_ns) : 0;
	if (cpu_ns >= 0)
		cpu_ns = ago_ns ? cpu_ns - f->away_cpu_ns : fiber_cpu(of.m, f, ev->ts_ns);
	else
		cpu_ns = UNKNOWN_CPU;
	f->frames[f->count++] =
		(struct frame){.method = of.method, .begin_ns = begin_ns, .cpu_ns = cpu_ns};
	if (st->hooks[RUT_HOOK_RUBY_BEGIN].n) {
		const struct rut_hook_ruby_begin h = {
			begin_ns,	of.process->pid,
			f->thread->tid, f->number,
			f->count - 1,	rut_index_get(&st->tids, (uint64_t)f->thread->tid + 1),
			of.method};

		rut_state_notify(st, RUT_HOOK_RUBY_BEGIN, &h);
	}
}

static void call(struct rut_state *st, const struct rut_ctf_event *ev,
		 const struct rut_state_class *c)
{
	begun(st, ev, c, 0);
}

static void slow_call(struct rut_state *st, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c)
{
	begun(st, ev, c, (int64_t)rut_ctf_u64(ev, &c->f[1]));
}

/* The call at the top of the stack ends: it is its caller's time. */
static void pop(struct rut_state *st, struct fiber *f, const struct rut_hook_ruby_call *h)
{
	struct frame *caller;

	if (--f->count) {
		caller = &f->frames[f->count - 1];
		caller->inner_ns += h->end_ns - h->begin_ns;
		caller->inner_cpu_ns += h->cpu_ns > 0 ? h->cpu_ns : 0;
		caller->last = h->method;
		caller->last_end_ns = h->end_ns;
		caller->last_end_cpu_ns = f->frames[f->count].cpu_ns + h->cpu_ns;
	}
	rut_state_notify(st, RUT_HOOK_RUBY_CALL, h);
}

/*
 * No event reports that the call at the top of the stack has returned. After a `retry` it ended
 * with what Ruby reported as a call of the same method in it; otherwise it is not known when.
 */
static void drop(struct rut_state *st, const struct process *p, struct fiber *f)
{
	const struct frame *fr = &f->frames[f->count - 1];
	struct rut_hook_ruby_call h;

	if (fr->last != fr->method) {
		f->count--;
		return;
	}
	h = call_at(st, p, f, f->count - 1, fr->last_end_ns);
	if (h.cpu_ns >= 0) {
		h.cpu_ns = fr->last_end_cpu_ns - fr->cpu_ns;
		h.self_cpu_ns = h.cpu_ns - fr->inner_cpu_ns;
	}
	pop(st, f, &h);
}

static void ended(struct rut_state *st, const struct rut_ctf_event *ev,
		  const struct rut_state_class *c)
{
	struct rut_hook_ruby_call h;
	struct subject of;
	struct fiber *f;
	uint32_t at;

	if (!subject_of(st, ev, c, &of))
		return;
	f = of.fiber;
	for (at = f->count; at && f->frames[at - 1].method != of.method; at--)
		;
	/* It was running before the trace began. */
	if (!at)
		return;
	cpu_now(of.m, f->thread, ev->ts_ns);
	while (f->count > at)
		drop(st, of.process, f);
	h = call_at(st, of.process, f, at - 1, ev->ts_ns);
	pop(st, f, &h);
}

static void running_of(struct rut_state *st, const struct process *p, struct fiber *f,
		       int64_t now_ns, void (*fn)(void *arg, const struct rut_hook_ruby_call *call),
		       void *arg)
{
	int64_t inner = f->out_ns != RUT_NO_TIME ? now_ns - f->out_ns : 0, inner_cpu = 0;

	for (uint32_t at = f->count; at--;) {
		struct rut_hook_ruby_call h = call_at(st, p, f, at, now_ns);

		h.running = true;
		h.self_ns -= inner;
		if (h.cpu_ns >= 0)
			h.self_cpu_ns -= inner_cpu;
		inner = h.end_ns - h.begin_ns;
		inner_cpu = h.cpu_ns;
		fn(arg, &h);
	}
}

void rut_an_ruby_running(struct rut_state *st, int64_t now_ns,
			 void (*fn)(void *arg, const struct rut_hook_ruby_call *call), void *arg)
{
	if (!st->ruby)
		return;
	rut_map_each(&st->ruby->fibers, slot) {
		struct fiber *f = slot->value;

		if (f->count)
			running_of(st, f->process, f, now_ns, fn, arg);
	}
}

const struct rut_ruby_method *rut_an_ruby_innermost(const struct rut_state *st, int64_t tid)
{
	const struct ruby_thread *t =
		st->ruby ? rut_map_get(&st->ruby->threads, thread_key(NULL, tid)) : NULL;
	const struct fiber *f = t ? t->last : NULL;

	return f && f->count ? f->frames[f->count - 1].method : NULL;
}

bool rut_an_ruby_seen(const struct rut_state *st)
{
	return st->ruby && st->ruby->seen;
}

/* ---- everything else ---- */

static void notify(struct rut_state *st, const struct rut_ctf_event *ev, enum rut_ruby_what what,
		   struct rut_hook_ruby_event *h, const struct rut_ctf_ref *site,
		   const struct rut_ctf_ref *tid)
{
	struct rut_ruby *m = wanted(st) ? model(st) : NULL;
	struct stream *s = m ? stream_of(st, m, ev) : NULL;

	if (!s)
		return;
	h->what = what;
	h->ts_ns = ev->ts_ns;
	h->pid = s->process->pid;
	h->tid = tid ? rut_ctf_i64(ev, tid) : s->fiber ? s->fiber->thread->tid : -1;
	h->thread = kernel_thread(st, s->process, h->tid);
	if (site)
		h->site = method_of(st, m, s->process, rut_ctf_u64(ev, site));
	if (tid) {
		const struct ruby_thread *t =
			rut_map_get(&m->threads, thread_key(s->process, h->tid));
		const struct fiber *f = t ? t->last : NULL;

		h->method = f && f->count ? f->frames[f->count - 1].method : NULL;
	} else if (s->fiber && s->fiber->count) {
		h->method = s->fiber->frames[s->fiber->count - 1].method;
	}
	rut_state_notify(st, RUT_HOOK_RUBY_EVENT, h);
}

#define SITE(name, what)                                                                           \
	static void name(struct rut_state *st, const struct rut_ctf_event *ev,                     \
			 const struct rut_state_class *c)                                          \
	{                                                                                          \
		struct rut_hook_ruby_event h = {.bytes = rut_ctf_i64(ev, &c->f[1])};               \
                                                                                                   \
		notify(st, ev, what, &h, &c->f[0], NULL);                                          \
	}
SITE(raised, RUT_RUBY_RAISED)
SITE(rescued, RUT_RUBY_RESCUED)
SITE(allocated, RUT_RUBY_ALLOCATED)

#define GC(name, what)                                                                             \
	static void name(struct rut_state *st, const struct rut_ctf_event *ev,                     \
			 const struct rut_state_class *c)                                          \
	{                                                                                          \
		struct rut_hook_ruby_event h = {                                                   \
			.count = rut_ctf_i64(ev, &c->f[0]),                                        \
			.live_slots = rut_ctf_i64(ev, &c->f[1]),                                   \
			.major = (uint8_t)rut_ctf_u64(ev, &c->f[2]),                               \
			.by = (uint8_t)rut_ctf_u64(ev, &c->f[3]),                                  \
		};                                                                                 \
                                                                                                   \
		notify(st, ev, what, &h, NULL, NULL);                                              \
	}
GC(gc_start, RUT_RUBY_GC_START)
GC(gc_mark_end, RUT_RUBY_GC_MARK_END)
GC(gc_sweep_end, RUT_RUBY_GC_SWEEP_END)
GC(gc_enter, RUT_RUBY_GC_ENTER)
GC(gc_exit, RUT_RUBY_GC_EXIT)

#define GVL(name, what)                                                                            \
	static void name(struct rut_state *st, const struct rut_ctf_event *ev,                     \
			 const struct rut_state_class *c)                                          \
	{                                                                                          \
		struct rut_hook_ruby_event h = {0};                                                \
                                                                                                   \
		notify(st, ev, what, &h, NULL, &c->f[0]);                                          \
	}
GVL(gvl_wait, RUT_RUBY_GVL_WAIT)
GVL(gvl_have, RUT_RUBY_GVL_HAVE)
GVL(gvl_release, RUT_RUBY_GVL_RELEASE)

/* ---- requests and spans ---- */

static struct rut_ruby_text text_of(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref)
{
	struct rut_ruby_text t;

	t.s = rut_ctf_str(ev, ref, &t.len);
	return t;
}

/* Kinds and layers are names, like methods. */
static const char *name_of(struct rut_state *st, struct rut_ruby *m, struct process *p, uint64_t id)
{
	const struct rut_ruby_method *name = method_of(st, m, p, id);

	return name ? name->name : st->empty;
}

enum { RQ_ID, RQ_KIND, RQ_VERB, RQ_PATH, RQ_TRACE, RQ_REQUEST_ID, RQ_STATUS, RQ_ROUTE };

static void request(struct rut_state *st, const struct rut_ctf_event *ev,
		    const struct rut_state_class *c, bool end)
{
	struct rut_ruby *m = wanted(st) ? model(st) : NULL;
	struct stream *s = m ? stream_of(st, m, ev) : NULL;
	struct rut_hook_ruby_request h;
	struct rut_ctf_ref error;

	if (!s || !s->fiber || !st->hooks[RUT_HOOK_RUBY_REQUEST].n)
		return;
	h = (struct rut_hook_ruby_request){
		.end = end,
		.ts_ns = ev->ts_ns,
		.pid = s->process->pid,
		.tid = s->fiber->thread->tid,
		.fiber = s->fiber->number,
		.thread = kernel_thread(st, s->process, s->fiber->thread->tid),
		.id = rut_ctf_u64(ev, &c->f[RQ_ID]),
		.kind = name_of(st, m, s->process, rut_ctf_u64(ev, &c->f[RQ_KIND])),
		.verb = text_of(ev, &c->f[RQ_VERB]),
		.path = text_of(ev, &c->f[RQ_PATH]),
		.traceparent = text_of(ev, &c->f[RQ_TRACE]),
		.request_id = text_of(ev, &c->f[RQ_REQUEST_ID]),
	};
	if (end) {
		h.status = rut_ctf_i64(ev, &c->f[RQ_STATUS]);
		h.route = text_of(ev, &c->f[RQ_ROUTE]);
		rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "error", &error);
		h.error = text_of(ev, &error);
	}
	rut_state_notify(st, RUT_HOOK_RUBY_REQUEST, &h);
}

static void request_begin(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c)
{
	request(st, ev, c, false);
}

static void request_end(struct rut_state *st, const struct rut_ctf_event *ev,
			const struct rut_state_class *c)
{
	request(st, ev, c, true);
}

enum { SPAN_LAYER, SPAN_METHOD, SPAN_DEPTH, SPAN_DETAIL, SPAN_CALLER, SPAN_ERROR };

static void span(struct rut_state *st, const struct rut_ctf_event *ev,
		 const struct rut_state_class *c, bool end)
{
	struct rut_ruby *m = wanted(st) ? model(st) : NULL;
	struct stream *s = m ? stream_of(st, m, ev) : NULL;
	struct rut_hook_ruby_span h;
	uint64_t caller;

	if (!s || !s->fiber || !st->hooks[RUT_HOOK_RUBY_SPAN].n)
		return;
	caller = rut_ctf_ref_ok(&c->f[SPAN_CALLER]) ? rut_ctf_u64(ev, &c->f[SPAN_CALLER])
						    : RUT_RUBY_NO_METHOD;
	h = (struct rut_hook_ruby_span){
		.end = end,
		.ts_ns = ev->ts_ns,
		.pid = s->process->pid,
		.tid = s->fiber->thread->tid,
		.fiber = s->fiber->number,
		.depth = (uint32_t)rut_ctf_u64(ev, &c->f[SPAN_DEPTH]),
		.thread = kernel_thread(st, s->process, s->fiber->thread->tid),
		.layer = name_of(st, m, s->process, rut_ctf_u64(ev, &c->f[SPAN_LAYER])),
		.layer_name = method_of(st, m, s->process, rut_ctf_u64(ev, &c->f[SPAN_LAYER])),
		.method = method_of(st, m, s->process, rut_ctf_u64(ev, &c->f[SPAN_METHOD])),
		.caller =
			caller == RUT_RUBY_NO_METHOD ? NULL : method_of(st, m, s->process, caller),
		.detail = text_of(ev, &c->f[SPAN_DETAIL]),
		.error = text_of(ev, &c->f[SPAN_ERROR]),
	};
	rut_state_notify(st, RUT_HOOK_RUBY_SPAN, &h);
}

static void span_begin(struct rut_state *st, const struct rut_ctf_event *ev,
		       const struct rut_state_class *c)
{
	span(st, ev, c, false);
}

static void span_end(struct rut_state *st, const struct rut_ctf_event *ev,
		     const struct rut_state_class *c)
{
	span(st, ev, c, true);
}

#define EVENT	RUT_HOOK_BIT(RUT_HOOK_RUBY_EVENT)
#define REQUEST RUT_HOOK_BIT(RUT_HOOK_RUBY_REQUEST)
#define SPAN	RUT_HOOK_BIT(RUT_HOOK_RUBY_SPAN)
#define SERVES                                                                                     \
	(RUT_HOOK_BIT(RUT_HOOK_RUBY_CALL) | RUT_HOOK_BIT(RUT_HOOK_RUBY_BEGIN) |                    \
	 RUT_HOOK_BIT(RUT_HOOK_RUBY_FIBER) | EVENT | REQUEST | SPAN)

const struct rut_state_def rut_an_state_ruby_defs[] = {
	{"ruby:switch", ruby_switch, {"tid", "fiber", "pid"}, SERVES},
	{"ruby:method",
	 ruby_method,
	 {"id", "line", "singleton", "native", "class", "method", "path"},
	 SERVES},
	{"ruby:call", call, {"method"}, SERVES},
	{"ruby:c_call", call, {"method"}, SERVES},
	{"ruby:slow_call", slow_call, {"method", "ago"}, SERVES},
	{"ruby:return", ended, {"method"}, SERVES},
	{"ruby:c_return", ended, {"method"}, SERVES},
	{"ruby:raise", raised, {"class"}, EVENT},
	{"ruby:rescue", rescued, {"class"}, EVENT},
	{"ruby:alloc", allocated, {"class", "bytes"}, EVENT},
	{"ruby:gc_start", gc_start, {"count", "live_slots", "major", "by"}, EVENT},
	{"ruby:gc_mark_end", gc_mark_end, {NULL}, EVENT},
	{"ruby:gc_sweep_end", gc_sweep_end, {"count", "live_slots", "major", "by"}, EVENT},
	{"ruby:gc_enter", gc_enter, {NULL}, EVENT},
	{"ruby:gc_exit", gc_exit, {NULL}, EVENT},
	{"ruby:gvl_wait", gvl_wait, {"tid"}, EVENT},
	{"ruby:gvl_have", gvl_have, {"tid"}, EVENT},
	{"ruby:gvl_release", gvl_release, {"tid"}, EVENT},
	{"ruby:request_begin",
	 request_begin,
	 {"id", "kind", "verb", "path", "traceparent", "x_request_id"},
	 REQUEST},
	{"ruby:request_end",
	 request_end,
	 {"id", "kind", "verb", "path", "traceparent", "x_request_id", "status", "route"},
	 REQUEST},
	{"ruby:span_begin", span_begin, {"layer", "method", "depth", "detail", "caller"}, SPAN},
	{"ruby:span_end",
	 span_end,
	 {"layer", "method", "depth", "detail", "no_caller", "error"},
	 SPAN},
	{NULL, NULL, {NULL}, 0},
};

void rut_an_state_ruby_fini(struct rut_ruby *m)
{
	if (!m)
		return;
	rut_map_each(&m->processes, p) {
		free(((struct process *)p->value)->methods);
		free(p->value);
	}
	rut_map_each(&m->fibers, f) {
		free(((struct fiber *)f->value)->frames);
		free(f->value);
	}
	rut_map_each(&m->threads, t) {
		free(((struct ruby_thread *)t->value)->ran);
		free(t->value);
	}
	for (size_t i = 0; i < m->keys.count && m->methods; i++)
		free(m->methods[i]);
	rut_map_fini(&m->processes);
	rut_map_fini(&m->fibers);
	rut_map_fini(&m->threads);
	rut_strtab_fini(&m->keys);
	free(m->methods);
	free(m->streams);
	free(m);
}
