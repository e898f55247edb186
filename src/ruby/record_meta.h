/* SPDX-License-Identifier: MIT */
/* The metadata of a process's Ruby events (agent/record.h), and the records of their names. */
#ifndef RUT_RUBY_RECORD_META_H
#define RUT_RUBY_RECORD_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_buf;
struct rut_record_allocs;
struct rut_ruby_row;

#define RUT_RECORD_NAMES_STREAM 2

struct rut_record_about {
	pid_t pid;
	const uint8_t *uuid;
	int64_t clock_offset_ns;
	const char *ruby_version;
};

/*
 * The metadata, TSDL. `labels`: what rut_record_label() has added up so far, the enumeration that
 * gives numbers of rows their names.
 */
void rut_record_metadata(struct rut_buf *b, const struct rut_record_about *about,
			 const struct rut_buf *labels);

/*
 * A further generation of names, behind that (record_grow.h): `labels` has `done` bytes of earlier
 * ones. `several`: there are events with several names.
 */
void rut_record_metadata_more(struct rut_buf *b, uint32_t generation, const struct rut_buf *labels,
			      size_t done, bool several);

/* Adds "Order#total" = 5. */
void rut_record_label(struct rut_buf *labels, uint32_t number, const struct rut_ruby_row *row);

/* Adds a `ruby:method` record of the time `ns`. */
void rut_record_name(struct rut_buf *b, uint64_t ns, uint32_t number,
		     const struct rut_ruby_row *row, uint32_t flags);

/* Adds a `ruby:allocated` record of the time `ns`. */
void rut_record_allocated(struct rut_buf *b, uint64_t ns, const struct rut_record_allocs *allocs);

#endif
