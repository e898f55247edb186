/* SPDX-License-Identifier: MIT */
/* The state model: system calls, and what those for input and output do to descriptors. */
#include "analysis/state_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum io_kind {
	KIND_NONE,
	KIND_OPEN,
	KIND_SOCKET,
	KIND_ACCEPT,
	KIND_DUP,
	KIND_DUP2,
	KIND_DUP3,
	KIND_FCNTL,
	KIND_CLOSE,
	KIND_READ,
	KIND_WRITE,
	KIND_SPLICE,
	KIND_SENDFILE,
	KIND_SYNC,
	KIND_FSYNC,
	KIND_URING,
	KIND_CONNECT, /* makes no request */
	KIND_COUNT,
};

static const struct {
	const char *name;
	uint8_t kind;
} calls[] = {
	{"open", KIND_OPEN},
	{"openat", KIND_OPEN},
	{"openat2", KIND_OPEN},
	{"creat", KIND_OPEN},
	{"socket", KIND_SOCKET},
	{"accept", KIND_ACCEPT},
	{"accept4", KIND_ACCEPT},
	{"dup", KIND_DUP},
	{"dup2", KIND_DUP2},
	{"dup3", KIND_DUP3},
	{"fcntl", KIND_FCNTL},
	{"fcntl64", KIND_FCNTL},
	{"close", KIND_CLOSE},
	{"read", KIND_READ},
	{"recvmsg", KIND_READ},
	{"recvfrom", KIND_READ},
	{"readv", KIND_READ},
	{"pread", KIND_READ},
	{"pread64", KIND_READ},
	{"preadv", KIND_READ},
	{"preadv2", KIND_READ},
	{"write", KIND_WRITE},
	{"sendmsg", KIND_WRITE},
	{"sendto", KIND_WRITE},
	{"writev", KIND_WRITE},
	{"pwrite", KIND_WRITE},
	{"pwrite64", KIND_WRITE},
	{"pwritev", KIND_WRITE},
	{"pwritev2", KIND_WRITE},
	{"splice", KIND_SPLICE},
	{"sendfile", KIND_SENDFILE},
	{"sendfile64", KIND_SENDFILE},
	{"sync", KIND_SYNC},
	{"fsync", KIND_FSYNC},
	{"fdatasync", KIND_FSYNC},
	{"sync_file_range", KIND_FSYNC},
	{"io_uring_enter", KIND_URING},
	{"connect", KIND_CONNECT},
};

static const char *const fields[KIND_COUNT][RUT_STATE_FIELDS] = {
	[KIND_OPEN] = {"filename", "flags"},
	[KIND_SOCKET] = {"family", "type"},
	[KIND_ACCEPT] = {"fd", "flags"},
	[KIND_DUP] = {"fildes", "oldfd"},
	[KIND_DUP2] = {"oldfd", "newfd"},
	[KIND_DUP3] = {"oldfd", "newfd", "flags"},
	[KIND_FCNTL] = {"fd", "cmd"},
	[KIND_CLOSE] = {"fd"},
	[KIND_READ] = {"fd"},
	[KIND_WRITE] = {"fd"},
	[KIND_SPLICE] = {"fd_in", "fd_out"},
	[KIND_SENDFILE] = {"in_fd", "out_fd"},
	[KIND_FSYNC] = {"fd"},
	[KIND_URING] = {"fd"},
	[KIND_CONNECT] = {"fd", "family", "v4addr", "dport"},
};

#define EXIT_RET    RUT_STATE_EXIT_RET
#define EXIT_FAMILY RUT_STATE_EXIT_FAMILY
#define EXIT_ADDR   RUT_STATE_EXIT_ADDR
#define EXIT_PORT   RUT_STATE_EXIT_PORT

static const char *const exit_fields[RUT_STATE_FIELDS] = {"ret",    "family",	"v4addr", "sport",
							  "fildes", "usockvec", "rights"};

uint8_t rut_an_state_io_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].kind;
	return KIND_NONE;
}

const char *const *rut_an_state_io_fields(uint8_t kind)
{
	return fields[kind];
}

const char *const *rut_an_state_io_exit_fields(void)
{
	return exit_fields;
}

/* "1.2.3.4:80"; the address is a sequence of four bytes, or an integer before LTTng 2.6. */
static const char *address(struct rut_state *st, const struct rut_ctf_event *ev,
			   const struct rut_ctf_ref *addr, const struct rut_ctf_ref *port)
{
	char buf[64];
	uint64_t a[4];
	int n;

	if (rut_ctf_seq_len(ev, addr) >= 4) {
		for (uint64_t i = 0; i < 4; i++)
			a[i] = rut_ctf_seq_u64(ev, addr, i) & 0xff;
	} else {
		uint64_t v = rut_ctf_u64(ev, addr);

		for (int i = 0; i < 4; i++)
			a[i] = v >> (24 - 8 * i) & 0xff;
	}
	n = snprintf(buf, sizeof(buf), "%llu.%llu.%llu.%llu:%llu", (unsigned long long)a[0],
		     (unsigned long long)a[1], (unsigned long long)a[2], (unsigned long long)a[3],
		     (unsigned long long)rut_ctf_u64(ev, port));
	return rut_an_state_intern(st, buf, (size_t)n);
}

