/* SPDX-License-Identifier: MIT */
/*
 * A hanging request began before rutile attached, so no event describes it. But it is on the
 * stack: a thread that is in the entry point of a server (ruby/layers.h) has a request. Ruby's
 * frames say where it is, /proc what the kernel does for it, and the frames of the other threads
 * which may hold the lock that it waits for.
 */
#include "cli/requests_running.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cmd.h"
#include "cli/ruby_live.h"
#include "cli/stacks_ask.h"
#include "cli/thread_wait.h"
#include "output/text.h"
#include "ruby/layers.h"

struct frame {
	char *method, *path; /* owned; never NULL */
	uint32_t line;
};

struct rut_hang_thread {
	pid_t pid, tid;
	char *name;	      /* owned; "puma srv tp 001 (sleep)" */
	struct frame *frames; /* owned; innermost first */
	size_t count;
	size_t entry; /* of the request; `count`: it has none */
	struct rut_thread_wait wait;
};

/* "block (2 levels) in Ledger#add": what is after the last space is the method. */
static const char *method_of(const char *label)
{
	const char *space = strrchr(label, ' ');

	return space ? space + 1 : label;
}

static bool is_request(const struct rut_hangs *r, const char *label)
{
	const char *method = method_of(label);

	return (r->layers && rut_layers_is_request(r->layers, method)) ||
	       (r->request && fnmatch(r->request, method, 0) == 0);
}

static void thread_fini(struct rut_hang_thread *t)
{
	for (size_t i = 0; t->frames && i < t->count; i++) {
		free(t->frames[i].method);
		free(t->frames[i].path);
	}
	free(t->frames);
	free(t->name);
}

static bool copy_frames(struct rut_hang_thread *t, const struct rut_ruby_event *ev)
{
	t->frames = calloc(ev->caller_count + 1, sizeof(*t->frames));
	if (!t->frames)
		return false;
	for (; t->count < ev->caller_count; t->count++) {
		const struct rut_ruby_event *from = &ev->callers[t->count];
		struct frame *f = &t->frames[t->count];

		f->method = strdup(from->method_name ? from->method_name : "?");
		f->path = strdup(from->path ? from->path : "?");
		f->line = from->line;
		if (!f->method || !f->path) {
			t->count++;
			return false;
		}
	}
	return true;
}

void rut_cli_hangs_add(struct rut_hangs *r, const struct rut_ruby_event *ev)
{
	struct rut_hang_thread t = {.pid = ev->pid, .tid = ev->tid}, *more;

	t.name = strdup(ev->method_name ? ev->method_name : "");
	more = reallocarray(r->threads, r->count + 1, sizeof(*more));
	if (more)
		r->threads = more;
	if (!t.name || !more || !copy_frames(&t, ev)) {
		thread_fini(&t);
		r->failed = true;
		return;
	}
	/* The outermost: one entry point may call another. */
	for (t.entry = t.count; t.entry > 0; t.entry--)
		if (is_request(r, t.frames[t.entry - 1].method))
			break;
	t.entry = t.entry ? t.entry - 1 : t.count;
	more[r->count++] = t;
}

void rut_cli_hangs_look(struct rut_hangs *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->threads[i].tid)
			rut_cli_thread_wait(r->threads[i].pid, r->threads[i].tid,
					    &r->threads[i].wait);
}

void rut_cli_hangs_fini(struct rut_hangs *r)
{
	for (size_t i = 0; i < r->count; i++)
		thread_fini(&r->threads[i]);
	free(r->threads);
}

/* ---- what they wait for ---- */

