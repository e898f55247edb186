/* SPDX-License-Identifier: MIT */
/*
 * JSON Lines: one object a line, written straight into a buffer. A trace can have a million lines a
 * second, for which building a tree of objects per line is too slow; the tests read what this
 * writes with json-c. Bytes that are not UTF-8 become U+FFFD, so that every line is valid JSON.
 *
 *	rut_jsonl_begin(b); rut_jsonl_str(b, "file", path); rut_jsonl_u64(b, "line", 7);
 *	rut_jsonl_end(b);
 */
#ifndef RUT_OUTPUT_JSONL_H
#define RUT_OUTPUT_JSONL_H

#include <stdbool.h>
#include <stdint.h>

struct rut_buf;

void rut_jsonl_begin(struct rut_buf *b);
/* A NULL string is null. Keys are plain ASCII words and are not escaped. */
void rut_jsonl_str(struct rut_buf *b, const char *key, const char *value);
/* A string alone: an element of an array, or a key that is not plain. */
void rut_jsonl_text(struct rut_buf *b, const char *s);
/* One string of two with a plain character between them; of the second alone when `first` is NULL.
 */
void rut_jsonl_join(struct rut_buf *b, const char *key, const char *first, char between,
		    const char *second);
void rut_jsonl_u64(struct rut_buf *b, const char *key, uint64_t value);
void rut_jsonl_i64(struct rut_buf *b, const char *key, int64_t value);
void rut_jsonl_bool(struct rut_buf *b, const char *key, bool value);
/* Ends the object and the line. */
void rut_jsonl_end(struct rut_buf *b);

/* For arrays of objects: the key, then begin/close pairs between open and close. */
void rut_jsonl_array_open(struct rut_buf *b, const char *key);
void rut_jsonl_array_close(struct rut_buf *b);
/* Ends an object without ending the line. */
void rut_jsonl_close(struct rut_buf *b);

#endif
