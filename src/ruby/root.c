/* SPDX-License-Identifier: MIT */
/*
 * What "the application" is in a process that has said what it knows (agent/facts.c).
 *
 * A path of a file that Ruby has loaded can be spelled in several ways: with the links that a
 * deployment goes by ("current"), relative to a directory that the program has left, with two
 * slashes. The agent compares real paths as well, so here every root is given as it was said and
 * without links.
 *
 * A tool that is a gem itself (jekyll, puppet, rake) is an application, too: its own gem counts,
 * wherever it is. Servers and consoles are none: they run one.
 */
#include "ruby/root.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "ruby/globs.h"
#include "ruby/table.h"
#include "ruby/proc.h"
#include "ruby/role.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where a gem's files are: installed by RubyGems, or by a distribution. */
static void add_tool(struct rut_buf *b, const char *name)
{
	static const char *const places[][2] = {
		{"*/gems/", "-[0-9]*/*"}, {"*/vendor_ruby/", ".rb"}, {"*/vendor_ruby/", "/*"}};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		rut_buf_putc(b, RUT_FILTER_OWN);
		rut_buf_puts(b, places[i][0]);
		rut_buf_puts(b, name);
		rut_buf_add(b, places[i][1], strlen(places[i][1]) + 1);
	}
}

/* The path without links, in the view of the process; as it is, and false, if that is not known. */
static bool real_path(pid_t pid, const char *path, char *ret, size_t cap)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	_cleanup_close_ int root_fd = -1, fd = -1;
	char link[64], root[PATH_MAX], real[PATH_MAX];
	ssize_t n, root_len;

	snprintf(ret, cap, "%s", path);
	snprintf(link, sizeof(link), "/proc/%d/root", (int)pid);
	root_fd = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return false;
	root_len = readlink(link, root, sizeof(root) - 1);
	fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	if (fd < 0)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, real, sizeof(real) - 1);
	if (n <= 0 || root_len <= 0)
		return false;
	real[n] = 0;
	/* In a chroot the link shows our path. */
	if (root_len > 1 && n > root_len && !memcmp(real, root, (size_t)root_len))
		memmove(real, real + root_len, (size_t)(n - root_len) + 1);
	snprintf(ret, cap, "%s", real);
	return true;
}

struct roots {
	pid_t pid;
	struct rut_buf globs, text;
	unsigned count;
};

/* "/srv/shop" of "/srv/shop/", "//srv/shop" and "/srv/shop/." */
static void clean(char *path)
{
	char *to = path;

	for (const char *from = path; *from; from++)
		if (*from != '/' || to == path || to[-1] != '/')
			*to++ = *from;
	*to = 0;
	while (to - path > 2 && !strcmp(to - 2, "/."))
		*(to -= 2) = 0;
	if (to - path > 1 && to[-1] == '/')
		to[-1] = 0;
}

