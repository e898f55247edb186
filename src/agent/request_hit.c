/* SPDX-License-Identifier: MIT */
#include "request_hit.h"

#include "hit.h"

#include <string.h>

/* "http", "sql" ...; NULL: there was no room for its name. */
static const char *layer_of(const struct rut_session *s, const struct rut_variant *v)
{
	const struct rut_agent_row *row =
		v->watch->row == UINT32_MAX ? NULL : &s->table.rows[v->watch->row];

	return row ? rut_agent_table_get(&s->table, row->class_name) : NULL;
}

/* A segment of a path that is a number, a UUID or a hash. */
static bool is_id(const char *s, size_t len)
{
	size_t digits = 0, hex = 0;

	for (size_t i = 0; i < len; i++) {
		char c = (char)(s[i] | 32);

		digits += s[i] >= '0' && s[i] <= '9';
		hex += (s[i] >= '0' && s[i] <= '9') || (c >= 'a' && c <= 'f') || s[i] == '-';
	}
	return len && (digits == len || (hex == len && len >= 16 && digits));
}

static size_t append(char *to, size_t at, size_t size, const char *text, size_t len)
{
	if (len > size - 1 - at)
		len = size - 1 - at;
	memcpy(to + at, text, len);
	to[at + len] = 0;
	return at + len;
}

/* As the analysis of requests names them: the route, or the verb and the path without numbers. */
static void name_of(const struct rut_session *s, const struct rut_task *t, char *to, size_t size)
{
	const char *layer = layer_of(s, t->entry);
	size_t at = 0;

	if (t->route[0] || !t->path[0]) {
		const char *text = t->route[0] ? t->route : layer ? layer : "?";

		append(to, 0, size, text, strlen(text));
		return;
	}
	at = append(to, at, size, t->verb, strlen(t->verb));
	at = append(to, at, size, " ", at ? 1 : 0);
	for (const char *p = t->path; *p;) {
		size_t slash = *p == '/', len = strcspn(p + slash, "/");

		at = append(to, at, size, "/", slash);
		if (is_id(p + slash, len))
			at = append(to, at, size, ":id", 3);
		else
			at = append(to, at, size, p + slash, len);
		p += slash + len;
	}
}

void rut_agent_request_hit_name(struct rut_session *s, const struct rut_task *t)
{
	uint64_t probes = rut_agent_hits_of(s, RUT_HIT_REQUEST_NAME, NULL);
	struct rut_hit_facts f = {.ec = (uintptr_t)t->ec, .vm_stack = (uintptr_t)t->vm_stack};
	char name[RUT_HIT_TEXT_BYTES] = "";

	if (!probes)
		return;
	if (t->active)
		name_of(s, t, name, sizeof(name));
	rut_hit_fact(&f, RUT_HIT_NAME)->text = name;
	f.duration_ns = t->active ? t->id : 0;
	rut_agent_hit_event(s, probes, &f);
}

void rut_agent_request_hit(struct rut_session *s, const struct rut_task *t, char event,
			   const char *error)
{
	uint64_t probes = rut_agent_hits_of(s, event, NULL);
	struct rut_hit_facts f = {.row = t->entry->row};
	char name[RUT_HIT_TEXT_BYTES];

	if (!probes)
		return;
	name_of(s, t, name, sizeof(name));
	f.duration_ns = event == RUT_HIT_REQUEST_END ? rut_ring_clock() - t->begin_ns : 0;
	rut_hit_fact(&f, RUT_HIT_ID)->number = t->id;
	rut_hit_fact(&f, RUT_HIT_NAME)->text = name;
	rut_hit_fact(&f, RUT_HIT_KIND)->text = layer_of(s, t->entry);
	rut_hit_fact(&f, RUT_HIT_VERB)->text = t->verb;
	rut_hit_fact(&f, RUT_HIT_URL)->text = t->path;
	rut_hit_fact(&f, RUT_HIT_ROUTE)->text = t->route;
	rut_hit_fact(&f, RUT_HIT_TRACEPARENT)->text = t->traceparent;
	rut_hit_fact(&f, RUT_HIT_REQUEST_ID)->text = t->request_id;
	rut_hit_fact(&f, RUT_HIT_STATUS)->number = t->status;
	rut_hit_fact(&f, RUT_HIT_BYTES)->number = t->bytes > 0 ? (uint64_t)t->bytes : 0;
	rut_hit_fact(&f, RUT_HIT_ERROR)->text = error;
	rut_agent_hit_event(s, probes, &f);
}

/* "Order#total"; of what is in no method its label. */
static void put_caller(const struct rut_session *s, uint32_t row, char *to, size_t size)
{
	const struct rut_agent_row *r;
	const char *parts[3];
	size_t at = 0;

	to[0] = 0;
	if (row == RUT_RECORD_NO_CALLER)
		return;
	r = &s->table.rows[row];
	parts[0] = r->class_name ? rut_agent_table_get(&s->table, r->class_name) : NULL;
	parts[1] = !parts[0] ? NULL : r->flags & RUT_ROW_SINGLETON ? "." : "#";
	parts[2] = r->method ? rut_agent_table_get(&s->table, r->method) : NULL;
	for (unsigned i = 0; i < 3; i++)
		if (parts[i])
			at = append(to, at, size, parts[i], strlen(parts[i]));
}

void rut_agent_request_hit_span(struct rut_session *s, const struct rut_open *o, char event,
				const char *detail, const char *error)
{
	uint64_t probes = rut_agent_hits_of(s, event, NULL);
	struct rut_hit_facts f = {.row = o->v->row};
	char caller[RUT_HIT_TEXT_BYTES];

	if (!probes)
		return;
	put_caller(s, o->caller, caller, sizeof(caller));
	rut_hit_fact(&f, RUT_HIT_CALLER)->text = caller;
	f.duration_ns = event == RUT_HIT_SPAN_END ? rut_ring_clock() - o->begin_ns : 0;
	rut_hit_fact(&f, RUT_HIT_KIND)->text = layer_of(s, o->v);
	rut_hit_fact(&f, RUT_HIT_DETAIL)->text = detail;
	rut_hit_fact(&f, RUT_HIT_ERROR)->text = error;
	rut_agent_hit_event(s, probes, &f);
}
