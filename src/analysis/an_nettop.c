/* SPDX-License-Identifier: MIT */
/*
 * nettop: the peers of processes, the bytes, and the latency of answers.
 *
 * A peer is the address that a socket was connected to or accepted from; sockets of which neither
 * is in the trace are "socket", or what the statedump calls them. An answer is the first that is
 * received on a socket after something was sent: the time is from the begin of the first send to
 * the end of the receive. For a peer at port 53 that is the latency of DNS. A connect that does not
 * wait (EINPROGRESS) ends with the first transfer on the socket.
 */
#include "analysis/engine.h"
#include "analysis/fmt.h"
#include "analysis/ordered.h"
#include "analysis/stats.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct peer {
	const char *name; /* interned */
	bool is_init;
	int64_t bytes[2]; /* received, sent */
	uint64_t accepts;
	struct rut_stat connect, answer;
	uint64_t failed; /* connects */
};

/* What is under way on a socket. */
struct talk {
	bool sent, connecting;
	int64_t sent_ns, connect_ns;
};

struct iface {
	const char *name;
	int64_t bytes[2], packets[2];
};

struct nettop {
	struct rut_instance base;
	struct rut_ordered peers;  /* address of the name -> struct peer */
	struct rut_ordered ifaces; /* address of the name -> struct iface */
	struct rut_map talks;	   /* process and descriptor -> struct talk, owned */
};

static const struct rut_lami_column peer_columns[] = {
	{"peer", "Peer", RUT_LAMI_STRING, NULL},
	{"received", "Received", RUT_LAMI_SIZE, NULL},
	{"sent", "Sent", RUT_LAMI_SIZE, NULL},
	{"accepts", "Accepted", RUT_LAMI_NUMBER, "connections"},
	{"connects", "Connects", RUT_LAMI_NUMBER, "connections"},
	{"failed", "Failed connects", RUT_LAMI_NUMBER, "connections"},
	{"connect_avg", "Average connect", RUT_LAMI_DURATION, NULL},
	{"connect_max", "Maximum connect", RUT_LAMI_DURATION, NULL},
	{"answers", "Answers", RUT_LAMI_NUMBER, "answers"},
	{"answer_avg", "Average answer", RUT_LAMI_DURATION, NULL},
	{"answer_max", "Maximum answer", RUT_LAMI_DURATION, NULL},
};

static const struct rut_lami_column iface_columns[] = {
	{"iface", "Interface", RUT_LAMI_NETIF, NULL},
	{"received", "Received", RUT_LAMI_SIZE, NULL},
	{"received_packets", "Packets received", RUT_LAMI_NUMBER, "packets"},
	{"sent", "Sent", RUT_LAMI_SIZE, NULL},
	{"sent_packets", "Packets sent", RUT_LAMI_NUMBER, "packets"},
};

static const struct rut_lami_class peer_class =
	RUT_LAMI_CLASS("per-peer", "Traffic by peer", peer_columns);
static const struct rut_lami_class iface_class =
	RUT_LAMI_CLASS("per-iface", "Traffic by network interface", iface_columns);

static void out_of_memory(struct nettop *n)
{
	n->base.run->engine->state.failed = true;
}

static struct peer *get_peer(struct nettop *n, const char *name)
{
	struct peer *p = rut_an_ordered_add(&n->peers, (uintptr_t)name, sizeof(*p));

	if (!p) {
		out_of_memory(n);
		return NULL;
	}
	if (!p->is_init) {
		p->is_init = true;
		p->name = name;
		(void)rut_an_stat_init(&p->connect, 0);
		(void)rut_an_stat_init(&p->answer, 0);
	}
	return p;
}

/* A descriptor of a process; both are below 2^32. */
static uint64_t talk_key(const struct rut_thread *leader, int64_t fd)
{
	return ((uint64_t)leader->tid << 32 | (uint32_t)fd) + 1;
}

static struct talk *get_talk(struct nettop *n, const struct rut_thread *leader, int64_t fd)
{
	uint64_t key = talk_key(leader, fd);
	struct talk *t = rut_map_get(&n->talks, key);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t || rut_map_put(&n->talks, key, t)) {
		free(t);
		out_of_memory(n);
		return NULL;
	}
	return t;
}

static bool wanted(const struct nettop *n, int cpu, const struct rut_thread *t)
{
	return rut_an_conf_thread(n->base.run->conf, t) && rut_an_conf_cpu(n->base.run->conf, cpu);
}

static const struct rut_fd *socket_of(const struct rut_thread *leader, int64_t fd)
{
	const struct rut_fd *f = rut_an_state_fd(leader, fd);

	return f && (f->type == RUT_FD_NET || f->type == RUT_FD_MAYBE_NET) ? f : NULL;
}

