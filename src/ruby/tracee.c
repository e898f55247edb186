/* SPDX-License-Identifier: MIT */
/*
 * One process that is traced: finding or injecting the agent, taking a slot of its control page,
 * starting and stopping the session there.
 */
#include "ruby/events.h"
#include "ruby/family.h"
#include "ruby/record_out.h"
#include "ruby/root.h"
#include "ruby/tracee.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/tsc.h"
#include "ruby/inject.h"
#include "ruby/proc.h"
#include "ruby/target.h"
#include "ruby/within.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_LINK "/memfd:" RUT_AGENT_MEMFD " (deleted)"

static void sleep_ms(long ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&ts, NULL);
}

/*
 * Returns a descriptor of the control page of a resident agent, -ENOENT when there is none. The
 * agent never moves it; should the program do so, the next look finds it. *ret_other, if given:
 * whether there is an agent of another ABI.
 */
static int open_control(pid_t pid, int *ret_target_fd, bool *ret_other)
{
	static const char any_link[] = "/memfd:rutile-agent-";
	char path[64], link[64];
	struct dirent *de;
	int r = -ENOENT;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (r == -ENOENT && (de = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)pid, de->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		if (n < 0)
			continue;
		link[n] = 0;
		if (strcmp(link, CONTROL_LINK) == 0) {
			*ret_target_fd = atoi(de->d_name);
			r = rut_target_open_shared(pid, *ret_target_fd, RUT_AGENT_MEMFD);
		} else if (ret_other) {
			*ret_other |= strncmp(link, any_link, sizeof(any_link) - 1) == 0;
		}
	}
	closedir(dir);
	return r;
}

/* Waits until the constructor of the agent has published its page. */
static int map_control(struct rut_tracee *p, uint64_t deadline_ms, struct rut_err *err)
{
	struct stat st;

	while (fstat(p->ctl_fd, &st) == 0 && (size_t)st.st_size < sizeof(*p->ctl)) {
		if (rut_now_ms() > deadline_ms)
			return rut_err_set(err, EPROTO, "the agent in process %d is not ours",
					   (int)p->pid);
		sleep_ms(1);
	}
	p->ctl = mmap(NULL, sizeof(*p->ctl), PROT_READ | PROT_WRITE, MAP_SHARED, p->ctl_fd, 0);
	if (p->ctl == MAP_FAILED) {
		p->ctl = NULL;
		return rut_err_errno(err, errno, "cannot map the agent's memory in process %d",
				     (int)p->pid);
	}
	while (__atomic_load_n(&p->ctl->magic, __ATOMIC_ACQUIRE) != RUT_AGENT_MAGIC) {
		int failed = (int)__atomic_load_n(&p->ctl->failed, __ATOMIC_ACQUIRE);

		if (failed == EAGAIN)
			return rut_err_set(
				err, EAGAIN,
				"process %d may not start another thread: raise its "
				"limit (prlimit --nproc, or pids.max of its cgroup), and "
				"start it again",
				(int)p->pid);
		if (failed > 0)
			return rut_err_errno(err, failed, "the agent in process %d has no thread",
					     (int)p->pid);
		if (rut_now_ms() > deadline_ms)
			return rut_err_set(err, ETIMEDOUT, "the agent in process %d does not start",
					   (int)p->pid);
		sleep_ms(1);
	}
	/*
	 * In the child of a fork that has no page of its own yet it is its parent's. A session
	 * there would be a second one of the parent, which would count everything twice.
	 */
	if (p->ctl->abi == RUT_AGENT_ABI && p->ctl->pid != rut_proc_own_pid(p->pid))
		return rut_err_set(err, EAGAIN, "process %d is just being forked: try again",
				   (int)p->pid);
	if (p->ctl->abi == RUT_AGENT_ABI)
		return 0;
	/* Its name says otherwise: it was changed. */
	return rut_err_set(err, EPROTO,
			   "the agent in process %d is of another version of rutile: restart the "
			   "process, or use that version",
			   (int)p->pid);
}

