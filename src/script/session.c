/* SPDX-License-Identifier: MIT */
#include "script/session.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "ring/write.h"
#include "rut_config.h"
#include "script/journal.h"
#include "script/load.h"
#include "script/output.h"
#include "script/portable.h"
#include "script/quantile.h"
#include "script/ruby.h"
#include "script/ruby_attach.h"
#include "script/ruby_probe.h"
#include "script/run_names.h"
#include "script/trace.h"

/*
 * What stands beside the maps: how the script was compiled. Its parameters and its text follow, or
 * the file of a script that is compiled.
 */
_Static_assert(RUT_COUNTER_EXIT == 0 && RUT_EXIT_HELD == RUT_GUEST_HELD, "session/guest.h");

struct conf {
	char version[32]; /* of rutile: another one may lay values out differently */
	char path[256], targets[512];
	int32_t pid;
	uint32_t compat, unsafe, flight, nparams, params_bytes, text_bytes;
	uint32_t portable; /* the text is a file of portable.h */
};

struct rut_script_session {
	struct rut_script_program *p; /* owned */
	char *text, *params_text;     /* owned */
	struct rut_buf file;	      /* of a script that is compiled; empty: of one that is not */
	const char **params;	      /* owned; into params_text */
	char name[256], targets[512];
	struct rut_script_symbols *symbols; /* owned */
	struct rut_script_names names;
	struct rut_script_style style;
	/* Of what is written or shown: */
	struct rut_script_journal journal;
	struct rut_script_out *out;
	struct rut_script_trace *trace;
	struct rut_buf filled; /* an event with its percentiles */
	FILE *nowhere;	       /* owned */
	uint64_t *next_ns;     /* by program: when an interval probe runs; owned */
	uint64_t told;	       /* lost records that the traces before this one count */
	bool paused;
	int rc;
	struct rut_err *err;
	/* Of probes of Ruby, in the session's process: */
	struct rut_script_tracer *tracer; /* owned */
	struct rut_script_links *links;	  /* owned; what is attached to the agent's file */
	int (*find)(void *arg, pid_t **ret_pids, size_t *ret_n, struct rut_err *err);
	void *find_arg;
	uint64_t looked_ms;
};

enum {
	LOOK_MS = 1000, /* for processes that have come */
	SETTLE_MS = 2000
};

static const struct {
	int map;
	const char *name;
} pinned[] = {
	{RUT_MAP_COUNTERS, "counters"}, {RUT_MAP_JOURNAL, "journal"}, {RUT_MAP_STACKS, "stacks"}};

static void pin_path(char *ret, size_t size, const char *dir, const char *name)
{
	snprintf(ret, size, "%s/script_%s", dir, name);
}

static int pin(int fd, const char *dir, const char *name, struct rut_err *err)
{
	char path[512];

	pin_path(path, sizeof(path), dir, name);
	return bpf_obj_pin(fd, path) < 0 ? rut_err_errno(err, errno, "cannot pin '%s'", path) : 0;
}

/* -ENOENT: there is none of that name. */
static int unpinned(const char *dir, const char *name)
{
	char path[512];
	int fd;

	pin_path(path, sizeof(path), dir, name);
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

/* ---- Making it ---- */

static struct rut_script_session *make(const char *name)
{
	struct rut_script_session *s = calloc(1, sizeof(*s));

	if (s)
		snprintf(s->name, sizeof(s->name), "%s", name);
	return s;
}

/* ---- Probes of Ruby ---- */

/* Attaches to the processes that there are; to those that it is attached to nothing happens. */
static int attach_rubies(struct rut_script_session *s, struct rut_err *err)
{
	struct rut_err first = RUT_ERR_INIT;
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, attached = 0;
	int rc = s->find(s->find_arg, &pids, &n, err);

	s->looked_ms = rut_now_ms();
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct rut_err why = RUT_ERR_INIT;

		if (!rut_script_tracer_attach(s->tracer, pids[i], &why))
			attached++;
		else if (!first.code)
			first = why;
	}
	if (attached || !n)
		return 0;
	*err = first;
	return -first.code;
}

/* Finds the children that there are already, and waits a while until they have their hooks. */
static int settle_rubies(struct rut_script_session *s, struct rut_err *err)
{
	uint64_t deadline = rut_now_ms() + SETTLE_MS;
	int n;

	do {
		n = rut_script_tracer_round(s->tracer, err);
		if (n <= 0 || rut_script_tracer_settled(s->tracer))
			break;
		poll(NULL, 0, 10);
	} while (rut_now_ms() < deadline);
	return n < 0 ? n : 0;
}

