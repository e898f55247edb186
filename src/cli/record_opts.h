/* SPDX-License-Identifier: MIT */
/* Options that `record`, `start` and the profiles share: what to record, and into which directory.
 */
#ifndef RUT_CLI_RECORD_OPTS_H
#define RUT_CLI_RECORD_OPTS_H

#include <stdio.h>
#include <sys/types.h>

#include "cli/cmd.h"
#include "cli/record_ruby.h"
#include "cli/record_script.h"
#include "session/session.h"

enum {
	RUT_OPT_CONTEXT = 512,
	RUT_OPT_BUFFER,
	RUT_OPT_SUBBUF,
	RUT_OPT_STRING_LIMIT,
	RUT_OPT_STRICT,
	RUT_OPT_INCLUDE_SELF,
	RUT_OPT_PROCNAME,
	RUT_OPT_CGROUP,
	RUT_OPT_SIZE,
	RUT_OPT_KEEP,
	RUT_OPT_EVERY,
	RUT_OPT_FLIGHT,
	RUT_OPT_PROFILE,
	RUT_OPT_FILTER,
	RUT_OPT_LOG_SIZE,
	RUT_OPT_LOG_KEEP,
	RUT_OPT_RUBY,
	RUT_OPT_RUBY_WAIT,
	RUT_OPT_RUBY_CLASS,
	RUT_OPT_RUBY_METHOD,
	RUT_OPT_RUBY_PATH,
	RUT_OPT_RUBY_SLOW,
	RUT_OPT_RUBY_TRY_NEWER,
	RUT_OPT_TO,
	RUT_OPT_SPOOL,
	RUT_OPT_LOSS,
	RUT_OPT_TLS,
	RUT_OPT_SCRIPT,
	RUT_OPT_SCRIPT_TARGET,
};

#define RUT_RECORD_OPTIONS                                                                         \
	{"event", "EVENTS", "what to record: names, globs, groups, !not; may be repeated", 'e'},   \
		{"pid", "PID", "record this process and its children; may be repeated", 'p'},      \
		{"procname", "NAME", "record processes of this name; may be repeated",             \
		 RUT_OPT_PROCNAME},                                                                \
		{"filter", "EXPRESSION",                                                           \
		 "record only events for which this holds: fd == 3 && count > 4096",               \
		 RUT_OPT_FILTER},                                                                  \
		{"cgroup", "PATH", "record the processes under this control group",                \
		 RUT_OPT_CGROUP},                                                                  \
		{"context", "NAMES",                                                               \
		 "add to each event: pid tid procname cgroup cpu ustack kstack ruby_stack",        \
		 RUT_OPT_CONTEXT},                                                                 \
		{"to", "URL",                                                                      \
		 "send the trace to a collector: relay://HOST[:PORT], nats://HOST[:PORT]/STREAM",  \
		 RUT_OPT_TO},                                                                      \
		{"tls", "DIR",                                                                     \
		 "certificates for relays://: ca.pem, cert.pem, key.pem (default "                 \
		 "/etc/rutile/tls)",                                                               \
		 RUT_OPT_TLS},                                                                     \
		{"spool", "SIZE", "keep up to SIZE on disk while the collector is away",           \
		 RUT_OPT_SPOOL},                                                                   \
		{"loss", "oldest|newest",                                                          \
		 "what is lost when the collector does not keep up (default newest)",              \
		 RUT_OPT_LOSS},                                                                    \
		{"size", "SIZE", "continue in a new directory at this size", RUT_OPT_SIZE},        \
		{"every", "TIME", "continue in a new directory after TIME", RUT_OPT_EVERY},        \
		{"keep", "N", "remove the oldest directories, so that N remain", RUT_OPT_KEEP},    \
		{"buffer", "SIZE", "memory of the session's rings (default 16M a CPU)",            \
		 RUT_OPT_BUFFER},                                                                  \
		{"subbuf", "SIZE", "size of a packet", RUT_OPT_SUBBUF},                            \
		{"string-limit", "SIZE", "bytes of a string, up to 4K (default 640)",              \
		 RUT_OPT_STRING_LIMIT},                                                            \
		{"include-self", NULL, "record rutile's own processes, too",                       \
		 RUT_OPT_INCLUDE_SELF},                                                            \
		{"max-overhead", "PERCENT",                                                        \
		 "disable the most expensive events rather than use more of a CPU", 'm'},          \
		{"ruby", "TARGET[:EVENTS]",                                                        \
		 "record events of Ruby processes: call, return, raise ...; may be repeated",      \
		 RUT_OPT_RUBY},                                                                    \
		{"class", "GLOB", "of Ruby methods, only those of matching classes; '!' excludes", \
		 RUT_OPT_RUBY_CLASS},                                                              \
		{"method", "NAME", "only 'Class#name' or 'Class.name', globs; '!' excludes",       \
		 RUT_OPT_RUBY_METHOD},                                                             \
		{"path", "GLOB", "only methods of matching files (default: the application's)",    \
		 RUT_OPT_RUBY_PATH},                                                               \
		{"slow", "TIME", "of Ruby calls, only those that take longer: 10ms",               \
		 RUT_OPT_RUBY_SLOW},                                                               \
		{"try-newer", NULL, "Ruby events of a Ruby that is not released: it may crash",    \
		 RUT_OPT_RUBY_TRY_NEWER},                                                          \
	{                                                                                          \
		"strict", NULL,                                                                    \
			"fail when an event cannot be recorded, instead of going on without it",   \
			RUT_OPT_STRICT                                                             \
	}

