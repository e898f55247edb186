/* SPDX-License-Identifier: MIT */
#include "cli/trigger_act.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signals.h"
#include "cli/trigger_stacks.h"
#include "cli/trigger_watch.h"
#include "output/jsonl.h"
#include "ring/write.h"
#include "trigger/cause.h"

enum { END_MS = 5000 };

#define ACTION_NS 300000000000ull /* an action that takes longer is ended */

static void say(const struct rut_trigger_act *a, enum rut_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void say(const struct rut_trigger_act *a, enum rut_log_level level, const char *fmt, ...)
{
	char msg[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(msg, sizeof(msg), fmt, args);
	va_end(args);
	rut_logfile_append(a->log, level, msg);
}

/* ---- Directories of snapshots ---- */

static uint64_t dir_bytes;

static int add_bytes(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	dir_bytes += type == FTW_F ? (uint64_t)st->st_blocks * 512 : 0;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

/* "NAME-YYYYMMDD-HHMMSS-ID" of our own making, with the cause in it. */
static bool is_snapshot(const struct rut_trigger *t, const char *name)
{
	char path[PATH_MAX];
	size_t len = strlen(t->name);

	if (strncmp(name, t->name, len) != 0 || name[len] != '-' ||
	    strspn(name + len + 1, "0123456789") != 8)
		return false;
	return (size_t)snprintf(path, sizeof(path), "%s/%s/rutile_trigger/metadata", t->dir, name) <
		       sizeof(path) &&
	       access(path, F_OK) == 0;
}

/* The bytes of all snapshots; *ret_oldest is the oldest one's path, "" when there is none. */
static uint64_t measure(const struct rut_trigger *t, char *ret_oldest, size_t size)
{
	char oldest[NAME_MAX + 1] = "", path[PATH_MAX];
	DIR *d = opendir(t->dir);
	struct dirent *e;

	dir_bytes = 0;
	while (d && (e = readdir(d))) {
		if (!is_snapshot(t, e->d_name))
			continue;
		if (!oldest[0] || strcmp(e->d_name, oldest) < 0)
			snprintf(oldest, sizeof(oldest), "%s", e->d_name);
		snprintf(path, sizeof(path), "%s/%s", t->dir, e->d_name);
		nftw(path, add_bytes, 16, FTW_PHYS);
	}
	if (d)
		closedir(d);
	ret_oldest[0] = 0;
	if (oldest[0])
		snprintf(ret_oldest, size, "%s/%s", t->dir, oldest);
	return dir_bytes;
}

/* Room within the budget: old ones go, or false. */
static bool make_room(struct rut_trigger_act *a)
{
	const struct rut_trigger *t = a->t;
	char oldest[PATH_MAX];

	while (t->disk_bytes && measure(t, oldest, sizeof(oldest)) >= t->disk_bytes) {
		if (t->refuse || !oldest[0]) {
			say(a, RUT_LOG_WARN,
			    "no snapshot: those in '%s' fill the %" PRIu64 " bytes of --disk",
			    t->dir, t->disk_bytes);
			return false;
		}
		if (nftw(oldest, remove_one, 16, FTW_PHYS | FTW_DEPTH)) {
			say(a, RUT_LOG_WARN, "cannot remove '%s': %s", oldest, strerror(errno));
			return false;
		}
		say(a, RUT_LOG_INFO, "removed '%s': --disk", oldest);
	}
	return true;
}

/* The directory of this firing, with its cause. */
static bool make_dir(struct rut_trigger_act *a)
{
	char host[256] = "";
	const struct rut_trigger_cause cause = {.ns = a->ns,
						.host = host,
						.id = a->id,
						.name = a->t->name,
						.when = a->t->when_text,
						.what = a->cause ? a->cause : ""};
	struct rut_err err = RUT_ERR_INIT;
	time_t now = time(NULL);
	char stamp[32];
	struct tm tm;

	if (a->dir[0])
		return true;
	gethostname(host, sizeof(host) - 1);
	if (!make_room(a))
		return false;
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	if ((size_t)snprintf(a->dir, sizeof(a->dir), "%s/%s-%s-%s", a->t->dir, a->t->name, stamp,
			     a->id) >= sizeof(a->dir))
		return false;
	mkdir(a->t->dir, 0750);
	if (mkdir(a->dir, 0750) < 0) {
		say(a, RUT_LOG_WARN, "cannot make '%s': %s", a->dir, strerror(errno));
		a->dir[0] = 0;
		return false;
	}
	if (rut_trigger_cause_write(&cause, a->dir, &err))
		say(a, RUT_LOG_WARN, "%s", err.msg);
	return true;
}

/* ---- Processes ---- */

static void child(const struct rut_trigger_act *a, const char *program, const char *const *argv)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setenv("RUTILE_TRIGGER", a->t->name, 1);
	setenv("RUTILE_TRIGGER_ID", a->id, 1);
	setenv("RUTILE_TRIGGER_CAUSE", a->cause ? a->cause : "", 1);
	if (a->dir[0])
		setenv("RUTILE_TRIGGER_DIR", a->dir, 1);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	rut_signals_inherit();
	setpgid(0, 0);
	execvp(program, (char *const *)argv);
	_exit(127);
}

static void start(struct rut_trigger_act *a, const char *program, const char *const *argv)
{
	a->pid = fork();
	if (a->pid == 0)
		child(a, program, argv);
	if (a->pid > 0)
		setpgid(a->pid, a->pid); /* the child may not have come to it */
	a->pidfd = a->pid > 0 ? (int)syscall(SYS_pidfd_open, a->pid, 0) : -1;
	a->until_ns = rut_ring_clock() + ACTION_NS;
	if (a->pid < 0 || a->pidfd < 0) {
		say(a, RUT_LOG_WARN, "cannot start '%s': %s", argv[0], strerror(errno));
		if (a->pid > 0) {
			kill(a->pid, SIGKILL);
			waitpid(a->pid, NULL, 0);
		}
		a->until_ns = 0;
		a->stage = 0;
		a->failed = true;
	}
}

static void start_rutile(struct rut_trigger_act *a, const char *const *words, size_t n)
{
	const char *argv[RUT_TRIGGER_WORDS + 2] = {"rutile"};

	memcpy(argv + 1, words, n * sizeof(*words));
	argv[n + 1] = NULL;
	start(a, "/proc/self/exe", argv);
}

static void snapshot(struct rut_trigger_act *a, const char *session)
{
	char path[PATH_MAX + RUT_TRIGGER_TEXT_MAX];
	const char *const words[] = {"snapshot", session, "-o", path};

	if (!make_dir(a)) {
		a->failed = true;
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", a->dir, session);
	start_rutile(a, words, 4);
}

/* ---- Stacks, messages, other machines ---- */

/* What the kernel shows of each thread, and of a Ruby application the methods. */
static void stacks(struct rut_trigger_act *a, const struct rut_trigger_action *x)
{
	pid_t pid = x->words[1] ? 0 : rut_cli_trigger_pid(a->cause ? a->cause : "");
	char path[PATH_MAX + 8], target[16];
	const char *const words[] = {"stacks", x->words[1] ? x->words[1] : target, "-o", path};
	struct rut_err err = RUT_ERR_INIT;
	char *end;

	if (x->words[1])
		pid = (pid_t)strtol(x->words[1], &end, 10);
	if (x->words[1] && *end)
		pid = 0;
	if (!x->words[1] && !pid) {
		say(a, RUT_LOG_WARN, "no stacks: the cause names no process");
		a->failed = true;
		return;
	}
	if (!make_dir(a) || (pid && rut_cli_trigger_threads(a->dir, pid, &err))) {
		if (err.code)
			say(a, RUT_LOG_WARN, "%s", err.msg);
		a->failed = true;
		return;
	}
	snprintf(target, sizeof(target), "%d", (int)pid);
	snprintf(path, sizeof(path), "%s/stacks", a->dir);
	a->harmless = pid != 0; /* it need not be Ruby */
	start_rutile(a, words, 4);
}

static void publish(struct rut_trigger_act *a, const char *url)
{
	const char *const words[] = {"trigger", "publish", url};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	rut_jsonl_begin(&b);
	rut_jsonl_str(&b, "trigger", a->t->name);
	rut_jsonl_str(&b, "id", a->id);
	rut_jsonl_str(&b, "host", host);
	rut_jsonl_i64(&b, "time_ns", (int64_t)a->ns + rut_clock_offset_ns());
	rut_jsonl_str(&b, "when", a->t->when_text);
	rut_jsonl_str(&b, "cause", a->cause ? a->cause : "");
	if (a->dir[0])
		rut_jsonl_str(&b, "snapshot", a->dir);
	rut_jsonl_close(&b);
	if (b.failed || setenv(RUT_TRIGGER_MESSAGE_ENV, b.data, 1)) {
		a->failed = true;
		return;
	}
	start_rutile(a, words, 3);
	unsetenv(RUT_TRIGGER_MESSAGE_ENV);
}

/* "%i" in a word is the firing's id. False: it is too long. */
static bool expand(const struct rut_trigger_act *a, const char *word, char *to, size_t size)
{
	const char *at = strstr(word, "%i");

	if (at)
		return (size_t)snprintf(to, size, "%.*s%s%s", (int)(at - word), word, a->id,
					at + 2) < size;
	return (size_t)snprintf(to, size, "%s", word) < size;
}

static void ask_fleet(struct rut_trigger_act *a, const struct rut_trigger_action *x)
{
	char text[RUT_TRIGGER_WORDS][256], *words[RUT_TRIGGER_WORDS];
	struct rut_err err = RUT_ERR_INIT;
	const size_t n = x->nwords - 2;
	char about[128];
	int asked;

	for (size_t i = 0; i < n; i++) {
		words[i] = text[i];
		if (expand(a, x->words[2 + i], text[i], sizeof(text[i])))
			continue;
		say(a, RUT_LOG_WARN, "no host is asked: '%.60s...' is longer than %zu bytes",
		    x->words[2 + i], sizeof(text[i]) - 1);
		a->failed = true;
		return;
	}
	snprintf(about, sizeof(about), "%s,%s", a->id, a->t->name);
	asked = rut_fleet_fire_send(a->fleet, words, n, about,
				    (int64_t)a->ns + rut_clock_offset_ns(), &err);
	if (asked < 0)
		say(a, RUT_LOG_WARN, "%s", err.msg);
	else if (!asked)
		say(a, RUT_LOG_WARN, "no host that matches '%s' is reachable", x->words[1]);
	a->asking = asked > 0;
	a->failed |= asked <= 0;
}

/* Have the hosts answered? */
static bool collect_fleet(struct rut_trigger_act *a)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	bool failed;

	if (!rut_fleet_fire_done(a->fleet, &b, &failed))
		return false;
	if (!b.failed)
		say(a, failed ? RUT_LOG_WARN : RUT_LOG_INFO, "firing %s: %s", a->id, b.data);
	a->failed |= failed;
	a->asking = false;
	return true;
}

/* Starts the next thing to do; false: there is none. */
static bool start_next(struct rut_trigger_act *a)
{
	const struct rut_trigger_action *x = &a->t->actions[a->next];

	if (a->next == a->t->nactions)
		return false;
	if (x->verb == RUT_TRIGGER_DETAIL && a->stage == 1) {
		a->until_ns = rut_ring_clock() + x->ns;
		a->stage = 2;
		return true;
	}
	if (x->verb == RUT_TRIGGER_DETAIL) {
		const char *const words[] = {a->stage ? "remove" : "add", x->words[1], x->words[2],
					     x->words[3]};

		start_rutile(a, words, 4);
		a->next += a->stage != 0;
		a->stage = a->stage ? 0 : 1;
		return true;
	}
	a->next++;
	a->harmless = false;
	if (x->verb == RUT_TRIGGER_SNAPSHOT)
		snapshot(a, x->words[1]);
	else if (x->verb == RUT_TRIGGER_STACKS)
		stacks(a, x);
	else if (x->verb == RUT_TRIGGER_PUBLISH)
		publish(a, x->words[1]);
	else if (x->verb == RUT_TRIGGER_FLEET)
		ask_fleet(a, x);
	else if (x->verb == RUT_TRIGGER_RUTILE)
		start_rutile(a, x->words, x->nwords);
	else
		start(a, x->words[1], x->words + 1);
	return true;
}

/* Whether the action has ended. */
static bool collect(struct rut_trigger_act *a)
{
	int status;

	if (a->asking)
		return collect_fleet(a);
	if (a->pidfd < 0)
		return rut_ring_clock() >= a->until_ns;
	if (waitpid(a->pid, &status, WNOHANG) == 0) {
		if (rut_ring_clock() < a->until_ns)
			return false;
		say(a, RUT_LOG_WARN, "action %zu takes too long: killed", a->next);
		kill(-a->pid, SIGKILL);
		waitpid(a->pid, &status, 0);
	}
	if ((!WIFEXITED(status) || WEXITSTATUS(status)) && !a->harmless) {
		say(a, RUT_LOG_WARN, "an action of firing %s failed (%s %d)", a->id,
		    WIFEXITED(status) ? "exit status" : "signal",
		    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
		a->failed = true;
		/* Nothing was added that would have to be removed. */
		if (a->stage == 1) {
			a->stage = 0;
			a->next++;
		}
	}
	close(a->pidfd);
	a->pidfd = -1;
	a->until_ns = 0;
	return true;
}

void rut_cli_trigger_act_step(struct rut_trigger_act *a)
{
	while (a->busy && collect(a))
		a->busy = start_next(a);
}

void rut_cli_trigger_act_begin(struct rut_trigger_act *a, const char *cause)
{
	uint32_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint32_t)rut_ring_clock();
	snprintf(a->id, sizeof(a->id), "%08" PRIx32, random);
	free(a->cause);
	a->cause = strdup(cause);
	a->ns = rut_ring_clock();
	a->dir[0] = 0;
	a->next = a->stage = 0;
	a->until_ns = 0;
	a->pidfd = -1;
	a->failed = a->asking = false;
	a->busy = true;
	say(a, RUT_LOG_INFO, "fires: %s %s", a->id, cause);
	rut_cli_trigger_act_step(a);
}

/* Waits a bounded time for the action, which is asked to end unless it restores something. */
static void stop_running(struct rut_trigger_act *a)
{
	struct pollfd p = {.fd = a->pidfd, .events = POLLIN};

	if (a->stage != 0 || a->next == 0 || a->t->actions[a->next - 1].verb != RUT_TRIGGER_DETAIL)
		kill(-a->pid, SIGTERM);
	if (poll(&p, 1, END_MS) <= 0)
		kill(-a->pid, SIGKILL);
	waitpid(a->pid, NULL, 0);
	close(a->pidfd);
	a->pidfd = -1;
}

void rut_cli_trigger_act_end(struct rut_trigger_act *a)
{
	bool detail = a->busy && a->next < a->t->nactions && a->stage;

	if (a->busy && a->pidfd >= 0)
		stop_running(a);
	/* Remove what was added for a while. */
	if (detail) {
		a->stage = 2;
		start_next(a);
		if (a->pidfd >= 0)
			stop_running(a);
	}
	free(a->cause);
	a->cause = NULL;
}
