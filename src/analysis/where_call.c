/* SPDX-License-Identifier: MIT */
#include "analysis/where_call.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "analysis/state.h"

/* How the object is found that a call waits for. */
enum how {
	HOW_PLAIN,  /* by the name of the call alone */
	HOW_FD,	    /* the descriptor `fd` */
	HOW_POLL,   /* an array of descriptors */
	HOW_SELECT, /* sets of descriptors; the end of a timeout ends the wait */
	HOW_FUTEX,
	HOW_FCNTL,
	HOW_CONNECT,
};

static const struct rule {
	const char *name;
	uint8_t how, place;
} rules[] = {
	{"read", HOW_FD, RUT_PLACE_OTHER},
	{"readv", HOW_FD, RUT_PLACE_OTHER},
	{"pread64", HOW_FD, RUT_PLACE_DISK},
	{"preadv", HOW_FD, RUT_PLACE_DISK},
	{"preadv2", HOW_FD, RUT_PLACE_DISK},
	{"write", HOW_FD, RUT_PLACE_OTHER},
	{"writev", HOW_FD, RUT_PLACE_OTHER},
	{"pwrite64", HOW_FD, RUT_PLACE_DISK},
	{"pwritev", HOW_FD, RUT_PLACE_DISK},
	{"pwritev2", HOW_FD, RUT_PLACE_DISK},
	{"fsync", HOW_FD, RUT_PLACE_DISK},
	{"fdatasync", HOW_FD, RUT_PLACE_DISK},
	{"sync_file_range", HOW_FD, RUT_PLACE_DISK},
	{"fallocate", HOW_FD, RUT_PLACE_DISK},
	{"ftruncate", HOW_FD, RUT_PLACE_DISK},
	{"getdents", HOW_FD, RUT_PLACE_DISK},
	{"getdents64", HOW_FD, RUT_PLACE_DISK},
	{"sendfile", HOW_PLAIN, RUT_PLACE_NET},
	{"sendfile64", HOW_PLAIN, RUT_PLACE_NET},
	{"splice", HOW_PLAIN, RUT_PLACE_PIPE},
	{"recvmsg", HOW_FD, RUT_PLACE_NET},
	{"recvmmsg", HOW_FD, RUT_PLACE_NET},
	{"recvfrom", HOW_FD, RUT_PLACE_NET},
	{"sendmsg", HOW_FD, RUT_PLACE_NET},
	{"sendmmsg", HOW_FD, RUT_PLACE_NET},
	{"sendto", HOW_FD, RUT_PLACE_NET},
	{"accept", HOW_FD, RUT_PLACE_NET},
	{"accept4", HOW_FD, RUT_PLACE_NET},
	{"connect", HOW_CONNECT, RUT_PLACE_NET},
	{"flock", HOW_FD, RUT_PLACE_LOCK},
	{"fcntl", HOW_FCNTL, RUT_PLACE_LOCK},
	{"poll", HOW_POLL, RUT_PLACE_OTHER},
	{"ppoll", HOW_POLL, RUT_PLACE_OTHER},
	{"select", HOW_SELECT, RUT_PLACE_OTHER},
	{"pselect6", HOW_SELECT, RUT_PLACE_OTHER},
	{"epoll_wait", HOW_PLAIN, RUT_PLACE_NET},
	{"epoll_pwait", HOW_PLAIN, RUT_PLACE_NET},
	{"epoll_pwait2", HOW_PLAIN, RUT_PLACE_NET},
	{"futex", HOW_FUTEX, RUT_PLACE_LOCK},
	{"futex_waitv", HOW_PLAIN, RUT_PLACE_LOCK},
	{"futex_wait", HOW_PLAIN, RUT_PLACE_LOCK},
	{"semop", HOW_PLAIN, RUT_PLACE_LOCK},
	{"semtimedop", HOW_PLAIN, RUT_PLACE_LOCK},
	{"nanosleep", HOW_PLAIN, RUT_PLACE_SLEEP},
	{"clock_nanosleep", HOW_PLAIN, RUT_PLACE_SLEEP},
	{"pause", HOW_PLAIN, RUT_PLACE_SLEEP},
	{"rt_sigtimedwait", HOW_PLAIN, RUT_PLACE_SLEEP},
	{"wait4", HOW_PLAIN, RUT_PLACE_CHILD},
	{"waitid", HOW_PLAIN, RUT_PLACE_CHILD},
	{"vfork", HOW_PLAIN, RUT_PLACE_CHILD},
	{"clone", HOW_PLAIN, RUT_PLACE_CHILD},
	{"clone3", HOW_PLAIN, RUT_PLACE_CHILD},
	{"sync", HOW_PLAIN, RUT_PLACE_DISK},
	{"syncfs", HOW_PLAIN, RUT_PLACE_DISK},
	{"msync", HOW_PLAIN, RUT_PLACE_DISK},
	{"open", HOW_PLAIN, RUT_PLACE_DISK},
	{"openat", HOW_PLAIN, RUT_PLACE_DISK},
	{"openat2", HOW_PLAIN, RUT_PLACE_DISK},
	{"creat", HOW_PLAIN, RUT_PLACE_DISK},
	{"close", HOW_FD, RUT_PLACE_DISK},
	{"stat", HOW_PLAIN, RUT_PLACE_DISK},
	{"lstat", HOW_PLAIN, RUT_PLACE_DISK},
	{"newstat", HOW_PLAIN, RUT_PLACE_DISK},
	{"newlstat", HOW_PLAIN, RUT_PLACE_DISK},
	{"newfstatat", HOW_PLAIN, RUT_PLACE_DISK},
	{"statx", HOW_PLAIN, RUT_PLACE_DISK},
	{"access", HOW_PLAIN, RUT_PLACE_DISK},
	{"faccessat", HOW_PLAIN, RUT_PLACE_DISK},
	{"faccessat2", HOW_PLAIN, RUT_PLACE_DISK},
	{"readlink", HOW_PLAIN, RUT_PLACE_DISK},
	{"rename", HOW_PLAIN, RUT_PLACE_DISK},
	{"renameat", HOW_PLAIN, RUT_PLACE_DISK},
	{"renameat2", HOW_PLAIN, RUT_PLACE_DISK},
	{"unlink", HOW_PLAIN, RUT_PLACE_DISK},
	{"unlinkat", HOW_PLAIN, RUT_PLACE_DISK},
	{"mkdir", HOW_PLAIN, RUT_PLACE_DISK},
	{"mkdirat", HOW_PLAIN, RUT_PLACE_DISK},
	{"rmdir", HOW_PLAIN, RUT_PLACE_DISK},
	{"link", HOW_PLAIN, RUT_PLACE_DISK},
	{"linkat", HOW_PLAIN, RUT_PLACE_DISK},
	{"symlink", HOW_PLAIN, RUT_PLACE_DISK},
	{"symlinkat", HOW_PLAIN, RUT_PLACE_DISK},
	{"execve", HOW_PLAIN, RUT_PLACE_DISK},
	{"execveat", HOW_PLAIN, RUT_PLACE_DISK},
};

