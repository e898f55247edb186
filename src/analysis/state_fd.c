/* SPDX-License-Identifier: MIT */
/*
 * The state model: what makes and ends descriptors.
 *
 * One table for all system calls that do. Those that are also requests for input and output (open,
 * socket, accept, dup, close) are in state_io.c as such; this file does the rest, and says for
 * both whether the descriptor is closed by an exec. Descriptors that no system call of the table
 * makes (received over a local socket without their numbers in the trace, made by ioctl, io_uring
 * or clone3) become known when they are first used.
 */
#include "analysis/state_priv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* ---- The table of a process ---- */

void rut_an_state_free_fds(struct rut_thread *t)
{
	rut_map_each(&t->fds.high, s)
		free(s->value);
	rut_map_fini(&t->fds.high);
	free(t->fds.low);
	t->fds = (struct rut_fd_table){0};
}

static struct rut_fd *low_slot(struct rut_fd_table *fds, uint32_t fd)
{
	uint32_t n = fds->n_low ? fds->n_low : 8;
	struct rut_fd *low;

	if (fd < fds->n_low)
		return &fds->low[fd];
	while (n <= fd)
		n *= 2;
	low = realloc(fds->low, n * sizeof(*low));
	if (!low)
		return NULL;
	memset(low + fds->n_low, 0, (n - fds->n_low) * sizeof(*low));
	fds->low = low;
	fds->n_low = n;
	return &low[fd];
}

static struct rut_fd *high_slot(struct rut_fd_table *fds, int64_t fd)
{
	struct rut_fd *f = rut_map_get(&fds->high, (uint64_t)fd + 1);

	if (f)
		return f;
	f = calloc(1, sizeof(*f));
	if (f && !rut_map_put(&fds->high, (uint64_t)fd + 1, f))
		return f;
	free(f);
	return NULL;
}

struct rut_fd *rut_an_state_add_fd(struct rut_state *st, struct rut_thread *t, int64_t fd)
{
	static struct rut_fd nothing = {.filename = ""};
	struct rut_fd *f = (uint64_t)fd < RUT_FD_LOW ? low_slot(&t->fds, (uint32_t)fd)
						     : high_slot(&t->fds, fd);

	if (!f) {
		st->failed = true;
		return &nothing;
	}
	t->fds.count += !f->is_open;
	*f = (struct rut_fd){
		.fd = fd, .filename = st->unknown, .is_open = true, .seq = st->fd_seq++};
	return f;
}

static int by_seq(const void *a, const void *b)
{
	uint64_t x = (*(struct rut_fd *const *)a)->seq, y = (*(struct rut_fd *const *)b)->seq;

	return x < y ? -1 : x > y;
}

struct rut_fd **rut_an_state_fds(const struct rut_thread *t, size_t *ret_n)
{
	struct rut_fd **list = t->fds.count ? malloc(t->fds.count * sizeof(*list)) : NULL;

	*ret_n = 0;
	if (!list)
		return NULL;
	for (uint32_t i = 0; i < t->fds.n_low; i++)
		if (t->fds.low[i].is_open)
			list[(*ret_n)++] = &t->fds.low[i];
	rut_map_each(&t->fds.high, s)
		list[(*ret_n)++] = s->value;
	qsort(list, *ret_n, sizeof(*list), by_seq);
	return list;
}

void rut_an_state_remove_fd(struct rut_state *st, struct rut_thread *t, int64_t fd)
{
	struct rut_fd *f = rut_an_state_fd(t, fd);

	(void)st;
	if (!f)
		return;
	t->fds.count--;
	f->is_open = false;
	if ((uint64_t)fd >= RUT_FD_LOW)
		free(rut_map_remove(&t->fds.high, (uint64_t)fd + 1));
}

struct rut_fd *rut_an_state_open_fd(struct rut_state *st, const struct rut_ctf_event *ev,
				    struct rut_thread *leader, int64_t fd)
{
	/* Replaced by dup2, or its close was not recorded. */
	if (rut_an_state_fd(leader, fd))
		rut_an_state_close_fd(st, ev, leader, fd, ev->ts_ns);
	return rut_an_state_add_fd(st, leader, fd);
}

void rut_an_state_notify_opened(struct rut_state *st, const struct rut_ctf_event *ev,
				struct rut_thread *leader, int64_t fd)
{
	st->origin = RUT_FD_OPENED;
	rut_an_state_notify_fd(st, RUT_HOOK_FD_CREATE, ev, leader, fd, ev->ts_ns);
	st->origin = RUT_FD_FOUND;
}

