/* SPDX-License-Identifier: MIT */
#include "script/ruby_attach.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/glob.h"
#include "bpf/script_ruby.h"
#include "expr/expr.h"
#include "ruby/layers.h"
#include "ruby/target.h"
#include "ruby/tracer.h"
#include "script/defer.h"
#include "script/ruby.h"
#include "script/ruby_probe.h"

/* After this time a message names the process that is waited for. */
enum { PATIENCE_MS = 1000 };

/* Of hits, for each process. */
enum { RING_BYTES = 4 << 20 };

/* A file of the agent that has the programs. */
struct file {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
};

struct rut_script_tracer {
	struct rut_tracer *tracer; /* owned */
	struct rut_script_program *p;
	struct rut_script_links *links; /* borrowed */
	struct rut_script_tracer_opts opts;
	struct file *files; /* owned */
	size_t nfiles;
	struct rut_script_hits *hits; /* owned; NULL: no probe is deferred */
	bool within;		      /* the agent follows in which methods threads are */
};

static bool is_known(const struct rut_script_tracer *t, const struct rut_mapping *m)
{
	for (size_t i = 0; i < t->nfiles; i++)
		if (t->files[i].inode == m->inode && t->files[i].dev_major == m->dev_major &&
		    t->files[i].dev_minor == m->dev_minor)
			return true;
	return false;
}

static int attach_file(struct rut_script_tracer *t, const char *path, uint64_t offset,
		       struct rut_err *err)
{
	for (size_t i = 0; i < t->p->nprogs; i++) {
		const struct rut_script_prog *prog = &t->p->progs[i];
		int rc;

		if (!prog->nattach || prog->attach[0].kind != RUT_PROBE_RUBY)
			continue;
		rc = rut_script_attach_place(
			t->links, prog, path,
			offset + (uint64_t)prog->attach[0].config * RUT_HIT_SITE_BYTES, err);
		if (rc)
			return rc;
	}
	if (t->p->needs_requests) {
		int rc = rut_script_ruby_attach_requests(
			t->p->ruby, path,
			offset + (uint64_t)t->p->nruby_probes * RUT_HIT_SITE_BYTES, err);

		if (rc)
			return rc;
	}
	return t->within
		       ? rut_script_ruby_attach_within(
				 t->p->ruby, path,
				 offset + (uint64_t)(RUT_HIT_PROBES - 1) * RUT_HIT_SITE_BYTES, err)
		       : 0;
}

/*
 * The agent's file, which may have no name any more: it is reached through the mapping. The process
 * says where the places are, and may say anything: a probe within an instruction of a library would
 * break all processes that run it. So they must be there in the file, which is the one that is
 * opened here, whatever the process maps meanwhile. Returns a descriptor, or -1.
 */
static int open_agent(pid_t pid, const struct rut_mapping *m, uint64_t offset)
{
	static const unsigned char nop_and_return[RUT_HIT_SITE_BYTES] = {0x90, 0xc3};
	unsigned char places[RUT_HIT_PROBES][RUT_HIT_SITE_BYTES];
	int fd = rut_mapping_open(pid, m);
	bool right = fd >= 0 &&
		     pread(fd, places, sizeof(places), (off_t)offset) == (ssize_t)sizeof(places);

	for (size_t i = 0; i < RUT_HIT_PROBES && right; i++)
		right = !memcmp(places[i], nop_and_return, sizeof(nop_and_return));
	if (right)
		return fd;
	rut_closep(&fd);
	return -1;
}

