/* SPDX-License-Identifier: MIT */
/*
 * Ruby processes, found by reading /proc only: nothing is attached to, stopped or executed.
 *
 * A process is Ruby when it maps a libruby, when its executable exports `ruby_version` (Ruby linked
 * statically, whatever it is called), or, where another user's mappings cannot be read, when its
 * command line looks like it. The version is the string `ruby_version` in its memory; without
 * permission it is guessed from file names. What it is (role.c) comes from its title, its script
 * and its directory.
 */
#include "ruby/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/abi.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/proc.h"
#include "ruby/native.h"
#include "ruby/role.h"
#include "ruby/target.h"
#include "ruby_abi/ruby_abi.h"

void rut_ruby_proc_fini(struct rut_ruby_proc *p)
{
	free(p->name);
	free(p->app_root);
	free(p->why_not);
	*p = (struct rut_ruby_proc){0};
}

static bool begins(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/* Reads a link of /proc/PID; empty when it cannot be. */
static void read_link(pid_t pid, const char *name, char *ret, size_t cap)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	n = readlink(path, ret, cap - 1);
	ret[n < 0 ? 0 : n] = 0;
}

/*
 * A directory that was removed or replaced while the process runs in it, as deployments do: the
 * files that Ruby loaded are still known by its name.
 */
static void drop_suffix(char *s, const char *suffix)
{
	size_t len = strlen(s), n = strlen(suffix);

	if (len > n && !strcmp(s + len - n, suffix))
		s[len - n] = 0;
}

uint64_t rut_ruby_uptime_s(pid_t pid)
{
	_cleanup_buf_ struct rut_buf up = RUT_BUF_INIT;
	uint64_t start = rut_proc_start(pid) / (uint64_t)sysconf(_SC_CLK_TCK);
	double now = 0;

	if (!start || rut_buf_read_file(&up, "/proc/uptime", 256) < 0 || !up.data ||
	    sscanf(up.data, "%lf", &now) != 1)
		return 0;
	return (uint64_t)now > start ? (uint64_t)now - start : 0;
}

static bool same_namespace(pid_t pid, const char *which)
{
	char name[32], its[64], mine[64];

	snprintf(name, sizeof(name), "ns/%s", which);
	read_link(pid, name, its, sizeof(its));
	read_link(getpid(), name, mine, sizeof(mine));
	return !its[0] || !strcmp(its, mine);
}

/* The first "N.N" or "N.N.N" in a file name or path. */
static bool version_in_path(const char *path, char *ret, size_t cap)
{
	for (const char *p = path; *p; p++) {
		unsigned int major, minor, teeny;
		int n = 0;

		if (p > path && (p[-1] == '.' || (p[-1] >= '0' && p[-1] <= '9')))
			continue;
		if (sscanf(p, "%1u.%1u.%2u", &major, &minor, &teeny) == 3)
			n = snprintf(ret, cap, "%u.%u.%u", major, minor, teeny);
		else if (sscanf(p, "%1u.%1u", &major, &minor) == 2)
			n = snprintf(ret, cap, "%u.%u", major, minor);
		if (n > 0)
			return true;
	}
	return false;
}

static bool looks_like_version(const char *s)
{
	unsigned int a, b, c;

	return sscanf(s, "%u.%u.%u", &a, &b, &c) == 3 && strlen(s) < 12;
}

/* The mapping of libruby or of the executable; NULL when neither is Ruby. */
static const struct rut_mapping *find_ruby(struct rut_target *t, const char *exe, char *version,
					   size_t cap)
{
	const struct rut_mapping *ruby = NULL, *exe_module = NULL;
	struct rut_target_symbol sym;
	char text[16] = "";

	for (const struct rut_mapping *m = NULL; (m = rut_target_next_module(t, m));) {
		const char *name = rut_mapping_basename(m);

		if (!exe_module && !strcmp(m->path, exe))
			exe_module = m;
		if (begins(name, "libruby") && strstr(name, ".so")) {
			ruby = m;
			break;
		}
	}
	if (!exe_module)
		exe_module = rut_target_next_module(t, NULL);
	if (!ruby)
		ruby = exe_module;
	if (ruby && t->mem_fd >= 0 && rut_target_find_symbol(t, ruby, "ruby_version", &sym) == 0 &&
	    rut_target_read_string(t, sym.addr, text, sizeof(text)) == 0 &&
	    looks_like_version(text)) {
		snprintf(version, cap, "%s", text);
		return ruby;
	}
	if (!ruby || (ruby == exe_module && !begins(rut_mapping_basename(ruby), "ruby")))
		return NULL;
	version_in_path(ruby == exe_module ? ruby->path : rut_mapping_basename(ruby), version, cap);
	return ruby;
}

