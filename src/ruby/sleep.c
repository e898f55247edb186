/* SPDX-License-Identifier: MIT */
#include "ruby/sleep.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

/*
 * For a wait with its end nearer than this it is not known whether the stop ended it, or whether
 * it ended before and the stop met the next one. Longer than a tick, by which our own start may be
 * old.
 */
#define MARGIN_NS 10000000u

bool rut_sched_parse(const char *text, struct rut_sched *ret)
{
	const char *start = strstr(text, "se.exec_start");
	const char *switches = strstr(text, "nr_voluntary_switches");
	struct rut_sched s;

	if (!start || !switches || sscanf(start, "%*s : %lf", &s.exec_start_ms) != 1 ||
	    sscanf(switches, "%*s : %" SCNu64, &s.switches) != 1 || s.exec_start_ms <= 0)
		return false;
	*ret = s;
	return true;
}

bool rut_sched_read(pid_t pid, pid_t tid, struct rut_sched *ret)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/sched", pid, tid);
	return rut_buf_read_file(&text, path, 1 << 16) >= 0 && text.data &&
	       rut_sched_parse(text.data, ret);
}

/* Field 39 of its stat, or -1. */
static int last_cpu(pid_t pid, pid_t tid)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char path[64];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	if (rut_buf_read_file(&text, path, 8192) < 0 || !text.data)
		return -1;
	p = strrchr(text.data, ')');
	for (int field = 2; p && field < 39; field++)
		p = strchr(p + 1, ' ');
	return p ? atoi(p + 1) : -1;
}

/*
 * When each was last at work: now for ourselves, before its sleep for the thread. Read twice, so
 * that it is the same sleep on the same CPU. Returns the difference in nanoseconds, or 0.
 */
static uint64_t read_on_cpu(pid_t pid, pid_t tid, int cpu, struct rut_sleep *ret)
{
	struct rut_sched its, mine, again;

	if (!rut_sched_read(pid, tid, &its) || !rut_sched_read(getpid(), gettid(), &mine))
		return 0;
	ret->at_ns = rut_now_ns();
	ret->switches = its.switches;
	if (!rut_sched_read(pid, tid, &again) || again.exec_start_ms != its.exec_start_ms ||
	    again.switches != its.switches || last_cpu(pid, tid) != cpu ||
	    mine.exec_start_ms < its.exec_start_ms)
		return 0;
	return (uint64_t)((mine.exec_start_ms - its.exec_start_ms) * 1e6);
}

void rut_sleep_read(pid_t pid, pid_t tid, uint64_t limit_ns, struct rut_sleep *ret)
{
	cpu_set_t before, there;
	int cpu = last_cpu(pid, tid);

	*ret = (struct rut_sleep){.limit_ns = limit_ns};
	/* Each CPU has a clock of its own for this: go to where the thread went to sleep. */
	CPU_ZERO(&there);
	if (!limit_ns || cpu < 0 || cpu >= CPU_SETSIZE ||
	    sched_getaffinity(0, sizeof(before), &before) < 0)
		return;
	CPU_SET(cpu, &there);
	if (sched_setaffinity(0, sizeof(there), &there) < 0)
		return;
	ret->slept_ns = read_on_cpu(pid, tid, cpu, ret);
	sched_setaffinity(0, sizeof(before), &before);
	/* Nothing that still sleeps has slept for longer than its limit. */
	if (ret->slept_ns > limit_ns)
		ret->slept_ns = 0;
}

bool rut_sleep_ends_soon(const struct rut_sleep *sleep)
{
	return sleep->slept_ns && sleep->limit_ns > 2 * MARGIN_NS &&
	       sleep->limit_ns - sleep->slept_ns < 2 * MARGIN_NS;
}

uint64_t rut_sleep_until(const struct rut_sleep *sleep, uint64_t stop_ns, uint64_t switches)
{
	uint64_t slept_ns = sleep->slept_ns + (stop_ns - sleep->at_ns);

	/* One switch more: that of the stop. Two: it has woken and slept again. */
	if (!sleep->slept_ns || switches > sleep->switches + 1 ||
	    slept_ns + MARGIN_NS > sleep->limit_ns)
		return 0;
	return slept_ns;
}
