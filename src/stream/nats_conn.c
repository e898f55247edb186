/* SPDX-License-Identifier: MIT */
#include "stream/nats_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "stream/publish.h"
#include "stream/tls.h"

#define FILE_MAX 4096
#define PING_MS	 5000

struct files {
	const char *dir;
	char path[512], second[512];
};

static const char *file(struct files *f, const char *name, char *path)
{
	snprintf(path, sizeof(f->path), "%s/%s", f->dir, name);
	return access(path, F_OK) ? NULL : path;
}

/* The first line of a file. */
static int read_line(const char *path, char *ret, size_t size, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	int rc = rut_buf_read_file(&b, path, FILE_MAX);

	if (rc)
		return rut_err_errno(err, -rc, "cannot read '%s'", path);
	if (b.failed || !b.len)
		return rut_err_set(err, EINVAL, "'%s' is empty", path);
	b.data[strcspn(b.data, "\r\n")] = '\0';
	if ((size_t)snprintf(ret, size, "%s", b.data) >= size)
		return rut_err_set(err, EINVAL, "the line in '%s' is too long", path);
	return 0;
}

/* Files with secrets are for their owner alone. */
static int check_secret(const char *path, struct rut_err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return rut_err_errno(err, errno, "cannot read '%s'", path);
	if (st.st_mode & (S_IRWXO | S_IWGRP))
		return rut_err_set(err, EPERM, "others may read '%s': chmod 600 it", path);
	return 0;
}

static int set_user(natsOptions *o, const char *path, struct rut_err *err)
{
	char line[512], *colon;
	int rc = check_secret(path, err);
	natsStatus st;

	if (!rc)
		rc = read_line(path, line, sizeof(line), err);
	if (rc)
		return rc;
	colon = strchr(line, ':');
	if (!colon)
		return rut_err_set(err, EINVAL, "'%s' has no line USER:PASSWORD", path);
	*colon = '\0';
	st = rut_nats.natsOptions_SetUserInfo(o, line, colon + 1);
	explicit_bzero(line, sizeof(line));
	return st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot use the user's name");
}

static int set_nkey(natsOptions *o, struct files *f, struct rut_err *err)
{
	char key[128];
	int rc = check_secret(f->path, err);
	natsStatus st;

	if (rc)
		return rc;
	if (!file(f, "nats.pub", f->second))
		return rut_err_set(err, ENOENT,
				   "beside '%s' there is no 'nats.pub' with its public key",
				   f->path);
	rc = read_line(f->second, key, sizeof(key), err);
	if (rc)
		return rc;
	st = rut_nats.natsOptions_SetNKeyFromSeed(o, key, f->path);
	return st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot use the key");
}

/* Our identity. */
static int set_identity(natsOptions *o, struct files *f, struct rut_err *err)
{
	natsStatus st = NATS_OK;
	int rc;

	if (file(f, "nats.creds", f->path)) {
		rc = check_secret(f->path, err);
		if (!rc)
			st = rut_nats.natsOptions_SetUserCredentialsFromFiles(o, f->path, NULL);
		return rc	       ? rc
		       : st == NATS_OK ? 0
				       : rut_nats_error(err, st, "cannot use the credentials");
	}
	if (file(f, "nats.nk", f->path))
		return set_nkey(o, f, err);
	if (file(f, "nats.user", f->path))
		return set_user(o, f->path, err);
	return 0;
}

static int set_tls(natsOptions *o, struct files *f, struct rut_err *err)
{
	natsStatus st = rut_nats.natsOptions_SetSecure(o, true);

	if (st == NATS_OK && file(f, "ca.pem", f->path))
		st = rut_nats.natsOptions_LoadCATrustedCertificates(o, f->path);
	if (st == NATS_OK && file(f, "cert.pem", f->path) && file(f, "key.pem", f->second))
		st = rut_nats.natsOptions_LoadCertificatesChain(o, f->path, f->second);
	return st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot use the certificates");
}

int rut_nats_error(struct rut_err *err, natsStatus st, const char *what)
{
	const int code = st == NATS_TIMEOUT		     ? ETIMEDOUT
			 : st == NATS_NOT_PERMITTED	     ? EACCES
			 : st == NATS_CONNECTION_AUTH_FAILED ? EACCES
			 : st == NATS_NOT_FOUND		     ? ENOENT
			 : st == NATS_NO_RESPONDERS	     ? ENOENT
			 : st == NATS_NO_SERVER		     ? ECONNREFUSED
			 : st == NATS_IO_ERROR		     ? ECONNRESET
			 : st == NATS_CONNECTION_CLOSED	     ? ECONNRESET
							     : EIO;

	const char *text = rut_nats.natsStatus_GetText(st),
		   *more = rut_nats.nats_GetLastError(NULL), *behind;

	/* The library begins it with a place in its source: "(conn.c:1234): ". */
	behind = more && more[0] == '(' ? strstr(more, "): ") : NULL;
	more = behind ? behind + 3 : more;
	return rut_err_set(err, code,
			   more && more[0] && strcmp(more, text) != 0 ? "%s: %s (%s)" : "%s: %s",
			   what, text, more);
}