static void end_rubies(struct rut_script_session *s)
{
	struct rut_err err = RUT_ERR_INIT;

	if (s->tracer && rut_script_tracer_take(s->tracer, &err))
		rut_warn("%s", err.msg);
	rut_script_tracer_free(s->tracer);
	rut_script_links_free(s->links);
	s->tracer = NULL;
	s->links = NULL;
}

/* Processes that are not there yet are waited for. */
static int begin_rubies(struct rut_script_session *s, struct rut_err *err)
{
	const struct rut_script_tracer_opts opts = {.stop_fd = -1};
	int rc;

	if (!s->find || !rut_script_needs_agent(s->p) || s->tracer)
		return 0;
	s->links = rut_script_links_new();
	if (!s->links)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_script_tracer_new(&s->tracer, s->p, s->links, &opts, err);
	if (!rc)
		rc = attach_rubies(s, err);
	if (!rc)
		rc = settle_rubies(s, err);
	if (!rc)
		return 0;
	if (s->tracer && (rc == -ESRCH || rc == -ENOENT)) {
		*err = (struct rut_err)RUT_ERR_INIT;
		return 0;
	}
	end_rubies(s);
	return rc;
}

static int follow_rubies(struct rut_script_session *s, struct rut_err *err)
{
	struct rut_err ignored = RUT_ERR_INIT;
	int rc = 0;

	if (s->p->ruby && !s->paused)
		rut_script_ruby_round(s->p->ruby);
	if (s->tracer)
		rc = rut_script_tracer_round(s->tracer, err);
	if (s->tracer && rut_now_ms() - s->looked_ms >= LOOK_MS)
		attach_rubies(s, &ignored);
	return rc < 0 ? rc : 0;
}

static void pause_rubies(struct rut_script_session *s, bool pause)
{
	struct rut_err err = RUT_ERR_INIT;

	if (pause)
		end_rubies(s);
	else if (begin_rubies(s, &err))
		rut_warn("%s", err.msg);
}

bool rut_script_session_needs_process(const struct rut_script_session *s)
{
	return s->p->needs_ruby || rut_script_needs_agent(s->p);
}

void rut_script_session_leave(struct rut_script_session *s)
{
	s->tracer = NULL;
	s->links = NULL;
}

/* ---- */

void rut_script_session_free(struct rut_script_session *s)
{
	if (!s)
		return;
	end_rubies(s);
	rut_script_trace_close(s->trace, 0, 0, NULL);
	rut_script_out_free(s->out);
	rut_script_journal_close(&s->journal);
	rut_script_symbols_free(s->symbols);
	rut_script_free(s->p);
	if (s->nowhere)
		fclose(s->nowhere);
	free(s->next_ns);
	free(s->text);
	rut_buf_fini(&s->file);
	free(s->params_text);
	free(s->params);
	rut_buf_fini(&s->filled);
	free(s);
}

/* What needs a process while the script runs. */
static const char *needs_process(enum rut_script_action_kind kind)
{
	switch (kind) {
	case RUT_ACTION_PRINT_MAP:
	case RUT_ACTION_PRINT_KEY:
		return "print() of a map is done by a process";
	case RUT_ACTION_CLEAR:
		return "clear() is done by a process";
	case RUT_ACTION_ZERO:
		return "zero() is done by a process";
	case RUT_ACTION_TIME:
		return "time() is done by a process (printf() has the time of its event)";
	case RUT_ACTION_CAT:
		return "cat() is done by a process";
	case RUT_ACTION_SYSTEM:
		return "system() is done by a process";
	default:
		return NULL;
	}
}

#define NO_PROCESS ", and a flight recorder has none: start the session with --output"

/* Probes that have no meaning in a session: -EINVAL. */
static int check_kinds(struct rut_script_program *p)
{
	for (size_t i = 0; i < p->nprogs; i++) {
		const struct rut_script_prog *prog = &p->progs[i];
		enum rut_probe_kind kind = prog->nattach ? prog->attach[0].kind : RUT_PROBE_BEGIN;

		if (kind == RUT_PROBE_ITER || kind == RUT_PROBE_SIGNAL)
			return rut_source_error(&p->src, prog->span,
						"this probe is one of 'rutile run' alone");
	}
	return 0;
}

