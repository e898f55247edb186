/* SPDX-License-Identifier: MIT */
#include "cli/trigger_stacks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

enum { FILE_BYTES = 16384 };

pid_t rut_cli_trigger_pid(const char *cause)
{
	static const char *const keys[] = {"\"pid\":", "pid="};

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		for (const char *p = cause; (p = strstr(p, keys[i])); p++) {
			long pid = strtol(p + strlen(keys[i]), NULL, 10);

			/* A word of its own: "uri=/pid=1" names none, whoever asked for that. */
			if (pid > 0 && pid <= INT_MAX && (!i || p == cause || p[-1] == ' '))
				return (pid_t)pid;
		}
	return 0;
}

static void add_file(struct rut_buf *out, const char *task, const char *tid, const char *name,
		     const char *title)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/%s", task, tid, name);
	if (rut_buf_read_file(&b, path, FILE_BYTES) || b.failed || !b.len)
		return;
	rut_buf_printf(out, "  %s ", title);
	for (size_t i = 0; i < b.len; i++) {
		if (b.data[i] == '\n' && i + 1 < b.len)
			rut_buf_puts(out, "\n    ");
		else if ((unsigned char)b.data[i] >= ' ')
			rut_buf_putc(out, b.data[i]);
	}
	rut_buf_putc(out, '\n');
}

/* The letter behind the name in parentheses, which may have parentheses of its own. */
static void add_state(struct rut_buf *out, const char *task, const char *tid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[PATH_MAX];
	const char *end;

	snprintf(path, sizeof(path), "%s/%s/stat", task, tid);
	if (rut_buf_read_file(&b, path, FILE_BYTES))
		return;
	rut_buf_putc(&b, 0);
	end = b.failed ? NULL : strrchr(b.data, ')');
	if (end && end[1] && end[2])
		rut_buf_printf(out, "  state %c\n", end[2]);
}

int rut_cli_trigger_threads(const char *dir, pid_t pid, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	_cleanup_file_ FILE *f = NULL;
	char task[40], path[PATH_MAX];
	struct dirent *e;
	DIR *d;

	snprintf(task, sizeof(task), "/proc/%d/task", (int)pid);
	d = opendir(task);
	if (!d)
		return rut_err_set(err, ESRCH, "no stacks: process %d has exited", (int)pid);
	while ((e = readdir(d))) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		rut_buf_printf(&b, "thread %s\n", e->d_name);
		add_file(&b, task, e->d_name, "comm", "name");
		add_state(&b, task, e->d_name);
		add_file(&b, task, e->d_name, "wchan", "waits in");
		add_file(&b, task, e->d_name, "syscall", "system call");
		add_file(&b, task, e->d_name, "stack", "kernel\n   ");
	}
	closedir(d);
	if (b.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "%s/threads", dir);
	f = fopen(path, "we");
	if (!f || fwrite(b.data, 1, b.len, f) != b.len || fflush(f))
		return rut_err_errno(err, errno, "cannot write '%s'", path);
	return 0;
}
