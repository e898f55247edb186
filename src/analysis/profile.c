/* SPDX-License-Identifier: MIT */
#include "analysis/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack.h"
#include "analysis/profile_priv.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "ctf/reader.h"

#define FRAMES_MAX 2048

/* Frames of one stack as names, innermost first. */
struct frames {
	struct rut_profile *p;
	uint32_t row[FRAMES_MAX]; /* what the table counts */
	uint32_t n_rows;
	struct rut_buf line[FRAMES_MAX]; /* owned; what the folded line has */
	uint32_t n_lines;
	bool has_ruby, failed, unordered;
	enum rut_off wait;
	bool futex;
};

/* A thread that does not run. */
struct pending {
	uint64_t since_ns, woken_ns;
	enum rut_off wait;
	uint32_t n;
	uint32_t stack; /* of the table of stacks: without the reason */
	uint32_t rows[];
};

int64_t rut_an_profile_row(struct rut_profile *p, const char *text, size_t len)
{
	int64_t id = rut_strtab_intern(&p->names, text, len);

	if (id >= 0 && (size_t)id >= p->n_rows) {
		size_t n = p->n_rows ? p->n_rows * 2 : 256;
		struct rut_profile_row *more = reallocarray(p->rows, n, sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + p->n_rows, 0, (n - p->n_rows) * sizeof(*more));
		p->rows = more;
		p->n_rows = n;
	}
	return id;
}

static void add_row(struct frames *f, const char *text, size_t len)
{
	int64_t id = rut_an_profile_row(f->p, text, len);

	if (id < 0)
		f->failed = true;
	else if (f->n_rows < FRAMES_MAX)
		f->row[f->n_rows++] = (uint32_t)id;
}

static struct rut_buf *add_line(struct frames *f)
{
	if (f->n_lines == FRAMES_MAX)
		return NULL;
	f->line[f->n_lines] = (struct rut_buf)RUT_BUF_INIT;
	return &f->line[f->n_lines++];
}

/* --- frames -------------------------------------------------------------------------------- */

static void note_ruby(const struct rut_ruby_frame *frame, void *arg)
{
	struct frames *f = arg;

	if (!f->has_ruby)
		f->wait = rut_an_off_ruby(frame, f->futex, f->wait);
	f->has_ruby = true;
}

/* The name without "+0x1f (file)", or "[file]". */
static void native_name(struct rut_buf *out, const char *frame)
{
	const char *file = strchr(frame, '('), *plus;

	if (!strncmp(frame, "0x", 2)) {
		if (file)
			rut_buf_printf(out, "[%.*s]", (int)strcspn(file + 1, "+)"), file + 1);
		else
			rut_buf_puts(out, "[unknown]");
		return;
	}
	plus = file ? memrchr(frame, '+', (size_t)(file - frame)) : NULL;
	rut_buf_add(out, frame, plus ? (size_t)(plus - frame) : strlen(frame));
}

static void add_native(struct frames *f, const char *frame)
{
	struct rut_buf *b = add_line(f);

	if (!b)
		return;
	native_name(b, frame);
	/* Of a Ruby thread the tables show Ruby. */
	if (!f->has_ruby && b->data)
		add_row(f, b->data, b->len);
}

static void note_kernel(const char *frame, uint64_t address, void *arg)
{
	struct frames *f = arg;
	enum rut_off off = rut_an_off_kernel(frame, &f->futex);

	if (f->wait == RUT_OFF_OTHER)
		f->wait = off;
}

static void add_kernel(const char *frame, uint64_t address, void *arg)
{
	/* How the recorder itself was called. */
	if (strncmp(frame, "bpf_", 4) != 0 && strncmp(frame, "__traceiter_", 12) != 0)
		add_native(arg, frame);
}

static void add_ruby(struct frames *f, const struct rut_ruby_frame *r)
{
	struct rut_buf *b = add_line(f);
	_cleanup_buf_ struct rut_buf row = RUT_BUF_INIT;

	if (b)
		rut_buf_puts(b, r->method);
	/* A C method has no line: that of its caller is the next frame's. */
	if (f->p->by != RUT_PROFILE_METHOD && r->is_c)
		return;
	if (f->p->by == RUT_PROFILE_METHOD)
		rut_buf_puts(&row, r->method);
	else if (f->p->by == RUT_PROFILE_FILE)
		rut_buf_puts(&row, r->path[0] ? r->path : "(unknown)");
	else
		rut_buf_printf(&row, "%s:%u", r->path[0] ? r->path : "(unknown)", r->line);
	if (row.data)
		add_row(f, row.data, row.len);
}

