/* SPDX-License-Identifier: MIT */
/* `rutile fleetd`: answers requests of `rutile fleet` on this machine. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/signals.h"
#include "cli/cmd.h"
#include "fleet/serve.h"

#define RETRY_MIN_MS 500
#define RETRY_MAX_MS 16000

enum { OPT_CONFIG = 256, OPT_SERVER, OPT_TLS, OPT_NAME };

static const struct rut_opt options[] = {
	{"config", "FILE", "file with the allowed requests (default " RUT_FLEET_CONF ")",
	 OPT_CONFIG},
	{"server", "URL", "nats://HOST[:PORT][,HOST...] (default: that of the file)", OPT_SERVER},
	{"tls", "DIR", "certificates and credentials (default /etc/rutile/tls)", OPT_TLS},
	{"name", "HOST", "answer as HOST (default: this machine's name)", OPT_NAME},
	{0},
};

static volatile sig_atomic_t stop_signal;

static void on_stop(int sig)
{
	stop_signal = sig;
}

struct fleetd {
	const char *config, *server, *tls, *name;
};

static int parse(const struct rut_cmd *cmd, struct fleetd *f, int argc, char **argv)
{
	struct rut_args a;
	int id;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END)
		switch (id) {
		case RUT_ARGS_HELP:
			return -1;
		case RUT_ARGS_BAD:
			return RUT_EXIT_USAGE;
		case OPT_CONFIG:
			f->config = a.value;
			break;
		case OPT_SERVER:
			f->server = a.value;
			break;
		case OPT_TLS:
			f->tls = a.value;
			break;
		case OPT_NAME:
			f->name = a.value;
			break;
		case RUT_ARGS_POSITIONAL:
			return rut_cli_usage_error(cmd, "unexpected argument '%s'", a.value);
		default:
			break;
		}
	if (f->name && (!f->name[0] || strlen(f->name) > 200 || strpbrk(f->name, " ,*?[\t\n")))
		return rut_cli_usage_error(cmd, "invalid name '%s'", f->name);
	return 0;
}

/* Is it worth trying again? Wrong files, names and rights are not. */
static bool may_come(const struct rut_err *err)
{
	return err->code == ECONNREFUSED || err->code == ECONNRESET || err->code == ETIMEDOUT;
}

/* The servers may be started later than this machine: as long as none answers, it tries again. */
static int reach(struct rut_fleet_host **ret, const struct rut_fleet_host_conf *conf,
		 struct rut_err *err)
{
	bool said = false;

	for (int ms = RETRY_MIN_MS; !stop_signal; ms = ms < RETRY_MAX_MS ? 2 * ms : RETRY_MAX_MS) {
		int rc = rut_fleet_host_new(ret, conf, err);

		if (!rc || !may_come(err))
			return rc;
		if (!said)
			fprintf(stderr, "rutile fleetd: %s; trying again\n", err->msg);
		said = true;
		for (int left = ms; left > 0 && !stop_signal; left -= RETRY_MIN_MS)
			poll(NULL, 0, RETRY_MIN_MS);
	}
	return -EINTR;
}

static int serve(const struct rut_cmd *cmd, const struct fleetd *f,
		 const struct rut_fleet_rules *rules)
{
	struct rut_fleet_host_conf conf = {.rules = rules,
					   .host = f->name,
					   .tls = f->tls	  ? f->tls
						  : rules->tls[0] ? rules->tls
								  : NULL,
					   .program = "/proc/self/exe"};
	const char *server = f->server ? f->server : rules->server;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_fleet_host *host = NULL;

	if (!server[0])
		return rut_cli_usage_error(cmd, "which server? --server, or a line in '%s'",
					   f->config);
	if (rut_nats_url_parse(server, &conf.url, &err) ||
	    (reach(&host, &conf, &err) && !stop_signal))
		return rut_cli_fail(cmd, &err);
	if (!host)
		return RUT_EXIT_OK;
	fprintf(stderr, "rutile fleetd: '%s' answers what %zu rules allow\n",
		rut_fleet_host_name(host), rules->n_allow);
	while (!stop_signal)
		rut_fleet_host_step(host, 500);
	rut_fleet_host_free(host);
	return RUT_EXIT_OK;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct fleetd f = {.config = RUT_FLEET_CONF};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_fleet_rules rules;
	int rc = parse(cmd, &f, argc, argv);

	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	if (rut_fleet_rules_read(&rules, f.config, &err))
		return rut_cli_fail(cmd, &err);
	rut_signals_catch(SIGINT, on_stop, 0);
	rut_signals_catch(SIGTERM, on_stop, 0);
	rc = serve(cmd, &f, &rules);
	rut_fleet_rules_fini(&rules);
	return rc;
}

const struct rut_cmd cmd_fleetd = {
	.name = "fleetd",
	.group = "Record",
	.summary = "run the requests of 'rutile fleet' on this machine",
	.usage = "[OPTIONS]",
	.options = options,
	.run = run,
};
