/* SPDX-License-Identifier: MIT */
/*
 * Constants that scripts take from headers. Enumerators are in the kernel's BTF; these are macros,
 * which are not. Their values are those of this machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "script/check.h"
#include "script/symbolize.h"

#define C(name)                                                                                    \
	{                                                                                          \
#name, (int64_t)(name)                                                             \
	}

static const struct {
	const char *name;
	int64_t value;
} constants[] = {
	C(AF_UNSPEC),
	C(AF_UNIX),
	C(AF_INET),
	C(AF_INET6),
	C(AF_NETLINK),
	C(AF_PACKET),
	C(SOCK_STREAM),
	C(SOCK_DGRAM),
	C(SOCK_RAW),
	C(SOCK_NONBLOCK),
	C(SOCK_CLOEXEC),
	C(O_RDONLY),
	C(O_WRONLY),
	C(O_RDWR),
	C(O_ACCMODE),
	C(O_CREAT),
	C(O_EXCL),
	C(O_TRUNC),
	C(O_APPEND),
	C(O_NONBLOCK),
	C(O_DIRECT),
	C(O_DIRECTORY),
	C(O_CLOEXEC),
	C(O_SYNC),
	C(O_PATH),
	C(O_TMPFILE),
	C(AT_FDCWD),
	C(PROT_NONE),
	C(PROT_READ),
	C(PROT_WRITE),
	C(PROT_EXEC),
	C(MAP_SHARED),
	C(MAP_PRIVATE),
	C(MAP_ANONYMOUS),
	C(MAP_FIXED),
	C(EPERM),
	C(ENOENT),
	C(EINTR),
	C(EIO),
	C(EBADF),
	C(EAGAIN),
	C(ENOMEM),
	C(EACCES),
	C(EFAULT),
	C(EBUSY),
	C(EEXIST),
	C(ENODEV),
	C(ENOTDIR),
	C(EISDIR),
	C(EINVAL),
	C(EMFILE),
	C(ENOSPC),
	C(EPIPE),
	C(EINPROGRESS),
	C(ECONNREFUSED),
	C(ECONNRESET),
	C(ETIMEDOUT),
	C(SIGHUP),
	C(SIGINT),
	C(SIGQUIT),
	C(SIGABRT),
	C(SIGKILL),
	C(SIGSEGV),
	C(SIGPIPE),
	C(SIGALRM),
	C(SIGTERM),
	C(SIGUSR1),
	C(SIGUSR2),
	C(SIGCHLD),
	C(SIGCONT),
	C(SIGSTOP),
	/* linux/sched.h */
	{"TASK_RUNNING", 0},
	{"TASK_INTERRUPTIBLE", 1},
	{"TASK_UNINTERRUPTIBLE", 2},
	{"__TASK_STOPPED", 4},
	{"__TASK_TRACED", 8},
	{"TASK_DEAD", 0x80},
	{"PF_KTHREAD", 0x200000},
};

bool rut_constant_find(const char *name, int64_t *ret)
{
	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++) {
		if (strcmp(constants[i].name, name) != 0)
			continue;
		*ret = constants[i].value;
		return true;
	}
	/* asm/unistd.h */
	if (!strncmp(name, "__NR_", 5)) {
		*ret = rut_script_syscall_number(name + 5);
		return *ret >= 0;
	}
	return false;
}
