/* SPDX-License-Identifier: MIT */
#include "cli/trigger_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/logfile.h"
#include "cli/record_opts.h"
#include "cli/trigger_act.h"
#include "cli/trigger_source.h"
#include "fleet/rules.h"
#include "ring/write.h"
#include "trigger/limit.h"

enum {
	ROUND_MS = 20,
	IDLE_MS = 1000,
	BATCH = 64,
	ANSWER_MS = 2000,
	RCVBUF = 1 << 20,
	END_TRIES = 500
};

struct watch {
	const struct rut_trigger *t;
	struct rut_trigger_limit limit;
	struct rut_trigger_act act;
	struct rut_trigger_source *source; /* owned; NULL: nothing but the socket */
	struct rut_trigger_status status;
	struct rut_logfile log;
	int fd;		  /* the socket */
	uint64_t next_ns; /* of EVERY and AT; 0: none */
	int64_t at;	  /* of AT: the time of day */
	bool end;
	bool idle; /* a message came that began no action */
};

static volatile sig_atomic_t terminated;

static void on_term(int sig)
{
	terminated = sig;
}

void rut_cli_trigger_path(char *ret, size_t size, const char *name, const char *suffix)
{
	snprintf(ret, size, RUT_TRIGGER_DIR "/%s%s", name, suffix);
}

/* ---- Firing ---- */

static void act(struct watch *w, const char *cause)
{
	w->status.fired++;
	w->status.busy = true;
	rut_cli_trigger_act_begin(&w->act, cause);
}

static void fire(struct watch *w, const char *cause)
{
	if (w->status.busy || !rut_trigger_limit_take(&w->limit, rut_ring_clock()))
		w->status.suppressed++;
	else
		act(w, cause);
}

static void on_event(void *arg, const char *cause)
{
	fire(arg, cause);
}

static void step_actions(struct watch *w)
{
	if (!w->status.busy)
		return;
	rut_cli_trigger_act_step(&w->act);
	if (w->act.busy)
		return;
	w->status.busy = false;
	rut_trigger_limit_ended(&w->limit, rut_ring_clock());
	w->status.failed += w->act.failed;
}

static void answer(const struct watch *w, const struct sockaddr_un *to, socklen_t len)
{
	char text[256];
	int n = snprintf(text, sizeof(text),
			 "{\"fired\":%" PRIu64 ",\"suppressed\":%" PRIu64 ",\"failed\":%" PRIu64
			 ",\"busy\":%s}",
			 w->status.fired, w->status.suppressed, w->status.failed,
			 w->status.busy ? "true" : "false");

	if (len > offsetof(struct sockaddr_un, sun_path))
		sendto(w->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, (const void *)to, len);
}

/* What does not print in the values of a firing would end the cause, or a line of the log. */
static void take_message(struct watch *w, char *text, const struct sockaddr_un *from, socklen_t len,
			 bool ours)
{
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	const uint64_t before = w->status.fired;

	if (!strncmp(text, "fire", 4) && (!text[4] || text[4] == ' '))
		fire(w, text + 4 + strspn(text + 4, " "));
	else if (!strcmp(text, "status"))
		answer(w, from, len);
	/* The right to fire it includes neither ending it nor exceeding its limits. */
	else if (ours && !strcmp(text, "test") && !w->status.busy)
		act(w, "test");
	else if (ours && !strcmp(text, "end"))
		w->end = true;
	w->idle |= w->status.fired == before;
}

/* Sent by root, or by the trigger's owner? */
static bool is_ours(struct msghdr *msg)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct ucred who;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
		return false;
	memcpy(&who, CMSG_DATA(c), sizeof(who));
	return who.uid == 0 || who.uid == geteuid();
}

/* A storm is read in batches. */
static void take_messages(struct watch *w)
{
	static char text[BATCH][RUT_TRIGGER_MESSAGE_MAX + 1];
	static struct sockaddr_un from[BATCH];
	static union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control[BATCH];
	struct iovec iov[BATCH];
	struct mmsghdr msgs[BATCH];
	int n;

	for (int i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){text[i], RUT_TRIGGER_MESSAGE_MAX};
		msgs[i].msg_hdr = (struct msghdr){.msg_name = &from[i],
						  .msg_namelen = sizeof(from[i]),
						  .msg_iov = &iov[i],
						  .msg_iovlen = 1,
						  .msg_control = &control[i],
						  .msg_controllen = sizeof(control[i])};
	}
	n = recvmmsg(w->fd, msgs, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		text[i][msgs[i].msg_len] = 0;
		take_message(w, text[i], &from[i], msgs[i].msg_hdr.msg_namelen,
			     is_ours(&msgs[i].msg_hdr));
	}
}

/* ---- The loop ---- */