static void add_root(struct roots *r, const char *said, const char *how)
{
	char path[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%s", said);
	clean(path);
	real_path(r->pid, path, real, sizeof(real));
	if (path[0] != '/' || !strcmp(real, "/"))
		return;
	if (r->text.data && strstr(r->text.data, real)) {
		const char *at = strstr(r->text.data, real) + strlen(real);

		if (*at == ' ')
			return; /* known already */
	}
	rut_root_globs(&r->globs, real);
	if (strcmp(path, real) != 0)
		rut_root_globs(&r->globs, path);
	rut_buf_printf(&r->text, "%s%s (%s)", r->count++ ? ", " : "", real, how);
}

/* "/srv/app" of "/srv/app/Gemfile" */
static void add_bundler(struct roots *r, const char *said)
{
	char dir[PATH_MAX];
	size_t len;

	snprintf(dir, sizeof(dir), "%s", said);
	len = strlen(dir);
	if (len > 8 && (!strcmp(dir + len - 8, "/Gemfile") || !strcmp(dir + len - 8, "/gems.rb")))
		dir[len - 8] = 0;
	else if (strstr(dir, "emfile") && strrchr(dir, '/'))
		*strrchr(dir, '/') = 0;
	add_root(r, dir, "Bundler's root");
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The main script, absolute; false: not known, or none (-e). */
static bool main_script(const struct rut_facts *f, const struct rut_role_input *in, char *ret,
			size_t cap)
{
	char joined[PATH_MAX];

	if (f->main && f->main[0] == '/') {
		snprintf(ret, cap, "%s", f->main);
		return true;
	}
	/* Ruby has not come to it yet: then the directory is still that in which it was started. */
	if (f->main || !f->program || !f->program[0] || !strcmp(f->program, "-e") ||
	    !strcmp(f->program, "-"))
		return false;
	if (f->program[0] == '/')
		snprintf(joined, sizeof(joined), "%s", f->program);
	else if (snprintf(joined, sizeof(joined), "%s/%s", in->cwd, f->program) >=
		 (int)sizeof(joined))
		return false;
	return real_path(in->pid, joined, ret, cap);
}

/* The program is a gem's: its name, as it was started, is that of the gem. */
static void add_own_gem(struct roots *r, const struct rut_ruby_proc *p, const char *script)
{
	char word[NAME_MAX + 1];
	const char *name = script && script[0] ? base_name(script) : "";

	if (p->role != RUT_ROLE_SCRIPT && p->role != RUT_ROLE_RAKE)
		return;
	if (!name[0] || !strcmp(name, "bundle") || !strcmp(name, "bundler")) {
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(p->name, " "), p->name);
		name = base_name(word);
	}
	if (!name[0] || name[0] == '-' || strchr(name, '.') || strpbrk(name, "*?[\\"))
		return;
	add_tool(&r->globs, name);
}

int rut_root_find(const struct rut_facts *f, const struct rut_ruby_proc *p,
		  const struct rut_role_input *in, struct rut_buf *globs, struct rut_buf *text)
{
	struct roots r = {.pid = in->pid, .globs = RUT_BUF_INIT, .text = RUT_BUF_INIT};
	char script[PATH_MAX] = "", dir[PATH_MAX];
	bool has_script = main_script(f, in, script, sizeof(script));

	if (f->rails && f->rails[0])
		add_root(&r, f->rails, "Rails.root");
	if (rut_role_root_of_passenger(p->name, dir, sizeof(dir)))
		add_root(&r, dir, "Passenger's title");
	if (!r.count && has_script && rut_role_root_of_script(in, script, dir, sizeof(dir)))
		add_root(&r, dir, "main script");
	/* A command that was just started: in its directory. */
	if (has_script && !f->main)
		add_root(&r, in->cwd, "current directory");
	if (!r.count && rut_role_is_app_root(in, in->cwd))
		add_root(&r, in->cwd, "current directory");
	if (f->bundler && f->bundler[0])
		add_bundler(&r, f->bundler);
	if (!r.count)
		add_root(&r, in->cwd, "current directory");
	if (r.count)
		add_own_gem(&r, p, script);
	if (r.globs.data)
		rut_buf_add(globs, r.globs.data, r.globs.len);
	if (r.text.data)
		rut_buf_puts(text, r.text.data);
	if (r.globs.failed || r.text.failed || globs->failed || text->failed)
		r.count = 0;
	rut_buf_fini(&r.globs);
	rut_buf_fini(&r.text);
	return r.count ? 0 : -ENOENT;
}

void rut_root_apply(struct rut_tracer *t, struct rut_tracee *p)
{
	_cleanup_buf_ struct rut_buf globs = RUT_BUF_INIT, text = RUT_BUF_INIT;
	const struct rut_agent_facts *said = &p->table->facts;
	struct rut_agent_slot *slot = &p->ctl->slots[p->slot];
	struct rut_ruby_proc proc = {0};
	struct rut_facts f = {
		.main = rut_ruby_table_string(t, p, said->main),
		.program = rut_ruby_table_string(t, p, said->program),
		.rails = rut_ruby_table_string(t, p, said->rails),
		.bundler = rut_ruby_table_string(t, p, said->bundler),
	};
	char cwd[PATH_MAX];
	struct rut_role_input in = {.pid = p->pid, .user = "", .comm = "", .cwd = cwd};

	if (rut_ruby_proc_read(&proc, p->pid, NULL) < 0)
		return;
	rut_ruby_proc_cwd(p->pid, cwd, sizeof(cwd));
	if (proc.role != RUT_ROLE_FOREMAN_RAILS && proc.role != RUT_ROLE_FOREMAN_PROXY &&
	    rut_root_find(&f, &proc, &in, &globs, &text) == 0 && globs.data &&
	    t->filter_fixed + globs.len + 1 < RUT_AGENT_CONFIG - 2) {
		memcpy(slot->config + t->filter_fixed, globs.data, globs.len);
		slot->config[t->filter_fixed + globs.len] = 0;
		free(t->root);
		t->root = rut_buf_take(&text);
	}
	rut_ruby_proc_fini(&proc);
}