/* Without permission to read its mappings: by its name. */
static bool title_looks_like_ruby(const char *cmdline, const char *comm)
{
	const char *base = cmdline;

	/* Of the program only: what it is given may be the path of a script. */
	for (const char *c = cmdline; *c && *c != ' '; c++)
		if (*c == '/')
			base = c + 1;
	return begins(base, "ruby") || begins(comm, "ruby") || begins(cmdline, "puma ") ||
	       begins(cmdline, "puma: ") || begins(cmdline, "Passenger R") ||
	       begins(cmdline, "unicorn ") || begins(cmdline, "sidekiq ");
}

/* An agent that is already loaded needs no ptrace. */
static bool has_agent(const struct rut_target *t)
{
	for (size_t i = 0; i < t->map_count; i++)
		if (t->maps[i].shared && !strcmp(t->maps[i].path, "/memfd:" RUT_AGENT_MEMFD))
			return true;
	return false;
}

int rut_ruby_proc_unreleased(pid_t pid, const char *version, struct rut_err *err)
{
	const struct rut_ruby_abi *abi = rut_ruby_abi_get(rut_ruby_abi_number(version));

	if (!abi || !abi->unreleased)
		return 0;
	return rut_err_set(err, ENOTSUP,
			   "process %d runs Ruby %s: that is not released, its layouts may differ "
			   "from those that this version of rutile knows, and tracing it may crash "
			   "it; --try-newer traces it nevertheless",
			   pid, version);
}

static void set_why_not(struct rut_ruby_proc *p, const struct rut_target *t, int check,
			const struct rut_err *reason)
{
	const struct rut_mapping *libc;
	/* What the agent knows the layouts of. */
	int oldest = rut_ruby_abi_oldest()->version, newest = rut_ruby_abi_newest()->version;
	int major = 0, minor = 0;
	struct rut_err unreleased = RUT_ERR_INIT;
	char text[600];

	text[0] = 0;
	if ((check == -EPERM || check == -EALREADY) && has_agent(t))
		return;
	if (check < 0)
		snprintf(text, sizeof(text), "%s", reason->msg);
	else if (sscanf(p->version, "%d.%d", &major, &minor) == 2 && major * 100 + minor < oldest)
		snprintf(text, sizeof(text),
			 "process %d runs Ruby %s: that is too old, Ruby %d.%d is the oldest that "
			 "can be traced",
			 p->pid, p->version, oldest / 100, oldest % 100);
	else if (major * 100 + minor > newest && !rut_ruby_abi_get(major * 100 + minor))
		snprintf(text, sizeof(text),
			 "process %d runs Ruby %s: that is newer than what this version of rutile "
			 "knows, Ruby %d.%d; look for a newer rutile",
			 p->pid, p->version, newest / 100, newest % 100);
	else if (rut_target_libc(t, &libc) == RUT_LIBC_MUSL)
		snprintf(
			text, sizeof(text),
			"process %d uses the C library musl: only glibc can be traced by injection",
			p->pid);
	else if (!libc)
		snprintf(text, sizeof(text),
			 "process %d is linked statically: it has no dlopen to load the agent "
			 "with",
			 p->pid);
	else if (!rut_target_is_native(t))
		snprintf(text, sizeof(text), RUT_NOT_NATIVE, p->pid);
	p->newer = !text[0] && rut_ruby_proc_unreleased(p->pid, p->version, &unreleased) < 0;
	if (p->newer)
		snprintf(text, sizeof(text), "%s", unreleased.msg);
	if (text[0])
		p->why_not = strdup(text);
}

void rut_ruby_proc_cwd(pid_t pid, char *ret, size_t cap)
{
	char root[4096];
	size_t len;

	read_link(pid, "cwd", ret, cap);
	drop_suffix(ret, " (deleted)");
	read_link(pid, "root", root, sizeof(root));
	/* In a chroot the link shows our path; the target's is wanted. */
	len = strlen(root);
	if (len > 1 && begins(ret, root) && (!ret[len] || ret[len] == '/'))
		memmove(ret, ret + len, strlen(ret) - len + 1);
	if (ret[0] != '/')
		snprintf(ret, cap, "/");
}