void rut_tracee_wake(const struct rut_tracee *p)
{
	__atomic_fetch_add(&p->ctl->wake, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &p->ctl->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static struct rut_agent_slot *slot_of(struct rut_tracee *p)
{
	return &p->ctl->slots[p->slot];
}

static uint32_t slot_state(struct rut_tracee *p)
{
	return __atomic_load_n(&slot_of(p)->state, __ATOMIC_ACQUIRE);
}

bool rut_tracee_settled(struct rut_tracee *p)
{
	uint32_t state = p->exited || !p->ctl ? RUT_SLOT_FREE : slot_state(p);

	return state != RUT_SLOT_START && state != RUT_SLOT_ASKED;
}

/* The holder of the lock of slot i may write into it. */
static bool lock_slot(struct rut_tracee *p, unsigned i, bool hold)
{
	struct flock fl = {
		.l_type = hold ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};

	if (fcntl(p->ctl_fd, F_OFD_SETLK, &fl) < 0)
		return false;
	p->slot = i;
	p->holds_slot = hold;
	return true;
}

/* In the child of a fork: the slot that it inherited. */
static bool take_inherited(struct rut_tracer *t, struct rut_tracee *p)
{
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++) {
		struct rut_agent_slot *slot = &p->ctl->slots[i];

		if (slot->session_id != t->session_id || !slot->orphan || !lock_slot(p, i, true))
			continue;
		if (slot_state(p) == RUT_SLOT_START || slot_state(p) == RUT_SLOT_ACTIVE ||
		    slot_state(p) == RUT_SLOT_ASKED) {
			slot->orphan = 0;
			return true;
		}
		lock_slot(p, i, false);
	}
	return false;
}

/* A slot that is free and that no other tracer has locked. */
static int take_slot(struct rut_tracee *p, struct rut_err *err)
{
	for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++) {
		if (!lock_slot(p, i, true))
			continue;
		if (slot_state(p) == RUT_SLOT_FREE)
			return 0;
		lock_slot(p, i, false);
	}
	return rut_err_set(err, EBUSY, "process %d is already traced by %d tracers", (int)p->pid,
			   RUT_AGENT_SLOTS);
}

bool rut_tracee_is_gone(const struct rut_tracee *p)
{
	struct pollfd pfd = {.fd = p->pidfd, .events = POLLIN};

	/* A signal ends poll() as well: that is no answer. */
	return p->pidfd < 0 ? kill(p->pid, 0) < 0 && errno == ESRCH : poll(&pfd, 1, 0) > 0;
}

/* Waits for a state other than `from`; false when the time is over. */
static bool wait_state(struct rut_tracee *p, uint32_t from, uint64_t deadline_ms)
{
	for (;;) {
		uint32_t seen = __atomic_load_n(&p->ctl->reply, __ATOMIC_ACQUIRE);
		struct timespec ts = {.tv_nsec = 100000000};

		if (slot_state(p) != from)
			return true;
		if (rut_now_ms() >= deadline_ms || rut_tracee_is_gone(p))
			return false;
		syscall(SYS_futex, &p->ctl->reply, FUTEX_WAIT, seen, &ts, NULL, 0);
	}
}

static bool has_ring(const struct rut_tracer *t, const struct rut_agent_slot *slot)
{
	return slot->mode == RUT_AGENT_TRACE || slot->mode == RUT_AGENT_RECORD ||
	       (slot->mode == RUT_AGENT_SCRIPT && t->config.ring_bytes);
}

