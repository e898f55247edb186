/* SPDX-License-Identifier: MIT */
#include "self.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t fork_count;

uint32_t rut_agent_self_tid(void)
{
	static __thread struct {
		uint32_t tid, fork_count;
	} cache __attribute__((tls_model("initial-exec")));

	if (__builtin_expect(!cache.tid || cache.fork_count != fork_count, 0)) {
		cache.tid = (uint32_t)syscall(SYS_gettid);
		cache.fork_count = fork_count;
	}
	return cache.tid;
}

void rut_agent_self_forked(void)
{
	fork_count++;
}

/* Not stat(): before glibc 2.33 that is another function. */
static bool is_inode(const char *path, uint64_t ino)
{
	struct stat st;

	if (syscall(SYS_newfstatat, AT_FDCWD, path, &st, 0))
		return errno == ENOENT && !ino;
	return st.st_ino == ino;
}

bool rut_agent_self_is_in(uint64_t pid_ns, uint64_t time_ns)
{
	return !prctl(PR_GET_SECCOMP, 0, 0, 0, 0) && pid_ns &&
	       is_inode("/proc/self/ns/pid", pid_ns) && is_inode("/proc/self/ns/time", time_ns);
}
