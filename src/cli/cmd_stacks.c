/* SPDX-License-Identifier: MIT */
/* `rutile stacks`: what every thread of an application does at this moment. */
#include <stdlib.h>

#include "cli/cmd.h"
#include "base/clock.h"
#include "cli/ruby_live.h"
#include "cli/ruby_opts.h"
#include "cli/ruby_target.h"
#include "cli/stacks_ask.h"
#include "output/jsonl.h"
#include "output/text.h"
#include "ruby/tracer.h"

static const struct rut_opt options[] = {
	{"json", NULL, "JSON Lines, one object a thread", RUT_OPT_JSON},
	{"try-newer", NULL, "inspect a Ruby that is not released, too: it may crash",
	 RUT_OPT_TRY_NEWER},
	{"output", "FILE", "write to a file", 'o'},
	{0},
};

/* What a process has answered; several do so at the same time. */
struct answer {
	pid_t pid;
	struct rut_buf out;
};

struct stacks {
	struct rut_ruby_opts opts;
	struct rut_targets targets;
	struct answer *answers; /* owned; in the order of their first threads */
	size_t answered;	/* processes */
};

static struct rut_buf *answer_of(struct stacks *s, pid_t pid)
{
	struct answer *more;

	for (size_t i = 0; i < s->answered; i++)
		if (s->answers[i].pid == pid)
			return &s->answers[i].out;
	more = reallocarray(s->answers, s->answered + 1, sizeof(*more));
	if (!more)
		return NULL;
	s->answers = more;
	more[s->answered] = (struct answer){.pid = pid, .out = RUT_BUF_INIT};
	return &more[s->answered++].out;
}

static void print_text(struct rut_buf *out, const struct rut_ruby_event *ev)
{
	if (!out->len)
		rut_buf_printf(out, "process %d\n", (int)ev->pid);
	rut_buf_puts(out, "  thread ");
	if (ev->tid)
		rut_buf_printf(out, "%d ", (int)ev->tid);
	rut_text_add(out, ev->method_name ? ev->method_name : "");
	rut_buf_putc(out, '\n');
	for (size_t i = 0; i < ev->caller_count; i++) {
		const struct rut_ruby_event *c = &ev->callers[i];

		rut_buf_puts(out, "    ");
		rut_text_add(out, c->method_name ? c->method_name : "?");
		rut_buf_puts(out, "  ");
		rut_text_add(out, c->path ? c->path : "?");
		rut_buf_printf(out, ":%u\n", c->line);
	}
}

static void print_json(struct rut_buf *out, const struct rut_ruby_event *ev)
{
	rut_jsonl_begin(out);
	rut_jsonl_u64(out, "pid", (uint64_t)ev->pid);
	if (ev->tid)
		rut_jsonl_u64(out, "tid", (uint64_t)ev->tid);
	rut_jsonl_str(out, "thread", ev->method_name);
	rut_jsonl_array_open(out, "frames");
	for (size_t i = 0; i < ev->caller_count; i++) {
		rut_jsonl_begin(out);
		rut_jsonl_str(out, "method", ev->callers[i].method_name);
		rut_jsonl_str(out, "file", ev->callers[i].path);
		rut_jsonl_u64(out, "line", ev->callers[i].line);
		rut_jsonl_close(out);
	}
	rut_jsonl_array_close(out);
	rut_jsonl_end(out);
}

static void on_thread(const struct rut_ruby_event *ev, void *arg)
{
	struct stacks *s = arg;
	struct rut_buf *out;

	out = answer_of(s, ev->pid);
	if (out && s->opts.json)
		print_json(out, ev);
	else if (out)
		print_text(out, ev);
}

static int write_answers(struct stacks *s, int fd, struct rut_err *err)
{
	struct rut_buf all = RUT_BUF_INIT;
	int rc;

	for (size_t i = 0; i < s->answered; i++) {
		if (i && !s->opts.json)
			rut_buf_putc(&all, '\n');
		rut_buf_add(&all, s->answers[i].out.data, s->answers[i].out.len);
		all.failed |= s->answers[i].out.failed;
	}
	rc = rut_cli_write_all(fd, &all);
	rut_buf_fini(&all);
	return rc < 0 ? rut_err_errno(err, -rc, "cannot write") : 0;
}

static int run_stacks(struct stacks *s, const struct rut_cmd *cmd)
{
	struct rut_err err = RUT_ERR_INIT;
	int fd = -1, rc = rut_cli_targets_find(&s->targets, &s->opts, &err);

	if (rc >= 0)
		rc = fd = rut_cli_ruby_opts_open(&s->opts, &err);
	if (rc >= 0)
		rc = rut_cli_stacks_ask(&s->targets, s->opts.try_newer, cmd, on_thread, s, &err);
	if (rc >= 0)
		rc = write_answers(s, fd, &err);
	return rc < 0 ? rut_cli_fail(cmd, &err) : RUT_EXIT_OK;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct stacks s = {0};
	struct rut_args a;
	int id, rc = -1;

	rut_text_init();
	rut_cli_args_init(&a, cmd, argc, argv);
	while (rc < 0 && (id = rut_cli_args_next(&a)) != RUT_ARGS_END)
		if (!rut_cli_ruby_opts_take(&s.opts, &a, id, &rc))
			rc = RUT_EXIT_USAGE;
	if (rc < 0)
		rc = rut_cli_ruby_opts_check(&s.opts, cmd);
	if (rc < 0 && s.opts.command)
		rc = rut_cli_usage_error(cmd,
					 "stacks does not start commands: name a running process");
	if (rc < 0)
		rc = run_stacks(&s, cmd);
	for (size_t i = 0; i < s.answered; i++)
		rut_buf_fini(&s.answers[i].out);
	free(s.answers);
	rut_cli_targets_fini(&s.targets);
	rut_cli_ruby_opts_fini(&s.opts);
	return rc;
}

const struct rut_cmd cmd_stacks = {
	.name = "stacks",
	.group = "Ruby, live",
	.summary = "print the stack of every thread of a Ruby application",
	.usage = "[OPTIONS] TARGET...",
	.options = options,
	.run = run,
};
