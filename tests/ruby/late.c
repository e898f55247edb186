/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a tracer: it is late, as on a machine that is far too busy. LATE=fd: 900 ms before
 * it opens a descriptor of the target; LATE=SEED: now and then, anywhere, for up to 150 ms.
 * LATE=signal: it is killed when it is about to pass a signal on.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <time.h>
#include <unistd.h>

static void be_late(unsigned int ms)
{
	struct timespec ts = {0, ms * 1000000};

	nanosleep(&ts, NULL);
}

static void perhaps(unsigned int one_in)
{
	static unsigned int seed;
	const char *late = getenv("LATE");

	if (!late || !strcmp(late, "fd") || !strcmp(late, "signal"))
		return;
	if (!seed)
		seed = (unsigned int)atoi(late) * 7919 + (unsigned int)getpid();
	if (rand_r(&seed) % one_in == 0)
		be_late((unsigned int)rand_r(&seed) % 150);
}

int open(const char *path, int flags, ...)
{
	static int (*real)(const char *, int, ...);
	const char *late = getenv("LATE");
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	if (!real)
		real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
	if (late && strstr(path, "/task/") && strstr(path, "/fd/")) {
		if (!strcmp(late, "fd"))
			be_late(900);
		perhaps(3);
	}
	return real(path, flags, mode);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
	static ssize_t (*real)(int, const void *, size_t, off_t);

	if (!real)
		real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
	perhaps(5);
	return real(fd, data, len, at);
}

int ftruncate(int fd, off_t len)
{
	static int (*real)(int, off_t);

	if (!real)
		real = (int (*)(int, off_t))dlsym(RTLD_NEXT, "ftruncate64");
	perhaps(3);
	return real(fd, len);
}

long ptrace(enum __ptrace_request request, ...)
{
	static long (*real)(enum __ptrace_request, pid_t, void *, void *);
	const char *late;
	va_list ap;
	pid_t pid;
	void *addr, *data;

	va_start(ap, request);
	pid = va_arg(ap, pid_t);
	addr = va_arg(ap, void *);
	data = va_arg(ap, void *);
	va_end(ap);
	if (!real)
		real = (long (*)(enum __ptrace_request, pid_t, void *, void *))dlsym(RTLD_NEXT,
										     "ptrace");
	late = getenv("LATE");
	if (late && !strcmp(late, "signal") && request == PTRACE_INTERRUPT)
		be_late(20); /* time for one to come */
	if (late && !strcmp(late, "signal") && request == PTRACE_CONT && data)
		kill(getpid(), SIGKILL);
	perhaps(8);
	return real(request, pid, addr, data);
}
