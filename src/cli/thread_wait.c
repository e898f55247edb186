/* SPDX-License-Identifier: MIT */
#include "cli/thread_wait.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "session/events.h"

/* Calls with a descriptor as the first argument. */
static bool takes_fd(const char *call)
{
	static const char *const calls[] = {
		"read",	    "write",   "readv",	    "writev",  "pread64",  "pwrite64",
		"recvfrom", "recvmsg", "sendto",    "sendmsg", "connect",  "accept",
		"accept4",  "fsync",   "fdatasync", "flock",   "sendfile",
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (strcmp(call, calls[i]) == 0)
			return true;
	return false;
}

/* The first descriptor that it polls; -1: none, or its memory cannot be read. */
static int polled_fd(pid_t pid, uint64_t address, uint64_t count)
{
	struct pollfd pfd = {.fd = -1};
	struct iovec to = {.iov_base = &pfd, .iov_len = sizeof(pfd)};
	struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = sizeof(pfd)};

	if (!count || process_vm_readv(pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof(pfd))
		return -1;
	return pfd.fd;
}

/* "0100007F:1538", as the kernel writes it: words in the byte order of the machine. */
static bool peer_text(const char *hex, char *ret, size_t size)
{
	uint32_t words[4];
	char address[INET6_ADDRSTRLEN];
	size_t digits = strcspn(hex, ":"), n = digits / 8;
	unsigned port;

	if ((digits != 8 && digits != 32) || sscanf(hex + digits, ":%x", &port) != 1)
		return false;
	for (size_t i = 0; i < n; i++)
		if (sscanf(hex + 8 * i, "%8" SCNx32, &words[i]) != 1)
			return false;
	if (!inet_ntop(n == 1 ? AF_INET : AF_INET6, words, address, sizeof(address)))
		return false;
	snprintf(ret, size, n == 1 ? "TCP %s:%u" : "TCP [%s]:%u", address, port);
	return true;
}

/* The peer of the socket with this inode. */
static bool tcp_peer(pid_t pid, const char *table, uint64_t inode, char *ret, size_t size)
{
	char path[64], line[512], remote[64];
	_cleanup_file_ FILE *f = NULL;
	uint64_t found;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, table);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " %*d: %*s %63s %*s %*s %*s %*s %*s %*s %" SCNu64, remote,
			   &found) == 2 &&
		    found == inode)
			return peer_text(remote, ret, size);
	return false;
}

static void describe_fd(pid_t pid, int fd, char *ret, size_t size)
{
	char path[64];
	uint64_t inode;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	n = readlink(path, ret, size - 1);
	ret[n > 0 ? n : 0] = '\0';
	if (sscanf(ret, "socket:[%" SCNu64 "]", &inode) == 1 &&
	    !tcp_peer(pid, "tcp", inode, ret, size))
		tcp_peer(pid, "tcp6", inode, ret, size);
}

static bool read_line(const char *path, char *line, size_t size)
{
	_cleanup_file_ FILE *f = fopen(path, "re");

	return f && fgets(line, (int)size, f);
}

void rut_cli_thread_wait(pid_t pid, pid_t tid, struct rut_thread_wait *ret)
{
	char path[80], line[256];
	uint64_t args[2] = {0};
	uint32_t nr;
	int fd = -1;

	*ret = (struct rut_thread_wait){0};
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)tid);
	if (!read_line(path, line, sizeof(line)) ||
	    sscanf(line, "%" SCNu32 " %" SCNx64 " %" SCNx64, &nr, &args[0], &args[1]) < 3)
		return;
	ret->call = rut_syscall_name(nr);
	if (!ret->call)
		return;
	if (takes_fd(ret->call))
		fd = (int)args[0];
	else if (strcmp(ret->call, "poll") == 0 || strcmp(ret->call, "ppoll") == 0)
		fd = polled_fd(pid, args[0], args[1]);
	if (fd >= 0)
		describe_fd(pid, fd, ret->object, sizeof(ret->object));
}