/* ---- Entry ---- */

static void enter_dup(struct rut_state *st, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c, struct rut_thread *t, struct rut_io_rq *rq)
{
	struct rut_thread *leader = rut_an_state_leader(st, t);
	const struct rut_fd *old;
	int64_t old_fd;

	if (c->syscall->io == KIND_FCNTL && rut_ctf_i64(ev, &c->f[1]) != F_DUPFD)
		return;
	if (c->syscall->io == KIND_DUP && !rut_ctf_ref_ok(&c->f[0]))
		old_fd = rut_ctf_i64(ev, &c->f[1]);
	else
		old_fd = rut_ctf_i64(ev, &c->f[0]);
	old = rut_an_state_fd(leader, old_fd);
	rq->op = RUT_IO_OPEN;
	rq->filename = old ? old->filename : st->unknown;
	rq->fd_type = old ? old->type : RUT_FD_UNKNOWN;
	rq->is_dup = true;
	rq->dup_fd = old_fd;
	if (c->syscall->io == KIND_DUP3)
		rq->cloexec = rut_ctf_u64(ev, &c->f[2]) & O_CLOEXEC;
}

static void enter_fd(const struct rut_ctf_event *ev, const struct rut_state_class *c,
		     struct rut_io_rq *rq, enum rut_io_op op)
{
	if (!rut_ctf_ref_ok(&c->f[0]))
		return;
	rq->op = op;
	rq->has_fd = true;
	rq->fd = rut_ctf_i64(ev, &c->f[0]);
	rq->is_transfer = op == RUT_IO_READ || op == RUT_IO_WRITE;
}

/* The stream's context may name a thread's leader before any other event. */
static void fix_pid(struct rut_state *st, const struct rut_ctf_event *ev,
		    const struct rut_state_class *c, struct rut_thread *t)
{
	if (!c->fix_pid || t->pid >= 0)
		return;
	t->pid = rut_ctf_i64(ev, &c->ctx_pid);
	if (t->pid != t->tid)
		rut_an_state_leader(st, t);
}

static void enter_connect(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c, struct rut_thread *t)
{
	struct rut_thread *leader = rut_an_state_leader(st, t);
	int64_t fd = rut_ctf_i64(ev, &c->f[0]);
	struct rut_fd *f = rut_an_state_fd(leader, fd);

	t->rq.fd = fd;
	if (!rut_ctf_ref_ok(&c->f[1]) || rut_ctf_u64(ev, &c->f[1]) != AF_INET)
		return;
	if (f)
		f->filename = address(st, ev, &c->f[2], &c->f[3]);
	rut_an_state_notify_fd(st, RUT_HOOK_FD_UPDATE, ev, leader, fd, ev->ts_ns);
}

void rut_an_state_io_entry(struct rut_state *st, const struct rut_ctf_event *ev,
			   const struct rut_state_class *c, struct rut_thread *t)
{
	struct rut_io_rq *rq = &t->rq;

	if (c->syscall->io == KIND_CONNECT) {
		enter_connect(st, ev, c, t);
		return;
	}
	fix_pid(st, ev, c, t);
	switch (c->syscall->io) {
	case KIND_OPEN:
		rq->op = RUT_IO_OPEN;
		rq->filename = st->no_files ? st->unknown : rut_an_state_str(st, ev, &c->f[0]);
		rq->fd_type = RUT_FD_DISK;
		rq->cloexec = rut_ctf_u64(ev, &c->f[1]) & O_CLOEXEC;
		break;
	case KIND_SOCKET:
	case KIND_ACCEPT:
		rq->op = RUT_IO_OPEN;
		rq->filename = st->socket;
		rq->fd_type = RUT_FD_NET;
		/* SOCK_CLOEXEC has the same value. */
		rq->cloexec = rut_ctf_ref_ok(&c->f[1]) && rut_ctf_u64(ev, &c->f[1]) & O_CLOEXEC;
		break;
	case KIND_DUP:
	case KIND_DUP2:
	case KIND_DUP3:
	case KIND_FCNTL:
		enter_dup(st, ev, c, t, rq);
		break;
	case KIND_CLOSE:
		enter_fd(ev, c, rq, RUT_IO_CLOSE);
		break;
	case KIND_READ:
		enter_fd(ev, c, rq, RUT_IO_READ);
		break;
	case KIND_WRITE:
		enter_fd(ev, c, rq, RUT_IO_WRITE);
		break;
	case KIND_SPLICE:
	case KIND_SENDFILE:
		/* lttng-analyses does not see these: counted only where asked for. */
		if (!st->count_splice)
			break;
		rq->op = RUT_IO_READ_WRITE;
		rq->has_fds = true;
		rq->is_transfer = true;
		rq->fd_in = rut_ctf_i64(ev, &c->f[0]);
		rq->fd_out = rut_ctf_i64(ev, &c->f[1]);
		break;
	case KIND_SYNC:
		rq->op = RUT_IO_SYNC;
		break;
	case KIND_FSYNC:
		enter_fd(ev, c, rq, RUT_IO_SYNC);
		break;
	case KIND_URING:
		/* What is submitted is not known: latency only, the return value counts requests.
		 */
		enter_fd(ev, c, rq, RUT_IO_READ_WRITE);
		break;
	}
}