static void transfer(struct nettop *n, const struct rut_hook_io *h, const struct rut_fd *f)
{
	const struct rut_io_rq *rq = h->rq;
	struct peer *p = get_peer(n, f->filename);
	struct talk *t = get_talk(n, h->parent, rq->fd);
	bool sends = rq->op == RUT_IO_WRITE;

	if (!p || !t)
		return;
	p->bytes[sends] += rq->size;
	if (t->connecting) {
		t->connecting = false;
		rut_stat_add(&p->connect, rq->end_ns - t->connect_ns);
	}
	if (sends && !t->sent) {
		t->sent = true;
		t->sent_ns = rq->begin_ns;
	} else if (!sends && t->sent && rq->size) {
		t->sent = false;
		rut_stat_add(&p->answer, rq->end_ns - t->sent_ns);
	}
}

static void on_io(void *arg, const void *data)
{
	const struct rut_hook_io *h = data;
	const struct rut_io_rq *rq = h->rq;
	struct nettop *n = arg;
	const struct rut_fd *f = rq->has_fd ? socket_of(h->parent, rq->fd) : NULL;
	struct peer *p;

	if (!f || !wanted(n, h->cpu, h->thread))
		return;
	if ((rq->op == RUT_IO_READ || rq->op == RUT_IO_WRITE) && !rq->error && rq->has_size)
		transfer(n, h, f);
	if (rq->op == RUT_IO_OPEN && !rq->error && !strncmp(h->info->name, "accept", 6) &&
	    (p = get_peer(n, f->filename)))
		p->accepts++;
}

static void on_fd_close(void *arg, const void *data)
{
	const struct rut_hook_fd *h = data;
	struct nettop *n = arg;

	free(rut_map_remove(&n->talks, talk_key(h->parent, h->fd)));
}

static void on_syscall_exit(void *arg, const void *data)
{
	const struct rut_hook_syscall *h = data;
	struct nettop *n = arg;
	struct rut_thread *leader;
	const struct rut_fd *f;
	struct peer *p;
	struct talk *t;

	if (strcmp(h->info->name, "connect") != 0 || !h->has_ret || !wanted(n, h->cpu, h->thread))
		return;
	leader = rut_an_state_leader(&n->base.run->engine->state, h->thread);
	f = socket_of(leader, h->thread->rq.fd);
	p = f ? get_peer(n, f->filename) : NULL;
	if (!p)
		return;
	if (h->ret == -EINPROGRESS) {
		t = get_talk(n, leader, h->thread->rq.fd);
		if (t)
			*t = (struct talk){.connecting = true,
					   .connect_ns = h->ts_ns - h->duration_ns};
	} else if (h->ret < 0) {
		p->failed++;
	} else {
		rut_stat_add(&p->connect, h->duration_ns);
	}
}

static void on_net(void *arg, const void *data)
{
	const struct rut_hook_net *h = data;
	struct nettop *n = arg;
	struct iface *i = rut_an_ordered_add(&n->ifaces, (uintptr_t)h->iface, sizeof(*i));

	if (!i) {
		out_of_memory(n);
		return;
	}
	i->name = h->iface;
	i->bytes[!h->received] += h->bytes;
	i->packets[!h->received]++;
}

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_IO_EXIT, on_io},
	{RUT_HOOK_SYSCALL_EXIT, on_syscall_exit},
	{RUT_HOOK_FD_CLOSE, on_fd_close},
	{RUT_HOOK_NET, on_net},
	{0, NULL},
};

/* ---- Report ---- */

static int by_bytes(const void *a, const void *b)
{
	const struct peer *x = a, *y = b;
	int64_t bx = x->bytes[0] + x->bytes[1], by = y->bytes[0] + y->bytes[1];

	return bx > by ? -1 : bx < by;
}

static void add_latency(struct rut_result *t, const struct rut_stat *s)
{
	if (!s->count) {
		rut_an_result_empty(t);
		rut_an_result_empty(t);
		return;
	}
	rut_an_result_float(t, RUT_LAMI_DURATION, rut_stat_mean(s));
	rut_an_result_int(t, RUT_LAMI_DURATION, s->max);
}

static struct rut_result *peer_table(struct nettop *n, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&peer_class, n->base.begin_ns, end_ns, NULL);
	struct peer **list = (struct peer **)rut_an_ordered_sorted(&n->peers, by_bytes);
	int64_t limit = n->base.run->conf->limit;

	for (size_t i = 0; t && list && i < n->peers.n && (limit <= 0 || (int64_t)i < limit); i++) {
		const struct peer *p = list[i];

		rut_an_result_text(t, RUT_LAMI_STRING, p->name);
		rut_an_result_int(t, RUT_LAMI_SIZE, p->bytes[0]);
		rut_an_result_int(t, RUT_LAMI_SIZE, p->bytes[1]);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)p->accepts);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)p->connect.count);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)p->failed);
		add_latency(t, &p->connect);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)p->answer.count);
		add_latency(t, &p->answer);
	}
	free(list);
	return t;
}

