/* SPDX-License-Identifier: MIT */
/* `rutile profile`: where programs spend their time, by stacks of Ruby, native and kernel frames;
 * or what they allocate.
 */
#include "cli/cmd.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "analysis/profile.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/signals.h"
#include "cli/method_explain.h"
#include "cli/profile_alloc.h"
#include "cli/profile_screen.h"
#include "cli/profile_table.h"
#include "cli/record_opts.h"
#include "cli/ruby_live.h"
#include "ctf/reader.h"
#include "output/screen.h"
#include "output/text.h"
#include "ruby/proc.h"
#include "session/consumer.h"
#include "session/programs.h"

enum {
	OPT_HZ = 256,
	OPT_ON_CPU,
	OPT_OFF_CPU,
	OPT_WALL,
	OPT_ALLOC,
	OPT_EVERY,
	OPT_DURATION,
	OPT_BY,
	OPT_FOLDED,
	OPT_REFRESH,
	OPT_LAST,
};

static const struct rut_opt options[] = {
	{"all", NULL, "profile every process", 'a'},
	{"on-cpu", NULL, "count the time on CPUs (default)", OPT_ON_CPU},
	{"off-cpu", NULL, "count the time that threads wait, and what for", OPT_OFF_CPU},
	{"wall", NULL, "count both", OPT_WALL},
	{"alloc", NULL, "count what Ruby allocates, by samples", OPT_ALLOC},
	{"every", "N", "one sample every N objects (default 1000), or bytes: 64K", OPT_EVERY},
	{"hz", "N", "samples a second on each CPU (default 99)", OPT_HZ},
	{"duration", "TIME", "stop after TIME (default: at Ctrl+C)", OPT_DURATION},
	{"by", "WHAT", "rows of the table: method (default), line, file or, with --alloc, class",
	 OPT_BY},
	{"folded", NULL, "print stacks with microseconds (or objects), for flame graphs",
	 OPT_FOLDED},
	{"output", "DIR", "keep the trace in DIR", 'o'},
	{"refresh", "TIME", "refresh interval of the table on a terminal, default 2s", OPT_REFRESH},
	{"last", NULL, "print the table only at the end", OPT_LAST},
	{"lines", "N", "rows of the table (default 20)", 'n'},
	{0},
};

struct profile {
	struct rut_record_opts rec;
	struct rut_profile p;
	bool all, on, off, folded, live;
	bool alloc, by_bytes;
	char every[24]; /* of --alloc */
	unsigned int hz, lines;
	uint64_t duration_ns, refresh_ns;
	char **targets; /* borrowed from argv */
	size_t ntargets;
	char temporary[64]; /* directory for the traces, removed at the end; "": none */
	size_t nread;	    /* directories that were read */
	struct rut_profile_screen screen;
	bool on_screen;
	struct rut_consumer *consumer; /* borrowed while it records; NULL: there is none */
};

static volatile sig_atomic_t stop_signal;

static void on_stop(int sig)
{
	stop_signal = sig;
}

/* --- options ------------------------------------------------------------------------------- */

static int take_number(const struct rut_cmd *cmd, const char *value, unsigned int max,
		       unsigned int *ret)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (!n || n > max || *end || *value == '-')
		return rut_cli_usage_error(cmd, "invalid number '%s': 1 to %u", value, max);
	*ret = (unsigned int)n;
	return 0;
}

static int take_by(const struct rut_cmd *cmd, struct profile *f, const char *value)
{
	static const char *const names[] = {"method", "line", "file", "class"};

	for (size_t i = 0; i < 4; i++)
		if (!strcmp(value, names[i])) {
			f->p.by = (enum rut_profile_by)i;
			return 0;
		}
	return rut_cli_usage_error(cmd, "invalid --by '%s': method, line, file or class", value);
}

