/* SPDX-License-Identifier: MIT */
#include "cli/stacks_ask.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

/* A process that cannot answer (a C extension that never lets go) ends the wait. */
static const uint64_t answer_ns = 2 * UINT64_C(1000000000);
/* Workers are found within that. */
static const uint64_t workers_ns = 100 * UINT64_C(1000000);

struct ask {
	rut_ruby_event_fn fn;
	void *arg;
	pid_t *pids;		  /* owned; those that have answered */
	size_t started, answered; /* processes: those of the command line and their workers */
};

static void note_answer(struct ask *a, pid_t pid)
{
	pid_t *more;

	for (size_t i = 0; i < a->answered; i++)
		if (a->pids[i] == pid)
			return;
	more = reallocarray(a->pids, a->answered + 1, sizeof(*more));
	if (!more)
		return;
	a->pids = more;
	a->pids[a->answered++] = pid;
}

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	struct ask *a = arg;

	if (ev->type == RUT_RUBY_EVENT_START)
		a->started++;
	if (ev->type != RUT_RUBY_EVENT_SLOW)
		return;
	note_answer(a, ev->pid);
	a->fn(ev, a->arg);
}

/* A process answers for all of its threads at once. Returns how many processes are asked. */
static int collect(struct ask *a, const struct rut_targets *targets, struct rut_tracer *tracer,
		   const struct rut_cmd *cmd, struct rut_err *err)
{
	uint64_t begin, waited = 0;
	int rc;

	rut_tracer_on_event(tracer, on_event, a);
	a->started = targets->count;
	rc = rut_cli_targets_attach(targets, tracer, cmd, err);
	begin = rut_now_ns();
	while (rc >= 0 && waited < (a->answered < a->started ? answer_ns : workers_ns)) {
		rc = rut_tracer_poll(tracer, 20, err);
		if (rc == 0)
			break;
		waited = rut_now_ns() - begin;
	}
	return rc;
}

int rut_cli_stacks_ask(const struct rut_targets *targets, bool try_newer, const struct rut_cmd *cmd,
		       rut_ruby_event_fn fn, void *arg, struct rut_err *err)
{
	struct rut_tracer_config config = {.mode = RUT_RUBY_TRACE, .stacks = true};
	struct ask a = {.fn = fn, .arg = arg};
	struct rut_tracer *tracer = NULL;
	int rc;

	config.filter.try_newer = try_newer;
	rc = rut_tracer_new(&tracer, &config, err);
	if (rc >= 0)
		rc = collect(&a, targets, tracer, cmd, err);
	rut_tracer_free(tracer);
	free(a.pids);
	if (rc >= 0 && !a.answered)
		return rut_err_set(err, ETIME,
				   "no answer: no thread of the application came back to Ruby");
	if (cmd && rc > (int)a.answered)
		rut_cli_notice(
			cmd,
			"%d of %d processes did not answer: none of their threads came back to "
			"Ruby",
			rc - (int)a.answered, rc);
	return rc < 0 ? rc : 0;
}
