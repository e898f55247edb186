/* SPDX-License-Identifier: MIT */
#include "session/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/logfile.h"
#include "session/budget.h"
#include "session/daemon.h"
#include "session/dynamic.h"
#include "session/kernel.h"
#include "session/own.h"
#include "session/programs.h"
#include "session/words.h"

#define WAIT_MS 5000

/* A session with a killed daemon records into rings that are not drained. */
static bool is_stale(const struct rut_session_meta *m)
{
	return rut_output_drains(&m->output) && m->consumer > 0 && !rut_session_consumer_alive(m);
}

static int make_way(const char *name, struct rut_err *err)
{
	struct rut_recorder *r = NULL;
	struct rut_err ignored = RUT_ERR_INIT;
	int rc = rut_session_open(&r, name, &ignored);
	bool stale;

	if (rc == -ENOENT) {
		/* Half-made pins of a start that was killed: we have the lock. */
		return rut_session_unpin(name, err);
	}
	if (rc < 0)
		return rut_err_set(err, ignored.code, "%s", ignored.msg);
	stale = is_stale(r->meta);
	rut_recorder_free(r);
	if (!stale)
		return rut_err_set(err, EEXIST,
				   "a session '%s' exists: see 'rutile status %s', end it with "
				   "'rutile destroy %s'",
				   name, name, name);
	rut_info("removed what was left of session '%s': its process was killed", name);
	return rut_session_unpin(name, err);
}

static int check_free(const char *name, struct rut_err *err)
{
	int lock = rut_session_lock(err), rc = lock < 0 ? lock : make_way(name, err);

	rut_session_unlock(lock);
	return rc;
}

/* Pins the session, and gives it its process. */
static int publish(const struct rut_start *start, struct rut_recorder *r, struct rut_consumer *c,
		   pid_t *ret_pid, struct rut_err *err)
{
	int lock = rut_session_lock(err), rc;

	if (lock < 0)
		return lock;
	/* Until its own process runs, the session lives and dies with this one. */
	r->meta->consumer_start = rut_process_start_time(getpid());
	r->meta->consumer = rut_output_drains(&start->output) ? getpid() : 0;
	/* Another start may have been quicker. */
	rc = make_way(r->conf.name, err);
	if (!rc)
		rc = rut_session_pin(r, &start->guest, err);
	if (!rc)
		rut_budget_calibrate(r);
	if (!rc && rut_output_drains(&start->output)) {
		rc = rut_daemon_start(c, lock, ret_pid, err);
		if (rc)
			rut_session_unpin(r->conf.name, NULL);
	}
	if (!rc && !rut_output_drains(&start->output) &&
	    (start->ncompanions || r->conf.budget_ppm)) {
		rc = rut_holder_start(r, start->companions, start->ncompanions, lock, err);
		if (rc)
			rut_session_unpin(r->conf.name, NULL);
	}
	rut_session_unlock(lock);
	return rc;
}

static int start_recorder(const struct rut_start *start, struct rut_recorder *r,
			  struct rut_consumer *c, pid_t *ret_pid, struct rut_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < start->npids && !rc; i++)
		rc = rut_recorder_trace_family(r, start->pids[i]);
	if (rc)
		return rut_err_errno(err, -rc, "cannot set the filter");
	r->meta->output = start->output;
	if (rut_output_drains(&start->output))
		rc = rut_consumer_open(c, r, &start->output, err);
	for (size_t i = 0; i < start->ncompanions && rut_output_drains(&start->output) && !rc; i++)
		rc = rut_consumer_accompany(c, &start->companions[i], err);
	if (!rc)
		rc = rut_programs_attach(r, err);
	for (size_t i = 0; i < start->npids && !rc; i++)
		rc = rut_recorder_trace_family(r, start->pids[i]);
	return rc ? rc : publish(start, r, c, ret_pid, err);
}

int rut_session_start(const struct rut_start *start, pid_t *ret_pid, struct rut_err *err)
{
	struct rut_consumer c = {.writer = {.dir_fd = -1}};
	struct rut_recorder *r = NULL;
	int rc = rut_session_check_name(start->conf.name, err);

	*ret_pid = 0;
	if (!rc)
		rc = check_free(start->conf.name, err);
	if (!rc)
		rc = rut_recorder_new(&r, &start->conf, err);
	if (!rc)
		rc = start_recorder(start, r, &c, ret_pid, err);
	if (rc)
		rut_consumer_discard(&c);
	rut_consumer_abandon(&c);
	rut_recorder_free(r);
	return rc;
}

/* How far the consumer has got, in all rings. */
static uint64_t consumed(const struct rut_recorder *r)
{
	uint64_t sum = 0;

	for (int cpu = 0; cpu < r->ncpus; cpu++)
		sum += r->rings[cpu].ctl->consumed;
	return sum;
}

static bool is_drained(const struct rut_recorder *r)
{
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		if (r->rings[cpu].ctl->consumed < r->rings[cpu].ctl->pos)
			return false;
	return true;
}

static int stop(struct rut_recorder *r, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;

	if (!m->running)
		return rut_err_set(err, EALREADY, "session '%s' is stopped already", r->conf.name);
	rut_session_unpin_links(r, NULL);
	m->running = 0;
	rut_recorder_flush(r);
	for (int i = 0; i < 200 && rut_session_consumer_alive(m) && !is_drained(r); i++)
		poll(NULL, 0, 10);
	return 0;
}

int rut_session_stop(struct rut_recorder *r, struct rut_err *err)
{
	_cleanup_close_ int lock = rut_session_lock_one(r->conf.name, err);

	return lock < 0 ? lock : stop(r, err);
}