/* Errors of the script: -EINVAL. */
static int check_flight(struct rut_script_program *p)
{
	for (size_t i = 0; i < p->nprogs; i++) {
		const struct rut_script_prog *prog = &p->progs[i];
		enum rut_probe_kind kind = prog->nattach ? prog->attach[0].kind : RUT_PROBE_BEGIN;

		if (kind == RUT_PROBE_INTERVAL || kind == RUT_PROBE_END)
			return rut_source_error(&p->src, prog->span,
						"this probe runs in a process" NO_PROCESS);
	}
	for (size_t i = 0; i < p->nactions; i++) {
		const struct rut_script_action *a = &p->actions[i];
		const char *why = needs_process(a->kind);

		if (why)
			return rut_source_error(
				&p->src, (struct rut_span){a->pos, a->end_column - a->column},
				"%s" NO_PROCESS, why);
	}
	return 0;
}

static int prepare_output(struct rut_script_session *s, FILE *out, bool json)
{
	struct rut_script_out_config config = {
		.out = out, .err = out, .json = json, .source = s->p->src.name, .style = s->style};

	if (s->trace)
		config.tap = rut_script_trace_tap(s->trace);
	rut_script_out_free(s->out);
	s->out = NULL;
	return rut_script_out_new(&s->out, &config);
}

static int prepare(struct rut_script_session *s, struct rut_err *err)
{
	if (rut_script_symbols_new(&s->symbols))
		return rut_err_set(err, ENOMEM, "out of memory");
	rut_run_names_init(&s->names, s->p, s->symbols);
	s->style = (struct rut_script_style){.compat = s->p->opts.compat,
					     .max_strlen = s->p->set.max_strlen,
					     .trailer = s->p->set.trailer,
					     .names = &s->names};
	return 0;
}

/* The compiler's parameters are kept: the program points to them. */
static int keep_params(struct rut_script_session *s, const char *const *params, size_t n)
{
	_cleanup_buf_ struct rut_buf all = RUT_BUF_INIT;
	const char *p;

	for (size_t i = 0; i < n; i++)
		rut_buf_add(&all, params[i], strlen(params[i]) + 1);
	rut_buf_putc(&all, '\0');
	s->params = calloc(n + 1, sizeof(*s->params));
	if (all.failed || !s->params)
		return -ENOMEM;
	s->params_text = rut_buf_take(&all);
	p = s->params_text;
	for (size_t i = 0; i < n; i++, p += strlen(p) + 1)
		s->params[i] = p;
	return 0;
}

