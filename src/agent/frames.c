/* SPDX-License-Identifier: MIT */
#include "frames.h"

/* Of an execution context, the first words since 2.5: the stack, its words, the innermost frame. */
#define EC_STACK 0
#define EC_WORDS 1
#define EC_CFP	 2

#define STACK_WORDS_MAX (1u << 28)
#define BOTTOM_WORDS	64

static size_t frame_words;
static void *running_ec;

static void on_newobj_once(VALUE index, struct rut_trace_arg *ta)
{
	running_ec = ta->ec;
}

/* Only an event hook exposes the ec, so allocate one object to fire it. */
static void *find_running_ec(void)
{
	VALUE data = 1; /* a Fixnum */

	running_ec = NULL;
	rb.rb_add_event_hook2(on_newobj_once, RUT_EVENT_NEWOBJ, data, RUT_HOOK_RAW);
	rb.rb_str_new("", 0);
	rb.rb_remove_event_hook_with_data(on_newobj_once, data);
	return running_ec;
}

/* The control frames of a context, whatever their size is; false: it has none (any more). */
static bool bounds_of(const void *ec, struct rut_frames *ret)
{
	const uintptr_t *e = ec;
	uintptr_t base = e[EC_STACK], words = e[EC_WORDS], cfp = e[EC_CFP];

	if (!base || base % sizeof(VALUE) || !words || words > STACK_WORDS_MAX)
		return false;
	ret->inner = (const VALUE *)cfp;
	ret->end = (const VALUE *)base + words;
	return cfp % sizeof(VALUE) == 0 && cfp > base && ret->inner < ret->end;
}

/*
 * The outermost frame of every stack is one that Ruby puts there itself, when the stack is empty:
 * its `sp` is at the other end. No other word of a frame can be that, so the size is found.
 */
static size_t find_frame_words(const void *ec)
{
	uintptr_t base = ((const uintptr_t *)ec)[EC_STACK];
	struct rut_frames f;

	if (!bounds_of(ec, &f))
		return 0;
	for (size_t n = 6; n <= 8; n++)
		if ((size_t)(f.end - f.inner) % n == 0 &&
		    (f.end - n)[RUT_FRAME_SP] - base < BOTTOM_WORDS * sizeof(VALUE))
			return n;
	return 0;
}

void *rut_agent_frames_learn(void)
{
	void *ec = find_running_ec();

	if (ec)
		frame_words = find_frame_words(ec);
	return frame_words ? ec : NULL;
}

bool rut_agent_frames_of(const void *ec, struct rut_frames *ret)
{
	ret->words = frame_words;
	return frame_words && bounds_of(ec, ret) &&
	       (size_t)(ret->end - ret->inner) % frame_words == 0;
}
