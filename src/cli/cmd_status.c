/* SPDX-License-Identifier: MIT */
/* `rutile status`: show what a session records, its losses and its cost. */
#include <string.h>
#include <stdio.h>

#include "cli/session_verb.h"
#include "script/session.h"
#include "session/budget.h"
#include "session/daemon.h"

static void print_rings(const struct rut_recorder *r)
{
	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		const struct rut_ring *ring = &r->rings[cpu];
		uint64_t size = (uint64_t)ring->count << ring->shift, pos = ring->ctl->pos;
		uint64_t used = r->conf.mode == RUT_RING_DISCARD ? pos - ring->ctl->consumed : pos;

		printf("CPU %-3d      %.1f of %.1f MiB, %llu events, %llu lost\n", cpu,
		       (double)(used < size ? used : size) / 1048576, (double)size / 1048576,
		       (unsigned long long)rut_ring_records(ring),
		       (unsigned long long)ring->ctl->lost);
	}
}

static void print_budget(const struct rut_recorder *r)
{
	uint64_t left;

	if (!r->conf.budget_ppm)
		return;
	printf("max-overhead %g %% of a CPU%s\n", r->conf.budget_ppm / 1e4,
	       r->budget->shed_limit ? ", which even what is shed exceeded at times" : "");
	for (uint32_t class = 0; class < RUT_BUDGET_CLASSES; class ++)
		if (rut_budget_is_shed(r, class, &left))
			printf("shed         %s, for %.0f s more\n", r->budget->classes[class].name,
			       (double)left / 1e9);
}

static void print_script(const char *name)
{
	struct rut_script_session_status status;
	char dir[128];

	rut_session_dir(dir, sizeof(dir), name);
	if (!rut_script_session_status(&status, dir))
		printf("script       %s, %llu events printed%s\n", status.path,
		       (unsigned long long)status.printed, status.ended ? ", ended by exit()" : "");
}

static const char *state_of(const struct rut_recorder *r, const char *name)
{
	int lock;

	if (r->meta->resuming) {
		lock = rut_session_try_lock(name);
		rut_session_unlock(lock);
		return lock < 0 ? "starts"
				: "its start was killed: start it again (it records nothing)";
	}
	if (r->rings[0].ctl->frozen)
		return "frozen by its script";
	return r->meta->running ? "records" : "stopped";
}

static int apply(struct rut_recorder *r, const struct rut_session_verb *v, struct rut_err *err)
{
	const struct rut_session_meta *m = r->meta;
	int links = rut_session_count_links(v->name);

	printf("session      %s\n", v->name);
	printf("state        %s, %d programs\n", state_of(r, v->name), links < 0 ? 0 : links);
	printf("events       %s\n", m->conf.events[0] ? m->conf.events : "none");
	print_script(v->name);
	printf("mode         %s\n",
	       r->conf.mode == RUT_RING_OVERWRITE ? "overwrite (flight recorder)" : "discard");
	if (m->output.to[0])
		printf("collector    %s\n", m->output.to);
	if (rut_output_drains(&m->output)) {
		printf("output       %s\n", m->current);
		printf("written      %.1f MiB in %llu packets\n",
		       (double)m->bytes_written / 1048576, (unsigned long long)m->packets_written);
		printf("process      %d%s\n", m->consumer,
		       rut_session_consumer_alive(m) ? "" : " (exited)");
	}
	if (m->conf.ruby[0]) {
		const char *line = m->conf.ruby;

		for (; *line; line += strcspn(line, "\n") + 1)
			printf("Ruby         %.*s\n", (int)strcspn(line, "\n"), line);
	}
	if (m->holder)
		printf("process      %d%s, %s\n", m->holder, rut_holder_alive(m) ? "" : " (exited)",
		       m->conf.ruby[0]	? "holds the events of Ruby"
		       : m->ncompanions ? "keeps the script's probes and names of Ruby"
					: "detaches what is shed");
	if (m->write_errno)
		printf("writing      fails: %s\n", strerror(m->write_errno));
	printf("recorded     %llu events\n", (unsigned long long)rut_recorder_records(r));
	printf("lost         %llu, and %llu nested in themselves\n",
	       (unsigned long long)rut_recorder_lost(r),
	       (unsigned long long)rut_recorder_missed(r));
	if (rut_recorder_stacks_lost(r))
		printf("stacks lost  %llu\n", (unsigned long long)rut_recorder_stacks_lost(r));
	print_budget(r);
	print_rings(r);
	return 0;
}

static const struct rut_opt options[] = {
	{0},
};

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	return rut_cli_session_verb(cmd, argc, argv, apply);
}

const struct rut_cmd cmd_status = {
	.name = "status",
	.group = "Record",
	.summary = "show what a session records, its losses and its cost",
	.usage = "NAME",
	.options = options,
	.run = run,
};