/* A script that is compiled: what it takes for granted is not looked up. */
static int decode(struct rut_script_session *s, const char *file, size_t len,
		  const struct rut_script_opts *opts, struct rut_err *err)
{
	int rc = rut_portable_read(&s->p, s->name, file, len, RUT_PORTABLE_SESSION, err);

	if (rc)
		return rc;
	if (opts->nparams)
		return rut_err_set(err, EINVAL,
				   "the script '%s' is compiled: its parameters are in it",
				   s->name);
	s->p->opts.flight = opts->flight;
	rut_buf_add(&s->file, file, len);
	return s->file.failed ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

static int compile(struct rut_script_session *s, const char *text, size_t len,
		   const struct rut_script_opts *opts, struct rut_err *err)
{
	struct rut_script_opts own = *opts;
	int rc = keep_params(s, opts->params, opts->nparams);

	if (rc)
		return rut_err_set(err, ENOMEM, "out of memory");
	own.name = s->name;
	own.params = s->params;
	own.session = true;
	if (rut_portable_is(text, len))
		rc = decode(s, text, len, opts, err);
	else
		rc = rut_script_compile(&s->p, text, len, &own, err);
	if (!rc && own.portable && (s->p->needs_ruby || s->p->nruby_probes))
		rc = rut_source_error(&s->p->src, s->p->progs[0].span,
				      "names and probes of Ruby are found where the script runs: "
				      "it cannot be compiled for other machines");
	if (!rc)
		rc = check_kinds(s->p);
	if (!rc && own.flight)
		rc = check_flight(s->p);
	return rc;
}

/* Are there processes for probes of Ruby, and probes for the processes? */
static int check_rubies(struct rut_script_session *s, struct rut_err *err)
{
	bool needed = rut_script_needs_agent(s->p);

	if (needed == !!s->find)
		return 0;
	if (!needed)
		return rut_err_set(err, EINVAL,
				   "the script '%s' has no probes of Ruby: --script-target is for "
				   "these",
				   s->name);
	rut_script_ruby_error(s->p,
			      "which processes? name them with --script-target TARGET (a PID, "
			      "or a name or role that 'rutile ps' shows)");
	return -EINVAL;
}

int rut_script_session_new(struct rut_script_session **ret, const char *text, size_t len,
			   const struct rut_script_session_conf *conf, struct rut_buf *messages,
			   struct rut_err *err)
{
	const struct rut_script_opts opts = {
		.params = conf->params,
		.nparams = conf->nparams,
		.flight = conf->flight,
		.portable = conf->portable,
	};
	struct rut_script_session *s = make(conf->name);
	int rc;

	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	s->find = conf->find;
	s->find_arg = conf->find_arg;
	if (conf->targets && strlen(conf->targets) >= sizeof(s->targets)) {
		rut_script_session_free(s);
		return rut_err_set(err, E2BIG, "the names of --script-target are too long");
	}
	snprintf(s->targets, sizeof(s->targets), "%s", conf->targets ? conf->targets : "");
	rc = compile(s, text, len, &opts, err);
	if (!rc && s->file.len)
		rc = rut_portable_settle(s->p, err);
	if (!rc)
		rc = check_rubies(s, err);
	/* stop() refers to a map that is there when the session is made. */
	if (!rc && !s->p->freezes)
		rc = rut_script_load(s->p, err);
	if (!rc)
		rc = prepare(s, err);
	if (s->p && s->p->src.messages.len)
		rut_buf_add(messages, s->p->src.messages.data, s->p->src.messages.len);
	if (rc) {
		rut_script_session_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

struct rut_script_program *rut_script_session_program(struct rut_script_session *s)
{
	return s->p;
}

/* ---- Its pins ---- */

/* What is imported stands behind the script's own text, and is imported again. */
static uint32_t own_bytes(const struct rut_source *src)
{
	return src->nparts ? src->parts[0].begin - 1 : (uint32_t)src->len;
}

static int pin_conf(const struct rut_script_session *s, const char *dir, struct rut_err *err)
{
	const struct rut_script_opts *o = &s->p->opts;
	_cleanup_buf_ struct rut_buf value = RUT_BUF_INIT;
	_cleanup_close_ int fd = -1;
	struct conf c = {.version = RUT_VERSION,
			 .pid = o->pid,
			 .compat = o->compat,
			 .unsafe = o->unsafe,
			 .flight = o->flight,
			 .nparams = (uint32_t)o->nparams,
			 .text_bytes = own_bytes(&s->p->src),
			 .portable = s->file.len != 0};
	uint32_t key = 0;

	if (c.portable)
		c.text_bytes = (uint32_t)s->file.len;

	snprintf(c.path, sizeof(c.path), "%s", s->name);
	memcpy(c.targets, s->targets, sizeof(c.targets));
	for (size_t i = 0; i < o->nparams; i++)
		c.params_bytes += (uint32_t)strlen(o->params[i]) + 1;
	rut_buf_add(&value, &c, sizeof(c));
	rut_buf_add(&value, s->params_text, c.params_bytes);
	rut_buf_add(&value, c.portable ? s->file.data : s->p->text, c.text_bytes);
	rut_buf_putc(&value, '\0');
	if (value.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "rut_script", 4, (uint32_t)value.len, 1, NULL);
	if (fd < 0 || bpf_map_update_elem(fd, &key, value.data, BPF_ANY))
		return rut_err_errno(err, errno, "cannot keep the text of the script");
	return pin(fd, dir, "conf", err);
}

static int pin_maps(const struct rut_script_session *s, const char *dir, struct rut_err *err)
{
	int rc = pin_conf(s, dir, err);

	for (size_t i = 0; i < sizeof(pinned) / sizeof(*pinned) && !rc; i++)
		if (s->p->fds[pinned[i].map] >= 0)
			rc = pin(s->p->fds[pinned[i].map], dir, pinned[i].name, err);
	for (size_t i = 0; i < s->p->nmaps && !rc; i++) {
		char name[32];

		snprintf(name, sizeof(name), "map%zu", i);
		rc = pin(s->p->maps[i].fd, dir, name, err);
	}
	for (size_t i = 0; i < s->p->nprogs && !rc; i++) {
		char name[32];

		snprintf(name, sizeof(name), "prog%zu", i);
		rc = pin(s->p->progs[i].fd, dir, name, err);
	}
	return rc;
}

static int attach(struct rut_script_session *s, const char *dir, struct rut_err *err)
{
	struct rut_script_links *links = NULL;
	int rc = rut_script_attach(&links, s->p, dir, err);

	rut_script_links_free(links);
	return rc;
}

/* When the script begins, and how many slots its journal has: its programs read that. */
static int set_counters(const struct rut_script_session *s, struct rut_err *err)
{
	const struct rut_script_program *p = s->p;
	_cleanup_free_ uint64_t *words = calloc(1, rut_script_counter_bytes(p));
	uint32_t key = 0;

	if (!words)
		return rut_err_set(err, ENOMEM, "out of memory");
	words[RUT_COUNTER_BEGIN] = rut_ring_clock();
	if (p->record_max)
		words[RUT_COUNTER_MASK] = rut_script_journal_slots(p->record_max) - 1;
	return bpf_map_update_elem(p->fds[RUT_MAP_COUNTERS], &key, words, BPF_ANY)
		       ? rut_err_errno(err, errno, "cannot set the script's counters")
		       : 0;
}

static int run_kind(struct rut_script_session *s, enum rut_probe_kind kind, struct rut_err *err)
{
	for (size_t i = 0; i < s->p->nprogs; i++) {
		const struct rut_script_prog *prog = &s->p->progs[i];
		int rc = 0;

		if (prog->nattach && prog->attach[0].kind == kind)
			rc = rut_script_run_prog(prog);
		if (rc)
			return rut_err_errno(err, -rc, "cannot run %s", prog->attach[0].name);
	}
	return 0;
}

/* The programs that freeze the session's rings. */
static int load_freezing(struct rut_script_session *s, int rings, struct rut_err *err)
{
	int rc;

	s->p->fds[RUT_MAP_RINGS] = fcntl(rings, F_DUPFD_CLOEXEC, 0);
	if (s->p->fds[RUT_MAP_RINGS] < 0)
		return rut_err_errno(err, errno, "cannot use the session's rings");
	rc = rut_script_load(s->p, err);
	if (rc == -EINVAL && !err->code && s->p->src.messages.len)
		rut_err_set(err, EINVAL, "%.*s", (int)strcspn(s->p->src.messages.data, "\n"),
			    s->p->src.messages.data);
	return rc;
}

static int pin_all(void *arg, const char *dir, int rings, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc = s->p->freezes ? load_freezing(s, rings, err) : 0;

	if (!rc)
		rc = pin_maps(s, dir, err);
	if (!rc && s->p->ruby)
		rc = rut_script_ruby_pin(s->p->ruby, dir, err);
	if (!rc)
		rc = set_counters(s, err);
	if (!rc)
		rc = run_kind(s, RUT_PROBE_BEGIN, err);
	if (!rc)
		rc = attach(s, dir, err);
	return rc ? rc : begin_rubies(s, err);
}

struct rut_guest rut_script_session_guest(struct rut_script_session *s)
{
	return (struct rut_guest){.pin = pin_all, .arg = s};
}

int rut_script_session_resume(struct rut_script_session *s, const char *session, const char *dir,
			      struct rut_err *err)
{
	int rc = s->file.len ? rut_portable_settle(s->p, err) : 0;

	if (rc)
		return rc == -EINVAL && !err->code
			       ? rut_err_set(err, EINVAL, "%.*s",
					     (int)strcspn(s->p->src.messages.data, "\n"),
					     s->p->src.messages.data)
			       : rc;
	for (size_t i = 0; i < s->p->nprogs; i++) {
		char name[32];

		snprintf(name, sizeof(name), "prog%zu", i);
		s->p->progs[i].fd = unpinned(dir, name);
		if (s->p->progs[i].fd < 0)
			return rut_err_errno(err, -s->p->progs[i].fd,
					     "cannot open a program of the script");
	}
	/* The same programs: what an earlier stop has left attached would count everything twice.
	 */
	rc = rut_guest_wait(session, err);
	if (!rc)
		rc = attach(s, dir, err);
	if (!rc)
		rut_guest_hold(session, false);
	return rc;
}

/* ---- Finding it again ---- */

static int read_conf(const char *dir, struct rut_buf *ret)
{
	_cleanup_close_ int fd = unpinned(dir, "conf");
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info), key = 0;
	int rc;

	if (fd < 0)
		return fd;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	rc = rut_buf_reserve(ret, info.value_size);
	if (rc)
		return rc;
	if (info.value_size < sizeof(struct conf) || bpf_map_lookup_elem(fd, &key, ret->data))
		return -EPROTO;
	ret->len = info.value_size;
	return 0;
}

/* As many strings as it says, one behind the other. */
static bool has_params(const struct conf *c)
{
	const char *params = (const char *)(c + 1);
	uint32_t strings = 0;

	for (uint32_t i = 0; i < c->params_bytes; i++)
		strings += !params[i];
	return strings == c->nparams && (!c->params_bytes || !params[c->params_bytes - 1]);
}

static bool is_whole(const struct rut_buf *b)
{
	const struct conf *c = (const void *)b->data;
	uint64_t bytes = sizeof(*c) + (uint64_t)c->params_bytes + c->text_bytes + 1;

	return !strncmp(c->version, RUT_VERSION, sizeof(c->version)) && bytes <= b->len &&
	       !c->path[sizeof(c->path) - 1] && !b->data[bytes - 1] && has_params(c);
}

static bool has_size(int fd, uint32_t key, uint32_t value)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);

	return !bpf_obj_get_info_by_fd(fd, &info, &len) && info.value_size == value &&
	       (!key || info.key_size == key);
}

