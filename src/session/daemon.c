/* SPDX-License-Identifier: MIT */
#include "session/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/logfile.h"
#include "session/budget.h"
#include "session/own.h"
#include "session/pin.h"
#include "session/programs.h"
#include "session/words.h"

#define WAIT_MS	  5000
#define SYNC_MS	  5000
#define CHANGE_MS 60000 /* attaching to many large processes */
#define ROUND_MS  50	/* of a holder */
#define HOME_MS	  1000	/* between two looks at the session's directory */
#define BUDGET_MS 200	/* of one that only keeps to --max-overhead */

static volatile sig_atomic_t daemon_stop, daemon_rotate;

static void on_term(int sig)
{
	daemon_stop = 1;
}

static void on_usr2(int sig)
{
	daemon_rotate = 1;
}

/* To the session's own file; to the system's log when there is none. */
static void log_message(enum rut_log_level level, const char *msg, void *arg)
{
	const struct rut_logfile *log = arg;

	if (level < RUT_LOG_INFO || (log->path[0] && !rut_logfile_append(log, level, msg)))
		return;
	syslog(level == RUT_LOG_WARN ? LOG_WARNING : LOG_INFO, "%s: %s", log->who, msg);
}

static void open_log(struct rut_logfile *log, const struct rut_recorder *r)
{
	const struct rut_output_conf *o = &r->meta->output;

	snprintf(log->who, sizeof(log->who), "%s", r->conf.name);
	log->size_bytes = o->log_bytes ? o->log_bytes : RUT_LOG_BYTES;
	log->keep = o->log_keep ? o->log_keep : RUT_LOG_KEEP;
	if (o->log_dir[0]) {
		mkdir(o->log_dir, 0750);
		snprintf(log->path, sizeof(log->path), "%s/%s.log", o->log_dir, r->conf.name);
	}
	openlog("rutile", LOG_PID, LOG_DAEMON);
	rut_log_set_sink(log_message, log);
}

/* Says once that writing fails, and once that it works again. */
static void report(struct rut_session_meta *m, int rc, const struct rut_err *err, int *last)
{
	if (rc < 0 && *last >= 0)
		rut_warn("%s; recording continues in memory", err->msg);
	if (rc >= 0 && *last < 0)
		rut_info("writing again to '%s'", m->current);
	*last = rc;
}

/* What is recorded beside the kernel's events stops and resumes with them. */
static void follow_state(const struct rut_companion *companions, size_t count,
			 const struct rut_session_meta *m, bool *running)
{
	bool now = __atomic_load_n(&m->running, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < count && now != *running; i++)
		companions[i].pause(companions[i].arg, !now);
	*running = now;
}

/* A request for more events or fewer: the fields beside it are written before it is. */
static void answer_change(const struct rut_companion *companions, size_t count,
			  struct rut_session_meta *m)
{
	uint32_t wanted = __atomic_load_n(&m->change_wanted, __ATOMIC_ACQUIRE);
	struct rut_err err = RUT_ERR_INIT;
	char what[sizeof(m->change_what)];
	bool able = false;
	int rc = 0;

	if (wanted == m->change_done)
		return;
	memcpy(what, m->change_what, sizeof(what));
	what[sizeof(what) - 1] = '\0';
	for (size_t i = 0; i < count; i++) {
		const struct rut_companion *c = &companions[i];
		int failed =
			c->change ? c->change(c->arg, m->change_add, what, rc ? NULL : &err) : 0;

		/* The first failure is the answer. */
		rc = rc ? rc : failed;
		able |= c->change != NULL;
	}
	if (!able)
		rc = rut_err_set(&err, ENOTSUP, "this session cannot record Ruby events");
	snprintf(m->change_error, sizeof(m->change_error), "%s", rc ? err.msg : "");
	m->change_rc = rc;
	__atomic_store_n(&m->change_done, wanted, __ATOMIC_RELEASE);
}

/* Begins to clear, and answers when the collector has done it. */
static void answer_clear(struct rut_consumer *c, uint32_t *begun)
{
	struct rut_session_meta *m = c->recorder->meta;
	uint32_t wanted = __atomic_load_n(&m->clear_wanted, __ATOMIC_ACQUIRE);
	struct rut_err err = RUT_ERR_INIT;
	int rc;

	if (wanted == m->clear_done)
		return;
	if (*begun != wanted) {
		rc = rut_consumer_clear(c, &err);
		*begun = wanted;
		if (!rc) {
			rut_info("clears what the collector has");
			return;
		}
	} else {
		rc = rut_consumer_cleared(c, &err);
	}
	if (rc == -EAGAIN)
		return;
	if (rc)
		rut_warn("%s", err.msg);
	snprintf(m->clear_error, sizeof(m->clear_error), "%.*s", (int)sizeof(m->clear_error) - 1,
		 rc ? err.msg : "");
	m->clear_rc = rc;
	__atomic_store_n(&m->clear_done, wanted, __ATOMIC_RELEASE);
}

