/* SPDX-License-Identifier: MIT */
#include "trigger/spec.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "trigger/text.h"
#include "trigger/when.h"

void rut_trigger_init(struct rut_trigger *t)
{
	*t = (struct rut_trigger){
		.when_text = "fired", .burst = 1, .interval_ns = 10000000000ull, .dir = "."};
}

bool rut_trigger_name_ok(const char *name)
{
	size_t len = strlen(name);

	for (const char *p = name; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("-_.", *p))
			return false;
	return len > 0 && len <= RUT_TRIGGER_NAME_MAX && name[0] != '.';
}

/* ---- Do ---- */

/* Words as a shell splits them: blanks separate, quotes and '\' keep together; nothing expands. */
static int split(struct rut_trigger_action *a, const char *s, struct rut_err *err)
{
	char *to = a->text;
	char quote = 0;

	while (*(s += strspn(s, " \t"))) {
		if (a->nwords == RUT_TRIGGER_WORDS)
			return rut_err_set(err, EINVAL, "more than %d words", RUT_TRIGGER_WORDS);
		a->words[a->nwords++] = to;
		for (; *s && (quote || !strchr(" \t", *s)); s++) {
			if (!quote && (*s == '\'' || *s == '"'))
				quote = *s;
			else if (quote && *s == quote)
				quote = 0;
			else if (*s == '\\' && quote != '\'' && s[1])
				*to++ = *++s;
			else
				*to++ = *s;
		}
		*to++ = 0;
	}
	return quote ? rut_err_set(err, EINVAL, "a quotation mark is not closed") : 0;
}

/* "add SESSION EVENTS for TIME" or "add SESSION --ruby TARGET[:EVENTS] for TIME" */
static int check_detail(struct rut_trigger_action *a, struct rut_err *err)
{
	bool ruby = a->nwords == 6 && !strcmp(a->words[2], "--ruby");
	size_t n = ruby ? 6 : 5;

	if (a->nwords != n || strcmp(a->words[n - 2], "for") != 0 ||
	    rut_trigger_duration(a->words[n - 1], strlen(a->words[n - 1]), &a->ns))
		return rut_err_set(err, EINVAL,
				   "write 'add SESSION EVENTS for TIME' or "
				   "'add SESSION --ruby TARGET[:EVENTS] for TIME'");
	if (!ruby) {
		a->words[3] = a->words[2];
		a->words[2] = "-e";
	}
	a->nwords = 4;
	return 0;
}

static int check_publish(struct rut_trigger_action *a, struct rut_err *err)
{
	static const char *const schemes[] = {"nats://", "natss://", "http://", "https://"};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		if (!strncmp(a->words[1], schemes[i], strlen(schemes[i])))
			return 0;
	return rut_err_set(err, EINVAL,
			   "cannot publish to '%s': write nats://HOST/SUBJECT or "
			   "http://HOST[:PORT]/PATH",
			   a->words[1]);
}

/* "fleet HOSTS snapshot SESSION [OPTIONS]" */
static int check_fleet(struct rut_trigger_action *a, struct rut_err *err)
{
	if (a->nwords < 4 || strcmp(a->words[2], "snapshot") != 0)
		return rut_err_set(err, EINVAL,
				   "write 'fleet HOSTS snapshot SESSION -o DIR' or '... --to URL'");
	return 0;
}

