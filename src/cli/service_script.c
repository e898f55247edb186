/* SPDX-License-Identifier: MIT */
#include "cli/service_script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wordexp.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "cli/record_script.h"
#include "script/portable.h"
#include "script/session.h"
#include "session/snapshot.h"

enum { WORDS_MAX = 256 };

/* The value of a line "options = ...", NULL for one without. Returns 0 or RUT_EXIT_USAGE. */
static int options_of(const struct rut_cmd *cmd, char *line, const char **ret)
{
	char *key = line + strspn(line, " \t"), *value;
	size_t len = strcspn(key, " \t=\n");

	*ret = NULL;
	if (!*key || *key == '#' || *key == '\n')
		return 0;
	value = key + len + strspn(key + len, " \t");
	if (*value != '=')
		return rut_cli_usage_error(cmd, "no '='");
	if (len != strlen("options") || strncmp(key, "options", len) != 0)
		return rut_cli_usage_error(cmd, "unknown option '%.*s': options", (int)len, key);
	value[strcspn(value, "\n")] = '\0';
	*ret = value + 1;
	return 0;
}

/* "start NAME WORDS... --script FILE". */
static int parse_words(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *name,
		       const char *path, const char *options)
{
	char *argv[WORDS_MAX + 5] = {(char *)(uintptr_t) "start", (char *)(uintptr_t)name};
	wordexp_t words;
	int n = 2, rc;

	if (wordexp(options, &words, WRDE_NOCMD))
		return rut_cli_usage_error(cmd, "cannot split the options into words: '%s'",
					   options);
	for (size_t i = 0; i < words.we_wordc && i < WORDS_MAX; i++)
		argv[n++] = words.we_wordv[i];
	argv[n++] = (char *)(uintptr_t) "--script";
	argv[n++] = (char *)(uintptr_t)path;
	rc = rut_cli_start_parse(cmd, o, n, argv);
	wordfree(&words);
	return rc < 0 ? RUT_EXIT_USAGE : rc;
}

static int read_conf(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *conf,
		     const char *name, const char *path)
{
	_cleanup_file_ FILE *f = fopen(conf, "re");
	_cleanup_free_ char *line = NULL, *options = NULL;
	struct rut_cmd there = *cmd;
	char where[RUT_PATH_MAX + 32];
	const char *value;
	size_t size = 0;
	int number = 0, rc = 0;

	if (!f && errno != ENOENT)
		return rut_cli_usage_error(cmd, "cannot open '%s': %s", conf, strerror(errno));
	there.where = where;
	there.options = rut_cli_start_options;
	snprintf(where, sizeof(where), "%s: ", conf);
	while (f && !rc && getline(&line, &size, f) >= 0) {
		snprintf(where, sizeof(where), "%s, line %d: ", conf, ++number);
		rc = options_of(&there, line, &value);
		if (rc || !value)
			continue;
		if (options)
			return rut_cli_usage_error(&there, "'options' a second time");
		options = strdup(value);
	}
	return rc ? rc : parse_words(&there, o, name, path, options ? options : "");
}

int rut_cli_service_script_read(const struct rut_cmd *cmd, struct rut_record_opts *o,
				const char *dir, const char *name)
{
	char path[RUT_PATH_MAX], conf[RUT_PATH_MAX];
	int rc;

	*o = (struct rut_record_opts){0};
	if ((size_t)snprintf(path, sizeof(path), "%s/%s.bt", dir, name) >= sizeof(path) - 4)
		return rut_cli_usage_error(cmd, "the name '%s' is too long", path);
	/* Where the script itself is not, what was compiled of it may be. */
	if (access(path, F_OK))
		snprintf(path, sizeof(path), "%s/%s.rbc", dir, name);
	snprintf(conf, sizeof(conf), "%s/%s.conf", dir, name);
	rc = read_conf(cmd, o, conf, name, path);
	if (rc)
		return rc;
	o->flight = o->flight || !rut_output_drains(&o->output);
	rut_cli_record_defaults(o);
	return 0;
}

int rut_cli_service_script_keep(const char *name, const struct rut_output_conf *output,
				struct rut_err *err)
{
	struct rut_script_session *script = NULL;
	struct rut_recorder *r = NULL;
	struct rut_companion beside;
	struct rut_snapshot snap;
	char path[RUT_PATH_MAX];
	int rc = rut_session_open(&r, name, err);

	if (!rc)
		script = rut_cli_record_script_beside(name);
	if (script)
		beside = rut_script_session_companion(script);
	if (!rc)
		rc = rut_output_path(output, path, sizeof(path), err);
	if (!rc)
		rc = rut_snapshot_write(r, path, script ? &beside : NULL, &snap, err);
	rut_script_session_free(script);
	rut_recorder_free(r);
	return rc;
}

/* A file beside the one that it becomes, so that none is ever half written. */
static int write_file(const char *path, const struct rut_buf *b, struct rut_err *err)
{
	char temp[RUT_PATH_MAX + 16];
	int fd, rc;

	snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return rut_err_errno(err, errno, "cannot make '%s'", path);
	rc = rut_file_write(fd, b->data, b->len);
	if (!rc && (fchmod(fd, 0644) || fsync(fd)))
		rc = -errno;
	if (close(fd) && !rc)
		rc = -errno;
	if (!rc && rename(temp, path))
		rc = -errno;
	if (!rc)
		return 0;
	unlink(temp);
	return rut_err_errno(err, -rc, "cannot write '%s'", path);
}

int rut_cli_service_script_compile(const struct rut_cmd *cmd, const char *dir, const char *name)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT, file = RUT_BUF_INIT,
				     messages = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_record_opts o;
	char path[RUT_PATH_MAX];
	int rc = rut_cli_service_script_read(cmd, &o, dir, name);
	bool flight = o.flight;

	rut_cli_record_opts_fini(&o);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%s/%s.bt", dir, name);
	rc = rut_buf_read_file(&text, path, 16u << 20);
	if (rc)
		rut_err_errno(&err, -rc, "cannot open '%s'", path);
	else
		rc = rut_portable_compile(&file, path, text.data ? text.data : "", text.len, flight,
					  &messages, &err);
	if (messages.len)
		fputs(messages.data, stderr);
	snprintf(path, sizeof(path), "%s/%s.rbc", dir, name);
	if (!rc)
		rc = write_file(path, &file, &err);
	if (rc && err.code)
		return rut_cli_fail(cmd, &err);
	if (!rc)
		printf("%-20s %s\n", name, path);
	return rc ? RUT_EXIT_FAIL : 0;
}