static int map_table(struct rut_tracer *t, struct rut_tracee *p, struct rut_err *err)
{
	struct rut_agent_slot *slot = slot_of(p);
	struct rut_tracee *seen = NULL;
	int r = rut_family_join(t, p, &seen, err);

	if (seen)
		rut_tracee_remove(t, seen);
	if (r == 0 && has_ring(t, slot) && !p->events)
		r = rut_events_open(p, err);
	if (r == 0 && t->config.on_sites)
		r = t->config.on_sites(t->config.on_sites_arg, p->pid, p->ctl->sites, err);
	if (r < 0)
		return r;
	if (t->config.within_fd) {
		rut_within_send(p, t->config.within_fd);
		rut_tracee_wake(p);
	}
	__atomic_store_n(&slot->mapped, 1, __ATOMIC_RELEASE);
	return 0;
}

static void write_config(struct rut_tracer *t, struct rut_agent_slot *slot)
{
	slot->mode = (uint32_t)t->config.mode;
	slot->flags = (t->config.filter.c_calls ? RUT_AGENT_C_CALLS : 0) |
		      (t->config.returns ? RUT_AGENT_RETURNS : 0) |
		      (t->config.args ? RUT_AGENT_ARGS : 0) |
		      (t->config.exceptions ? RUT_AGENT_EXCEPTIONS : 0) |
		      (t->config.stacks ? RUT_AGENT_STACKS : 0) |
		      (t->config.filter.ask ? RUT_AGENT_ASK : 0) |
		      (t->config.by_caller ? RUT_AGENT_BY_CALLER : 0) |
		      (t->config.percentiles ? RUT_AGENT_BUCKETS : 0) |
		      (t->config.values ? RUT_AGENT_VALUES : 0) |
		      (t->config.backtraces ? RUT_AGENT_BACKTRACES : 0) |
		      (t->config.names ? RUT_AGENT_NAMES : 0) |
		      (t->config.sql_values ? RUT_AGENT_SQL_VALUES : 0) |
		      (t->config.overwrite ? RUT_AGENT_OVERWRITE : 0) |
		      (t->config.origins ? RUT_AGENT_ORIGINS : 0) |
		      (t->config.full_gc ? RUT_AGENT_FULL_GC : 0) |
		      (t->config.graph ? RUT_AGENT_GRAPH : 0) |
		      (rut_tsc_is_clock() ? RUT_AGENT_TSC : 0) | RUT_AGENT_KINDS(t->config.kinds);
	slot->tracer_pid = (int32_t)getpid();
	slot->slow_ns = t->config.slow_ns;
	slot->ring_bytes = t->config.ring_bytes;
	slot->session_id = t->session_id;
	slot->orphan = slot->mapped = 0;
	slot->message[0] = 0;
	memcpy(slot->config, t->filter, t->filter_len);
}

/*
 * The session is asked for; the rows begin to count when the first walk of the heap is complete. A
 * process that is busy in C code for long lets us wait: that is no error, it is just not yet there.
 */
static int start_session(struct rut_tracer *t, struct rut_tracee *p, struct rut_err *err)
{
	uint64_t deadline_ms = rut_now_ms() + 2000;
	struct rut_agent_slot *slot;
	int r;

	if (take_inherited(t, p))
		return map_table(t, p, err);
	r = t->config.filter.try_newer
		    ? 0
		    : rut_ruby_proc_unreleased(p->pid, p->ctl->ruby_version, err);
	if (r == 0)
		r = take_slot(p, err);
	if (r < 0)
		return r;
	slot = slot_of(p);
	write_config(t, slot);
	__atomic_store_n(&slot->state, RUT_SLOT_START, __ATOMIC_RELEASE);
	rut_tracee_wake(p);
	wait_state(p, RUT_SLOT_START, deadline_ms);
	if (rut_tracee_is_gone(p))
		return rut_err_set(err, ESRCH, "process %d ended", (int)p->pid);
	if (slot_state(p) == RUT_SLOT_ASKED) {
		r = map_table(t, p, err);
		if (r < 0)
			return r;
		rut_tracee_go_on(t, p);
		wait_state(p, RUT_SLOT_START, deadline_ms);
	}
	if (slot_state(p) == RUT_SLOT_FAILED)
		return rut_err_set(err, ENOTSUP, "cannot trace process %d: %.127s", (int)p->pid,
				   slot->message);
	if (slot->table_fd < 0)
		return rut_err_set(err, ETIMEDOUT, "process %d does not answer", (int)p->pid);
	return p->table ? 0 : map_table(t, p, err);
}

