/* SPDX-License-Identifier: MIT */
/* Words separated by commas. */
#ifndef RUT_BASE_COMMAS_H
#define RUT_BASE_COMMAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero it. */
struct rut_commas {
	char *copy;	    /* owned */
	const char **words; /* owned array, elements in copy */
	int64_t *numbers;   /* owned; the words as numbers, where they are */
	size_t n;
};

/*
 * Replaces what is in `w` by the words of `s`, without the spaces around them and without empty
 * ones. `numbers`: each must be one. Returns 0, -EINVAL or -ENOMEM.
 */
int rut_commas_split(struct rut_commas *w, const char *s, bool numbers);
void rut_commas_fini(struct rut_commas *w);

#endif