/* The pinned maps in place of those that a load would make. They must be what was compiled. */
static int adopt(struct rut_script_program *p, const char *dir)
{
	for (size_t i = 0; i < sizeof(pinned) / sizeof(*pinned); i++)
		p->fds[pinned[i].map] = unpinned(dir, pinned[i].name);
	if (!has_size(p->fds[RUT_MAP_COUNTERS], 0, (uint32_t)rut_script_counter_bytes(p)) ||
	    (p->record_max &&
	     !has_size(p->fds[RUT_MAP_JOURNAL], 0, rut_script_journal_slot_bytes(p->record_max))))
		return -EPROTO;
	for (size_t i = 0; i < p->nmaps; i++) {
		struct rut_script_map *m = &p->maps[i];
		char name[32];

		snprintf(name, sizeof(name), "map%zu", i);
		m->fd = unpinned(dir, name);
		if (m->fd < 0 || !has_size(m->fd, m->key_bytes, m->value_bytes))
			return -EPROTO;
	}
	return 0;
}

static int open_script(struct rut_script_session *s, const struct rut_buf *b, const char *dir,
		       struct rut_err *err)
{
	const struct conf *c = (const void *)b->data;
	const char *params = (const char *)(c + 1), *text = params + c->params_bytes;
	_cleanup_free_ const char **list = calloc((size_t)c->nparams + 1, sizeof(*list));
	struct rut_script_opts opts = {.pid = c->pid,
				       .compat = c->compat,
				       .unsafe = c->unsafe,
				       .flight = c->flight,
				       .params = list,
				       .nparams = c->nparams};
	int rc;

