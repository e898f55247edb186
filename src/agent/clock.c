/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include "base/tsc.h"

bool rut_agent_clock_is_tsc;

void rut_agent_clock_init(void)
{
	rut_agent_clock_is_tsc = rut_tsc_is_clock();
}

void rut_agent_clock_learn(void)
{
	rut_agent_clock_is_tsc = true;
}