/* Without a handler the library prints on standard error. */
static void ignore(natsConnection *nc, natsSubscription *sub, natsStatus st, void *arg)
{
	(void)nc;
	(void)sub;
	(void)st;
	(void)arg;
}

static int set_options(natsOptions *o, const struct rut_nats_conn_conf *conf, struct rut_err *err)
{
	struct files f = {.dir = conf->dir ? conf->dir : RUT_TLS_DIR};
	const char *servers[RUT_NATS_SERVERS];
	natsStatus st;
	int rc;

	for (size_t i = 0; i < conf->url->n_servers; i++)
		servers[i] = conf->url->servers[i];
	st = rut_nats.natsOptions_SetServers(o, servers, (int)conf->url->n_servers);
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetTimeout(o, conf->timeout_ms);
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetName(o, "rutile");
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetAllowReconnect(o, conf->reconnect);
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetMaxReconnect(o, -1);
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetReconnectWait(o, 500);
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetPingInterval(o, PING_MS);
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetMaxPingsOut(o, 3);
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetWriteDeadline(o, conf->timeout_ms);
	if (st == NATS_OK)
		st = rut_nats.natsOptions_SetErrorHandler(o, ignore, NULL);
	if (st != NATS_OK)
		return rut_nats_error(err, st, "cannot use the address");
	if (conf->dir && access(conf->dir, R_OK | X_OK) < 0)
		return rut_err_errno(err, errno, "cannot read the directory '%s'", conf->dir);
	rc = conf->url->tls ? set_tls(o, &f, err) : 0;
	return rc ? rc : set_identity(o, &f, err);
}

int rut_nats_connect(natsConnection **ret, const struct rut_nats_conn_conf *conf,
		     struct rut_err *err)
{
	natsOptions *o = NULL;
	natsStatus st;
	int rc = rut_nats_load(err);

	if (rc)
		return rc;
	if (rut_nats.natsOptions_Create(&o) != NATS_OK)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = set_options(o, conf, err);
	if (!rc) {
		char what[400];

		snprintf(what, sizeof(what), "cannot connect to '%s'%s", conf->url->servers[0],
			 conf->url->n_servers > 1 ? " and the others" : "");
		st = rut_nats.natsConnection_Connect(ret, o);
		rc = st == NATS_OK ? 0 : rut_nats_error(err, st, what);
	}
	rut_nats.natsOptions_Destroy(o);
	return rc;
}

int rut_nats_publish(const char *url, const char *dir, const char *data, size_t len,
		     struct rut_err *err)
{
	const char *authority = strstr(url, "://"), *slash;
	struct rut_nats_conn_conf conf = {.dir = dir, .timeout_ms = PING_MS};
	_cleanup_free_ char *servers = NULL;
	natsConnection *nc = NULL;
	struct rut_nats_url to;
	natsStatus st;
	int rc;

	slash = authority ? strchr(authority + 3, '/') : NULL;
	if (!slash || !slash[1] || strpbrk(slash + 1, " *>/\t"))
		return rut_err_set(err, EINVAL, "no subject in '%s': nats://HOST/SUBJECT", url);
	servers = strndup(url, (size_t)(slash - url));
	if (!servers)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = rut_nats_url_parse(servers, &to, err);
	conf.url = &to;
	if (!rc)
		rc = rut_nats_connect(&nc, &conf, err);
	if (rc)
		return rc;
	st = rut_nats.natsConnection_Publish(nc, slash + 1, data, (int)len);
	if (st == NATS_OK)
		st = rut_nats.natsConnection_FlushTimeout(nc, PING_MS);
	/* A subject without the right to it is refused afterwards. */
	if (st == NATS_OK) {
		const char *last = NULL;

		st = rut_nats.natsConnection_GetLastError(nc, &last);
	}
	rc = st == NATS_OK ? 0 : rut_nats_error(err, st, "cannot publish");
	rut_nats.natsConnection_Close(nc);
	rut_nats.natsConnection_Destroy(nc);
	return rc;
}

void rut_nats_host(char *ret, size_t size)
{
	if (gethostname(ret, size - 1) < 0 || !ret[0])
		snprintf(ret, size, "localhost");
	ret[size - 1] = '\0';
}
