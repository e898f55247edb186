/* SPDX-License-Identifier: MIT */
#include "analysis/off.h"

#include <string.h>

#include "analysis/callstack.h"

const char *const rut_an_off_names[RUT_OFFS] = {
	[RUT_OFF_CPU] = "CPU",	 [RUT_OFF_DISK] = "disk",   [RUT_OFF_NETWORK] = "network",
	[RUT_OFF_LOCK] = "lock", [RUT_OFF_GVL] = "GVL",	    [RUT_OFF_SLEEP] = "sleep",
	[RUT_OFF_PIPE] = "pipe", [RUT_OFF_CHILD] = "child", [RUT_OFF_RUN_QUEUE] = "run queue",
	[RUT_OFF_POLL] = "poll", [RUT_OFF_OTHER] = "other",
};

/* Functions of the kernel, by their beginnings. */
static const struct {
	const char *prefix;
	enum rut_off off;
} functions[] = {
	{"futex_", RUT_OFF_LOCK},
	{"io_schedule", RUT_OFF_DISK},
	{"folio_wait", RUT_OFF_DISK},
	{"wait_on_page", RUT_OFF_DISK},
	{"jbd2_", RUT_OFF_DISK},
	{"blk_", RUT_OFF_DISK},
	{"submit_bio", RUT_OFF_DISK},
	{"do_nanosleep", RUT_OFF_SLEEP},
	{"hrtimer_nanosleep", RUT_OFF_SLEEP},
	{"pipe_", RUT_OFF_PIPE},
	{"anon_pipe_", RUT_OFF_PIPE},
	{"do_wait", RUT_OFF_CHILD},
	{"kernel_wait4", RUT_OFF_CHILD},
	{"ep_poll", RUT_OFF_POLL},
	{"do_epoll_wait", RUT_OFF_POLL},
	{"do_poll", RUT_OFF_POLL},
	{"do_sys_poll", RUT_OFF_POLL},
	{"do_select", RUT_OFF_POLL},
	{"sk_wait", RUT_OFF_NETWORK},
	{"tcp_", RUT_OFF_NETWORK},
	{"inet_", RUT_OFF_NETWORK},
	{"unix_", RUT_OFF_NETWORK},
	{"sock_", RUT_OFF_NETWORK},
	{"__skb_wait", RUT_OFF_NETWORK},
	{"rwsem_down", RUT_OFF_LOCK},
	{"__mutex_lock", RUT_OFF_LOCK},
};

enum rut_off rut_an_off_kernel(const char *function, bool *ret_futex)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		if (strncmp(function, functions[i].prefix, strlen(functions[i].prefix)) != 0)
			continue;
		*ret_futex = *ret_futex || i == 0;
		return functions[i].off;
	}
	return RUT_OFF_OTHER;
}

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

/*
 * All of Ruby's own waits are futexes or polls: the reason follows from the C method that
 * does it. A thread that waits in any other place waits to be let into the interpreter.
 */
enum rut_off rut_an_off_ruby(const struct rut_ruby_frame *innermost, bool futex,
			     enum rut_off kernel)
{
	static const char *const locks[] = {"Mutex#lock",
					    "Mutex#synchronize",
					    "Mutex#sleep",
					    "ConditionVariable#wait",
					    "Queue#pop",
					    "Queue#shift",
					    "Queue#deq",
					    "Queue#push",
					    "Queue#<<",
					    "Thread#join",
					    "Thread#value",
					    "Monitor#enter",
					    "Monitor#synchronize",
					    "Monitor#wait_for_cond",
					    "Monitor#mon_enter",
					    "Ractor.receive",
					    "Ractor#take"};
	static const char *const sockets[] = {"Socket#", "Socket.", "SSLSocket", "TCPServer#",
					      "UNIXServer#"};
	const char *method = innermost->method;
	/* Which of these depends on the version; other: neither calls nor stacks were recorded. */
	bool own = futex || kernel == RUT_OFF_POLL || kernel == RUT_OFF_OTHER;

	if (!innermost->is_c)
		return futex ? RUT_OFF_GVL : kernel;
	if (own && ends(method, "sleep") && !ends(method, "Mutex#sleep"))
		return RUT_OFF_SLEEP;
	for (size_t i = 0; own && i < sizeof(locks) / sizeof(*locks); i++)
		if (ends(method, locks[i]))
			return RUT_OFF_LOCK;
	for (size_t i = 0; own && !futex && i < sizeof(sockets) / sizeof(*sockets); i++)
		if (strstr(method, sockets[i]))
			return RUT_OFF_NETWORK;
	return futex ? RUT_OFF_GVL : kernel;
}