static int take(const struct rut_cmd *cmd, struct profile *f, int id, const char *value)
{
	switch (id) {
	case 'a':
		f->all = true;
		return 0;
	case 'n':
		return take_number(cmd, value, 100000, &f->lines);
	case 'o':
		if (!*value || strlen(value) >= sizeof(f->rec.output.pattern))
			return rut_cli_usage_error(cmd, "invalid directory '%s'", value);
		snprintf(f->rec.output.pattern, sizeof(f->rec.output.pattern), "%s", value);
		return 0;
	case OPT_HZ:
		return take_number(cmd, value, 10000, &f->hz);
	case OPT_ON_CPU:
		f->on = true;
		return 0;
	case OPT_OFF_CPU:
		f->off = true;
		return 0;
	case OPT_ALLOC:
		f->alloc = true;
		return 0;
	case OPT_EVERY:
		return rut_cli_profile_every(value, f->every, sizeof(f->every), &f->by_bytes) < 0
			       ? rut_cli_usage_error(cmd,
						     "invalid number '%s': 1 to 1000000000 "
						     "objects, or 1K to 2G bytes",
						     value)
			       : 0;
	case OPT_WALL:
		f->on = f->off = true;
		return 0;
	case OPT_DURATION:
	case OPT_REFRESH:
		return rut_parse_duration(value,
					  id == OPT_DURATION ? &f->duration_ns : &f->refresh_ns) < 0
			       ? rut_cli_usage_error(cmd, "invalid time '%s'", value)
			       : 0;
	case OPT_BY:
		return take_by(cmd, f, value);
	case OPT_FOLDED:
		f->folded = true;
		return 0;
	case OPT_LAST:
		f->live = false;
		return 0;
	case RUT_ARGS_DASHES:
		return rut_cli_usage_error(
			cmd, "profile does not start commands: name a running process, "
			     "or --all");
	default:
		return RUT_EXIT_USAGE;
	}
}

static int parse(const struct rut_cmd *cmd, struct profile *f, int argc, char **argv)
{
	struct rut_args a;
	int id, rc;

	f->targets = calloc((size_t)argc + 1, sizeof(*f->targets));
	if (!f->targets)
		return RUT_EXIT_FAIL;
	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return -1;
		if (id == RUT_ARGS_POSITIONAL) {
			f->targets[f->ntargets++] = (char *)a.value;
			continue;
		}
		rc = take(cmd, f, id, a.value);
		if (rc)
			return rc;
	}
	if (f->all == (f->ntargets > 0))
		return rut_cli_usage_error(cmd, f->all ? "--all and a target exclude each other"
						       : "name a process, or --all");
	if (f->alloc && (f->all || f->on || f->off))
		return rut_cli_usage_error(cmd,
					   "--alloc needs targets and cannot be combined with --%s",
					   f->all ? "all" : "on-cpu, --off-cpu and --wall");
	if (!f->alloc && (f->every[0] || f->p.by == RUT_PROFILE_CLASS))
		return rut_cli_usage_error(cmd, "%s needs --alloc",
					   f->every[0] ? "--every" : "--by class");
	if (!f->every[0])
		snprintf(f->every, sizeof(f->every), "1000");
	if (!f->on && !f->off)
		f->on = true;
	return 0;
}

/* --- targets ------------------------------------------------------------------------------- */

/* A PID may be any program; a name is that of Ruby processes. */
static int add_target(struct profile *f, const struct rut_ruby_procs *ps, const char *target,
		      struct rut_err *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0;
	int rc;

	if (target[0] && !target[strspn(target, "0123456789")]) {
		if (kill(atoi(target), 0) < 0 && errno == ESRCH)
			return rut_err_set(err, ESRCH, "no process with PID %s", target);
		if (f->rec.npids == RUT_PIDS_MAX)
			return rut_err_set(err, E2BIG, "more than %d processes", RUT_PIDS_MAX);
		f->rec.pids[f->rec.npids++] = atoi(target);
		return 0;
	}
	rc = rut_ruby_procs_match(ps, target, &pids, &n, err);
	for (size_t i = 0; !rc && i < n; i++) {
		if (f->rec.npids == RUT_PIDS_MAX)
			return rut_err_set(err, E2BIG, "more than %d processes", RUT_PIDS_MAX);
		f->rec.pids[f->rec.npids++] = pids[i];
	}
	return rc;
}

