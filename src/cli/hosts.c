/* SPDX-License-Identifier: MIT */
#include "cli/hosts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "cli/analysis_run.h"
#include "ctf/reader.h"
#include "output/text.h"

/* ---- The hosts ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rut_hosts_host *)a)->name,
		      ((const struct rut_hosts_host *)b)->name);
}

static bool is_dir(DIR *d, const struct dirent *e, bool follow)
{
	struct stat st;

	if (e->d_type == DT_DIR)
		return true;
	if (e->d_type != DT_UNKNOWN && (e->d_type != DT_LNK || !follow))
		return false;
	return !fstatat(dirfd(d), e->d_name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) &&
	       S_ISDIR(st.st_mode);
}

/* Is a trace in the directory, or below it? */
static bool has_trace(int at, const char *name, int depth)
{
	enum { MAX_DEPTH = 32 };
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;
	bool found = false;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return fd < 0 && errno != ENOENT; /* what cannot be read is reported later */
	}
	while (!found && (e = readdir(d)))
		found = !strcmp(e->d_name, "metadata");
	rewinddir(d);
	while (!found && depth < MAX_DEPTH && (e = readdir(d)))
		found = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
			is_dir(d, e, false) && has_trace(fd, e->d_name, depth + 1);
	closedir(d);
	return found;
}

static int add_host(struct rut_hosts *h, const char *dir, const char *name)
{
	_cleanup_buf_ struct rut_buf clean = RUT_BUF_INIT;
	struct rut_hosts_host *more = reallocarray(h->list, h->n + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	h->list = more;
	more += h->n;
	*more = (struct rut_hosts_host){0};
	/* The name of a directory came from another machine. */
	rut_text_add(&clean, name);
	more->name = clean.failed ? NULL : strdup(clean.data);
	if (!more->name || asprintf(&more->path, "%s/%s", dir, name) < 0) {
		free(more->name);
		return -ENOMEM;
	}
	h->n++;
	return 0;
}

/* A directory without a trace is no host, unless there is nothing else. */
static void keep_hosts_with_traces(struct rut_hosts *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++) {
		h->list[i].has_trace = has_trace(AT_FDCWD, h->list[i].path, 0);
		n += h->list[i].has_trace;
	}
	if (!n)
		return;
	n = 0;
	for (size_t i = 0; i < h->n; i++) {
		if (h->list[i].has_trace) {
			h->list[n++] = h->list[i];
			continue;
		}
		free(h->list[i].name);
		free(h->list[i].path);
	}
	h->n = n;
}

static int find_hosts(struct rut_hosts *h, const char *dir, struct rut_err *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int r = 0;

	if (!d)
		return rut_err_errno(err, errno, "cannot read '%s'", dir);
	while (!r && (e = readdir(d)))
		if (e->d_name[0] != '.' && strcmp(e->d_name, "lost+found") != 0 &&
		    is_dir(d, e, true))
			r = add_host(h, dir, e->d_name);
	closedir(d);
	if (r)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (!h->n)
		return rut_err_set(err, ENOENT, "no directory is in '%s': each host has one", dir);
	keep_hosts_with_traces(h);
	qsort(h->list, h->n, sizeof(*h->list), by_name);
	return 0;
}

/* A snapshot of a firing says by how much the host's clock was corrected. */
static void find_clock(struct rut_hosts_host *host)
{
	_cleanup_free_ char *path = NULL;
	struct rut_ctf_reader *reader = NULL;
	struct rut_ctf_set *set = NULL;
	struct rut_err err = RUT_ERR_INIT;
	const struct rut_ctf_event *ev;
	struct rut_ctf_ref offset, error;

	if (asprintf(&path, "%s/rutile_trigger", host->path) < 0)
		return;
	if (!rut_ctf_set_open(&set, (const char *const *)&path, 1, NULL, &err) &&
	    !rut_ctf_reader_new(&reader, set, NULL, &err) && (ev = rut_ctf_reader_next(reader)) &&
	    rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "clock_offset_ns", &offset) &&
	    rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "clock_error_ns", &error)) {
		host->has_clock = true;
		host->offset_ns = rut_ctf_i64(ev, &offset);
		host->error_ns = rut_ctf_i64(ev, &error);
	}
	rut_ctf_reader_free(reader);
	rut_ctf_set_free(set);
}

