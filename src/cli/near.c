/* SPDX-License-Identifier: MIT */
#include "cli/near.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "output/text.h"

void rut_near_init(struct rut_near *n, const char *wanted)
{
	size_t len = 0;

	*n = (struct rut_near){.count = 0};
	/* What a glob leaves open makes no difference. */
	for (; wanted && *wanted && len < sizeof(n->wanted) - 1; wanted++)
		if (!strchr("*?[]\\", *wanted))
			n->wanted[len++] = *wanted;
}

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Letters to put in, to leave out or to change (Levenshtein); case makes no difference. */
static size_t distance(const char *a, const char *b)
{
	size_t row[RUT_NEAR_NAME], n = strlen(b);

	for (size_t k = 0; k <= n; k++)
		row[k] = k;
	for (size_t i = 1; *a; i++, a++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t k = 1; k <= n; k++) {
			size_t changed = diagonal + !same(*a, b[k - 1]);
			size_t other = 1 + (row[k] < row[k - 1] ? row[k] : row[k - 1]);

			diagonal = row[k];
			row[k] = changed < other ? changed : other;
		}
	}
	return row[n];
}

static bool holds(const char *text, const char *part)
{
	size_t len = strlen(part);

	for (; strlen(text) >= len; text++) {
		size_t i = 0;

		while (i < len && same(text[i], part[i]))
			i++;
		if (i == len)
			return true;
	}
	return false;
}

/* SIZE_MAX: too far. */
static size_t measure(const char *wanted, const char *name)
{
	size_t len = strlen(wanted), most = len < 4 ? 1 : len < 9 ? 2 : len / 4, d;

	if (len >= 3 && holds(name, wanted))
		return 1;
	d = distance(wanted, name);
	return d <= most ? d : SIZE_MAX;
}

static void keep(struct rut_near *n, const char *name, size_t d)
{
	size_t at = 0;

	for (size_t i = 0; i < n->count; i++)
		if (!strcmp(n->best[i].name, name))
			return;
	while (at < n->count && n->best[at].distance <= d)
		at++;
	if (at == RUT_NEAR_MAX)
		return;
	if (n->count < RUT_NEAR_MAX)
		n->count++;
	memmove(&n->best[at + 1], &n->best[at], (n->count - at - 1) * sizeof(n->best[0]));
	snprintf(n->best[at].name, sizeof(n->best[at].name), "%s", name);
	n->best[at].distance = d;
}

void rut_near_add(struct rut_near *n, const char *class_name, bool singleton, const char *method)
{
	char full[RUT_NEAR_NAME], dotted[RUT_NEAR_NAME];
	const char *spelled[] = {full, dotted, method, class_name};
	size_t d = SIZE_MAX;

	if (!n->wanted[0] || !method || !class_name ||
	    snprintf(full, sizeof(full), "%s%c%s", class_name, singleton ? '.' : '#', method) >=
		    (int)sizeof(full))
		return;
	snprintf(dotted, sizeof(dotted), "%s.%s", class_name, method);
	for (size_t i = 0; i < sizeof(spelled) / sizeof(*spelled); i++) {
		size_t here = measure(n->wanted, spelled[i]);

		d = here < d ? here : d;
	}
	if (d != SIZE_MAX)
		keep(n, full, d);
}

void rut_near_say(const struct rut_near *n, struct rut_buf *out)
{
	if (!n->count)
		return;
	rut_buf_puts(out, "; names like '");
	rut_text_add(out, n->wanted);
	rut_buf_puts(out, "': ");
	for (size_t i = 0; i < n->count; i++) {
		rut_buf_puts(out, i ? ", " : "");
		rut_text_add(out, n->best[i].name);
	}
}
