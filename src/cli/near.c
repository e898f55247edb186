/* SPDX-License-Identifier: MIT */
#include "cli/near.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "output/text.h"

void rut_cli_near_init(struct rut_near *n, const char *wanted)
{
	struct rut_near new = {.wanted = ""};
	size_t len = 0;

	/* What a glob leaves open makes no difference. */
	for (; wanted && *wanted && len < sizeof(new.wanted) - 1; wanted++)
		if (!strchr("*?[]\\", *wanted))
			new.wanted[len++] = *wanted;
	if (strcmp(n->wanted, new.wanted) != 0)
		*n = new;
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

static void keep(struct rut_near_list *list, const char *name, uint64_t order)
{
	size_t at = 0;

	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->names[i].name, name))
			return;
	while (at < list->count && list->names[at].order <= order)
		at++;
	if (at == RUT_NEAR_MAX)
		return;
	if (list->count < RUT_NEAR_MAX)
		list->count++;
	memmove(&list->names[at + 1], &list->names[at],
		(list->count - at - 1) * sizeof(list->names[0]));
	snprintf(list->names[at].name, sizeof(list->names[at].name), "%s", name);
	list->names[at].order = order;
}

void rut_cli_near_add(struct rut_near *n, const char *class_name, bool singleton,
		      const char *method, uint64_t calls)
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
		keep(&n->best, full, d);
	if (calls)
		keep(&n->called, full, UINT64_MAX - calls);
}

static void say_list(const struct rut_near_list *list, struct rut_buf *out)
{
	for (size_t i = 0; i < list->count; i++) {
		rut_buf_puts(out, i ? ", " : "");
		rut_text_add(out, list->names[i].name);
	}
}

void rut_cli_near_say(const struct rut_near *n, struct rut_buf *out)
{
	if (!n->best.count && !n->called.count)
		return;
	rut_buf_puts(out, n->best.count ? "; names like '" : "; no name is like '");
	rut_text_add(out, n->wanted);
	rut_buf_puts(out, n->best.count ? "': " : "', most called: ");
	say_list(n->best.count ? &n->best : &n->called, out);
}
