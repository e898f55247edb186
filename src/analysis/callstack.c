/* SPDX-License-Identifier: MIT */
#include "analysis/callstack.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "bpf/ruby.h"
#include "bpf/unwind.h"
#include "probe/symbols.h"

#define PARENTS_MAX 32

struct stack {
	uint64_t *addresses; /* owned */
	size_t count;
	char *names; /* of kernel functions, separated by ';'; owned */
};

/* A file that was mapped: the same build-id and path are the same file. */
struct file {
	const char *path; /* owned by the table of paths */
	uint8_t id_len, id[RUT_BUILD_ID_MAX];
	bool tried;
	struct rut_symbols *symbols; /* NULL: not there; owned */
};

struct mapping {
	uint64_t start, end, offset, since; /* since: the tracer's clock; 0: the beginning */
	size_t file;
};

struct process {
	struct mapping *list; /* owned; by time */
	size_t count;
	uint64_t parent; /* key of the process that forked it; 0: none known */
};

/* What an event class has. */
struct refs {
	struct rut_ctf_ref ids[RUT_CALLSTACK_KINDS], pid;
};

struct rut_callstacks {
	struct rut_map stacks, processes, codes; /* by trace and number */
	struct rut_strtab paths;
	struct file *files; /* owned */
	size_t nfiles;
	struct refs *refs;	 /* by class; owned */
	size_t nrefs;		 /* a growing trace may have more classes: they have no stacks */
	struct rut_ctf_set *set; /* borrowed */
	const char *roots;	 /* borrowed */
	pthread_mutex_t lock;	 /* of files' symbols */
};

/* Numbers of one trace mean nothing in another. */
static uint64_t key_of(const struct rut_ctf_event *ev, int64_t number)
{
	return rut_hash_u64((uintptr_t)ev->stream->trace) ^ (uint64_t)number;
}

static void stack_free(struct stack *s)
{
	if (s) {
		free(s->addresses);
		free(s->names);
		free(s);
	}
}

static void code_free(struct rut_ruby_frame *c)
{
	if (c) {
		free((char *)c->path);
		free((char *)c->method);
		free(c);
	}
}

static int on_stack(struct rut_callstacks *s, const struct rut_ctf_event *ev)
{
	struct rut_ctf_ref id, addresses, symbols;
	struct stack *st;
	const char *names;
	size_t len;

	if (!rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "id", &id) ||
	    !rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "addresses", &addresses) ||
	    !rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "symbols", &symbols))
		return 0;
	st = calloc(1, sizeof(*st));
	if (!st)
		return -ENOMEM;
	st->count = rut_ctf_seq_len(ev, &addresses);
	st->addresses = calloc(st->count + 1, sizeof(*st->addresses));
	names = rut_ctf_str(ev, &symbols, &len);
	st->names = strndup(names, len);
	if (!st->addresses || !st->names) {
		stack_free(st);
		return -ENOMEM;
	}
	for (size_t i = 0; i < st->count; i++)
		st->addresses[i] = rut_ctf_seq_u64(ev, &addresses, i);
	/* A later one of that number says the same. */
	stack_free(rut_map_remove(&s->stacks, key_of(ev, rut_ctf_i64(ev, &id))));
	return rut_map_put(&s->stacks, key_of(ev, rut_ctf_i64(ev, &id)), st);
}

void rut_an_ruby_frame_name(struct rut_buf *out, struct rut_ruby_label l)
{
	/* "block (2 levels) in total": the class belongs to the method. */
	const char *name = memmem(l.label, l.label_len, " in ", 4);
	size_t skip = name && l.class_len ? (size_t)(name + 4 - l.label) : 0;

	rut_buf_add(out, l.label, skip);
	if (l.class_len)
		rut_buf_printf(out, "%.*s%c", (int)l.class_len, l.class_name,
			       l.singleton ? '.' : '#');
	rut_buf_printf(out, "%.*s", (int)(l.label_len - skip), l.label + skip);
}

