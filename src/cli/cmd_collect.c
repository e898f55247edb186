/* SPDX-License-Identifier: MIT */
/* `rutile collect`: receives traces from other machines. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "stream/collect.h"
#include "stream/conn.h"
#include "stream/nats_collect.h"

enum {
	OPT_LISTEN = 256,
	OPT_BYTES,
	OPT_RATE,
	OPT_STREAMS,
	OPT_SESSIONS,
	OPT_FREE,
	OPT_TIME,
	OPT_TLS,
	OPT_GROUP,
	OPT_REPLICAS,
	OPT_STREAM_SIZE,
	OPT_ACK,
	OPT_LIVE,
	OPT_NO_CLEAR
};

static const struct rut_opt options[] = {
	{"listen", "ADDR",
	 "[HOST][:PORT[:DATAPORT]], * for all addresses (default: 127.0.0.1, all with --tls; 5342)",
	 OPT_LISTEN},
	{"live", "ADDR",
	 "serve viewers: [HOST][:PORT], * for all addresses (without HOST 127.0.0.1; 5344)",
	 OPT_LIVE},
	{"tls", "DIR",
	 "require TLS, with cert.pem and key.pem of DIR; with ca.pem also client certificates",
	 OPT_TLS},
	{"max-bytes", "SIZE", "limit of bytes from one client (default: none)", OPT_BYTES},
	{"max-rate", "SIZE", "bytes a second from one connection (default: no limit)", OPT_RATE},
	{"max-streams", "N", "streams of a session (default 4096)", OPT_STREAMS},
	{"max-sessions", "N", "sessions of one client at a time (default 64)", OPT_SESSIONS},
	{"min-free", "SIZE", "refuse data when the disk has less free space (default 64M)",
	 OPT_FREE},
	{"message-time", "TIME", "time limit for a message, plus 16 s for each MiB (default 30s)",
	 OPT_TIME},
	{"disallow-clear", NULL, "do not delete what was received when a sender clears its session",
	 OPT_NO_CLEAR},
	{"group", "NAME", "NATS: collectors with the same NAME share the work (default collect)",
	 OPT_GROUP},
	{"replicas", "N", "NATS: replicas of a newly created stream (default 1)", OPT_REPLICAS},
	{"stream-size", "SIZE", "NATS: size limit of a newly created stream (default: none)",
	 OPT_STREAM_SIZE},
	{"ack-time", "TIME", "NATS: redeliver a message not acknowledged in TIME (default 30s)",
	 OPT_ACK},
	{0},
};

static volatile sig_atomic_t stop_signal;

static void on_stop(int sig)
{
	stop_signal = sig;
}

struct collect {
	struct rut_collect_conf conf;
	struct rut_nats_collect_conf nats; /* its limits, directory and TLS are in conf */
	bool is_nats;
	uint32_t given; /* options, from OPT_LISTEN on: a bit each */
	char address[256], live_address[256];
	bool all; /* addresses, by "*" */
};

/* The address is that of a URL without its scheme; the host may be missing. */
static int set_listen(const struct rut_cmd *cmd, struct collect *c, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_url url;
	char text[320];

	snprintf(text, sizeof(text), "relay://%s%.280s", *value == ':' ? "*" : "", value);
	if (strlen(value) > 280 || rut_url_parse(text, &url, &err) < 0 || url.session[0])
		return rut_cli_usage_error(cmd, "invalid address '%s': [HOST][:PORT[:DATAPORT]]",
					   value);
	c->conf.port = url.port;
	c->conf.data_port = url.data_port;
	snprintf(c->address, sizeof(c->address), "%s", url.host);
	c->all = *value == '*';
	c->conf.address = strcmp(url.host, "*") ? c->address : NULL;
	return 0;
}

/* Whoever reaches that port can read: all addresses must be asked for. */
static int set_live(const struct rut_cmd *cmd, struct collect *c, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_live_url url;
	char text[320];

	snprintf(text, sizeof(text), "relay://%s%.280s", *value == ':' ? "127.0.0.1" : "", value);
	if (strlen(value) > 280 || rut_live_url_parse(text, &url, &err) < 0 || url.session[0])
		return rut_cli_usage_error(cmd, "invalid address '%s': [HOST][:PORT]", value);
	c->conf.live = true;
	c->conf.live_port = url.port;
	snprintf(c->live_address, sizeof(c->live_address), "%s", url.host);
	c->conf.live_address = strcmp(url.host, "*") ? c->live_address : NULL;
	return 0;
}

