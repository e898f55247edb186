/* SPDX-License-Identifier: MIT */
/*
 * `rutile recover`: the sessions in the memory dump of a crashed kernel, as traces; and what the
 * core of a process has: of a Ruby process the last lines of `rutile trace`, of a process with
 * static tracepoints those, of a recorder the packets that it had not written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cmd.h"
#include "cli/ruby_live.h"
#include "cli/trace_print.h"
#include "ruby/core.h"
#include "session/recover.h"
#include "usdt/recover.h"

static const struct rut_opt options[] = {
	{"output", "DIR", "write the traces below DIR (default: the current directory)", 'o'},
	{0},
};

static void on_found(const struct rut_recovered *f, void *arg)
{
	printf("%s: %.1f MiB in %llu packets", f->path, (double)f->bytes / 1048576,
	       (unsigned long long)f->packets);
	if (f->stacks)
		printf(", %llu stacks", (unsigned long long)f->stacks);
	if (f->damaged)
		printf(", %llu incomplete or not in the dump", (unsigned long long)f->damaged);
	printf("\n");
}

/* The rings of a Ruby process, a file of lines each. */
struct lines {
	const char *dir;
	struct rut_trace_print print;
	int fd; /* -1: none */
	char path[512];
};

static void end_ring(struct lines *l)
{
	if (l->fd < 0)
		return;
	rut_cli_trace_print_flush(&l->print);
	if (rut_cli_write_all(l->fd, &l->print.out) < 0)
		fprintf(stderr, "rutile recover: cannot write '%s'\n", l->path);
	printf("%s: %llu events of Ruby\n", l->path, (unsigned long long)l->print.events);
	rut_cli_trace_print_fini(&l->print);
	rut_closep(&l->fd);
}

static int begin_ring(const struct rut_ruby_core *ring, void *arg, struct rut_err *err)
{
	struct lines *l = arg;
	struct rut_trace_style style = {
		.thread = true,
		.returns = true,
		.args = true,
		.time = ring->clock_offset_ns != 0,
		.clock_offset_ns = ring->clock_offset_ns,
	};

	end_ring(l);
	for (unsigned int i = 0; i < 1000; i++) {
		if (i)
			snprintf(l->path, sizeof(l->path), "%s/ruby-%d-%u.txt", l->dir, ring->pid,
				 i);
		else
			snprintf(l->path, sizeof(l->path), "%s/ruby-%d.txt", l->dir, ring->pid);
		l->fd = open(l->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
		if (l->fd >= 0 || errno != EEXIST)
			break;
	}
	if (l->fd < 0)
		return rut_err_errno(err, errno, "cannot make '%s'", l->path);
	rut_cli_trace_print_init(&l->print, &style);
	return 0;
}

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	struct lines *l = arg;

	rut_cli_trace_print_event(ev, &l->print);
	if (l->print.out.len > 64 << 10 && rut_cli_write_all(l->fd, &l->print.out) < 0)
		fprintf(stderr, "rutile recover: cannot write '%s'\n", l->path);
}

static void on_static(const struct rut_usdt_recovered *f, void *arg)
{
	printf("%s: %llu events in %llu packets", f->path, (unsigned long long)f->events,
	       (unsigned long long)f->packets);
	if (f->damaged)
		printf(", %llu incomplete", (unsigned long long)f->damaged);
	printf("\n");
}

static int recover_process(const struct rut_core *core, const char *dump, const char *dir,
			   struct rut_err *err)
{
	struct lines l = {.dir = dir, .fd = -1};
	int rings, taps, sessions;

	if (mkdir(dir, 0750) < 0 && errno != EEXIST)
		return rut_err_errno(err, errno, "cannot make the directory '%s'", dir);
	rings = rut_ruby_core_read(core, begin_ring, on_event, &l, err);
	end_ring(&l);
	if (rings < 0)
		return rings;
	taps = rut_usdt_recover(core, dir, on_static, NULL, err);
	if (taps < 0)
		return taps;
	sessions = rut_recover_core(core, dir, on_found, NULL, err);
	if (!rings && !taps && !sessions)
		return rut_err_set(err, ENOENT,
				   "the core '%s' of process %d (%s) holds nothing that rutile "
				   "recorded",
				   dump, core->pid, core->name);
	return sessions < 0 ? sessions : 0;
}

static int recover(const char *dump, const char *dir, struct rut_err *err)
{
	struct rut_core *core = NULL;
	int rc = rut_core_open(&core, dump, err);

	if (rc == -ENOEXEC)
		return rut_recover(dump, dir, on_found, NULL, err);
	if (!rc)
		rc = recover_process(core, dump, dir, err);
	rut_core_free(core);
	return rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_err err = RUT_ERR_INIT;
	const char *dump = NULL, *dir = ".";
	struct rut_args a;
	int id;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return RUT_EXIT_OK;
		if (id == RUT_ARGS_POSITIONAL && !dump)
			dump = a.value;
		else if (id == 'o')
			dir = a.value;
		else if (id == RUT_ARGS_POSITIONAL)
			return rut_cli_usage_error(cmd, "one dump only, not '%s' too", a.value);
		else if (id != RUT_ARGS_DASHES)
			return RUT_EXIT_USAGE;
	}
	if (!dump)
		return rut_cli_usage_error(cmd, "the memory dump is missing");
	return recover(dump, dir, &err) < 0 ? rut_cli_fail(cmd, &err) : RUT_EXIT_OK;
}

const struct rut_cmd cmd_recover = {
	.name = "recover",
	.group = "Record",
	.summary = "read what was recorded from a memory dump of a crashed kernel or of a process",
	.usage = "VMCORE|CORE [-o DIR]",
	.options = options,
	.run = run,
};
