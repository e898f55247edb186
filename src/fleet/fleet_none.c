/* SPDX-License-Identifier: MIT */
/* Instead of what needs libnats, in a program that was built without it. */
#include <errno.h>

#include "base/err.h"
#include "fleet/ask.h"
#include "fleet/fire.h"
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

int rut_fleet_fire_new(struct rut_fleet_fire **ret, const struct rut_fleet_fire_conf *conf,
		       struct rut_err *err)
{
	(void)ret;
	(void)conf;
	return missing(err);
}

void rut_fleet_fire_free(struct rut_fleet_fire *f)
{
	(void)f;
}

void rut_fleet_fire_step(struct rut_fleet_fire *f)
{
	(void)f;
}

int rut_fleet_fire_send(struct rut_fleet_fire *f, char *const *words, size_t n, const char *about,
			int64_t fired_ns, struct rut_err *err)
{
	(void)f;
	(void)words;
	(void)n;
	(void)about;
	(void)fired_ns;
	return missing(err);
}

bool rut_fleet_fire_done(struct rut_fleet_fire *f, struct rut_buf *ret, bool *ret_failed)
{
	(void)f;
	(void)ret;
	*ret_failed = true;
	return true;
}
