/* SPDX-License-Identifier: MIT */
#include "cli/ruby_target.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/abi.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/proc.h"
#include "ruby/proc.h"
#include "ruby/globs.h"
#include "ruby/tracer.h"

/* Takes over `word`, which may be NULL for "out of memory". */
static int add_owned(struct rut_words *w, char *word)
{
	int rc = word ? rut_cli_words_add(w, word) : -ENOMEM;

	if (rc < 0)
		free(word);
	return rc;
}

static void free_words(struct rut_words *w)
{
	for (size_t i = 0; i < w->count; i++)
		free((char *)w->v[i]);
	rut_cli_words_fini(w);
}

void rut_cli_targets_fini(struct rut_targets *t)
{
	free(t->pids);
	free(t->title);
	free_words(&t->app_paths);
	free_words(&t->not_paths);
}

static const char *const foreman_places[] = {"/usr/share/foreman*", "*/gems/foreman*",
					     "*/gems/smart_proxy*", "*/gems/dynflow*"};

static bool has_word(const struct rut_words *w, const char *word)
{
	for (size_t i = 0; i < w->count; i++)
		if (!strcmp(w->v[i], word))
			return true;
	return false;
}

int rut_cli_targets_add_app(struct rut_targets *t, const char *root, bool foreman)
{
	_cleanup_buf_ struct rut_buf globs = RUT_BUF_INIT;
	int rc = 0;

	if (foreman) {
		if (has_word(&t->app_paths, foreman_places[0]))
			return 0;
		for (size_t i = 0; i < sizeof(foreman_places) / sizeof(*foreman_places) && !rc; i++)
			rc = add_owned(&t->app_paths, strdup(foreman_places[i]));
		return rc;
	}
	if (!root || !strcmp(root, "/"))
		return 0;
	rut_root_globs(&globs, root);
	if (globs.failed)
		return -ENOMEM;
	for (size_t at = 0; at < globs.len && !rc; at += strlen(globs.data + at) + 1) {
		struct rut_words *to =
			globs.data[at] == RUT_FILTER_APP ? &t->app_paths : &t->not_paths;

		if (!has_word(to, globs.data + at + 1))
			rc = add_owned(to, strdup(globs.data + at + 1));
	}
	return rc;
}

static int add_pid(struct rut_targets *t, pid_t pid)
{
	pid_t *more;

	for (size_t i = 0; i < t->count; i++)
		if (t->pids[i] == pid)
			return 0;
	more = reallocarray(t->pids, t->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	t->pids = more;
	t->pids[t->count++] = pid;
	return 0;
}

static int add_proc(struct rut_targets *t, const struct rut_ruby_proc *p)
{
	bool foreman = p->role == RUT_ROLE_FOREMAN_RAILS || p->role == RUT_ROLE_FOREMAN_PROXY;
	int rc = add_pid(t, p->pid);

	if (!rc)
		rc = rut_cli_targets_add_app(t, p->app_root, foreman);
	if (!rc && !t->title &&
	    asprintf(&t->title, "%s (PID %d)", p->name ? p->name : "ruby", p->pid) < 0) {
		t->title = NULL;
		rc = -ENOMEM;
	}
	return rc;
}

static bool refused(const struct rut_targets *t, const struct rut_ruby_proc *p)
{
	return p->why_not && !(p->newer && t->try_newer);
}

static int find_pid(struct rut_targets *t, pid_t pid, struct rut_err *err)
{
	struct rut_ruby_proc p = {0};
	int rc = rut_ruby_proc_read(&p, pid, err);

	if (rc < 0)
		return rc;
	rc = refused(t, &p) ? rut_err_set(err, EPERM, "%s", p.why_not) : add_proc(t, &p);
	rut_ruby_proc_fini(&p);
	return rc;
}

static const struct rut_ruby_proc *find_proc(const struct rut_ruby_procs *all, pid_t pid)
{
	for (size_t i = 0; i < all->count; i++)
		if (all->procs[i].pid == pid)
			return &all->procs[i];
	return NULL;
}

/* Of those that a name means, the ones that can be traced; at least one must be. */
static int find_name(struct rut_targets *t, const struct rut_ruby_procs *all, const char *word,
		     struct rut_err *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t count = 0, found = 0;
	int rc = rut_ruby_procs_match(all, word, &pids, &count, err);

	for (size_t i = 0; i < count && !rc; i++) {
		const struct rut_ruby_proc *p = find_proc(all, pids[i]);

		if (!p || refused(t, p))
			continue;
		rc = add_proc(t, p);
		found++;
	}
	for (size_t i = 0; i < count && !rc; i++) {
		const struct rut_ruby_proc *p = find_proc(all, pids[i]);

		if (!p || !refused(t, p))
			continue;
		if (!found)
			return rut_err_set(err, EPERM, "%s", p->why_not);
		if (t->tell)
			t->tell(t->tell_arg, p->why_not);
		else
			rut_warn("%s", p->why_not);
	}
	return rc;
}

static int find_words(struct rut_targets *t, const struct rut_words *words, struct rut_err *err)
{
	struct rut_ruby_procs all = {0};
	bool listed = false;
	int rc = 0;

	for (size_t i = 0; i < words->count && !rc; i++) {
		uint64_t pid;

		if (!rut_parse_u64(words->v[i], &pid)) {
			if (!pid || pid > INT_MAX)
				rc = rut_err_set(err, ESRCH, "no process %s", words->v[i]);
			else
				rc = find_pid(t, (pid_t)pid, err);
			continue;
		}
		if (!listed)
			rc = rut_ruby_procs_list(&all, err);
		listed = true;
		if (!rc)
			rc = find_name(t, &all, words->v[i], err);
	}
	rut_ruby_procs_fini(&all);
	return rc;
}

/* A worker given along with its master is traced through it. */
static void drop_descendants(struct rut_targets *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->count; i++) {
		bool below = false;
		int depth = 0;

		for (pid_t p = rut_proc_parent(t->pids[i]); p > 1 && !below && depth < 64;
		     depth++) {
			for (size_t k = 0; k < t->count && !below; k++)
				below = k != i && t->pids[k] == p;
			p = rut_proc_parent(p);
		}
		/* Those before `kept` are compared in their old place as well: only moved down. */
		if (!below)
			t->pids[kept++] = t->pids[i];
	}
	t->count = kept;
}