static int find_targets(struct profile *f, struct rut_err *err)
{
	struct rut_ruby_procs ps = {0};
	int rc = f->ntargets ? rut_ruby_procs_list(&ps, err) : 0;

	for (size_t i = 0; i < f->ntargets && !rc; i++)
		rc = add_target(f, &ps, f->targets[i], err);
	rut_ruby_procs_fini(&ps);
	return rc;
}

/* --- the table ----------------------------------------------------------------------------- */

static struct rut_profile_show show_of(const struct profile *f)
{
	return (struct rut_profile_show){
		.alloc = f->alloc, .by_bytes = f->by_bytes, .limit = f->lines};
}

static void draw(struct profile *f)
{
	struct rut_profile_show show = show_of(f);
	char title[256];

	rut_screen_resize();
	snprintf(title, sizeof(title), " profile: %s%s %s%s",
		 f->alloc	   ? "allocations"
		 : f->on && f->off ? "wall"
		 : f->on	   ? "on CPU"
				   : "off CPU",
		 f->all ? "" : "  of", f->all ? "all processes" : f->targets[0],
		 f->ntargets > 1 ? " and more" : "");
	rut_cli_profile_screen_draw(&f->screen, &f->p, &show, title);
	f->screen.dirty = false;
}

static void print_table(const struct profile *f, struct rut_buf *out)
{
	struct rut_profile_show show = show_of(f);

	rut_cli_profile_summary(&f->p, &show, out);
	rut_cli_profile_table(&f->p, &show, rut_screen_width(STDOUT_FILENO), out);
}

static int print(struct profile *f, bool last)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	if (!last && f->on_screen) {
		draw(f);
		return 0;
	}
	if (!last)
		rut_buf_puts(&out, "\033[H\033[J");
	if (f->folded && last)
		rut_an_profile_folded(&f->p, f->alloc ? 1 : 1000, &out);
	else
		print_table(f, &out);
	return out.failed ? -ENOMEM : rut_cli_write_all(STDOUT_FILENO, &out);
}

/* --- recording ----------------------------------------------------------------------------- */

static void set_conf(struct profile *f)
{
	struct rut_record_conf *c = &f->rec.conf;

	snprintf(c->name, sizeof(c->name), "profile");
	c->contexts = RUT_CTX_PID | RUT_CTX_TID | RUT_CTX_RSTACK;
	c->lean_stacks = true;
	if (f->off) {
		c->contexts |= RUT_CTX_USTACK | RUT_CTX_KSTACK;
		rut_selection_add(&c->selection, "sched_switch,sched_waking", NULL);
		snprintf(c->events, sizeof(c->events), "sched_switch,sched_waking");
	}
	if (f->on) {
		snprintf(c->probes[0], sizeof(c->probes[0]), "profile:%u", f->hz);
		f->p.sample_ns = 1000000000ull / f->hz;
	}
	if (!f->all)
		c->filters |= RUT_FILTER_PID | RUT_FILTER_FOLLOW;
	f->rec.events_given = true;
	rut_cli_record_defaults(&f->rec);
}

static int set_output(struct profile *f, struct rut_err *err)
{
	f->rec.output.exact = true;
	if (f->rec.output.pattern[0]) {
		f->live = false;
		return 0;
	}
	f->rec.output.exact = false;
	snprintf(f->temporary, sizeof(f->temporary), "/tmp/rutile-profile-XXXXXX");
	if (!mkdtemp(f->temporary)) {
		f->temporary[0] = '\0';
		return rut_err_errno(err, errno, "cannot make a directory in '/tmp'");
	}
	snprintf(f->rec.output.pattern, sizeof(f->rec.output.pattern), "%s/trace", f->temporary);
	return 0;
}

static int read_dir(struct profile *f, const char *path, struct rut_err *err)
{
	const char *const paths[] = {path};
	struct rut_ctf_set_opts opts = {0};
	struct rut_ctf_set *set = NULL;
	int rc = rut_ctf_set_open(&set, paths, 1, &opts, err);

	if (!rc && f->alloc)
		rc = rut_an_profile_add_allocs(&f->p, set, f->by_bytes, err);
	else if (!rc)
		rc = rut_an_profile_add(&f->p, set, err);
	rut_ctf_set_free(set);
	if (f->temporary[0])
		rut_trace_remove(path);
	return rc;
}