/* ---- Exit ---- */

static void create_fd(struct rut_state *st, const struct rut_ctf_event *ev,
		      struct rut_thread *leader, int64_t fd, const struct rut_io_rq *rq)
{
	struct rut_fd *f;

	if (rq->op != RUT_IO_OPEN) {
		f = rut_an_state_add_fd(st, leader, fd);
		if (rq->of_socket) {
			f->type = RUT_FD_NET;
			f->filename = st->socket;
		}
		rut_an_state_notify_fd(st, RUT_HOOK_FD_CREATE, ev, leader, fd, rq->end_ns);
		return;
	}
	f = rut_an_state_open_fd(st, ev, leader, fd);
	f->filename = rq->filename;
	f->type = rq->fd_type;
	f->cloexec = rq->cloexec;
	rut_an_state_notify_opened(st, ev, leader, fd);
}

static void learn_fds(struct rut_state *st, const struct rut_ctf_event *ev,
		      struct rut_thread *leader, const struct rut_io_rq *rq)
{
	/* dup2() of a descriptor to itself does nothing. */
	if (rq->has_fd && (rq->op == RUT_IO_OPEN ? !rq->is_dup || rq->dup_fd != rq->fd
						 : !rut_an_state_fd(leader, rq->fd)))
		create_fd(st, ev, leader, rq->fd, rq);
	if (rq->has_fds && !rut_an_state_fd(leader, rq->fd_in))
		create_fd(st, ev, leader, rq->fd_in, rq);
	if (rq->has_fds && !rut_an_state_fd(leader, rq->fd_out))
		create_fd(st, ev, leader, rq->fd_out, rq);
}

void rut_an_state_io_exit(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c, struct rut_thread *t, int64_t ret)
{
	struct rut_io_rq *rq = &t->rq;
	struct rut_hook_io h = {.cpu = st->cpu, .thread = t, .info = t->syscall, .rq = rq};

	if (rq->op == RUT_IO_NONE)
		return;
	rq->begin_ns = t->syscall_begin_ns;
	rq->end_ns = ev->ts_ns;
	rq->error = ret < 0 ? -ret : 0;
	if (ret >= 0 && rq->is_transfer) {
		rq->has_size = true;
		rq->size = ret;
	}
	h.parent = rut_an_state_leader(st, t);
	if (ret >= 0 && rq->op == RUT_IO_OPEN) {
		rq->has_fd = true;
		rq->fd = ret;
		if (t->syscall->io == KIND_ACCEPT && rut_ctf_ref_ok(&c->f[EXIT_FAMILY]) &&
		    rut_ctf_u64(ev, &c->f[EXIT_FAMILY]) == AF_INET)
			rq->filename = address(st, ev, &c->f[EXIT_ADDR], &c->f[EXIT_PORT]);
	}
	rq->of_socket = t->syscall->of_socket;
	if (ret >= 0 && !st->no_files)
		learn_fds(st, ev, h.parent, rq);
	rut_state_notify(st, RUT_HOOK_IO_EXIT, &h);
	/* Also one that fails with EIO or EINTR has ended the descriptor. */
	if (rq->op == RUT_IO_CLOSE && ret != -EBADF && rut_an_state_fd(h.parent, rq->fd))
		rut_an_state_close_fd(st, ev, h.parent, rq->fd, rq->end_ns);
}

/* ---- All system calls ---- */

/* All zeros. One by one: as a whole the compiler would call on a slow instruction. */
static inline void reset_request(struct rut_io_rq *rq)
{
	rq->op = RUT_IO_NONE;
	rq->begin_ns = rq->end_ns = 0;
	rq->has_fd = rq->has_fds = rq->has_size = false;
	rq->fd = rq->fd_in = rq->fd_out = rq->dup_fd = 0;
	rq->size = rq->error = 0;
	rq->of_socket = rq->is_dup = rq->is_transfer = rq->cloexec = false;
	rq->filename = NULL;
	rq->fd_type = RUT_FD_UNKNOWN;
}