/* The directory of a script that the command names, besides the working directory. */
static int find_command(struct rut_targets *t, char *const argv[])
{
	_cleanup_free_ char *cwd = realpath(".", NULL);
	int rc = cwd ? rut_cli_targets_add_app(t, cwd, false) : 0;

	for (int i = 1; argv[i] && !rc; i++) {
		_cleanup_free_ char *file = NULL;
		size_t len = strlen(argv[i]);
		char *slash;

		if (len < 3 || strcmp(argv[i] + len - 3, ".rb") != 0)
			continue;
		file = realpath(argv[i], NULL);
		slash = file ? strrchr(file, '/') : NULL;
		if (!slash)
			continue;
		*slash = '\0';
		if (!cwd || strcmp(file, cwd) != 0)
			rc = rut_cli_targets_add_app(t, file, false);
		break;
	}
	if (!rc && !(t->title = strdup(argv[0])))
		rc = -ENOMEM;
	return rc;
}

int rut_cli_targets_find(struct rut_targets *ret, const struct rut_ruby_opts *o,
			 struct rut_err *err)
{
	int rc;

	*ret = (struct rut_targets){
		.try_newer = o->try_newer, .tell = o->tell, .tell_arg = o->tell_arg};
	rc = o->command ? find_command(ret, o->command) : find_words(ret, &o->targets, err);
	if (rc == -ENOMEM)
		return rut_err_set(err, ENOMEM, "out of memory");
	drop_descendants(ret);
	return rc;
}

/* Without a root, the application is what is no gem and no part of Ruby. */
static const char *const not_ruby[] = {"*/gems/*", "*/lib/ruby/*", "/usr/share/rubygems*",
				       "<internal:*", NULL};
static const char *const any_path[] = {"*", NULL};

void rut_cli_targets_filter(const struct rut_targets *t, const struct rut_ruby_opts *o, bool all,
			    struct rut_ruby_filter *ret)
{
	*ret = (struct rut_ruby_filter){
		.paths = o->paths.v,
		.classes = o->classes.v,
		.methods = o->methods.v,
		.c_calls = o->c_calls,
		.try_newer = t->try_newer,
	};
	/* Naming paths implies "all". */
	for (size_t i = 0; i < o->paths.count && !o->app; i++)
		all = all || o->paths.v[i][0] != '!';
	if (all)
		return;
	ret->ask = true;
	ret->app_paths = t->app_paths.count ? t->app_paths.v : any_path;
	ret->not_paths = t->app_paths.count ? t->not_paths.v : not_ruby;
}

int rut_cli_targets_attach(const struct rut_targets *t, struct rut_tracer *tracer,
			   const struct rut_cmd *cmd, struct rut_err *err)
{
	struct rut_err first = RUT_ERR_INIT;
	size_t attached = 0;

	for (size_t i = 0; i < t->count; i++) {
		struct rut_err why = RUT_ERR_INIT;

		if (!rut_tracer_attach(tracer, t->pids[i], true, &why)) {
			attached++;
			continue;
		}
		if (t->count > 1 && cmd)
			rut_cli_notice(cmd, "%s", why.msg);
		if (!first.code)
			first = why;
	}
	if (attached)
		return 0;
	if (t->count > 1)
		return rut_err_set(err, first.code, "none of %zu processes can be traced: %s",
				   t->count, first.msg);
	*err = first;
	return -first.code;
}
