/* SPDX-License-Identifier: MIT */
/* Events that are added to a session while it records, and removed from it. */
#include "session/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "session/daemon.h"
#include "session/dynamic.h"
#include "session/kernel.h"
#include "session/pin.h"
#include "session/programs.h"
#include "session/words.h"

/* New events are in the metadata before they are in a packet. */
static void wait_for_consumer(struct rut_recorder *r)
{
	struct rut_session_meta *m = r->meta;
	uint32_t generation = __atomic_add_fetch(&m->generation, 1, __ATOMIC_ACQ_REL);

	for (int i = 0; i < RUT_SESSION_WAIT_MS && rut_session_consumer_alive(m); i++) {
		if (rut_session_reached(&m->acked, generation))
			break;
		poll(NULL, 0, 1);
	}
}

/* Adds those of `active` with programs that also record what `sel` has: these are loaded again. */
static void add_shared(const struct rut_recorder *r, struct rut_selection *sel,
		       const struct rut_selection *active)
{
	const struct rut_selection changed = *sel;

	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++)
		if (active->events[id] && rut_programs_shared(r, &changed, id))
			sel->events[id] = true;
}

/* Programs of `sel` that the active selection did not need, as a selection. */
static void only_new(struct rut_selection *ret, const struct rut_selection *sel,
		     const struct rut_selection *active, bool replaced)
{
	*ret = *sel;
	for (uint32_t id = 0; id < RUT_EV_COUNT; id++)
		ret->events[id] = sel->events[id] && !active->events[id];
	if (rut_selection_any_syscall(active) && !replaced)
		rut_selection_set_syscalls(ret, NULL);
}

static int add_static(struct rut_recorder *r, const char *spec, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;
	struct rut_selection sel = m->active, fresh, kept = m->active;
	struct rut_strtab tps = {0};
	bool replaced;
	int rc = rut_selection_add(&sel, spec, err);

	if (!rc)
		rc = rut_kernel_tracepoints(&tps, err);
	if (!rc)
		rc = rut_selection_drop_missing(&sel, &tps, m->conf.strict, err);
	rut_strtab_fini(&tps);
	if (rc)
		return rc;
	for (uint32_t id = 0; id < RUT_EV_COUNT; id++)
		m->conf.selection.events[id] |= sel.events[id];
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++)
		m->conf.selection.syscalls[nr] |= sel.syscalls[nr];
	rc = rut_recorder_publish(r, err);
	if (rc)
		return rc;
	wait_for_consumer(r);
	/* A filter is compiled into the programs for the calls that they know: new ones replace
	 * them. */
	replaced = r->conf.filter[0] &&
		   memcmp(sel.syscalls, m->active.syscalls, sizeof(sel.syscalls)) != 0;
	only_new(&fresh, &sel, &m->active, replaced);
	add_shared(r, &fresh, &sel);
	m->active = sel;
	if (!m->running)
		return 0;
	r->conf.selection = sel;
	rc = rut_programs_load(r, &fresh, err);
	/* The programs of system calls may run already: then the table alone says which are new. */
	if (!rc)
		rc = rut_programs_set_syscalls(r, &sel, err);
	if (rc) {
		m->active = kept;
		return rc;
	}
	if (replaced) {
		rut_selection_set_syscalls(&kept, NULL);
		rut_session_unpin_links(r, &kept);
	}
	rc = rut_programs_attach(r, err);
	return rc ? rc : rut_session_pin_links(r, err);
}

static int add_dynamic(struct rut_recorder *r, const char *spec, struct rut_err *err)
{
	int rc;

	if (!r->meta->running)
		return rut_err_set(err, EAGAIN, "session '%s' is stopped: start it first",
				   r->conf.name);
	rc = rut_dynamic_add(r, spec, err);
	if (!rc) {
		wait_for_consumer(r);
		rc = rut_session_pin_links(r, err);
	}
	return rc;
}

static void put_word(struct rut_buf *to, const char *word)
{
	rut_buf_printf(to, "%s%s", to->len ? "," : "", word);
}

/* `status` and `save` show this list of what is recorded. */
static void keep_words(struct rut_recorder *r, const struct rut_buf *words)
{
	char *to = r->meta->conf.events;
	const size_t size = sizeof(r->meta->conf.events);

	if (words->failed || words->len >= size)
		rut_warn("'rutile status' and 'save' will not show this change: the list of events "
			 "has no more than %zu bytes",
			 size - 1);
	else
		snprintf(to, size, "%s", words->len ? words->data : "");
}