/* Command line with its words, and what was made of it. */
static int read_identity(struct rut_ruby_proc *p, const struct rut_proc_status *status)
{
	_cleanup_buf_ struct rut_buf cmd = RUT_BUF_INIT;
	struct rut_role_input in = {.pid = p->pid, .user = p->user};
	char path[64], cwd[4096];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", p->pid);
	rut_buf_read_file(&cmd, path, 1 << 20);
	rut_ruby_proc_cwd(p->pid, cwd, sizeof(cwd));
	in.cmdline = cmd.data ? cmd.data : "";
	in.cmdline_bytes = cmd.len;
	in.cwd = cwd;
	in.comm = status->name;
	r = rut_role_find(&in, p);
	return r;
}

/* JRuby is a Java program; puppetserver runs in one. */
static bool is_other_ruby(pid_t pid, const char *exe, enum rut_ruby_role *ret)
{
	_cleanup_buf_ struct rut_buf cmd = RUT_BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	rut_buf_read_file(&cmd, path, 1 << 20);
	return rut_role_other_ruby(exe, cmd.data ? cmd.data : "", cmd.len, ret);
}

static const char *find_allocator(const struct rut_target *t)
{
	for (const struct rut_mapping *m = NULL; (m = rut_target_next_module(t, m));) {
		if (begins(rut_mapping_basename(m), "libjemalloc"))
			return "jemalloc";
		if (begins(rut_mapping_basename(m), "libtcmalloc"))
			return "tcmalloc";
	}
	return NULL;
}

static void refuse_other(struct rut_ruby_proc *p)
{
	static const char *const names[] = {
		[RUT_ROLE_JRUBY] = "JRuby",
		[RUT_ROLE_MRUBY] = "mruby",
		[RUT_ROLE_TRUFFLERUBY] = "TruffleRuby",
	};

	if (asprintf(&p->why_not, "process %d runs %s: only CRuby (MRI) can be traced", p->pid,
		     names[p->role]) < 0)
		p->why_not = NULL;
}

static int read_ruby(struct rut_ruby_proc *p, pid_t pid, struct rut_target *t, struct rut_err *err)
{
	struct rut_err reason = RUT_ERR_INIT;
	struct rut_proc_status status;
	const struct rut_mapping *ruby = NULL;
	enum rut_ruby_role role = RUT_ROLE_SCRIPT;
	char exe[4096];
	bool other;
	int check, r = rut_proc_status_read(&status, pid, 0);

	if (r < 0 || pid <= 0)
		return rut_err_set(err, ESRCH, "no process with PID %d", pid);
	check = rut_target_check(t, pid, &reason);
	if (!t->map_count)
		rut_target_read_maps(t, pid); /* refused before it came to that */
	if (t->map_count && t->mem_fd < 0)
		rut_target_open_memory(t);
	read_link(pid, "exe", exe, sizeof(exe));
	p->pid = pid;
	p->ppid = status.ppid;
	p->uid = status.uid;
	rut_user_name(p->uid, p->user, sizeof(p->user));
	other = is_other_ruby(pid, exe, &role);
	if (t->map_count && !other)
		ruby = find_ruby(t, exe, p->version, sizeof(p->version));
	r = read_identity(p, &status);
	if (r < 0)
		return rut_err_errno(err, -r, "cannot inspect process %d", pid);
	if (!ruby && !other && (t->map_count || (!title_looks_like_ruby(p->name, status.name)))) {
		if (status.state == 'Z' || status.tgid != pid)
			return rut_err_set(err, ESRCH, "%s", reason.msg);
		return rut_err_set(err, ENOEXEC, "process %d (%s) is not Ruby", pid, status.name);
	}
	p->uptime_s = rut_ruby_uptime_s(pid);
	if (other) {
		p->role = role;
		p->version[0] = 0;
	}
	p->in_container = !same_namespace(pid, "mnt") || !same_namespace(pid, "pid");
	p->allocator = find_allocator(t);
	p->deleted = (ruby && ruby->deleted) || strstr(exe, " (deleted)");
	if (other)
		refuse_other(p);
	else
		set_why_not(p, t, check, &reason);
	return 0;
}

