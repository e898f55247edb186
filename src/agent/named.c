/* SPDX-License-Identifier: MIT */
#include "named.h"

#include "core.h"
#include "iseq.h"
#include "names.h"
#include "within.h"

#include <string.h>

/* rb_method_entry_t: flags, defined class, definition, called id, owner; until 3.4 at least. */
#define MENT_DEF   2
#define MENT_ID	   3
#define MENT_OWNER 4
/* struct rb_method_definition_struct: type and counts, then the code. */
#define DEF_ISEQ 1

VALUE rut_agent_named_code(VALUE ment)
{
	return ((const VALUE *)((const VALUE *)ment)[MENT_DEF])[DEF_ISEQ];
}

static size_t first_of(const struct rut_list *ments, VALUE iseq)
{
	size_t low = 0, high = ments->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (rut_agent_named_code(ments->items[mid]) < iseq)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool wanted(struct rut_named *n, VALUE owner, const char *method)
{
	if (owner != n->owner) {
		n->owner = owner;
		rut_agent_class_name(owner, n->name, sizeof(n->name), &n->singleton);
	}
	return rut_agent_filter_name(&n->s->filter, n->name, n->singleton, method);
}

enum rut_named_is rut_agent_named_is(struct rut_named *n, VALUE iseq)
{
	size_t i = first_of(n->ments, iseq), len, yes = 0, no = 0;
	const char *label = rut_agent_str(rb.rb_profile_frame_base_label(iseq), &len);
	char method[256];

	if (len >= sizeof(method))
		return RUT_NAMED_UNKNOWN;
	memcpy(method, label, len);
	method[len] = 0;
	for (; i < n->ments->count && rut_agent_named_code(n->ments->items[i]) == iseq; i++) {
		VALUE owner = ((const VALUE *)n->ments->items[i])[MENT_OWNER];

		if (rut_special_p(owner))
			return RUT_NAMED_UNKNOWN;
		if (wanted(n, owner, method))
			yes++;
		else
			no++;
	}
	if (yes == 0 && no > 0)
		return RUT_NAMED_UNWANTED;
	return yes && !no ? RUT_NAMED_WANTED : RUT_NAMED_UNKNOWN;
}

void rut_agent_named_row(struct rut_session *s, VALUE entry)
{
	const VALUE *ment = (const VALUE *)entry;
	const uint32_t *def = (const uint32_t *)ment[MENT_DEF];
	VALUE iseq;
	const char *method = ment[MENT_ID] ? rb.rb_id2name(ment[MENT_ID]) : NULL;
	struct rut_agent_rows *t = &s->table;
	uint32_t path, class_str;
	char name[1024];
	bool singleton;

	/* It may have become a refined one since it was found. */
	if (!def || (*def & 15) != RUT_METHOD_TYPE_ISEQ)
		return;
	iseq = rut_agent_named_code(entry);
	if (!method || rut_special_p(ment[MENT_OWNER]) || !rut_agent_iseq_ready(iseq) ||
	    !rut_agent_session_wants_file(s, iseq, &path))
		return;
	rut_agent_class_name(ment[MENT_OWNER], name, sizeof(name), &singleton);
	rut_agent_within_found(s, name, singleton, (ID)ment[MENT_ID], method);
	class_str = rut_agent_table_str(t, name, strlen(name));
	rut_agent_table_row(t, path, (uint32_t)rut_fix2long(rb.rb_profile_frame_first_lineno(iseq)),
			    class_str, rut_agent_table_str(t, method, strlen(method)),
			    singleton ? RUT_ROW_SINGLETON : 0);
}