static bool is_method(const char *label, const char *const *names)
{
	const char *method = method_of(label), *name = strpbrk(method, "#.");

	name = name ? name + 1 : method;
	for (; *names; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

static const char *const lock_methods[] = {"synchronize", "lock",  "mon_synchronize",
					   "mon_enter",	  "enter", NULL};
static const char *const sleep_methods[] = {"sleep", NULL};
static const char *const wait_methods[] = {"pop",  "shift", "deq",  "wait",
					   "join", "value", "push", NULL};

static bool in_lock(const struct frame *f)
{
	return is_method(f->method, lock_methods);
}

static bool in_state(const struct rut_hang_thread *t, const char *state)
{
	return strstr(t->name, state) != NULL;
}

static bool in_futex(const struct rut_hang_thread *t)
{
	return t->wait.call && strncmp(t->wait.call, "futex", 5) == 0;
}

/* The code that a lock is taken in: a frame of a lock method has its caller's file and line. */
static bool same_place(const struct frame *a, const struct frame *b)
{
	return a->line == b->line && strcmp(a->path, b->path) == 0;
}

/* Another thread of the process that is inside a lock that is taken in this place; or NULL. */
static const struct rut_hang_thread *find_holder(const struct rut_hangs *r,
						 const struct rut_hang_thread *t)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct rut_hang_thread *o = &r->threads[i];

		for (size_t k = 1; o != t && o->pid == t->pid && k < o->count; k++)
			if (in_lock(&o->frames[k]) && same_place(&o->frames[k], &t->frames[0]))
				return o;
	}
	return NULL;
}

/* Another thread of the process that Ruby says runs, and that waits for nothing; or NULL. */
static const struct rut_hang_thread *find_runner(const struct rut_hangs *r,
						 const struct rut_hang_thread *t)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct rut_hang_thread *o = &r->threads[i];

		if (o != t && o->pid == t->pid && o->count && in_state(o, "(run)") && !in_futex(o))
			return o;
	}
	return NULL;
}

static void add_place(struct rut_buf *out, const struct frame *f)
{
	rut_text_add(out, f->method);
	rut_buf_puts(out, " at ");
	rut_text_add(out, f->path);
	rut_buf_printf(out, ":%u", f->line);
}

static void add_thread(struct rut_buf *out, const struct rut_hang_thread *t)
{
	rut_buf_puts(out, "thread ");
	/* Before Ruby 3.1 only the main thread says its number. */
	if (t->tid)
		rut_buf_printf(out, "%d ", (int)t->tid);
	rut_text_add(out, t->name);
}

static void add_call(struct rut_buf *out, const struct rut_hang_thread *t)
{
	if (!t->wait.call)
		return;
	rut_buf_printf(out, ", %s()", t->wait.call);
	if (t->wait.object[0]) {
		rut_buf_puts(out, " on ");
		rut_text_add(out, t->wait.object);
	}
}

/* "waits in IO#gets at bank.rb:3, read() on pipe:[4711]" */
static void add_doing(struct rut_buf *out, const struct rut_hang_thread *t)
{
	const struct frame *f = &t->frames[0];

	if (in_state(t, "(run)") && !in_futex(t)) {
		rut_buf_puts(out, t->wait.call ? "is in " : "runs in ");
		add_place(out, f);
		add_call(out, t);
	} else if (is_method(f->method, sleep_methods)) {
		rut_buf_puts(out, "sleeps in ");
		add_place(out, f);
	} else {
		rut_buf_puts(out, "waits in ");
		add_place(out, f);
		if (!is_method(f->method, wait_methods) && !in_lock(f))
			add_call(out, t);
	}
}

static void add_sentence(struct rut_buf *out, const struct rut_hangs *r,
			 const struct rut_hang_thread *t)
{
	const struct rut_hang_thread *other = NULL;

	if (in_lock(&t->frames[0])) {
		rut_buf_puts(out, "It waits for a lock in ");
		add_place(out, &t->frames[0]);
		other = find_holder(r, t);
		if (other) {
			rut_buf_puts(out, "; ");
			add_thread(out, other);
			rut_buf_puts(out, " is inside one that is taken there, and ");
			add_doing(out, other);
		}
	} else if (in_state(t, "(run)") && in_futex(t)) {
		rut_buf_puts(out, "It waits for the GVL in ");
		add_place(out, &t->frames[0]);
		other = find_runner(r, t);
		if (other) {
			rut_buf_puts(out, "; ");
			add_thread(out, other);
			rut_buf_putc(out, ' ');
			add_doing(out, other);
		}
	} else {
		rut_buf_puts(out, "It ");
		add_doing(out, t);
	}
	rut_buf_puts(out, ".\n");
}