	if (!list)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < c->nparams; i++, params += strlen(params) + 1)
		list[i] = params;
	snprintf(s->name, sizeof(s->name), "%s", c->path);
	rc = compile(s, text, c->text_bytes, &opts, err);
	if (rc == -EINVAL && !err->code)
		return rut_err_set(err, EINVAL,
				   "the script '%s' of the session no longer compiles: %.*s",
				   c->path, (int)strcspn(s->p->src.messages.data, "\n"),
				   s->p->src.messages.data);
	if (!rc && adopt(s->p, dir))
		rc = rut_err_set(err, EPROTO,
				 "the maps of the session are not those of its script '%s': "
				 "the kernel's types, or a file that it probes, have changed",
				 c->path);
	if (!rc && s->p->needs_ruby)
		rc = rut_script_ruby_open(&s->p->ruby, dir, err);
	return rc ? rc : prepare(s, err);
}

int rut_script_session_open(struct rut_script_session **ret, const char *dir, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct rut_script_session *s;
	int rc = read_conf(dir, &b);

	if (rc == -ENOENT)
		return rut_err_set(err, ENOENT, "the session has no script");
	if (rc)
		return rut_err_errno(err, -rc, "cannot read the script of the session");
	if (!is_whole(&b))
		return rut_err_set(err, EPROTO,
				   "the session's script was started by another version of rutile");
	s = make("");
	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = open_script(s, &b, dir, err);
	if (rc) {
		rut_script_session_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

int rut_script_session_status(struct rut_script_session_status *ret, const char *dir)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT, words = RUT_BUF_INIT;
	_cleanup_close_ int fd = unpinned(dir, "counters");
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info), key = 0;
	int rc = read_conf(dir, &b);

	*ret = (struct rut_script_session_status){0};
	if (rc || fd < 0)
		return rc ? rc : fd;
	if (!is_whole(&b) || bpf_obj_get_info_by_fd(fd, &info, &len) ||
	    info.value_size < RUT_COUNTER_SITES * sizeof(uint64_t) ||
	    rut_buf_reserve(&words, info.value_size) || bpf_map_lookup_elem(fd, &key, words.data))
		return -EPROTO;
	snprintf(ret->path, sizeof(ret->path), "%s", ((const struct conf *)(void *)b.data)->path);
	memcpy(ret->targets, ((const struct conf *)(void *)b.data)->targets, sizeof(ret->targets));
	ret->targets[sizeof(ret->targets) - 1] = '\0';
	ret->printed = ((const uint64_t *)(void *)words.data)[RUT_COUNTER_RECORDS];
	ret->ended = ((const uint64_t *)(void *)words.data)[RUT_COUNTER_EXIT] & ~RUT_GUEST_HELD;
	return 0;
}

