/* SPDX-License-Identifier: MIT */
/*
 * The agent: what runs inside a Ruby process that is traced.
 *
 * It is loaded by injection or by RUBYOPT=-r, and stays. Its constructor, which may run in any
 * thread in any state, makes the control page (abi.h) and one native thread, no more. That thread
 * sleeps on the futex of the page until a tracer wakes it, and for good when there is no tracer: a
 * process that is not being traced pays nothing. Hooks are set and taken away on a Ruby thread
 * (gvl.h). While there is a session the thread looks once a second whether its tracer still lives.
 *
 * The library links against nothing: the symbols of libc are unversioned, so that it loads into any
 * glibc since 2.28, and Ruby's are looked up at run time.
 */
#include "census.h"
#include "clock.h"
#include "core.h"
#include "facts.h"
#include "gvl.h"
#include "hit.h"
#include "scan.h"
#include "self.h"
#include "session.h"
#include "shortcut.h"
#include "stack.h"
#include "trace.h"
#include "twin.h"
#include "watch_read.h"
#include "within.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORK_SLICE_NS 1500000u /* a slice ends after this: some 2 ms with the GVL */
#define ORPHAN_NS     5000000000u

static struct {
	struct rut_agent_ctl *ctl; /* shared mapping */
	int fd;
	uint64_t ino;
	bool rb_ready;
	const char *broken;	    /* why nothing can be traced here */
	uint32_t busy;		    /* lock: the helper changes sessions; no fork meanwhile */
	bool forked;		    /* the helper is that of a child */
	struct rut_agent_ctl *twin; /* of a copy that came first: this one does nothing; or NULL */
} agent = {.fd = -1};

/* What a job shall do, for each session; the answer comes back in the same place. */
static struct {
	enum { JOB_NONE, JOB_ASK, JOB_HOOK, JOB_WORK, JOB_UNHOOK } what[RUT_AGENT_SLOTS];
	bool more[RUT_AGENT_SLOTS];
	const char *error[RUT_AGENT_SLOTS];
} job;

static VALUE init_body(VALUE arg)
{
	agent.broken = rut_agent_rb_init();
	if (!agent.broken && rb.c_tracepoint)
		rut_agent_gvl_watch_end();
	return 0;
}

/* May be too early, when the process has just begun: then what fails now works later. */
static bool init_ruby(void)
{
	int failed = 0;

	rb.rb_protect(init_body, 0, &failed);
	if (!failed && !agent.broken && !rb.c_tracepoint)
		return false; /* its methods are not there yet */
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
	agent.rb_ready = !failed && !agent.broken;
	return !failed;
}

static void do_jobs(void)
{
	uint64_t deadline = rut_mono_ns() + WORK_SLICE_NS;

	if (!agent.rb_ready && !agent.broken && !init_ruby()) {
		for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++) {
			job.more[i] = job.what[i] != JOB_NONE;
			job.error[i] = NULL;
		}
		return;
	}
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++) {
		struct rut_session *s = &rut_agent_sessions[i];

		job.more[i] = false;
		job.error[i] = agent.broken;
		if (agent.broken)
			continue;
		if (job.what[i] == JOB_ASK)
			rut_agent_facts_write(s);
		if (job.what[i] == JOB_HOOK)
			job.error[i] = rut_agent_session_hook(s);
		if (job.what[i] == JOB_HOOK || job.what[i] == JOB_WORK)
			job.more[i] = rut_agent_session_work(s, deadline);
		if (job.what[i] == JOB_UNHOOK)
			job.more[i] = rut_agent_session_unhook(s, deadline);
	}
}

static void job_body(void *arg)
{
	(void)arg;
	rut_agent_own_work = true;
	do_jobs();
	rut_agent_own_work = false;
}

static void reply(void)
{
	__atomic_fetch_add(&agent.ctl->reply, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &agent.ctl->reply, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void set_state(struct rut_agent_slot *slot, uint32_t state)
{
	__atomic_store_n(&slot->state, state, __ATOMIC_RELEASE);
	reply();
}

static uint32_t get_state(const struct rut_agent_slot *slot)
{
	return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
}

static void fail(struct rut_agent_slot *slot, const char *why)
{
	size_t n = strlen(why);

	if (n >= sizeof(slot->message))
		n = sizeof(slot->message) - 1;
	memcpy(slot->message, why, n);
	slot->message[n] = 0;
	set_state(slot, RUT_SLOT_FAILED);
}

/* Whether another process has a lock on this byte; true when that cannot be known. */
static bool is_locked(int fd, unsigned byte)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &fl) < 0 || fl.l_type != F_UNLCK;
}