/* The arguments of one class of events. */
struct decoder {
	const struct rule *rule;    /* NULL: none of the above */
	struct rut_ctf_ref sets[2]; /* of select() */
	struct rut_ctf_ref fd, timeout, op, path, family, port, addr4, addr6, n;
};

/* A descriptor that the state model does not know well: a pipe or a socket. */
struct known_fd {
	uint8_t place;
	const char *what;	/* interned; NULL: not known */
	const char *connecting; /* `what` until the connection is there; NULL: it is */
};

static const char *plain_name(const char *name)
{
	return !strncmp(name, "compat_", 7) ? name + 7 : name;
}

static struct decoder *get_decoder(struct rut_where *w, const struct rut_hook_syscall *h)
{
	const struct rut_ctf_event_class *cls = h->ev->cls;
	uint64_t key = (uint64_t)cls->index + 1;
	struct decoder *d = rut_map_get(&w->decoders, key);
	const char *name = plain_name(h->info->name);

	if (d)
		return d;
	d = calloc(1, sizeof(*d));
	if (!d || rut_map_put(&w->decoders, key, d)) {
		free(d);
		w->failed = true;
		return NULL;
	}
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules) && !d->rule; i++)
		if (!strcmp(rules[i].name, name))
			d->rule = &rules[i];
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "fd", &d->fd);
	if (!rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "utime", &d->timeout) &&
	    !rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "tsp", &d->timeout) &&
	    !rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "timeout_msecs", &d->timeout))
		rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "tvp", &d->timeout);
	if (!rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "op", &d->op))
		rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "cmd", &d->op);
	if (!rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "sun_path", &d->path))
		rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "filename", &d->path);
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "family", &d->family);
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "dport", &d->port);
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "v6addr", &d->addr6);
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "v4addr", &d->addr4);
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "n", &d->n);
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "readfds", &d->sets[0]);
	rut_ctf_ref_find(cls, RUT_CTF_SCOPE_PAYLOAD, "writefds", &d->sets[1]);
	return d;
}

