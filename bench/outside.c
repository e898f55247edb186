/* SPDX-License-Identifier: MIT */
/*
 * outside PID HZ FRAMES SECONDS: what a profiler costs that reads a Ruby process's stack from
 * outside, as rbspy does: per sample the control frames in one piece, and per frame the instruction
 * sequence, its body, and the two strings of its location. Only the reads are made, of memory of
 * those sizes; names are neither built nor counted.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>

static uint64_t heap_of(const char *pid)
{
	char path[64], line[512];
	unsigned long long start = 0, end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx-%llx rw-p", &start, &end) == 2 && end - start >= 1 << 16)
			break;
	if (f)
		fclose(f);
	return start;
}

static void get(pid_t pid, uint64_t at, size_t len)
{
	static char buf[1 << 16];
	struct iovec to = {buf, len}, from = {(void *)(uintptr_t)at, len};

	if (process_vm_readv(pid, &to, 1, &from, 1, 0) < 0)
		perror("process_vm_readv"), exit(1);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {40, 280, 40, 40, 64};
	uint64_t heap = argc == 5 ? heap_of(argv[1]) : 0;
	int hz = heap ? atoi(argv[2]) : 0, frames = heap ? atoi(argv[3]) : 0;
	struct timespec pause = {.tv_nsec = hz ? 1000000000 / hz : 0};

	if (hz < 2)
		return 2;
	for (long i = 0; i < (long)hz * atoi(argv[4]); i++) {
		get(atoi(argv[1]), heap, (size_t)frames * 64);
		for (int k = 0; k < frames; k++)
			for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
				get(atoi(argv[1]), heap + (uint64_t)k * 128, sizes[s]);
		nanosleep(&pause, NULL);
	}
	return 0;
}
