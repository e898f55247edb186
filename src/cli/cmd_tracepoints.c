/* SPDX-License-Identifier: MIT */
/* `rutile tracepoints PID`: the static tracepoints of a process, and switching them from outside.
 */
#include "cli/cmd.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "output/jsonl.h"
#include "output/table.h"
#include "usdt/remote.h"

enum { OPT_JSON = 256, OPT_ENABLE, OPT_DISABLE, MAX_WISHES = 64, ANSWER_MS = 3000 };

static const struct rut_opt options[] = {
	{"enable", "GLOB", "enable tracepoints: a glob of PROVIDER:NAME", OPT_ENABLE},
	{"disable", "GLOB", "disable tracepoints; both may be repeated, the last match counts",
	 OPT_DISABLE},
	{"children", NULL, "also those of all processes below PID", 'c'},
	{"json", NULL, "print one JSON object a line", OPT_JSON},
	{0},
};

static const struct rut_table_column columns[] = {
	{.title = "PID"},
	{.title = "TRACEPOINT", .left = true},
	{.title = "ARGUMENTS", .left = true},
	{.title = "STATE", .left = true},
	{.title = "TRACERS"},
	{.title = "FIRED"},
	{.title = "WRONG"},
	{.title = "FILE", .left = true},
};

struct wish {
	const char *glob; /* borrowed from argv */
	bool on;
	bool matched;
};

struct request {
	const struct rut_cmd *cmd;
	pid_t *pids;		/* owned */
	size_t n_pids, n_asked; /* the first n_asked were named, the others are their children */
	struct wish wishes[MAX_WISHES];
	unsigned n_wishes;
	bool children, json;
	struct rut_table table;
	struct rut_buf out;
};

static int add_pid(struct request *rq, pid_t pid)
{
	pid_t *more = realloc(rq->pids, (rq->n_pids + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	rq->pids = more;
	rq->pids[rq->n_pids++] = pid;
	return 0;
}

/* Appends the children of a process: of all its threads, for any may fork. */
static int read_children(struct request *rq, pid_t pid)
{
	char path[64];
	struct dirent *e;
	int rc = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && !rc && (e = readdir(d))) {
		_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
		char *end;

		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", pid, e->d_name);
		if (rut_buf_read_file(&b, path, 1 << 20) || !b.data)
			continue;
		for (char *at = b.data; !rc; at = end) {
			long child = strtol(at, &end, 10);

			if (end == at)
				break;
			rc = add_pid(rq, (pid_t)child);
		}
	}
	if (d)
		closedir(d);
	return rc;
}

static const char *state_of(const struct rut_usdt_info *p)
{
	if (!p->loaded)
		return "not loaded";
	return p->on ? "on" : "off";
}

static void add_types(struct rut_buf *b, const struct rut_usdt_info *p)
{
	for (unsigned i = 0; i < p->n_types; i++)
		rut_buf_printf(b, "%s%s", i ? ", " : "", rut_usdt_type_name(p->types[i]));
}

static void print_json(struct request *rq, pid_t pid, const struct rut_usdt_info *p)
{
	_cleanup_buf_ struct rut_buf types = RUT_BUF_INIT;
	char path[64];

	add_types(&types, p);
	rut_jsonl_begin(&rq->out);
	rut_jsonl_u64(&rq->out, "pid", (uint64_t)pid);
	rut_jsonl_str(&rq->out, "provider", p->provider);
	rut_jsonl_str(&rq->out, "name", p->name);
	rut_jsonl_str(&rq->out, "arguments", types.data ? types.data : "");
	rut_jsonl_bool(&rq->out, "loaded", p->loaded);
	rut_jsonl_bool(&rq->out, "on", p->on);
	rut_jsonl_bool(&rq->out, "wraps", p->deferred);
	if (p->tracers >= 0)
		rut_jsonl_u64(&rq->out, "tracers", (uint64_t)p->tracers);
	rut_jsonl_u64(&rq->out, "fired", p->counts[RUTILE_USDT_FIRED]);
	rut_jsonl_u64(&rq->out, "mismatched", p->counts[RUTILE_USDT_MISMATCH]);
	rut_jsonl_u64(&rq->out, "saturated", p->counts[RUTILE_USDT_SATURATED]);
	rut_jsonl_u64(&rq->out, "truncated", p->counts[RUTILE_USDT_TRUNCATED]);
	if (p->fd >= 0) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, p->fd);
		rut_jsonl_str(&rq->out, "file", path);
	}
	rut_jsonl_end(&rq->out);
}

