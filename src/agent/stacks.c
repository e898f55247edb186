/* SPDX-License-Identifier: MIT */
/*
 * What every thread of the process does now: Thread#backtrace_locations of each, written into the
 * ring once. Methods of Thread that the application has redefined are not called: then there is
 * no answer to that question.
 */
#include "stacks.h"

#include "event.h"
#include "names.h"
#include "running.h"
#include "trace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 4096
#define NAME_BYTES  160

static uint32_t intern(struct rut_session *s, VALUE str)
{
	size_t len;
	const char *text = rut_agent_str(str, &len);

	return len ? rut_agent_table_str(&s->table, text, len) : 0;
}

static uint32_t number(const struct rut_session *s, const struct rut_agent_row *row)
{
	return row ? (uint32_t)(row - s->table.rows) : 0;
}

static bool same(VALUE a, VALUE b)
{
	size_t x, y;
	const char *s = rut_agent_str(a, &x), *t = rut_agent_str(b, &y);

	return x == y && memcmp(s, t, x) == 0;
}

/* Is this frame that of the location? One of a C method has its name as the label. */
static bool is_frame_of(void *ec, const VALUE *cfp, VALUE path, VALUE label)
{
	VALUE iseq = cfp[RUT_FRAME_ISEQ], owner, mid;
	const char *name, *text;
	size_t len;

	if (iseq)
		return rut_imemo(iseq) == RUT_IMEMO_ISEQ &&
		       same(rb.rb_profile_frame_label(iseq), label) &&
		       same(rb.rb_profile_frame_path(iseq), path);
	if ((*(const VALUE *)cfp[RUT_FRAME_EP] & RUT_FRAME_TYPE) != RUT_FRAME_CFUNC ||
	    !rut_agent_frame_owner(ec, cfp, &owner, &mid))
		return false;
	name = rb.rb_id2name(rb.rb_sym2id(mid));
	text = rut_agent_str(label, &len);
	return name && strlen(name) == len && memcmp(name, text, len) == 0;
}

/*
 * "block in Shop#total" of "block in total": until 3.3 labels have no class. It is that of the
 * frame, which is looked for from where the one before was found. 0: it is not there.
 */
static uint32_t qualified(struct rut_session *s, VALUE location, VALUE label,
			  struct rut_running_frames *f)
{
	VALUE path = rut_agent_ask(location, "path"), owner, mid;
	size_t len, base_len;
	const char *text = rut_agent_str(label, &len);
	const char *base = rut_agent_str(rut_agent_ask(location, "base_label"), &base_len);
	char name[NAME_BYTES * 2], class[NAME_BYTES];
	const VALUE *cfp = f->inner;
	bool singleton;
	int n;

	while (cfp < f->end && !is_frame_of(f->ec, cfp, path, label))
		cfp += f->words;
	if (cfp >= f->end)
		return 0;
	f->inner = cfp + f->words;
	if (!base_len || base_len > len || memcmp(text + len - base_len, base, base_len) != 0 ||
	    !rut_agent_frame_owner(f->ec, cfp, &owner, &mid))
		return 0;
	rut_agent_class_name(owner, class, sizeof(class), &singleton);
	n = snprintf(name, sizeof(name), "%.*s%s%c%.*s", (int)(len - base_len), text, class,
		     singleton ? '.' : '#', (int)base_len, base);
	return n > 0 && (size_t)n < sizeof(name) ? rut_agent_table_str(&s->table, name, (size_t)n)
						 : 0;
}

static uint32_t frame_row(struct rut_session *s, VALUE location, struct rut_running_frames *f)
{
	VALUE line = rut_agent_ask(location, "lineno"), label = rut_agent_ask(location, "label");
	uint32_t name = f->ec ? qualified(s, location, label, f) : 0;

	return number(s, rut_agent_table_row(&s->table, intern(s, rut_agent_ask(location, "path")),
					     line & 1 ? (uint32_t)rut_fix2long(line) : 0, 0,
					     name ? name : intern(s, label), 0));
}

/* "backtrace_locations", "Thread#backtrace_locations" */
static bool is_question(VALUE label)
{
	static const char own[] = "backtrace_locations";
	size_t len;
	const char *text = rut_agent_str(label, &len);

	return len >= sizeof(own) - 1 &&
	       memcmp(text + len - (sizeof(own) - 1), own, sizeof(own) - 1) == 0;
}

/* "main (sleep)", "puma srv tp 001 (run)" */
static uint32_t thread_row(struct rut_session *s, VALUE thread, VALUE main)
{
	VALUE name = rut_agent_ask(thread, "name"), status = rut_agent_ask(thread, "status");
	char text[NAME_BYTES];
	size_t len, status_len;
	const char *given = rut_agent_str(name, &len), *state = rut_agent_str(status, &status_len);
	int n;

	if (!len) {
		given = thread == main ? "main" : "";
		len = strlen(given);
	}
	n = snprintf(text, sizeof(text), "%.*s%s(%.*s)", (int)(len < 128 ? len : 128), given,
		     len ? " " : "", (int)(status_len < 24 ? status_len : 24), state);
	return number(s, rut_agent_table_row(&s->table, 0, 0, 0,
					     rut_agent_table_str(&s->table, text, (size_t)n), 0));
}

static void write_thread(struct rut_session *s, VALUE thread, VALUE main)
{
	static uint32_t rows[RUT_EVENT_CALLERS];
	VALUE locations = rut_agent_ask(thread, "backtrace_locations"),
	      tid = rut_agent_ask(thread, "native_thread_id");
	/* Ruby 3.1 forgets at a fork that the main thread is another one now. */
	uint32_t id = thread == main ? (uint32_t)getpid()
		      : tid & 1	     ? (uint32_t)rut_fix2long(tid)
				     : 0;
	struct rut_running_frames frames = {.ec = NULL};
	uint32_t n = 0;

	if (rb.abi->names_have_classes || !rut_agent_running_frames(thread, &frames))
		frames.ec = NULL;
	for (long i = 0; locations != rb.qnil && n < RUT_EVENT_CALLERS; i++) {
		VALUE location = rb.rb_ary_entry(locations, i);

		if (location == rb.qnil)
			break;
		/* The thread that does this is in our question. */
		if (i > 0 || !is_question(rut_agent_ask(location, "label")))
			rows[n++] = frame_row(s, location, &frames);
	}
	rut_agent_trace_stack(s, thread_row(s, thread, main), id, rows, n);
}

void rut_agent_stacks_write(struct rut_session *s)
{
	VALUE class = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Thread"));
	VALUE threads = rut_agent_ask(class, "list"), main = rut_agent_ask(class, "main");

	for (long i = 0; threads != rb.qnil && i < THREADS_MAX; i++) {
		VALUE thread = rb.rb_ary_entry(threads, i);

		if (thread == rb.qnil)
			break;
		write_thread(s, thread, main);
	}
}
