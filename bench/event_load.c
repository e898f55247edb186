/* SPDX-License-Identifier: MIT */
/*
 * Events of one kind, as fast as they go, for what traces them.
 *
 *	event_load KIND COUNT		KIND: open, spawn, signal, switch, sync, flush, direct, drop
 *
 * "sync", "flush" and "direct" write a file in the current directory, which is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int open_files(long count)
{
	for (long i = 0; i < count; i++) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return -1;
		close(fd);
	}
	return 0;
}

static int spawn(long count)
{
	char name[] = "true", *argv[] = {name, NULL};

	for (long i = 0; i < count; i++) {
		pid_t pid;

		if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ))
			return -1;
		waitpid(pid, NULL, 0);
	}
	return 0;
}

static int send_signals(long count)
{
	for (long i = 0; i < count; i++)
		kill(getpid(), SIGURG); /* which is ignored */
	return 0;
}

/* Two processes that wake each other. */
static int switch_tasks(long count)
{
	int there[2], back[2];
	char byte = 0;
	pid_t child;

	if (pipe(there) || pipe(back))
		return -1;
	child = fork();
	if (!child) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	for (long i = 0; i < count / 2; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return -1;
	close(there[1]);
	waitpid(child, NULL, 0);
	return 0;
}

enum { NO_SYNC, SYNC, FLUSH };

static int write_file(long count, int flags, int sync)
{
	static char block[4096] __attribute__((aligned(4096)));
	int fd = open("event_load.tmp", O_CREAT | O_RDWR | O_CLOEXEC | flags, 0600), rc = 0;

	if (fd < 0)
		return -1;
	unlink("event_load.tmp");
	for (long i = 0; i < count && !rc; i++) {
		rc = pwrite(fd, block, sizeof(block), (i % 256) * 4096) == sizeof(block) ? 0 : -1;
		if (!rc && sync)
			rc = sync == FLUSH ? syncfs(fd) : fsync(fd);
	}
	close(fd);
	return rc;
}

/* Datagrams that nobody receives. */
static int drop(long count)
{
	const struct sockaddr_in nobody = {
		.sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	for (long i = 0; i < count; i++)
		(void)!sendto(fd, "x", 1, 0, (const struct sockaddr *)&nobody, sizeof(nobody));
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 2 ? argv[1] : "";
	long count = argc > 2 ? atol(argv[2]) : 0;
	int rc = -2;

	if (!strcmp(kind, "open"))
		rc = open_files(count);
	else if (!strcmp(kind, "spawn"))
		rc = spawn(count);
	else if (!strcmp(kind, "signal"))
		rc = send_signals(count);
	else if (!strcmp(kind, "switch"))
		rc = switch_tasks(count);
	else if (!strcmp(kind, "sync"))
		rc = write_file(count, 0, SYNC);
	else if (!strcmp(kind, "flush"))
		rc = write_file(count, 0, FLUSH);
	else if (!strcmp(kind, "direct"))
		rc = write_file(count, O_DIRECT, NO_SYNC);
	else if (!strcmp(kind, "drop"))
		rc = drop(count);
	if (rc == -2)
		fprintf(stderr, "usage: event_load KIND COUNT\n");
	else if (rc)
		perror(kind);
	return rc ? 1 : 0;
}
