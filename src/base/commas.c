/* SPDX-License-Identifier: MIT */
#include "base/commas.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void rut_commas_fini(struct rut_commas *w)
{
	free(w->copy);
	free(w->words);
	free(w->numbers);
	*w = (struct rut_commas){0};
}

int rut_commas_split(struct rut_commas *w, const char *s, bool numbers)
{
	size_t max = 1;

	rut_commas_fini(w);
	for (const char *p = s; *p; p++)
		max += *p == ',';
	w->copy = strdup(s);
	w->words = calloc(max, sizeof(*w->words));
	w->numbers = calloc(max, sizeof(*w->numbers));
	if (!w->copy || !w->words || !w->numbers)
		return -ENOMEM;
	for (char *p = w->copy, *next; p; p = next) {
		char *end;

		next = strchr(p, ',');
		if (next)
			*next++ = '\0';
		while (isspace((unsigned char)*p))
			p++;
		for (end = p + strlen(p); end > p && isspace((unsigned char)end[-1]);)
			*--end = '\0';
		if (!*p)
			continue;
		w->numbers[w->n] = strtoll(p, &end, 10);
		if (numbers && (*end || end == p))
			return -EINVAL;
		w->words[w->n++] = p;
	}
	return 0;
}
