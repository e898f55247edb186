/* SPDX-License-Identifier: MIT */
#include "session/dynamic.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

/* What is no tracepoint of the kernel begins with one of these. */
static bool has_kind(const char *word)
{
	static const char *const kinds[] = {"usdt:", "uprobe:", "uretprobe:", "profile:", "tp:"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strncmp(word, kinds[i], strlen(kinds[i])))
			return true;
	return false;
}

int rut_dynamic_split(const char *word, struct rut_buf *names)
{
	const char *colon = strchr(word, ':'), *start = word + (*word == '!');
	char category[64];
	size_t n;

	if (!colon || !strncmp(word, "syscall:", 8) || !strncmp(word, "!syscall:", 9)) {
		rut_buf_puts(names, word);
		return names->failed ? -ENOMEM : 0;
	}
	if (has_kind(word))
		return 1;
	snprintf(category, sizeof(category), "%.*s", (int)(colon - start), start);
	n = rut_events_of_tracepoint(names, start > word ? "!" : "", category, colon + 1);
	if (names->failed)
		return -ENOMEM;
	return !n || strpbrk(colon, "*?[") != NULL;
}

const char *rut_dynamic_next_word(const char *list, char *word, size_t size)
{
	size_t n = 0;
	int depth = 0;

	list += strspn(list, ", ");
	if (!*list)
		return NULL;
	for (; *list && (depth || !strchr(", ", *list)); list++) {
		depth += *list == '(' ? 1 : *list == ')' && depth ? -1 : 0;
		if (n + 1 < size)
			word[n++] = *list;
	}
	word[n] = '\0';
	return list;
}

static int add_probe(struct rut_record_conf *conf, const char *word, struct rut_err *err)
{
	for (size_t i = 0; i < RUT_PROBES_MAX; i++) {
		if (conf->probes[i][0])
			continue;
		if (strlen(word) >= sizeof(conf->probes[i]))
			return rut_err_set(err, ENAMETOOLONG, "'%s' is too long", word);
		snprintf(conf->probes[i], sizeof(conf->probes[i]), "%s", word);
		return 0;
	}
	return rut_err_set(err, E2BIG, "more than %d probes: use globs", RUT_PROBES_MAX);
}

bool rut_dynamic_wants_stack(char *word)
{
	static const char *const ends[] = {":ruby-stack", ":ruby_stack"};
	size_t len = strlen(word);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t n = strlen(ends[i]);

		if (len > n && !strcmp(word + len - n, ends[i])) {
			word[len - n] = '\0';
			return true;
		}
	}
	return false;
}

/* Those of ours are kept by their names, those added by name as they were written. */
static int add_stack(struct rut_record_conf *conf, const char *word, const char *names, int more,
		     struct rut_err *err)
{
	size_t len = strlen(conf->rstack), room = sizeof(conf->rstack) - len;

	if ((size_t)snprintf(conf->rstack + len, room, "%s%s%s%s", len ? "," : "",
			     names ? names : "", names && more ? "," : "",
			     more ? word : "") >= room)
		return rut_err_set(err, E2BIG,
				   "too many events with ':ruby-stack': use globs, or "
				   "--context ruby_stack");
	conf->contexts |= RUT_CTX_RSTACK;
	return 0;
}

/* Without its arguments, which debug information may have added. */
bool rut_dynamic_is(const char *word, const char *spec)
{
	char plain[256];

	snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(spec, "("), spec);
	return !strcmp(word, spec) || !fnmatch(word, spec, 0) ||
	       (!strchr(word, '(') && !fnmatch(word, plain, 0));
}

static void set_bit(__u64 set[RUT_EVENT_WORDS], uint32_t id)
{
	set[id / 64 % RUT_EVENT_WORDS] |= 1ull << id % 64;
}

bool rut_dynamic_stacks(const struct rut_record_conf *conf, uint32_t id, const char *spec,
			__u64 ret[RUT_EVENT_WORDS])
{
	struct rut_selection sel = {0};
	const char *list = conf->rstack;
	char word[512];

	memset(ret, 0, RUT_EVENT_WORDS * sizeof(*ret));
	if (!*list || conf->rstack_all || !(conf->contexts & RUT_CTX_RSTACK))
		return false;
	while ((list = rut_dynamic_next_word(list, word, sizeof(word)))) {
		if (has_kind(word) || (strchr(word, ':') && strncmp(word, "syscall:", 8) != 0)) {
			if (spec && rut_dynamic_is(word, spec))
				set_bit(ret, id);
		} else {
			rut_selection_add(&sel, word, NULL);
		}
	}
	for (uint32_t i = 0; i < RUT_EV_COUNT; i++)
		if (sel.events[i])
			set_bit(ret, i);
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++) {
		if (sel.syscalls[nr] & RUT_SYSCALL_ENTRY)
			set_bit(ret, RUT_ID_SYSCALL_ENTRY + nr);
		if (sel.syscalls[nr] & RUT_SYSCALL_EXIT)
			set_bit(ret, RUT_ID_SYSCALL_EXIT + nr);
	}
	return true;
}

int rut_conf_add_events(struct rut_record_conf *conf, const char *list, struct rut_err *err)
{
	char word[512];
	int rc = 0;

	while (!rc && (list = rut_dynamic_next_word(list, word, sizeof(word)))) {
		_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;
		bool stack = rut_dynamic_wants_stack(word);
		int more = rut_dynamic_split(word, &names);

		if (more < 0)
			return rut_err_set(err, ENOMEM, "out of memory");
		if (stack)
			rc = add_stack(conf, word, names.data, more, err);
		if (names.len && !rc)
			rc = rut_selection_add(&conf->selection, names.data, err);
		if (more && !rc)
			rc = add_probe(conf, word, err);
	}
	return rc;
}