/*
 * The kernel drops the lock of byte i with the tracer that took slot i. A child of a fork waits for
 * it; as long as the tracer has its lock on the file of tables the child's counts are known, even
 * if the tracer does not come (it may have been stopped).
 */
static bool tracer_lives(unsigned i)
{
	struct rut_session *s = &rut_agent_sessions[i];

	if (!rut_agent_fd_is(agent.fd, agent.ino))
		return true; /* the program closed it; the tracer must say when it detaches */
	if (is_locked(agent.fd, i)) {
		s->orphan_until_ns = 0;
		return true;
	}
	if (!s->orphan_until_ns)
		return false;
	return rut_mono_ns() < s->orphan_until_ns ||
	       (rut_agent_fd_is(s->table.fd, s->table.ino) && is_locked(s->table.fd, 0));
}

static const char *why_no_tables(int error)
{
	return error == -EFBIG	  ? "it may not have files of 26 MB, as its tables are (ulimit -f)"
	       : error == -EMFILE ? "it has no free file descriptor (ulimit -n)"
				  : "not enough memory for the tables (ulimit -v)";
}

/* What a session that shall start needs: first the question, then the hooks. */
static int first_job(const struct rut_agent_slot *slot)
{
	return slot->flags & RUT_AGENT_ASK ? JOB_ASK : JOB_HOOK;
}

/* Starts what the tracers want. Returns true when a Ruby thread has something to do. */
static bool plan(void)
{
	bool any = false;

	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++) {
		struct rut_agent_slot *slot = &agent.ctl->slots[i];
		struct rut_session *s = &rut_agent_sessions[i];
		uint32_t state = get_state(slot);
		int r;

		job.what[i] = JOB_NONE;
		if (s->used)
			rut_agent_within_take(s);
		if (state != RUT_SLOT_FREE && state != RUT_SLOT_STOP && !tracer_lives(i))
			__atomic_store_n(&slot->state, state = RUT_SLOT_STOP, __ATOMIC_RELEASE);
		if (state == RUT_SLOT_START && !s->used) {
			if (agent.broken) {
				fail(slot, agent.broken);
				continue;
			}
			r = rut_agent_session_init(s, slot);
			if (r < 0) {
				fail(slot, why_no_tables(r));
				continue;
			}
			job.what[i] = first_job(slot);
		} else if (state == RUT_SLOT_START) {
			job.what[i] = s->hooked ? JOB_WORK : first_job(slot);
		} else if (state == RUT_SLOT_ACTIVE &&
			   (rut_agent_session_drops_due(s) || s->slots.stale ||
			    rut_agent_census_due(s) || rut_agent_within_due(s) ||
			    (s->rescan.due && rut_mono_ns() >= s->rescan.at_ns) || s->todo.left)) {
			job.what[i] = JOB_WORK;
		} else if (state == RUT_SLOT_STOP && s->used) {
			job.what[i] = JOB_UNHOOK;
		} else if (state == RUT_SLOT_STOP) {
			set_state(slot, RUT_SLOT_FREE);
		}
		any |= job.what[i] != JOB_NONE;
	}
	return any;
}

static void conclude(bool *ret_more)
{
	*ret_more = false;
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++) {
		struct rut_agent_slot *slot = &agent.ctl->slots[i];
		struct rut_session *s = &rut_agent_sessions[i];

		s->todo.left = job.more[i];
		*ret_more |= job.more[i];
		switch (job.what[i]) {
		case JOB_ASK:
			if (job.error[i])
				fail(slot, job.error[i]);
			else if (!job.more[i] && get_state(slot) == RUT_SLOT_START)
				set_state(slot, RUT_SLOT_ASKED);
			break;
		case JOB_HOOK:
		case JOB_WORK:
			if (job.error[i])
				fail(slot, job.error[i]);
			else if (!job.more[i] && get_state(slot) == RUT_SLOT_START)
				set_state(slot, RUT_SLOT_ACTIVE);
			break;
		case JOB_UNHOOK:
			if (!job.more[i]) {
				rut_agent_session_fini(s);
				slot->table_fd = slot->ring_fd = -1;
				set_state(slot, RUT_SLOT_FREE);
			}
			break;
		default:
			break;
		}
	}
}

