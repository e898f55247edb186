/* SPDX-License-Identifier: MIT */
/*
 * The verbs of the command line.
 *
 * Each cmd_VERB.c defines one `const struct rut_cmd cmd_VERB`; cmds.c lists them all. Help,
 * completion and the test "has a man page" come from that table, so a verb exists in one place.
 */
#ifndef RUT_CLI_CMD_H
#define RUT_CLI_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/parse.h"

/* Exit codes: 0, 1 for a failure, 2 for a command line that cannot be understood. */
enum {
	RUT_EXIT_OK = 0,
	RUT_EXIT_FAIL = 1,
	RUT_EXIT_USAGE = 2,
};

struct rut_cmd {
	const char *name;
	const char *summary;	       /* one line, for the list of verbs */
	const char *usage;	       /* what follows the name: "[OPTIONS] TARGET..." */
	const struct rut_opt *options; /* ends with a NULL name */
	/* More options, of the same form: those of the analysis that the verb runs. NULL: none. */
	const struct rut_opt *const *more;
	/* argv[0] is the name under which the verb was called. Returns the exit code. */
	int (*run)(const struct rut_cmd *cmd, int argc, char **argv);
	const char *group; /* heading in the list of verbs */
	/* In a copy of a verb: "FILE, line 3: " or "HOST: ", begins its messages; or NULL. */
	const char *where;
};

/* All verbs, ends with NULL. */
extern const struct rut_cmd *const rut_cli_cmds[];

/* The option number `i` of the verb; NULL after the last one. */
const struct rut_opt *rut_cli_cmd_opt(const struct rut_cmd *cmd, size_t i);

/* The verb of that name, or NULL. */
const struct rut_cmd *rut_cli_cmd_find(const char *name);

/* The verb that was perhaps meant: at most two letters off; or NULL. */
const struct rut_cmd *rut_cli_cmd_like(const char *name);

/* Names of other programs that we are installed as too (links); not among the verbs. */
extern const struct rut_cmd *const rut_cli_links[];

/* Special results of rut_cli_args_next(). */
enum {
	RUT_ARGS_END = -1,
	RUT_ARGS_BAD = -2, /* a message was printed: return RUT_EXIT_USAGE */
	RUT_ARGS_POSITIONAL = -3,
	RUT_ARGS_HELP = -4,   /* the help was printed: return RUT_EXIT_OK */
	RUT_ARGS_DASHES = -5, /* "--" was met: what follows is at argv[next] */
};

/* Walks a command line: options in any order, "--" ends them, -h and --help are always there. */
struct rut_args {
	const struct rut_cmd *cmd;
	int argc;
	char **argv;
	int next;	   /* index of the next word */
	const char *rest;  /* within a word of short options */
	const char *value; /* of the option or positional just returned; borrowed from argv */
	bool only_positional;
};

void rut_cli_args_init(struct rut_args *a, const struct rut_cmd *cmd, int argc, char **argv);
int rut_cli_args_next(struct rut_args *a);

/*
 * The whole command line of a verb that takes words only, no options. The words are borrowed from
 * argv; the caller frees the array, which may be given with none in it. Nothing is done before all
 * of the line was understood. Returns 0, RUT_ARGS_HELP, or the exit code of a bad line.
 */
int rut_cli_args_words(const struct rut_cmd *cmd, int argc, char **argv, const char ***ret,
		       size_t *n);

/* The same of a verb that takes no word and one option, a flag. */
int rut_cli_args_flag(const struct rut_cmd *cmd, int argc, char **argv, bool *ret);

/* Prints "rutile VERB: MESSAGE" and a pointer to --help; returns RUT_EXIT_USAGE. */
int rut_cli_usage_error(const struct rut_cmd *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The sink of rut_log(): prints on standard error; `arg` is what a message begins with, or NULL. */
void rut_cli_log(enum rut_log_level level, const char *msg, void *arg);

/* Prints "rutile VERB: MESSAGE"; returns RUT_EXIT_FAIL. */
int rut_cli_fail(const struct rut_cmd *cmd, const struct rut_err *err);

/*
 * Prints "  LEFT TEXT", the text behind so many columns. On a terminal words that do not fit go
 * below the first one.
 */
void rut_cli_print_item(const char *left, int left_columns, const char *text);

/* Prints the help of one verb on standard output. */
void rut_cli_print_help(const struct rut_cmd *cmd);

#endif
