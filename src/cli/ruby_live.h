/* SPDX-License-Identifier: MIT */
/*
 * The live tables: `rutile calls time objects-total objects arrays strings`, and the same under the
 * name foreman-tracer. All share one loop: sleep until an interval is over, read the counters, show
 * them. What differs is the mode, and whether they are shown on a screen or written line by line.
 */
#ifndef RUT_CLI_RUBY_LIVE_H
#define RUT_CLI_RUBY_LIVE_H

#include "cli/ruby_opts.h"
#include "cli/ruby_rows.h"
#include "cli/ruby_target.h"
#include "cli/ruby_why.h"

struct rut_live;

/* How tables reach the user; the default writes text or JSON Lines. */
struct rut_live_view {
	/* The first table, one more, and the last one (`final`). Returns 0 or -errno. */
	int (*show)(struct rut_live *l, bool final);
};

struct rut_live {
	const struct rut_cmd *cmd;
	struct rut_ruby_opts opts;
	enum rut_ruby_mode mode;
	bool all; /* no filter "app" */
	bool per_process, percentiles, by_caller, last_only;
	const char *sort; /* the option */
	uint64_t limit;
	bool limit_given;
	uint64_t interval_ns, reset_ns;

	struct rut_targets targets;
	struct rut_tracer *tracer; /* owned */
	struct rut_rows rows;
	pid_t child; /* the command that we started; 0: none */
	int child_status;
	bool child_ended;

	const struct rut_live_view *view;
	int fd, wake_fd;
	uint64_t begin_ns, updated_ns, rated_ns, next_ns, next_reset_ns, count_ns;
	uint64_t intervals; /* tables shown */
	int processes;	    /* traced now, or at last */
	bool ended;	    /* none is left */
	uint64_t lost;
	struct rut_why why; /* ... the table is empty */
	bool quit, paused;
	struct rut_err failure; /* why it could not go on after a change */
	void *view_data;
};

/* The usual defaults for a mode. */
void rut_cli_live_init(struct rut_live *l, const struct rut_cmd *cmd, enum rut_ruby_mode mode);
void rut_cli_live_fini(struct rut_live *l);

/* Finds the targets, traces, shows, until the end. Returns the exit code. */
int rut_cli_live_run(struct rut_live *l);

/* The `run` of the six verbs. */
int rut_cli_live_main(const struct rut_cmd *cmd, int argc, char **argv, enum rut_ruby_mode mode);
extern const struct rut_opt rut_cli_live_options[], rut_cli_time_options[], rut_cli_calls_options[];

/* RUT_ROWS_* that the options ask for. */
unsigned rut_cli_live_what(const struct rut_live *l);

/* Restarts in another mode or with another filter. Returns 0 or -errno with the reason. */
int rut_cli_live_restart(struct rut_live *l, struct rut_err *err);

/* Reads the counters again. Returns 0 or -errno with the reason. */
int rut_cli_live_update(struct rut_live *l, struct rut_err *err);
void rut_cli_live_reset(struct rut_live *l);

/* On standard error, what of the process was not counted, or not apart. */
void rut_cli_notice_gaps(const struct rut_cmd *cmd, const struct rut_tracer *t);

/* The table is empty: appends the line that says why, if there is anything to say. */
void rut_cli_live_say_why(const struct rut_live *l, struct rut_buf *out);

/* Writes all of a buffer and empties it. -EPIPE: the reader has closed; -EINTR: asked to stop. */
int rut_cli_write_all(int fd, struct rut_buf *b);

/* The screen (ruby_screen.c). */
extern const struct rut_live_view rut_cli_screen_view;
int rut_cli_ruby_screen_open(struct rut_live *l, struct rut_err *err);
void rut_cli_ruby_screen_close(struct rut_live *l);
/* Between these two a command is started that shall not write on the screen. */
void rut_cli_ruby_screen_hide(struct rut_live *l);
void rut_cli_ruby_screen_unhide(struct rut_live *l);
void rut_cli_ruby_screen_keys(struct rut_live *l);

/* "calls" */
const char *rut_cli_mode_name(enum rut_ruby_mode mode);

/* Waits for the command that we started, if it has ended; its exit code as in a shell. */
bool rut_cli_child_ended(pid_t child, int *ret_code);

#endif
