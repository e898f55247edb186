/* SPDX-License-Identifier: MIT */
/* How often a trigger may act: so many times within an interval, and not too soon after it did. */
#ifndef RUT_TRIGGER_LIMIT_H
#define RUT_TRIGGER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct rut_trigger_limit {
	uint64_t burst, interval_ns, cooldown_ns;
	uint64_t begin_ns; /* of the interval; 0: none has begun */
	uint64_t used;	   /* within it */
	uint64_t quiet_until_ns;
};

/* May it act at `now_ns`? If so that is counted. */
bool rut_trigger_limit_take(struct rut_trigger_limit *l, uint64_t now_ns);

/* Its actions have ended. */
void rut_trigger_limit_ended(struct rut_trigger_limit *l, uint64_t now_ns);

#endif