static bool any_session(void)
{
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
		if (get_state(&agent.ctl->slots[i]) != RUT_SLOT_FREE)
			return true;
	return false;
}

/*
 * The interpreter may still be starting: Complex is one of the last classes that it makes. Ruby 2.5
 * makes room for postponed jobs after that, before it reads its command line (which a program
 * that embeds it may not let it do: then for a second).
 */
static void wait_for_ruby(void)
{
	struct timespec ts = {.tv_nsec = 5000000};

	while (!*(volatile VALUE *)(rb.rb_cComplex ? rb.rb_cComplex : rb.rb_cObject))
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	for (int i = 0; i < 200 && rb.abi && rb.abi->argv0_when_ready && rb.rb_argv0; i++) {
		if (*(volatile VALUE *)rb.rb_argv0)
			return;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	}
}

static void note_ractors(struct rut_session *s)
{
	rut_agent_session_ractors(s);
	if (s->within.on)
		rut_agent_within_refuse(s);
}

static void *helper(void *arg)
{
	struct rut_agent_ctl *ctl = agent.ctl;
	struct timespec settle = {.tv_nsec = 3000000};

	prctl(PR_SET_NAME, "rutile");
	if (agent.forked) /* Ruby is still putting itself in order */
		clock_nanosleep(CLOCK_MONOTONIC, 0, &settle, NULL);

	for (;;) {
		uint32_t seen = __atomic_load_n(&ctl->wake, __ATOMIC_ACQUIRE);
		struct timespec ts = {.tv_sec = 1};
		bool more = false, any;

		rut_lock(&agent.busy);
		for (unsigned i = 0; i < RUT_AGENT_SLOTS && agent.rb_ready; i++)
			if (rut_agent_sessions[i].hooked && !rut_single_ractor())
				note_ractors(&rut_agent_sessions[i]);
		any = plan();
		rut_unlock(&agent.busy);
		if (any) {
			/* A Ruby that runs no Ruby code for long is not given up: it will. */
			wait_for_ruby();
			while (rut_agent_gvl_run(job_body, NULL, 60000) < 0)
				;
			rut_lock(&agent.busy);
			conclude(&more);
			for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
				if (rut_agent_sessions[i].scan.phase == RUT_SCAN_SORT)
					rut_agent_scan_sort(&rut_agent_sessions[i]);
			rut_unlock(&agent.busy);
		}
		if (more) {
			ts.tv_sec = 0;
			ts.tv_nsec = 2000000; /* let the application run */
		} else {
			for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
				if (rut_agent_sessions[i].rescan.due ||
				    rut_agent_sessions[i].dropper.count ||
				    rut_agent_sessions[i].slots.stale) {
					ts.tv_sec = 0;
					ts.tv_nsec = 50000000;
				}
		}
		syscall(SYS_futex, &ctl->wake, FUTEX_WAIT, seen, any_session() ? &ts : NULL, NULL,
			0);
	}
	return NULL;
}

