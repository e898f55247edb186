/* SPDX-License-Identifier: MIT */
/*
 * mod_rutile: Apache httpd fires a trigger of rutile for slow requests, when they have been
 *answered.
 *
 *	LoadModule rutile_module .../mod_rutile.so
 *	RutileTrigger web            the trigger's name; or the path of its socket
 *	RutileSlowRequest 500ms      in the server, a virtual host or a location; "off"
 *	RutileRate 10                firings a second and process, at most (default)
 *	RutileQuery on               the URI with its query (default: off)
 *
 * A firing is one datagram, which never waits and never forks. Its values, and the line in the
 *error log, are the request's method, URI, status, duration, process, thread and identifiers.
 */
#include <httpd.h> /* before the others, which need it */

#include <http_config.h>
#include <http_core.h>
#include <http_log.h>
#include <http_protocol.h>

#include <apr_atomic.h>
#include <apr_optional.h>
#include <apr_strings.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKETS "/run/rutile/trigger"

enum { OFF = -1, UNSET = 0, VALUE_MAX = 1000 };

extern module AP_MODULE_DECLARE_DATA rutile_module;
APLOG_USE_MODULE(rutile);

/* Of a server, and of a location: UNSET and NULL are taken from what is around it. */
struct conf {
	apr_interval_time_t slow; /* microseconds; OFF */
	const char *trigger;
	int query; /* 1: on, OFF: off */
	int rate;  /* of the server only */
};

/* Of this process. */
static int fd = -1;
static volatile apr_uint32_t second, sent;

/* ---- Configuration ---- */

static void *create(apr_pool_t *pool)
{
	return apr_pcalloc(pool, sizeof(struct conf));
}

static void *create_dir(apr_pool_t *pool, char *dir)
{
	(void)dir;
	return create(pool);
}

static void *create_server(apr_pool_t *pool, server_rec *server)
{
	(void)server;
	return create(pool);
}

static void *merge(apr_pool_t *pool, void *outer, void *inner)
{
	const struct conf *a = outer, *b = inner;
	struct conf *c = create(pool);

	c->slow = b->slow ? b->slow : a->slow;
	c->trigger = b->trigger ? b->trigger : a->trigger;
	c->query = b->query ? b->query : a->query;
	c->rate = b->rate ? b->rate : a->rate;
	return c;
}

/* Directives outside of any location are the server's. */
static struct conf *conf_of(cmd_parms *cmd, void *dir)
{
	return cmd->path ? dir : ap_get_module_config(cmd->server->module_config, &rutile_module);
}

static const char *set_slow(cmd_parms *cmd, void *dir, const char *arg)
{
	struct conf *c = conf_of(cmd, dir);
	apr_interval_time_t time;

	if (!ap_cstr_casecmp(arg, "off")) {
		c->slow = OFF;
		return NULL;
	}
	if (ap_timeout_parameter_parse(arg, &time, "s") != APR_SUCCESS || time <= 0)
		return apr_psprintf(cmd->pool, "invalid time '%s': 500ms, 2s, or off", arg);
	c->slow = time;
	return NULL;
}

static const char *set_trigger(cmd_parms *cmd, void *dir, const char *arg)
{
	const struct sockaddr_un *room = NULL;
	const char *path = arg[0] == '/' ? arg : apr_pstrcat(cmd->pool, SOCKETS "/", arg, NULL);

	if (strlen(path) >= sizeof(room->sun_path) || (arg[0] != '/' && strchr(arg, '/')))
		return apr_psprintf(cmd->pool, "invalid trigger name '%s'", arg);
	conf_of(cmd, dir)->trigger = path;
	return NULL;
}

static const char *set_query(cmd_parms *cmd, void *dir, int on)
{
	conf_of(cmd, dir)->query = on ? 1 : OFF;
	return NULL;
}

static const char *set_rate(cmd_parms *cmd, void *dir, const char *arg)
{
	int rate = atoi(arg);

	(void)dir;
	if (rate < 1 || rate > 100000)
		return apr_psprintf(cmd->pool, "invalid number of firings a second '%s'", arg);
	conf_of(cmd, dir)->rate = rate;
	return NULL;
}