int rut_session_resume(struct rut_recorder *r, struct rut_err *err)
{
	_cleanup_close_ int lock = rut_session_lock_one(r->conf.name, err);
	int rc;

	if (lock < 0)
		return lock;
	if (r->meta->running)
		return rut_err_set(err, EALREADY, "session '%s' runs already", r->conf.name);
	for (int cpu = 0; cpu < r->ncpus; cpu++)
		__atomic_store_n(&r->rings[cpu].ctl->frozen, 0, __ATOMIC_RELEASE);
	/* What was removed before the stop stays so. */
	r->conf.selection = r->meta->active;
	rc = rut_programs_load(r, &r->meta->active, err);

	if (!rc)
		rc = rut_dynamic_resume(r, err);
	if (!rc)
		rc = rut_programs_attach(r, err);
	if (!rc)
		rc = rut_session_pin_links(r, err);
	return rc;
}

/* Another process may have asked for more meanwhile, and that be done too. */
static bool is_reached(const uint32_t *done, uint32_t wanted)
{
	return (int32_t)(__atomic_load_n(done, __ATOMIC_ACQUIRE) - wanted) >= 0;
}

/* New events are in the metadata before they are in a packet. */
static void wait_for_consumer(struct rut_recorder *r)
{
	struct rut_session_meta *m = r->meta;
	uint32_t generation = __atomic_add_fetch(&m->generation, 1, __ATOMIC_ACQ_REL);

	for (int i = 0; i < WAIT_MS && rut_session_consumer_alive(m); i++) {
		if (is_reached(&m->acked, generation))
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

int rut_session_rotate(struct rut_recorder *r, struct rut_err *err)
{
	struct rut_session_meta *m = r->meta;
	char before[RUT_PATH_MAX];
	uint32_t wanted;

	if (!rut_session_consumer_alive(m))
		return rut_err_set(err, ESRCH,
				   "session '%s' writes no files: take a snapshot instead",
				   r->conf.name);
	memcpy(before, m->current, sizeof(before));
	wanted = __atomic_add_fetch(&m->rotate_wanted, 1, __ATOMIC_ACQ_REL);
	for (int i = 0; i < WAIT_MS; i++) {
		if (is_reached(&m->rotate_done, wanted))
			return strcmp(before, m->current) != 0
				       ? 0
				       : rut_err_set(err, EIO,
						     "the next directory cannot be made, session "
						     "'%s' continues in '%s': the system's log has "
						     "the reason",
						     r->conf.name, m->current);
		poll(NULL, 0, 1);
	}
	return rut_err_set(err, ETIMEDOUT, "the process %d of session '%s' does not answer",
			   m->consumer, r->conf.name);
}

void rut_session_clear(struct rut_recorder *r)
{
	rut_recorder_flush(r);
	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		const struct rut_ring *ring = &r->rings[cpu];
		uint64_t pos = ring->ctl->pos & ~(ring->subbuf_size - 1);

		RUT_CTL_USER(ring->ctl)->cleared = pos;
	}
}

int rut_session_destroy(const char *name, struct rut_err *err)
{
	_cleanup_close_ int lock = -1;
	struct rut_recorder *r = NULL;
	pid_t pid;
	int rc = rut_session_open(&r, name, err);

	if (!rc) {
		lock = rut_session_lock_one(name, err);
		if (lock < 0) {
			rut_recorder_free(r);
			return lock;
		}
	}
	/* What cannot be read can still be removed. */
	if (rc == -EPROTO || rc == -EINVAL)
		return rut_session_check_name(name, err) ? rc : rut_session_unpin(name, err);
	if (rc < 0)
		return rc;
	if (r->meta->running)
		stop(r, NULL);
	pid = rut_session_consumer_alive(r->meta) ? r->meta->consumer : 0;
	if (pid)
		kill(pid, SIGTERM);
	/* As long as it writes what is in memory: on a slow disk that may take a while. */
	for (int i = 0; pid && i < WAIT_MS / 10 && rut_session_consumer_alive(r->meta); i++) {
		uint64_t before = consumed(r);

		poll(NULL, 0, 10);
		if (consumed(r) != before)
			i = 0;
	}
	if (pid && rut_session_consumer_alive(r->meta))
		rut_warn("the process %d of session '%s' does not end: its last events may not be "
			 "in '%s' yet",
			 pid, name, r->meta->current);
	rut_holder_end(r->meta);
	/* Freed memory keeps its bytes: `recover` must not take it for a session. */
	r->meta->anchor.magic = 0;
	rut_recorder_free(r);
	return rut_session_unpin(name, err);
}

struct clean {
	void (*fn)(const char *name, void *arg);
	void *arg;
};

static void clean_one(const char *name, void *arg)
{
	const struct clean *c = arg;
	struct rut_recorder *r = NULL;
	int rc = rut_session_open(&r, name, NULL);
	/* Under the lock what is incomplete was left by a start that was killed. */
	bool stale = rc == -ENOENT;

	if (rc < 0 && !stale)
		return;
	if (!rc)
		stale = is_stale(r->meta);
	rut_recorder_free(r);
	if (!stale || rut_session_unpin(name, NULL) < 0)
		return;
	if (c->fn)
		c->fn(name, c->arg);
}

int rut_session_clean(void (*fn)(const char *name, void *arg), void *arg, struct rut_err *err)
{
	struct clean c = {fn, arg};
	int lock, rc;

	if (access(RUT_PIN_ROOT, F_OK) < 0)
		return 0;
	lock = rut_session_lock(err);
	if (lock < 0)
		return lock;
	rc = rut_session_each(clean_one, &c, err);
	rut_session_unlock(lock);
	return rc;
}
