/* SPDX-License-Identifier: MIT */
/*
 * The lists in which Ruby keeps the hooks of a piece of code, and what of them is ours.
 */
#include "hooklist.h"

#include "code.h"
#include "hooks.h"
#include "iseq.h"

/*
 * Layouts, from vm_core.h and vm_trace.c of Ruby 2.6 to 3.4. struct rb_iseq_struct: flags, wrapper,
 * body, local hooks. rb_hook_list_t: first hook. rb_event_hook_t: flags and events, function, data,
 * next.
 */
#define ISEQ_HOOKS 3
#define HOOK_WHAT  0
#define HOOK_FUNC  1
#define HOOK_DATA  2
#define HOOK_NEXT  3
#define HOOKS_MAX  256

/*
 * The record of a tracepoint of this session, or NULL. Tracepoints of sessions that are over are
 * still in the heap until the next GC, disabled, and their records are freed. Layout of struct
 * rb_tp_t: events and tracing, thread, targets, func, data.
 */
struct rut_rec *rut_agent_hooklist_rec(const struct rut_session *s, VALUE v)
{
	const void *type;
	const uintptr_t *tp = rut_typed_data(v, &type);

	if (!tp || rut_klass(v) != rb.c_tracepoint || !((const int *)tp)[1])
		return NULL;
	for (int i = 2; i < 5; i++)
		if (rut_agent_hook_is_ours((rut_tp_fn)tp[i]) &&
		    rut_agent_session_owns(s, (const void *)tp[i + 1]))
			return (struct rut_rec *)tp[i + 1];
	return NULL;
}

/* 4.0 keeps them in a table of the ractor; what was their address in the code is a number there. */
bool rut_agent_hooklist_known(void)
{
	return rb.abi->hooks_in_code;
}

unsigned rut_agent_hooklist_count(const struct rut_session *s, VALUE iseq, bool method)
{
	const VALUE *list = (const VALUE *)((const VALUE *)iseq)[ISEQ_HOOKS];
	const VALUE *hook = list ? (const VALUE *)list[0] : NULL;
	unsigned n = 0;

	for (int i = 0; hook && i < HOOKS_MAX; i++, hook = (const VALUE *)hook[HOOK_NEXT]) {
		const struct rut_rec *r = rut_agent_hooklist_rec(s, hook[HOOK_DATA]);

		n += r && (r->kind == RUT_REC_FILE ? method : r->iseq == iseq);
	}
	return n;
}

struct rut_rec *rut_agent_hooklist_rec_on(struct rut_session *s, VALUE iseq, bool bmethod)
{
	const VALUE *list = (const VALUE *)((const VALUE *)iseq)[ISEQ_HOOKS];
	const VALUE *hook = list ? (const VALUE *)list[0] : NULL;

	for (int i = 0; hook && i < HOOKS_MAX; i++, hook = (const VALUE *)hook[HOOK_NEXT]) {
		struct rut_rec *r = rut_agent_hooklist_rec(s, hook[HOOK_DATA]);

		if (r && r->kind == RUT_REC_FILE && !bmethod)
			return rut_agent_code_rec(s, iseq, false);
		if (r && r->iseq == iseq)
			return r;
	}
	return NULL;
}

/*
 * A hook of a tracepoint calls a function of Ruby's, which checks the kind of the object and
 * calls ours, which asks Ruby for the arguments. Ours can as well be called at once. That it is
 * such a hook says its first word, made of flags and events.
 */
void rut_agent_hooklist_make_direct(const struct rut_session *s, VALUE iseq, VALUE tp, int kind)
{
	rut_raw_fn direct = rut_agent_hook_direct(s, kind);
	VALUE *list, *hook;
	uint32_t events;

	if (!direct || !rut_agent_hooklist_known())
		return;
	rut_agent_hook_for(s, kind, &events);
	list = (VALUE *)((const VALUE *)iseq)[ISEQ_HOOKS];
	hook = list ? (VALUE *)list[0] : NULL;
	for (int i = 0; hook && i < HOOKS_MAX; i++, hook = (VALUE *)hook[HOOK_NEXT])
		if (hook[HOOK_DATA] == tp &&
		    hook[HOOK_WHAT] == ((uint64_t)events << 32 | RUT_HOOK_RAW))
			hook[HOOK_FUNC] = (VALUE)direct;
}

static void collect_targets(VALUE obj, void *data)
{
	if (rut_special_p(obj))
		return;
	if (rut_imemo(obj) == RUT_IMEMO_ISEQ)
		rut_list_add(data, obj);
}

void rut_agent_hooklist_targets(VALUE obj, void *data)
{
	if (!rut_special_p(obj) && rut_type(obj) == RUT_T_HASH)
		rb.rb_objspace_reachable_objects_from(obj, collect_targets, data);
}