static int on_sites(void *arg, pid_t pid, uint64_t sites, struct rut_err *err)
{
	struct rut_script_tracer *t = arg;
	struct rut_target target = RUT_TARGET_INIT;
	_cleanup_close_ int fd = -1;
	const struct rut_mapping *m;
	struct file *files;
	uint64_t offset;
	char path[40];
	int rc = rut_target_read_maps(&target, pid);

	/* Its frames are known from its first hit on. */
	if (t->p->ruby)
		rut_script_ruby_meet(t->p->ruby, pid);
	m = rc ? NULL : rut_target_mapping_at(&target, sites);
	if (!m || !m->inode || !m->exec) {
		rut_target_fini(&target);
		return rut_err_set(err, rc ? -rc : EPROTO,
				   "the agent of process %d is not where it says", (int)pid);
	}
	if (is_known(t, m)) {
		rut_target_fini(&target);
		return 0;
	}
	offset = sites - m->start + m->offset;
	fd = open_agent(pid, m, offset);
	if (fd < 0) {
		rut_target_fini(&target);
		return rut_err_set(err, EPROTO, "the agent of process %d is not where it says",
				   (int)pid);
	}
	files = realloc(t->files, (t->nfiles + 1) * sizeof(*files));
	if (files) {
		t->files = files;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		rc = attach_file(t, path, offset, err);
		if (!rc)
			files[t->nfiles++] = (struct file){m->inode, m->dev_major, m->dev_minor};
	}
	rut_target_fini(&target);
	return files ? rc : rut_err_set(err, ENOMEM, "out of memory");
}

