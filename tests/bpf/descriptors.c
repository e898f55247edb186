/* SPDX-License-Identifier: MIT */
/*
 * descriptors SEED STEPS: makes and ends descriptors by every means, in random order. Now and then
 * it prints its PID and how many it has, from /proc/self/fd, and calls getppid(), which marks that
 * moment in a trace. Means that this machine lacks or refuses do nothing.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST 10 /* lower ones are left alone */
#define LAST  200

static int any(void)
{
	return FIRST + rand() % (LAST - FIRST);
}

static void mark(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	/* The directory's own is not there any more. */
	printf("%d %d\n", getpid(), n - 1);
	fflush(stdout);
	syscall(SYS_getppid);
}

static void connection(int flags)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | flags, 0), c = socket(AF_INET, SOCK_STREAM, 0);

	if (!bind(l, (void *)&a, sizeof(a)) && !listen(l, 1) && !getsockname(l, (void *)&a, &len) &&
	    !connect(c, (void *)&a, len))
		(void)!accept4(l, NULL, NULL, flags);
	close(l);
}

/* Sends descriptors to itself, with credentials before them now and then. */
static void pass(int flags)
{
	union {
		char buf[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} c = {0};
	int pair[2], one = 1, count = 1 + rand() % 3, fds[3] = {0, 1, 2};
	char byte = 1;
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = c.buf,
			   .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
		return;
	if (rand() % 2)
		setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one));
	*h = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
			      .cmsg_len = CMSG_LEN((size_t)count * sizeof(int))};
	memcpy(CMSG_DATA(h), fds, (size_t)count * sizeof(int));
	sendmsg(pair[0], &m, 0);
	m.msg_controllen = sizeof(c);
	recvmsg(pair[1], &m, flags ? MSG_CMSG_CLOEXEC : 0);
	close(pair[0]);
}

/* By calls that open something. */
static void open_by(int how)
{
	int pair[2], cloexec = rand() % 2 ? O_CLOEXEC : 0;
	unsigned long attr[16] = {0};
	sigset_t set;

	sigemptyset(&set);
	switch (how) {
	case 0:
		(void)!open("/", O_RDONLY | cloexec);
		break;
	case 1:
		(void)!pipe2(pair, cloexec);
		break;
	case 2:
		(void)!syscall(SYS_pipe, pair);
		break;
	case 3:
		(void)!socketpair(AF_UNIX, SOCK_STREAM | cloexec, 0, pair);
		break;
	case 4:
		eventfd(0, cloexec);
		break;
	case 5:
		syscall(SYS_eventfd, 0);
		break;
	case 6:
		epoll_create1(cloexec);
		break;
	case 7:
		syscall(SYS_epoll_create, 5);
		break;
	case 8:
		timerfd_create(CLOCK_MONOTONIC, cloexec);
		break;
	case 9:
		memfd_create("x", cloexec ? MFD_CLOEXEC : 0);
		break;
	case 10:
		signalfd(-1, &set, cloexec);
		break;
	case 11:
		inotify_init1(cloexec);
		break;
	case 12:
		syscall(SYS_inotify_init);
		break;
	case 13:
		syscall(SYS_pidfd_open, getpid(), 0);
		break;
	case 14:
		syscall(SYS_userfaultfd, cloexec | 1);
		break;
	case 15:
		memset(attr, 0, sizeof(attr));
		syscall(SYS_io_uring_setup, 2, attr);
		break;
	}
}

/* By calls that copy or receive a descriptor. */
static void copy_by(int how)
{
	int cloexec = rand() % 2 ? O_CLOEXEC : 0;

	switch (how) {
	case 16:
		(void)!dup(1);
		break;
	case 17:
		(void)!dup2(1, any());
		break;
	case 18:
		(void)!dup3(2, any(), cloexec);
		break;
	case 19:
		fcntl(1, F_DUPFD, FIRST);
		break;
	case 20:
		fcntl(1, F_DUPFD_CLOEXEC, FIRST);
		break;
	case 21:
		connection(cloexec);
		break;
	case 22:
		pass(cloexec);
		break;
	}
}

/* By newer calls, and by calls that make none. */
static void make_by(int how)
{
	int cloexec = rand() % 2 ? O_CLOEXEC : 0;
	sigset_t set;

	sigemptyset(&set);
	switch (how) {
	case 23:
		(void)!openat(AT_FDCWD, "/tmp", O_RDONLY | cloexec);
		break;
	case 24:
		syscall(SYS_bpf, 0, (unsigned[32]){2, 4, 4, 1}, 128);
		break;
	case 25: {
		int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

		syscall(SYS_pidfd_getfd, self, 1, 0);
		break;
	}
	case 26:
		fanotify_init(cloexec ? FAN_CLOEXEC : 0, 0);
		break;
	case 27:
		syscall(SYS_open_tree, AT_FDCWD, "/tmp", cloexec);
		break;
	case 28:
		syscall(SYS_fsopen, "tmpfs", cloexec ? 1 : 0);
		break;
	case 29:
		syscall(SYS_landlock_create_ruleset, (unsigned long[1]){1}, 8, 0);
		break;
	case 30:
		syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
		break;
	case 31:
		syscall(SYS_memfd_secret, cloexec);
		break;
	case 32:
		signalfd(9, &set, 0);
		break;
	case 33:
		syscall(SYS_openat2, AT_FDCWD, "/", (unsigned long[3]){0}, 24);
		break;
	case 34:
		(void)!dup2(1, 1);
		break;
	default:
		(void)!creat("/dev/null", 0600);
	}
}

static void make(int how)
{
	if (how < 16)
		open_by(how);
	else if (how < 23)
		copy_by(how);
	else
		make_by(how);
}

static void end(void)
{
	int fd = any();

	switch (rand() % 6) {
	case 0:
		syscall(SYS_close_range, fd, fd + rand() % 6, 0);
		break;
	case 1:
		syscall(SYS_close_range, fd, fd + rand() % 20, 4);
		break;
	case 2:
		fcntl(fd, F_SETFD, rand() % 2);
		break;
	case 3:
		ioctl(fd, rand() % 2 ? FIOCLEX : FIONCLEX);
		break;
	default:
		for (int i = 0; i < 6; i++)
			close(any());
	}
}

static void child(void)
{
	if (!fork()) {
		close(any());
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	int seed = atoi(argv[1]), steps = atoi(argv[2]);
	char next[2][16];

	srand((unsigned)seed);
	for (int i = 0; i < steps; i++) {
		if (i < 36)
			make(i);
		else if (rand() % 3)
			make(rand() % 36);
		else
			end();
		if (rand() % 50 == 0)
			child();
		if (rand() % 25 == 0)
			mark();
	}
	mark();
	if (argc < 4)
		return 0;
	/* Once more, as another program. */
	snprintf(next[0], sizeof(next[0]), "%d", seed + 1);
	snprintf(next[1], sizeof(next[1]), "%d", steps);
	execl("/proc/self/exe", "second", next[0], next[1], NULL);
	return 1;
}
