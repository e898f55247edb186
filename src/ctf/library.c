/* SPDX-License-Identifier: MIT */
/* librutile-ctf: the reader behind opaque structs, for other programs (include/rutile/ctf.h). */
#include "rutile/ctf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ctf/reader.h"

struct rutile_ctf_field {
	struct rut_ctf_ref ref;
	struct rutile_ctf_field *next;
};

struct rutile_ctf {
	struct rut_ctf_set *set;	 /* owned */
	struct rut_ctf_reader *reader;	 /* owned; NULL before the first event is asked for */
	struct rutile_ctf_field *fields; /* owned */
};

static const struct rut_ctf_event_class *inner_class(const struct rutile_ctf_class *c)
{
	return (const struct rut_ctf_event_class *)c;
}

static const struct rut_ctf_event *inner_event(const struct rutile_ctf_event *ev)
{
	return (const struct rut_ctf_event *)ev;
}

int rutile_ctf_open(struct rutile_ctf **ret, const char *const *paths, size_t n, char *error,
		    size_t error_size)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rutile_ctf *t = calloc(1, sizeof(*t));
	int rc = t ? rut_ctf_set_open(&t->set, paths, n, NULL, &err)
		   : rut_err_set(&err, ENOMEM, "out of memory");

	if (!rc)
		rc = rut_ctf_reader_new(&t->reader, t->set, NULL, &err);
	if (rc) {
		if (error && error_size)
			snprintf(error, error_size, "%s", err.msg);
		rutile_ctf_free(t);
		return rc;
	}
	*ret = t;
	return 0;
}

void rutile_ctf_free(struct rutile_ctf *t)
{
	if (!t)
		return;
	while (t->fields) {
		struct rutile_ctf_field *f = t->fields;

		t->fields = f->next;
		free(f);
	}
	rut_ctf_reader_free(t->reader);
	rut_ctf_set_free(t->set);
	free(t);
}

static struct {
	void (*fn)(const char *message, void *arg);
	void *arg;
} handler;

static void on_log(enum rut_log_level level, const char *msg, void *arg)
{
	(void)arg;
	if (level >= RUT_LOG_WARN)
		handler.fn(msg, handler.arg);
}

void rutile_ctf_on_message(void (*fn)(const char *message, void *arg), void *arg)
{
	handler.fn = fn;
	handler.arg = arg;
	rut_log_set_sink(fn ? on_log : NULL, NULL);
}

int rutile_ctf_range(struct rutile_ctf *t, int64_t *ret_begin_ns, int64_t *ret_end_ns)
{
	return rut_ctf_set_range(t->set, ret_begin_ns, ret_end_ns);
}

size_t rutile_ctf_class_count(const struct rutile_ctf *t)
{
	return rut_ctf_set_n_classes(t->set);
}

const struct rutile_ctf_class *rutile_ctf_class(const struct rutile_ctf *t, size_t number)
{
	if (number >= rut_ctf_set_n_classes(t->set))
		return NULL;
	return (const struct rutile_ctf_class *)rut_ctf_set_class(t->set, number);
}

const char *rutile_ctf_class_name(const struct rutile_ctf_class *c)
{
	return inner_class(c)->name;
}

size_t rutile_ctf_class_number(const struct rutile_ctf_class *c)
{
	return inner_class(c)->index;
}

void rutile_ctf_want(struct rutile_ctf *t, const struct rutile_ctf_class *c)
{
	rut_ctf_reader_want(t->reader, inner_class(c));
}

int rutile_ctf_seek(struct rutile_ctf *t, int64_t ns)
{
	return rut_ctf_reader_seek(t->reader, ns, NULL);
}

const struct rutile_ctf_event *rutile_ctf_next(struct rutile_ctf *t)
{
	return (const struct rutile_ctf_event *)rut_ctf_reader_next(t->reader);
}

const struct rutile_ctf_class *rutile_ctf_event_class(const struct rutile_ctf_event *ev)
{
	return (const struct rutile_ctf_class *)inner_event(ev)->cls;
}

const char *rutile_ctf_event_name(const struct rutile_ctf_event *ev)
{
	return inner_event(ev)->cls->name;
}

int64_t rutile_ctf_event_ns(const struct rutile_ctf_event *ev)
{
	return inner_event(ev)->ts_ns;
}

int rutile_ctf_event_cpu(const struct rutile_ctf_event *ev)
{
	return inner_event(ev)->cpu;
}

const struct rutile_ctf_field *rutile_ctf_field_find(struct rutile_ctf *t,
						     const struct rutile_ctf_class *c,
						     const char *name)
{
	struct rut_ctf_ref ref;
	struct rutile_ctf_field *f;

	if (!rut_ctf_ref_find(inner_class(c), RUT_CTF_SCOPE_ANY, name, &ref))
		return NULL;
	f = malloc(sizeof(*f));
	if (!f)
		return NULL;
	*f = (struct rutile_ctf_field){ref, t->fields};
	t->fields = f;
	return f;
}

void rutile_ctf_get_sized(const struct rutile_ctf_event *ev, const struct rutile_ctf_field *field,
			  struct rutile_ctf_value *ret, size_t size)
{
	static const enum rutile_ctf_kind kinds[] = {
		[RUT_CTF_VALUE_NONE] = RUTILE_CTF_NONE,
		[RUT_CTF_VALUE_UINT] = RUTILE_CTF_UINT,
		[RUT_CTF_VALUE_INT] = RUTILE_CTF_INT,
		[RUT_CTF_VALUE_FLOAT] = RUTILE_CTF_FLOAT,
		[RUT_CTF_VALUE_STR] = RUTILE_CTF_STRING,
		[RUT_CTF_VALUE_BYTES] = RUTILE_CTF_BYTES,
		[RUT_CTF_VALUE_NESTED] = RUTILE_CTF_COMPOUND,
	};
	struct rut_ctf_value v = {.kind = RUT_CTF_VALUE_NONE};
	struct rutile_ctf_value to = {.kind = RUTILE_CTF_NONE};

	if (field)
		rut_ctf_get(inner_event(ev), &field->ref, &v);
	to.kind = kinds[v.kind];
	to.len = v.len;
	if (v.kind == RUT_CTF_VALUE_STR || v.kind == RUT_CTF_VALUE_BYTES)
		to.str = v.str;
	else if (v.kind == RUT_CTF_VALUE_FLOAT)
		to.d = v.d;
	else
		to.u = v.u;
	memset(ret, 0, size);
	memcpy(ret, &to, size < sizeof(to) ? size : sizeof(to));
}

uint64_t rutile_ctf_u64(const struct rutile_ctf_event *ev, const struct rutile_ctf_field *field)
{
	return field ? rut_ctf_u64(inner_event(ev), &field->ref) : 0;
}

void rutile_ctf_counts_sized(const struct rutile_ctf *t, struct rutile_ctf_counts *ret, size_t size)
{
	struct rut_ctf_counts c;
	struct rutile_ctf_counts to;

	rut_ctf_reader_counts(t->reader, &c);
	to = (struct rutile_ctf_counts){
		.events = c.events,
		.packets = c.packets,
		.discarded = c.discarded,
		.lost_packets = c.lost_packets,
		.errors = c.errors,
		.skipped_bytes = c.skipped_bytes,
	};
	memset(ret, 0, size);
	memcpy(ret, &to, size < sizeof(to) ? size : sizeof(to));
}
