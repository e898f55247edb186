/* SPDX-License-Identifier: MIT */
/* Instead of what needs libnats, in a program that was built without it. */
#include <errno.h>

#include "base/err.h"
#include "fleet/ask.h"
#include "fleet/serve.h"

static int missing(struct rut_err *err)
{
	return rut_err_set(err, ENOTSUP, "this rutile was built without NATS (libnats-dev)");
}

int rut_fleet_ask(const struct rut_fleet_ask_conf *conf, struct rut_fleet_results *ret,
		  struct rut_err *err)
{
	(void)conf;
	(void)ret;
	return missing(err);
}

int rut_fleet_forget(const struct rut_fleet_ask_conf *conf, const char *host, struct rut_err *err)
{
	(void)conf;
	(void)host;
	return missing(err);
}

void rut_fleet_results_fini(struct rut_fleet_results *r)
{
	(void)r;
}

int rut_fleet_host_new(struct rut_fleet_host **ret, const struct rut_fleet_host_conf *conf,
		       struct rut_err *err)
{
	(void)ret;
	(void)conf;
	return missing(err);
}

void rut_fleet_host_step(struct rut_fleet_host *h, int ms)
{
	(void)h;
	(void)ms;
}

const char *rut_fleet_host_name(const struct rut_fleet_host *h)
{
	(void)h;
	return "";
}

void rut_fleet_host_free(struct rut_fleet_host *h)
{
	(void)h;
}