static void add_frame(const struct rut_stack_frame *frame, void *arg)
{
	if (frame->ruby)
		add_ruby(arg, frame->ruby);
	else
		add_native(arg, frame->native);
}

/* --- counting ------------------------------------------------------------------------------ */

int64_t rut_an_profile_stack(struct rut_profile *p, const char *line, size_t len)
{
	int64_t id = rut_strtab_intern(&p->stacks, line, len);

	if (id >= 0 && (size_t)id >= p->n_stacks) {
		size_t n = p->n_stacks ? p->n_stacks * 2 : 256;
		uint64_t *more = reallocarray(p->stack_ns, n, sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + p->n_stacks, 0, (n - p->n_stacks) * sizeof(*more));
		p->stack_ns = more;
		p->n_stacks = n;
	}
	return id;
}

static void count_rows(struct rut_profile *p, const uint32_t *rows, size_t n, uint64_t ns)
{
	p->stamp++;
	for (size_t i = 0; i < n; i++) {
		struct rut_profile_row *r = &p->rows[rows[i]];

		if (!i)
			r->self_ns += ns;
		if (r->seen != p->stamp)
			r->total_ns += ns;
		r->seen = p->stamp;
	}
}

int rut_an_profile_count(struct rut_profile *p, int64_t stack, const uint32_t *rows, size_t n,
			 enum rut_off wait, uint64_t ns)
{
	_cleanup_buf_ struct rut_buf line = RUT_BUF_INIT;

	if (!ns)
		return 0;
	count_rows(p, rows, n, ns);
	p->wait_ns[wait] += ns;
	p->total_ns += ns;
	if (wait != RUT_OFF_CPU) {
		rut_buf_printf(&line, "%s;(%s)", p->stacks.strs[stack].data,
			       rut_an_off_names[wait]);
		stack = line.failed ? -ENOMEM : rut_an_profile_stack(p, line.data, line.len);
		if (stack < 0)
			return (int)stack;
	}
	p->stack_ns[stack] += ns;
	return 0;
}

/* Fills in the frames and returns the number of the folded line, or -ENOMEM. */
static int64_t name_frames(struct frames *f, struct rut_callstacks *stacks,
			   const struct rut_ctf_event *ev, const char *process, size_t len)
{
	_cleanup_buf_ struct rut_buf line = RUT_BUF_INIT;
	int64_t id;
	int rc;

	f->wait = RUT_OFF_OTHER;
	f->n_rows = f->n_lines = 0;
	f->has_ruby = f->failed = f->futex = false;
	rut_an_callstacks_each(stacks, ev, RUT_CALLSTACK_KERNEL, note_kernel, f);
	rut_an_callstacks_ruby(stacks, ev, note_ruby, f);
	rut_an_callstacks_each(stacks, ev, RUT_CALLSTACK_KERNEL, add_kernel, f);
	rc = rut_an_callstacks_merged(stacks, ev, add_frame, f);
	f->failed |= rc < 0;
	f->unordered = rc == 1;
	for (size_t i = 0; i < len; i++)
		rut_buf_putc(&line, process[i] == ';' || process[i] == ' ' ? '_' : process[i]);
	for (uint32_t i = f->n_lines; i-- > 0;) {
		rut_buf_putc(&line, ';');
		for (size_t k = 0; k < f->line[i].len; k++)
			rut_buf_putc(&line, f->line[i].data[k] == ';' ? ':' : f->line[i].data[k]);
		f->failed |= f->line[i].failed;
		rut_buf_fini(&f->line[i]);
	}
	id = f->failed || line.failed ? -ENOMEM : rut_an_profile_stack(f->p, line.data, line.len);
	return id;
}

/* --- events -------------------------------------------------------------------------------- */

struct reading {
	struct rut_profile *p;
	struct rut_callstacks *stacks;
	struct frames *f;
	struct rut_map seen; /* by the numbers of stacks: struct seen, owned */
};

/* A stack that was named: most samples have one that another has, too. */
struct seen {
	int64_t id;
	enum rut_off wait;
	bool unordered;
	uint32_t n;
	uint32_t rows[];
};