static void notify_entry(struct rut_state *st, const struct rut_ctf_event *ev,
			 const struct rut_state_class *c, struct rut_thread *t, enum rut_hook hook)
{
	const struct rut_hook_syscall h = {
		.ts_ns = ev->ts_ns, .cpu = st->cpu, .thread = t, .info = c->syscall, .ev = ev};

	rut_state_notify(st, hook, &h);
}

/* What only some calls have: a request, descriptors, a lock. */
static void enter_special(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c, struct rut_thread *t)
{
	if (c->syscall->wait == RUT_WAIT_FUTEX)
		t->futex = rut_ctf_u64(ev, &c->f[0]);
	if (c->syscall->io) {
		reset_request(&t->rq);
		rut_an_state_io_entry(st, ev, c, t);
	}
	if (c->syscall->fd_call)
		rut_an_state_fd_entry(ev, c, t);
	if (c->syscall->wait == RUT_WAIT_POLL && st->hooks[RUT_HOOK_POLL].n)
		notify_entry(st, ev, c, t, RUT_HOOK_POLL);
}

void rut_an_state_sys_entry(struct rut_state *st, const struct rut_ctf_event *ev,
			    const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_current(st, ev, c);

	if (!t)
		return;
	t->syscall = c->syscall;
	t->syscall_begin_ns = ev->ts_ns;
	t->calls_seen = true;
	t->rq.op = RUT_IO_NONE;
	t->futex = 0;
	if (c->special)
		enter_special(st, ev, c, t);
	if (st->hooks[RUT_HOOK_SYSCALL_ENTRY].n)
		notify_entry(st, ev, c, t, RUT_HOOK_SYSCALL_ENTRY);
}

void rut_an_state_sys_string(struct rut_state *st, const struct rut_ctf_event *ev,
			     const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_current(st, ev, c);

	if (t && t->syscall && t->rq.op == RUT_IO_OPEN && t->rq.fd_type == RUT_FD_DISK)
		t->rq.filename = rut_an_state_str(st, ev, &c->f[0]);
}

static void notify_exit(struct rut_state *st, const struct rut_ctf_event *ev, struct rut_thread *t,
			bool has_ret, int64_t ret)
{
	const struct rut_hook_syscall h = {
		.ts_ns = ev->ts_ns,
		.cpu = st->cpu,
		.thread = t,
		.info = t->syscall,
		.duration_ns = ev->ts_ns - t->syscall_begin_ns,
		.has_ret = has_ret,
		.ret = ret,
		.ev = ev,
	};

	rut_state_notify(st, RUT_HOOK_SYSCALL_EXIT, &h);
}

void rut_an_state_sys_exit(struct rut_state *st, const struct rut_ctf_event *ev,
			   const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_current(st, ev, c);
	const struct rut_syscall_info *info;
	bool has_ret = rut_ctf_ref_ok(&c->f[EXIT_RET]);
	int64_t ret;

	if (!t)
		return;
	t->calls_seen = true;
	info = t->syscall;
	if (!info || (info->compat ? c->native_exit : c->compat_exit))
		return;
	ret = rut_ctf_long(ev, &c->f[EXIT_RET]);
	if (st->hooks[RUT_HOOK_SYSCALL_EXIT].n)
		notify_exit(st, ev, t, has_ret, ret);
	if (info->io && has_ret)
		rut_an_state_io_exit(st, ev, c, t, ret);
	if (info->fd_call && has_ret)
		rut_an_state_fd_exit(st, ev, c, t, ret);
	t->syscall = NULL;
}

/* A write that sends packets is to the network, unless the descriptor is known as something else.
 */
void rut_an_state_net_xmit(struct rut_state *st, const struct rut_ctf_event *ev,
			   const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_current(st, ev, c);
	struct rut_hook_net h;
	struct rut_fd *f;

	if (st->hooks[RUT_HOOK_NET].n) {
		h = (struct rut_hook_net){.iface = rut_an_state_str(st, ev, &c->f[0]),
					  .bytes = rut_ctf_i64(ev, &c->f[1])};
		rut_state_notify(st, RUT_HOOK_NET, &h);
	}
	if (!t || !t->syscall || t->syscall->io != KIND_WRITE || !t->rq.has_fd)
		return;
	f = rut_an_state_fd(rut_an_state_leader(st, t), t->rq.fd);
	if (f && f->type == RUT_FD_UNKNOWN)
		f->type = RUT_FD_MAYBE_NET;
}