int rut_ruby_proc_read(struct rut_ruby_proc *ret, pid_t pid, struct rut_err *err)
{
	struct rut_target t = RUT_TARGET_INIT;
	struct rut_ruby_proc p = {0};
	int r = read_ruby(&p, pid, &t, err);

	rut_target_fini(&t);
	if (r < 0)
		rut_ruby_proc_fini(&p);
	else
		*ret = p;
	return r;
}

/* A Puma is a master when another Puma calls it its parent. */
static void find_masters(struct rut_ruby_procs *ps)
{
	for (size_t i = 0; i < ps->count; i++)
		for (size_t k = 0; k < ps->count; k++)
			if (ps->procs[i].role == RUT_ROLE_PUMA &&
			    ps->procs[k].role == RUT_ROLE_PUMA_WORKER &&
			    ps->procs[k].ppid == ps->procs[i].pid)
				ps->procs[i].role = RUT_ROLE_PUMA_MASTER;
}

static int by_pid(const void *a, const void *b)
{
	return ((const struct rut_ruby_proc *)a)->pid - ((const struct rut_ruby_proc *)b)->pid;
}

/*
 * What was no Ruby when the processes were listed last. A session looks for new ones every second:
 * to read the mappings of all others each time takes a percent of a CPU.
 */
struct other {
	pid_t pid;
	dev_t dev; /* of its program; 0: a thread of the kernel */
	ino_t ino;
	uint64_t until_ms; /* not inspected until then; 0: seen once, it may be loading libruby */
};

#define OTHER_MS 10000 /* after that it may have loaded libruby */

static struct {
	struct other *v; /* by PID */
	size_t count;
} others;

static int by_other_pid(const void *a, const void *b)
{
	return ((const struct other *)a)->pid - ((const struct other *)b)->pid;
}

/* Which program it executes; false: that cannot be seen. */
static bool identify(pid_t pid, struct other *ret)
{
	struct stat st = {0};
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &st) < 0 && errno != ENOENT)
		return false;
	*ret = (struct other){.pid = pid, .dev = st.st_dev, .ino = st.st_ino};
	return true;
}

/* What it was the last time; NULL: it was none of these. */
static const struct other *find_other(const struct other *o)
{
	const struct other *was =
		others.count ? bsearch(o, others.v, others.count, sizeof(*o), by_other_pid) : NULL;

	return was && was->dev == o->dev && was->ino == o->ino ? was : NULL;
}

/* Reads a process. 0, or less: it is none of Ruby, and `next` remembers that. */
static int read_one(struct rut_ruby_proc *ret, pid_t pid, struct rut_buf *next)
{
	uint64_t now_ms = rut_now_ms();
	const struct other *was;
	struct other o;
	int rc;

	if (!identify(pid, &o))
		return rut_ruby_proc_read(ret, pid, NULL);
	was = find_other(&o);
	if (was && was->until_ms > now_ms) {
		rut_buf_add(next, was, sizeof(*was));
		return -ENOEXEC;
	}
	rc = rut_ruby_proc_read(ret, pid, NULL);
	o.until_ms = was ? now_ms + OTHER_MS : 0;
	if (rc == -ENOEXEC)
		rut_buf_add(next, &o, sizeof(o));
	return rc;
}

/* Without memory all are inspected again. */
static void remember(struct rut_buf *next)
{
	free(others.v);
	others.count = next->failed ? 0 : next->len / sizeof(struct other);
	others.v = others.count ? (struct other *)(void *)rut_buf_take(next) : NULL;
	if (others.count)
		qsort(others.v, others.count, sizeof(*others.v), by_other_pid);
}

int rut_ruby_procs_list(struct rut_ruby_procs *ret, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf next = RUT_BUF_INIT;
	struct rut_ruby_procs ps = {0};
	struct dirent *e;
	DIR *dir = opendir("/proc");

	if (!dir)
		return rut_err_errno(err, errno, "cannot read /proc");
	while ((e = readdir(dir))) {
		struct rut_ruby_proc p, *more;
		pid_t pid = atoi(e->d_name);

		if (pid <= 0 || read_one(&p, pid, &next) < 0)
			continue;
		more = reallocarray(ps.procs, ps.count + 1, sizeof(*more));
		if (!more) {
			rut_ruby_proc_fini(&p);
			rut_ruby_procs_fini(&ps);
			closedir(dir);
			return rut_err_set(err, ENOMEM, "out of memory");
		}
		ps.procs = more;
		ps.procs[ps.count++] = p;
	}
	closedir(dir);
	remember(&next);
	if (ps.count)
		qsort(ps.procs, ps.count, sizeof(*ps.procs), by_pid);
	find_masters(&ps);
	*ret = ps;
	return 0;
}

