/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void rut_buf_fini(struct rut_buf *b)
{
	free(b->data);
	*b = (struct rut_buf)RUT_BUF_INIT;
}

void rut_buf_clear(struct rut_buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = '\0';
}

int rut_buf_grow(struct rut_buf *b, size_t more)
{
	size_t want = b->len + more + 1;
	size_t cap = b->cap ? b->cap : 64;
	char *data;

	if (b->failed || want < more)
		return -ENOMEM;
	if (want <= b->cap)
		return 0;
	while (cap < want)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return -ENOMEM;
	}
	b->data = data;
	b->cap = cap;
	return 0;
}

void rut_buf_vprintf(struct rut_buf *b, const char *fmt, va_list ap)
{
	size_t room = b->failed || !b->data ? 0 : b->cap - b->len;
	va_list again;
	int n;

	/* Mostly there is room for it. */
	va_copy(again, ap);
	n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, again);
	va_end(again);
	if (n >= 0 && (size_t)n >= room) {
		if (room)
			b->data[b->len] = '\0';
		if (rut_buf_reserve(b, n))
			return;
		vsnprintf(b->data + b->len, n + 1, fmt, ap);
	}
	if (n > 0)
		b->len += n;
}

void rut_buf_printf(struct rut_buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	rut_buf_vprintf(b, fmt, ap);
	va_end(ap);
}

char *rut_buf_take(struct rut_buf *b)
{
	char *data;

	if (rut_buf_reserve(b, 0)) {
		rut_buf_fini(b);
		return NULL;
	}
	b->data[b->len] = '\0';
	data = b->data;
	*b = (struct rut_buf)RUT_BUF_INIT;
	return data;
}

int rut_buf_read_file(struct rut_buf *b, const char *path, size_t max)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t start = b->len;
	ssize_t n;

	if (fd < 0)
		return -errno;
	for (;;) {
		if (rut_buf_reserve(b, 4096))
			return -ENOMEM;
		n = read(fd, b->data + b->len, b->cap - b->len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		b->len += n;
		if (b->len - start > max)
			return -EFBIG;
	}
	b->data[b->len] = '\0';
	return 0;
}