static int start_helper(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 128 << 10);
	r = pthread_create(&thread, &attr, helper, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

/* A control page of its own; at the address of the parent's in the child of a fork. */
static int make_control(void *at)
{
	size_t bytes = sizeof(struct rut_agent_ctl);
	struct rut_agent_ctl *ctl;
	uint64_t ino;
	int fd = rut_agent_memfd(RUT_AGENT_MEMFD, bytes, &ino);

	if (fd < 0)
		return fd;
	ctl = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
	if (ctl == MAP_FAILED) {
		close(fd);
		return -ENOMEM;
	}
	ctl->abi = RUT_AGENT_ABI;
	ctl->size_bytes = sizeof(*ctl);
	ctl->pid = rut_agent_pid = getpid();
	if (rb.ruby_version)
		strncpy(ctl->ruby_version, rb.ruby_version, sizeof(ctl->ruby_version) - 1);
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
		ctl->slots[i].table_fd = ctl->slots[i].ring_fd = -1;
	ctl->sites = (uintptr_t)rut_agent_sites;
	agent.ctl = ctl;
	agent.fd = fd;
	agent.ino = ino;
	return 0;
}

static void publish(void)
{
	__atomic_store_n(&agent.ctl->magic, RUT_AGENT_MAGIC, __ATOMIC_RELEASE);
}

/* ---- fork ---- */

static void before_fork(void)
{
	rut_lock(&agent.busy);
}

static void after_fork_in_parent(void)
{
	rut_unlock(&agent.busy);
}

/* Another thread of the parent may have held them. */
static void reset_locks(struct rut_session *s)
{
	s->arena_lock = s->variants.lock = s->codes_lock = s->requests.lock = s->busy = 0;
	rut_agent_hits_forked(s);
	rut_agent_watch_forked(s);
}

/* It has no memory of its own here: its hooks must not count into the parent's. */
static void separate(struct rut_session *s)
{
	rut_agent_shortcut_end(s);
	s->within.on = false;
	rut_agent_table_separate(&s->table);
	s->events.ring.ctl = NULL;
}

/* The same, for good: there is no helper that takes the hooks away. */
static void abandon(struct rut_session *s)
{
	if (!s->used)
		return;
	reset_locks(s);
	separate(s);
	s->used = s->hooked = false;
}

/* What a session of the parent is in the child. */
static void inherit(unsigned i, const struct rut_agent_slot *from)
{
	struct rut_agent_slot *to = &agent.ctl->slots[i];
	struct rut_session *s = &rut_agent_sessions[i];

	if (!s->used)
		return;
	*to = *from;
	reset_locks(s);
	if (rut_agent_table_fork(&s->table) < 0) {
		/* The helper takes its hooks away. */
		separate(s);
		to->session_id = 0;
		to->table_fd = to->ring_fd = -1;
		to->state = RUT_SLOT_STOP;
		return;
	}
	to->orphan = 1;
	to->table_fd = s->table.fd;
	to->table_ino = s->table.ino;
	if (rut_agent_trace_fork(s) < 0)
		s->events.ring.ctl = NULL; /* nothing more is traced here */
	to->ring_fd = s->events.fd;
	to->ring_ino = s->events.ino;
	to->member = s->table.member;
	to->ring_member = s->events.member;
	rut_agent_census_forked(s);
	rut_agent_table_ready(&s->table);
	s->orphan_until_ns = rut_mono_ns() + ORPHAN_NS;
	rut_agent_within_forked(s);
}

/*
 * The child of a fork gets a control page, tables and a helper of its own, at the addresses of the
 * parent's, so that the hooks go on as they are. vfork and posix_spawn do not come here.
 */
static void after_fork_in_child(void)
{
	struct rut_agent_ctl *old = agent.ctl;
	int old_fd = agent.fd;
	uint64_t old_ino = agent.ino;
	struct rut_agent_slot *copy;
	size_t bytes = sizeof(old->slots);

	agent.busy = 0;
	rut_agent_pid = getpid();
	rut_agent_self_forked();
	if (!old)
		return;
	copy = rut_agent_map(bytes);
	if (copy)
		memcpy(copy, old->slots, bytes);
	rut_agent_gvl_forked();
	rut_agent_stack_forked();
	if (!copy || make_control(old) < 0) {
		/* No tracer can reach this process. Hooks count into memory that is not read. */
		for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
			abandon(&rut_agent_sessions[i]);
		rut_agent_unmap(copy, bytes);
		return;
	}
	if (rut_agent_fd_is(old_fd, old_ino))
		close(old_fd);
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
		inherit(i, &copy[i]);
	rut_agent_unmap(copy, bytes);
	agent.forked = true;
	if (start_helper() == 0)
		publish();
}

extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
			     void *dso);

/*
 * Was it loaded by Ruby, as a command's is that may have been injected before? Then no other thread
 * runs that could change the environment; in a process that was injected into one could.
 */
static bool is_required(void)
{
	static const char file[] = "/librutile_agent.so";
	Dl_info info;
	size_t len;

	if (!dladdr((void *)(uintptr_t)is_required, &info) || !info.dli_fname)
		return false;
	len = strlen(info.dli_fname);
	return len >= sizeof(file) - 1 &&
	       strcmp(info.dli_fname + len - (sizeof(file) - 1), file) == 0;
}

