/* SPDX-License-Identifier: MIT */
/*
 * Starting a program with the agent in it from the first line on.
 *
 * Ruby loads the agent itself (RUBYOPT), which then waits in its Init function until this tracer
 * has set its hooks. The program may be a shell that starts Ruby later, several times, as another
 * user: each of them loads the agent.
 *
 * RUBYOPT outlives the tracer: in the environment of a daemon that the program has started, say,
 * and of every Ruby that the daemon starts later. `-r` with the path of a file that is removed by
 * then would keep them from starting. So RUBYOPT is "-IDIR -renumerator": Ruby has the feature
 * `enumerator` built in, and requiring it does nothing, unless there is an enumerator.rb in the
 * load path. In DIR there is one, as long as this tracer runs. It loads the agent if the tracer
 * holds its lock on the agent's file, so a tracer that was killed is no obstacle either. DIR is
 * where no other user can make a directory of that name later, if there is such a place.
 */
#include "ruby/rlimits.h"
#include "ruby/spawn.h"
#include "ruby/tracee.h"
#include "ruby/tree.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/signals.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define AGENT_FILE  "librutile_agent.so" /* Ruby calls the Init function of that name */
#define LOADER_FILE "enumerator.rb"
#define RUBY_OPTS   "-I%s -renumerator" /* agent.c takes it out again */
#define WAIT_ROUNDS 5000		/* of a millisecond */

/* Nothing may run after the agent is loaded: it would be traced. Nothing in here may raise. */
static const char loader[] =
	"begin\n"
	"  $LOAD_PATH.delete(File.dirname(__FILE__))\n"
	"  agent = File.join(File.dirname(__FILE__), '" AGENT_FILE "')\n"
	"  traced = File.open(agent) { |f| !f.flock(File::LOCK_SH | File::LOCK_NB) }\n"
	"  load = respond_to?(:gem_original_require, true) ? :gem_original_require : :require\n"
	"  send(load, agent) if traced\n"
	"rescue LoadError, StandardError\n"
	"end\n";

/*
 * There is one at a time, and it may see several tracers, one after another (the keys of a screen):
 * what it starts later knows the number of the first one's session.
 */
static struct {
	pid_t pid;
	char *dir;   /* owned; of the agent's file */
	int lock_fd; /* of that file, when dir is set */
	uint64_t session_id;
} command;

/* Ruby takes RUBYOPT apart at spaces. */
static bool is_usable(const char *dir)
{
	struct statvfs fs;

	if (!dir || *dir != '/' || access(dir, W_OK | X_OK) < 0 || statvfs(dir, &fs) < 0 ||
	    fs.f_flag & ST_NOEXEC)
		return false;
	while (*dir && !isspace((unsigned char)*dir))
		dir++;
	return !*dir;
}

