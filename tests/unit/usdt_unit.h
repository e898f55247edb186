/* SPDX-License-Identifier: MIT */
/* What the tests of librutile-usdt share. */
#ifndef RUT_TESTS_USDT_UNIT_H
#define RUT_TESTS_USDT_UNIT_H

#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rutile/usdt.h"
#include "usdt/provider.h"

static const enum rutile_usdt_type all_types[RUTILE_USDT_MAX_ARGS] = {
	RUTILE_USDT_S64, RUTILE_USDT_STR, RUTILE_USDT_S32, RUTILE_USDT_U16,
	RUTILE_USDT_S8,	 RUTILE_USDT_F64, RUTILE_USDT_U64, RUTILE_USDT_BOOL,
	RUTILE_USDT_U32, RUTILE_USDT_S16, RUTILE_USDT_U8,  RUTILE_USDT_S64,
};

static inline struct rut_usdt_probe *private(struct rutile_usdt_probe *probe)
{
	return (struct rut_usdt_probe *)probe;
}

/* Mappings of files and memfds: a sanitizer maps anonymous memory whenever it likes. */
static inline unsigned count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[4096];
	unsigned n = 0;

	while (fgets(line, sizeof(line), f))
		n += strchr(line, '/') != NULL;
	fclose(f);
	return n;
}

static inline unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline void expect_good_end(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static inline pid_t fork_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	return pid;
}

#endif