/* Of EVERY: when it fires next; 0: by no such clock. */
static uint64_t next_time(const struct watch *w)
{
	const struct rut_trigger_when *when = &w->t->when;

	if (when->kind == RUT_TRIGGER_EVERY)
		return (w->next_ns ? w->next_ns : rut_ring_clock()) + when->ns;
	return 0;
}

/*
 * The time has come. The clock may have been set, so the time of an AT is looked at again every
 * minute.
 */
static void take_time(struct watch *w)
{
	const bool at = w->t->when.kind == RUT_TRIGGER_AT;
	int64_t now = (int64_t)time(NULL);

	if (at && now < w->at) {
		w->next_ns = rut_ring_clock() +
			     (uint64_t)(w->at - now < 60 ? w->at - now : 60) * UINT64_C(1000000000);
		return;
	}
	w->next_ns = at ? rut_ring_clock() : next_time(w);
	w->at = at ? rut_trigger_next_at(&w->t->when, now) : 0;
	fire(w, "");
}

static int until_next(const struct watch *w)
{
	uint64_t now = rut_ring_clock(), ms = w->source || w->act.busy ? ROUND_MS : IDLE_MS;

	if (w->next_ns && w->next_ns <= now)
		return 0;
	if (w->next_ns && (w->next_ns - now) / 1000000 < ms)
		ms = (w->next_ns - now) / 1000000 + 1;
	return (int)ms;
}

static int loop(struct watch *w, struct rut_err *err)
{
	int rc = 0;

	while (!w->end && !terminated && !rc) {
		struct pollfd p[2] = {{.fd = w->fd, .events = POLLIN},
				      {.fd = w->act.busy ? w->act.pidfd : -1, .events = POLLIN}};

		const uint64_t suppressed = w->status.suppressed;

		w->idle = false;
		if (poll(p, 2, until_next(w)) > 0 && p[0].revents)
			take_messages(w);
		/*
		 * In a storm, of whatever: one look a millisecond. Its senders do not wait, they
		 * get EAGAIN.
		 */
		if (w->idle || w->status.suppressed != suppressed)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		if (w->source)
			rc = w->source->step(w->source, on_event, w, err);
		if (w->next_ns && rut_ring_clock() >= w->next_ns)
			take_time(w);
		if (w->act.fleet)
			rut_fleet_fire_step(w->act.fleet);
		step_actions(w);
	}
	return rc;
}

/* ---- The process ---- */

static int give_to_group(const char *path, const char *name, struct rut_err *err)
{
	const struct group *g = name[0] ? getgrnam(name) : NULL;

	if (!name[0])
		return 0;
	if (!g)
		return rut_err_set(err, ENOENT, "there is no group '%s'", name);
	if (chown(path, (uid_t)-1, g->gr_gid) < 0 || chmod(path, 0620) < 0)
		return rut_err_errno(err, errno, "cannot give '%s' to group '%s'", path, name);
	return 0;
}

/* A socket of a process that was killed is replaced. */
static int listen_at(const char *name, const char *group, struct rut_err *err)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;
	const int room = RCVBUF, on = 1;
	mode_t old;

	if (fd < 0)
		return rut_err_errno(err, errno, "cannot make a socket");
	rut_cli_trigger_path(at.sun_path, sizeof(at.sun_path), name, "");
	if (!connect(fd, (void *)&at, sizeof(at))) {
		close(fd);
		return rut_err_set(err, EEXIST, "trigger '%s' exists: 'rutile trigger remove %s'",
				   name, name);
	}
	unlink(at.sun_path);
	close(fd);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	old = umask(0177);
	rc = fd < 0 || bind(fd, (void *)&at, sizeof(at)) ? -errno : 0;
	umask(old);
	if (rc) {
		close(fd);
		return rut_err_errno(err, -rc, "cannot listen on '%s'", at.sun_path);
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	rc = give_to_group(at.sun_path, group, err);
	if (rc) {
		unlink(at.sun_path);
		close(fd);
	}
	return rc ? rc : fd;
}

static int write_description(const struct rut_trigger *t, struct rut_err *err)
{
	char path[256];
	FILE *f;

	rut_cli_trigger_path(path, sizeof(path), t->name, ".conf");
	f = fopen(path, "we");
	if (!f)
		return rut_err_errno(err, errno, "cannot write '%s'", path);
	rut_trigger_write(t, f);
	return fclose(f) ? rut_err_errno(err, errno, "cannot write '%s'", path) : 0;
}

/* The description stays, with the reason, so that `list` can show it. */
static void leave_reason(const char *name, const char *reason)
{
	char path[256];
	FILE *f;

	rut_cli_trigger_path(path, sizeof(path), name, "");
	unlink(path);
	rut_cli_trigger_path(path, sizeof(path), name, ".conf");
	f = fopen(path, "ae");
	if (f) {
		fprintf(f, RUT_TRIGGER_ENDED "%s\n", reason);
		fclose(f);
	}
}