/* Others may enter it: the program may change its user before it is Ruby. */
static int make_dir(struct rut_err *err)
{
	const char *own = geteuid() == 0 ? "/var/lib" : getenv("XDG_RUNTIME_DIR");
	const char *const dirs[] = {
		getenv("TMPDIR"), own, "/tmp", "/var/tmp", "/dev/shm", "/run",
	};
	size_t i = 0, n = sizeof(dirs) / sizeof(*dirs);

	while (i < n && !is_usable(dirs[i]))
		i++;
	if (i == n)
		return rut_err_set(err, EACCES,
				   "no directory for the agent: /tmp, /var/tmp, /dev/shm and /run "
				   "are mounted noexec or may not be written; set TMPDIR");
	if (asprintf(&command.dir, "%s/rutile.XXXXXX", dirs[i]) < 0) {
		command.dir = NULL;
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	if (!mkdtemp(command.dir)) {
		int r = rut_err_errno(err, errno, "cannot make a directory for the agent in '%s'",
				      dirs[i]);

		free(command.dir);
		command.dir = NULL;
		return r;
	}
	chmod(command.dir, 0711);
	command.lock_fd = -1;
	return 0;
}

static int make_file(const char *name, const void *data, size_t bytes, struct rut_err *err)
{
	_cleanup_close_ int fd = -1;
	const char *p = data;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", command.dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (fd < 0 || fchmod(fd, 0755) < 0)
		return rut_err_errno(err, errno, "cannot create '%s'", path);
	while (bytes) {
		ssize_t n = write(fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EFBIG)
			return rut_err_set(
				err, EFBIG,
				"cannot write '%s': files of that size are not permitted "
				"here (ulimit -f)",
				path);
		if (n <= 0)
			return rut_err_errno(err, errno, "cannot write '%s'", path);
		p += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* The kernel drops the lock with this process. */
static int lock_agent_file(struct rut_err *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/" AGENT_FILE, command.dir);
	command.lock_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (command.lock_fd < 0 || flock(command.lock_fd, LOCK_EX | LOCK_NB) < 0)
		return rut_err_errno(err, errno, "cannot lock '%s'", path);
	return 0;
}

static int make_files(struct rut_err *err)
{
	int r = make_dir(err);

	if (r == 0)
		r = make_file(AGENT_FILE, rut_agent_image,
			      (uintptr_t)rut_agent_image_end - (uintptr_t)rut_agent_image, err);
	if (r == 0)
		r = lock_agent_file(err);
	return r == 0 ? make_file(LOADER_FILE, loader, sizeof(loader) - 1, err) : r;
}

/* A file that would be too large is an error, not the end of this process. */
static int make_agent_file(struct rut_err *err)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
	int r;

	sigaction(SIGXFSZ, &ignore, &old);
	r = make_files(err);
	sigaction(SIGXFSZ, &old, NULL);
	return r;
}

static void remove_agent_file(void)
{
	char path[PATH_MAX];

	if (command.dir) {
		snprintf(path, sizeof(path), "%s/" LOADER_FILE, command.dir);
		unlink(path);
		snprintf(path, sizeof(path), "%s/" AGENT_FILE, command.dir);
		unlink(path);
		rmdir(command.dir);
		if (command.lock_fd >= 0)
			close(command.lock_fd);
		command.lock_fd = -1;
	}
	free(command.dir);
	command.dir = NULL;
}

void rut_spawn_fini(struct rut_tracer *t)
{
	bool needed = t->spawned && !rut_tree_command_ended(t->spawned);

	/* A tracer that only looks beside it, why nothing is counted, has no part in the command.
	 */
	if (command.dir && t->session_id != command.session_id)
		return;
	/* A Ruby that has loaded it keeps it from what it starts. */
	for (size_t i = 0; needed && i < t->count; i++)
		needed = t->tracees[i]->pid != t->spawned;
	if (!needed)
		remove_agent_file();
	t->spawned = 0;
}

int rut_tracer_command_vars(const struct rut_tracer *t, pid_t tracer, struct rut_buf *out)
{
	const char *old = getenv("RUBYOPT");

	rut_buf_printf(out, "RUBYOPT=" RUBY_OPTS "%s%s", command.dir, old && *old ? " " : "",
		       old ? old : "");
	rut_buf_putc(out, '\0');
	rut_buf_printf(out, "RUTILE_SESSION=%llx:%d", (unsigned long long)t->session_id,
		       (int)tracer);
	rut_buf_putc(out, '\0');
	return out->failed ? -ENOMEM : 0;
}

int rut_tracer_command_env(const struct rut_tracer *t, pid_t tracer)
{
	struct rut_buf vars = RUT_BUF_INIT;

	/* The strings are the environment's from here on. */
	if (rut_tracer_command_vars(t, tracer, &vars))
		return -ENOMEM;
	for (char *at = vars.data; at < vars.data + vars.len; at += strlen(at) + 1)
		if (putenv(at))
			return -errno;
	return 0;
}

static void child_main(struct rut_tracer *t, char *const argv[], pid_t tracer, int error_fd)
{
	int code;

	if (rut_tracer_command_env(t, tracer))
		_exit(126);
	rut_signals_inherit();
	execvp(argv[0], argv);
	code = errno;
	if (write(error_fd, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(127);
}

/* The agent is there when a Ruby waits for us; it may be a child of the command, or come later. */
static void wait_for_agent(struct rut_tracer *t)
{
	struct pollfd pfd = {.fd = t->watch_fd, .events = POLLIN};

	for (int i = 0; i < WAIT_ROUNDS && !t->count && !rut_tree_command_ended(t->spawned); i++) {
		rut_tree_adopt_spawned(t);
		/* A shell may have changed them. */
		if (i % 16 == 0 && !t->count)
			rut_limits_read(t, t->spawned);
		if (!t->count && poll(&pfd, 1, 1) != 0)
			break; /* a key, or a signal */
	}
	/* It has ended and is not reaped yet. */
	if (!t->count)
		rut_limits_read(t, command.pid);
}

/* What the child could not do: 0 when it runs the command. */
static int read_error(int fd)
{
	int code = 0;
	ssize_t n;

	do
		n = read(fd, &code, sizeof(code));
	while (n < 0 && errno == EINTR);
	return n == sizeof(code) ? code : 0;
}

int rut_tracer_command_prepare(struct rut_tracer *t, struct rut_err *err)
{
	int r;

	remove_agent_file();
	r = make_agent_file(err);
	if (r < 0) {
		remove_agent_file();
		return r;
	}
	t->command = true;
	command.session_id = t->session_id;
	return 0;
}

void rut_tracer_command_started(struct rut_tracer *t, pid_t pid)
{
	rut_limits_read(t, pid);
	command.pid = t->spawned = pid;
}

pid_t rut_tracer_spawn(struct rut_tracer *t, char *const argv[], struct rut_err *err)
{
	int fds[2] = {-1, -1}, code, r = rut_tracer_command_prepare(t, err);
	pid_t tracer = getpid(), pid;

	if (r < 0)
		return r;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		r = rut_err_errno(err, errno, "cannot make a pipe");
		remove_agent_file();
		return r;
	}
	pid = fork();
	if (pid == 0)
		child_main(t, argv, tracer, fds[1]);
	r = pid < 0 ? rut_err_errno(err, errno, "cannot start a process") : 0;
	close(fds[1]);
	code = pid < 0 ? 0 : read_error(fds[0]);
	close(fds[0]);
	if (code) {
		waitpid(pid, NULL, 0);
		r = rut_err_errno(err, code, "cannot run '%s'", argv[0]);
	}
	if (r < 0) {
		remove_agent_file();
		return r;
	}
	rut_tracer_command_started(t, pid);
	wait_for_agent(t);
	return pid;
}

void rut_tracer_take_command(struct rut_tracer *t)
{
	t->spawned = command.pid;
	if (t->spawned)
		t->session_id = command.session_id;
	rut_tree_adopt_spawned(t);
}