/* ---- What it prints ---- */

static void put_event(void *arg, const struct rut_script_event *e, size_t size)
{
	struct rut_script_session *s = arg;
	const struct rut_script_action *a;

	if (e->action >= s->p->nactions || s->rc)
		return;
	a = &s->p->actions[e->action];
	if (a->kind == RUT_ACTION_EXIT || a->kind == RUT_ACTION_PRINT_KEY)
		return;
	e = rut_script_quantiles_fill(a, s->p->maps, e, size, &s->filled);
	if (!e) {
		s->rc = -ENOMEM;
		return;
	}
	if (s->trace)
		rut_script_trace_event(s->trace, e, a);
	s->rc = rut_script_out_event(s->out, a, s->p->maps, s->p->nmaps, e->data, size - sizeof(*e),
				     s->err);
}

static int read_journal(struct rut_script_session *s, bool wait, struct rut_err *err)
{
	int rc;

	s->err = err;
	s->rc = 0;
	rut_script_journal_read(&s->journal, wait, put_event, s);
	rc = s->rc;
	s->err = NULL;
	return rc;
}

/*
 * All that is in the journal, and the maps, as they are at that time (0: now). With `wait`, what
 * comes from a record on that is being written is left to a later call.
 */
static int put_all(struct rut_script_session *s, uint64_t ns, bool wait, struct rut_err *err)
{
	int rc = read_journal(s, wait, err);

	if (s->trace)
		rut_script_trace_at(s->trace, ns);
	return rc ? rc : rut_script_out_end(s->out, s->p->maps, s->p->nmaps, err);
}

int rut_script_session_show(struct rut_script_session *s, FILE *out, bool json, struct rut_err *err)
{
	int rc;

	if (prepare_output(s, out, json))
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_script_journal_open(&s->journal, s->p, err);
	if (!rc)
		s->journal.pos = rut_script_journal_oldest(&s->journal);
	if (!rc)
		rc = put_all(s, 0, false, err);
	rut_script_journal_close(&s->journal);
	return rc;
}

/* ---- Traces ---- */

/* Since the script was started. */
static uint64_t lost_records(const struct rut_script_session *s)
{
	uint64_t lost = s->journal.lapped;

	for (size_t i = 0; i < s->p->nsites; i++)
		if (s->p->sites[i].kind == RUT_SITE_LOST)
			lost += s->journal.counters[RUT_COUNTER_SITES + i];
	return lost;
}

static int begin_trace(struct rut_script_session *s, const char *dir,
		       const struct rut_trace_clock *clock, struct rut_err *err)
{
	int rc = rut_script_trace_open(&s->trace, dir, s->p, &s->style, clock, err);

	if (rc)
		return rc;
	if (!s->nowhere)
		s->nowhere = fopen("/dev/null", "we");
	if (s->nowhere && !prepare_output(s, s->nowhere, false))
		return 0;
	rut_script_trace_close(s->trace, 0, 0, NULL);
	s->trace = NULL;
	return rut_err_set(err, ENOMEM, "out of memory");
}