static void remove_files(const char *name)
{
	char path[256];

	rut_cli_trigger_path(path, sizeof(path), name, "");
	unlink(path);
	rut_cli_trigger_path(path, sizeof(path), name, ".conf");
	unlink(path);
}

/* The connection over which other machines are asked is open before anything happens. */
static int open_fleet(struct watch *w, struct rut_err *err)
{
	const struct rut_trigger *t = w->t;
	const char *file = t->fleet[0] ? t->fleet : RUT_FLEET_CONF;
	struct rut_fleet_fire_conf conf = {.hosts = NULL};
	struct rut_fleet_rules rules = {.n_allow = 0};
	int rc;

	for (size_t i = 0; i < t->nactions; i++) {
		if (t->actions[i].verb != RUT_TRIGGER_FLEET)
			continue;
		if (conf.hosts)
			return rut_err_set(err, EINVAL, "only one action 'fleet' is possible");
		conf.hosts = t->actions[i].words[1];
	}
	if (!conf.hosts)
		return 0;
	rc = rut_fleet_rules_read(&rules, file, err);
	if (!rc && !rules.server[0])
		rc = rut_err_set(err, EINVAL, "which server? A line 'server = ...' in '%s'", file);
	if (!rc)
		rc = rut_nats_url_parse(rules.server, &conf.url, err);
	conf.tls = rules.tls[0] ? rules.tls : NULL;
	if (!rc)
		rc = rut_fleet_fire_new(&w->act.fleet, &conf, err);
	rut_fleet_rules_fini(&rules);
	return rc;
}

/* All may enter, whatever the umask is: who may fire, the sockets say. */
static void make_dir(const char *path)
{
	if (!mkdir(path, 0755))
		chmod(path, 0755);
}

static int open_watch(struct watch *w, const struct rut_cmd *cmd, struct rut_err *err)
{
	const struct rut_trigger *t = w->t;
	int rc;

	w->limit = (struct rut_trigger_limit){
		.burst = t->burst, .interval_ns = t->interval_ns, .cooldown_ns = t->cooldown_ns};
	w->log = (struct rut_logfile){.size_bytes = RUT_LOG_BYTES, .keep = RUT_LOG_KEEP};
	snprintf(w->log.who, sizeof(w->log.who), "%s", t->name);
	mkdir(rut_cli_log_dir(), 0750);
	snprintf(w->log.path, sizeof(w->log.path), "%s/trigger.log", rut_cli_log_dir());
	w->act = (struct rut_trigger_act){.t = t, .log = &w->log, .pidfd = -1};
	w->next_ns = next_time(w);
	if (t->when.kind == RUT_TRIGGER_AT) {
		w->at = rut_trigger_next_at(&t->when, (int64_t)time(NULL));
		w->next_ns = rut_ring_clock();
	}
	make_dir("/run/rutile");
	make_dir(RUT_TRIGGER_DIR);
	rc = w->fd = listen_at(t->name, t->group, err);
	if (rc < 0)
		return rc;
	rc = rut_cli_trigger_source_open(&w->source, cmd, &t->when, err);
	if (!rc)
		rc = open_fleet(w, err);
	if (!rc)
		rc = write_description(t, err);
	if (rc)
		remove_files(t->name);
	return rc;
}

/* Reports to the process that started us: 0, or what failed. */
struct result {
	int rc;
	struct rut_err err;
};

static void detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; null >= 0 && fd < 3; fd++)
		dup2(null, fd);
	if (chdir("/") < 0)
		rut_debug("no root directory");
}

static void watch(const struct rut_trigger *t, const struct rut_cmd *cmd, int pipe_fd)
{
	static struct watch w;
	struct result result = {.err = RUT_ERR_INIT};

	w.t = t;
	setsid();
	signal(SIGTERM, on_term);
	signal(SIGINT, on_term);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	result.rc = open_watch(&w, cmd, &result.err);
	if (write(pipe_fd, &result, sizeof(result)) != sizeof(result) || result.rc)
		_exit(1);
	close(pipe_fd);
	detach();
	rut_logfile_append(&w.log, RUT_LOG_INFO, "watches");
	result.rc = loop(&w, &result.err);
	if (result.rc)
		rut_logfile_append(&w.log, RUT_LOG_WARN, result.err.msg);
	rut_cli_trigger_act_end(&w.act);
	if (w.source)
		w.source->free(w.source);
	rut_fleet_fire_free(w.act.fleet);
	if (result.rc)
		leave_reason(t->name, result.err.msg);
	else
		remove_files(t->name);
	_exit(0);
}

