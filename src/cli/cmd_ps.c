/* SPDX-License-Identifier: MIT */
/* `rutile ps`: the Ruby processes of this machine, and which of them can be traced. */
#include "cli/cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "output/jsonl.h"
#include "output/screen.h"
#include "output/table.h"
#include "output/text.h"
#include "ruby/proc.h"

enum { OPT_JSON = 256 };

static const struct rut_opt options[] = {
	{"json", NULL, "print one JSON object a line", OPT_JSON},
	{0},
};

static const struct rut_table_column columns[] = {
	{.title = "PID"},
	{.title = "USER", .left = true},
	{.title = "RUBY", .left = true},
	{.title = "ROLE", .left = true},
	{.title = "UPTIME"},
	{.title = "TRACE", .left = true},
	{.title = "APPLICATION", .left = true, .min_width = 12, .keep_right = true},
	{.title = "NAME", .left = true, .min_width = 12, .grow = true},
};

static void format_uptime(char *ret, size_t cap, uint64_t s)
{
	if (s < 60)
		snprintf(ret, cap, "%" PRIu64 "s", s);
	else if (s < 3600)
		snprintf(ret, cap, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
	else if (s < 86400)
		snprintf(ret, cap, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
	else
		snprintf(ret, cap, "%" PRIu64 "d%02" PRIu64 "h", s / 86400, s / 3600 % 24);
}

static void add_row(struct rut_table *t, const struct rut_ruby_proc *p)
{
	char uptime[32];

	format_uptime(uptime, sizeof(uptime), p->uptime_s);
	rut_table_addf(t, "%d", p->pid);
	rut_table_add(t, p->user);
	rut_table_add(t, p->version[0] ? p->version : "?");
	rut_table_add(t, rut_ruby_role_name(p->role));
	rut_table_add(t, uptime);
	rut_table_add(t, p->why_not ? "no" : "yes");
	rut_table_add(t, p->app_root ? p->app_root : "-");
	rut_table_addf(t, "%s%s%s%s%s%s", p->name, p->in_container ? " (container)" : "",
		       p->deleted ? " (replaced on disk)" : "", p->allocator ? " (" : "",
		       p->allocator ? p->allocator : "", p->allocator ? ")" : "");
}

static void print_table(const struct rut_ruby_procs *ps)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	struct rut_table t;

	rut_table_init(&t, columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < ps->count; i++)
		add_row(&t, &ps->procs[i]);
	rut_table_render(&t, &out, rut_screen_width(STDOUT_FILENO));
	rut_table_fini(&t);
	for (size_t i = 0; i < ps->count; i++)
		if (ps->procs[i].why_not)
			rut_buf_printf(&out, "%s\n", ps->procs[i].why_not);
	if (!ps->count)
		fprintf(stderr, "no Ruby process is running\n");
	else
		fwrite(out.data, 1, out.len, stdout);
}

static void print_json(const struct rut_ruby_procs *ps)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;

	for (size_t i = 0; i < ps->count; i++) {
		const struct rut_ruby_proc *p = &ps->procs[i];

		rut_jsonl_begin(&out);
		rut_jsonl_u64(&out, "pid", (uint64_t)p->pid);
		rut_jsonl_u64(&out, "ppid", (uint64_t)p->ppid);
		rut_jsonl_str(&out, "user", p->user);
		rut_jsonl_u64(&out, "uid", p->uid);
		rut_jsonl_str(&out, "ruby", p->version[0] ? p->version : NULL);
		rut_jsonl_str(&out, "role", rut_ruby_role_name(p->role));
		rut_jsonl_str(&out, "name", p->name);
		rut_jsonl_str(&out, "application", p->app_root);
		rut_jsonl_u64(&out, "uptime_s", p->uptime_s);
		rut_jsonl_bool(&out, "container", p->in_container);
		rut_jsonl_bool(&out, "replaced", p->deleted);
		rut_jsonl_str(&out, "allocator", p->allocator);
		rut_jsonl_bool(&out, "traceable", !p->why_not);
		rut_jsonl_str(&out, "why_not", p->why_not);
		rut_jsonl_end(&out);
	}
	if (out.len)
		fwrite(out.data, 1, out.len, stdout);
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct rut_ruby_procs ps;
	struct rut_err err = RUT_ERR_INIT;
	bool json = false;
	int rc = rut_cli_args_flag(cmd, argc, argv, &json);

	if (rc)
		return rc == RUT_ARGS_HELP ? RUT_EXIT_OK : rc;
	if (rut_ruby_procs_list(&ps, &err) < 0)
		return rut_cli_fail(cmd, &err);
	if (json)
		print_json(&ps);
	else
		print_table(&ps);
	rut_ruby_procs_fini(&ps);
	return RUT_EXIT_OK;
}

const struct rut_cmd cmd_ps = {
	.name = "ps",
	.group = "Ruby, live",
	.summary = "list the Ruby processes, what they are, and which can be traced",
	.usage = "[--json]",
	.options = options,
	.run = run,
};
