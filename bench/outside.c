/* SPDX-License-Identifier: MIT */
/*
 * outside PID HZ SECONDS [stop]: samples the stack of a Ruby process's main thread from outside, as
 * rbspy does: by process_vm_readv(), the control frames in one piece, and for each frame its
 * instruction sequence, body, path, label and table of lines. Nothing is kept between two samples.
 * `stop` holds the thread meanwhile (rbspy's default); without it a stack may be torn.
 *
 * Prints the number of samples, and in how many of them each frame had a path and a label.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "base/err.h"
#include "ruby/find_vm.h"

#define FRAMES	   1024
#define BODY_LINES 4096

static pid_t pid;
static struct rut_ruby_vm vm;

static bool get(uint64_t at, void *to, size_t len)
{
	struct iovec here = {to, len}, there = {(void *)(uintptr_t)at, len};

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)len;
}

static uint64_t word(uint64_t at)
{
	uint64_t value = 0;

	get(at, &value, sizeof(value));
	return value;
}

static void hold(bool first)
{
	int status;

	if (ptrace(first ? PTRACE_SEIZE : PTRACE_INTERRUPT, pid, NULL, NULL) < 0 ||
	    (first && ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0) ||
	    waitpid(pid, &status, __WALL) < 0)
		perror("ptrace"), exit(1);
}

/* The address of the thread's execution context; it is the same as long as the thread lives. */
static uint64_t find_context(uint64_t thread_pointer)
{
	uint64_t dtv = word(thread_pointer + 8), base, ec, head[3];

	base = word(dtv + (uint64_t)vm.tls_module * vm.tls_entry);
	for (uint32_t i = 0; vm.tls_offset == RUT_RUBY_UNKNOWN && i < vm.tls_words; i++) {
		ec = word(base + i * 8);
		if (get(ec, head, sizeof(head)) && head[1] > 1024 && head[1] < 1 << 24 &&
		    head[2] > head[0] && head[2] < head[0] + head[1] * 8)
			return base + i * 8;
	}
	return base + vm.tls_offset;
}

/* The text of a Ruby string; its length. */
static size_t text(uint64_t value, char *to, size_t cap)
{
	uint64_t head[5], from, len;

	if (!get(value, head, sizeof(head)) || (head[0] & 31) != 5)
		return 0;
	len = head[0] >> 13 & 1 || vm.string_len ? head[2] : head[0] >> 14 & 31;
	from = head[0] >> 13 & 1 ? head[3] : value + (vm.string_len ? 24 : 16);
	len = len < cap ? len : cap - 1;
	return len && get(from, to, len) ? len : 0;
}

static bool read_frame(const uint64_t *frame)
{
	static char path[4096], label[4096], lines[BODY_LINES];
	uint64_t iseq[5], body[20], path_at, flags;
	uint32_t entries;

	/* A C method has no instruction sequence. */
	if (!frame[2])
		return true;
	if (!get(frame[2], iseq, sizeof(iseq)) || !get(iseq[2], body, sizeof(body)))
		return false;
	path_at = body[8];
	flags = word(path_at);
	if ((flags & 31) == 7)
		path_at = word(flags >> 13 & 1 ? path_at + 16 : word(path_at + 32));
	entries = (uint32_t)body[vm.insns_info / 8 + 2];
	if (entries && entries < BODY_LINES / vm.insn_bytes)
		get(body[vm.insns_info / 8], lines, (size_t)entries * vm.insn_bytes);
	return text(path_at, path, sizeof(path)) && text(body[10], label, sizeof(label));
}

/* The number of frames; 0: one of them could not be read. */
static int sample(uint64_t context)
{
	static uint64_t frames[FRAMES * 8];
	uint64_t head[3], ec = word(context), bytes;
	int n;

	if (!get(ec, head, sizeof(head)))
		return 0;
	bytes = head[0] + head[1] * 8 - head[2];
	if (bytes > sizeof(frames) || !get(head[2], frames, bytes))
		return 0;
	n = (int)(bytes / vm.frame_bytes);
	for (int i = 0; i < n; i++)
		if (!read_frame(&frames[(size_t)i * vm.frame_bytes / 8]))
			return 0;
	return n;
}

int main(int argc, char **argv)
{
	int hz = argc >= 4 ? atoi(argv[2]) : 0, n, whole = 0, most = 0;
	bool stop = argc == 5 && !strcmp(argv[4], "stop");
	struct user_regs_struct regs;
	struct rut_err err = RUT_ERR_INIT;
	struct timespec next, now;
	uint64_t context;
	long samples = 0, end;

	if (hz < 2)
		return 2;
	pid = atoi(argv[1]);
	if (rut_ruby_vm_find(&vm, pid, &err) < 0 || vm.tls != RUT_RUBY_TLS_DTV)
		return fprintf(stderr, "outside: not a Ruby since 3.0: %s\n", err.msg), 1;
	hold(true);
	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
		return perror("ptrace"), 1;
	context = find_context(regs.fs_base);
	ptrace(stop ? PTRACE_CONT : PTRACE_DETACH, pid, NULL, NULL);
	clock_gettime(CLOCK_MONOTONIC, &next);
	end = next.tv_sec + atoi(argv[3]);
	for (; next.tv_sec < end; samples++) {
		if (stop)
			hold(false);
		n = sample(context);
		if (stop)
			ptrace(PTRACE_CONT, pid, NULL, NULL);
		whole += n > 0;
		most = n > most ? n : most;
		next.tv_nsec += 1000000000 / hz;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		/* A sample that took too long has cost others. */
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > next.tv_sec)
			next = now;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
			;
	}
	if (stop) {
		hold(false);
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
	}
	printf("%ld samples, %d whole, of up to %d frames\n", samples, whole, most);
	return 0;
}
