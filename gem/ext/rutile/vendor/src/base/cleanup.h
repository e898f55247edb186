/* SPDX-License-Identifier: MIT */
/*
 * Cleanup attributes: a local variable that frees itself when it goes out of scope.
 *
 *	_cleanup_(rut_freep) char *line = NULL;
 *
 * RUT_TAKE() hands the value on and leaves NULL behind, so that the cleanup does nothing.
 */
#ifndef RUT_BASE_CLEANUP_H
#define RUT_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

#define RUT_TAKE(ptr)                                                                              \
	({                                                                                         \
		__typeof__(ptr) *_p = &(ptr);                                                      \
		__typeof__(ptr) _v = *_p;                                                          \
		*_p = NULL;                                                                        \
		_v;                                                                                \
	})

#define RUT_TAKE_FD(fd)                                                                            \
	({                                                                                         \
		int *_p = &(fd);                                                                   \
		int _v = *_p;                                                                      \
		*_p = -1;                                                                          \
		_v;                                                                                \
	})

/* Defines NAMEp(), the cleanup function of a destructor that takes a pointer. */
#define RUT_DEFINE_CLEANUP(type, fn)                                                               \
	static inline void fn##p(type *p)                                                          \
	{                                                                                          \
		if (*p)                                                                            \
			fn(*p);                                                                    \
	}                                                                                          \
	struct rut_swallow_semicolon

static inline void rut_freep(void *p)
{
	free(*(void **)p);
}

static inline void rut_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void rut_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_free_	_cleanup_(rut_freep)
#define _cleanup_close_ _cleanup_(rut_closep)
#define _cleanup_file_	_cleanup_(rut_fclosep)

#endif
