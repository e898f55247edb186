/* SPDX-License-Identifier: MIT */
#include "cli/trace_slow.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 65536u /* of a fiber */
#define DEPTH_MAX  4096u

struct record {
	struct rut_ruby_event ev; /* the names are the table's, args and value owned */
	uint64_t left_out;	  /* of a call: calls below it that are not kept */
};

struct fiber {
	struct record *records; /* owned */
	uint32_t count, cap;
	uint32_t open[DEPTH_MAX]; /* calls that have not ended, outermost first */
	uint32_t open_count;
};

void rut_cli_trace_slow_init(struct rut_trace_slow *s, struct rut_trace_print *print,
			     uint64_t slow_ns)
{
	*s = (struct rut_trace_slow){.slow_ns = slow_ns, .print = print};
}

/* Forgets all events from this one on. */
static void cut(struct fiber *f, uint32_t from)
{
	for (uint32_t i = from; i < f->count; i++) {
		free((char *)f->records[i].ev.args);
		free((char *)f->records[i].ev.value);
	}
	f->count = from;
}

void rut_cli_trace_slow_fini(struct rut_trace_slow *s)
{
	rut_map_each(&s->fibers, slot) {
		struct fiber *f = slot->value;

		cut(f, 0);
		free(f->records);
		free(f);
	}
	rut_map_fini(&s->fibers);
	rut_strtab_fini(&s->names);
}

static struct fiber *fiber_of(struct rut_trace_slow *s, const struct rut_ruby_event *ev)
{
	uint64_t key = (uint64_t)(uint32_t)ev->pid << 32 | ev->fiber;
	struct fiber *f = rut_map_get(&s->fibers, key);

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (f && rut_map_put(&s->fibers, key, f) < 0) {
		free(f);
		f = NULL;
	}
	return f;
}

static const char *name(struct rut_trace_slow *s, const char *text)
{
	int64_t id = text ? rut_strtab_intern(&s->names, text, strlen(text)) : -1;

	return id < 0 ? NULL : s->names.strs[id].data;
}

/* For a call, and for the returns of all that have not ended. */
static bool has_room(const struct fiber *f)
{
	return f->count + f->open_count + 2 <= EVENTS_MAX;
}

/* False: out of memory, or there is no room. */
static bool keep(struct rut_trace_slow *s, struct fiber *f, const struct rut_ruby_event *ev)
{
	struct record *r;

	if (f->count >= EVENTS_MAX)
		return false;
	if (f->count == f->cap) {
		uint32_t cap = f->cap ? f->cap * 2 : 64;
		struct record *to = reallocarray(f->records, cap, sizeof(*to));

		if (!to)
			return false;
		f->records = to;
		f->cap = cap;
	}
	r = &f->records[f->count++];
	*r = (struct record){.ev = *ev};
	r->ev.class_name = name(s, ev->class_name);
	r->ev.method_name = name(s, ev->method_name);
	r->ev.path = name(s, ev->path);
	r->ev.args = ev->args ? strdup(ev->args) : NULL;
	r->ev.value = ev->value ? strdup(ev->value) : NULL;
	r->ev.callers = NULL;
	r->ev.caller_count = 0;
	return true;
}

static uint32_t depth_of(const struct fiber *f, uint32_t open)
{
	return f->records[f->open[open]].ev.depth;
}

/* The call at `from` has just ended: its tree. */
static void show(struct rut_trace_slow *s, const struct fiber *f, uint32_t from)
{
	uint32_t base = f->records[from].ev.depth, calls[DEPTH_MAX], n = 0;

	for (uint32_t i = from; i < f->count; i++) {
		struct rut_ruby_event ev = f->records[i].ev;

		ev.depth = ev.depth > base ? ev.depth - base : 0;
		if (ev.type == RUT_RUBY_EVENT_CALL && n < DEPTH_MAX)
			calls[n++] = i;
		if (ev.type == RUT_RUBY_EVENT_RETURN && n) {
			uint64_t left_out = f->records[calls[--n]].left_out;

			if (left_out)
				rut_cli_trace_print_left_out(s->print, ev.depth + 1, left_out);
		}
		rut_cli_trace_print_event(&ev, s->print);
	}
	rut_cli_trace_print_flush(s->print);
}

static void on_call(struct rut_trace_slow *s, struct fiber *f, const struct rut_ruby_event *ev)
{
	/* Calls without a seen end. */
	while (f->open_count && depth_of(f, f->open_count - 1) >= ev->depth)
		f->open_count--;
	if (!f->open_count)
		cut(f, 0);
	if (f->open_count < DEPTH_MAX && has_room(f) && keep(s, f, ev))
		f->open[f->open_count++] = f->count - 1;
	else if (f->open_count)
		f->records[f->open[f->open_count - 1]].left_out++;
}

/* Of a call that has just ended only its own line is kept, and how many calls were below it. */
static void fold(struct fiber *f, uint32_t call, bool shown)
{
	struct record *r = &f->records[call], end = f->records[--f->count];

	for (uint32_t i = call + 1; i < f->count && !shown; i++)
		if (f->records[i].ev.type == RUT_RUBY_EVENT_CALL)
			r->left_out += 1 + f->records[i].left_out;
	if (shown)
		r->left_out = 0;
	cut(f, call + 1);
	f->records[f->count++] = end;
}

static void on_return(struct rut_trace_slow *s, struct fiber *f, const struct rut_ruby_event *ev)
{
	uint32_t call;

	while (f->open_count && depth_of(f, f->open_count - 1) > ev->depth)
		f->open_count--;
	if (!f->open_count || depth_of(f, f->open_count - 1) != ev->depth)
		return;
	call = f->open[--f->open_count];
	if (!keep(s, f, ev))
		return;
	if (ev->duration_ns >= s->slow_ns) {
		show(s, f, call);
		fold(f, call, true);
	} else if (!has_room(f)) {
		fold(f, call, false);
	}
	if (!f->open_count)
		cut(f, 0);
}

void rut_cli_trace_slow_event(struct rut_trace_slow *s, const struct rut_ruby_event *ev)
{
	struct fiber *f;

	switch (ev->type) {
	case RUT_RUBY_EVENT_CALL:
	case RUT_RUBY_EVENT_RETURN:
	case RUT_RUBY_EVENT_RAISE:
		break;
	default:
		rut_cli_trace_print_event(ev, s->print);
		return;
	}
	f = fiber_of(s, ev);
	if (!f)
		return;
	if (ev->type == RUT_RUBY_EVENT_CALL)
		on_call(s, f, ev);
	else if (ev->type == RUT_RUBY_EVENT_RETURN)
		on_return(s, f, ev);
	else if (f->open_count)
		keep(s, f, ev);
}