/* A piece of Ruby code, as text. */
static int on_code(struct rut_callstacks *s, const struct rut_ctf_event *ev)
{
	static const char *const names[] = {"path", "label", "class_name"};
	struct rut_ctf_ref id, text[3], kind, singleton;
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct rut_ruby_frame *c;
	const char *str[3];
	size_t len[3];

	for (size_t i = 0; i < 3; i++) {
		if (!rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, names[i], &text[i]))
			return 0;
		str[i] = rut_ctf_str(ev, &text[i], &len[i]);
	}
	if (!rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "id", &id) ||
	    !rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "kind", &kind) ||
	    !rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "singleton", &singleton))
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	rut_an_ruby_frame_name(&b, (struct rut_ruby_label){str[1], len[1], str[2], len[2],
							   rut_ctf_u64(ev, &singleton) != 0});
	c->is_c = rut_ctf_u64(ev, &kind) == RUT_CODE_C;
	c->path = strndup(str[0], len[0]);
	c->method = b.failed ? NULL : strndup(b.data, b.len);
	if (!c->path || !c->method) {
		code_free(c);
		return -ENOMEM;
	}
	code_free(rut_map_remove(&s->codes, key_of(ev, rut_ctf_i64(ev, &id))));
	return rut_map_put(&s->codes, key_of(ev, rut_ctf_i64(ev, &id)), c);
}

static struct process *process_of(struct rut_callstacks *s, uint64_t key)
{
	struct process *p = rut_map_get(&s->processes, key);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (p && rut_map_put(&s->processes, key, p) < 0) {
		free(p);
		return NULL;
	}
	return p;
}

/* The index of the file, or -ENOMEM. */
static int64_t file_of(struct rut_callstacks *s, const char *path, size_t len, const uint8_t *id,
		       uint8_t id_len)
{
	int64_t at = rut_strtab_intern(&s->paths, path, len);
	struct file *more;

	if (at < 0)
		return at;
	for (size_t i = 0; i < s->nfiles; i++)
		if (!strcmp(s->files[i].path, s->paths.strs[at].data) &&
		    s->files[i].id_len == id_len && !memcmp(s->files[i].id, id, id_len))
			return (int64_t)i;
	more = reallocarray(s->files, s->nfiles + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->files = more;
	more[s->nfiles] = (struct file){.path = s->paths.strs[at].data, .id_len = id_len};
	memcpy(more[s->nfiles].id, id, id_len);
	return (int64_t)s->nfiles++;
}

static uint64_t number(const struct rut_ctf_event *ev, const char *name)
{
	struct rut_ctf_ref ref;

	return rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, name, &ref) ? rut_ctf_u64(ev, &ref)
									    : 0;
}

static int on_mapping(struct rut_callstacks *s, const struct rut_ctf_event *ev)
{
	struct mapping m = {
		.start = number(ev, "start"),
		.end = number(ev, "end"),
		.offset = number(ev, "offset"),
		.since = number(ev, "mapped_ns"),
	};
	uint8_t id[RUT_BUILD_ID_MAX], id_len = 0;
	struct rut_ctf_ref path, build_id;
	struct process *p = process_of(s, key_of(ev, (int64_t)number(ev, "pid")));
	struct mapping *more;
	const char *text;
	int64_t file;
	size_t len, at;

	if (!p)
		return -ENOMEM;
	rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "path", &path);
	if (rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "build_id", &build_id))
		for (; id_len < RUT_BUILD_ID_MAX && id_len < rut_ctf_seq_len(ev, &build_id);
		     id_len++)
			id[id_len] = (uint8_t)rut_ctf_seq_u64(ev, &build_id, id_len);
	text = rut_ctf_str(ev, &path, &len);
	file = file_of(s, text, len, id, id_len);
	more = file < 0 ? NULL : reallocarray(p->list, p->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	m.file = (size_t)file;
	p->list = more;
	for (at = p->count++; at && more[at - 1].since > m.since; at--)
		more[at] = more[at - 1];
	more[at] = m;
	return 0;
}

static int on_forked(struct rut_callstacks *s, const struct rut_ctf_event *ev)
{
	struct process *p = process_of(s, key_of(ev, (int64_t)number(ev, "pid")));

	if (!p)
		return -ENOMEM;
	p->parent = key_of(ev, (int64_t)number(ev, "parent"));
	return 0;
}