static void print_row(struct request *rq, pid_t pid, const struct rut_usdt_info *p)
{
	_cleanup_buf_ struct rut_buf types = RUT_BUF_INIT;
	struct rut_table *t = &rq->table;

	add_types(&types, p);
	rut_table_addf(t, "%d", pid);
	rut_table_addf(t, "%s:%s", p->provider, p->name);
	rut_table_add(t, types.data ? types.data : "");
	rut_table_add(t, state_of(p));
	if (p->tracers < 0)
		rut_table_add(t, "-");
	else
		rut_table_addf(t, "%d", p->tracers);
	rut_table_addf(t, "%" PRIu64, p->counts[RUTILE_USDT_FIRED]);
	rut_table_addf(t, "%" PRIu64,
		       p->counts[RUTILE_USDT_MISMATCH] + p->counts[RUTILE_USDT_SATURATED] +
			       p->counts[RUTILE_USDT_TRUNCATED]);
	if (p->fd < 0)
		rut_table_add(t, "-");
	else
		rut_table_addf(t, "/proc/%d/fd/%d", pid, p->fd);
}

static bool matches(const struct wish *w, const struct rut_usdt_info *p)
{
	char full[2 * RUTILE_USDT_NAME_MAX + 2];

	snprintf(full, sizeof(full), "%s:%s", p->provider, p->name);
	return !fnmatch(w->glob, full, 0) ||
	       (!strchr(w->glob, ':') && !fnmatch(w->glob, p->provider, 0));
}

static int switch_all(struct request *rq, struct rut_usdt_remote *r, struct rut_err *err)
{
	_cleanup_free_ struct rut_usdt_info *list = NULL;
	size_t n;
	int rc = rut_usdt_remote_list(r, &list, &n);

	if (rc)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct wish *last = NULL;

		for (unsigned w = 0; w < rq->n_wishes; w++) {
			if (!matches(&rq->wishes[w], &list[i]))
				continue;
			rq->wishes[w].matched = true;
			last = &rq->wishes[w];
		}
		if (last)
			rut_usdt_remote_ask(r, &list[i], last->on);
	}
	rc = rut_usdt_remote_commit(r, ANSWER_MS);
	if (rc == -ETIMEDOUT)
		return rut_err_set(
			err, ETIMEDOUT,
			"process %d did not answer yet: it has to run Ruby code to wrap or "
			"unwrap a method, and will do so as soon as it runs any",
			r->pid);
	if (rc)
		return rut_err_set(err, -rc, "process %d ended", r->pid);
	return 0;
}

static int print_all(struct request *rq, const struct rut_usdt_remote *r, struct rut_err *err)
{
	_cleanup_free_ struct rut_usdt_info *list = NULL;
	size_t n;

	if (rut_usdt_remote_list(r, &list, &n))
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		(rq->json ? print_json : print_row)(rq, r->pid, &list[i]);
	return 0;
}

static int do_process(struct request *rq, pid_t pid, struct rut_err *err)
{
	struct rut_usdt_remote r;
	int rc = rut_usdt_remote_open(&r, pid, err);

	if (rc)
		return rc;
	if (rq->n_wishes)
		rc = switch_all(rq, &r, err);
	if (!rc)
		rc = print_all(rq, &r, err);
	rut_usdt_remote_fini(&r);
	return rc;
}