static bool is_to_end(const struct rut_script_tracer *t)
{
	struct pollfd fd = {.fd = t->opts.stop_fd, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

__attribute__((format(printf, 2, 3))) static void warn(const struct rut_script_tracer *t,
						       const char *fmt, ...)
{
	va_list ap;

	if (!t->opts.warnings)
		return;
	fprintf(t->opts.warnings, "%s: warning: ", t->p->src.name);
	va_start(ap, fmt);
	vfprintf(t->opts.warnings, fmt, ap);
	va_end(ap);
	fputc('\n', t->opts.warnings);
	fflush(t->opts.warnings);
}

static int attach_all(struct rut_script_tracer *t, struct rut_err *err)
{
	const struct rut_script_opts *o = &t->p->opts;
	struct rut_err first = RUT_ERR_INIT;
	size_t attached = 0;
	int rc;

	/* It has not begun: each Ruby that it becomes or starts waits until it is found. */
	if (o->child) {
		rc = rut_tracer_command_prepare(t->tracer, err);
		if (!rc)
			rut_tracer_command_started(t->tracer, o->pid);
		return rc;
	}

	for (size_t i = 0; i < o->ntargets; i++) {
		struct rut_err why = RUT_ERR_INIT;

		if (is_to_end(t))
			return rut_err_set(err, EINTR, "stopped before all was attached");
		if (!rut_tracer_attach(t->tracer, o->targets[i], true, &why)) {
			attached++;
			continue;
		}
		if (o->ntargets > 1)
			warn(t, "%s", why.msg);
		if (!first.code)
			first = why;
	}
	if (attached)
		return 0;
	if (o->ntargets > 1)
		return rut_err_set(err, first.code, "none of %zu processes can be traced: %s",
				   o->ntargets, first.msg);
	*err = first;
	return -first.code;
}

/*
 * Methods of a very large application get their hooks a few at a time. A process that holds Ruby's
 * lock (GVL) in a function of C gets none until that returns.
 */
static int settle(struct rut_script_tracer *t, struct rut_err *err)
{
	uint64_t warn_at = rut_now_ms() + PATIENCE_MS;
	pid_t pid;
	int n = 1;

	while (n > 0 && (pid = rut_tracer_unsettled(t->tracer))) {
		if (is_to_end(t))
			return rut_err_set(err, EINTR,
					   "stopped before process %d had all of its hooks",
					   (int)pid);
		if (rut_now_ms() >= warn_at) {
			warn(t, "waiting for process %d, which has not set all of its hooks yet",
			     (int)pid);
			warn_at = UINT64_MAX;
		}
		n = rut_tracer_poll(t->tracer, 10, err);
	}
	return n < 0 ? n : 0;
}

/* ---- names that no method has ---- */

struct seen {
	const char *pattern;
	bool any;
};

static bool is_like(const char *pattern, const char *class_name, const char *sep,
		    const char *method)
{
	char name[1024];
	int len = snprintf(name, sizeof(name), "%s%s%s", class_name, sep, method);

	return len > 0 && (size_t)len < sizeof(name) &&
	       rut_glob(pattern, strlen(pattern), name, (size_t)len, RUT_GLOB_SHELL);
}

/* As the agent's filter spells methods. */
static void see(const struct rut_ruby_row *row, void *arg)
{
	struct seen *s = arg;
	const char *class_name = row->class_name ? row->class_name : "";

	if (s->any || !row->method_name)
		return;
	s->any = is_like(s->pattern, class_name, row->singleton ? "." : "#", row->method_name) ||
		 is_like(s->pattern, "", "", row->method_name) ||
		 (!row->singleton && is_like(s->pattern, class_name, ".", row->method_name));
}

/* Such a method may be defined later, so that is no error. */
static void warn_of_unknown(const struct rut_script_tracer *t)
{
	for (uint32_t i = 0; t->opts.near && !t->p->opts.child && i < t->p->nruby_probes; i++) {
		const struct rut_ruby_probe_ctx *x = t->p->ruby_probes[i];
		_cleanup_buf_ struct rut_buf near = RUT_BUF_INIT;
		struct seen seen = {.pattern = x->pattern};
		uint32_t line, column;

		if (!rut_ruby_is_method(x->event))
			continue;
		rut_tracer_names(t->tracer, see, &seen);
		if (seen.any || !t->opts.warnings)
			continue;
		t->opts.near(t->tracer, x->pattern, &near);
		rut_source_where(&t->p->src, x->spec->span.pos, &line, &column);
		fprintf(t->opts.warnings,
			"%s:%u:%u: warning: no method is '%s' so far: the probe waits for one%s\n",
			t->p->src.name, line, column, x->pattern, near.data ? near.data : "");
		fflush(t->opts.warnings);
	}
}

static uint64_t inode(const char *path, uint64_t none)
{
	struct stat st;

	return stat(path, &st) ? none : st.st_ino;
}

static int tracer_new(struct rut_script_tracer *t, struct rut_err *err)
{
	static const char *const name[] = {"N"}; /* RUT_HIT_NAME */
	const struct rut_script_program *p = t->p;
	struct rut_ruby_probe probes[RUT_HIT_PROBES];
	const char *within[RUT_SCRIPT_METHODS];
	_cleanup_buf_ struct rut_buf layers = RUT_BUF_INIT;
	uint64_t pid_ns = inode("/proc/self/ns/pid", UINT64_MAX);
	uint64_t time_ns = inode("/proc/self/ns/time", 0);
	bool requests = p->needs_requests;
	struct rut_tracer_config config = {
		.mode = RUT_RUBY_SCRIPT,
		.probes = probes,
		.nprobes = p->nruby_probes,
		.session_id = p->ruby_session,
		.names = true,
		.on_sites = on_sites,
		.on_sites_arg = t,
	};

	for (uint32_t i = 0; i < p->nruby_probes; i++) {
		probes[i] = (struct rut_ruby_probe){.event = p->ruby_probes[i]->event,
						    .pattern = p->ruby_probes[i]->pattern,
						    .wishes = p->ruby_probes[i]->wishes,
						    .nwishes = p->ruby_probes[i]->nwishes,
						    .deferred = p->ruby_probes[i]->deferred};
		if (p->ruby_probes[i]->local) {
			probes[i].pid_ns = pid_ns;
			probes[i].time_ns = time_ns;
		}
		if (probes[i].deferred)
			config.ring_bytes = RING_BYTES;
		requests |= rut_ruby_is_request(probes[i].event);
		config.filter.c_calls |=
			probes[i].event == RUT_HIT_C_CALL || probes[i].event == RUT_HIT_C_RETURN;
	}
	if (p->needs_requests)
		probes[config.nprobes++] = (struct rut_ruby_probe){
			.event = RUT_HIT_REQUEST_NAME, .pattern = "", .wishes = name, .nwishes = 1};
	if (requests && rut_layers_config(&layers, err))
		return -err->code;
	/* Its place is the last one. */
	t->within = rut_script_follows(p) && config.nprobes < RUT_HIT_PROBES;
	for (uint32_t i = 0; t->within && i < p->nmethods; i++)
		within[i] = strpbrk(p->methods[i], "#.") ? p->methods[i] : NULL;
	if (t->within) {
		config.within = within;
		config.nwithin = p->nmethods;
		config.within_fd = rut_script_ruby_within(p->ruby);
	}
	config.layers = layers.data;
	config.layers_len = layers.len;
	if (config.ring_bytes && rut_script_hits_new(&t->hits, p))
		return rut_err_set(err, ENOMEM, "out of memory");
	if (rut_tracer_new(&t->tracer, &config, err))
		return -err->code;
	if (t->hits)
		rut_tracer_on_event(t->tracer, rut_script_hits_event, t->hits);
	return 0;
}

int rut_script_tracer_new(struct rut_script_tracer **ret, struct rut_script_program *p,
			  struct rut_script_links *links, const struct rut_script_tracer_opts *opts,
			  struct rut_err *err)
{
	struct rut_script_tracer *t = calloc(1, sizeof(*t));
	int rc;

	*ret = t;
	if (!t)
		return rut_err_set(err, ENOMEM, "out of memory");
	t->p = p;
	t->links = links;
	t->opts = *opts;
	rc = tracer_new(t, err);
	if (!rc)
		rc = attach_all(t, err);
	/* The workers of a server, too, which alone may have the application. */
	if (!rc && !p->opts.child) {
		int n = rut_tracer_poll(t->tracer, 0, err);

		rc = n < 0 ? n : 0;
	}
	if (!rc)
		rc = settle(t, err);
	if (!rc)
		warn_of_unknown(t);
	return rc;
}

int rut_script_tracer_attach(struct rut_script_tracer *t, pid_t pid, struct rut_err *err)
{
	return rut_tracer_attach(t->tracer, pid, true, err);
}

bool rut_script_tracer_has(const struct rut_script_tracer *t, pid_t pid)
{
	return rut_tracer_has(t->tracer, pid);
}

bool rut_script_tracer_settled(const struct rut_script_tracer *t)
{
	return !rut_tracer_unsettled(t->tracer);
}

void rut_script_tracer_free(struct rut_script_tracer *t)
{
	uint64_t lost;
	char why[512];

	if (!t)
		return;
	/* A process would have been refused when it was attached to. */
	if (t->tracer && t->p->opts.child && rut_tracer_untraced(t->tracer, why, sizeof(why)))
		warn(t, "the command was not traced: %s", why);
	rut_tracer_free(t->tracer);
	lost = rut_script_hits_lost(t->hits);
	if (lost)
		warn(t,
		     "at least %" PRIu64 " hits of Ruby probes were lost: a process was killed "
		     "while it wrote one",
		     lost);
	rut_script_hits_free(t->hits);
	free(t->files);
	free(t);
}

void rut_script_ruby_error(struct rut_script_program *p, const char *message)
{
	rut_source_error(&p->src,
			 p->nruby_probes ? p->ruby_probes[0]->spec->span : p->requests_span, "%s",
			 message);
}

int rut_script_tracer_vars(const struct rut_script_tracer *t, struct rut_buf *out)
{
	return rut_tracer_command_vars(t->tracer, getpid(), out);
}

int rut_script_tracer_round(struct rut_script_tracer *t, struct rut_err *err)
{
	int n, rc = 0;

	if (t->hits)
		rut_script_hits_begin(t->hits);
	n = rut_tracer_poll(t->tracer, 0, err);
	if (n >= 0 && t->hits)
		rc = rut_script_hits_run(t->hits, err);
	return rc ? rc : n;
}

int rut_script_tracer_take(struct rut_script_tracer *t, struct rut_err *err)
{
	int rc;

	if (t->hits)
		rut_script_hits_begin(t->hits);
	rc = t->hits ? rut_tracer_take(t->tracer, err) : 0;
	return rc < 0 || !t->hits ? rc : rut_script_hits_run(t->hits, err);
}

bool rut_script_tracer_prints(const struct rut_script_tracer *t)
{
	return rut_script_hits_print(t->hits);
}

int rut_script_tracer_gather(struct rut_script_tracer *t, uint64_t *until_ns, struct rut_err *err)
{
	uint64_t now = rut_now_ns(), complete;
	int n = rut_script_tracer_round(t, err);

	complete = rut_tracer_complete_ns(t->tracer);
	*until_ns = complete < now ? complete : now;
	return n;
}

int rut_script_tracer_run_until(struct rut_script_tracer *t, uint64_t until_ns, uint32_t room_bytes,
				void (*served)(void *arg), void *arg, struct rut_err *err)
{
	return rut_script_hits_run_until(t->hits, until_ns, room_bytes, served, arg, err);
}

bool rut_script_tracer_defers(const struct rut_script_tracer *t)
{
	return t->hits != NULL;
}
