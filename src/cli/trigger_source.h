/* SPDX-License-Identifier: MIT */
/*
 * What a trigger watches: events, by a recorder of its own (trigger_events.c), the requests and
 * methods of a Ruby application (trigger_ruby.c), its lock (trigger_gvl.c), a script in the kernel
 * (trigger_script.c), or a log (trigger_log.c). Sessions do not notice.
 */
#ifndef RUT_CLI_TRIGGER_SOURCE_H
#define RUT_CLI_TRIGGER_SOURCE_H

#include <inttypes.h>

#include "cli/cmd.h"
#include "trigger/spec.h"

/*
 * Of scripts that measure how long threads wait: says once of each wait in @since that it has
 * lasted for %1$ nanoseconds, and prints no map at the end.
 */
#define RUT_TRIGGER_LASTING                                                                        \
	"interval:ms:20\n"                                                                         \
	"{\n"                                                                                      \
	"	for ($w : @since) {\n"                                                                   \
	"		if (nsecs - $w.1 >= %1$" PRIu64 " && @told[$w.0] != $w.1) {\n"             \
	"			@told[$w.0] = $w.1;\n"                                                                 \
	"			printf(\"%%d %%llu 0\\n\", $w.0, nsecs - $w.1);\n"                                     \
	"		}\n"                                                                                    \
	"	}\n"                                                                                     \
	"}\n"                                                                                      \
	"END { clear(@since); clear(@told); }\n"

struct rut_targets;

/* Called with what makes the trigger fire: JSON, or a line that a script has printed. */
typedef void (*rut_trigger_seen_fn)(void *arg, const char *cause);

/* The first member of what each kind of source has. */
struct rut_trigger_source {
	/* Takes what has happened since the last call, without waiting. Returns 0 or -errno. */
	int (*step)(struct rut_trigger_source *s, rut_trigger_seen_fn seen, void *arg,
		    struct rut_err *err);
	void (*free)(struct rut_trigger_source *s);
};

/*
 * Begins to watch what `w`, which is borrowed, names. *ret stays NULL for kinds that look at
 * nothing. Returns 0, -EINVAL after a message of its own (err->code stays 0), or -errno.
 */
int rut_cli_trigger_source_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
				const struct rut_trigger_when *w, struct rut_err *err);

/* The kinds; as above. */
int rut_cli_trigger_events_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
				const struct rut_trigger_when *w, struct rut_err *err);
int rut_cli_trigger_ruby_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
			      const struct rut_trigger_when *w, struct rut_err *err);
int rut_cli_trigger_script_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
				const struct rut_trigger_when *w, struct rut_err *err);
int rut_cli_trigger_gvl_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
			     const struct rut_trigger_when *w, struct rut_err *err);
int rut_cli_trigger_log_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
			     const struct rut_trigger_when *w, struct rut_err *err);

/*
 * The processes that the words of `w` name now; *ret, empty before, is to be given back in any
 * case. Returns 0 or -errno.
 */
int rut_cli_trigger_targets(const struct rut_trigger_when *w, struct rut_targets *ret,
			    struct rut_err *err);

/*
 * Runs `program` in place of what `w` says, with `-p target` where that is not NULL; both are
 * borrowed. Its lines are those of a wait: "TID NANOSECONDS OVER".
 */
int rut_cli_trigger_script_run(struct rut_trigger_source **ret, const struct rut_trigger_when *w,
			       const char *program, const char *target, struct rut_err *err);

#endif