static int set_count(const struct rut_cmd *cmd, const char *value, uint32_t *ret)
{
	uint64_t n;

	if (rut_parse_u64(value, &n) < 0 || !n || n > 1000000)
		return rut_cli_usage_error(cmd, "invalid number '%s'", value);
	*ret = (uint32_t)n;
	return 0;
}

static int set_option(const struct rut_cmd *cmd, struct collect *c, int id, const char *value)
{
	struct rut_store_limits *l = &c->conf.limits;
	uint64_t ns, *size = id == OPT_BYTES  ? &l->bytes
			     : id == OPT_RATE ? &l->rate
			     : id == OPT_FREE ? &l->free_bytes
					      : &c->nats.stream_bytes;

	switch (id) {
	case OPT_LISTEN:
		return set_listen(cmd, c, value);
	case OPT_LIVE:
		return set_live(cmd, c, value);
	case OPT_TIME:
		if (rut_parse_duration(value, &ns) < 0 || ns < 1000000 || ns > 86400000000000ull)
			return rut_cli_usage_error(cmd, "invalid time '%s'", value);
		c->conf.message_ms = (int)(ns / 1000000);
		return 0;
	case OPT_TLS:
		c->conf.tls = value;
		return 0;
	case OPT_NO_CLEAR:
		l->no_clear = true;
		return 0;
	case OPT_GROUP:
		c->nats.group = value;
		return 0;
	case OPT_REPLICAS:
		return set_count(cmd, value, &c->nats.replicas);
	case OPT_ACK:
		return rut_parse_duration(value, &c->nats.ack_wait_ns) < 0 ||
				       c->nats.ack_wait_ns < 1000000
			       ? rut_cli_usage_error(cmd, "invalid time '%s'", value)
			       : 0;
	case OPT_STREAMS:
		return set_count(cmd, value, &l->streams);
	case OPT_SESSIONS:
		return set_count(cmd, value, &l->sessions);
	default:
		return rut_parse_size(value, size) < 0
			       ? rut_cli_usage_error(cmd, "invalid size '%s'", value)
			       : 0;
	}
}

static int set_stream(const struct rut_cmd *cmd, struct collect *c, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_url url;

	if (rut_url_parse(value, &url, &err) < 0)
		return rut_cli_usage_error(cmd, "%s", err.msg);
	c->nats.url = url.nats_url;
	c->is_nats = true;
	return 0;
}

/* Does the option mean nothing for what is received? */
static bool is_foreign(int id, bool is_nats)
{
	switch (id) {
	case OPT_LISTEN:
	case OPT_LIVE:
	case OPT_RATE:
	case OPT_STREAMS:
	case OPT_SESSIONS:
	case OPT_TIME:
	case OPT_NO_CLEAR:
		return is_nats;
	case OPT_GROUP:
	case OPT_REPLICAS:
	case OPT_STREAM_SIZE:
	case OPT_ACK:
		return !is_nats;
	default:
		return false;
	}
}

/* Such an option is refused: a limit that limits nothing is a trap. */
static int check_options(const struct rut_cmd *cmd, const struct collect *c)
{
	for (const struct rut_opt *o = options; o->name; o++)
		if (c->given & 1u << (o->id - OPT_LISTEN) && is_foreign(o->id, c->is_nats))
			return rut_cli_usage_error(cmd, "--%s is %s", o->name,
						   c->is_nats ? "not for NATS" : "for NATS only");
	return 0;
}