/* Is it this word, or the word taken away? */
static bool is_word(const char *a, const char *b)
{
	return !strcmp(a + (*a == '!'), b + (*b == '!'));
}

static void note_added(struct rut_recorder *r, const char *added)
{
	_cleanup_buf_ struct rut_buf words = RUT_BUF_INIT;
	const char *list = r->meta->conf.events;
	char word[512];

	while ((list = rut_dynamic_next_word(list, word, sizeof(word))))
		if (!is_word(word, added))
			put_word(&words, word);
	put_word(&words, added);
	keep_words(r, &words);
}

/* What was added by name may have been a pattern: those that are left are listed one by one. */
static void put_dynamic(const struct rut_session_meta *m, struct rut_buf *words)
{
	for (uint32_t i = 0; i < m->ndynamic; i++)
		if (m->dynamic[i].id)
			put_word(words, m->dynamic[i].spec);
}

static void note_removed(struct rut_recorder *r, const char *removed)
{
	_cleanup_buf_ struct rut_buf words = RUT_BUF_INIT, ours = RUT_BUF_INIT, gone = RUT_BUF_INIT;
	const struct rut_session_meta *m = r->meta;
	const char *list = m->conf.events, *left = NULL;
	bool by_name = rut_dynamic_split(removed, &gone) > 0;
	struct rut_selection sel = {0};
	char word[512];

	while ((list = rut_dynamic_next_word(list, word, sizeof(word)))) {
		_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;
		int more = rut_dynamic_split(word, &names);

		if (is_word(word, removed))
			continue;
		if (names.len)
			put_word(&ours, names.data);
		if (!by_name || !more)
			put_word(&words, word);
		else if (names.len)
			put_word(&words, names.data);
	}
	/* A group, a pattern or another name may have selected it too. */
	if (ours.len)
		rut_selection_add(&sel, ours.data, NULL);
	if (gone.len && memcmp(&sel, &m->active, sizeof(sel)) != 0)
		left = gone.data;
	while (left && (left = rut_dynamic_next_word(left, word, sizeof(word)))) {
		if (words.len)
			rut_buf_putc(&words, ',');
		rut_buf_printf(&words, "!%s", word);
	}
	if (by_name)
		put_dynamic(m, &words);
	words.failed |= ours.failed || gone.failed;
	keep_words(r, &words);
}

typedef int (*word_fn)(struct rut_recorder *r, const char *word, struct rut_err *err);

/* A word may mean events of ours, events found by name, or both. */
static int each_part(struct rut_recorder *r, const char *word, word_fn on_static,
		     word_fn on_dynamic, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;
	struct rut_err other = RUT_ERR_INIT;
	int more = rut_dynamic_split(word, &names), rc;

	if (more < 0)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = names.len ? on_static(r, names.data, err) : 0;
	if (rc || !more)
		return rc;
	rc = on_dynamic(r, word, &other);
	/* A pattern of which all are ours. */
	if (rc == -ENOENT && names.len)
		return 0;
	return rc ? rut_err_set(err, -rc, "%s", other.msg) : 0;
}

int rut_session_add(struct rut_recorder *r, const char *spec, struct rut_err *err)
{
	_cleanup_close_ int lock = rut_session_lock_one(r->conf.name, err);
	char word[512];
	int rc = lock < 0 ? lock : 0;

	while (!rc && (spec = rut_dynamic_next_word(spec, word, sizeof(word)))) {
		if (rut_dynamic_wants_stack(word))
			return rut_err_set(err, ENOTSUP,
					   "'%s': which events have a Ruby stack is said at the "
					   "start of the session",
					   word);
		rc = each_part(r, word, add_static, add_dynamic, err);
		if (!rc)
			note_added(r, word);
	}
	return rc;
}

/*
 * Programs that record other events, or follow forks, stay when one of their events is removed:
 * they are replaced by such as leave it out.
 */
static int replace_shared(struct rut_recorder *r, const struct rut_selection *before,
			  struct rut_err *err)
{
	const struct rut_selection *active = &r->meta->active;
	struct rut_selection removed = {0}, again = {0};
	bool any = false;
	int rc;

	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		removed.events[id] = before->events[id] && !active->events[id];
		any = any || (removed.events[id] && rut_programs_shared(r, active, id));
	}
	if (!any || !r->meta->running)
		return 0;
	add_shared(r, &removed, active);
	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++)
		again.events[id] = removed.events[id] && active->events[id];
	r->conf.selection = *active;
	rc = rut_programs_load(r, &again, err);
	if (!rc)
		rc = rut_programs_attach(r, err);
	return rc ? rc : rut_session_pin_links(r, err);
}

