/* SPDX-License-Identifier: MIT */
/*
 * What every thread of the process does now: Thread#backtrace_locations of each, written into the
 * ring once. Methods of Thread that the application has defined anew are not called: then there is
 * no answer to that question.
 */
#include "event.h"
#include "session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 4096
#define NAME_BYTES  160

VALUE rut_ask(VALUE obj, const char *name)
{
	ID id = rb.rb_intern(name);

	if (!rb.rb_method_basic_definition_p ||
	    !rb.rb_method_basic_definition_p(rut_klass(obj), id))
		return rb.qnil;
	return rb.rb_funcallv(obj, id, 0, NULL);
}

static uint32_t intern(struct rut_session *s, VALUE str)
{
	size_t len;
	const char *text = rut_str(str, &len);

	return len ? rut_table_str(&s->table, text, len) : 0;
}

static uint32_t number(const struct rut_session *s, const struct rut_agent_row *row)
{
	return row ? (uint32_t)(row - s->table.rows) : 0;
}

static uint32_t frame_row(struct rut_session *s, VALUE location)
{
	VALUE line = rut_ask(location, "lineno");

	return number(s, rut_table_row(&s->table, intern(s, rut_ask(location, "path")),
				       line & 1 ? (uint32_t)rut_fix2long(line) : 0, 0,
				       intern(s, rut_ask(location, "label")), 0));
}

/* "backtrace_locations", "Thread#backtrace_locations" */
static bool is_question(VALUE label)
{
	static const char own[] = "backtrace_locations";
	size_t len;
	const char *text = rut_str(label, &len);

	return len >= sizeof(own) - 1 &&
	       memcmp(text + len - (sizeof(own) - 1), own, sizeof(own) - 1) == 0;
}

/* "main (sleep)", "puma srv tp 001 (run)" */
static uint32_t thread_row(struct rut_session *s, VALUE thread, VALUE main)
{
	VALUE name = rut_ask(thread, "name"), status = rut_ask(thread, "status");
	char text[NAME_BYTES];
	size_t len, status_len;
	const char *given = rut_str(name, &len), *state = rut_str(status, &status_len);
	int n;

	if (!len) {
		given = thread == main ? "main" : "";
		len = strlen(given);
	}
	n = snprintf(text, sizeof(text), "%.*s%s(%.*s)", (int)(len < 128 ? len : 128), given,
		     len ? " " : "", (int)(status_len < 24 ? status_len : 24), state);
	return number(
		s, rut_table_row(&s->table, 0, 0, 0, rut_table_str(&s->table, text, (size_t)n), 0));
}

static void write_thread(struct rut_session *s, VALUE thread, VALUE main)
{
	static uint32_t rows[RUT_EVENT_CALLERS];
	VALUE locations = rut_ask(thread, "backtrace_locations"),
	      tid = rut_ask(thread, "native_thread_id");
	/* Ruby 3.1 forgets at a fork that the main thread is another one now. */
	uint32_t id = thread == main ? (uint32_t)getpid()
		      : tid & 1	     ? (uint32_t)rut_fix2long(tid)
				     : 0;
	uint32_t n = 0;

	for (long i = 0; locations != rb.qnil && n < RUT_EVENT_CALLERS; i++) {
		VALUE location = rb.rb_ary_entry(locations, i);

		if (location == rb.qnil)
			break;
		/* The thread that does this is in our question. */
		if (i > 0 || !is_question(rut_ask(location, "label")))
			rows[n++] = frame_row(s, location);
	}
	rut_trace_stack(s, thread_row(s, thread, main), id, rows, n);
}

void rut_stacks_write(struct rut_session *s)
{
	VALUE class = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Thread"));
	VALUE threads = rut_ask(class, "list"), main = rut_ask(class, "main");

	for (long i = 0; threads != rb.qnil && i < THREADS_MAX; i++) {
		VALUE thread = rb.rb_ary_entry(threads, i);

		if (thread == rb.qnil)
			break;
		write_thread(s, thread, main);
	}
}