void rut_tracee_go_on(struct rut_tracer *t, struct rut_tracee *p)
{
	struct rut_agent_slot *slot;

	if (!p->ctl || !p->table || p->exited || slot_state(p) != RUT_SLOT_ASKED)
		return;
	slot = slot_of(p);
	rut_root_apply(t, p);
	slot->flags &= ~RUT_AGENT_ASK;
	__atomic_store_n(&slot->state, RUT_SLOT_START, __ATOMIC_RELEASE);
	rut_tracee_wake(p);
}

static bool has_agent(pid_t pid)
{
	int target_fd, fd = open_control(pid, &target_fd, NULL);

	if (fd >= 0)
		close(fd);
	return fd != -ENOENT;
}

/*
 * Two agents in one process would be one too many. What keeps them out is ptrace, of which there
 * can be one at a time (has_agent() is asked under it); the lock on the process's entry in /proc
 * has the tracers of one /proc queue up without disturbing the process.
 */
static int inject_agent(struct rut_tracee *p, struct rut_err *err)
{
	uint64_t deadline_ms = rut_now_ms() + 5000;
	_cleanup_close_ int lock_fd = -1;
	bool other = false;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)p->pid);
	lock_fd = open(path, O_RDONLY | O_CLOEXEC);
	while (lock_fd >= 0 && flock(lock_fd, LOCK_EX | LOCK_NB) < 0 && rut_now_ms() < deadline_ms)
		sleep_ms(1);
	p->ctl_fd = open_control(p->pid, &p->target_fd, &other);
	if (p->ctl_fd != -ENOENT)
		return 0;
	r = rut_inject(p->pid, rut_agent_image,
		       (uintptr_t)rut_agent_image_end - (uintptr_t)rut_agent_image, has_agent, err);
	if (r == 0)
		p->ctl_fd = open_control(p->pid, &p->target_fd, NULL);
	else if (r == -EPERM && other)
		rut_err_set(
			err, EPERM,
			"process %d has the agent of another version of rutile, and ours may not "
			"be loaded beside it: use that version, restart the process with the "
			"agent of this one, or run rutile as root",
			(int)p->pid);
	return r;
}

int rut_tracee_open(struct rut_tracee **ret, struct rut_tracer *t, pid_t pid, bool inject,
		    struct rut_err *err)
{
	struct rut_tracee *p = calloc(1, sizeof(*p));
	uint64_t deadline_ms = rut_now_ms() + 2000;
	int r;

	if (!p)
		return rut_err_set(err, ENOMEM, "out of memory");
	p->pid = pid;
	p->ctl_fd = p->pidfd = -1;
	p->ctl_fd = open_control(pid, &p->target_fd, NULL);
	if (p->ctl_fd == -ENOENT && inject) {
		r = inject_agent(p, err);
		if (r < 0)
			goto fail;
	}
	if (p->ctl_fd == -ENOENT && inject) {
		r = rut_target_closed(pid, "control page", err);
		goto fail;
	}
	if (p->ctl_fd < 0) {
		r = rut_err_errno(err, -p->ctl_fd, "cannot reach the agent in process %d",
				  (int)pid);
		goto fail;
	}
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	r = map_control(p, deadline_ms, err);
	if (r == 0)
		r = start_session(t, p, err);
	if (r < 0)
		goto fail;
	*ret = p;
	return 0;
fail:
	rut_tracee_detach(p, false);
	rut_tracee_free(p);
	return r;
}