int rut_cli_trigger_start(const struct rut_trigger *t, const struct rut_cmd *cmd,
			  struct rut_err *err)
{
	struct result result = {.rc = -EIO, .err = RUT_ERR_INIT};
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return rut_err_errno(err, errno, "cannot make a pipe");
	fflush(NULL);
	pid = fork();
	/* Twice, so that it has init for its parent and no terminal. */
	if (pid == 0) {
		close(fds[0]);
		if (fork() == 0)
			watch(t, cmd, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return rut_err_errno(err, errno, "cannot start a process");
	}
	waitpid(pid, &status, 0);
	if (read(fds[0], &result, sizeof(result)) != sizeof(result))
		result.rc = rut_err_set(&result.err, EIO, "the trigger's process has ended");
	close(fds[0]);
	*err = result.err;
	return result.rc;
}

/* ---- Talking to it ---- */

static int gone(const char *name, struct rut_err *err)
{
	return rut_err_set(err, ENOENT, "no trigger '%s': see 'rutile trigger list'", name);
}

static int open_to(const char *name, struct rut_err *err)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return rut_err_errno(err, errno, "cannot make a socket");
	rut_cli_trigger_path(to.sun_path, sizeof(to.sun_path), name, "");
	rc = connect(fd, (void *)&to, sizeof(to)) ? errno : 0;
	if (!rc)
		return fd;
	close(fd);
	if (rc == ENOENT || rc == ECONNREFUSED)
		return gone(name, err);
	return rut_err_errno(err, rc, "cannot reach trigger '%s'", name);
}

/* Waits for room in the trigger's queue for a moment, if it is to: others may fill it. */
static int send_message(int fd, const char *name, const char *message, bool wait,
			struct rut_err *err)
{
	const struct timeval limit = {ANSWER_MS / 1000, 0};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (send(fd, message, strlen(message), (wait ? 0 : MSG_DONTWAIT) | MSG_NOSIGNAL) >= 0)
		return 0;
	if (errno == EAGAIN)
		return rut_err_set(err, EAGAIN,
				   "trigger '%s' has more messages waiting than it takes; this one "
				   "is dropped",
				   name);
	/* It has exited since the socket was connected. */
	if (errno == ECONNREFUSED)
		return gone(name, err);
	return rut_err_errno(err, errno, "cannot reach trigger '%s'", name);
}

int rut_cli_trigger_send(const char *name, const char *message, bool wait, struct rut_err *err)
{
	_cleanup_close_ int fd = open_to(name, err);

	return fd < 0 ? fd : send_message(fd, name, message, wait, err);
}

int rut_cli_trigger_ask(const char *name, struct rut_trigger_status *ret, struct rut_err *err)
{
	_cleanup_close_ int fd = open_to(name, err);
	const struct sockaddr_un me = {.sun_family = AF_UNIX};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char text[256], busy[8] = "";
	ssize_t n;
	int rc;

	if (fd < 0)
		return fd;
	/* A name of the kernel's choice, so that it can answer. */
	if (bind(fd, (const void *)&me, sizeof(me.sun_family)))
		return rut_err_errno(err, errno, "cannot reach trigger '%s'", name);
	rc = send_message(fd, name, "status", true, err);
	if (rc)
		return rc;
	if (poll(&p, 1, ANSWER_MS) <= 0 || (n = recv(fd, text, sizeof(text) - 1, 0)) < 0)
		return rut_err_set(err, ETIMEDOUT, "trigger '%s' does not answer", name);
	text[n] = 0;
	if (sscanf(text,
		   "{\"fired\":%" SCNu64 ",\"suppressed\":%" SCNu64 ",\"failed\":%" SCNu64
		   ",\"busy\":%5[a-z]",
		   &ret->fired, &ret->suppressed, &ret->failed, busy) != 4)
		return rut_err_set(err, EPROTO, "invalid answer from trigger '%s'", name);
	ret->busy = !strcmp(busy, "true");
	return 0;
}

int rut_cli_trigger_end(const char *name, struct rut_err *err)
{
	char path[256];
	int rc = rut_cli_trigger_send(name, "end", true, err);

	rut_cli_trigger_path(path, sizeof(path), name, ".conf");
	/* Of a process that was killed, or could not go on. */
	if (rc == -ENOENT && !access(path, F_OK)) {
		remove_files(name);
		return 0;
	}
	rut_cli_trigger_path(path, sizeof(path), name, "");
	for (int i = 0; i < END_TRIES && !rc && !access(path, F_OK); i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	if (!rc && !access(path, F_OK))
		return rut_err_set(err, EBUSY, "trigger '%s' has not exited yet", name);
	return rc;
}
