/* SPDX-License-Identifier: MIT */
#include "within.h"

#include "frames.h"
#include "hit.h"
#include "names.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* rb_method_entry_t and rb_method_definition_struct, in words; as bpf/ruby.bpf.h has them. */
#define MENT_DEF   2
#define MENT_OWNER 4
#define DEF_ID	   4
#define DEF_TYPE   15u
/* Of an environment: flags, and the one around it. */
#define ENV_FLAGS 0
#define ENV_LOCAL 2u
#define ENV_OUTER (-1)

#define METHODS 63
#define OUTER	8 /* blocks in blocks */
#define CACHE	64
#define NAME	1024

typedef void (*site_fn)(uint64_t session, const char *texts, uint64_t what, uint64_t slot,
			uint64_t ec, uint64_t vm_stack);

struct rut_within_method {
	ID id; /* 0: not known (yet) */
	const char *class_name, *name;
	bool singleton;
	uint8_t bit;
};

/* A frame that adds to what the thread is in. */
struct added {
	const VALUE *cfp;
	VALUE iseq;	 /* what it runs: another's, and the frame is over */
	uint64_t before; /* the bits without it */
};

/* A thread that has a slot; its number is the slot's. */
struct rut_within_thread {
	const void *ec; /* of the frames below; NULL: they are not read */
	uint64_t known; /* s->within.known, as the kernel has it of this thread */
	uint32_t count;
	struct added added[METHODS]; /* each adds one bit at least */
};

/* What a method entry was found to be. */
struct rut_within_known {
	VALUE ment;
	struct rut_life life;
	uint64_t bits;
};

/* Checked at each use: the slot of a session that is over is another one's. */
static __thread struct {
	uint32_t number[RUT_AGENT_SLOTS], slot[RUT_AGENT_SLOTS];
} own __attribute__((tls_model("initial-exec")));

static uint32_t sessions; /* so far */

#define MAP_BYTES     (RUT_WITHIN_SLOTS * sizeof(struct rut_within_slot))
#define THREADS_BYTES (RUT_WITHIN_SLOTS * sizeof(struct rut_within_thread))
#define METHODS_BYTES (METHODS * sizeof(struct rut_within_method))
#define CACHE_BYTES   (CACHE * sizeof(struct rut_within_known))

/* ---- the session ---- */

/* "Order#total", "Order.find": cut where the class ends. */
static void add_method(struct rut_session *s, char bit, char *text)
{
	struct rut_within_method *m = &s->within.methods[s->within.count];
	char *at = strrchr(text, '#');

	if (!at)
		at = strrchr(text, '.');
	if (!at || s->within.count == METHODS)
		return;
	*m = (struct rut_within_method){.class_name = text,
					.name = at + 1,
					.singleton = *at == '.',
					.bit = (uint8_t)(bit - RUT_WITHIN_FIRST)};
	*at = 0;
	s->within.count++;
}

/*
 * The tracer's end of the socket stays in this process, and the tracer takes a copy of it. Where
 * system calls are filtered none is made: the filter might end the process for it.
 */
static void open_socket(struct rut_session *s)
{
	struct stat st;

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->within.sockets) < 0) {
		s->within.sockets[0] = s->within.sockets[1] = -1;
		return;
	}
	for (int i = 0; i < 2; i++)
		if (!syscall(SYS_fstat, s->within.sockets[i], &st))
			s->within.socket_inos[i] = st.st_ino;
	s->table.hdr->socket_ino = s->within.socket_inos[1];
	s->table.hdr->socket_fd = (uint32_t)s->within.sockets[1] + 1;
}

/* The program may have closed it, and have another file of that number. */
static bool is_open(const struct rut_session *s, int i)
{
	return rut_agent_fd_is(s->within.sockets[i], s->within.socket_inos[i]);
}

static void close_socket(struct rut_session *s)
{
	for (int i = 0; i < 2; i++) {
		if (is_open(s, i))
			close(s->within.sockets[i]);
		s->within.sockets[i] = -1;
	}
	if (s->table.hdr)
		s->table.hdr->socket_fd = 0;
}

int rut_agent_within_init(struct rut_session *s)
{
	const char *c = s->slot->config;

	s->within.sockets[0] = s->within.sockets[1] = -1;
	while (*c && *c != RUT_FILTER_WITHIN)
		c += strlen(c) + 1;
	if (!*c)
		return 0;
	s->within.methods = rut_agent_map(METHODS_BYTES);
	s->within.cache = rut_agent_map(CACHE_BYTES);
	if (!s->within.methods || !s->within.cache)
		return -ENOMEM;
	for (c = s->slot->config; *c; c += strlen(c) + 1) {
		char *copy;

		if (*c != RUT_FILTER_WITHIN || !c[1])
			continue;
		copy = rut_agent_session_alloc(s, strlen(c + 2) + 1);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, c + 2, strlen(c + 2) + 1);
		add_method(s, c[1], copy);
	}
	s->within.number = ++sessions;
	open_socket(s);
	/* Then hooks are of no use. */
	if (s->within.sockets[0] < 0)
		s->within.count = 0;
	return 0;
}