void rut_tracee_detach(struct rut_tracee *p, bool wait)
{
	if (!p->holds_slot || p->exited || slot_state(p) == RUT_SLOT_FREE)
		return;
	__atomic_store_n(&slot_of(p)->state, RUT_SLOT_STOP, __ATOMIC_RELEASE);
	rut_tracee_wake(p);
	if (wait)
		wait_state(p, RUT_SLOT_STOP, rut_now_ms() + 1000);
}

static bool helper_lives(pid_t pid)
{
	char path[64], comm[32];
	struct dirent *de;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && !found && (de = readdir(dir))) {
		_cleanup_file_ FILE *f = NULL;

		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/comm", (int)pid, de->d_name);
		f = fopen(path, "re");
		found = f && fgets(comm, sizeof(comm), f) && strcmp(comm, "rutile\n") == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

bool rut_tracee_ended(struct rut_tracee *p)
{
	char path[64], link[64];
	ssize_t n;

	if (rut_tracee_is_gone(p))
		return true;
	if (rut_now_ms() < p->exec_check_ms)
		return false;
	p->exec_check_ms = rut_now_ms() + 500;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)p->pid, p->target_fd);
	n = readlink(path, link, sizeof(link) - 1);
	if (n == (ssize_t)strlen(CONTROL_LINK) && memcmp(link, CONTROL_LINK, (size_t)n) == 0)
		return false;
	/* It executed another program, or closes descriptors that are not its own. */
	return !helper_lives(p->pid);
}

bool rut_tracee_has_session(pid_t pid, uint64_t session_id)
{
	struct rut_tracee p = {.pid = pid};
	bool found = false;

	p.ctl_fd = open_control(pid, &p.target_fd, NULL);
	if (p.ctl_fd < 0)
		return false;
	if (map_control(&p, rut_now_ms() + 50, NULL) == 0 && p.ctl)
		for (unsigned i = 0; i < RUT_AGENT_SLOTS; i++)
			found |= p.ctl->slots[i].session_id == session_id && p.ctl->slots[i].orphan;
	if (p.ctl)
		munmap(p.ctl, sizeof(*p.ctl));
	close(p.ctl_fd);
	return found;
}

void rut_tracee_free(struct rut_tracee *p)
{
	if (!p)
		return;
	rut_record_close(p);
	rut_events_close(p);
	rut_family_leave(p);
	if (p->table)
		munmap(p->table, p->table_bytes);
	if (p->ctl)
		munmap(p->ctl, sizeof(*p->ctl));
	if (p->ctl_fd >= 0)
		close(p->ctl_fd);
	if (p->pidfd >= 0)
		close(p->pidfd);
	free(p->names);
	free(p->base);
	free(p->rows);
	free(p->buckets);
	free(p->bucket_base);
	free(p->last);
	free(p);
}

int rut_tracee_add(struct rut_tracer *t, struct rut_tracee *p, struct rut_err *err)
{
	if (t->count == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 8;
		struct rut_tracee **to = realloc(t->tracees, cap * sizeof(*to));

		if (!to)
			return rut_err_set(err, ENOMEM, "out of memory");
		t->tracees = to;
		t->cap = cap;
	}
	t->tracees[t->count++] = p;
	t->any = true;
	if (p->tree && p->family)
		p->family->follow = true;
	return 0;
}

void rut_tracee_remove(struct rut_tracer *t, struct rut_tracee *p)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->tracees[i] == p) {
			memmove(&t->tracees[i], &t->tracees[i + 1],
				(--t->count - i) * sizeof(struct rut_tracee *));
			break;
		}
	rut_tracee_free(p);
}

void rut_tracee_announce(struct rut_tracer *t, struct rut_tracee *p, enum rut_ruby_event_type type)
{
	struct rut_ruby_event ev = {.type = type, .pid = p->pid, .tid = p->pid};

	if (!t->on_event || (type == RUT_RUBY_EVENT_START && p->announced))
		return;
	p->announced = true;
	ev.time_ns = rut_now_ns();
	t->on_event(&ev, t->on_event_arg);
}