static int64_t number(const struct rut_ctf_event *ev, const char *name)
{
	static const enum rut_ctf_scope scopes[] = {
		RUT_CTF_SCOPE_PAYLOAD, RUT_CTF_SCOPE_EVENT_CONTEXT, RUT_CTF_SCOPE_STREAM_CONTEXT};
	struct rut_ctf_ref ref;

	for (size_t i = 0; i < 3; i++)
		if (rut_ctf_ref_find(ev->cls, scopes[i], name, &ref))
			return rut_ctf_i64(ev, &ref);
	return 0;
}

static const char *text(const struct rut_ctf_event *ev, const char *name, size_t *ret_len)
{
	struct rut_ctf_ref ref;

	*ret_len = 0;
	if (!rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, name, &ref))
		return "";
	return rut_ctf_str(ev, &ref, ret_len);
}

/* The same process, its name and its stacks: the same frames. */
static uint64_t key_of(const struct rut_ctf_event *ev, const char *process, size_t len)
{
	static const char *const names[] = {"pid", "kstack_id", "ustack_id", "ruby_stack_id"};
	uint64_t key = rut_hash_bytes(process, len);

	for (size_t i = 0; i < 4; i++)
		key = rut_hash_u64(key ^ (uint64_t)number(ev, names[i])) + i;
	return key;
}

static void remember(struct reading *r, uint64_t key, int64_t id)
{
	const struct frames *f = r->f;
	struct seen *s = malloc(sizeof(*s) + f->n_rows * sizeof(*s->rows));

	/* It is only read again then. */
	if (!s)
		return;
	*s = (struct seen){.id = id, .wait = f->wait, .unordered = f->unordered, .n = f->n_rows};
	memcpy(s->rows, f->row, f->n_rows * sizeof(*s->rows));
	if (rut_map_put(&r->seen, key, s) < 0)
		free(s);
}

static int64_t read_frames(struct reading *r, const struct rut_ctf_event *ev, const char *process,
			   size_t len)
{
	uint64_t key = key_of(ev, process, len);
	const struct seen *s = rut_map_get(&r->seen, key);
	struct frames *f = r->f;
	int64_t id;

	if (s) {
		f->wait = s->wait;
		f->unordered = s->unordered;
		f->n_rows = s->n;
		memcpy(f->row, s->rows, s->n * sizeof(*s->rows));
		id = s->id;
	} else {
		id = name_frames(f, r->stacks, ev, process, len);
		if (id >= 0)
			remember(r, key, id);
	}
	f->p->stacks_read++;
	f->p->unordered += f->unordered;
	return id;
}

static int on_sample(struct reading *r, const struct rut_ctf_event *ev)
{
	const char *name;
	int64_t stack;
	size_t len;

	if (!r->p->sample_ns)
		return 0;
	name = text(ev, "procname", &len);
	stack = read_frames(r, ev, name, len);
	if (stack < 0)
		return (int)stack;
	r->p->samples++;
	return rut_an_profile_count(r->p, stack, r->f->row, r->f->n_rows, RUT_OFF_CPU,
				    r->p->sample_ns);
}

static int end_wait(struct rut_profile *p, struct pending *w, uint64_t now)
{
	uint64_t woken = w->woken_ns ? w->woken_ns : now;
	int rc = rut_an_profile_count(p, w->stack, w->rows, w->n, w->wait, woken - w->since_ns);

	return rc ? rc
		  : rut_an_profile_count(p, w->stack, w->rows, w->n, RUT_OFF_RUN_QUEUE,
					 now - woken);
}

static int on_switch(struct reading *r, const struct rut_ctf_event *ev)
{
	uint64_t next = (uint64_t)number(ev, "next_tid"), prev = (uint64_t)number(ev, "prev_tid");
	struct pending *w = rut_map_remove(&r->p->pending, next);
	int64_t stack;
	const char *name;
	size_t len;
	int rc = 0;

	if (w && ev->ts_clock >= w->since_ns)
		rc = end_wait(r->p, w, ev->ts_clock);
	free(w);
	/* The idle task, and what is not recorded itself. */
	if (rc || !prev || !number(ev, "kstack_id"))
		return rc;
	name = text(ev, "prev_comm", &len);
	stack = read_frames(r, ev, name, len);
	w = stack < 0 ? NULL : malloc(sizeof(*w) + r->f->n_rows * sizeof(*w->rows));
	if (!w)
		return -ENOMEM;
	*w = (struct pending){
		.since_ns = ev->ts_clock,
		.wait = number(ev, "prev_state") ? r->f->wait : RUT_OFF_RUN_QUEUE,
		.n = r->f->n_rows,
		.stack = (uint32_t)stack,
	};
	memcpy(w->rows, r->f->row, r->f->n_rows * sizeof(*w->rows));
	free(rut_map_remove(&r->p->pending, prev));
	rc = rut_map_put(&r->p->pending, prev, w);
	if (rc)
		free(w);
	return rc;
}

