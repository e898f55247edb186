/* SPDX-License-Identifier: MIT */
/*
 * Triggers on the lines of a log, as nginx, PHP-FPM, HAProxy or PostgreSQL write them: what is
 * written from now on, also after the file was rotated or truncated. A server writes to the file
 * that it has open until it is told to open the log again: a rotated file is read for a while, too.
 */
#include "cli/trigger_source.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "output/jsonl.h"

enum { LINE_MAX_BYTES = 65536, READS = 64 };

/* Of a line, in a cause: that is a variable of the environment, which may have 128 KiB, and JSON
 * may make six bytes of one. */
enum { CAUSE_BYTES = 4096 };

#define ROTATED_NS 500000000ull /* interval at which the path is checked */
#define OLD_NS                                                                                     \
	60000000000ull /* a rotated file to which nothing was written for so long is closed */

struct file {
	int fd;		     /* -1: none */
	struct stat st;	     /* when it was opened */
	struct rut_buf line; /* the begin of a line that is not complete yet */
	bool skip;	     /* the rest of a line that is too long */
	uint64_t read_ns;    /* when it had something */
};

struct log {
	struct rut_trigger_source source;
	const struct rut_trigger_when *when;
	regex_t regex;
	struct file now; /* the one at the path */
	struct file old; /* the one before */
	struct rut_buf cause;
	uint64_t next_ns;
};

/* Between two characters, when it is UTF-8. */
static void cut(char *line)
{
	static const char more[] = "...";
	size_t at = CAUSE_BYTES - (sizeof(more) - 1);

	if (strlen(line) <= CAUSE_BYTES)
		return;
	for (int i = 0; i < 3 && ((unsigned char)line[at] & 0xc0) == 0x80; i++)
		at--;
	memcpy(line + at, more, sizeof(more));
}

static void take_line(struct log *l, char *line, rut_trigger_seen_fn seen, void *arg)
{
	regmatch_t m[2] = {{-1, -1}, {-1, -1}};

	if (regexec(&l->regex, line, 2, m, 0) != 0)
		return;
	if (l->when->has_limit) {
		const char *number = line + (m[1].rm_so >= 0 ? m[1].rm_so : m[0].rm_so);
		char *end;
		double value = strtod(number, &end);

		if (end == number || !(value > l->when->limit))
			return;
	}
	cut(line);
	rut_buf_clear(&l->cause);
	rut_jsonl_begin(&l->cause);
	rut_jsonl_str(&l->cause, "file", l->when->events);
	rut_jsonl_str(&l->cause, "line", line);
	rut_jsonl_close(&l->cause);
	seen(arg, l->cause.failed ? "{}" : l->cause.data);
}

/* Whole lines of what was read. */
static void take_bytes(struct log *l, struct file *f, char *s, size_t len, rut_trigger_seen_fn seen,
		       void *arg)
{
	while (len) {
		char *nl = memchr(s, '\n', len);
		size_t n = nl ? (size_t)(nl - s) : len;

		if (!f->skip)
			rut_buf_add(&f->line, s, n);
		if (nl) {
			if (!f->skip && f->line.len)
				take_line(l, f->line.data, seen, arg);
			rut_buf_clear(&f->line);
			f->skip = false;
		} else if (f->line.len > LINE_MAX_BYTES) {
			take_line(l, f->line.data, seen, arg);
			rut_buf_clear(&f->line);
			f->skip = true;
		}
		n += nl != NULL;
		s += n;
		len -= n;
	}
}

static void close_file(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	rut_buf_fini(&f->line);
	*f = (struct file){.fd = -1};
}

static int open_file(const struct log *l, struct file *ret)
{
	struct file f = {.read_ns = rut_now_ns()};

	f.fd = open(l->when->events, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (f.fd < 0)
		return -errno;
	if (fstat(f.fd, &f.st) < 0) {
		int rc = -errno;

		close(f.fd);
		return rc;
	}
	*ret = f;
	return 0;
}

/* Another file has this name now, or none; or it was truncated. */
static void look_at_path(struct log *l)
{
	struct file *f = &l->now;
	struct stat st;

	if (f->fd >= 0 && !fstat(f->fd, &st) && st.st_size < lseek(f->fd, 0, SEEK_CUR)) {
		lseek(f->fd, 0, SEEK_SET);
		rut_buf_clear(&f->line);
		f->skip = false;
	}
	if (stat(l->when->events, &st) < 0 ||
	    (f->fd >= 0 && st.st_dev == f->st.st_dev && st.st_ino == f->st.st_ino))
		return;
	if (f->fd >= 0) {
		close_file(&l->old);
		l->old = *f;
		*f = (struct file){.fd = -1};
	}
	(void)open_file(l, f);
}

/* Returns false when there may be more. */
static bool read_file(struct log *l, struct file *f, uint64_t now, rut_trigger_seen_fn seen,
		      void *arg)
{
	char bytes[16384];
	ssize_t n = 0;

	for (int i = 0; i < READS && f->fd >= 0 && (n = read(f->fd, bytes, sizeof(bytes))) > 0;
	     i++) {
		f->read_ns = now;
		take_bytes(l, f, bytes, (size_t)n, seen, arg);
	}
	return n <= 0;
}

static int step(struct rut_trigger_source *s, rut_trigger_seen_fn seen, void *arg,
		struct rut_err *err)
{
	struct log *l = (struct log *)s;
	uint64_t now = rut_now_ns();
	bool all = read_file(l, &l->old, now, seen, arg);

	if (l->old.fd >= 0 && all && now - l->old.read_ns > OLD_NS)
		close_file(&l->old);
	all &= read_file(l, &l->now, now, seen, arg);
	if (now >= l->next_ns && all) {
		look_at_path(l);
		l->next_ns = now + ROTATED_NS;
	}
	return l->old.line.failed || l->now.line.failed ? rut_err_set(err, ENOMEM, "out of memory")
							: 0;
}

static void free_log(struct rut_trigger_source *s)
{
	struct log *l = (struct log *)s;

	regfree(&l->regex);
	close_file(&l->old);
	close_file(&l->now);
	rut_buf_fini(&l->cause);
	free(l);
}

int rut_cli_trigger_log_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
			     const struct rut_trigger_when *w, struct rut_err *err)
{
	struct log *l = calloc(1, sizeof(*l));
	char why[128];
	int rc;

	if (!l)
		return rut_err_set(err, ENOMEM, "out of memory");
	l->source = (struct rut_trigger_source){step, free_log};
	l->when = w;
	l->now.fd = l->old.fd = -1;
	rc = regcomp(&l->regex, w->filter, REG_EXTENDED);
	if (rc) {
		regerror(rc, &l->regex, why, sizeof(why));
		free(l);
		return rut_err_set(err, EINVAL, "invalid regular expression '%s': %s", w->filter,
				   why);
	}
	if (w->events[0] != '/')
		rc = rut_err_set(err, EINVAL, "'%s': the path of a log begins with '/'", w->events);
	else if ((rc = open_file(l, &l->now)))
		rc = rut_err_errno(err, -rc, "cannot read '%s'", w->events);
	else if (!S_ISREG(l->now.st.st_mode))
		rc = rut_err_set(err, EINVAL, "'%s' is not a file", w->events);
	if (rc) {
		free_log(&l->source);
		return rc;
	}
	lseek(l->now.fd, 0, SEEK_END);
	*ret = &l->source;
	return 0;
}