static int remove_static(struct rut_recorder *r, const char *word, struct rut_err *err)
{
	const struct rut_selection before = r->meta->active;
	struct rut_selection sel = before;
	char name[512], negated[520];
	int rc = 0;

	while (!rc && (word = rut_dynamic_next_word(word, name, sizeof(name)))) {
		snprintf(negated, sizeof(negated), "!%s", name);
		rc = rut_selection_add(&sel, negated, err);
	}
	if (rc)
		return rc;
	r->meta->active = sel;
	rc = rut_programs_set_syscalls(r, &sel, err);
	if (!rc)
		rut_session_unpin_links(r, &sel);
	return rc ? rc : replace_shared(r, &before, err);
}

/* By the words with which it was added; "usdt:..." may be a shell pattern. */
static int remove_dynamic(struct rut_recorder *r, const char *word, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;
	bool found = false;

	for (uint32_t i = 0; i < m->ndynamic; i++) {
		if (!m->dynamic[i].id || !rut_dynamic_is(word, m->dynamic[i].spec))
			continue;
		rut_session_unpin_dynamic(r, m->dynamic[i].id);
		m->dynamic[i].id = 0;
		found = true;
	}
	return found ? 0
		     : rut_err_set(err, ENOENT, "session '%s' does not record '%s'", r->conf.name,
				   word);
}

int rut_session_remove(struct rut_recorder *r, const char *spec, struct rut_err *err)
{
	_cleanup_close_ int lock = rut_session_lock_one(r->conf.name, err);
	char word[512];
	int rc = lock < 0 ? lock : 0;

	while (!rc && (spec = rut_dynamic_next_word(spec, word, sizeof(word)))) {
		rc = each_part(r, word, remove_static, remove_dynamic, err);
		if (!rc)
			note_removed(r, word);
	}
	return rc;
}

/* `status` and `save` show these lines. */
static int note_ruby_added(struct rut_record_conf *conf, const char *what, struct rut_err *err)
{
	size_t len = strlen(conf->ruby), room = sizeof(conf->ruby) - len;
	int n = snprintf(conf->ruby + len, room, "ruby = %s\n", what);

	if (n >= 0 && (size_t)n < room)
		return 0;
	conf->ruby[len] = '\0';
	return rut_err_set(err, E2BIG, "too many options of Ruby events");
}

/* The lines of what was added so, and those of the target with other events. */
static void note_ruby_removed(struct rut_record_conf *conf, const char *what)
{
	static const char key[] = "ruby = ";
	size_t len = strlen(what);
	char *line = conf->ruby;

	while (*line) {
		char *value = line + sizeof(key) - 1, *next = strchr(line, '\n') + 1;

		if (strncmp(line, key, sizeof(key) - 1) == 0 && strncmp(value, what, len) == 0 &&
		    (value[len] == '\n' || (value[len] == ':' && value[len + 1] != ' ')))
			memmove(line, next, strlen(next) + 1);
		else
			line = next;
	}
}

/* A flight recorder has a process for its Ruby events only when it has any. */
static int need_holder(struct rut_recorder *r, const struct rut_companion *companion, int lock,
		       struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;

	if (rut_output_drains(&m->output) || (rut_holder_alive(m) && m->ncompanions))
		return 0;
	rut_holder_end(m);
	return rut_holder_start(r, companion, 1, lock, err);
}

int rut_session_change_ruby(struct rut_recorder *r, bool add, const char *what,
			    const struct rut_companion *companion, struct rut_err *err)
{
	_cleanup_close_ int lock = rut_session_lock_one(r->conf.name, err);
	struct rut_record_conf *conf = &r->meta->conf;
	size_t noted = strlen(conf->ruby);
	int rc = lock < 0 ? lock : 0;

	if (!rc && add)
		rc = note_ruby_added(conf, what, err);
	if (rc)
		return rc;
	rc = add ? need_holder(r, companion, lock, err) : 0;
	if (!rc)
		rc = rut_daemon_change(r->meta, add, what, err);
	/* Not added after all: what was added before, maybe in the same words, stays. */
	if (add && rc)
		conf->ruby[noted] = '\0';
	else if (!add && !rc)
		note_ruby_removed(conf, what);
	return rc;
}