static int parse(const struct rut_cmd *cmd, struct collect *c, int argc, char **argv)
{
	struct rut_args a;
	int id, rc;

	rut_cli_args_init(&a, cmd, argc, argv);
	while ((id = rut_cli_args_next(&a)) != RUT_ARGS_END) {
		if (id == RUT_ARGS_HELP)
			return -1;
		if (id == RUT_ARGS_BAD)
			return RUT_EXIT_USAGE;
		if (id == RUT_ARGS_DASHES)
			continue;
		if (id == RUT_ARGS_POSITIONAL && !c->is_nats && rut_nats_url_is(a.value)) {
			rc = set_stream(cmd, c, a.value);
			if (rc)
				return rc;
			continue;
		}
		if (id == RUT_ARGS_POSITIONAL && c->conf.dir)
			return rut_cli_usage_error(cmd, "one directory only, not '%s' too",
						   a.value);
		if (id == RUT_ARGS_POSITIONAL) {
			c->conf.dir = a.value;
			continue;
		}
		rc = set_option(cmd, c, id, a.value);
		if (rc)
			return rc;
		c->given |= 1u << (id - OPT_LISTEN);
	}
	rc = check_options(cmd, c);
	if (rc)
		return rc;
	/* Clear text from anywhere must be asked for. */
	if (!c->conf.address && !c->all && !c->conf.tls)
		c->conf.address = "127.0.0.1";
	return c->conf.dir ? 0 : rut_cli_usage_error(cmd, "the directory is missing");
}

static void warn_of_clients(const struct collect *c)
{
	char path[512];

	if (!c->conf.tls)
		return;
	snprintf(path, sizeof(path), "%s/ca.pem", c->conf.tls);
	if (access(path, F_OK) < 0)
		fprintf(stderr, "rutile collect: there is no '%s': clients are not authenticated\n",
			path);
}

/* Each stream is an open file. */
static void raise_files(void)
{
	struct rlimit l;

	if (!getrlimit(RLIMIT_NOFILE, &l)) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

static int run_nats(const struct rut_cmd *cmd, struct collect *c)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_nats_collect *server = NULL;
	struct rut_nats_store_stats st;
	int rc;

	c->nats.dir = c->conf.dir;
	c->nats.tls = c->conf.tls;
	c->nats.limits = c->conf.limits;
	rc = rut_nats_collect_new(&server, &c->nats, &err);
	if (rc)
		return rut_cli_fail(cmd, &err);
	fprintf(stderr, "rutile collect: receiving from the stream '%s' of %s\n",
		c->nats.url.stream, c->nats.url.servers[0]);
	while (!stop_signal && !rc)
		rc = rut_nats_collect_step(server, 500, &err);
	rut_nats_collect_stats(server, &st);
	rut_nats_collect_free(server);
	if (rc)
		return rut_cli_fail(cmd, &err);
	fprintf(stderr, "rutile collect: %llu packets, %.1f MiB, %llu duplicates dropped\n",
		(unsigned long long)st.packets, (double)st.bytes / 1048576,
		(unsigned long long)st.duplicates);
	return RUT_EXIT_OK;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	struct collect c = {.conf = {.port = RUT_RELAY_PORT_CTL,
				     .data_port = RUT_RELAY_PORT_DATA,
				     .limits = {.streams = 4096,
						.sessions = 64,
						.connections = 256,
						.free_bytes = 64ull << 20}},
			    .nats = {.replicas = 1, .ack_wait_ns = 30000000000ull}};
	struct sigaction stop = {.sa_handler = on_stop};
	struct rut_err err = RUT_ERR_INIT;
	struct rut_collect *server = NULL;
	struct rut_store_stats st;
	int rc = parse(cmd, &c, argc, argv);

	if (rc)
		return rc < 0 ? RUT_EXIT_OK : rc;
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	signal(SIGPIPE, SIG_IGN);
	raise_files();
	if (c.is_nats)
		return run_nats(cmd, &c);
	rc = rut_collect_new(&server, &c.conf, &err);
	if (rc)
		return rut_cli_fail(cmd, &err);
	warn_of_clients(&c);
	fprintf(stderr, "rutile collect: listening on %s, port %u\n",
		c.conf.address ? c.conf.address : "all addresses", c.conf.port);
	while (!stop_signal && !rc)
		rc = rut_collect_step(server, 200, &err);
	rut_collect_stats(server, &st);
	rut_collect_free(server);
	if (rc)
		return rut_cli_fail(cmd, &err);
	fprintf(stderr, "rutile collect: %llu sessions, %llu packets, %.1f MiB\n",
		(unsigned long long)st.sessions, (unsigned long long)st.packets,
		(double)st.bytes / 1048576);
	return RUT_EXIT_OK;
}

const struct rut_cmd cmd_collect = {
	.name = "collect",
	.group = "Record",
	.summary = "receive traces that other machines send",
	.usage = "[OPTIONS] [nats://HOST[:PORT][,HOST...]/STREAM] DIR",
	.options = options,
	.run = run,
};
