/* SPDX-License-Identifier: MIT */
/*
 * The classes of events of a script's trace (trace.h), and how records of them are laid out.
 *
 *	script:NAME    a printf() with names, "NAME pid=%d file=%s"; or a record("NAME", ...)
 *	script:@x      an entry of a map; of a histogram, a slot of an entry
 *	script:print   all else that is printed: its text
 */
#ifndef RUT_SCRIPT_TRACE_CLASS_H
#define RUT_SCRIPT_TRACE_CLASS_H

#include <stdint.h>

#include "base/buf.h"
#include "script/program.h"
#include "script/rows.h"
#include "script/value.h"

struct rut_script_program;
struct rut_script_classes;

enum { RUT_SCRIPT_CLASS_PRINT = 0 };

/* The program is borrowed. 0 or -ENOMEM. */
int rut_script_classes_new(struct rut_script_classes **ret, const struct rut_script_program *p);
void rut_script_classes_free(struct rut_script_classes *c);

/* Appends the metadata: TSDL, for packets of ring.h. */
void rut_script_classes_describe(const struct rut_script_classes *c, const uint8_t uuid[16],
				 int64_t clock_offset_ns, struct rut_buf *out);

/* The class of an action's events; RUT_SCRIPT_CLASS_PRINT: they have no fields but a text. */
uint32_t rut_script_class_of(const struct rut_script_classes *c, const struct rut_script_action *a);
uint32_t rut_script_class_of_map(const struct rut_script_classes *c,
				 const struct rut_script_map *m);

/* Append the fields of a record, behind its header. */
void rut_script_class_put_text(const char *text, size_t len, struct rut_buf *out);
void rut_script_class_put(const struct rut_script_style *s, const struct rut_script_action *a,
			  const void *data, struct rut_buf *out);

/* One record for each slot of a histogram, else one: `fn` is called when the fields are in `out`.
 */
void rut_script_class_put_row(const struct rut_script_style *s, const struct rut_script_map *m,
			      const struct rut_script_row *row, struct rut_buf *out,
			      void (*fn)(void *arg), void *arg);

#endif
