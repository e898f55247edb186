/* SPDX-License-Identifier: MIT */
/* The records of code, by its address: see code.c. */
#ifndef RUT_AGENT_CODE_H
#define RUT_AGENT_CODE_H

#include "core.h"

/*
 * The row that a call of this record's code belongs to, when it is not like the last one; `ment` as
 * in the record. NULL: none.
 */
struct rut_variant *rut_agent_code_resolve(struct rut_rec *r, struct rut_trace_arg *ta, VALUE ment);
/* The hook of this record is of no use: it is removed later, unless others share it. */
void rut_agent_code_drop(struct rut_rec *r);
void rut_agent_codes_init(struct rut_codes *codes);
void rut_agent_codes_fini(struct rut_codes *codes);
void rut_agent_recs_fini(struct rut_recs *recs);
/* From now on this is the record of its code, which has a hook of its own. */
void rut_agent_code_adopt(struct rut_session *s, struct rut_rec *r);
/* The record of this code; NULL: the filter leaves it out. */
struct rut_rec *rut_agent_code_rec(struct rut_session *s, VALUE iseq, bool bmethod);
/* The method that begins; NULL: it is not wanted. Its hook is that of a file. */
struct rut_variant *rut_agent_code_variant(struct rut_session *s, struct rut_trace_arg *ta);

static inline struct rut_agent_code *rut_code_slot(const struct rut_codes *codes, VALUE iseq)
{
	uint32_t hash = (uint32_t)(iseq * 0x9e3779b97f4a7c15ull >> 32);

	return &codes->slots[hash & codes->mask];
}

/*
 * The method entry of a frame of Ruby code: one for each method of each class or module that
 * defines it, whatever the receiver's class. Once the method has used $~ or $_ it is behind them.
 */
static inline VALUE rut_frame_ment(const VALUE *cfp)
{
	VALUE v = ((const VALUE *)cfp[RUT_FRAME_EP])[RUT_ENV_MENT];

	if (RUT_UNLIKELY(!rut_special_p(v) && rut_imemo(v) == RUT_IMEMO_SVAR))
		v = ((const VALUE *)v)[1];
	return v;
}

/* The row that a call of this record's code belongs to; NULL: none. After rut_lives_sync(). */
static inline struct rut_variant *rut_rec_variant(struct rut_rec *r, struct rut_trace_arg *ta)
{
	VALUE ment = rut_frame_ment(ta->cfp);

	if (RUT_LIKELY(r->ment == ment && ((const VALUE *)ta->cfp)[RUT_FRAME_ISEQ] == r->iseq &&
		       rut_life_holds(r->life)))
		return r->last;
	return rut_agent_code_resolve(r, ta, ment);
}

/* The code that is called, when the call is usual: `row` and `v` are its method's. */
static RUT_INLINE const struct rut_agent_code *rut_hot_call(const struct rut_session *s,
							    const struct rut_trace_arg *ta)
{
	const VALUE *cfp = ta->cfp;
	VALUE iseq = cfp[RUT_FRAME_ISEQ];
	VALUE ment = ((const VALUE *)cfp[RUT_FRAME_EP])[RUT_ENV_MENT];
	const struct rut_agent_code *code = rut_code_slot(&s->codes, iseq);

	if (RUT_UNLIKELY(!rut_single_ractor() || !rut_lives_synced()))
		return NULL;
	while (RUT_UNLIKELY(code->iseq != iseq)) {
		if (!code->life.epoch)
			return NULL;
		if (++code > &s->codes.slots[s->codes.mask])
			code = s->codes.slots;
	}
	if (RUT_UNLIKELY(code->ment != ment || !rut_life_holds_plainly(code->call_life)))
		return NULL;
	return code;
}

#endif