/* There is none afterwards, also when it fails. `next`: another one follows. */
static int end_trace(struct rut_script_session *s, uint64_t end_ns, bool next, struct rut_err *err)
{
	uint64_t lost;
	int rc, closed;

	if (!s->trace)
		return 0;
	rc = put_all(s, end_ns, next, err);
	lost = lost_records(s);
	closed = rut_script_trace_close(s->trace, end_ns, lost - s->told, rc ? NULL : err);
	if (!closed)
		s->told = lost;
	s->trace = NULL;
	/* It would print into the trace. */
	rut_script_out_free(s->out);
	s->out = NULL;
	return rc ? rc : closed;
}

static int side_snapshot(void *arg, const char *dir, const struct rut_trace_clock *clock,
			 uint64_t end_ns, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc = rut_script_journal_open(&s->journal, s->p, err);

	if (!rc)
		s->journal.pos = rut_script_journal_oldest(&s->journal);
	if (!rc)
		rc = begin_trace(s, dir, clock, err);
	if (!rc)
		rc = end_trace(s, end_ns, false, err);
	rut_script_journal_close(&s->journal);
	return rc;
}

static int side_open(void *arg, const char *dir, const struct rut_trace_clock *clock,
		     struct rut_err *err)
{
	struct rut_script_session *s = arg;
	struct rut_err why = RUT_ERR_INIT;
	int rc = 0;

	/* The previous directory may be removed, or its disk full. */
	if (end_trace(s, clock->begin_ns, true, &why))
		rut_warn("%s", why.msg);
	if (!s->journal.counters)
		rc = rut_script_journal_open(&s->journal, s->p, err);
	return rc ? rc : begin_trace(s, dir, clock, err);
}

/* Interval probes that are due; missed ones are not repeated. */
static int run_intervals(struct rut_script_session *s, struct rut_err *err)
{
	uint64_t now = rut_ring_clock();

	if (s->paused)
		return 0;
	if (!s->next_ns)
		s->next_ns = calloc(s->p->nprogs + 1, sizeof(*s->next_ns));
	for (size_t i = 0; s->next_ns && i < s->p->nprogs; i++) {
		const struct rut_script_prog *prog = &s->p->progs[i];
		uint64_t period = prog->nattach ? prog->attach[0].period_ns : 0;
		int rc = 0;

		if (!period || prog->attach[0].kind != RUT_PROBE_INTERVAL)
			continue;
		if (s->next_ns[i] && now >= s->next_ns[i])
			rc = rut_script_run_prog(prog);
		if (rc)
			return rut_err_errno(err, -rc, "cannot run %s", prog->attach[0].name);
		if (!s->next_ns[i] || now >= s->next_ns[i])
			s->next_ns[i] = now - now % period + period;
	}
	return 0;
}

static int side_step(void *arg, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc = follow_rubies(s, err);

	if (!rc)
		rc = run_intervals(s, err);
	/* The journal keeps what comes until there is a trace again. */
	if (rc || !s->trace)
		return rc;
	rc = read_journal(s, true, err);
	return rc ? rc : rut_script_trace_flush(s->trace, err);
}

static int side_close(void *arg, uint64_t end_ns, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc, closed;

	end_rubies(s);
	rc = run_kind(s, RUT_PROBE_END, err);

	closed = end_trace(s, end_ns, false, rc ? NULL : err);
	return rc ? rc : closed;
}

/* Its links are the session's, and are removed with them; intervals have none. */
static void side_pause(void *arg, bool pause)
{
	struct rut_script_session *s = arg;

	s->paused = pause;
	free(s->next_ns);
	s->next_ns = NULL;
	pause_rubies(s, pause);
}

static int hold_step(void *arg, struct rut_err *err)
{
	return follow_rubies(arg, err);
}

/* Another process writes what is in the maps: what was hit up to now is to be there. */
static int hold_snapshot(void *arg, const char *dir, const struct rut_trace_clock *clock,
			 uint64_t end_ns, struct rut_err *err)
{
	struct rut_script_session *s = arg;

	return s->tracer ? rut_script_tracer_take(s->tracer, err) : 0;
}

static void hold_pause(void *arg, bool pause)
{
	pause_rubies(arg, pause);
}

struct rut_companion rut_script_session_holder(struct rut_script_session *s)
{
	return (struct rut_companion){
		.step = hold_step, .snapshot = hold_snapshot, .pause = hold_pause, .arg = s};
}

struct rut_companion rut_script_session_companion(struct rut_script_session *s)
{
	return (struct rut_companion){.open = side_open,
				      .step = side_step,
				      .close = side_close,
				      .snapshot = side_snapshot,
				      .pause = side_pause,
				      .arg = s};
}