static const command_rec commands[] = {
	AP_INIT_TAKE1("RutileSlowRequest", set_slow, NULL, RSRC_CONF | ACCESS_CONF,
		      "requests that take longer fire the trigger: 500ms, 2s, off"),
	AP_INIT_TAKE1("RutileTrigger", set_trigger, NULL, RSRC_CONF | ACCESS_CONF,
		      "the name of the trigger, or the path of its socket"),
	AP_INIT_FLAG("RutileQuery", set_query, NULL, RSRC_CONF | ACCESS_CONF,
		     "whether the trigger gets the query of the URI"),
	AP_INIT_TAKE1("RutileRate", set_rate, NULL, RSRC_CONF,
		      "firings a second of one process, at most"),
	{NULL},
};

/* ---- Firing ---- */

/* What would end a value, or the message, is escaped as in a URI. */
static const char *value(apr_pool_t *pool, const char *s)
{
	static const char hex[] = "0123456789ABCDEF";
	char *out, *to;
	size_t len;

	if (!s || !*s)
		return "-";
	len = strnlen(s, VALUE_MAX);
	out = to = apr_palloc(pool, 3 * len + 1);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c > ' ' && c < 0x7f) {
			*to++ = (char)c;
			continue;
		}
		*to++ = '%';
		*to++ = hex[c >> 4];
		*to++ = hex[c & 15];
	}
	*to = 0;
	return out;
}

/* At most so many in each second of the clock. */
static int may_fire(apr_time_t now, int rate)
{
	apr_uint32_t this = (apr_uint32_t)apr_time_sec(now), last = apr_atomic_read32(&second);

	if (this != last && apr_atomic_cas32(&second, this, last) == last)
		apr_atomic_set32(&sent, 0);
	return apr_atomic_inc32(&sent) < (apr_uint32_t)rate;
}

/* NULL, or why not. */
static const char *fire(request_rec *r, const char *path, const char *message)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	if (fd < 0)
		return "no socket";
	apr_cpystrn(to.sun_path, path, sizeof(to.sun_path));
	if (sendto(fd, message, strlen(message), MSG_DONTWAIT | MSG_NOSIGNAL, (void *)&to,
		   sizeof(to)) < 0)
		return errno == EAGAIN ? "it is flooded" : apr_pstrdup(r->pool, strerror(errno));
	return NULL;
}

static int after_request(request_rec *r)
{
	const struct conf *server = ap_get_module_config(r->server->module_config, &rutile_module);
	const struct conf *dir = ap_get_module_config(r->per_dir_config, &rutile_module);
	apr_interval_time_t slow = dir->slow ? dir->slow : server->slow;
	const char *trigger, *message, *why;
	apr_interval_time_t lasted;
	apr_time_t now;
	int query;

	if (slow <= 0)
		return DECLINED;
	now = apr_time_now();
	lasted = now - r->request_time;
	if (lasted < slow)
		return DECLINED;
	if (!may_fire(now, server->rate ? server->rate : 10))
		return DECLINED;
	trigger = dir->trigger ? dir->trigger : server->trigger;
	query = dir->query ? dir->query : server->query;
	message = apr_psprintf(r->pool,
			       "fire method=%s uri=%s status=%d duration_us=%" APR_TIME_T_FMT
			       " pid=%d tid=%ld host=%s id=%s traceparent=%s",
			       value(r->pool, r->method),
			       value(r->pool, query > 0 ? r->unparsed_uri : r->uri), r->status,
			       lasted, (int)getpid(), syscall(SYS_gettid),
			       value(r->pool, r->server->server_hostname),
			       value(r->pool, apr_table_get(r->subprocess_env, "UNIQUE_ID")),
			       value(r->pool, apr_table_get(r->headers_in, "traceparent")));
	why = trigger ? fire(r, trigger, message) : "no RutileTrigger";
	ap_log_rerror(APLOG_MARK, APLOG_WARNING, 0, r, "slow request: %s%s%s", message + 5,
		      why ? "; cannot fire the trigger: " : "", why ? why : "");
	return DECLINED;
}

static apr_status_t close_fd(void *unused)
{
	(void)unused;
	if (fd >= 0)
		close(fd);
	fd = -1;
	return APR_SUCCESS;
}

static void begin_process(apr_pool_t *pool, server_rec *server)
{
	(void)server;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	apr_pool_cleanup_register(pool, NULL, close_fd, apr_pool_cleanup_null);
}

static void register_hooks(apr_pool_t *pool)
{
	(void)pool;
	ap_hook_child_init(begin_process, NULL, NULL, APR_HOOK_MIDDLE);
	ap_hook_log_transaction(after_request, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA rutile_module = {
	STANDARD20_MODULE_STUFF, create_dir, merge, create_server, merge, commands, register_hooks,
};
