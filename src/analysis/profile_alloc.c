/* SPDX-License-Identifier: MIT */
/*
 * Profiles of allocations. A trace is read twice: for the names, the exact totals and the sum of
 * what the samples stand for, then for the samples themselves.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack.h"
#include "analysis/profile_priv.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "ctf/reader.h"

#define FRAMES_MAX 1024

/* What a number in the samples stands for. */
struct name {
	char *method, *place; /* owned; place: "" for C methods */
};

/* One process's trace. */
struct source {
	uint64_t weight; /* of its samples together */
	uint64_t objects, bytes, internal;
};

struct reading {
	struct rut_profile *p;
	bool bytes, second;
	struct rut_map names;	/* by trace and number: struct name, owned */
	struct rut_map sources; /* by trace: struct source, owned */
};

static uint64_t key_of(const struct rut_ctf_event *ev, uint64_t number)
{
	return rut_hash_u64((uintptr_t)ev->stream->trace) ^ number;
}

static struct source *source_of(struct reading *r, const struct rut_ctf_event *ev)
{
	uint64_t key = (uintptr_t)ev->stream->trace;
	struct source *s = rut_map_get(&r->sources, key);

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (s && rut_map_put(&r->sources, key, s) < 0) {
		free(s);
		return NULL;
	}
	return s;
}

static bool field(const struct rut_ctf_event *ev, const char *name, struct rut_ctf_ref *ret)
{
	return rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, name, ret);
}

static uint64_t number(const struct rut_ctf_event *ev, const char *name)
{
	struct rut_ctf_ref ref;

	return field(ev, name, &ref) ? rut_ctf_u64(ev, &ref) : 0;
}

static const char *text(const struct rut_ctf_event *ev, const char *name, size_t *ret_len)
{
	struct rut_ctf_ref ref;

	*ret_len = 0;
	return field(ev, name, &ref) ? rut_ctf_str(ev, &ref, ret_len) : "";
}

/* ---- names and totals ---- */

static void name_free(struct name *n)
{
	if (n) {
		free(n->method);
		free(n->place);
	}
	free(n);
}

static int on_name(struct reading *r, const struct rut_ctf_event *ev)
{
	uint64_t key = key_of(ev, number(ev, "id")), line = number(ev, "line");
	_cleanup_buf_ struct rut_buf method = RUT_BUF_INIT, place = RUT_BUF_INIT;
	struct rut_ruby_label l = {.singleton = number(ev, "singleton") != 0};
	struct name *n = calloc(1, sizeof(*n));
	const char *path;
	size_t len;

	l.label = text(ev, "method", &l.label_len);
	l.class_name = text(ev, "class", &l.class_len);
	path = text(ev, "path", &len);
	if (l.label_len)
		rut_an_ruby_frame_name(&method, l);
	else
		rut_buf_add(&method, l.class_name, l.class_len);
	rut_buf_add(&place, path, len);
	if (r->p->by == RUT_PROFILE_LINE && len)
		rut_buf_printf(&place, ":%llu", (unsigned long long)line);
	rut_buf_putc(&method, '\0');
	rut_buf_putc(&place, '\0');
	if (n && !method.failed && !place.failed) {
		n->method = rut_buf_take(&method);
		n->place = rut_buf_take(&place);
	}
	name_free(rut_map_remove(&r->names, key));
	if (!n || !n->method || !n->place || rut_map_put(&r->names, key, n) < 0) {
		name_free(n);
		return -ENOMEM;
	}
	return 0;
}

static int on_total(struct reading *r, const struct rut_ctf_event *ev)
{
	struct source *s = source_of(r, ev);

	if (!s)
		return -ENOMEM;
	s->objects += number(ev, "objects");
	s->bytes += number(ev, "bytes");
	s->internal += number(ev, "internal");
	return 0;
}

/* ---- samples ---- */

/* What the stack says of one frame: the row that it counts in, and its part of the folded line. */
static int add_frame(struct reading *r, const struct name *n, uint32_t *rows, size_t *n_rows)
{
	const char *row = r->p->by == RUT_PROFILE_METHOD ? n->method : n->place;
	int64_t id;

	/* A C method has no line: that of its caller is the next frame's. */
	if (!*row)
		return 0;
	id = rut_an_profile_row(r->p, row, strlen(row));
	if (id < 0)
		return -ENOMEM;
	rows[(*n_rows)++] = (uint32_t)id;
	return 0;
}

static void add_part(struct rut_buf *line, const struct name *n)
{
	rut_buf_putc(line, ';');
	for (const char *c = n ? n->method : "(unknown)"; *c; c++)
		rut_buf_putc(line, *c == ';' ? ':' : *c);
}

