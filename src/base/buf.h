/* SPDX-License-Identifier: MIT */
/*
 * A growable byte buffer, always NUL-terminated. An allocation that fails marks the buffer as
 * failed and every later call does nothing, so that a caller checks once, at the end.
 */
#ifndef RUT_BASE_BUF_H
#define RUT_BASE_BUF_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rut_buf {
	char *data; /* owned; NULL when nothing was added */
	size_t len; /* bytes, without the terminating NUL */
	size_t cap;
	bool failed; /* out of memory: the content is not complete */
};

#define RUT_BUF_INIT                                                                               \
	{                                                                                          \
		0                                                                                  \
	}

void rut_buf_fini(struct rut_buf *b);

/* Empties the buffer and keeps its memory. */
void rut_buf_clear(struct rut_buf *b);

/* rut_buf_reserve() where there is not room yet. */
int rut_buf_grow(struct rut_buf *b, size_t more);

/* Makes room for `more` bytes after len (and the NUL). Returns 0 or -ENOMEM. */
static inline int rut_buf_reserve(struct rut_buf *b, size_t more)
{
	if (!b->failed && more < b->cap - b->len)
		return 0;
	return rut_buf_grow(b, more);
}

static inline void rut_buf_add(struct rut_buf *b, const void *data, size_t len)
{
	if (rut_buf_reserve(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

static inline void rut_buf_puts(struct rut_buf *b, const char *s)
{
	rut_buf_add(b, s, strlen(s));
}

static inline void rut_buf_putc(struct rut_buf *b, char c)
{
	rut_buf_add(b, &c, 1);
}

/* Appends `n` times the same byte. */
static inline void rut_buf_fill(struct rut_buf *b, char c, size_t n)
{
	if (rut_buf_reserve(b, n))
		return;
	memset(b->data + b->len, c, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void rut_buf_printf(struct rut_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void rut_buf_vprintf(struct rut_buf *b, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

/* Gives up the memory: the caller frees it. Never NULL unless the buffer failed. */
char *rut_buf_take(struct rut_buf *b);

/*
 * The whole of a file (also of /proc, whose sizes are 0) is appended. Returns 0 or -errno; -EFBIG
 * when it is longer than `max` bytes.
 */
int rut_buf_read_file(struct rut_buf *b, const char *path, size_t max);

#define _cleanup_buf_ __attribute__((cleanup(rut_buf_fini)))

#endif