void rut_ruby_procs_fini(struct rut_ruby_procs *ps)
{
	for (size_t i = 0; i < ps->count; i++)
		rut_ruby_proc_fini(&ps->procs[i]);
	free(ps->procs);
	*ps = (struct rut_ruby_procs){0};
}

/* --- targets of the command line ---------------------------------------------------------- */

static bool matches(const struct rut_ruby_proc *p, const char *target)
{
	const char *role = rut_ruby_role_name(p->role);
	size_t len = strlen(target);

	if (!strcmp(target, "rails") || !strcmp(target, "foreman"))
		return p->role == RUT_ROLE_FOREMAN_RAILS;
	if (!strcmp(target, "proxy"))
		return p->role == RUT_ROLE_FOREMAN_PROXY;
	/* "puma" is also what its master and its workers are. */
	if (!strncmp(role, target, len) && (!role[len] || role[len] == '-'))
		return true;
	return rut_role_name_matches(p->name, target);
}

static pid_t parent_of(pid_t pid)
{
	struct rut_proc_status s;

	return rut_proc_status_read(&s, pid, 0) < 0 ? 0 : s.ppid;
}

/* Whether an ancestor is marked too; processes between them need not be Ruby. */
static bool has_marked_ancestor(const struct rut_ruby_procs *ps, const bool *marked, size_t i)
{
	pid_t pid = ps->procs[i].ppid;

	for (int depth = 0; pid > 1 && depth < 64; depth++) {
		for (size_t k = 0; k < ps->count; k++)
			if (ps->procs[k].pid == pid && marked[k])
				return true;
		pid = parent_of(pid);
	}
	return false;
}

static int match_pid(const char *target, pid_t **ret_pids, size_t *ret_count, struct rut_err *err)
{
	struct rut_ruby_proc p;
	char *end;
	long pid = strtol(target, &end, 10);
	pid_t *pids;
	int r;

	if (pid <= 0 || pid > 1 << 22)
		return rut_err_set(err, ESRCH, "no process with PID %s", target);
	r = rut_ruby_proc_read(&p, (pid_t)pid, err);
	if (r < 0)
		return r;
	rut_ruby_proc_fini(&p);
	pids = malloc(sizeof(*pids));
	if (!pids)
		return rut_err_set(err, ENOMEM, "out of memory");
	pids[0] = (pid_t)pid;
	*ret_pids = pids;
	*ret_count = 1;
	return 0;
}

static int no_match(const struct rut_ruby_procs *ps, const char *target, struct rut_err *err)
{
	if (!ps->count)
		return rut_err_set(err, ESRCH, "no Ruby process is running, so none is called '%s'",
				   target);
	return rut_err_set(err, ESRCH,
			   "none of the %zu Ruby processes is called '%s': 'rutile ps' shows PIDs, "
			   "roles and names",
			   ps->count, target);
}

int rut_ruby_procs_match(const struct rut_ruby_procs *ps, const char *target, pid_t **ret_pids,
			 size_t *ret_count, struct rut_err *err)
{
	_cleanup_free_ bool *marked = NULL;
	pid_t *pids;
	size_t n = 0;

	if (target[0] && target[strspn(target, "0123456789")] == 0)
		return match_pid(target, ret_pids, ret_count, err);
	marked = calloc(ps->count + 1, sizeof(*marked));
	pids = calloc(ps->count + 1, sizeof(*pids));
	if (!marked || !pids) {
		free(pids);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < ps->count; i++)
		marked[i] = ps->procs[i].pid != getpid() && matches(&ps->procs[i], target);
	for (size_t i = 0; i < ps->count; i++)
		if (marked[i] && !has_marked_ancestor(ps, marked, i))
			pids[n++] = ps->procs[i].pid;
	if (!n) {
		free(pids);
		return no_match(ps, target, err);
	}
	*ret_pids = pids;
	*ret_count = n;
	return 0;
}
