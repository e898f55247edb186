/* SPDX-License-Identifier: MIT */
#include "ruby/role.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_WORDS     64
#define FOREMAN_ROOT  "/usr/share/foreman"
#define PROXY_ROOT    "/usr/share/foreman-proxy"
#define PROXY_PROGRAM PROXY_ROOT "/bin/smart-proxy"

const char *rut_ruby_role_name(enum rut_ruby_role role)
{
	static const char *const names[] = {
		[RUT_ROLE_SCRIPT] = "script",
		[RUT_ROLE_FOREMAN_RAILS] = "foreman-rails",
		[RUT_ROLE_FOREMAN_PROXY] = "foreman-proxy",
		[RUT_ROLE_PUMA] = "puma",
		[RUT_ROLE_PUMA_MASTER] = "puma-master",
		[RUT_ROLE_PUMA_WORKER] = "puma-worker",
		[RUT_ROLE_UNICORN_MASTER] = "unicorn-master",
		[RUT_ROLE_UNICORN_WORKER] = "unicorn-worker",
		[RUT_ROLE_PASSENGER] = "passenger",
		[RUT_ROLE_SIDEKIQ] = "sidekiq",
		[RUT_ROLE_RAKE] = "rake",
		[RUT_ROLE_THIN] = "thin",
		[RUT_ROLE_RACKUP] = "rackup",
		[RUT_ROLE_FALCON] = "falcon",
		[RUT_ROLE_HANAMI] = "hanami",
		[RUT_ROLE_RESQUE] = "resque",
		[RUT_ROLE_GOOD_JOB] = "good_job",
		[RUT_ROLE_DELAYED_JOB] = "delayed_job",
		[RUT_ROLE_IRB] = "irb",
		[RUT_ROLE_PRY] = "pry",
		[RUT_ROLE_RAILS_CONSOLE] = "rails-console",
		[RUT_ROLE_RAILS_RUNNER] = "rails-runner",
		[RUT_ROLE_JRUBY] = "jruby",
		[RUT_ROLE_MRUBY] = "mruby",
		[RUT_ROLE_TRUFFLERUBY] = "truffleruby",
	};

	return names[role];
}

struct words {
	const char *word[MAX_WORDS]; /* borrowed from the command line */
	size_t count;
};

static bool begins(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void split_words(const struct rut_role_input *in, struct words *ret)
{
	size_t at = 0;

	ret->count = 0;
	while (at < in->cmdline_bytes && ret->count < MAX_WORDS) {
		const char *w = in->cmdline + at;

		at += strnlen(w, in->cmdline_bytes - at) + 1;
		if (w[0])
			ret->word[ret->count++] = w;
	}
}

/* Ruby was started as a program with words; else it has set a title, which is one long word. */
static bool is_command_line(const struct words *w)
{
	return w->count > 0 && begins(base_name(w->word[0]), "ruby") &&
	       !strchr(base_name(w->word[0]), ' ');
}

/* The script among Ruby's own options; "-e" for a one-liner, NULL for none. */
static const char *find_script(const struct words *w, size_t *ret_index)
{
	static const char with_value[] = "CEIXrKT"; /* when the value is a word of its own */

	for (size_t i = 1; i < w->count; i++) {
		const char *s = w->word[i];

		*ret_index = i;
		if (s[0] != '-' || !s[1])
			return s;
		if (!strcmp(s, "--")) {
			*ret_index = i + 1;
			return i + 1 < w->count ? w->word[i + 1] : NULL;
		}
		if (s[1] != '-' && strchr(s, 'e') &&
		    strspn(s + 1, "aelnpsvwW0123456789") == strlen(s + 1))
			return "-e";
		if (s[1] != '-' && strchr(with_value, s[1]) && !s[2])
			i++;
	}
	return NULL;
}

static bool exists(const struct rut_role_input *in, const char *dir, const char *name)
{
	char path[8192];
	struct stat st;

	if (in->pid)
		snprintf(path, sizeof(path), "/proc/%d/root%s/%s", in->pid, dir, name);
	else
		snprintf(path, sizeof(path), "%s/%s", dir, name);
	return stat(path, &st) == 0;
}

bool rut_role_is_app_root(const struct rut_role_input *in, const char *dir)
{
	static const char *const shared[] = {
		"/",	 "/usr", "/usr/local", "/usr/share", "/opt",	 "/srv", "/var",
		"/home", "/tmp", "/run",       "/var/tmp",   "/dev/shm", "/root"};
	static const char *const markers[] = {"config.ru", "bin/rails", "config/application.rb",
					      "Gemfile",   "gems.rb",	"config/environment.rb",
					      "Rakefile"};

	if (!dir[0])
		return false;
	/* /usr/bin/rails makes no application of /usr. */
	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++)
		if (!strcmp(dir, shared[i]))
			return false;
	for (size_t i = 0; i < sizeof(markers) / sizeof(*markers); i++)
		if (exists(in, dir, markers[i]))
			return true;
	return false;
}

