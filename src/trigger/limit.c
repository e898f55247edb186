/* SPDX-License-Identifier: MIT */
#include "trigger/limit.h"

bool rut_trigger_limit_take(struct rut_trigger_limit *l, uint64_t now_ns)
{
	if (now_ns < l->quiet_until_ns)
		return false;
	if (!l->begin_ns || now_ns - l->begin_ns >= l->interval_ns) {
		l->begin_ns = now_ns;
		l->used = 0;
	}
	if (l->used == l->burst)
		return false;
	l->used++;
	return true;
}

void rut_trigger_limit_ended(struct rut_trigger_limit *l, uint64_t now_ns)
{
	l->quiet_until_ns = l->cooldown_ns ? now_ns + l->cooldown_ns : 0;
}