/* The directory of a session's pins. */
struct home {
	char path[128];
	struct stat st;
	uint64_t seen_ms;
};

static void home_init(struct home *h, const char *name)
{
	rut_session_dir(h->path, sizeof(h->path), name);
	if (stat(h->path, &h->st) < 0)
		h->st.st_ino = 0;
	h->seen_ms = rut_now_ms();
}

/*
 * Has the session been removed? A `destroy` of another version cannot read which process is its
 * own, and without its pins nobody could end this one.
 */
static bool home_gone(struct home *h)
{
	struct stat now;

	if (!h->st.st_ino || rut_now_ms() - h->seen_ms < HOME_MS)
		return false;
	h->seen_ms = rut_now_ms();
	if (stat(h->path, &now) < 0 ? errno != ENOENT : now.st_ino == h->st.st_ino)
		return false;
	rut_info("ends: the session has been removed");
	return true;
}

static void daemon_loop(struct rut_consumer *c)
{
	static struct rut_budget_follower budget;
	struct rut_session_meta *m = c->recorder->meta;
	struct rut_err err = RUT_ERR_INIT;
	uint32_t clear_begun = m->clear_done;
	struct home home;
	bool running = true;
	int rc, last = 0;

	home_init(&home, c->recorder->conf.name);
	rut_consumer_log_dirs(c);
	rut_consumer_statedump(c);
	while (!daemon_stop && !home_gone(&home)) {
		uint32_t wanted = __atomic_load_n(&m->rotate_wanted, __ATOMIC_ACQUIRE);

		follow_state(c->companions, c->ncompanions, m, &running);
		answer_change(c->companions, c->ncompanions, m);
		rc = rut_consumer_step(c, &err);
		report(m, rc, &err, &last);
		if (rc >= 0 && (daemon_rotate || wanted != m->rotate_done)) {
			daemon_rotate = 0;
			if (rut_consumer_rotate(c, &err) < 0)
				rut_warn("%s; recording continues in '%s'", err.msg, m->current);
			__atomic_store_n(&m->rotate_done, wanted, __ATOMIC_RELEASE);
		}
		answer_clear(c, &clear_begun);
		rut_budget_follow(&budget, c->recorder);
		rut_consumer_wait(c, c->sleep_ms);
	}
	rc = rut_consumer_close(c, &err);
	if (rc < 0)
		rut_warn("%s%s", err.msg, c->conf.to[0] ? "" : "; what was in memory is lost");
	else
		report(m, rc, &err, &last);
}

/*
 * The number comes last: `start` releases the lock when it sees it, and other processes must then
 * not find the time of another process beside it, and take the session for a dead one.
 */
static void publish_consumer(struct rut_session_meta *m)
{
	m->consumer_start = rut_process_start_time(getpid());
	__atomic_store_n(&m->consumer, getpid(), __ATOMIC_RELEASE);
}

/* Our parent may wait for the other end of a pipe: our own descriptors are closed on exec, the rest
 * not. */
