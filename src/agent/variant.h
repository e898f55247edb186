/* SPDX-License-Identifier: MIT */
/*
 * Variants: a session's record of a method in one class, which is a row of its table.
 *
 * Code can be that of many classes (module_function, dup, a method that is defined in a loop or for
 * each object), and classes come and go. There is one variant for each row, so they are as many as
 * there are names; and one table from the address of a class to the variant, whose entries hold for
 * a time (life.h) and are dropped when it grows. So a call of a class that was never seen costs
 * looking up its name, and what is kept is bounded by what Ruby itself keeps.
 */
#ifndef RUT_AGENT_VARIANT_H
#define RUT_AGENT_VARIANT_H

#include "core.h"

int rut_agent_variants_init(struct rut_session *s);
void rut_agent_variants_fini(struct rut_session *s);

struct rut_variant *rut_agent_variant_of_row(const struct rut_session *s,
					     struct rut_agent_row *row);

/*
 * The method `mid` of this class, with the record's code. NULL: the filter leaves it out
 * (*ret_excluded), or memory is short. Nothing in here waits for anything of Ruby's: ractors come
 * here side by side.
 */
struct rut_variant *rut_agent_variant_find(const struct rut_rec *r, VALUE owner, VALUE mid,
					   bool *ret_excluded);

/* Is it the method `mid` of this class? */
bool rut_agent_variant_is(const struct rut_session *s, const struct rut_variant *v, VALUE owner,
			  VALUE mid);

/*
 * How large a table should be that is full, of mask `mask`: twice as large when most of its entries
 * still hold, otherwise as it is.
 */
static inline uint32_t rut_grown_mask(uint32_t mask, uint32_t holding, uint32_t min)
{
	if (mask < min - 1)
		return min - 1;
	return holding > mask / 2 ? mask * 2 + 1 : mask;
}

#endif
