/* SPDX-License-Identifier: MIT */
/*
 * Traces that a stream of NATS JetStream has, for verbs that read directories: they are copied to
 * one below $TMPDIR (/var/tmp), which a process of its own removes when we end, however that is.
 */
#ifndef RUT_CLI_NATS_SOURCE_H
#define RUT_CLI_NATS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rut_err;

struct rut_nats_source {
	char dir[512];	/* directories of hosts */
	char path[800]; /* of the only host; "": there are several, or a glob was given */
	pid_t janitor;
	int alive; /* closed when we end */
};

/* Does `url` name one host, and no glob? */
bool rut_cli_nats_source_is_one(const char *url);

/*
 * `url`: nats://HOST[:PORT][,HOST...]/STREAM/HOST[/SESSION], where the last two may be globs.
 * Returns 0 or -errno; rut_cli_nats_source_fini() in either case.
 */
int rut_cli_nats_source_open(struct rut_nats_source *s, const char *url, struct rut_err *err);

/*
 * For a verb that reads one set of traces: when one of `paths` is such a source, which must be the
 * only one then, it is opened, and replaced by the directory. Returns 0 or -errno;
 * rut_cli_nats_source_fini() in either case.
 */
int rut_cli_nats_source_take(struct rut_nats_source *s, const char **paths, size_t n,
			     struct rut_err *err);

void rut_cli_nats_source_fini(struct rut_nats_source *s);

#endif