void rut_agent_within_fini(struct rut_session *s)
{
	s->within.on = false;
	close_socket(s);
	if (s->within.slots)
		munmap(s->within.slots, MAP_BYTES);
	if (s->within.threads)
		rut_agent_unmap(s->within.threads, THREADS_BYTES);
	if (s->within.methods)
		rut_agent_unmap(s->within.methods, METHODS_BYTES);
	if (s->within.cache)
		rut_agent_unmap(s->within.cache, CACHE_BYTES);
	s->within.slots = NULL;
	s->within.threads = NULL;
	s->within.methods = NULL;
	s->within.cache = NULL;
}

static int receive(int socket)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1 ||
	    msg.msg_controllen < sizeof(control.head) || control.head.cmsg_level != SOL_SOCKET ||
	    control.head.cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

void rut_agent_within_take(struct rut_session *s)
{
	struct rut_within_thread *threads;
	void *map;
	int fd;

	if (s->within.slots || !is_open(s, 0))
		return;
	fd = receive(s->within.sockets[0]);
	if (fd < 0)
		return;
	map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	close_socket(s);
	threads = map == MAP_FAILED ? NULL : rut_agent_map(THREADS_BYTES);
	if (!threads) {
		if (map != MAP_FAILED)
			munmap(map, MAP_BYTES);
		return;
	}
	s->within.threads = threads;
	__atomic_store_n(&s->within.slots, map, __ATOMIC_RELEASE);
}

bool rut_agent_within_due(const struct rut_session *s)
{
	return s->within.slots && !s->within.on && !s->within.refused;
}

void rut_agent_within_refuse(struct rut_session *s)
{
	s->within.refused = true;
	s->within.on = false;
	if (s->within.slots)
		__atomic_store_n(&s->within.slots->refused, 1, __ATOMIC_RELAXED);
}

static void say(const struct rut_session *s, enum rut_within_said what, uint64_t value)
{
	site_fn site = (site_fn)(uintptr_t)(rut_agent_sites +
					    (size_t)(RUT_HIT_PROBES - 1) * RUT_HIT_SITE_BYTES);

	site(s->slot->session_id, NULL, what, value, 0, 0);
}

/* Threads that move to other native threads do so without a word. */
static bool can_follow(const struct rut_session *s)
{
	return rut_single_ractor() && !s->global && !(rb.abi->threads_move && rb.threads_move);
}

/* Otherwise the name has an ID for each encoding, and rb_intern() makes that of US-ASCII. */
static bool is_ascii(const char *s)
{
	while (*s && !(*s & 0x80))
		s++;
	return !*s;
}

static VALUE learn_body(VALUE arg)
{
	struct rut_session *s = (struct rut_session *)arg;

	for (unsigned i = 0; i < s->within.count; i++) {
		struct rut_within_method *m = &s->within.methods[i];

		if (!m->id && is_ascii(m->name))
			m->id = rb.rb_intern(m->name);
	}
	return rut_agent_frames_learn() ? rb.qtrue : rb.qnil;
}

void rut_agent_within_begin(struct rut_session *s)
{
	int failed = 0;
	VALUE learned;

	if (!rut_agent_within_due(s))
		return;
	learned = rb.rb_protect(learn_body, (VALUE)s, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	if (failed || learned != rb.qtrue || !can_follow(s)) {
		rut_agent_within_refuse(s);
		return;
	}
	s->within.known = s->within.found;
	say(s, RUT_WITHIN_READY, s->within.known);
	s->within.on = true;
}

void rut_agent_within_found(struct rut_session *s, const char *class_name, bool singleton, ID id,
			    const char *method)
{
	for (unsigned i = 0; i < s->within.count; i++) {
		struct rut_within_method *m = &s->within.methods[i];

		if (m->singleton == singleton && !strcmp(m->name, method) &&
		    !strcmp(m->class_name, class_name) && (!m->id || m->id == id)) {
			m->id = id;
			s->within.found |= 1ull << m->bit;
		}
	}
}

/* ---- frames ---- */

/* The methods of this class among those of this name. */
static uint64_t bits_of_class(struct rut_session *s, VALUE owner, ID id)
{
	char name[NAME];
	bool singleton;
	uint64_t bits = 0;

	if (rut_special_p(owner))
		return 0;
	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	rut_agent_class_name(owner, name, sizeof(name), &singleton);
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < s->within.count; i++) {
		const struct rut_within_method *m = &s->within.methods[i];

		if (m->id == id && m->singleton == singleton && !strcmp(m->class_name, name))
			bits |= 1ull << m->bit;
	}
	/* A method that was defined since all were looked for: its hook has led here. */
	s->within.met |= bits;
	return bits;
}