/* Runs once, at dlopen. The process needs none of it: what fails is left out. */
__attribute__((constructor)) static void start(void)
{
	int r;

	rut_agent_clock_init();
	agent.broken = rut_agent_rb_load();
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
		rut_agent_sessions[i].index = i;
	if (is_required() && getenv("RUTILE_SESSION"))
		agent.twin = rut_agent_twin_find();
	if (agent.twin || make_control(NULL) < 0)
		return;
	r = start_helper();
	if (r < 0) {
		__atomic_store_n(&agent.ctl->failed, (uint64_t)-r, __ATOMIC_RELEASE);
		return;
	}
	__register_atfork(before_fork, after_fork_in_parent, after_fork_in_child, NULL);
	publish();
}

/*
 * exit(): calls that have not ended (for example with a SystemStackError that was not rescued) end
 * here. Ruby has been torn down by now. Of a process that ends without this the tracer reads what
 * it can.
 */
__attribute__((destructor)) static void finish(void)
{
	if (!agent.ctl || !rut_trylock(&agent.busy))
		return;
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
		if (rut_agent_sessions[i].used && rut_agent_sessions[i].mode == RUT_AGENT_TIME)
			rut_agent_stack_end(&rut_agent_sessions[i]);
	rut_unlock(&agent.busy);
}

/* ---- RUBYOPT=-r ---- */

/* "-IDIR -renumerator" was put before what RUBYOPT had: programs that this one starts do not get
 * it. */
static void restore_rubyopt(void)
{
	static const char feature[] = " -renumerator";
	const char *opt = getenv("RUBYOPT"), *rest;

	if (!opt || strncmp(opt, "-I", 2) != 0)
		return;
	rest = strchr(opt, ' ');
	if (!rest || strncmp(rest, feature, sizeof(feature) - 1) != 0)
		return;
	rest += sizeof(feature) - 1;
	if (*rest == ' ')
		setenv("RUBYOPT", rest + 1, 1);
	else
		unsetenv("RUBYOPT");
}

static bool session_runs(struct rut_agent_ctl *ctl, uint64_t id)
{
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++) {
		uint32_t state = get_state(&ctl->slots[i]);

		if (ctl->slots[i].session_id == id &&
		    ((state == RUT_SLOT_ACTIVE && ctl->slots[i].mapped) ||
		     state == RUT_SLOT_FAILED))
			return true;
	}
	return false;
}

/* The hooks of this copy are set by its job, those of another one by what it asks of Ruby. */
static void let_hooks_be_set(void)
{
	if (!agent.twin)
		rut_agent_gvl_serve();
	else if (rb.rb_thread_check_ints)
		rb.rb_thread_check_ints();
}

/*
 * Called by Ruby's require: the name is the file's. When a tracer started this program
 * (RUTILE_SESSION=ID:PID) it waits here until the hooks are set, as long as the tracer lives.
 */
__attribute__((visibility("default"))) void Init_librutile_agent(void);
void Init_librutile_agent(void)
{
	const char *wanted = getenv("RUTILE_SESSION");
	struct rut_agent_ctl *ctl = agent.twin ? agent.twin : agent.ctl;
	struct timespec ts = {.tv_nsec = 300000};
	uint64_t id = 0;
	int pid = 0;

	if (!wanted || !ctl || agent.broken)
		return;
	for (; *wanted && *wanted != ':'; wanted++)
		id = id << 4 | (uint64_t)(*wanted <= '9' ? *wanted - '0' : *wanted - 'a' + 10);
	for (wanted += *wanted == ':'; *wanted; wanted++)
		pid = pid * 10 + (*wanted - '0');
	unsetenv("RUTILE_SESSION");
	restore_rubyopt();
	__atomic_store_n(&ctl->waiting, id, __ATOMIC_RELEASE);
	for (int i = 0; i < 30000 && !session_runs(ctl, id); i++) {
		let_hooks_be_set();
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
		if (i % 100 == 99 && kill(pid, 0) < 0 && errno == ESRCH)
			break;
	}
	ctl->waiting = 0;
}