#define RUT_LOG_DIR   "/var/log/rutile"
#define RUT_SPOOL_DIR "/var/spool/rutile"
#define RUT_PIDS_MAX  64

struct rut_record_opts {
	struct rut_record_conf conf;
	struct rut_output_conf output;
	pid_t pids[RUT_PIDS_MAX];
	size_t npids;
	struct rut_record_ruby ruby;
	char script[RUT_PATH_MAX]; /* a file, or the name of an installed script; "": none */
	struct rut_script_targets script_targets; /* Ruby processes of its probes */
	bool events_given;
	bool flight;
};

extern const struct rut_opt rut_cli_start_options[];

/* Returns 0, RUT_EXIT_USAGE after a message, or -ENOENT when the option is none of these. */
int rut_cli_record_option(const struct rut_cmd *cmd, struct rut_record_opts *o, int id,
			  const char *value);

/* Names the session. Returns 0, or RUT_EXIT_USAGE after a message when no session can have it. */
int rut_cli_record_session_name(const struct rut_cmd *cmd, struct rut_record_opts *o,
				const char *name);

/* Is this argument of --profile a number of samples a second, not a file? */
bool rut_cli_record_is_hz(const char *value);

/* Sets the output's pattern; a relative one begins at the current directory. */
int rut_cli_record_output(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value);

/*
 * Reads a profile: lines "OPTION = VALUE", with the long names of the options of `start`; '#' at
 * the begin of a line or behind white space begins a comment, "\#" stands for itself. A file
 * without options is refused. Returns 0 or RUT_EXIT_USAGE after a message with file and line.
 */
int rut_cli_profile_read(const struct rut_cmd *cmd, const char *path, struct rut_record_opts *o);

/* Writes a session's configuration in that form. */
void rut_cli_profile_write(FILE *out, const struct rut_record_conf *conf,
			   const struct rut_output_conf *output);

/*
 * Reads the arguments of `start`: "NAME [OPTIONS]". Returns 0, -1 when the help was printed, or an
 * exit code after a message.
 */
int rut_cli_start_parse(const struct rut_cmd *cmd, struct rut_record_opts *o, int argc,
			char **argv);

/*
 * Starts the session that `o` describes, and attaches to its Ruby targets; names that mean no
 * process yet are waited for. *ret_pid: its process; 0: none. Returns 0 or -errno.
 */
int rut_cli_record_start(struct rut_record_opts *o, pid_t *ret_pid, struct rut_err *err);

void rut_cli_record_opts_fini(struct rut_record_opts *o);

/* Where spools are: $RUTILE_SPOOL_DIR, or /var/spool/rutile. */
const char *rut_cli_spool_dir(void);

/* Takes the absolute name of a directory. Returns 0, or RUT_EXIT_USAGE after a message. */
int rut_cli_record_dir(const struct rut_cmd *cmd, char *to, size_t size, const char *value);

/* Where logs are: $RUTILE_LOG_DIR, or /var/log/rutile. */
const char *rut_cli_log_dir(void);

/* Whether --loss makes sense. Returns 0 or RUT_EXIT_USAGE after a message. */
int rut_cli_record_check_loss(const struct rut_cmd *cmd, const struct rut_record_opts *o);

/* The defaults for what was not given. */
void rut_cli_record_defaults(struct rut_record_opts *o);

#endif