static void close_inherited(void)
{
	DIR *d = opendir("/proc/self/fd");

	for (struct dirent *e; d && (e = readdir(d));) {
		int fd = atoi(e->d_name);

		if (fd > 2 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			close(fd);
	}
	if (d)
		closedir(d);
}

/* What both have in common. */
static void become_daemon(struct rut_recorder *r, struct rut_logfile *log)
{
	struct sigaction term = {.sa_handler = on_term}, usr2 = {.sa_handler = on_usr2};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	rut_own_enter(r->fds[RUT_MAP_OWN]);
	close_inherited();
	/* What it was started in can be unmounted. */
	if (chdir("/") < 0)
		rut_debug("the directory of the session's process stays in use");
	/* The links are pinned: held here too, they would outlive a `stop`. */
	rut_programs_free(r);
	open_log(log, r);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	sigaction(SIGTERM, &term, NULL);
	sigaction(SIGINT, &term, NULL);
	sigaction(SIGUSR2, &usr2, NULL);
	signal(SIGHUP, SIG_IGN);
	/* It must run before the rings are full. */
	setpriority(PRIO_PROCESS, 0, -10);
}

/* Everything was opened before the fork, so that errors were the caller's to report. */
static _Noreturn void daemon_main(struct rut_consumer *c, int lock)
{
	static struct rut_logfile log;
	struct rut_err err = RUT_ERR_INIT;

	become_daemon(c->recorder, &log);
	/* `start` returns when the session has its consumer's PID, so that no consumer starts
	 * unnoticed. */
	rut_consumer_follow_mappings(c);
	if (rut_consumer_send(c, &err) < 0)
		rut_warn("%s", err.msg);
	publish_consumer(c->recorder->meta);
	close(lock);
	rut_words_arm(c->recorder);
	c->recorder->meta->ncompanions = (uint32_t)c->ncompanions;
	daemon_loop(c);
	rut_info("ends: %llu events, %.1f MiB in %llu packets, %llu events lost",
		 (unsigned long long)c->total_records, (double)c->total_bytes / 1048576,
		 (unsigned long long)c->total_packets,
		 (unsigned long long)(rut_recorder_lost(c->recorder) +
				      rut_recorder_missed(c->recorder)));
	if (rut_recorder_stacks_lost(c->recorder))
		rut_warn("%llu stacks were lost: there were too many different ones at once",
			 (unsigned long long)rut_recorder_stacks_lost(c->recorder));
	c->recorder->meta->consumer = 0;
	_exit(0);
}

/* It must not start later, unknown to any process. */
static int not_started(pid_t pid, struct rut_err *err)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return rut_err_set(err, EIO, "the session's process did not start");
}

int rut_daemon_start(struct rut_consumer *c, int lock, pid_t *ret_pid, struct rut_err *err)
{
	struct rut_session_meta *m = c->recorder->meta;
	pid_t pid = fork();

	if (pid < 0)
		return rut_err_errno(err, errno, "cannot start the session's process");
	if (!pid)
		daemon_main(c, lock);
	*ret_pid = pid;
	for (int i = 0; i < WAIT_MS && __atomic_load_n(&m->consumer, __ATOMIC_ACQUIRE) != pid; i++)
		poll(NULL, 0, 1);
	/* From here on the directory and its files are the daemon's. */
	rut_consumer_abandon(c);
	return m->consumer == pid ? 0 : not_started(pid, err);
}

/* ---- holders ---- */

/* A request for a copy, if there is one: the fields beside it are written before it is. */
static void answer_copy(const struct rut_companion *companions, size_t count,
			struct rut_session_meta *m)
{
	uint32_t wanted = __atomic_load_n(&m->copy_wanted, __ATOMIC_ACQUIRE);
	const struct rut_trace_clock clock = {m->copy_begin_ns, m->copy_offset_ns};
	const uint64_t end_ns = m->copy_end_ns;
	struct rut_err err = RUT_ERR_INIT;
	char dir[sizeof(m->copy_dir)];
	int rc = 0;

	if (wanted == m->copy_done)
		return;
	/* A later request may change what is shared. */
	memcpy(dir, m->copy_dir, sizeof(dir));
	dir[sizeof(dir) - 1] = '\0';
	for (size_t i = 0; i < count && !rc; i++)
		if (companions[i].snapshot)
			rc = companions[i].snapshot(companions[i].arg, dir, &clock, end_ns, &err);
	snprintf(m->copy_error, sizeof(m->copy_error), "%s", rc ? err.msg : "");
	m->copy_rc = rc;
	__atomic_store_n(&m->copy_done, wanted, __ATOMIC_RELEASE);
}

static _Noreturn void holder_main(struct rut_recorder *r, const struct rut_companion *companions,
				  size_t count, int lock)
{
	static struct rut_logfile log;
	static struct rut_budget_follower budget;
	struct rut_session_meta *m = r->meta;
	bool running = true, said = false;
	struct home home;

	become_daemon(r, &log);
	home_init(&home, r->conf.name);
	if (!count) {
		/* It reads no ring, and all that was loaded is freed: it stays small. */
		munmap(r->data, r->data_bytes);
		r->data = NULL;
		malloc_trim(0);
	}
	m->ncompanions = (uint32_t)count;
	m->holder_start = rut_process_start_time(getpid());
	__atomic_store_n(&m->holder, getpid(), __ATOMIC_RELEASE);
	close(lock);
	while (!daemon_stop && !home_gone(&home)) {
		struct rut_err err = RUT_ERR_INIT;
		int rc = 0;

		follow_state(companions, count, m, &running);
		for (size_t i = 0; i < count && !rc; i++)
			rc = companions[i].step(companions[i].arg, &err);
		if (rc < 0 && !said)
			rut_warn("%s", err.msg);
		said = said || rc < 0;
		answer_change(companions, count, m);
		answer_copy(companions, count, m);
		rut_budget_follow(&budget, r);
		poll(NULL, 0, count ? ROUND_MS : BUDGET_MS);
	}
	for (size_t i = 0; i < count; i++)
		companions[i].pause(companions[i].arg, true);
	m->holder = 0;
	_exit(0);
}

