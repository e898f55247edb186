/* SPDX-License-Identifier: MIT */
/*
 * What scripts print, as text or as JSON lines in bpftrace's formats. The consumer of the ring
 * gives each event and its action here; actions on maps (print, clear, zero) are done here too.
 *
 * Not thread-safe. Nothing is flushed: the consumer does that when it has nothing more to give.
 */
#ifndef RUT_SCRIPT_OUTPUT_H
#define RUT_SCRIPT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "script/program.h"
#include "script/rows.h"
#include "script/value.h"

struct rut_err;
struct rut_script_out;

/* What is printed, for another form than text: a trace. */
struct rut_script_tap {
	void (*text)(void *arg, const char *text, size_t len);
	void (*row)(void *arg, const struct rut_script_map *m, const struct rut_script_row *row);
	void *arg;
};

struct rut_script_out_config {
	FILE *out; /* borrowed */
	FILE *err; /* borrowed; errorf(), warnf(), failed cat() */
	bool json;
	bool no_warnings; /* warnf() prints nothing */
	bool unsafe;	  /* system() runs commands */
	struct rut_script_style style;
	uint32_t cat_bytes;	   /* of a file that cat() shows; 0: all */
	const char *source;	   /* borrowed; the script's name in errorf(): "stdin" */
	struct rut_script_tap tap; /* all NULL: none */
};

/* `config` is copied, what it points to borrowed. 0 or -ENOMEM. */
int rut_script_out_new(struct rut_script_out **ret, const struct rut_script_out_config *config);
void rut_script_out_free(struct rut_script_out *o);

/*
 * Does what an event asks for. RUT_ACTION_EXIT is the consumer's. 0 or -errno: -EBADMSG when the
 * event is shorter than its arguments, -ENOMEM, or what reading a map failed with.
 */
int rut_script_out_event(struct rut_script_out *o, const struct rut_script_action *a,
			 const struct rut_script_map *maps, size_t nmaps, const void *data,
			 size_t size, struct rut_err *err);

/* print(@m, top, div): the `top` last rows (0: all), values divided by `div` (0, 1: as they are).
 */
int rut_script_out_map(struct rut_script_out *o, const struct rut_script_map *m, int64_t top,
		       int64_t div, struct rut_err *err);

/* Rows that were read before. */
void rut_script_out_rows(struct rut_script_out *o, const struct rut_script_map *m,
			 const struct rut_script_rows *rows, int64_t top, int64_t div);

/* The end of a script: an empty line, and all maps that hold something, by name. */
int rut_script_out_end(struct rut_script_out *o, const struct rut_script_map *maps, size_t nmaps,
		       struct rut_err *err);

/* The result of a bench probe: nanoseconds of one run, and how many there were. */
void rut_script_out_bench(struct rut_script_out *o, const char *name, double ns, uint64_t runs);
/* What a test probe returned: 0 is as it should be. */
void rut_script_out_test(struct rut_script_out *o, const char *name, int64_t result);

/* "Attached 3 probes". */
void rut_script_out_attached(struct rut_script_out *o, size_t probes);

#endif