void rut_an_state_close_fd(struct rut_state *st, const struct rut_ctf_event *ev,
			   struct rut_thread *leader, int64_t fd, int64_t ts_ns)
{
	rut_an_state_notify_fd(st, RUT_HOOK_FD_CLOSE, ev, leader, fd, ts_ns);
	rut_an_state_remove_fd(st, leader, fd);
}

void rut_an_state_notify_fd(struct rut_state *st, enum rut_hook hook,
			    const struct rut_ctf_event *ev, struct rut_thread *parent, int64_t fd,
			    int64_t ts_ns)
{
	struct rut_hook_fd h = {.ts_ns = ts_ns, .parent = parent, .fd = fd};

	if (!st->hooks[hook].n)
		return;
	h.cpu = st->cpu;
	h.info = rut_an_state_fd(parent, fd);
	h.origin = st->origin;
	rut_state_notify(st, hook, &h);
}

/* ---- Calls ---- */

enum fd_kind {
	FD_NONE,
	FD_MAKE,	/* returns a new descriptor */
	FD_PAIR,	/* two, in an array that is recorded at exit */
	FD_FCNTL,	/* F_DUPFD_CLOEXEC, F_SETFD */
	FD_IOCTL,	/* FIOCLEX, FIONCLEX */
	FD_CLOSE_RANGE, /* from f0 to f1 */
	FD_SIGNALFD,	/* a new one only for -1 */
	FD_BPF,		/* depends on the command */
	FD_SECCOMP,	/* with SECCOMP_FILTER_FLAG_NEW_LISTENER */
	FD_LANDLOCK,	/* not with LANDLOCK_CREATE_RULESET_VERSION and _ERRATA */
	FD_RECEIVE,	/* SCM_RIGHTS: an array that is recorded at exit */
};

/* Masks of the flags that close at exec. */
#define NEVER	 0
#define BIT0	 1u /* MFD_CLOEXEC, FAN_CLOEXEC, FSOPEN_CLOEXEC ... */
#define PERF_BIT 8u /* PERF_FLAG_FD_CLOEXEC */
#define ALWAYS	 UINT32_MAX

static const struct fd_call {
	const char *name;
	uint8_t kind;
	uint8_t type;	  /* enum rut_fd_type */
	uint32_t cloexec; /* mask of the flags, or ALWAYS */
	const char *what; /* the name of what is made */
	const char *fields[4];
} calls[] = {
	{"bpf", FD_BPF, RUT_FD_EVENT, ALWAYS, "bpf", {"cmd"}},
	{"close_range", FD_CLOSE_RANGE, 0, 0, NULL, {"fd", "max_fd", "flags"}},
	{"epoll_create", FD_MAKE, RUT_FD_EVENT, NEVER, "epoll", {NULL}},
	{"epoll_create1", FD_MAKE, RUT_FD_EVENT, O_CLOEXEC, "epoll", {"flags"}},
	{"eventfd", FD_MAKE, RUT_FD_EVENT, NEVER, "eventfd", {NULL}},
	{"eventfd2", FD_MAKE, RUT_FD_EVENT, O_CLOEXEC, "eventfd", {"flags"}},
	{"fanotify_init", FD_MAKE, RUT_FD_EVENT, BIT0, "fanotify", {"flags"}},
	{"fcntl", FD_FCNTL, 0, 0, NULL, {"fd", "cmd", "arg"}},
	{"fcntl64", FD_FCNTL, 0, 0, NULL, {"fd", "cmd", "arg"}},
	{"fsmount", FD_MAKE, RUT_FD_DISK, BIT0, "mount", {"flags"}},
	{"fsopen", FD_MAKE, RUT_FD_EVENT, BIT0, "fscontext", {"flags"}},
	{"fspick", FD_MAKE, RUT_FD_EVENT, BIT0, "fscontext", {"flags"}},
	{"inotify_init", FD_MAKE, RUT_FD_EVENT, NEVER, "inotify", {NULL}},
	{"inotify_init1", FD_MAKE, RUT_FD_EVENT, O_CLOEXEC, "inotify", {"flags"}},
	{"io_uring_setup", FD_MAKE, RUT_FD_EVENT, ALWAYS, "io_uring", {NULL}},
	{"ioctl", FD_IOCTL, 0, 0, NULL, {"fd", "cmd"}},
	{"landlock_create_ruleset", FD_LANDLOCK, RUT_FD_EVENT, ALWAYS, "landlock", {"flags"}},
	{"memfd_create", FD_MAKE, RUT_FD_MEMORY, BIT0, "memfd", {"flags"}},
	{"memfd_secret", FD_MAKE, RUT_FD_MEMORY, O_CLOEXEC, "secretmem", {"flags"}},
	{"mq_open", FD_MAKE, RUT_FD_EVENT, ALWAYS, "mqueue", {NULL}},
	{"open_by_handle_at", FD_MAKE, RUT_FD_DISK, O_CLOEXEC, "unknown", {"flags"}},
	{"open_tree", FD_MAKE, RUT_FD_DISK, O_CLOEXEC, "mount", {"flags"}},
	{"open_tree_attr", FD_MAKE, RUT_FD_DISK, O_CLOEXEC, "mount", {"flags"}},
	{"perf_event_open", FD_MAKE, RUT_FD_EVENT, PERF_BIT, "perf_event", {"flags"}},
	{"pidfd_getfd", FD_MAKE, RUT_FD_UNKNOWN, ALWAYS, "unknown", {NULL}},
	{"pidfd_open", FD_MAKE, RUT_FD_EVENT, ALWAYS, "pidfd", {NULL}},
	{"pipe", FD_PAIR, RUT_FD_PIPE, NEVER, "pipe", {NULL}},
	{"pipe2", FD_PAIR, RUT_FD_PIPE, O_CLOEXEC, "pipe", {"flags"}},
	{"recvmsg", FD_RECEIVE, RUT_FD_UNKNOWN, 0x40000000, "unknown", {"flags"}},
	{"seccomp", FD_SECCOMP, RUT_FD_EVENT, ALWAYS, "seccomp", {"flags", "op"}},
	{"signalfd", FD_SIGNALFD, RUT_FD_EVENT, NEVER, "signalfd", {NULL, "ufd"}},
	{"signalfd4", FD_SIGNALFD, RUT_FD_EVENT, O_CLOEXEC, "signalfd", {"flags", "ufd"}},
	{"socketpair", FD_PAIR, RUT_FD_NET, O_CLOEXEC, "socket", {"type"}},
	{"timerfd_create", FD_MAKE, RUT_FD_EVENT, O_CLOEXEC, "timerfd", {"flags"}},
	{"userfaultfd", FD_MAKE, RUT_FD_EVENT, O_CLOEXEC, "userfaultfd", {"flags"}},
};