/* Named processes must have tracepoints, or one of their children; others may end meanwhile. */
static int do_all(struct request *rq)
{
	int exit_code = RUT_EXIT_OK;
	bool found = false;

	for (size_t i = 0; i < rq->n_pids; i++) {
		struct rut_err err = RUT_ERR_INIT;
		int rc;

		if (rq->children && read_children(rq, rq->pids[i]))
			return RUT_EXIT_FAIL;
		rc = do_process(rq, rq->pids[i], &err);
		found |= !rc;
		if (!rc || (i >= rq->n_asked && (rc == -ENOENT || rc == -ESRCH)))
			continue;
		if (rq->children && rc == -ENOENT && (found || i + 1 < rq->n_pids))
			continue;
		exit_code = rut_cli_fail(rq->cmd, &err);
	}
	if (!found && !exit_code) {
		fprintf(stderr, "rutile tracepoints: none of these processes has tracepoints\n");
		exit_code = RUT_EXIT_FAIL;
	}
	for (unsigned w = 0; w < rq->n_wishes; w++) {
		struct rut_err err = RUT_ERR_INIT;

		if (rq->wishes[w].matched || exit_code)
			continue;
		rut_err_set(&err, ENOENT, "no tracepoint matches '%s'", rq->wishes[w].glob);
		exit_code = rut_cli_fail(rq->cmd, &err);
	}
	return exit_code;
}

static int add_wish(struct request *rq, const char *glob, bool on)
{
	if (rq->n_wishes == MAX_WISHES)
		return rut_cli_usage_error(rq->cmd, "more than %d times --enable and --disable",
					   MAX_WISHES);
	rq->wishes[rq->n_wishes++] = (struct wish){.glob = glob, .on = on};
	return RUT_EXIT_OK;
}

static int add_target(struct request *rq, const char *word)
{
	uint64_t pid;

	if (rut_parse_u64(word, &pid) || !pid || pid > INT_MAX)
		return rut_cli_usage_error(rq->cmd, "'%s' is not a process number", word);
	return add_pid(rq, (pid_t)pid) ? RUT_EXIT_FAIL : RUT_EXIT_OK;
}

/* Returns -1 when there is something to do, otherwise the exit code. */
static int parse(struct request *rq, int argc, char **argv)
{
	struct rut_args a;
	int id, rc = RUT_EXIT_OK;

	rut_cli_args_init(&a, rq->cmd, argc, argv);
	while (!rc && (id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		switch (id) {
		case OPT_ENABLE:
		case OPT_DISABLE:
			rc = add_wish(rq, a.value, id == OPT_ENABLE);
			break;
		case OPT_JSON:
			rq->json = true;
			break;
		case 'c':
			rq->children = true;
			break;
		case RUT_ARGS_POSITIONAL:
			rc = add_target(rq, a.value);
			break;
		case RUT_ARGS_HELP:
			return RUT_EXIT_OK;
		default:
			return RUT_EXIT_USAGE;
		}
	}
	if (!rc && !rq->n_pids)
		rc = rut_cli_usage_error(rq->cmd, "which process? 'rutile ps' lists those of Ruby");
	rq->n_asked = rq->n_pids;
	return rc ? rc : -1;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct request rq = {.cmd = cmd};
	int rc;

	rut_table_init(&rq.table, columns, sizeof(columns) / sizeof(*columns));
	rc = parse(&rq, argc, argv);
	if (rc < 0) {
		rc = do_all(&rq);
		if (!rq.json && rq.table.cell_count)
			rut_table_render(&rq.table, &rq.out, 0);
		if (rq.out.len)
			fwrite(rq.out.data, 1, rq.out.len, stdout);
	}
	rut_table_fini(&rq.table);
	rut_buf_fini(&rq.out);
	free(rq.pids);
	return rc;
}

const struct rut_cmd cmd_tracepoints = {
	.name = "tracepoints",
	.group = "Static tracepoints",
	.summary = "list, enable and disable the static tracepoints of a process",
	.usage = "[OPTIONS] PID...",
	.options = options,
	.run = run,
};