/* What the action is; its own word stays the first. */
static int parse_action(struct rut_trigger_action *a, const char *text, struct rut_err *err)
{
	static const struct {
		const char *word;
		enum rut_trigger_verb verb;
		size_t words; /* with the verb; 0: two or more, 1: one or two */
		const char *usage;
	} known[] = {
		{"snapshot", RUT_TRIGGER_SNAPSHOT, 2, "snapshot SESSION"},
		{"rotate", RUT_TRIGGER_RUTILE, 2, "rotate SESSION"},
		{"stop", RUT_TRIGGER_RUTILE, 2, "stop SESSION"},
		{"start", RUT_TRIGGER_RUTILE, 0, "start SESSION [OPTIONS]"},
		{"add", RUT_TRIGGER_DETAIL, 0, "add SESSION EVENTS for TIME"},
		{"exec", RUT_TRIGGER_EXEC, 0, "exec PROGRAM [ARGUMENT]..."},
		{"stacks", RUT_TRIGGER_STACKS, 1, "stacks [TARGET]"},
		{"publish", RUT_TRIGGER_PUBLISH, 2, "publish URL"},
		{"fleet", RUT_TRIGGER_FLEET, 0, "fleet HOSTS snapshot SESSION [OPTIONS]"},
	};
	int rc;

	*a = (struct rut_trigger_action){0};
	if (strlen(text) > RUT_TRIGGER_TEXT_MAX)
		return rut_err_set(err, EINVAL, "an action is longer than %d bytes",
				   RUT_TRIGGER_TEXT_MAX);
	rc = split(a, text, err);
	if (rc)
		return rc;
	for (size_t i = 0; a->nwords && i < sizeof(known) / sizeof(*known); i++) {
		if (strcmp(a->words[0], known[i].word) != 0)
			continue;
		a->verb = known[i].verb;
		if (known[i].words > 1	  ? a->nwords != known[i].words
		    : known[i].words == 1 ? a->nwords > 2
					  : a->nwords < 2)
			return rut_err_set(err, EINVAL, "'%s': write '%s'", text, known[i].usage);
		return a->verb == RUT_TRIGGER_DETAIL	? check_detail(a, err)
		       : a->verb == RUT_TRIGGER_PUBLISH ? check_publish(a, err)
		       : a->verb == RUT_TRIGGER_FLEET	? check_fleet(a, err)
							: 0;
	}
	return rut_err_set(err, EINVAL,
			   "'%s' is none of: snapshot, rotate, stop, start, add, exec, stacks, "
			   "publish, fleet",
			   text);
}

/* ---- The rest ---- */

/* "3/1m": N within TIME; "3": within ten seconds. */
static int parse_burst(struct rut_trigger *t, const char *value, struct rut_err *err)
{
	const char *end;
	uint64_t n;

	if (rut_parse_u64_prefix(value, &n, &end) || !n || n > 1000000 ||
	    (*end &&
	     (*end != '/' || rut_trigger_duration(end + 1, strlen(end + 1), &t->interval_ns))))
		return rut_err_set(err, EINVAL, "invalid burst '%s': write 3/1m", value);
	t->burst = n;
	return 0;
}

/* A daemon has no current directory. */
static int set_dir(struct rut_trigger *t, const char *value, struct rut_err *err)
{
	char here[PATH_MAX];

	if (value[0] == '/')
		return rut_trigger_copy(t->dir, sizeof(t->dir), value, strlen(value), err);
	if (!getcwd(here, sizeof(here)))
		return rut_err_errno(err, errno, "the current directory has no path");
	if ((size_t)snprintf(t->dir, sizeof(t->dir), "%s/%s", here, value) >= sizeof(t->dir))
		return rut_err_set(err, EINVAL, "'%s' is too long", value);
	return 0;
}

static int add_action(struct rut_trigger *t, const char *value, struct rut_err *err)
{
	int rc;

	if (t->nactions == RUT_TRIGGER_ACTIONS)
		return rut_err_set(err, EINVAL, "more than %d actions", RUT_TRIGGER_ACTIONS);
	rc = parse_action(&t->actions[t->nactions], value, err);
	if (!rc)
		rc = rut_trigger_copy(t->do_text[t->nactions], sizeof(t->do_text[0]), value,
				      strlen(value), err);
	t->nactions += !rc;
	return rc;
}