/* On a terminal: each interval is a directory of its own, read and removed. */
static int refresh(struct profile *f, struct rut_consumer *c, struct rut_err *err)
{
	char path[RUT_PATH_MAX];
	int rc;

	snprintf(path, sizeof(path), "%s", c->writer.path);
	rc = rut_consumer_rotate(c, err);
	if (!rc)
		rc = read_dir(f, path, err);
	if (!rc && print(f, false) < 0)
		rc = rut_err_set(err, EIO, "cannot write");
	return rc;
}

/* --- keys ---------------------------------------------------------------------------------- */

/* What is recorded meanwhile is not lost. */
static bool step_on(void *arg)
{
	struct profile *f = arg;
	struct rut_err err = RUT_ERR_INIT;

	if (f->consumer)
		rut_consumer_step(f->consumer, &err);
	return !stop_signal;
}

/* Blocks for seconds. */
static void answer(struct profile *f)
{
	const struct rut_method_idle idle = {step_on, f};
	struct rut_profile_screen *s = &f->screen;
	_cleanup_buf_ struct rut_buf page = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;
	pid_t pid = f->rec.npids ? f->rec.pids[0] : 0;
	bool trace = s->ask == 't';
	int rc;

	s->ask = 0;
	rut_cli_profile_screen_wait(trace ? " tracing for a second ..."
					  : " recording, and explaining ...");
	if (!pid && f->ntargets && !find_targets(f, &err) && f->rec.npids)
		pid = f->rec.pids[0];
	if (!pid && !err.code)
		rc = rut_err_set(&err, ESRCH, "name a process for that: all are profiled");
	else if (!pid)
		rc = -err.code;
	else if (trace)
		rc = rut_cli_method_trace(pid, s->chosen, &idle, &page, &err);
	else
		rc = rut_cli_method_explain(pid, s->chosen, &idle, &page, &err);
	if (rc < 0)
		rut_buf_printf(&page, "\n%s\n", err.msg);
	else if (!page.len)
		rut_buf_printf(&page, "No call of '%s' in this time.\n", s->chosen);
	rut_buf_clear(&s->page);
	rut_buf_puts(&s->page, page.failed ? "out of memory" : page.data);
	s->opened_skip = s->pager.skip;
	s->pager.skip = 0;
}

static void keys(void *arg)
{
	struct profile *f = arg;

	if (!f->on_screen)
		return;
	rut_cli_profile_screen_keys(&f->screen);
	if (f->screen.ask)
		answer(f);
	if (f->screen.dirty && !f->screen.quit)
		draw(f);
	if (f->screen.quit)
		stop_signal = SIGINT;
}

static int consume(struct profile *f, struct rut_consumer *c, struct rut_err *err)
{
	uint64_t begun = rut_now_ns(), shown = begun;
	struct rut_family_left left = {0};
	int rc = 0;

	f->consumer = c;
	while (!stop_signal && rc >= 0) {
		uint64_t now = rut_now_ns();

		rc = rut_consumer_step(c, err);
		keys(f);
		if (f->duration_ns && now - begun >= f->duration_ns)
			break;
		if (!f->all && !rut_recorder_family_left(c->recorder, &left))
			break;
		if (rc >= 0 && f->live && now - shown >= f->refresh_ns) {
			rc = refresh(f, c, err);
			shown = now;
		}
		rut_consumer_wait(c, c->sleep_ms);
	}
	f->consumer = NULL;
	return rc;
}

static int trace_targets(const struct profile *f, struct rut_recorder *r, struct rut_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < f->rec.npids && !rc; i++)
		rc = rut_recorder_trace_family(r, f->rec.pids[i]);
	return rc ? rut_err_errno(err, -rc, "cannot set the filter") : 0;
}

