/* SPDX-License-Identifier: MIT */
#include "script/once.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "script/load.h"

int rut_script_iterate(const struct rut_script_prog *prog, void (*served)(void *arg), void *arg,
		       struct rut_err *err)
{
	_cleanup_close_ int link = bpf_link_create(prog->fd, 0, BPF_TRACE_ITER, NULL), iter = -1;
	char buf[4096];
	ssize_t n;

	if (link < 0)
		return rut_err_errno(err, -link, "cannot attach %s", prog->attach[0].name);
	iter = bpf_iter_create(link);
	if (iter < 0)
		return rut_err_errno(err, -iter, "cannot iterate %s", prog->attach[0].name);
	/* A read continues until some objects were seen; the program itself writes nothing there.
	 */
	while ((n = read(iter, buf, sizeof(buf))) > 0 || (n < 0 && errno == EAGAIN))
		served(arg);
	n = n < 0 ? -errno : 0;
	served(arg);
	return n ? rut_err_errno(err, (int)-n, "cannot iterate %s", prog->attach[0].name) : 0;
}

enum { BENCH_BATCH = 256 };

int rut_script_bench(const struct rut_script_prog *prog, unsigned ms, const uint64_t *stopped,
		     void (*served)(void *arg), void *arg, struct rut_script_bench *ret,
		     struct rut_err *err)
{
	_cleanup_close_ int stats = bpf_enable_stats(BPF_STATS_RUN_TIME);
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);
	uint64_t end = rut_now_ms() + ms;
	int rc = 0;

	if (stats < 0)
		return rut_err_errno(err, -stats, "the kernel cannot measure programs");
	while (!rc && rut_now_ms() < end && !*(const volatile uint64_t *)stopped) {
		for (int i = 0; i < BENCH_BATCH && !rc; i++)
			rc = rut_script_run_prog(prog);
		served(arg);
	}
	if (!rc)
		rc = bpf_obj_get_info_by_fd(prog->fd, &info, &len);
	if (rc)
		return rut_err_errno(err, -rc, "cannot measure %s", prog->attach[0].name);
	ret->runs = info.run_cnt;
	ret->ns = info.run_cnt ? (double)info.run_time_ns / (double)info.run_cnt : 0;
	return 0;
}
