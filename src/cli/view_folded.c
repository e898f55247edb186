/* SPDX-License-Identifier: MIT */
#include "cli/view_folded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define DEPTH_MAX 1200

/* Where each frame's name stands in a buffer, innermost first. */
struct frames {
	struct rut_buf names;
	size_t at[DEPTH_MAX];
	size_t n;
};

void rut_cli_folded_fini(struct rut_folded *f)
{
	rut_strtab_fini(&f->lines);
	free(f->counts);
}

/* The label of a method, as it is. */
static void add_ruby(struct frames *f, const struct rut_ruby_frame *frame)
{
	if (f->n == DEPTH_MAX)
		return;
	f->at[f->n++] = f->names.len;
	for (const char *p = frame->method; *p; p++)
		rut_buf_putc(&f->names, *p == ';' ? ':' : *p);
	rut_buf_putc(&f->names, '\0');
}

/* "function+0x1f (file)" is the function, "0x7f.. (file+0x1f)" a place in the file. */
static void add_frame(const char *frame, uint64_t address, void *arg)
{
	struct frames *f = arg;
	const char *file = strchr(frame, '(');
	size_t len;

	if (f->n == DEPTH_MAX)
		return;
	f->at[f->n++] = f->names.len;
	if (!strncmp(frame, "0x", 2) && file) {
		len = strcspn(file + 1, "+)");
		rut_buf_printf(&f->names, "[%.*s]", (int)len, file + 1);
	} else if (!strncmp(frame, "0x", 2)) {
		rut_buf_puts(&f->names, "[unknown]");
	} else {
		const char *plus = file ? memrchr(frame, '+', (size_t)(file - frame)) : NULL;

		len = plus ? (size_t)(plus - frame) : strlen(frame);
		rut_buf_add(&f->names, frame, len);
	}
	rut_buf_putc(&f->names, '\0');
}

static void add_user(const struct rut_stack_frame *frame, void *arg)
{
	if (frame->ruby)
		add_ruby(arg, frame->ruby);
	else
		add_frame(frame->native, 0, arg);
}

/* The process of the stack: the context or field `procname`. */
static void add_process(const struct rut_ctf_event *ev, struct rut_buf *out)
{
	static const enum rut_ctf_scope scopes[] = {
		RUT_CTF_SCOPE_EVENT_CONTEXT, RUT_CTF_SCOPE_STREAM_CONTEXT, RUT_CTF_SCOPE_PAYLOAD};
	struct rut_ctf_ref ref = {0};
	const char *name;
	size_t len;

	for (size_t i = 0; i < 3 && !rut_ctf_ref_ok(&ref); i++)
		rut_ctf_ref_find(ev->cls, scopes[i], "procname", &ref);
	name = rut_ctf_ref_ok(&ref) ? rut_ctf_str(ev, &ref, &len) : NULL;
	if (!name || !len) {
		name = ev->cls->name;
		len = strlen(name);
	}
	/* ';' and ' ' separate. */
	for (size_t i = 0; i < len; i++)
		rut_buf_putc(out, name[i] == ';' || name[i] == ' ' ? '_' : name[i]);
}

static int count_line(struct rut_folded *f, const struct rut_buf *line)
{
	int64_t id = rut_strtab_intern(&f->lines, line->data, line->len);

	if (id < 0)
		return -ENOMEM;
	if ((size_t)id >= f->n_counts) {
		size_t n = f->n_counts ? f->n_counts * 2 : 256;
		uint64_t *more = reallocarray(f->counts, n, sizeof(*more));

		if (!more)
			return -ENOMEM;
		memset(more + f->n_counts, 0, (n - f->n_counts) * sizeof(*more));
		f->counts = more;
		f->n_counts = n;
	}
	f->counts[id]++;
	return 0;
}

int rut_cli_folded_add(struct rut_folded *f, const struct rut_ctf_event *ev)
{
	_cleanup_buf_ struct rut_buf line = RUT_BUF_INIT;
	struct frames frames = {.names = RUT_BUF_INIT};
	int rc = 0;

	rut_an_callstacks_each(f->stacks, ev, RUT_CALLSTACK_KERNEL, add_frame, &frames);
	rut_an_callstacks_merged(f->stacks, ev, add_user, &frames);
	if (frames.n && !frames.names.failed) {
		add_process(ev, &line);
		while (frames.n)
			rut_buf_printf(&line, ";%s", frames.names.data + frames.at[--frames.n]);
		rc = line.failed ? -ENOMEM : count_line(f, &line);
	}
	rut_buf_fini(&frames.names);
	return rc;
}

struct row {
	uint64_t count;
	const char *line;
};

static int by_count(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return strcmp(x->line, y->line);
}

void rut_cli_folded_print(const struct rut_folded *f, struct rut_buf *out)
{
	_cleanup_free_ struct row *rows = calloc(f->lines.count + 1, sizeof(*rows));

	if (!rows) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < f->lines.count; i++)
		rows[i] = (struct row){f->counts[i], f->lines.strs[i].data};
	if (f->lines.count)
		qsort(rows, f->lines.count, sizeof(*rows), by_count);
	for (size_t i = 0; i < f->lines.count; i++)
		rut_buf_printf(out, "%s %llu\n", rows[i].line, (unsigned long long)rows[i].count);
}
