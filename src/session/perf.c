/* SPDX-License-Identifier: MIT */
#include "session/perf.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "session/recorder.h"

#define HARDWARE(name, id)                                                                         \
	{                                                                                          \
		name, PERF_TYPE_HARDWARE, PERF_COUNT_HW_##id                                       \
	}
#define SOFTWARE(name, id)                                                                         \
	{                                                                                          \
		name, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##id                                       \
	}
#define CACHE(name, id, op, result)                                                                \
	{                                                                                          \
		name, PERF_TYPE_HW_CACHE,                                                          \
			PERF_COUNT_HW_CACHE_##id | PERF_COUNT_HW_CACHE_OP_##op << 8 |              \
				PERF_COUNT_HW_CACHE_RESULT_##result << 16                          \
	}
#define CACHES(prefix, id, plural, op)                                                             \
	CACHE(prefix "-" plural "s", id, op, ACCESS),                                              \
		CACHE(prefix "-" plural "-misses", id, op, MISS)

static const struct counter {
	const char *name;
	uint32_t type;
	uint64_t config;
} counters[] = {
	HARDWARE("cpu-cycles", CPU_CYCLES),
	HARDWARE("cycles", CPU_CYCLES),
	HARDWARE("stalled-cycles-frontend", STALLED_CYCLES_FRONTEND),
	HARDWARE("idle-cycles-frontend", STALLED_CYCLES_FRONTEND),
	HARDWARE("stalled-cycles-backend", STALLED_CYCLES_BACKEND),
	HARDWARE("idle-cycles-backend", STALLED_CYCLES_BACKEND),
	HARDWARE("instructions", INSTRUCTIONS),
	HARDWARE("cache-references", CACHE_REFERENCES),
	HARDWARE("cache-misses", CACHE_MISSES),
	HARDWARE("branch-instructions", BRANCH_INSTRUCTIONS),
	HARDWARE("branches", BRANCH_INSTRUCTIONS),
	HARDWARE("branch-misses", BRANCH_MISSES),
	HARDWARE("bus-cycles", BUS_CYCLES),
	CACHES("L1-dcache", L1D, "load", READ),
	CACHES("L1-dcache", L1D, "store", WRITE),
	CACHE("L1-dcache-prefetches", L1D, PREFETCH, ACCESS),
	CACHE("L1-dcache-prefetch-misses", L1D, PREFETCH, MISS),
	CACHES("L1-icache", L1I, "load", READ),
	CACHES("L1-icache", L1I, "store", WRITE),
	CACHE("L1-icache-prefetches", L1I, PREFETCH, ACCESS),
	CACHE("L1-icache-prefetch-misses", L1I, PREFETCH, MISS),
	CACHES("LLC", LL, "load", READ),
	CACHES("LLC", LL, "store", WRITE),
	CACHE("LLC-prefetches", LL, PREFETCH, ACCESS),
	CACHE("LLC-prefetch-misses", LL, PREFETCH, MISS),
	CACHES("dTLB", DTLB, "load", READ),
	CACHES("dTLB", DTLB, "store", WRITE),
	CACHE("dTLB-prefetches", DTLB, PREFETCH, ACCESS),
	CACHE("dTLB-prefetch-misses", DTLB, PREFETCH, MISS),
	CACHES("iTLB", ITLB, "load", READ),
	CACHES("branch", BPU, "load", READ),
	SOFTWARE("cpu-clock", CPU_CLOCK),
	SOFTWARE("task-clock", TASK_CLOCK),
	SOFTWARE("page-fault", PAGE_FAULTS),
	SOFTWARE("faults", PAGE_FAULTS),
	SOFTWARE("major-faults", PAGE_FAULTS_MAJ),
	SOFTWARE("minor-faults", PAGE_FAULTS_MIN),
	SOFTWARE("context-switches", CONTEXT_SWITCHES),
	SOFTWARE("cs", CONTEXT_SWITCHES),
	SOFTWARE("cpu-migrations", CPU_MIGRATIONS),
	SOFTWARE("migrations", CPU_MIGRATIONS),
	SOFTWARE("alignment-faults", ALIGNMENT_FAULTS),
	SOFTWARE("emulation-faults", EMULATION_FAULTS),
};

#define NCOUNTERS (sizeof(counters) / sizeof(*counters))