static int record(struct profile *f, struct rut_err *err)
{
	struct rut_consumer c = {.writer = {.dir_fd = -1}};
	struct rut_recorder *r = NULL;
	char path[RUT_PATH_MAX] = "";
	int rc = rut_recorder_new(&r, &f->rec.conf, err);

	if (!rc)
		rc = trace_targets(f, r, err);
	if (!rc)
		rc = rut_consumer_open(&c, r, &f->rec.output, err);
	if (!rc)
		rc = rut_programs_attach(r, err);
	if (!rc)
		rc = trace_targets(f, r, err);
	if (!rc) {
		setpriority(PRIO_PROCESS, 0, -10);
		c.bare = f->temporary[0];
		rut_consumer_statedump(&c);
		rc = consume(f, &c, err);
		rut_programs_detach(r);
		snprintf(path, sizeof(path), "%s", c.writer.path);
		if (!rc)
			rc = rut_consumer_close(&c, err);
	}
	if (!rc && (rut_recorder_lost(r) || rut_recorder_stacks_lost(r)))
		fprintf(stderr, "rutile profile: %llu events and %llu stacks lost\n",
			(unsigned long long)rut_recorder_lost(r),
			(unsigned long long)rut_recorder_stacks_lost(r));
	rut_consumer_discard(&c);
	rut_recorder_free(r);
	return rc ? rc : read_dir(f, path, err);
}

/* --- allocations --------------------------------------------------------------------------- */

static int show_part(void *arg, const char *dir, bool last, struct rut_err *err)
{
	struct profile *f = arg;
	int rc = read_dir(f, dir, err);

	if (!rc && !last && print(f, false) < 0)
		rc = rut_err_set(err, EIO, "cannot write");
	return rc;
}

static int record_allocs(struct profile *f, const struct rut_cmd *cmd, struct rut_err *err)
{
	struct rut_profile_alloc a = {
		.targets = f->targets,
		.ntargets = f->ntargets,
		.dir = f->rec.output.pattern,
		.duration_ns = f->duration_ns,
		.interval_ns = f->live ? f->refresh_ns : 0,
		.stop = &stop_signal,
		.part = show_part,
		.idle = keys,
		.arg = f,
	};
	int rc;

	memcpy(a.every, f->every, sizeof(a.every));
	rc = rut_cli_profile_allocs(&a, cmd, err);
	if (!rc && a.lost)
		fprintf(stderr, "rutile profile: %llu samples lost\n", (unsigned long long)a.lost);
	return rc;
}

static int profile(struct profile *f, const struct rut_cmd *cmd, struct rut_err *err)
{
	int rc = f->alloc ? 0 : find_targets(f, err);

	rut_signals_catch(SIGINT, on_stop, 0);
	rut_signals_catch(SIGTERM, on_stop, 0);
	rut_signals_catch(SIGHUP, on_stop, 0);
	set_conf(f);
	if (!rc)
		rc = set_output(f, err);
	if (!rc && f->live && isatty(STDIN_FILENO))
		f->on_screen = !rut_screen_open(err);
	err->code = rc ? err->code : 0;
	if (f->on_screen)
		draw(f);
	if (!rc)
		rc = f->alloc ? record_allocs(f, cmd, err) : record(f, err);
	if (f->on_screen)
		rut_screen_close();
	f->on_screen = false;
	if (!rc && rut_an_profile_end(&f->p) < 0)
		rc = rut_err_set(err, ENOMEM, "out of memory");
	if (!rc && print(f, true) < 0)
		rc = rut_err_set(err, EIO, "cannot write");
	if (f->temporary[0])
		rmdir(f->temporary);
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct profile f = {
		.hz = 99, .lines = 20, .refresh_ns = 2000000000ull, .live = isatty(STDOUT_FILENO)};
	struct rut_err err = RUT_ERR_INIT;
	int rc = parse(cmd, &f, argc, argv);

	rut_text_init();
	if (!rc && profile(&f, cmd, &err) < 0)
		rc = rut_cli_fail(cmd, &err);
	free(f.targets);
	rut_an_profile_fini(&f.p);
	rut_cli_profile_screen_fini(&f.screen);
	return rc < 0 ? RUT_EXIT_OK : rc;
}

const struct rut_cmd cmd_profile = {
	.name = "profile",
	.group = "Ruby, live",
	.summary = "show where programs spend their time, or what Ruby allocates",
	.usage = "[OPTIONS] TARGET... | --all",
	.options = options,
	.run = run,
};