enum rut_fd_type rut_an_state_fd_type_of(const char *filename)
{
	static const struct {
		const char *prefix;
		enum rut_fd_type type;
	} kinds[] = {
		{"socket:", RUT_FD_NET},    {"pipe:", RUT_FD_PIPE}, {"anon_inode:", RUT_FD_EVENT},
		{"/memfd:", RUT_FD_MEMORY}, {"/", RUT_FD_DISK},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strncmp(filename, kinds[i].prefix, strlen(kinds[i].prefix)))
			return kinds[i].type;
	return RUT_FD_UNKNOWN;
}

uint8_t rut_an_state_fd_call(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return (uint8_t)(i + 1);
	return 0;
}

void rut_an_state_fd_bind(const struct rut_ctf_event_class *cls, uint8_t call,
			  struct rut_ctf_ref f[RUT_STATE_FD_FIELDS])
{
	for (int i = 0; i < RUT_STATE_FD_FIELDS; i++)
		if (call && calls[call - 1].fields[i])
			rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, calls[call - 1].fields[i],
					 &f[i]);
}

/* ---- Entry ---- */

/* The commands of bpf(2) that return a descriptor (enum bpf_cmd). */
static bool bpf_makes(uint64_t cmd)
{
	static const uint8_t makers[] = {0, 5, 7, 13, 14, 17, 18, 19, 28, 30, 32, 33, 36};

	for (size_t i = 0; i < sizeof(makers); i++)
		if (makers[i] == cmd)
			return true;
	return false;
}

#define SECCOMP_LISTENER 8u /* SECCOMP_FILTER_FLAG_NEW_LISTENER */
#define SECCOMP_FILTER	 1u /* SECCOMP_SET_MODE_FILTER */

/* Whether this call, with these arguments, makes or ends a descriptor when it succeeds. */
static bool matters(const struct fd_call *call, const uint64_t v[RUT_STATE_FD_FIELDS])
{
	switch (call->kind) {
	case FD_FCNTL:
		return v[1] == F_DUPFD_CLOEXEC || v[1] == F_SETFD;
	case FD_IOCTL:
		return v[1] == 0x5450 || v[1] == 0x5451; /* FIONCLEX, FIOCLEX */
	case FD_SIGNALFD:
		return (int32_t)v[1] == -1;
	case FD_BPF:
		return bpf_makes(v[0]);
	case FD_SECCOMP:
		return v[1] == SECCOMP_FILTER && v[0] & SECCOMP_LISTENER;
	case FD_LANDLOCK:
		return !v[0];
	default:
		return true;
	}
}