/* ---- The run ---- */

static void fini(struct rut_hosts *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->list[i].name);
		free(h->list[i].path);
	}
	rut_cli_hosts_tables_fini(h);
	free(h->list);
}

/* Has any table rows to compare? */
static bool compares(const struct rut_hosts *h)
{
	for (size_t i = 0; i < h->n_tables; i++)
		if (!h->tables[i].left_out)
			return true;
	return !h->n_tables;
}

/* The analysis of one host, whose messages begin with its name. */
static int run_host(struct rut_hosts *h, const struct rut_analysis_args *a,
		    const struct rut_analysis *const *analyses, size_t n)
{
	struct rut_hosts_host *host = &h->list[h->now];
	struct rut_analysis_args side = *a;
	struct rut_cmd cmd = *a->cmd;
	const char *path = host->path;
	_cleanup_free_ char *where = NULL;

	if (asprintf(&where, "%s: ", host->name) < 0)
		return -ENOMEM;
	cmd.where = where;
	side.cmd = &cmd;
	side.paths = &path;
	side.hosts = side.merge = side.hosts_json = side.output_progress = false;
	side.conf.mi = side.no_progress = side.skip_validation = true;
	side.conf.limit = INT64_MAX / 4;
	side.conf.json = side.conf.explain = false;
	side.sink = rut_cli_hosts_take;
	side.sink_arg = h;
	rut_log_set_sink(rut_cli_log, where);
	host->failed = rut_cli_analysis_run(&side, analyses, n) != RUT_EXIT_OK;
	rut_log_set_sink(rut_cli_log, NULL);
	find_clock(host);
	return h->no_memory ? -ENOMEM : 0;
}

/* Of one host after the other; stops at once where there is nothing to compare. */
static int run_hosts(struct rut_hosts *h, const struct rut_analysis_args *a,
		     const struct rut_analysis *const *analyses, size_t n)
{
	struct rut_err err = RUT_ERR_INIT;

	for (h->now = 0; h->now < h->n; h->now++) {
		if (run_host(h, a, analyses, n)) {
			(void)rut_err_set(&err, ENOMEM, "out of memory");
			return rut_cli_fail(a->cmd, &err);
		}
		if (!a->choose && !compares(h))
			break;
	}
	if (!compares(h))
		return rut_cli_analysis_usage(a, "--hosts has nothing to compare here: %s: %s",
					      h->tables[0].title, h->tables[0].left_out);
	return RUT_EXIT_OK;
}

int rut_cli_hosts_run(const struct rut_analysis_args *a, const struct rut_analysis *const *analyses,
		      size_t n)
{
	const struct rut_conf *c = &a->conf;
	struct rut_hosts h = {0};
	struct rut_err err = RUT_ERR_INIT;
	bool lines;
	int rc;

	if (a->n_paths != 1 || a->follow || a->conf.refresh_ns)
		return rut_cli_analysis_usage(a, "--hosts takes one directory, without --follow "
						 "and --refresh");
	if ((c->freq || c->log) && !c->stats && !c->usage && !c->top && !c->percentiles)
		return rut_cli_analysis_usage(a, "--hosts has nothing to compare here: single "
						 "events and distributions differ by host");
	rc = find_hosts(&h, a->paths[0], &err) ? rut_cli_fail(a->cmd, &err)
					       : run_hosts(&h, a, analyses, n);
	lines = a->hosts_json || a->conf.json;
	if (!rc && (lines	 ? rut_cli_hosts_lines(&h, a)
		    : a->conf.mi ? rut_cli_hosts_json(&h, a)
				 : 0)) {
		(void)rut_err_set(&err, ENOMEM, "out of memory");
		rc = rut_cli_fail(a->cmd, &err);
	} else if (!rc && !lines && !a->conf.mi) {
		rut_cli_hosts_text(&h, a);
	}
	for (size_t i = 0; !rc && i < h.n; i++)
		if (h.list[i].failed)
			rc = RUT_EXIT_FAIL;
	fini(&h);
	return rc;
}
