/* SPDX-License-Identifier: MIT */
/*
 * Exceptions, counted by the line that raises and their class, with the message of the last one.
 *
 * The message is what the exception was made with, when that is a String: a method `message` of the
 * application is not called.
 */
#include "raises.h"

#include "args.h"
#include "names.h"
#include "site.h"

#include <string.h>

#define UTF8_CONTINUED(c) (((unsigned char)(c)&0xc0) == 0x80)

#define UNCAUGHT "uncaught throw "

/* The message of an UncaughtThrowError is a format, which its to_s() fills in. Returns the length.
 */
static size_t uncaught(struct rut_session *s, VALUE exc, char *out, size_t size)
{
	size_t len = sizeof(UNCAUGHT) - 1;

	memcpy(out, UNCAUGHT, len);
	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	len += rut_agent_args_format_value(rb.rb_attr_get(exc, rb.rb_intern("tag")), out + len,
					   size - len);
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
	return len;
}

static void keep_message(struct rut_session *s, const struct rut_agent_row *row, VALUE exc)
{
	struct rut_agent_message *m = rut_table_extra(&s->table, row);
	size_t len;
	const char *text = rut_agent_str(rb.rb_attr_get(exc, rb.rb_intern("mesg")), &len);
	uint32_t sequence = __atomic_load_n(&m->sequence, __ATOMIC_RELAXED);
	char filled[sizeof(m->text)];

	if (len == sizeof(UNCAUGHT "%p") - 1 && !memcmp(text, UNCAUGHT "%p", len)) {
		len = uncaught(s, exc, filled, sizeof(filled));
		text = filled;
	}
	if (len > sizeof(m->text)) {
		len = sizeof(m->text);
		while (len && UTF8_CONTINUED(text[len]))
			len--;
	}
	/* Of two ractors the second one's is as good. */
	if (sequence & 1 || !__atomic_compare_exchange_n(&m->sequence, &sequence, sequence + 1,
							 false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	memcpy(m->text, text, len);
	m->len = (uint32_t)len;
	__atomic_store_n(&m->sequence, sequence + 2, __ATOMIC_RELEASE);
}

void rut_agent_raises_on_raise(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	const VALUE *cfp = rut_ruby_frame(ta->cfp);
	VALUE exc = ta->data;
	struct rut_agent_row *row;
	uint32_t class_str, path_str;
	const char *path;
	char name[1024];
	bool singleton;
	int line;

	if (!rut_single_ractor())
		s->table.hdr->ractors |= RUT_RACTORS_UNSEEN;
	path = rut_source_location(&line);
	if (!path || rut_special_p(exc) ||
	    !rut_agent_site_wanted(s, path, cfp ? cfp[RUT_FRAME_ISEQ] : 0))
		return;
	rut_agent_class_name(rb.rb_obj_class(exc), name, sizeof(name), &singleton);
	if (!rut_agent_filter_name(&s->filter, name, false, NULL))
		return;
	class_str = rut_agent_table_str(&s->table, name, strlen(name));
	path_str = rut_agent_table_str(&s->table, path, strlen(path));
	row = rut_agent_table_row(&s->table, path_str, (uint32_t)line, class_str, 0, 0);
	if (!row)
		return;
	rut_add(&row->count, 1);
	keep_message(s, row, exc);
}
