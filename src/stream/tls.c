/* SPDX-License-Identifier: MIT */
#include "stream/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

struct rut_tls_conf {
	SSL_CTX *ctx; /* owned */
	bool server;
};

struct rut_tls {
	SSL *ssl; /* owned */
	bool server;
};

/* The innermost reason that OpenSSL has, and an empty queue of them. */
static const char *reason(void)
{
	unsigned long code = ERR_peek_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return text ? text : "unknown error";
}

static bool exists(const char *dir, const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", dir, name);
	return !access(path, F_OK);
}

static int load_own(struct rut_tls_conf *c, const char *dir, struct rut_err *err)
{
	char path[512];

	if (!exists(dir, "cert.pem", path, sizeof(path)))
		return c->server ? rut_err_set(err, ENOENT, "there is no '%s'", path) : 0;
	if (SSL_CTX_use_certificate_chain_file(c->ctx, path) != 1)
		return rut_err_set(err, EINVAL, "cannot read '%s': %s", path, reason());
	snprintf(path, sizeof(path), "%s/key.pem", dir);
	if (SSL_CTX_use_PrivateKey_file(c->ctx, path, SSL_FILETYPE_PEM) != 1)
		return rut_err_set(err, EINVAL, "cannot read '%s': %s", path, reason());
	return 0;
}

static int load_trusted(struct rut_tls_conf *c, const char *dir, struct rut_err *err)
{
	X509_STORE *store = SSL_CTX_get_cert_store(c->ctx);
	char path[512];

	if (!exists(dir, "ca.pem", path, sizeof(path))) {
		if (!c->server)
			SSL_CTX_set_default_verify_paths(c->ctx);
		SSL_CTX_set_verify(c->ctx, c->server ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
		return 0;
	}
	if (SSL_CTX_load_verify_locations(c->ctx, path, NULL) != 1)
		return rut_err_set(err, EINVAL, "cannot read '%s': %s", path, reason());
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	if (!exists(dir, "crl.pem", path, sizeof(path)))
		return 0;
	if (X509_load_crl_file(X509_STORE_add_lookup(store, X509_LOOKUP_file()), path,
			       X509_FILETYPE_PEM) < 1)
		return rut_err_set(err, EINVAL, "cannot read '%s': %s", path, reason());
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
	return 0;
}

int rut_tls_conf_new(struct rut_tls_conf **ret, const char *dir, bool server, struct rut_err *err)
{
	struct rut_tls_conf *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return rut_err_set(err, ENOMEM, "out of memory");
	c->server = server;
	c->ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
	if (!c->ctx) {
		free(c);
		return rut_err_set(err, ENOMEM, "cannot use TLS: %s", reason());
	}
	SSL_CTX_set_min_proto_version(c->ctx, TLS1_2_VERSION);
	SSL_CTX_set_mode(c->ctx,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* Sessions are long: none is resumed, and renegotiation is an invitation. */
	SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(c->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	rc = load_own(c, dir, err);
	if (!rc)
		rc = load_trusted(c, dir, err);
	if (rc)
		rut_tls_conf_free(c);
	else
		*ret = c;
	return rc;
}

void rut_tls_conf_free(struct rut_tls_conf *c)
{
	if (!c)
		return;
	SSL_CTX_free(c->ctx);
	free(c);
}

/* A name, or an address. */
static bool expect_host(SSL *ssl, const char *host)
{
	unsigned char address[16];

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

struct rut_tls *rut_tls_new(struct rut_tls_conf *c, int fd, const char *host)
{
	struct rut_tls *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->server = c->server;
	t->ssl = SSL_new(c->ctx);
	if (!t->ssl || SSL_set_fd(t->ssl, fd) != 1 || (!c->server && !expect_host(t->ssl, host))) {
		rut_tls_free(t);
		return NULL;
	}
	if (c->server)
		SSL_set_accept_state(t->ssl);
	else
		SSL_set_connect_state(t->ssl);
	return t;
}

void rut_tls_free(struct rut_tls *t)
{
	if (!t)
		return;
	/* Confirms to the peer that nothing was cut off. */
	if (t->ssl && SSL_is_init_finished(t->ssl))
		SSL_shutdown(t->ssl);
	SSL_free(t->ssl);
	ERR_clear_error();
	free(t);
}

int rut_tls_handshake(struct rut_tls *t, bool *ret_write, struct rut_err *err)
{
	long verified;
	int rc, what;

	*ret_write = false;
	ERR_clear_error();
	rc = SSL_do_handshake(t->ssl);
	if (rc == 1)
		return 0;
	what = SSL_get_error(t->ssl, rc);
	if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) {
		*ret_write = what == SSL_ERROR_WANT_WRITE;
		return -EAGAIN;
	}
	verified = SSL_get_verify_result(t->ssl);
	if (verified != X509_V_OK)
		return rut_err_set(err, EACCES, "the certificate is refused: %s",
				   X509_verify_cert_error_string(verified));
	return rut_err_set(err, EACCES, "the TLS handshake failed: %s",
			   what == SSL_ERROR_SSL ? reason() : "the connection was closed");
}

/* What a call that returned `rc` means. */
static ssize_t result(const struct rut_tls *t, int rc)
{
	int saved = errno;

	if (rc > 0)
		return rc;
	switch (SSL_get_error(t->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return saved ? -saved : -ECONNRESET;
	default:
		/* With TLS 1.3 the peer checks our certificate after the handshake. */
		return strstr(reason(), "alert") ? -EKEYREJECTED : -ECONNRESET;
	}
}

static int limited(size_t len)
{
	return len < (1u << 30) ? (int)len : 1 << 30;
}

ssize_t rut_tls_read(struct rut_tls *t, void *data, size_t len)
{
	ERR_clear_error();
	errno = 0;
	return result(t, SSL_read(t->ssl, data, limited(len)));
}

ssize_t rut_tls_write(struct rut_tls *t, const void *data, size_t len)
{
	ERR_clear_error();
	errno = 0;
	return result(t, SSL_write(t->ssl, data, limited(len)));
}

bool rut_tls_pending(const struct rut_tls *t)
{
	return SSL_pending(t->ssl) > 0;
}

bool rut_tls_certified(const struct rut_tls *t)
{
	return SSL_get0_peer_certificate(t->ssl) != NULL;
}

bool rut_tls_is_host(const struct rut_tls *t, const char *host)
{
	X509 *cert = SSL_get0_peer_certificate(t->ssl);

	return cert &&
	       (X509_check_host(cert, host, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1 ||
		X509_check_ip_asc(cert, host, 0) == 1);
}