size_t rut_cli_hangs_print(const struct rut_hangs *r, bool explain, struct rut_buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct rut_hang_thread *t = &r->threads[i];

		if (t->entry == t->count)
			continue;
		if (n++ && explain)
			rut_buf_putc(out, '\n');
		rut_text_add(out, method_of(t->frames[t->entry].method));
		rut_buf_printf(out, "  process %d, ", (int)t->pid);
		add_thread(out, t);
		rut_buf_putc(out, '\n');
		if (!explain)
			continue;
		rut_buf_puts(out, "  ");
		add_sentence(out, r, t);
		for (size_t k = 0; k <= t->entry; k++) {
			rut_buf_puts(out, "    ");
			rut_text_add(out, t->frames[k].method);
			rut_buf_puts(out, "  ");
			rut_text_add(out, t->frames[k].path);
			rut_buf_printf(out, ":%u\n", t->frames[k].line);
		}
	}
	return n;
}

/* ---- the verb ---- */

static void on_thread(const struct rut_ruby_event *ev, void *running)
{
	rut_cli_hangs_add(running, ev);
}

/* Asks them and prints; `cmd` NULL: without notices. Returns how many requests run, or -errno. */
static int show(struct rut_hangs *r, const struct rut_targets *targets, bool try_newer,
		const struct rut_cmd *cmd, bool explain, struct rut_buf *out, struct rut_err *err)
{
	int rc = rut_cli_stacks_ask(targets, try_newer, cmd, on_thread, r, err);

	if (rc < 0)
		return rc;
	if (r->failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	rut_cli_hangs_look(r);
	return (int)rut_cli_hangs_print(r, explain, out);
}

void rut_cli_hangs_page(const struct rut_targets *targets, bool try_newer, struct rut_buf *out)
{
	struct rut_layers layers = RUT_LAYERS_INIT;
	struct rut_hangs r = {.layers = &layers};
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_layers_load(&layers, &err);

	rut_buf_puts(out, "Requests that run now, and what they wait for\n\n");
	if (!rc)
		rc = show(&r, targets, try_newer, NULL, true, out, &err);
	if (rc < 0)
		rut_buf_printf(out, "%s\n", err.msg);
	else if (!rc)
		rut_buf_puts(out, "No request runs.\n");
	rut_cli_hangs_fini(&r);
	rut_layers_fini(&layers);
}

static int run(struct rut_hangs *r, const struct rut_cmd *cmd, const struct rut_ruby_opts *opts,
	       bool explain, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	struct rut_targets targets;
	int fd = -1, rc = rut_cli_targets_find(&targets, opts, err);

	if (rc >= 0)
		rc = fd = rut_cli_ruby_opts_open(opts, err);
	if (rc >= 0)
		rc = show(r, &targets, opts->try_newer, cmd, explain, &out, err);
	rut_cli_targets_fini(&targets);
	if (rc < 0)
		return rc;
	if (!rc)
		rut_cli_notice(cmd,
			       "no request runs: no thread is in an entry point of the layer files "
			       "(docs/requests.md); --request METHOD names another one");
	rc = rut_cli_write_all(fd, &out);
	return rc < 0 ? rut_err_errno(err, -rc, "cannot write") : 0;
}

int rut_cli_requests_show_running(const struct rut_cmd *cmd, const struct rut_ruby_opts *opts,
				  const char *request, bool explain)
{
	struct rut_layers layers = RUT_LAYERS_INIT;
	struct rut_hangs r = {.layers = &layers, .request = request};
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_layers_load(&layers, &err);

	if (!rc)
		rc = run(&r, cmd, opts, explain, &err);
	rut_cli_hangs_fini(&r);
	rut_layers_fini(&layers);
	return rc < 0 ? rut_cli_fail(cmd, &err) : RUT_EXIT_OK;
}
