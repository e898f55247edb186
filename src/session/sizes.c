/* SPDX-License-Identifier: MIT */
#include "session/sizes.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "ring/ring.h"

/* A sub-buffer's size when none was asked for: 1/16 of a ring, 256 KiB to 1 MiB where that is
 * possible. */
static uint64_t choose_subbuf(uint64_t each, uint64_t max)
{
	uint64_t sub = each / 16;

	if (sub > 256 << 10)
		sub = each / 64 > 256 << 10 ? each / 64 : 256 << 10;
	if (sub > 1 << 20)
		sub = 1 << 20;
	if (sub < each / RUT_RING_MAX_SUBBUFS)
		sub = each / RUT_RING_MAX_SUBBUFS;
	if (sub < RUT_SUBBUF_MIN)
		sub = RUT_SUBBUF_MIN;
	return sub < max ? sub : max;
}

/* "100M", "1.5G": the largest unit with at most one decimal. */
static void size_text(char *to, size_t size, uint64_t bytes)
{
	const char *units = "KMGT";
	double n = (double)bytes / 1024;

	while (n >= 1024 && units[1]) {
		n /= 1024;
		units++;
	}
	snprintf(to, size, n < 10 && n != (double)(uint64_t)n ? "%.1f%c" : "%.0f%c", n, *units);
}

static void explain(struct rut_sizes *s, uint64_t asked, uint64_t taken, const char *why)
{
	char a[32], t[32];

	size_text(a, sizeof(a), asked);
	size_text(t, sizeof(t), taken);
	snprintf(s->note, sizeof(s->note), "the buffer has %s instead of %s: %s", t, a, why);
}

int rut_sizes_choose(struct rut_sizes *ret, const struct rut_record_conf *conf,
		     const struct rut_sizes_limits *limits, struct rut_err *err)
{
	const uint64_t ncpus = (uint64_t)limits->ncpus, most = limits->memory_bytes / 2;
	uint64_t total = conf->buffer_bytes ? conf->buffer_bytes : ncpus << 24;
	uint64_t each, sub = conf->subbuf_bytes, taken;

	*ret = (struct rut_sizes){.shift = 14, .count = 2};
	if (conf->buffer_bytes && most && total > most)
		total = most;
	each = total / ncpus;
	if (!sub)
		sub = choose_subbuf(each, limits->subbuf_bytes);
	else if (sub < RUT_SUBBUF_MIN || sub > RUT_SUBBUF_MAX)
		return rut_err_set(err, EINVAL, "sub-buffers must have 16K to 4M bytes each");
	while ((2ull << ret->shift) <= sub)
		ret->shift++;
	while (((uint64_t)ret->count * 2) << ret->shift <= each &&
	       ret->count < RUT_RING_MAX_SUBBUFS)
		ret->count *= 2;
	taken = ncpus * ret->count << ret->shift;
	if (taken > total && conf->buffer_bytes)
		return rut_err_set(err, EINVAL,
				   "a buffer of %llu bytes is too small for %d CPUs: at least %llu",
				   (unsigned long long)total, limits->ncpus,
				   (unsigned long long)ncpus * 2 << ret->shift);
	if (taken >= conf->buffer_bytes)
		return 0;
	if (ret->count == RUT_RING_MAX_SUBBUFS && taken * 2 <= total)
		explain(ret, conf->buffer_bytes, taken,
			conf->subbuf_bytes
				? "a ring has at most 256 sub-buffers, which --subbuf makes small"
				: "this kernel has no larger rings");
	else if (total < conf->buffer_bytes)
		explain(ret, conf->buffer_bytes, taken,
			"at most half of the machine's memory is taken");
	else
		explain(ret, conf->buffer_bytes, taken, "each CPU's part is a power of two");
	return 0;
}