/* ---- Descriptors ---- */

static uint64_t fd_key(const struct rut_thread *t, int64_t fd)
{
	return ((uint64_t)(t->pid >= 0 ? t->pid : t->tid) << 32 | (uint32_t)fd) + 1;
}

static struct known_fd *learn(struct rut_where *w, const struct rut_thread *t, int64_t fd,
			      enum rut_place place)
{
	struct known_fd *f = rut_map_get(&w->fds, fd_key(t, fd));

	if (!f) {
		f = calloc(1, sizeof(*f));
		if (!f || rut_map_put(&w->fds, fd_key(t, fd), f)) {
			free(f);
			w->failed = true;
			return NULL;
		}
	}
	*f = (struct known_fd){.place = (uint8_t)place};
	return f;
}

/* Data can be read and written: the connection is there. */
static void note_connected(struct rut_where *w, const struct rut_thread *t, int64_t fd)
{
	struct known_fd *f = rut_map_get(&w->fds, fd_key(t, fd));

	if (f)
		f->connecting = NULL;
}

static void forget(struct rut_where *w, const struct rut_thread *t, int64_t fd)
{
	free(rut_map_remove(&w->fds, fd_key(t, fd)));
}

static bool is_address(const char *s)
{
	return isdigit((unsigned char)*s) && strchr(s, ':');
}

/* What this descriptor is: where a wait for it is, and its name. `place`: when that is not known.
 */
static enum rut_place fd_place(struct rut_where *w, struct rut_thread *t, int64_t fd,
			       enum rut_place place, const char **ret_what)
{
	const struct known_fd *known = rut_map_get(&w->fds, fd_key(t, fd));
	const struct rut_fd *f = rut_an_state_fd(rut_an_state_leader(w->st, t), fd);
	const char *name = f && f->filename != w->st->unknown ? f->filename : NULL;

	*ret_what = name && *name ? name : NULL;
	if (known) {
		if (known->connecting)
			*ret_what = known->connecting;
		else if (known->what || !name || !is_address(name))
			*ret_what = known->what;
		return known->place;
	}
	if (!name)
		return f && f->type == RUT_FD_NET ? RUT_PLACE_NET : place;
	if (!strncmp(name, "pipe:", 5))
		return RUT_PLACE_PIPE;
	if (f->type == RUT_FD_NET || !strncmp(name, "socket", 6) || is_address(name)) {
		if (!is_address(name))
			*ret_what = NULL;
		return RUT_PLACE_NET;
	}
	if (!strncmp(name, "anon_inode:", 11))
		return RUT_PLACE_OTHER;
	return *name == '/' && strncmp(name, "/dev/", 5) != 0 ? RUT_PLACE_DISK : place;
}

/* ---- poll ---- */

void rut_an_poll_each(const struct rut_ctf_event *ev, void (*fn)(void *arg, int64_t fd), void *arg)
{
	struct rut_ctf_iter it;
	const struct rut_ctf_type *payload = rut_ctf_iter_init(&it, ev, RUT_CTF_SCOPE_PAYLOAD);
	struct rut_ctf_value v;

	if (!payload)
		return;
	rut_ctf_iter_enter(&it, payload);
	for (uint32_t i = 0; i < payload->n_fields; i++) {
		const struct rut_ctf_type *type = payload->fields[i].type, *elem = type->elem;
		uint64_t n;

		if (strcmp(payload->fields[i].name, "fds") != 0 || !elem ||
		    elem->kind != RUT_CTF_KIND_STRUCT || !elem->n_fields) {
			rut_ctf_iter_skip(&it, type);
			continue;
		}
		n = rut_ctf_iter_enter(&it, type);
		for (uint64_t k = 0; k < n && !it.failed; k++) {
			rut_ctf_iter_enter(&it, elem);
			rut_ctf_iter_value(&it, elem->fields[0].type, &v);
			for (uint32_t m = 1; m < elem->n_fields; m++)
				rut_ctf_iter_skip(&it, elem->fields[m].type);
			fn(arg, v.i);
		}
	}
}