/* "cpu:raw:r1C2:my_name": a number of the processor's own. */
static int parse_raw(const char *name, struct counter *ret)
{
	char *end;

	if (strncmp(name, "raw:r", 5) != 0)
		return -EINVAL;
	*ret = (struct counter){.name = name, .type = PERF_TYPE_RAW};
	ret->config = strtoull(name + 5, &end, 16);
	return end > name + 5 && *end == ':' && end[1] &&
			       strspn(end + 1,
				      "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(end + 1)
		       ? 0
		       : -EINVAL;
}

static int find(const char *name, struct counter *ret)
{
	if (strncmp(name, "cpu:", 4) != 0)
		return -EINVAL;
	for (size_t i = 0; i < NCOUNTERS; i++)
		if (!strcmp(name + 4, counters[i].name)) {
			*ret = counters[i];
			return 0;
		}
	return parse_raw(name + 4, ret);
}

int rut_perf_check(const char *name, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;
	struct counter c;

	if (strlen(name) < RUT_PERF_NAME && !find(name, &c))
		return 0;
	for (size_t i = 0; i < NCOUNTERS; i++)
		rut_buf_printf(&names, "%s%s", i ? ", " : "", counters[i].name);
	return rut_err_set(err, EINVAL,
			   "unknown counter 'perf:%s': perf:cpu:NAME, of %s, or "
			   "perf:cpu:raw:rNUMBER:NAME",
			   name, names.data ? names.data : "");
}

void rut_perf_field(struct rut_buf *out, const char *name)
{
	rut_buf_puts(out, "perf_");
	for (; *name; name++)
		rut_buf_putc(out, *name == ':' || *name == '-' ? '_' : *name);
}

static int open_counter(const struct counter *c, int cpu)
{
	struct perf_event_attr attr = {
		.type = c->type,
		.size = sizeof(attr),
		.config = c->config,
	};

	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int rut_perf_has_pmu(void)
{
	static const struct counter cycles = HARDWARE("cycles", CPU_CYCLES);
	_cleanup_close_ int fd = open_counter(&cycles, 0);

	return fd >= 0;
}

/* The kernel's answers for a counter that the processor, or its virtual machine, lacks. */
static bool is_missing(int code)
{
	return code == ENOENT || code == EOPNOTSUPP || code == EINVAL;
}

/* 0; 1: this machine has no such counter; or -errno. */
static int open_on_all(struct rut_recorder *r, const struct counter *c, uint32_t slot,
		       struct rut_err *err)
{
	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		_cleanup_close_ int fd = open_counter(c, cpu);
		uint32_t key = slot * (uint32_t)r->ncpus + (uint32_t)cpu;

		if (fd < 0 && errno == ENODEV)
			continue; /* offline */
		if (fd < 0 && is_missing(errno))
			return 1;
		if (fd < 0)
			return rut_err_errno(err, errno, "cannot open the counter 'perf:%s'",
					     r->conf.perf[slot]);
		if (bpf_map_update_elem(r->fds[RUT_MAP_PERF_COUNTERS], &key, &fd, BPF_ANY) < 0)
			return is_missing(errno) ? 1
						 : rut_err_errno(err, errno,
								 "cannot use the counter "
								 "'perf:%s'",
								 r->conf.perf[slot]);
	}
	return 0;
}

int rut_perf_open(struct rut_recorder *r, struct rut_err *err)
{
	for (uint32_t i = 0; i < RUT_PERF_MAX; i++) {
		const uint64_t bit = rut_contexts[RUT_CTX_AT_PERF0 + i].bit;
		const char *why;
		struct counter c;
		int rc;

		if (!(r->conf.contexts & bit) || find(r->conf.perf[i], &c) < 0)
			continue;
		rc = open_on_all(r, &c, i, err);
		if (rc < 0)
			return rc;
		if (!rc)
			continue;
		why = rut_perf_has_pmu() ? "the processor has no such counter"
					 : "this machine has no performance counters (PMU)";
		if (r->conf.strict)
			return rut_err_set(err, ENOENT, "context 'perf:%s': %s", r->conf.perf[i],
					   why);
		rut_warn("context 'perf:%s' is not recorded: %s", r->conf.perf[i], why);
		r->conf.contexts &= ~bit;
	}
	return 0;
}
