/* SPDX-License-Identifier: MIT */
#include "base/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define TRIES 100

/* The file, locked, and the one that the path still means: another process may have moved it. */
static int open_locked(const char *path, struct stat *st)
{
	for (int i = 0; i < TRIES; i++) {
		int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640);
		struct stat now;

		if (fd < 0)
			return -errno;
		while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
			;
		if (!fstat(fd, st) && !lstat(path, &now) && st->st_ino == now.st_ino &&
		    st->st_dev == now.st_dev)
			return fd;
		close(fd);
	}
	return -EAGAIN;
}

/* FILE.1 -> FILE.2 and so on; the caller has the lock of FILE. */
static void move_old(const struct rut_logfile *log)
{
	char from[540], to[540];

	snprintf(to, sizeof(to), "%s.%u", log->path, log->keep);
	if (!log->keep) {
		unlink(log->path);
		return;
	}
	for (uint32_t i = log->keep; i > 0; i--) {
		if (i > 1)
			snprintf(from, sizeof(from), "%s.%u", log->path, i - 1);
		else
			snprintf(from, sizeof(from), "%s", log->path);
		snprintf(to, sizeof(to), "%s.%u", log->path, i);
		rename(from, to);
	}
}

int rut_logfile_append(const struct rut_logfile *log, enum rut_log_level level, const char *msg)
{
	static const char *const levels[] = {"debug", "info", "warning"};
	_cleanup_close_ int fd = -1;
	char line[1400], when[40];
	struct timespec now;
	struct tm tm;
	struct stat st = {0};
	int n;

	clock_gettime(CLOCK_REALTIME, &now);
	if (!localtime_r(&now.tv_sec, &tm) ||
	    !strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S%z", &tm))
		return -EINVAL;
	n = snprintf(line, sizeof(line), "%s %s[%d] %s: %s", when, log->who, (int)getpid(),
		     levels[level], msg);
	if (n < 0)
		return -EINVAL;
	if ((size_t)n > sizeof(line) - 2)
		n = sizeof(line) - 2;
	/* One message, one line. */
	for (int i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ')
			line[i] = ' ';
	line[n++] = '\n';
	/* Between moving a full one and having the next, others may have filled that. */
	for (int i = 0; i < TRIES; i++) {
		fd = open_locked(log->path, &st);
		if (fd < 0)
			return fd;
		if (!log->size_bytes || !st.st_size ||
		    (uint64_t)st.st_size + (uint64_t)n <= log->size_bytes)
			break;
		move_old(log);
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		return -EAGAIN;
	return write(fd, line, (size_t)n) == n ? 0 : -errno;
}