struct polled {
	struct rut_where *w;
	struct rut_thread *thread;
	enum rut_place best;
	const char *what;
};

static void choose(void *arg, int64_t fd)
{
	struct polled *p = arg;
	const char *what;
	enum rut_place place = fd_place(p->w, p->thread, fd, RUT_PLACE_OTHER, &what);

	if (place != RUT_PLACE_OTHER && p->best == RUT_PLACE_OTHER) {
		p->best = place;
		p->what = what;
	}
}

/*
 * The first pipe or socket that is polled is what is waited for. Ruby polls its own eventfd along
 * with it, or alone in order to sleep, or to wait until another thread interrupts it.
 */
static enum rut_place poll_place(struct rut_where *w, struct rut_where_thread *t,
				 const struct rut_ctf_event *ev, const char **ret_what)
{
	struct polled p = {.w = w, .thread = t->thread, .best = RUT_PLACE_OTHER};

	rut_an_poll_each(ev, choose, &p);
	*ret_what = p.what;
	return p.best;
}

/* The same of the sets of select(). */
static enum rut_place select_place(struct rut_where *w, struct rut_where_thread *t,
				   const struct decoder *d, const struct rut_ctf_event *ev,
				   const char **ret_what)
{
	enum rut_place best = RUT_PLACE_OTHER;

	*ret_what = NULL;
	for (int set = 0; set < 2; set++) {
		uint64_t n = rut_ctf_seq_len(ev, &d->sets[set]);

		for (uint64_t i = 0; i < n * 8 && best == RUT_PLACE_OTHER; i++) {
			uint64_t bits = rut_ctf_seq_u64(ev, &d->sets[set], i / 8);

			if (bits >> i % 8 & 1)
				best = fd_place(w, t->thread, (int64_t)i, RUT_PLACE_OTHER,
						ret_what);
		}
	}
	return best;
}

/* ---- Entry and exit ---- */

#define FUTEX_CMD(op) ((op)&127)
#define COMPUTES_NS   2000000 /* less than Ruby lets a thread run while others wait */
enum { FUTEX_WAIT_ = 0, FUTEX_LOCK_PI_ = 6, FUTEX_WAIT_BITSET_ = 9 };

const char *rut_an_peer_name(struct rut_state *st, const struct rut_ctf_event *ev,
			     const struct rut_ctf_ref *addr, bool v6, uint64_t port)
{
	const uint64_t len = rut_ctf_seq_len(ev, addr);
	uint64_t a[16];
	char text[128];
	size_t n = 0;

	/* Some events have the address of IPv6 as 16 bytes, others as 8 numbers of 16 bits. */
	if (v6 ? len != 16 && len != 8 : len != 4)
		return NULL;
	for (uint64_t i = 0; i < len; i++)
		a[i] = rut_ctf_seq_u64(ev, addr, i);
	for (uint64_t i = 0; v6 && i < len; i += len / 8)
		n += (size_t)snprintf(
			text + n, sizeof(text) - n, "%s%llx", i ? ":" : "[",
			(unsigned long long)(len == 8 ? a[i] & 0xffff
						      : (a[i] & 255) << 8 | (a[i + 1] & 255)));
	if (v6)
		snprintf(text + n, sizeof(text) - n, "]:%llu", (unsigned long long)port);
	else
		snprintf(text, sizeof(text), "%llu.%llu.%llu.%llu:%llu",
			 (unsigned long long)(a[0] & 255), (unsigned long long)(a[1] & 255),
			 (unsigned long long)(a[2] & 255), (unsigned long long)(a[3] & 255),
			 (unsigned long long)port);
	return rut_an_state_intern(st, text, strlen(text));
}

/* "10.0.0.1:5432", "[0:0:...:1]:80", "/run/x.sock"; NULL: not known. */
static const char *peer_name(struct rut_where *w, const struct decoder *d,
			     const struct rut_ctf_event *ev, uint64_t family)
{
	bool v6 = family == AF_INET6;
	size_t len;
	const char *s;

	if (family == AF_UNIX) {
		s = rut_ctf_str(ev, &d->path, &len);
		return len ? rut_an_state_intern(w->st, s, len) : NULL;
	}
	if (!v6 && family != AF_INET)
		return NULL;
	return rut_an_peer_name(w->st, ev, v6 ? &d->addr6 : &d->addr4, v6,
				rut_ctf_u64(ev, &d->port));
}