static int on_waking(struct reading *r, const struct rut_ctf_event *ev)
{
	struct pending *w = rut_map_get(&r->p->pending, (uint64_t)number(ev, "tid"));

	if (w && !w->woken_ns && ev->ts_clock >= w->since_ns)
		w->woken_ns = ev->ts_clock;
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(struct reading *r, const struct rut_ctf_event *ev);
} handlers[] = {
	{"rutile_sample", on_sample},
	{"sched_switch", on_switch},
	{"sched_waking", on_waking},
};

#define NHANDLERS (sizeof(handlers) / sizeof(*handlers))

static int read_events(struct reading *r, struct rut_ctf_set *set, struct rut_err *err)
{
	struct rut_ctf_reader_opts opts = {0};
	const struct rut_ctf_event *ev;
	struct rut_ctf_reader *reader;
	int rc = rut_ctf_reader_new(&reader, set, &opts, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < rut_ctf_set_n_classes(set); i++)
		for (size_t h = 0; h < NHANDLERS; h++)
			if (!strcmp(rut_ctf_set_class(set, i)->name, handlers[h].name))
				rut_ctf_reader_want(reader, rut_ctf_set_class(set, i));
	while (!rc && (ev = rut_ctf_reader_next(reader))) {
		r->p->last_ns = ev->ts_clock;
		for (size_t h = 0; h < NHANDLERS && !rc; h++)
			if (!strcmp(ev->cls->name, handlers[h].name))
				rc = handlers[h].fn(r, ev);
	}
	rut_ctf_reader_free(reader);
	return rc ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

int rut_an_profile_add(struct rut_profile *p, struct rut_ctf_set *set, struct rut_err *err)
{
	_cleanup_free_ struct frames *f = calloc(1, sizeof(*f));
	struct reading r = {.p = p, .f = f};
	int rc;

	if (!f)
		return rut_err_set(err, ENOMEM, "out of memory");
	f->p = p;
	rc = rut_an_callstacks_load(&r.stacks, set, "", err);
	if (!rc) {
		if (p->stacks_before)
			rut_an_callstacks_inherit(r.stacks, p->stacks_before);
		rc = read_events(&r, set, err);
	}
	rut_map_each(&r.seen, slot)
		free(slot->value);
	rut_map_fini(&r.seen);
	rut_an_callstacks_free(p->stacks_before);
	p->stacks_before = r.stacks;
	return rc;
}

int rut_an_profile_end(struct rut_profile *p)
{
	int rc = 0;

	rut_map_each(&p->pending, slot)
		if (!rc)
			rc = end_wait(p, slot->value, p->last_ns);
	return rc;
}

struct line {
	uint64_t ns;
	const char *text;
};

static int by_time(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return strcmp(x->text, y->text);
}

void rut_an_profile_folded(const struct rut_profile *p, uint64_t unit, struct rut_buf *out)
{
	_cleanup_free_ struct line *lines = calloc(p->stacks.count + 1, sizeof(*lines));

	if (!lines) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < p->stacks.count; i++)
		lines[i] = (struct line){p->stack_ns[i], p->stacks.strs[i].data};
	if (p->stacks.count)
		qsort(lines, p->stacks.count, sizeof(*lines), by_time);
	for (size_t i = 0; i < p->stacks.count && lines[i].ns; i++)
		rut_buf_printf(out, "%s %llu\n", lines[i].text,
			       (unsigned long long)((lines[i].ns + unit / 2) / unit));
}

void rut_an_profile_fini(struct rut_profile *p)
{
	rut_strtab_fini(&p->names);
	rut_strtab_fini(&p->stacks);
	free(p->rows);
	free(p->stack_ns);
	rut_map_each(&p->pending, slot)
		free(slot->value);
	rut_map_fini(&p->pending);
	rut_an_callstacks_free(p->stacks_before);
}