int rut_trigger_set(struct rut_trigger *t, const char *key, const char *value, struct rut_err *err)
{
	int rc;

	if (strchr(value, '\n'))
		return rut_err_set(err, EINVAL, "%s: more than one line", key);
	if (!strcmp(key, "when")) {
		rc = rut_trigger_copy(t->when_text, sizeof(t->when_text), value, strlen(value),
				      err);
		return rc ? rc : rut_trigger_parse_when(&t->when, t->when_text, err);
	}
	if (!strcmp(key, "do"))
		return add_action(t, value, err);
	if (!strcmp(key, "burst"))
		return parse_burst(t, value, err);
	if (!strcmp(key, "output"))
		return set_dir(t, value, err);
	if (!strcmp(key, "disk"))
		return rut_parse_size(value, &t->disk_bytes)
			       ? rut_err_set(err, EINVAL, "invalid size '%s': write 500M or 10G",
					     value)
			       : 0;
	if (!strcmp(key, "group"))
		return rut_trigger_copy(t->group, sizeof(t->group), value, strlen(value), err);
	if (!strcmp(key, "fleet"))
		return rut_trigger_copy(t->fleet, sizeof(t->fleet), value, strlen(value), err);
	if (!strcmp(key, "cooldown")) {
		if (rut_trigger_duration(value, strlen(value), &t->cooldown_ns))
			return rut_err_set(err, EINVAL, "invalid duration '%s': write 10s or 500ms",
					   value);
		return 0;
	}
	if (!strcmp(key, "disk-full")) {
		t->refuse = !strcmp(value, "refuse");
		return t->refuse || !strcmp(value, "oldest")
			       ? 0
			       : rut_err_set(err, EINVAL, "'%s' is neither oldest nor refuse",
					     value);
	}
	return rut_err_set(
		err, EINVAL,
		"'%s' is none of: when, do, burst, cooldown, output, disk, disk-full, group, fleet",
		key);
}

/* One line of a description. */
static int read_line(struct rut_trigger *t, char *line, struct rut_err *err)
{
	char *key = line + strspn(line, " \t"), *value = strchr(line, '=');

	if (*key == '#' || !*key)
		return 0;
	if (!value)
		return rut_err_set(err, EINVAL, "'%s' is not NAME = VALUE", key);
	*value++ = 0;
	key[rut_trigger_trimmed(key, strlen(key))] = 0;
	value += strspn(value, " \t");
	return rut_trigger_set(t, key, value, err);
}

int rut_trigger_read(struct rut_trigger *t, FILE *f, struct rut_err *err)
{
	char line[2 * RUT_TRIGGER_TEXT_MAX];

	for (unsigned n = 1; fgets(line, sizeof(line), f); n++) {
		size_t len = strlen(line);
		int rc;

		if (len == sizeof(line) - 1 && line[len - 1] != '\n')
			return rut_err_set(err, EINVAL, "line %u is too long", n);
		line[rut_trigger_trimmed(line, len)] = 0;
		rc = read_line(t, line, err);
		if (rc)
			return rut_err_prefix(err, "line %u", n);
	}
	return ferror(f) ? rut_err_errno(err, EIO, "cannot read it") : 0;
}

void rut_trigger_write(const struct rut_trigger *t, FILE *f)
{
	fprintf(f, "when = %s\n", t->when_text);
	for (size_t i = 0; i < t->nactions; i++)
		fprintf(f, "do = %s\n", t->do_text[i]);
	fprintf(f, "burst = %llu/%lluns\n", (unsigned long long)t->burst,
		(unsigned long long)t->interval_ns);
	if (t->cooldown_ns)
		fprintf(f, "cooldown = %lluns\n", (unsigned long long)t->cooldown_ns);
	fprintf(f, "output = %s\n", t->dir);
	if (t->disk_bytes)
		fprintf(f, "disk = %llu\ndisk-full = %s\n", (unsigned long long)t->disk_bytes,
			t->refuse ? "refuse" : "oldest");
	if (t->fleet[0])
		fprintf(f, "fleet = %s\n", t->fleet);
	if (t->group[0])
		fprintf(f, "group = %s\n", t->group);
}