static void enter_connect(struct rut_where *w, struct rut_where_thread *t, const struct decoder *d,
			  const struct rut_ctf_event *ev)
{
	int64_t fd = rut_ctf_i64(ev, &d->fd);
	const char *peer = peer_name(w, d, ev, rut_ctf_u64(ev, &d->family));
	struct known_fd *f = peer ? learn(w, t->thread, fd, RUT_PLACE_NET) : NULL;
	char text[160];

	if (f) {
		snprintf(text, sizeof(text), RUT_CONNECTING "%s", peer);
		f->what = peer;
		f->connecting = rut_an_state_intern(w->st, text, strlen(text));
	}
	(void)fd_place(w, t->thread, fd, RUT_PLACE_NET, &t->call_what);
}

/*
 * A thread that was refused a lock of a file, and sleeps, will ask again: SQLite waits in this way,
 * and what polls with LOCK_NB. In between it may release other locks.
 */
#define REFUSED_CALLS 8

static bool was_refused(const struct rut_where_thread *t)
{
	return t->refused && t->nr - t->refused_nr <= REFUSED_CALLS;
}

static void wait_for_refused(struct rut_where_thread *t)
{
	t->call_place = RUT_PLACE_LOCK;
	t->call_what = t->refused;
	t->refused = NULL; /* unless it is refused again */
	t->asks_again = true;
}

static void enter_poll(struct rut_where *w, struct rut_where_thread *t, const struct decoder *d,
		       const struct rut_hook_syscall *h)
{
	int64_t timeout = rut_ctf_i64(h->ev, &d->timeout);
	bool limited = plain_name(h->info->name)[0] == 'p' && plain_name(h->info->name)[1] == 'o'
			       ? timeout >= 0
			       : timeout != 0;

	t->timed = limited;
	if (limited && !strcmp(plain_name(h->info->name), "poll"))
		t->expires_ns = h->ts_ns + 1000000 * (timeout < INT32_MAX ? timeout : INT32_MAX);
	t->call_place = (uint8_t)poll_place(w, t, h->ev, &t->call_what);
	if (t->call_place != RUT_PLACE_OTHER)
		return;
	if (limited && was_refused(t)) {
		wait_for_refused(t);
		return;
	}
	/* Nothing but its own eventfd: a sleep, a child that has not ended, or a lock. */
	t->call_place = limited ? RUT_PLACE_SLEEP : t->child ? RUT_PLACE_CHILD : RUT_PLACE_LOCK;
}

/*
 * Whether it runs Ruby: it made an event since it returned from a call for which Ruby gives the GVL
 * away, after which it had to ask for it. One that has computed for long may have to give it away
 * to others, and waits for it then.
 */
static bool has_gvl(const struct rut_where_thread *t, int64_t now_ns)
{
	int64_t since_ns = t->freed_ns > t->out_ns ? t->freed_ns : t->out_ns;

	return t->ruby && t->ran_ns > t->freed_ns && t->out_ns != RUT_NO_TIME &&
	       t->after_ns + now_ns - since_ns < COMPUTES_NS;
}

static void enter_futex(struct rut_where_thread *t, const struct decoder *d,
			const struct rut_hook_syscall *h)
{
	uint64_t op = FUTEX_CMD(rut_ctf_u64(h->ev, &d->op));
	bool waits = op == FUTEX_WAIT_ || op == FUTEX_WAIT_BITSET_;

	t->frees = waits || op == FUTEX_LOCK_PI_;
	t->timed = waits && rut_ctf_u64(h->ev, &d->timeout) != 0;
	t->had_gvl = t->timed && has_gvl(t, h->ts_ns);
}