/* Most methods have another name, and that is two loads. */
static uint64_t bits_of_ment(struct rut_session *s, VALUE ment)
{
	const VALUE *entry = (const VALUE *)ment, *def = (const VALUE *)entry[MENT_DEF];
	struct rut_within_known *k = &s->within.cache[(ment >> 3 ^ ment >> 9) % CACHE];
	unsigned i = 0;

	if (!def || !def[DEF_ID])
		return 0;
	while (i < s->within.count && s->within.methods[i].id != (ID)def[DEF_ID])
		i++;
	if (i == s->within.count)
		return 0;
	rut_lives_sync();
	if (k->ment != ment || !rut_life_holds(k->life)) {
		k->bits = bits_of_class(s, entry[MENT_OWNER], (ID)def[DEF_ID]);
		k->ment = ment;
		k->life = rut_agent_life_of(ment, entry[MENT_OWNER]);
	}
	return k->bits;
}

/* The methods whose code this frame runs, also as a block. C methods are not followed. */
static uint64_t bits_of_frame(struct rut_session *s, const VALUE *cfp)
{
	const VALUE *ep = (const VALUE *)cfp[RUT_FRAME_EP];

	if (!cfp[RUT_FRAME_PC] || !cfp[RUT_FRAME_ISEQ])
		return 0;
	for (int i = 0; i < OUTER; i++) {
		VALUE ment = ep[RUT_ENV_MENT];

		if (!rut_special_p(ment) && rut_imemo(ment) == RUT_IMEMO_SVAR)
			ment = ((const VALUE *)ment)[1];
		if (!rut_special_p(ment) && rut_imemo(ment) == RUT_IMEMO_MENT)
			return bits_of_ment(s, ment);
		if (ep[ENV_FLAGS] & ENV_LOCAL)
			return 0;
		ep = (const VALUE *)(ep[ENV_OUTER] & ~(VALUE)3);
	}
	return 0;
}

/* ---- threads ---- */

static struct rut_within_slot *slot_of(const struct rut_session *s,
				       const struct rut_within_thread *t)
{
	return &s->within.slots[t - s->within.threads];
}

static void put(const struct rut_session *s, const struct rut_within_thread *t, uint64_t bits)
{
	__atomic_store_n(&slot_of(s, t)->bits, bits, __ATOMIC_RELAXED);
}

/* The frame is the innermost one. */
static uint64_t enter(struct rut_session *s, struct rut_within_thread *t, const VALUE *cfp,
		      uint64_t bits)
{
	uint64_t now = bits | bits_of_frame(s, cfp);

	if (now != bits && t->count < METHODS)
		t->added[t->count++] = (struct added){cfp, cfp[RUT_FRAME_ISEQ], bits};
	return now;
}

/* Frames at this address and below it are over. */
static uint64_t leave(struct rut_within_thread *t, const VALUE *cfp, uint64_t bits)
{
	while (t->count && t->added[t->count - 1].cfp <= cfp)
		bits = t->added[--t->count].before;
	return bits;
}

/*
 * Is the innermost frame of those that are left over, too? While a SystemStackError unwinds, Ruby
 * reports no returns. What has taken the frame's place since then runs other code: the same code
 * would have been hooked, and leave() has dropped the frame then. (Code that the GC has moved is
 * taken for other code: then frames are read once more.)
 */
static bool is_stale(const struct rut_within_thread *t)
{
	const struct added *last = t->count ? &t->added[t->count - 1] : NULL;
	struct rut_frames f;

	if (!last)
		return false;
	return !rut_agent_frames_of(t->ec, &f) || last->cfp < f.inner || last->cfp >= f.end ||
	       last->cfp[RUT_FRAME_ISEQ] != last->iseq;
}

static void read_frames(struct rut_session *s, struct rut_within_thread *t, const void *ec)
{
	struct rut_frames f;
	uint64_t bits = 0;

	t->ec = ec;
	t->count = 0;
	if (ec && rut_agent_frames_of(ec, &f))
		for (const VALUE *cfp = f.end - f.words; cfp >= f.inner; cfp -= f.words)
			bits = enter(s, t, cfp, bits);
	put(s, t, bits);
}