/* Directories in which programs, not applications, live. */
static bool is_system_dir(const char *dir)
{
	return !dir[0] || !strcmp(dir, "/") || strstr(dir, "/gems/") ||
	       (!strncmp(base_name(dir), "bin", 3) &&
		(begins(dir, "/usr/") || begins(dir, "/bin") || begins(dir, "/opt/") ||
		 strstr(dir, "/.rbenv/") || strstr(dir, "/.rvm/") || strstr(dir, "/shims")) &&
		!begins(dir, "/usr/share/")) ||
	       begins(dir, "/usr/lib/ruby") || begins(dir, "/usr/sbin");
}

bool rut_role_root_of_script(const struct rut_role_input *in, const char *script, char *ret,
			     size_t cap)
{
	char dir[4096], top[4096];
	char *slash;

	if (script[0] == '/')
		snprintf(dir, sizeof(dir), "%s", script);
	else if (snprintf(dir, sizeof(dir), "%s/%s", in->cwd, script) >= (int)sizeof(dir))
		return false;
	slash = strrchr(dir, '/');
	*slash = 0;
	if (is_system_dir(dir))
		return false;
	snprintf(top, sizeof(top), "%s", dir);
	while (dir[0] == '/') {
		if (rut_role_is_app_root(in, dir)) {
			snprintf(ret, cap, "%s", dir);
			return true;
		}
		slash = strrchr(dir, '/');
		*slash = 0;
	}
	/* PROGRAM/bin/name */
	slash = strrchr(top, '/');
	if (slash > top && (!strcmp(slash, "/bin") || !strcmp(slash, "/exe")))
		*slash = 0;
	snprintf(ret, cap, "%s", top);
	return true;
}

bool rut_role_root_of_passenger(const char *title, char *ret, size_t cap)
{
	const char *colon = begins(title, "Passenger ") ? strstr(title, ": /") : NULL;
	char *paren;

	if (!colon)
		return false;
	snprintf(ret, cap, "%s", colon + 2);
	paren = strstr(ret, " (");
	if (paren)
		*paren = 0;
	return true;
}

static void find_root(const struct rut_role_input *in, const char *title, const char *script,
		      char *ret, size_t cap)
{
	ret[0] = 0;
	if (rut_role_root_of_passenger(title, ret, cap))
		return;
	/* A server's programs are a gem's: the directory is what counts. */
	if (!rut_role_is_app_root(in, in->cwd) && script && strcmp(script, "-e") != 0 &&
	    strcmp(script, "-") != 0 && rut_role_root_of_script(in, script, ret, cap))
		return;
	if (strcmp(in->cwd, "/") != 0)
		snprintf(ret, cap, "%s", in->cwd);
}

/* Programs that are known by their name, or by a title that begins with it. */
static const struct {
	const char *name;
	enum rut_ruby_role role;
} programs[] = {
	{"rake", RUT_ROLE_RAKE},
	{"thin", RUT_ROLE_THIN},
	{"rackup", RUT_ROLE_RACKUP},
	{"falcon", RUT_ROLE_FALCON},
	{"hanami", RUT_ROLE_HANAMI},
	{"resque", RUT_ROLE_RESQUE},
	{"resque-pool", RUT_ROLE_RESQUE},
	{"good_job", RUT_ROLE_GOOD_JOB},
	{"delayed_job", RUT_ROLE_DELAYED_JOB},
	{"irb", RUT_ROLE_IRB},
	{"pry", RUT_ROLE_PRY},
};

/* "resque", "resque-2.4.0: Waiting for *", "delayed_job.3", but not "thinner" */
static bool names(const char *title, const char *name)
{
	size_t len = strlen(name);
	const char *rest = title + len;

	if (strncmp(title, name, len) != 0)
		return false;
	return !*rest || *rest == ' ' || *rest == ':' || *rest == '.' ||
	       (*rest == '-' && rest[1] >= '0' && rest[1] <= '9');
}

/* Of "/srv/app/bin/rails console": "rails console" */
static const char *base_name_of_word(const char *title)
{
	const char *base = title;

	for (const char *p = title; *p && *p != ' '; p++)
		if (*p == '/')
			base = p + 1;
	return base;
}

static enum rut_ruby_role role_of_rails(const char *title)
{
	const char *verb = strchr(title, ' ');

	if (!verb)
		return RUT_ROLE_SCRIPT;
	verb++;
	return names(verb, "console") || names(verb, "c")  ? RUT_ROLE_RAILS_CONSOLE
	       : names(verb, "runner") || names(verb, "r") ? RUT_ROLE_RAILS_RUNNER
							   : RUT_ROLE_SCRIPT;
}

