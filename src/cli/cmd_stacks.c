/* SPDX-License-Identifier: MIT */
/* `rutile stacks`: what every thread of an application does at this moment. */
#include <stdlib.h>

#include "cli/cmd.h"
#include "cli/ruby_live.h"
#include "cli/ruby_opts.h"
#include "cli/ruby_target.h"
#include "output/jsonl.h"
#include "ruby/tracer.h"

static const struct rut_opt options[] = {
	{"json", NULL, "JSON Lines, one object a thread", RUT_OPT_JSON},
	{"output", "FILE", "write to a file", 'o'},
	{0},
};

/* A process that cannot answer (a C extension that never lets go) ends the wait. */
static const uint64_t answer_ns = 2 * UINT64_C(1000000000);
/* Workers are found within that. */
static const uint64_t workers_ns = 100 * UINT64_C(1000000);

struct stacks {
	struct rut_ruby_opts opts;
	struct rut_targets targets;
	struct rut_buf out;
	size_t started, answered; /* processes: those of the command line and their workers */
	pid_t last;		  /* of the last thread */
};

static void print_text(struct stacks *s, const struct rut_ruby_event *ev)
{
	if (ev->pid != s->last)
		rut_buf_printf(&s->out, "%sprocess %d\n", s->last ? "\n" : "", (int)ev->pid);
	rut_buf_puts(&s->out, "  thread ");
	if (ev->tid)
		rut_buf_printf(&s->out, "%d ", (int)ev->tid);
	rut_buf_printf(&s->out, "%s\n", ev->method_name ? ev->method_name : "");
	for (size_t i = 0; i < ev->caller_count; i++)
		rut_buf_printf(&s->out, "    %s  %s:%u\n",
			       ev->callers[i].method_name ? ev->callers[i].method_name : "?",
			       ev->callers[i].path ? ev->callers[i].path : "?",
			       ev->callers[i].line);
}

static void print_json(struct stacks *s, const struct rut_ruby_event *ev)
{
	rut_jsonl_begin(&s->out);
	rut_jsonl_u64(&s->out, "pid", (uint64_t)ev->pid);
	if (ev->tid)
		rut_jsonl_u64(&s->out, "tid", (uint64_t)ev->tid);
	rut_jsonl_str(&s->out, "thread", ev->method_name);
	rut_jsonl_array_open(&s->out, "frames");
	for (size_t i = 0; i < ev->caller_count; i++) {
		rut_jsonl_begin(&s->out);
		rut_jsonl_str(&s->out, "method", ev->callers[i].method_name);
		rut_jsonl_str(&s->out, "file", ev->callers[i].path);
		rut_jsonl_u64(&s->out, "line", ev->callers[i].line);
		rut_jsonl_close(&s->out);
	}
	rut_jsonl_array_close(&s->out);
	rut_jsonl_end(&s->out);
}

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	struct stacks *s = arg;

	if (ev->type == RUT_RUBY_EVENT_START)
		s->started++;
	if (ev->type != RUT_RUBY_EVENT_SLOW)
		return;
	if (ev->pid != s->last)
		s->answered++;
	if (s->opts.json)
		print_json(s, ev);
	else
		print_text(s, ev);
	s->last = ev->pid;
}

/* Events come in order of time, and a process writes all of its threads at once. */
static int collect(struct stacks *s, struct rut_tracer *tracer, const struct rut_cmd *cmd,
		   struct rut_err *err)
{
	uint64_t begin, waited = 0;
	int rc;

	rut_tracer_on_event(tracer, on_event, s);
	s->started = s->targets.count;
	rc = rut_targets_attach(&s->targets, tracer, cmd, err);
	begin = rut_now_ns();
	while (rc >= 0 && waited < (s->answered < s->started ? answer_ns : workers_ns)) {
		rc = rut_tracer_poll(tracer, 20, err);
		if (rc == 0)
			break;
		waited = rut_now_ns() - begin;
	}
	return rc;
}

static int run_stacks(struct stacks *s, const struct rut_cmd *cmd)
{
	struct rut_tracer_config config = {.mode = RUT_RUBY_TRACE, .stacks = true};
	struct rut_tracer *tracer = NULL;
	struct rut_err err = RUT_ERR_INIT;
	int fd = -1, rc = rut_targets_find(&s->targets, &s->opts, &err);

	if (rc >= 0)
		rc = fd = rut_ruby_opts_open(&s->opts, &err);
	if (rc >= 0)
		rc = rut_tracer_new(&tracer, &config, &err);
	if (rc >= 0)
		rc = collect(s, tracer, cmd, &err);
	rut_tracer_free(tracer);
	if (rc >= 0) {
		rc = rut_write_all(fd, &s->out);
		if (rc < 0)
			rut_err_errno(&err, -rc, "cannot write");
	}
	if (rc >= 0 && !s->answered)
		rc = rut_err_set(&err, ETIME,
				 "no answer: no thread of the application came back to Ruby");
	return rc < 0 ? rut_fail(cmd, &err) : RUT_EXIT_OK;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct stacks s = {0};
	struct rut_args a;
	int id, rc = -1;

	rut_args_init(&a, cmd, argc, argv);
	while (rc < 0 && (id = rut_args_next(&a)) != RUT_ARGS_END)
		if (!rut_ruby_opts_take(&s.opts, &a, id, &rc))
			rc = RUT_EXIT_USAGE;
	if (rc < 0)
		rc = rut_ruby_opts_check(&s.opts, cmd);
	if (rc < 0 && s.opts.command)
		rc = rut_usage_error(
			cmd, "a command that is not running does nothing yet: name a process");
	if (rc < 0)
		rc = run_stacks(&s, cmd);
	rut_buf_fini(&s.out);
	rut_targets_fini(&s.targets);
	rut_ruby_opts_fini(&s.opts);
	return rc;
}

const struct rut_cmd cmd_stacks = {
	.name = "stacks",
	.group = "Ruby, live",
	.summary = "print what every thread of a Ruby application does at this moment",
	.usage = "[OPTIONS] TARGET...",
	.options = options,
	.run = run,
};