static const struct {
	const char *name;
	int (*fn)(struct rut_callstacks *s, const struct rut_ctf_event *ev);
} handlers[] = {
	{"rutile_stack", on_stack},
	{"rutile_ruby_code", on_code},
	{"rutile_mapping", on_mapping},
	{"rutile_forked", on_forked},
};

#define NHANDLERS (sizeof(handlers) / sizeof(*handlers))

static void ignore_loss(const struct rut_ctf_loss *loss, void *arg)
{
}

static void ignore_error(const char *msg, void *arg)
{
}

static int read_all(struct rut_callstacks *s, struct rut_err *err)
{
	/* Losses and errors are reported by the reader of the events. */
	struct rut_ctf_reader_opts opts = {.on_loss = ignore_loss, .on_error = ignore_error};
	const struct rut_ctf_event *ev;
	struct rut_ctf_reader *r;
	bool any = false;
	int rc = rut_ctf_reader_new(&r, s->set, &opts, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < rut_ctf_set_n_classes(s->set); i++) {
		const struct rut_ctf_event_class *cls = rut_ctf_set_class(s->set, i);

		for (size_t h = 0; h < NHANDLERS; h++)
			if (!strcmp(cls->name, handlers[h].name)) {
				rut_ctf_reader_want(r, cls);
				any = true;
			}
	}
	while (any && !rc && (ev = rut_ctf_reader_next(r)))
		for (size_t h = 0; h < NHANDLERS; h++)
			if (!strcmp(ev->cls->name, handlers[h].name))
				rc = handlers[h].fn(s, ev);
	rut_ctf_reader_free(r);
	return rc ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

/* The process: a context of the event, or what the event itself says (rutile_sample). */
static void find_refs(struct refs *r, const struct rut_ctf_event_class *cls)
{
	static const char *const ids[] = {"ustack_id", "kstack_id", "ruby_stack_id"};
	static const enum rut_ctf_scope scopes[] = {
		RUT_CTF_SCOPE_EVENT_CONTEXT, RUT_CTF_SCOPE_STREAM_CONTEXT, RUT_CTF_SCOPE_PAYLOAD};

	for (size_t i = 0; i < RUT_CALLSTACK_KINDS; i++)
		for (size_t k = 0; k < 3 && !rut_ctf_ref_ok(&r->ids[i]); k++)
			rut_ctf_ref_find(cls, scopes[k], ids[i], &r->ids[i]);
	for (size_t k = 0; k < 3 && !rut_ctf_ref_ok(&r->pid); k++)
		rut_ctf_ref_find(cls, scopes[k], "pid", &r->pid);
}

int rut_an_callstacks_load(struct rut_callstacks **ret, struct rut_ctf_set *set, const char *roots,
			   struct rut_err *err)
{
	struct rut_callstacks *s = calloc(1, sizeof(*s));
	size_t n = rut_ctf_set_n_classes(set);
	int rc;

	if (s)
		s->refs = calloc(n + 1, sizeof(*s->refs));
	if (!s || !s->refs) {
		free(s);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	s->nrefs = n;
	s->set = set;
	s->roots = roots;
	pthread_mutex_init(&s->lock, NULL);
	for (size_t i = 0; i < n; i++)
		find_refs(&s->refs[rut_ctf_set_class(set, i)->index], rut_ctf_set_class(set, i));
	rc = read_all(s, err);
	if (rc) {
		rut_an_callstacks_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void rut_an_callstacks_free(struct rut_callstacks *s)
{
	if (!s)
		return;
	rut_map_each(&s->stacks, slot)
		stack_free(slot->value);
	rut_map_fini(&s->stacks);
	rut_map_each(&s->codes, slot)
		code_free(slot->value);
	rut_map_fini(&s->codes);
	rut_map_each(&s->processes, slot) {
		struct process *p = slot->value;

		free(p->list);
		free(p);
	}
	rut_map_fini(&s->processes);
	for (size_t i = 0; i < s->nfiles; i++)
		rut_symbols_free(s->files[i].symbols);
	free(s->files);
	rut_strtab_fini(&s->paths);
	free(s->refs);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Symbols */

void rut_an_callstacks_inherit(struct rut_callstacks *s, struct rut_callstacks *from)
{
	for (size_t i = 0; i < s->nfiles; i++)
		for (size_t k = 0; k < from->nfiles; k++) {
			struct file *to = &s->files[i], *f = &from->files[k];

			/* Without an id the same path may be another file now. */
			if (to->symbols || !f->symbols || !f->id_len || to->id_len != f->id_len ||
			    memcmp(to->id, f->id, f->id_len) != 0 || strcmp(to->path, f->path) != 0)
				continue;
			to->symbols = RUT_TAKE(f->symbols);
			to->tried = true;
		}
}

static bool is_the_file(const struct file *f, const char *path)
{
	uint8_t id[RUT_BUILD_ID_MAX];
	size_t len;

	if (access(path, R_OK) < 0)
		return false;
	len = rut_elf_build_id(path, id);
	return !f->id_len || (len == f->id_len && !memcmp(id, f->id, len));
}

static bool try_open(struct file *f, const char *root, const char *path)
{
	return is_the_file(f, path) && !rut_symbols_open(&f->symbols, root, path);
}

/* Below each of the directories, then on this machine; what is not there may have a debug file. */
static void open_file(struct rut_callstacks *s, struct file *f)
{
	f->tried = true;
	if (f->path[0] != '/')
		return;
	for (const char *root = s->roots; *root;) {
		size_t len = strcspn(root, ":");
		char path[8300], dir[4200];

		snprintf(dir, sizeof(dir), "%.*s", (int)len, root);
		snprintf(path, sizeof(path), "%s%s", dir, f->path);
		if (len && (try_open(f, dir, path) ||
			    !rut_symbols_open_id(&f->symbols, dir, f->id, f->id_len)))
			return;
		root += len + (root[len] == ':');
	}
	if (!try_open(f, "", f->path))
		rut_symbols_open_id(&f->symbols, "", f->id, f->id_len);
}

/* The mapping of that time; before the first recorded one, the first. */
static const struct mapping *find_mapping(const struct process *p, uint64_t address, uint64_t time)
{
	const struct mapping *best = NULL;

	for (size_t i = 0; p && i < p->count; i++) {
		const struct mapping *m = &p->list[i];

		if (address >= m->start && address < m->end && (!best || m->since <= time))
			best = m;
	}
	return best;
}

static void user_frame(struct rut_callstacks *s, const struct rut_ctf_event *ev, uint64_t key,
		       uint64_t address, bool is_return, struct rut_buf *out)
{
	const struct process *p = rut_map_get(&s->processes, key);
	const struct mapping *m = find_mapping(p, address, ev->ts_clock);
	/* A return address can be the first of the next function. */
	uint64_t place, distance = 0;
	const char *name = NULL, *base;
	struct file *f;

	/* What a process has not mapped itself it has from the one that forked it. */
	for (int i = 0; !m && p && p->parent && i < PARENTS_MAX; i++) {
		p = rut_map_get(&s->processes, p->parent);
		m = find_mapping(p, address, ev->ts_clock);
	}
	if (!m) {
		rut_buf_printf(out, "0x%llx", (unsigned long long)address);
		return;
	}
	f = &s->files[m->file];
	place = address - m->start + m->offset;
	pthread_mutex_lock(&s->lock);
	if (!f->tried)
		open_file(s, f);
	pthread_mutex_unlock(&s->lock);
	if (f->symbols)
		name = rut_symbols_find(f->symbols, place - is_return, &distance);
	/* What a signal's handler returns to was never called. */
	if (f->symbols && !name && is_return) {
		name = rut_symbols_find(f->symbols, place, &distance);
		is_return = false;
	}
	base = strrchr(f->path, '/');
	base = base ? base + 1 : f->path;
	if (name)
		rut_buf_printf(out, "%s+0x%llx (%s)", name,
			       (unsigned long long)distance + is_return, base);
	else
		rut_buf_printf(out, "0x%llx (%s+0x%llx)", (unsigned long long)address, base,
			       (unsigned long long)place);
}

/* The i-th of "a;b;c"; the address where its name is not known here. */
static void kernel_frame(const struct stack *st, size_t i, struct rut_buf *out)
{
	const char *name = st->names;

	for (size_t skip = i; skip && name; skip--) {
		name = strchr(name, ';');
		name = name ? name + 1 : NULL;
	}
	if (name && *name && *name != '?')
		rut_buf_printf(out, "%.*s", (int)strcspn(name, ";"), name);
	else
		rut_buf_printf(out, "0x%llx", (unsigned long long)st->addresses[i]);
}

/* The parts of a stack: inner ones refer to outer ones. */
#define PARTS_MAX (RUT_RUBY_DEPTH / (RUT_RUBY_CHUNK - 1) + 2)

size_t rut_an_callstacks_ruby(struct rut_callstacks *s, const struct rut_ctf_event *ev,
			      void (*fn)(const struct rut_ruby_frame *frame, void *arg), void *arg)
{
	static const struct rut_ruby_frame lost = {.path = "", .method = "(stack lost)"};
	const struct rut_ctf_ref *ref =
		ev->cls->index < s->nrefs ? &s->refs[ev->cls->index].ids[RUT_CALLSTACK_RUBY] : NULL;
	int64_t id = ref && rut_ctf_ref_ok(ref) ? rut_ctf_i64(ev, ref) : 0;
	size_t n = 0;

	for (int part = 0; id && part < PARTS_MAX; part++) {
		const struct stack *st = rut_map_get(&s->stacks, key_of(ev, id));

		if (!st) {
			fn(&lost, arg);
			return n + 1;
		}
		for (size_t i = st->count; i-- > 1;) {
			uint64_t word = st->addresses[i];
			const struct rut_ruby_frame *c =
				rut_map_get(&s->codes, key_of(ev, (int64_t)rut_frame_code(word)));
			struct rut_ruby_frame f = {.path = "", .method = "(unknown)"};

			if (c && rut_frame_code(word))
				f = *c;
			f.line = rut_frame_line(word);
			f.begun = word & RUT_FRAME_BEGUN;
			fn(&f, arg);
			n++;
		}
		id = st->count ? (int64_t)st->addresses[0] : 0;
	}
	return n;
}

struct as_text {
	void (*fn)(const char *frame, uint64_t address, void *arg);
	void *arg;
	struct rut_buf text;
};

static void ruby_text(const struct rut_ruby_frame *f, void *arg)
{
	struct as_text *t = arg;

	rut_buf_clear(&t->text);
	rut_buf_puts(&t->text, f->method);
	if (f->path[0])
		rut_buf_printf(&t->text, " (%s:%u)", f->path, f->line);
	if (!t->text.failed)
		t->fn(t->text.data, 0, t->arg);
}

size_t rut_an_callstacks_each(struct rut_callstacks *s, const struct rut_ctf_event *ev,
			      enum rut_callstack_kind kind,
			      void (*fn)(const char *frame, uint64_t address, void *arg), void *arg)
{
	const struct refs *r = ev->cls->index < s->nrefs ? &s->refs[ev->cls->index] : NULL;
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	const struct stack *st;
	uint64_t process;
	int64_t id;

	if (!r || !rut_ctf_ref_ok(&r->ids[kind]))
		return 0;
	if (kind == RUT_CALLSTACK_RUBY) {
		struct as_text t = {fn, arg, RUT_BUF_INIT};
		size_t n = rut_an_callstacks_ruby(s, ev, ruby_text, &t);

		rut_buf_fini(&t.text);
		return n;
	}
	id = rut_ctf_i64(ev, &r->ids[kind]);
	st = rut_map_get(&s->stacks, key_of(ev, id));
	/* 0: there was none. Below it, of 32 bits, stands an error in older traces. */
	if (!st && id && (id > 0 || r->ids[kind].load != RUT_CTF_LOAD_S32)) {
		fn("(stack lost)", 0, arg);
		return 1;
	}
	process = key_of(ev, rut_ctf_i64(ev, &r->pid));
	for (size_t i = 0; st && i < st->count; i++) {
		rut_buf_clear(&text);
		if (kind == RUT_CALLSTACK_KERNEL)
			kernel_frame(st, i, &text);
		else if (st->addresses[i] == RUT_STACK_CUT)
			rut_buf_puts(&text, "(callers not found)");
		else
			user_frame(s, ev, process, st->addresses[i] & ~RUT_STACK_LOOP, i > 0,
				   &text);
		if (text.failed)
			return i;
		fn(text.data, st->addresses[i], arg);
	}
	return st ? st->count : 0;
}