void rut_an_where_call_entry(struct rut_where *w, struct rut_where_thread *t,
			     const struct rut_hook_syscall *h)
{
	const struct decoder *d = get_decoder(w, h);
	const struct rule *r = d ? d->rule : NULL;
	uint64_t op;
	size_t len;
	const char *s;

	t->call_place = r ? r->place : RUT_PLACE_OTHER;
	t->call_what = NULL;
	t->timed = t->asks_again = t->had_gvl = false;
	t->frees = t->call_place != RUT_PLACE_OTHER ||
		   !strcmp(plain_name(h->info->name), "sched_yield");
	t->expires_ns = 0;
	switch (r ? r->how : HOW_PLAIN) {
	case HOW_FD:
		note_connected(w, t->thread, rut_ctf_i64(h->ev, &d->fd));
		t->call_place = (uint8_t)fd_place(w, t->thread, rut_ctf_i64(h->ev, &d->fd),
						  r->place, &t->call_what);
		/* What the call says of itself is more than what the file is. */
		if (r->place == RUT_PLACE_LOCK || r->place == RUT_PLACE_NET)
			t->call_place = r->place;
		if (!strcmp(r->name, "close"))
			forget(w, t->thread, rut_ctf_i64(h->ev, &d->fd));
		t->asked = r->place == RUT_PLACE_LOCK ? t->call_what : NULL;
		break;
	case HOW_FCNTL:
		op = rut_ctf_u64(h->ev, &d->op);
		if (op != 7 && op != 38) /* F_SETLKW, F_OFD_SETLKW */
			t->call_place = RUT_PLACE_OTHER;
		(void)fd_place(w, t->thread, rut_ctf_i64(h->ev, &d->fd), r->place, &t->call_what);
		t->asked = op == 6 || op == 37 ? t->call_what : NULL; /* F_SETLK, F_OFD_SETLK */
		break;
	case HOW_POLL:
		enter_poll(w, t, d, h);
		break;
	case HOW_SELECT:
		t->timed = rut_ctf_u64(h->ev, &d->timeout) != 0;
		t->call_place = (uint8_t)select_place(w, t, d, h->ev, &t->call_what);
		if (t->call_place == RUT_PLACE_OTHER && t->timed && was_refused(t))
			wait_for_refused(t);
		else if (t->call_place == RUT_PLACE_OTHER && t->timed)
			t->call_place = RUT_PLACE_SLEEP;
		break;
	case HOW_FUTEX:
		enter_futex(t, d, h);
		break;
	case HOW_CONNECT:
		enter_connect(w, t, d, h->ev);
		break;
	default:
		if (r && strstr(r->name, "nanosleep") && was_refused(t))
			wait_for_refused(t);
		if (r && r->place == RUT_PLACE_DISK && rut_ctf_ref_ok(&d->path)) {
			s = rut_ctf_str(h->ev, &d->path, &len);
			t->call_what = len ? rut_an_state_intern(w->st, s, len) : NULL;
		}
		break;
	}
}

/* The two descriptors that pipe() and socketpair() have made. */
static void learn_pair(struct rut_where *w, const struct rut_where_thread *t,
		       const struct rut_hook_syscall *h, bool pipe)
{
	struct rut_ctf_ref pair;

	if (!rut_ctf_ref_find(h->ev->cls, RUT_CTF_SCOPE_PAYLOAD, pipe ? "fildes" : "usockvec",
			      &pair) ||
	    rut_ctf_seq_len(h->ev, &pair) != 2)
		return;
	for (uint64_t i = 0; i < 2; i++)
		(void)learn(w, t->thread, (int64_t)rut_ctf_seq_u64(h->ev, &pair, i),
			    pipe ? RUT_PLACE_PIPE : RUT_PLACE_NET);
}

static void note_refusal(struct rut_where_thread *t, int64_t ret)
{
	if (ret != -EAGAIN && ret != -EACCES)
		return;
	t->refused = t->asked;
	t->refused_nr = t->nr;
}

void rut_an_where_call_exit(struct rut_where *w, struct rut_where_thread *t,
			    const struct rut_hook_syscall *h)
{
	const char *name = plain_name(h->info->name);

	if (t->frees) {
		t->freed_ns = h->ts_ns;
		t->after_ns = 0;
	}
	t->frees = false;
	if (!strcmp(name, "wait4"))
		t->child = h->has_ret && h->ret == 0;
	if (t->asked && h->has_ret && (!strcmp(name, "fcntl") || !strcmp(name, "flock")))
		note_refusal(t, h->ret);
	if (!h->has_ret || h->ret < 0)
		return;
	if (!strcmp(name, "pipe") || !strcmp(name, "pipe2"))
		learn_pair(w, t, h, true);
	else if (!strcmp(name, "socketpair"))
		learn_pair(w, t, h, false);
	else if (!strcmp(name, "socket") || !strncmp(name, "accept", 6) ||
		 !strncmp(name, "open", 4))
		forget(w, t->thread, h->ret);
}