void rut_an_state_fd_entry(const struct rut_ctf_event *ev, const struct rut_state_class *c,
			   struct rut_thread *t)
{
	const struct fd_call *call = &calls[c->syscall->fd_call - 1];
	struct rut_fd_op *op = &t->fd_op;

	for (int i = 0; i < RUT_STATE_FD_FIELDS; i++)
		op->v[i] = rut_ctf_ref_ok(&c->fd_f[i]) ? rut_ctf_u64(ev, &c->fd_f[i]) : 0;
	op->active = matters(call, op->v);
}

/* ---- Exit ---- */

struct at {
	struct rut_state *st;
	const struct rut_ctf_event *ev;
	struct rut_thread *leader;
};

static void make(const struct at *a, int64_t fd, const char *what, enum rut_fd_type type,
		 bool cloexec)
{
	struct rut_fd *f;

	if (fd < 0 || fd > INT32_MAX)
		return;
	f = rut_an_state_open_fd(a->st, a->ev, a->leader, fd);
	f->filename = rut_an_state_intern(a->st, what, strlen(what));
	f->type = type;
	f->cloexec = cloexec;
	rut_an_state_notify_opened(a->st, a->ev, a->leader, fd);
}

static void set_cloexec(const struct at *a, int64_t fd, bool cloexec)
{
	struct rut_fd *f = rut_an_state_fd(a->leader, fd);

	if (f)
		f->cloexec = cloexec;
}

static void after_fcntl(const struct at *a, const uint64_t *v, int64_t ret)
{
	const struct rut_fd *old = rut_an_state_fd(a->leader, (int32_t)v[0]);

	if (v[1] == F_SETFD)
		set_cloexec(a, (int32_t)v[0], v[2] & FD_CLOEXEC);
	else
		make(a, ret, old ? old->filename : a->st->unknown, old ? old->type : RUT_FD_UNKNOWN,
		     true);
}

#define RANGE_CLOEXEC 4u /* CLOSE_RANGE_CLOEXEC */

/* CLOSE_RANGE_UNSHARE concerns a table that is shared beyond the process: it is not modelled. */
static void after_close_range(const struct at *a, const uint64_t *v)
{
	size_t n;
	struct rut_fd **list = rut_an_state_fds(a->leader, &n);

	for (size_t i = 0; i < n; i++) {
		if (list[i]->fd < (int64_t)(uint32_t)v[0] || list[i]->fd > (int64_t)(uint32_t)v[1])
			continue;
		if (v[2] & RANGE_CLOEXEC)
			list[i]->cloexec = true;
		else
			rut_an_state_close_fd(a->st, a->ev, a->leader, list[i]->fd, a->ev->ts_ns);
	}
	free(list);
}

static void make_listed(const struct at *a, const struct fd_call *call,
			const struct rut_state_class *c, enum rut_state_exit_field field,
			bool cloexec)
{
	const struct rut_ctf_ref *ref = &c->f[field];
	uint64_t n = rut_ctf_ref_ok(ref) ? rut_ctf_seq_len(a->ev, ref) : 0;

	for (uint64_t i = 0; i < n; i++)
		make(a, (int32_t)rut_ctf_seq_u64(a->ev, ref, i), call->what,
		     (enum rut_fd_type)call->type, cloexec);
}

void rut_an_state_fd_exit(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c, struct rut_thread *t, int64_t ret)
{
	const struct fd_call *call = &calls[t->syscall->fd_call - 1];
	const struct at a = {st, ev, rut_an_state_leader(st, t)};
	const uint64_t *v = t->fd_op.v;
	bool cloexec = call->cloexec == ALWAYS || v[0] & call->cloexec;

	if (ret < 0 || !t->fd_op.active || st->no_files)
		return;
	switch (call->kind) {
	case FD_FCNTL:
		after_fcntl(&a, v, ret);
		break;
	case FD_IOCTL:
		set_cloexec(&a, (int32_t)v[0], v[1] == 0x5451);
		break;
	case FD_CLOSE_RANGE:
		after_close_range(&a, v);
		break;
	case FD_PAIR:
		make_listed(&a, call, c, RUT_STATE_EXIT_FILDES, cloexec);
		make_listed(&a, call, c, RUT_STATE_EXIT_USOCKVEC, cloexec);
		break;
	case FD_RECEIVE:
		make_listed(&a, call, c, RUT_STATE_EXIT_RIGHTS, cloexec);
		break;
	default:
		make(&a, ret, call->what, (enum rut_fd_type)call->type, cloexec);
	}
}
