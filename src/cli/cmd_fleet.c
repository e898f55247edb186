/* SPDX-License-Identifier: MIT */
/* `rutile fleet`: a verb on many machines, by their `rutile fleetd`. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cmd.h"
#include "fleet/ask.h"
#include "fleet/rules.h"
#include "output/text.h"

enum { OPT_HOSTS = 256, OPT_SERVER, OPT_TLS, OPT_CONFIG, OPT_TIMEOUT, OPT_WAIT };

static const struct rut_opt options[] = {
	{"hosts", "LIST", "names and globs, separated by commas (default *)", OPT_HOSTS},
	{"server", "URL", "nats://HOST[:PORT][,HOST...] (default: that of " RUT_FLEET_CONF ")",
	 OPT_SERVER},
	{"tls", "DIR", "certificates and credentials (default /etc/rutile/tls)", OPT_TLS},
	{"config", "FILE", "file that names the server (default " RUT_FLEET_CONF ")", OPT_CONFIG},
	{"timeout", "TIME", "wait TIME for a host's first answer (default 3s)", OPT_TIMEOUT},
	{"wait", "TIME", "wait TIME for a host to finish (default 60s)", OPT_WAIT},
	{0},
};

struct fleet {
	const struct rut_cmd *cmd;
	struct rut_fleet_ask_conf ask;
	struct rut_fleet_rules file;
	const char *config, *server;
};

static int set_option(struct fleet *f, int id, const char *value)
{
	uint64_t *time = id == OPT_WAIT ? &f->ask.wait_ns : &f->ask.timeout_ns;

	switch (id) {
	case OPT_HOSTS:
		f->ask.hosts = value;
		return value[0] && strlen(value) < 4096
			       ? 0
			       : rut_cli_usage_error(f->cmd, "invalid hosts '%s'", value);
	case OPT_SERVER:
		f->server = value;
		return 0;
	case OPT_TLS:
		f->ask.tls = value;
		return 0;
	case OPT_CONFIG:
		f->config = value;
		return 0;
	default:
		return rut_parse_duration(value, time) < 0 || !*time
			       ? rut_cli_usage_error(f->cmd, "invalid time '%s'", value)
			       : 0;
	}
}

/* Options end with the verb: what follows is its own. */
static int parse(struct fleet *f, int argc, char **argv)
{
	struct rut_args a;
	int id, rc = 0;

	rut_cli_args_init(&a, f->cmd, argc, argv);
	while (!rc && (id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return -1;
		if (id == RUT_ARGS_BAD)
			return RUT_EXIT_USAGE;
		if (id == RUT_ARGS_POSITIONAL) {
			f->ask.words = argv + a.next - 1;
			f->ask.n_words = (size_t)argc - (size_t)a.next + 1;
			break;
		}
		if (id != RUT_ARGS_DASHES)
			rc = set_option(f, id, a.value);
	}
	if (rc)
		return rc;
	if (!f->ask.n_words)
		return rut_cli_usage_error(f->cmd, "the verb is missing");
	if (!strcmp(f->ask.words[0], "forget"))
		return f->ask.n_words == 2 ? 0 : rut_cli_usage_error(f->cmd, "forget which host?");
	return rut_fleet_is_verb(f->ask.words[0])
		       ? 0
		       : rut_cli_usage_error(f->cmd,
					     "hosts cannot be asked for '%s': ps, status, list, "
					     "start, stop, snapshot, report or requests",
					     f->ask.words[0]);
}

/* The server of the command line, or of the file that `fleetd` reads too. */
static int find_server(struct fleet *f, struct rut_err *err)
{
	if (!f->server && !f->config && access(RUT_FLEET_CONF, F_OK) < 0)
		return rut_cli_usage_error(f->cmd, "which server? --server, or a line in '%s'",
					   RUT_FLEET_CONF);
	if (!f->server || f->config) {
		if (rut_fleet_rules_read(&f->file, f->config ? f->config : RUT_FLEET_CONF, err))
			return rut_cli_fail(f->cmd, err);
		if (!f->server)
			f->server = f->file.server;
		if (!f->ask.tls && f->file.tls[0])
			f->ask.tls = f->file.tls;
	}
	return rut_nats_url_parse(f->server, &f->ask.url, err) ? rut_cli_fail(f->cmd, err) : 0;
}

/* Each line behind the host's name. What another machine says is made harmless for a terminal. */
static void print_lines(FILE *out, const char *host, int width, const struct rut_buf *b)
{
	for (size_t at = 0; at < b->len;) {
		_cleanup_buf_ struct rut_buf line = RUT_BUF_INIT, clean = RUT_BUF_INIT;
		const char *begin = b->data + at, *end = memchr(begin, '\n', b->len - at);
		const size_t n = end ? (size_t)(end - begin) : b->len - at;

		rut_buf_add(&line, begin, n);
		for (size_t i = 0; i < n && !line.failed; i++)
			if (!line.data[i])
				line.data[i] = '?';
		if (n && !line.failed)
			rut_text_add(&clean, line.data);
		fprintf(out, "%-*s  %s\n", width, host, clean.len ? clean.data : "");
		at += n + 1;
	}
}

static void list_hosts(const struct rut_fleet_result *r, enum rut_fleet_state state,
		       const char *what)
{
	bool any = false;

	for (; r; r = r->next)
		if (r->state == state) {
			fprintf(stderr, "%s%s", any ? ", " : what, r->host);
			any = true;
		}
	if (any)
		fputc('\n', stderr);
}

static int print(const struct rut_fleet_results *results)
{
	const struct rut_fleet_result *all = results->first;
	int width = 0, rc = all ? RUT_EXIT_OK : RUT_EXIT_FAIL;

	for (const struct rut_fleet_result *r = all; r; r = r->next)
		if ((int)strlen(r->host) > width)
			width = (int)strlen(r->host);
	for (const struct rut_fleet_result *r = all; r; r = r->next) {
		print_lines(stdout, r->host, width, &r->out);
		fflush(stdout);
		print_lines(stderr, r->host, width, &r->err);
		if (r->gap)
			fprintf(stderr, "%-*s  (part of its output was lost)\n", width, r->host);
		if (r->state == RUT_FLEET_DONE && r->code)
			fprintf(stderr, "%-*s  exit status %u\n", width, r->host, r->code);
		if (r->state != RUT_FLEET_DONE || r->code || r->gap)
			rc = RUT_EXIT_FAIL;
	}
	list_hosts(all, RUT_FLEET_SILENT, "rutile fleet: no answer from ");
	list_hosts(all, RUT_FLEET_RUNNING, "rutile fleet: not finished in time on ");
	if (results->broke)
		fprintf(stderr, "rutile fleet: answers are missing: %s\n", results->broke);
	if (!all)
		fprintf(stderr, "rutile fleet: no host answers\n");
	else if (results->unknown)
		fprintf(stderr,
			"rutile fleet: the server has no list of hosts: there may be others\n");
	return results->broke ? RUT_EXIT_FAIL : rc;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct fleet f = {
		.cmd = cmd,
		.ask = {.hosts = "*", .timeout_ns = 3000000000ull, .wait_ns = 60000000000ull}};
	struct rut_fleet_results results = {0};
	struct rut_err err = RUT_ERR_INIT;
	int rc = parse(&f, argc, argv);

	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	rc = find_server(&f, &err);
	if (!rc && !strcmp(f.ask.words[0], "forget"))
		rc = rut_fleet_forget(&f.ask, f.ask.words[1], &err) ? rut_cli_fail(cmd, &err) : 0;
	else if (!rc)
		rc = rut_fleet_ask(&f.ask, &results, &err) ? rut_cli_fail(cmd, &err)
							   : print(&results);
	rut_fleet_results_fini(&results);
	rut_fleet_rules_fini(&f.file);
	return rc;
}

const struct rut_cmd cmd_fleet = {
	.name = "fleet",
	.group = "Record",
	.summary = "run a verb on many machines",
	.usage = "[OPTIONS] VERB [ARGUMENTS]",
	.options = options,
	.run = run,
};