static struct rut_result *iface_table(struct nettop *n, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&iface_class, n->base.begin_ns, end_ns, NULL);

	for (size_t i = 0; t && i < n->ifaces.n; i++) {
		const struct iface *f = n->ifaces.items[i];

		rut_an_result_text(t, RUT_LAMI_NETIF, f->name);
		for (int k = 0; k < 2; k++) {
			rut_an_result_int(t, RUT_LAMI_SIZE, f->bytes[k]);
			rut_an_result_int(t, RUT_LAMI_NUMBER, f->packets[k]);
		}
	}
	return t;
}

static void latency_text(char *out, size_t size, const struct rut_cell *c)
{
	if (c->type == RUT_LAMI_DURATION)
		rut_an_fmt_us(out, size, rut_an_cell_value(c));
	else
		snprintf(out, size, "-");
}

static void print_peers(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<28} {:>12} {:>12} {:>9} {:>9} {:>7} {:>13} {:>13} {:>8} "
				   "{:>13} {:>13}\n";
	char size[2][48], n[4][24], us[4][40];

	rut_buf_puts(out, "\nTraffic by peer (times in us)\n");
	rut_an_fmt_line(out, line, "Peer", "Received", "Sent", "Accepted", "Connects", "Failed",
			"Connect avg", "Connect max", "Answers", "Answer avg", "Answer max");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *c = rut_result_row(t, i);

		for (int k = 0; k < 2; k++)
			rut_an_fmt_size(size[k], sizeof(size[k]), (double)c[1 + k].i);
		for (int k = 0; k < 3; k++)
			snprintf(n[k], sizeof(n[k]), "%lld", (long long)c[3 + k].i);
		snprintf(n[3], sizeof(n[3]), "%lld", (long long)c[8].i);
		latency_text(us[0], sizeof(us[0]), &c[6]);
		latency_text(us[1], sizeof(us[1]), &c[7]);
		latency_text(us[2], sizeof(us[2]), &c[9]);
		latency_text(us[3], sizeof(us[3]), &c[10]);
		rut_an_fmt_line(out, line, c[0].str, size[0], size[1], n[0], n[1], n[2], us[0],
				us[1], n[3], us[2], us[3]);
	}
}

static void print_ifaces(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<16} {:>12} {:>10} {:>12} {:>10}\n";
	char size[2][48], n[2][24];

	if (!rut_result_rows(t))
		return;
	rut_buf_puts(out, "\nTraffic by network interface\n");
	rut_an_fmt_line(out, line, "Interface", "Received", "Packets", "Sent", "Packets");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *c = rut_result_row(t, i);

		for (int k = 0; k < 2; k++) {
			rut_an_fmt_size(size[k], sizeof(size[k]), (double)c[1 + 2 * k].i);
			snprintf(n[k], sizeof(n[k]), "%lld", (long long)c[2 + 2 * k].i);
		}
		rut_an_fmt_line(out, line, c[0].str, size[0], n[0], size[1], n[1]);
	}
}

static void report(struct rut_instance *inst, int64_t end_ns)
{
	struct nettop *n = (struct nettop *)inst;

	if (!inst->run->conf->mi)
		rut_an_run_print_range(inst->run, inst->begin_ns, end_ns);
	rut_an_run_take(inst->run, peer_table(n, end_ns), print_peers);
	rut_an_run_take(inst->run, iface_table(n, end_ns), print_ifaces);
}

static void fini(struct rut_instance *inst)
{
	struct nettop *n = (struct nettop *)inst;

	rut_an_ordered_fini(&n->peers);
	rut_an_ordered_fini(&n->ifaces);
	rut_map_each(&n->talks, s)
		free(s->value);
	rut_map_fini(&n->talks);
}

static const char *const tags[] = {"linux-kernel", "rutile", "net", "top", NULL};
static const struct rut_lami_class *const classes[] = {&peer_class, &iface_class, NULL};
static const char *const needs[] = {"*syscall_entry_*", "*sys_*", "net_dev_xmit",
				    "net*_receive_skb", NULL};

const struct rut_analysis rut_analysis_nettop = {
	.info = {"Network", "Peers: bytes, connects, latency of answers", tags, classes},
	.needs = needs,
	.needs_threads = true,
	.instance_size = sizeof(struct nettop),
	.hooks = hooks,
	.report = report,
	.fini = fini,
};
