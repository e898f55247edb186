/* SPDX-License-Identifier: MIT */
#include "ruby/within.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "ruby/internal.h"

static bool option_is(int fd, int option, int value)
{
	int is = 0;
	socklen_t len = sizeof(is);

	return !getsockopt(fd, SOL_SOCKET, option, &is, &len) && len == sizeof(is) && is == value;
}

/*
 * The process may have closed its socket, and have another file of that number, or name one that
 * leads elsewhere: the map is for no other process. What is no socket is not asked anything that
 * its file system would answer. The pid is that of our namespace.
 */
static bool is_socket_of(const struct rut_tracee *p, int fd)
{
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);
	struct stat st;

	return option_is(fd, SO_DOMAIN, AF_UNIX) && option_is(fd, SO_TYPE, SOCK_SEQPACKET) &&
	       !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) && len == sizeof(peer) &&
	       peer.pid == p->pid && !fstat(fd, &st) && S_ISSOCK(st.st_mode) &&
	       st.st_ino == p->table->socket_ino;
}

void rut_within_send(struct rut_tracee *p, int map_fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	char byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	uint32_t number = p->table ? __atomic_load_n(&p->table->socket_fd, __ATOMIC_RELAXED) : 0;
	_cleanup_close_ int fd = -1;

	if (!number || p->pidfd < 0)
		return;
	fd = (int)syscall(SYS_pidfd_getfd, p->pidfd, (int)number - 1, 0);
	if (fd < 0 || !is_socket_of(p, fd))
		return;
	control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(map_fd)),
					.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.head), &map_fd, sizeof(map_fd));
	sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}
