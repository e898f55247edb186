/* SPDX-License-Identifier: MIT */
/*
 * Ruby and native frames in one stack. The interpreter's loop is a C function that runs Ruby frames
 * until one of them calls C code that calls Ruby again: for that the loop is entered once more. So
 * each of its frames in the native stack stands for one run of Ruby frames, and each run begins
 * with a Ruby frame that is marked (RUT_FRAME_BEGUN). Their numbers are equal, but for the moment
 * in which the innermost frame has been pushed and its loop not entered, or the reverse. What a
 * native stack has between two loops was called by the last method of the outer one's run.
 *
 * Code that is compiled at run time has no frames of the loop: a run of compiled code counts as
 * begun and has none. So native frames are paired up to the first that is in no file, and the order
 * is not known where there is no loop before it. What is known always: the innermost native frames
 * are the innermost.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/callstack.h"
#include "base/cleanup.h"
#include "bpf/ruby.h"
#include "bpf/unwind.h"

struct native {
	size_t text; /* in texts */
	uint64_t address;
};

struct both {
	struct rut_buf texts;
	struct native *native; /* innermost first; owned */
	struct rut_ruby_frame *ruby;
	size_t nnative, nruby, loops, begun;
	bool cut, failed;
	bool compiled; /* cut where a frame is in no file: the code was compiled at run time */
};

/* Room for one more of a list that grows by 64. */
static bool grow(struct both *b, void **list, size_t n, size_t size)
{
	void *more = n % 64 ? *list : reallocarray(*list, n + 64, size);

	if (!more)
		b->failed = true;
	else
		*list = more;
	return !b->failed;
}

static bool is_in_no_file(const char *frame)
{
	return !strncmp(frame, "0x", 2) && !strchr(frame, '(');
}

static void take_native(const char *frame, uint64_t address, void *arg)
{
	struct both *b = arg;

	if (!b->cut && b->nruby && is_in_no_file(frame))
		b->cut = b->compiled = true;
	if (address == RUT_STACK_CUT)
		b->cut = true;
	if (b->cut)
		return;
	if (grow(b, (void **)&b->native, b->nnative, sizeof(*b->native))) {
		b->native[b->nnative++] = (struct native){b->texts.len, address};
		rut_buf_add(&b->texts, frame, strlen(frame) + 1);
		b->loops += (address & RUT_STACK_LOOP) != 0;
	}
}

static void take_ruby(const struct rut_ruby_frame *frame, void *arg)
{
	struct both *b = arg;

	if (!grow(b, (void **)&b->ruby, b->nruby, sizeof(*b->ruby)))
		return;
	b->ruby[b->nruby++] = *frame;
	b->begun += frame->begun;
}

/* --- order --------------------------------------------------------------------------------- */

struct giving {
	const struct both *b;
	size_t in, ir; /* the next */
	void (*fn)(const struct rut_stack_frame *frame, void *arg);
	void *arg;
};

/* The interpreter's own functions are what the Ruby frames say in other words. */
static bool is_rubys(const char *frame)
{
	const char *file = strrchr(frame, '(');

	return file && (!strncmp(file, "(libruby", 8) || !strncmp(file, "(ruby", 5));
}

static void give_native(struct giving *g)
{
	const struct native *n = &g->b->native[g->in++];
	struct rut_stack_frame f = {.native = g->b->texts.data + n->text};

	if (!(n->address & RUT_STACK_LOOP) && !(g->b->nruby && is_rubys(f.native)))
		g->fn(&f, g->arg);
}

/* Those inside of the next loop. */
static void give_natives(struct giving *g)
{
	while (g->in < g->b->nnative && !(g->b->native[g->in].address & RUT_STACK_LOOP))
		give_native(g);
}

static bool give_ruby(struct giving *g)
{
	struct rut_stack_frame f = {.ruby = &g->b->ruby[g->ir++]};

	g->fn(&f, g->arg);
	return f.ruby->begun;
}

/* Outwards: what the innermost method called, its run, what called that. */
static void give_ordered(struct giving *g)
{
	const struct both *b = g->b;
	bool whole = !b->cut && b->nruby < RUT_RUBY_DEPTH;

	give_natives(g);
	if (whole && b->loops > b->begun) {
		g->in++;
		give_natives(g);
	}
	/* A frame that was just pushed has no loop yet. */
	if (whole && b->begun > b->loops)
		while (g->ir < b->nruby && !give_ruby(g))
			;
	while (g->ir < b->nruby) {
		if (!give_ruby(g) || g->in >= b->nnative)
			continue;
		g->in++;
		/* What is outside of all Ruby code is how every thread begins. */
		if (g->ir < b->nruby)
			give_natives(g);
	}
}

/* The innermost native frames that are not the interpreter's, then Ruby's. */
static void give_block(struct giving *g)
{
	const struct both *b = g->b;
	bool unknown = false;

	while (g->in < b->nnative && !(b->native[g->in].address & RUT_STACK_LOOP)) {
		const char *text = b->texts.data + b->native[g->in].text;

		/* Without frame pointers the rest is made of what lies on the stack. */
		if (b->nruby && is_rubys(text))
			break;
		if (is_in_no_file(text)) {
			g->in += unknown;
			if (unknown)
				continue;
			unknown = true;
		}
		give_native(g);
	}
	while (g->ir < b->nruby)
		give_ruby(g);
}

/*
 * Is it certain that the innermost loop belongs to the innermost run? A frame can be pushed before
 * its loop is entered, and popped before it is left. Where all are counted this shows in their
 * numbers. Else a C method must have code of its own there, and Ruby code none.
 */
static bool is_settled(const struct both *b)
{
	bool own = false;

	for (size_t i = 0; i < b->nnative && !(b->native[i].address & RUT_STACK_LOOP); i++)
		own |= !is_rubys(b->texts.data + b->native[i].text);
	return own == b->ruby[0].is_c;
}

static bool is_ordered(const struct both *b)
{
	if (!b->nruby || !b->loops)
		return false;
	if (b->compiled && !is_settled(b))
		return false;
	if (b->cut || b->nruby >= RUT_RUBY_DEPTH)
		return b->cut ? b->loops <= b->begun : b->loops >= b->begun;
	return b->loops <= b->begun + 1 && b->begun <= b->loops + 1;
}

int rut_an_callstacks_merged(struct rut_callstacks *s, const struct rut_ctf_event *ev,
			     void (*fn)(const struct rut_stack_frame *frame, void *arg), void *arg)
{
	struct both b = {.texts = RUT_BUF_INIT};
	struct giving g = {.b = &b, .fn = fn, .arg = arg};
	bool ordered;

	rut_an_callstacks_ruby(s, ev, take_ruby, &b);
	rut_an_callstacks_each(s, ev, RUT_CALLSTACK_USER, take_native, &b);
	ordered = is_ordered(&b);
	b.failed |= b.texts.failed;
	if (!b.failed && ordered)
		give_ordered(&g);
	else if (!b.failed)
		give_block(&g);
	rut_buf_fini(&b.texts);
	free(b.native);
	free(b.ruby);
	return b.failed ? -ENOMEM : b.nruby && b.nnative && !ordered;
}
