/* SPDX-License-Identifier: MIT */
/* A directory of a receiver: nothing but "dir" below the harness's own may be made. */
#ifndef RUT_FUZZ_RECEIVED_H
#define RUT_FUZZ_RECEIVED_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char top[64];

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	if (where->level == 1 && strcmp(path + where->base, "dir") != 0)
		abort();
	return remove(path);
}

static inline void clean(void)
{
	nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