/* A slot that is free; 0: there is none. */
static uint32_t take_slot(const struct rut_session *s)
{
	for (uint32_t i = 1; i < RUT_WITHIN_SLOTS; i++) {
		uint32_t free = 0;

		if (!s->within.slots[i].owner &&
		    __atomic_compare_exchange_n(&s->within.slots[i].owner, &free, 1, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return i;
	}
	return 0;
}

/*
 * The first time that a hook runs in this thread. What the kernel has found out about it up to now
 * holds no longer: so it must be told.
 */
static RUT_COLD struct rut_within_thread *join(struct rut_session *s, const void *ec)
{
	uint32_t i = take_slot(s);
	struct rut_within_thread *t = &s->within.threads[i];

	own.number[s->index] = s->within.number;
	own.slot[s->index] = i;
	if (!i) {
		/* Of this thread the stack is read. */
		say(s, RUT_WITHIN_THREAD, RUT_WITHIN_NO_SLOT);
		return NULL;
	}
	s->within.slots[i].registered = 0;
	read_frames(s, t, ec);
	t->known = s->within.known;
	say(s, RUT_WITHIN_THREAD, i);
	if (__atomic_load_n(&s->within.slots[i].registered, __ATOMIC_ACQUIRE))
		return t;
	rut_agent_within_refuse(s);
	return NULL;
}

static inline struct rut_within_thread *thread_of(struct rut_session *s, const void *ec)
{
	if (RUT_UNLIKELY(own.number[s->index] != s->within.number))
		return join(s, ec);
	return own.slot[s->index] ? &s->within.threads[own.slot[s->index]] : NULL;
}

/*
 * More methods are followed. The kernel learns it of each thread when all of its frames have been
 * read: what it did before its next hook is not known. Until then its stack is read for them.
 */
static RUT_COLD void catch_up(struct rut_session *s, struct rut_within_thread *t, const void *ec)
{
	if (s->within.met & ~s->within.known) {
		s->within.known |= s->within.met;
		say(s, RUT_WITHIN_READY, s->within.known);
	}
	read_frames(s, t, ec);
	t->known = s->within.known;
	say(s, RUT_WITHIN_THREAD, own.slot[s->index]);
}

static bool is_behind(const struct rut_session *s, const struct rut_within_thread *t)
{
	return s->within.met & ~s->within.known || t->known != s->within.known;
}

void rut_agent_within_event(struct rut_session *s, const struct rut_trace_arg *ta)
{
	struct rut_within_thread *t;
	uint64_t bits;

	if (RUT_UNLIKELY(!rut_single_ractor())) {
		rut_agent_within_refuse(s);
		return;
	}
	t = thread_of(s, ta->ec);
	if (!t)
		return;
	if (RUT_UNLIKELY(is_behind(s, t)))
		catch_up(s, t, ta->ec);
	if (RUT_UNLIKELY(t->ec != ta->ec))
		read_frames(s, t, ta->ec);
	bits = leave(t, ta->cfp, slot_of(s, t)->bits);
	if (RUT_UNLIKELY(is_stale(t))) {
		read_frames(s, t, ta->ec);
		bits = leave(t, ta->cfp, slot_of(s, t)->bits);
	}
	if (ta->event & (RUT_EVENT_CALL | RUT_EVENT_B_CALL))
		bits = enter(s, t, ta->cfp, bits);
	put(s, t, bits);
}

void rut_agent_within_on_switch(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_within_thread *t = s->within.on ? thread_of(s, ta->ec) : NULL;

	if (t)
		read_frames(s, t, ta->ec);
}

/* Another thread of Ruby's may get the native one. */
void rut_agent_within_on_thread_end(VALUE tp, void *session)
{
	struct rut_session *s = session;
	struct rut_trace_arg *ta = rb.rb_tracearg_from_tracepoint(tp);
	struct rut_within_thread *t = s->within.on ? thread_of(s, ta->ec) : NULL;

	if (!t)
		return;
	t->ec = NULL;
	t->count = 0;
	put(s, t, 0);
}

void rut_agent_within_forked(struct rut_session *s)
{
	struct rut_within_thread *old;
	uint32_t i;

	/* What is sent is for the parent. */
	close_socket(s);
	if (!s->within.on)
		return;
	say(s, RUT_WITHIN_READY, s->within.known);
	if (own.number[s->index] != s->within.number)
		return;
	old = own.slot[s->index] ? &s->within.threads[own.slot[s->index]] : NULL;
	/* What the parent does meanwhile is its own. */
	i = old ? take_slot(s) : 0;
	own.slot[s->index] = i;
	if (!i) {
		say(s, RUT_WITHIN_THREAD, RUT_WITHIN_NO_SLOT);
		return;
	}
	s->within.slots[i].registered = 0;
	s->within.threads[i] = *old;
	read_frames(s, &s->within.threads[i], old->ec);
	say(s, RUT_WITHIN_THREAD, i);
	if (!__atomic_load_n(&s->within.slots[i].registered, __ATOMIC_ACQUIRE))
		rut_agent_within_refuse(s);
}
