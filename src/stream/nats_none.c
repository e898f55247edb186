/* SPDX-License-Identifier: MIT */
/* Instead of what needs libnats, in a program that was built without it. */
#include <errno.h>

#include "base/err.h"
#include "stream/nats_collect.h"
#include "stream/nats_read.h"
#include "stream/publish.h"
#include "stream/sender_internal.h"

static int missing(struct rut_err *err)
{
	return rut_err_set(err, ENOTSUP, "this rutile was built without NATS (libnats-dev)");
}

static int probe(const struct rut_sender *s, struct rut_err *err)
{
	(void)s;
	return missing(err);
}

const struct rut_sender_link rut_sender_nats = {.probe = probe};

int rut_nats_collect_new(struct rut_nats_collect **ret, const struct rut_nats_collect_conf *conf,
			 struct rut_err *err)
{
	(void)ret;
	(void)conf;
	return missing(err);
}

int rut_nats_collect_step(struct rut_nats_collect *c, int ms, struct rut_err *err)
{
	(void)c;
	(void)ms;
	return missing(err);
}

void rut_nats_collect_stats(const struct rut_nats_collect *c, struct rut_nats_store_stats *ret)
{
	(void)c;
	*ret = (struct rut_nats_store_stats){0};
}

void rut_nats_collect_free(struct rut_nats_collect *c)
{
	(void)c;
}

int rut_nats_read(const struct rut_nats_read_conf *conf, struct rut_nats_read_stats *ret,
		  struct rut_err *err)
{
	(void)conf;
	(void)ret;
	return missing(err);
}

int rut_nats_publish(const char *url, const char *dir, const char *data, size_t len,
		     struct rut_err *err)
{
	(void)url;
	(void)dir;
	(void)data;
	(void)len;
	return missing(err);
}
