/* SPDX-License-Identifier: MIT */
#include "cli/nats_source.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "stream/nats_read.h"
#include "stream/nats_url.h"

#define FREE_BYTES (256ull << 20)
#define OPEN_DIRS  16

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

/* Waits for our end. Signals of the terminal are not its own: it ends when it has removed all. */
static _Noreturn void janitor(const char *dir, int alive)
{
	sigset_t all;
	char c;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	while (read(alive, &c, 1) < 0 && errno == EINTR)
		;
	nftw(dir, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS);
	_exit(0);
}

static int make_dir(struct rut_nats_source *s, struct rut_err *err)
{
	const char *tmp = getenv("TMPDIR");
	int ends[2];

	snprintf(s->dir, sizeof(s->dir), "%.400s/rutile-nats.XXXXXX",
		 tmp && *tmp ? tmp : "/var/tmp");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return rut_err_errno(err, errno, "cannot make a pipe");
	if (!mkdtemp(s->dir)) {
		int rc = rut_err_errno(err, errno, "cannot make the directory '%s'", s->dir);

		close(ends[0]);
		close(ends[1]);
		return rc;
	}
	fflush(NULL);
	s->janitor = fork();
	if (!s->janitor) {
		close(ends[1]);
		janitor(s->dir, ends[0]);
	}
	close(ends[0]);
	s->alive = ends[1];
	if (s->janitor < 0) {
		int rc = rut_err_errno(err, errno, "cannot start a process");

		rmdir(s->dir);
		return rc;
	}
	return 0;
}

static bool is_glob(const char *text)
{
	return strpbrk(text, "*?[\\") != NULL;
}

/* Splits "nats://HOSTS/STREAM/HOST/SESSION" behind the stream. */
static int parse(const char *url, struct rut_nats_read_conf *conf, char *copy, struct rut_err *err)
{
	char *p = strstr(copy, "://"), *host, *session;

	p = p ? strchr(p + 3, '/') : NULL;
	host = p ? strchr(p + 1, '/') : NULL;
	if (host)
		*host++ = '\0';
	session = host ? strchr(host, '/') : NULL;
	if (session)
		*session++ = '\0';
	if (!p || !p[1] || (host && !*host) || (session && (!*session || strchr(session, '/'))))
		return rut_err_set(
			err, EINVAL,
			"invalid source '%s': nats://SERVER/STREAM/HOST[/SESSION], where "
			"HOST and SESSION may be globs",
			url);
	conf->hosts = host ? host : "*";
	conf->sessions = session ? session : "*";
	return rut_nats_url_parse(copy, &conf->url, err);
}

bool rut_cli_nats_source_is_one(const char *url)
{
	struct rut_nats_read_conf conf = {0};
	struct rut_err err = RUT_ERR_INIT;
	_cleanup_free_ char *copy = strdup(url);

	return copy && !parse(url, &conf, copy, &err) && !is_glob(conf.hosts);
}

int rut_cli_nats_source_open(struct rut_nats_source *s, const char *url, struct rut_err *err)
{
	struct rut_nats_read_conf conf = {.free_bytes = FREE_BYTES};
	struct rut_nats_read_stats stats;
	_cleanup_free_ char *copy = strdup(url);
	int rc;

	*s = (struct rut_nats_source){.alive = -1, .janitor = -1};
	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = parse(url, &conf, copy, err);
	if (!rc)
		rc = make_dir(s, err);
	conf.dir = s->dir;
	if (!rc)
		rc = rut_nats_read(&conf, &stats, err);
	if (rc)
		return rc;
	if (stats.bad)
		rut_warn("%llu of %llu messages of the stream are no part of what it has",
			 (unsigned long long)stats.bad, (unsigned long long)stats.messages);
	if (!is_glob(conf.hosts))
		snprintf(s->path, sizeof(s->path), "%s/%s", s->dir, conf.hosts);
	return 0;
}

int rut_cli_nats_source_take(struct rut_nats_source *s, const char **paths, size_t n,
			     struct rut_err *err)
{
	size_t at = 0;
	int rc;

	*s = (struct rut_nats_source){.alive = -1, .janitor = -1};
	while (at < n && !rut_nats_url_is(paths[at]))
		at++;
	if (at == n)
		return 0;
	if (n > 1)
		return rut_err_set(err, EINVAL, "'%s' cannot be read together with other traces",
				   paths[at]);
	rc = rut_cli_nats_source_open(s, paths[0], err);
	if (!rc)
		paths[0] = s->path[0] ? s->path : s->dir;
	return rc;
}

void rut_cli_nats_source_fini(struct rut_nats_source *s)
{
	if (s->alive > 0)
		close(s->alive);
	if (s->janitor > 0)
		waitpid(s->janitor, NULL, 0);
	s->alive = s->janitor = -1;
}