/* By the title that servers give themselves, or by the program that was started. */
static enum rut_ruby_role role_by_title(const char *title, const char *program)
{
	if (begins(title, "puma: cluster worker"))
		return RUT_ROLE_PUMA_WORKER;
	if (begins(title, "puma ") || begins(title, "puma: ") || !strcmp(program, "puma"))
		return RUT_ROLE_PUMA;
	if (begins(title, "unicorn") || begins(title, "rainbows") || begins(program, "unicorn"))
		return strstr(title, " worker[") ? RUT_ROLE_UNICORN_WORKER
						 : RUT_ROLE_UNICORN_MASTER;
	if (begins(title, "Passenger "))
		return RUT_ROLE_PASSENGER;
	if (begins(title, "sidekiq ") || !strcmp(program, "sidekiq"))
		return RUT_ROLE_SIDEKIQ;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		if (names(title, programs[i].name) || !strcmp(program, programs[i].name))
			return programs[i].role;
	if (!strcmp(program, "rails") || names(base_name_of_word(title), "rails"))
		return role_of_rails(title);
	return RUT_ROLE_SCRIPT;
}

static bool is_below(const char *path, const char *root)
{
	size_t len = strlen(root);

	return !strncmp(path, root, len) && (!path[len] || path[len] == '/');
}

static enum rut_ruby_role find_role(const char *title, const char *script, const char *root)
{
	enum rut_ruby_role role = role_by_title(title, script ? base_name(script) : "");
	bool server = role != RUT_ROLE_SIDEKIQ && role != RUT_ROLE_RAKE && role < RUT_ROLE_RESQUE;

	if ((script && !strcmp(script, PROXY_PROGRAM)) || strstr(title, PROXY_PROGRAM) ||
	    (server && is_below(root, PROXY_ROOT)))
		return RUT_ROLE_FOREMAN_PROXY;
	if (server && role != RUT_ROLE_SCRIPT && is_below(root, FOREMAN_ROOT))
		return RUT_ROLE_FOREMAN_RAILS;
	return role;
}

/* Words joined by spaces; blanks at the end of a title are what was left of the command line. */
static char *join_words(const struct words *w, size_t from)
{
	size_t len = 1;
	char *text, *p;

	for (size_t i = from; i < w->count; i++)
		len += strlen(w->word[i]) + 1;
	p = text = malloc(len);
	if (!text)
		return NULL;
	for (size_t i = from; i < w->count; i++)
		p += sprintf(p, "%s%s", i > from ? " " : "", w->word[i]);
	while (p > text && p[-1] == ' ')
		p--;
	*p = 0;
	/* One line of a table. */
	for (p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = ' ';
	return text;
}

int rut_role_find(const struct rut_role_input *in, struct rut_ruby_proc *ret)
{
	struct words w;
	const char *script = NULL;
	char root[4096] = "";
	char *title;
	size_t at = 0;

	split_words(in, &w);
	if (is_command_line(&w))
		script = find_script(&w, &at);
	if (script && !strcmp(script, "-e"))
		title = strdup("-e");
	else
		title = join_words(&w, script ? at : 0);
	if (title && !title[0]) {
		free(title);
		title = strdup(in->comm);
	}
	if (!title)
		return -ENOMEM;
	find_root(in, title, script, root, sizeof(root));
	ret->role = find_role(title, script, root);
	ret->name = title;
	ret->app_root = root[0] ? strdup(root) : NULL;
	return 0;
}

static bool same_script(const char *word, size_t len, const char *target)
{
	size_t want = strlen(target);

	return (len == want || (len == want + 3 && !strncmp(word + want, ".rb", 3))) &&
	       !strncmp(word, target, want);
}

bool rut_role_name_matches(const char *name, const char *target)
{
	size_t first = strcspn(name, " "), tag = strlen(target);
	const char *open = strrchr(name, '['), *base = name;

	if (!target[0])
		return false;
	if (!strcmp(name, target) || same_script(name, first, target))
		return true;
	for (size_t i = 0; i < first; i++)
		if (name[i] == '/')
			base = name + i + 1;
	if (same_script(base, first - (size_t)(base - name), target))
		return true;
	return open && !strncmp(open + 1, target, tag) && !strcmp(open + 1 + tag, "]");
}

bool rut_role_other_ruby(const char *exe, const char *cmdline, size_t cmdline_bytes,
			 enum rut_ruby_role *ret)
{
	static const char *const jruby[] = {"jruby", "puppetserver", "puppet-server"};
	const char *program = base_name(exe);

	if (begins(program, "mruby")) {
		*ret = RUT_ROLE_MRUBY;
		return true;
	}
	if (strstr(exe, "truffleruby")) {
		*ret = RUT_ROLE_TRUFFLERUBY;
		return true;
	}
	if (strcmp(program, "java") != 0)
		return false;
	for (size_t i = 0; i < sizeof(jruby) / sizeof(*jruby); i++)
		if (memmem(cmdline, cmdline_bytes, jruby[i], strlen(jruby[i]))) {
			*ret = RUT_ROLE_JRUBY;
			return true;
		}
	return false;
}