static int count_sample(struct reading *r, const struct rut_ctf_event *ev, uint64_t weight)
{
	const struct name *class = rut_map_get(&r->names, key_of(ev, number(ev, "class")));
	const struct name *frames[FRAMES_MAX];
	_cleanup_buf_ struct rut_buf line = RUT_BUF_INIT;
	uint32_t rows[FRAMES_MAX + 1];
	struct rut_ctf_ref stack;
	size_t n = 0, n_rows = 0;
	int64_t id;
	int rc = 0;

	if (field(ev, "stack", &stack))
		n = rut_ctf_seq_len(ev, &stack);
	if (n > FRAMES_MAX)
		n = FRAMES_MAX;
	if (r->p->by == RUT_PROFILE_CLASS && class)
		rc = add_frame(r, &(struct name){class->method, class->method}, rows, &n_rows);
	for (size_t i = 0; i < n && !rc; i++) {
		frames[i] = rut_map_get(&r->names, key_of(ev, rut_ctf_seq_u64(ev, &stack, i)));
		if (frames[i] && r->p->by != RUT_PROFILE_CLASS)
			rc = add_frame(r, frames[i], rows, &n_rows);
	}
	if (rc)
		return rc;
	rut_buf_puts(&line, "ruby");
	for (size_t i = n; i-- > 0;)
		add_part(&line, frames[i]);
	add_part(&line, class);
	id = line.failed ? -ENOMEM : rut_an_profile_stack(r->p, line.data, line.len);
	if (id < 0)
		return -ENOMEM;
	r->p->samples++;
	return rut_an_profile_count(r->p, id, rows, n_rows, RUT_OFF_CPU, weight);
}

static int on_sample(struct reading *r, const struct rut_ctf_event *ev)
{
	struct source *s = source_of(r, ev);
	uint64_t weight = number(ev, "weight"), exact;

	if (!s)
		return -ENOMEM;
	if (!r->second) {
		s->weight += weight;
		return 0;
	}
	exact = r->bytes ? s->bytes : s->objects;
	/* A process that was killed at once may have no total. */
	if (exact && s->weight)
		weight = (uint64_t)llround((double)weight * (double)exact / (double)s->weight);
	return count_sample(r, ev, weight);
}

/* ---- reading ---- */

static const struct {
	const char *name;
	int (*fn)(struct reading *r, const struct rut_ctf_event *ev);
	bool second; /* in the second pass */
} handlers[] = {
	{"ruby:alloc_sample", on_sample, true},
	{"ruby:method", on_name, false},
	{"ruby:allocated", on_total, false},
};

#define NHANDLERS (sizeof(handlers) / sizeof(*handlers))

static void ignore_loss(const struct rut_ctf_loss *loss, void *arg)
{
}

static void ignore_error(const char *msg, void *arg)
{
}

static int read_pass(struct reading *r, struct rut_ctf_set *set, struct rut_err *err)
{
	/* The first pass reports losses and errors. */
	struct rut_ctf_reader_opts opts = {.on_loss = r->second ? ignore_loss : NULL,
					   .on_error = r->second ? ignore_error : NULL};
	const struct rut_ctf_event *ev;
	struct rut_ctf_reader *reader;
	int rc = rut_ctf_reader_new(&reader, set, &opts, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < rut_ctf_set_n_classes(set); i++)
		for (size_t h = 0; h < NHANDLERS; h++)
			if (!strcmp(rut_ctf_set_class(set, i)->name, handlers[h].name) &&
			    (handlers[h].second || !r->second))
				rut_ctf_reader_want(reader, rut_ctf_set_class(set, i));
	while (!rc && (ev = rut_ctf_reader_next(reader)))
		for (size_t h = 0; h < NHANDLERS && !rc; h++)
			if (!strcmp(ev->cls->name, handlers[h].name))
				rc = handlers[h].fn(r, ev);
	rut_ctf_reader_free(reader);
	return rc ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

int rut_an_profile_add_allocs(struct rut_profile *p, struct rut_ctf_set *set, bool bytes,
			      struct rut_err *err)
{
	struct reading r = {.p = p, .bytes = bytes};
	int rc = read_pass(&r, set, err);

	r.second = true;
	if (!rc)
		rc = read_pass(&r, set, err);
	rut_map_each(&r.sources, slot) {
		struct source *s = slot->value;

		p->objects += s->objects;
		p->object_bytes += s->bytes;
		p->internal += s->internal;
		free(s);
	}
	rut_map_each(&r.names, slot)
		name_free(slot->value);
	rut_map_fini(&r.sources);
	rut_map_fini(&r.names);
	return rc;
}