int rut_holder_start(struct rut_recorder *r, const struct rut_companion *companions, size_t count,
		     int lock, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;
	pid_t pid = fork();

	if (pid < 0)
		return rut_err_errno(err, errno, "cannot start the session's process");
	if (!pid)
		holder_main(r, companions, count, lock);
	for (int i = 0; i < WAIT_MS && __atomic_load_n(&m->holder, __ATOMIC_ACQUIRE) != pid; i++)
		poll(NULL, 0, 1);
	return m->holder == pid ? 0 : not_started(pid, err);
}

bool rut_holder_alive(const struct rut_session_meta *m)
{
	return m->holder > 0 && m->holder_start &&
	       rut_process_start_time(m->holder) == m->holder_start;
}

void rut_holder_end(const struct rut_session_meta *m)
{
	if (!rut_holder_alive(m))
		return;
	kill(m->holder, SIGTERM);
	for (int i = 0; i < WAIT_MS && rut_holder_alive(m); i++)
		poll(NULL, 0, 1);
}

int rut_holder_copy(struct rut_session_meta *m, const char *dir,
		    const struct rut_trace_clock *clock, uint64_t end_ns, struct rut_err *err)
{
	uint32_t wanted;

	if (!m->holder)
		return 0;
	if (!rut_holder_alive(m)) {
		rut_warn(
			"the process %d of the session has exited: the snapshot has no Ruby events",
			m->holder);
		return 0;
	}
	if (!realpath(dir, m->copy_dir))
		return rut_err_errno(err, errno, "cannot find '%s'", dir);
	m->copy_begin_ns = clock->begin_ns;
	m->copy_offset_ns = clock->offset_ns;
	m->copy_end_ns = end_ns;
	wanted = __atomic_add_fetch(&m->copy_wanted, 1, __ATOMIC_ACQ_REL);
	for (int i = 0; i < WAIT_MS && rut_holder_alive(m); i++) {
		if (__atomic_load_n(&m->copy_done, __ATOMIC_ACQUIRE) == wanted)
			return m->copy_rc ? rut_err_set(err, -m->copy_rc, "%s", m->copy_error) : 0;
		poll(NULL, 0, 1);
	}
	return rut_err_set(err, ETIMEDOUT, "the process %d of the session does not answer",
			   m->holder);
}

static bool changer_alive(const struct rut_session_meta *m)
{
	return rut_holder_alive(m) || rut_session_consumer_alive(m);
}

/* It answers a request, to remove what nothing is called, after it has looked at the state. */
void rut_daemon_sync(struct rut_session_meta *m)
{
	uint32_t wanted;

	m->change_what[0] = '\0';
	m->change_add = false;
	wanted = __atomic_add_fetch(&m->change_wanted, 1, __ATOMIC_ACQ_REL);
	for (int i = 0; i < SYNC_MS && changer_alive(m) &&
			__atomic_load_n(&m->change_done, __ATOMIC_ACQUIRE) != wanted;
	     i++)
		poll(NULL, 0, 1);
}

int rut_daemon_change(struct rut_session_meta *m, bool add, const char *what, struct rut_err *err)
{
	uint32_t wanted;

	if ((size_t)snprintf(m->change_what, sizeof(m->change_what), "%s", what) >=
	    sizeof(m->change_what))
		return rut_err_set(err, E2BIG, "'%s' is too long", what);
	m->change_add = add;
	wanted = __atomic_add_fetch(&m->change_wanted, 1, __ATOMIC_ACQ_REL);
	for (int i = 0; i < CHANGE_MS && changer_alive(m); i++) {
		if (__atomic_load_n(&m->change_done, __ATOMIC_ACQUIRE) == wanted)
			return m->change_rc ? rut_err_set(err, -m->change_rc, "%s", m->change_error)
					    : 0;
		poll(NULL, 0, 1);
	}
	return rut_err_set(err, ETIMEDOUT, "the session's process does not answer");
}
