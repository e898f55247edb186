/* SPDX-License-Identifier: MIT */
/*
 * Disabling a tracepoint. What Ruby does with the lists of hooks of the code that it was enabled
 * for is wrong in two ways until 3.1, so there we hold the lists: Ruby takes a list that is held
 * for one that is being run, and frees neither it nor the hooks in it. That is then ours to do.
 *
 * Ruby 2.6 and 2.7 keep what they should free. A hook that is taken away stays in the list of its
 * code, with its tracepoint, as long as there is another one; and counts as one that is left, so
 * that the list and the slow instructions stay. An empty list is forgotten, not
 * freed (by 3.0 too).
 *
 * And a list may not be freed at any moment. For an event, Ruby until 3.1 reads the address of the
 * code's own list, runs the hooks of all code (the application's TracePoint, say), and then those
 * in the list. In the middle of the former, threads and fibers are switched and jobs such as ours
 * run. The list must still be there afterwards, empty: it is kept until no such hook is enabled.
 */
#include "disable.h"

#include "hooklist.h"
#include "iseq.h"
#include "list.h"

#define HOOK_DELETED 2u /* RUBY_EVENT_HOOK_FLAG_DELETED */
#define DEPTH_MAX    32

/* rb_hook_list_t, as far as it is the same everywhere. */
struct hook_list {
	uintptr_t *first; /* rb_event_hook_t: flags and events, function, data, next */
	uint32_t events;
};

struct disable {
	VALUE tp;
	struct rut_list targets;      /* what it is enabled for: one */
	struct rut_list codes, lists; /* the code in these that has hooks, and its lists before */
};

/* Lists that Ruby has forgotten and may still read. Each is held. */
static struct rut_list forgotten;

static struct hook_list *hook_list(VALUE iseq)
{
	return (struct hook_list *)((uintptr_t *)iseq)[3];
}

static uint32_t *running(struct hook_list *list)
{
	return (uint32_t *)((char *)list + rb.abi->hooks_running);
}

/* A bool in 3.1, with another one behind it; an int before. */
static uint8_t *unclean(struct hook_list *list)
{
	return (uint8_t *)list + rb.abi->hooks_unclean;
}

static bool keeps_hooks(void)
{
	return rb.abi->keeps_hooks == RUT_KEEPS_HOOKS ||
	       (rb.abi->keeps_hooks == RUT_KEEPS_HOOKS_SINGLE && rut_single_ractor());
}

/*
 * May something be in the hooks of all code now, about to run those of one list? Ruby counts the
 * events of a hook until it is disabled and no hook runs any more. Coverage is not meant: its hooks
 * run no Ruby code.
 */
static bool global_hooks(void)
{
	const uint32_t code_events = RUT_EVENT_LINE | RUT_EVENT_CLASS | RUT_EVENT_END |
				     RUT_EVENT_CALL | RUT_EVENT_RETURN | RUT_EVENT_B_CALL |
				     RUT_EVENT_B_RETURN;

	return !rb.ruby_vm_event_flags || *rb.ruby_vm_event_flags & code_events;
}

static bool must_hold(void)
{
	return keeps_hooks() ||
	       (rb.abi->reads_hooks_early && rut_single_ractor() && global_hooks());
}

static void free_hooks(struct hook_list *list, bool all)
{
	uintptr_t **next = &list->first, *hook;
	uint32_t events = 0;

	while ((hook = *next)) {
		const uint32_t *flags = (const uint32_t *)hook;

		if (all || flags[0] & HOOK_DELETED) {
			*next = (uintptr_t *)hook[3];
			rb.ruby_xfree(hook);
		} else {
			events |= flags[1];
			next = (uintptr_t **)&hook[3];
		}
	}
	list->events = events;
	*unclean(list) = 0;
}

/* Frees the forgotten lists that no thread can be about to run. */
static void free_forgotten(void)
{
	size_t left = 0;

	if (!forgotten.count || global_hooks())
		return;
	for (size_t i = 0; i < forgotten.count; i++) {
		struct hook_list *list = (struct hook_list *)forgotten.items[i];

		if (*running(list) > 1) {
			forgotten.items[left++] = (VALUE)list;
			continue;
		}
		free_hooks(list, true);
		rb.ruby_xfree(list);
	}
	forgotten.count = left;
}

static void hold_lists(struct disable *d, VALUE wrapper, int depth)
{
	VALUE iseq = rut_agent_iseq_of(wrapper);
	struct rut_list l = {0};

	if (!rut_agent_iseq_ready(iseq) || depth > DEPTH_MAX)
		return;
	if (hook_list(iseq) && rut_list_add(&d->lists, (VALUE)hook_list(iseq))) {
		if (rut_list_add(&d->codes, iseq))
			++*running(hook_list(iseq));
		else
			d->lists.count--;
	}
	rut_agent_iseq_children(wrapper, &l);
	for (size_t i = 0; i < l.count; i++)
		hold_lists(d, l.items[i], depth + 1);
	rut_list_fini(&l);
}

static void release_lists(struct disable *d)
{
	for (size_t i = 0; i < d->lists.count; i++) {
		struct hook_list *list = (struct hook_list *)d->lists.items[i];

		if (hook_list(d->codes.items[i]) != list)
			rut_list_add(&forgotten, (VALUE)list); /* and stays held */
		else if (--*running(list) == 0 && *unclean(list))
			free_hooks(list, false);
	}
	rut_list_fini(&d->targets);
	rut_list_fini(&d->lists);
	rut_list_fini(&d->codes);
	free_forgotten();
}

static VALUE hold_body(VALUE arg)
{
	struct disable *d = (struct disable *)arg;

	rb.rb_objspace_reachable_objects_from(d->tp, rut_agent_hooklist_targets, &d->targets);
	if (must_hold() && d->targets.count && rut_agent_iseq_ready(d->targets.items[0]))
		hold_lists(d, rut_agent_iseq_wrapper(d->targets.items[0]), 0);
	return rb.qnil;
}

static VALUE disable_body(VALUE arg)
{
	struct disable *d = (struct disable *)arg;

	rb.rb_tracepoint_disable(d->tp);
	return rb.qnil;
}

static void protect(VALUE (*fn)(VALUE), VALUE arg)
{
	int failed = 0;

	rb.rb_protect(fn, arg, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
}

VALUE rut_agent_disable(VALUE tp, bool wants_code)
{
	struct disable d = {.tp = tp};
	volatile VALUE code = 0; /* for the GC: a tracepoint of ours has one target */

	if (wants_code || must_hold())
		protect(hold_body, (VALUE)&d);
	if (d.targets.count)
		code = d.targets.items[0];
	protect(disable_body, (VALUE)&d);
	release_lists(&d);
	return wants_code ? code : 0;
}
