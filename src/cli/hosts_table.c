/* SPDX-License-Identifier: MIT */
/*
 * The tables of one host after the other become tables of all. Which columns name a row, and how
 * numbers are put together, follows from the key of a column.
 */
#include "cli/hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/freq.h"
#include "base/cleanup.h"
#include "output/text.h"

/* ---- Values ---- */

static bool is_number(enum rut_lami_type t)
{
	return t == RUT_LAMI_NUMBER || t == RUT_LAMI_RATIO || t == RUT_LAMI_DURATION ||
	       t == RUT_LAMI_SIZE;
}

/* Is `word` one of the words of a key, such as avg_latency or max-wait? */
static bool has_word(const char *key, const char *word)
{
	const size_t len = strlen(word);

	for (const char *at = key; at; at = strpbrk(at, "_-")) {
		at += *at == '_' || *at == '-';
		if (!strncmp(at, word, len) && (!at[len] || at[len] == '_' || at[len] == '-'))
			return true;
	}
	return false;
}

static enum rut_hosts_how how_of(const struct rut_lami_column *c)
{
	static const struct {
		const char *word;
		enum rut_hosts_how how;
	} words[] =
		{
			{"min", RUT_HOSTS_MIN},
			{"max", RUT_HOSTS_MAX},
			{"avg", RUT_HOSTS_AVERAGE},
			{"stdev", RUT_HOSTS_APART},
		},
	  keys[] = {
		  /* Live slots of rubygc: the most before a collection, the fewest after one. */
		  {"before", RUT_HOSTS_MAX},
		  {"after", RUT_HOSTS_MIN},
		  {"rtps", RUT_HOSTS_APART}, /* time by sector, without the number of sectors */
	  };

	if (c->key[0] == 'p' && c->key[1] >= '0' && c->key[1] <= '9')
		return RUT_HOSTS_APART;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (!strcmp(c->key, keys[i].word))
			return keys[i].how;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (has_word(c->key, words[i].word))
			return words[i].how;
	return c->type == RUT_LAMI_RATIO ? RUT_HOSTS_MEAN : RUT_HOSTS_SUM;
}

/* The column with the number of cases of which this one is the average; n_columns: none. */
static size_t find_count(const struct rut_hosts_table *t, const char *key)
{
	static const struct {
		const char *average, *count;
	} counts[] = {
		{"avg_latency", "raise_count"},
		{"connect_avg", "connects"},
		{"answer_avg", "answers"},
		{"avg", "pauses"},
		{"avg", "waits"},
		{"avg", "calls"},
		{"avg-wait", "waits"},
		{NULL, "count"},
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		if (counts[i].average && strcmp(counts[i].average, key) != 0)
			continue;
		for (size_t k = 0; k < t->n_columns; k++)
			if (!strcmp(t->columns[k].key, counts[i].count))
				return k;
	}
	return t->n_columns;
}

static void add_value(struct rut_hosts_value *to, enum rut_hosts_how how, double v, double weight)
{
	if (!to->has) {
		*to = (struct rut_hosts_value){.has = true, .v = v, .weight = weight};
		return;
	}
	switch (how) {
	case RUT_HOSTS_SUM:
	case RUT_HOSTS_MEAN:
		to->v += v;
		break;
	case RUT_HOSTS_AVERAGE:
		if (to->weight + weight > 0)
			to->v = (to->v * to->weight + v * weight) / (to->weight + weight);
		break;
	case RUT_HOSTS_MIN:
		to->v = v < to->v ? v : to->v;
		break;
	case RUT_HOSTS_MAX:
		to->v = v > to->v ? v : to->v;
		break;
	case RUT_HOSTS_APART:
		to->unknown = true;
		break;
	}
	to->weight += weight;
}

struct rut_hosts_value rut_cli_hosts_merged(const struct rut_hosts *h,
					    const struct rut_hosts_table *t,
					    const struct rut_hosts_row *r, size_t column)
{
	const enum rut_hosts_how how = t->columns[column].how;
	struct rut_hosts_value all = {0};
	size_t hosts = 0;

	for (size_t i = 0; i < h->n; i++) {
		const struct rut_hosts_value *v = &r->values[i * t->n_columns + column];

		hosts += !h->list[i].failed;
		if (!v->has)
			continue;
		add_value(&all, how, v->v, v->weight);
		all.unknown |= v->unknown;
	}
	if (how == RUT_HOSTS_MEAN && hosts)
		all.v /= (double)hosts;
	return all;
}

/* ---- Tables ---- */

static enum rut_hosts_role role_of(const struct rut_lami_column *c, bool numbers)
{
	static const char *const identifiers[] = {"inode", "status"};

	if (!is_number(c->type))
		return numbers || c->type == RUT_LAMI_TIME_RANGE || c->type == RUT_LAMI_TIMESTAMP
			       ? RUT_HOSTS_SKIP
			       : RUT_HOSTS_KEY;
	if (!strcmp(c->key, "prio"))
		return numbers ? RUT_HOSTS_SKIP : RUT_HOSTS_KEY;
	for (size_t i = 0; i < sizeof(identifiers) / sizeof(*identifiers); i++)
		if (!strcmp(c->key, identifiers[i]))
			return RUT_HOSTS_SKIP;
	return RUT_HOSTS_NUMBER;
}

/* Why rows of such a table have none like them on another host; NULL: they have. */
static const char *not_alike(const struct rut_lami_class *cls)
{
	const struct rut_lami_column *first = cls->columns;

	if (first->type == RUT_LAMI_TIMESTAMP || first->type == RUT_LAMI_TIME_RANGE)
		return "its rows are single events";
	if (is_number(first->type) && has_word(first->key, "lower"))
		return "its intervals are not the same on all hosts";
	return NULL;
}

static int add_column(struct rut_hosts_table *t, const struct rut_lami_column *c)
{
	struct rut_hosts_column *more = reallocarray(t->columns, t->n_columns + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	t->columns = more;
	more += t->n_columns++;
	*more = (struct rut_hosts_column){
		.key = strdup(c->key),
		.title = strdup(c->title),
		.unit = c->unit ? strdup(c->unit) : NULL,
		.type = c->type,
		.how = how_of(c),
	};
	return more->key && more->title && (more->unit || !c->unit) ? 0 : -ENOMEM;
}

/*
 * What the hosts are compared by: a share, else the time, else the bytes, else a duration of the
 * kind average, else the first percentile, else the number.
 */
static size_t main_column(const struct rut_hosts_table *t)
{
	static const struct {
		enum rut_lami_type type;
		enum rut_hosts_how how;
	} order[] = {
		{RUT_LAMI_RATIO, RUT_HOSTS_MEAN},     {RUT_LAMI_DURATION, RUT_HOSTS_SUM},
		{RUT_LAMI_SIZE, RUT_HOSTS_SUM},	      {RUT_LAMI_DURATION, RUT_HOSTS_AVERAGE},
		{RUT_LAMI_DURATION, RUT_HOSTS_APART}, {RUT_LAMI_NUMBER, RUT_HOSTS_SUM},
	};

	for (size_t k = 0; k < sizeof(order) / sizeof(*order); k++)
		for (size_t i = 0; i < t->n_columns; i++)
			if (t->columns[i].type == order[k].type &&
			    t->columns[i].how == order[k].how)
				return i;
	return 0;
}

static int add_columns(struct rut_hosts_table *t, const struct rut_lami_class *cls)
{
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;
	bool numbers = false;

	for (size_t i = 0; !t->left_out && i < cls->n_columns; i++) {
		const struct rut_lami_column *c = &cls->columns[i];

		t->roles[i] = role_of(c, numbers);
		if (t->roles[i] == RUT_HOSTS_KEY)
			rut_buf_printf(&key, "%s%s", key.len ? ", " : "", c->title);
		if (t->roles[i] == RUT_HOSTS_NUMBER && add_column(t, c))
			return -ENOMEM;
		numbers |= t->roles[i] == RUT_HOSTS_NUMBER;
	}
	for (size_t i = 0; i < t->n_columns; i++) {
		struct rut_hosts_column *c = &t->columns[i];

		c->count = c->how == RUT_HOSTS_AVERAGE ? find_count(t, c->key) : t->n_columns;
		if (c->how == RUT_HOSTS_AVERAGE && c->count == t->n_columns)
			c->how = RUT_HOSTS_APART;
	}
	t->main = main_column(t);
	t->key = strdup(key.data ? key.data : "");
	return t->key && !key.failed ? 0 : -ENOMEM;
}

/* Classes of one title may differ, in a report of several analyses. */
static bool is_of(const struct rut_hosts_table *t, const struct rut_lami_class *cls)
{
	if (strcmp(t->title, cls->title) != 0 || t->n_roles != cls->n_columns)
		return false;
	for (size_t i = 0, k = 0; !t->left_out && i < cls->n_columns; i++)
		if (t->roles[i] == RUT_HOSTS_NUMBER) {
			if (cls->columns[i].type != t->columns[k].type ||
			    strcmp(cls->columns[i].key, t->columns[k].key) != 0)
				return false;
			k++;
		} else if (role_of(&cls->columns[i], k) != (enum rut_hosts_role)t->roles[i]) {
			return false;
		}
	return true;
}

static struct rut_hosts_table *table_of(struct rut_hosts *h, const struct rut_lami_class *cls)
{
	struct rut_hosts_table *t;

	for (size_t i = 0; i < h->n_tables; i++)
		if (is_of(&h->tables[i], cls))
			return &h->tables[i];
	t = reallocarray(h->tables, h->n_tables + 1, sizeof(*t));
	if (!t)
		return NULL;
	h->tables = t;
	t += h->n_tables;
	*t = (struct rut_hosts_table){
		.title = strdup(cls->title),
		.left_out = not_alike(cls),
		.roles = calloc(cls->n_columns, sizeof(*t->roles)),
		.n_roles = cls->n_columns,
	};
	if (!t->title || !t->roles) {
		free(t->title);
		free(t->roles);
		return NULL;
	}
	h->n_tables++;
	return add_columns(t, cls) ? NULL : t;
}

/* A thread's number, "worker (130)", is another one on each host. */
static void put_text(struct rut_buf *b, const char *s)
{
	const char *open = NULL, *end = NULL;

	for (const char *at = s; (at = strstr(at, " (")); at++) {
		const size_t n = strspn(at + 2, "0123456789");

		if (n && at[2 + n] == ')' && (!at[3 + n] || at[3 + n] == ' ')) {
			open = at;
			end = at + 3 + n;
		}
	}
	if (open) {
		_cleanup_free_ char *name = strndup(s, (size_t)(open - s));

		b->failed |= !name;
		rut_text_add(b, name ? name : "");
		s = end;
	}
	rut_text_add(b, s);
}

static void put_key(struct rut_buf *b, const struct rut_cell *c, bool thread)
{
	if (b->len)
		rut_buf_puts(b, ", ");
	switch ((enum rut_lami_type)c->type) {
	case RUT_LAMI_IRQ:
		rut_buf_printf(b, "%s %lld%s", c->hard ? "IRQ" : "softirq", (long long)c->i,
			       c->str ? " " : "");
		rut_text_add(b, c->str ? c->str : "");
		break;
	case RUT_LAMI_CPU:
		rut_buf_printf(b, "CPU %lld", (long long)c->i);
		break;
	case RUT_LAMI_FD:
		rut_buf_printf(b, "%lld", (long long)c->i);
		break;
	case RUT_LAMI_BOOL:
		rut_buf_puts(b, c->hard ? "yes" : "no");
		break;
	case RUT_LAMI_NUMBER:
		rut_buf_printf(b, "%.0f", rut_an_cell_value(c));
		break;
	default: /* of a process the name: its number is another one on each host */
		if (thread && c->str)
			put_text(b, c->str);
		else
			rut_text_add(b, c->str ? c->str : "-");
		break;
	}
}

static struct rut_hosts_row *row_of(struct rut_hosts *h, struct rut_hosts_table *t, const char *key)
{
	uint64_t hash = rut_hash_bytes(key, strlen(key)) | 1;
	struct rut_hosts_row *r;
	uintptr_t at;

	while ((at = (uintptr_t)rut_map_get(&t->by_key, hash))) {
		if (!strcmp(t->rows[at - 1].key, key))
			return &t->rows[at - 1];
		hash += 2;
	}
	r = reallocarray(t->rows, t->n_rows + 1, sizeof(*r));
	if (!r)
		return NULL;
	t->rows = r;
	r += t->n_rows;
	r->key = strdup(key);
	r->values = calloc(h->n * (t->n_columns + 1), sizeof(*r->values));
	if (!r->key || !r->values ||
	    rut_map_put(&t->by_key, hash, (void *)(uintptr_t)(t->n_rows + 1))) {
		free(r->key);
		free(r->values);
		return NULL;
	}
	t->n_rows++;
	return r;
}

static int add_row(struct rut_hosts *h, struct rut_hosts_table *t, const struct rut_lami_class *cls,
		   const struct rut_cell *cells)
{
	const bool thread = cls == &rut_an_class_percentiles;
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;
	struct rut_hosts_row *r;
	struct rut_hosts_value *now;
	size_t column = 0;

	for (size_t i = 0; i < t->n_roles; i++)
		if (t->roles[i] == RUT_HOSTS_KEY)
			put_key(&key, &cells[i], thread);
	r = key.failed ? NULL : row_of(h, t, key.data ? key.data : "");
	now = calloc(t->n_columns + 1, sizeof(*now));
	if (!r || !now) {
		free(now);
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->n_roles; i++) {
		if (t->roles[i] != RUT_HOSTS_NUMBER)
			continue;
		now[column].has = cells[i].type == (uint8_t)cls->columns[i].type;
		now[column].v = now[column].has ? rut_an_cell_value(&cells[i]) : 0;
		column++;
	}
	for (size_t i = 0; i < t->n_columns; i++)
		if (now[i].has)
			add_value(&r->values[h->now * t->n_columns + i], t->columns[i].how,
				  now[i].v, now[t->columns[i].count].v);
	free(now);
	return 0;
}

void rut_cli_hosts_take(void *arg, const struct rut_results *results)
{
	struct rut_hosts *h = arg;
	struct rut_hosts_host *host = &h->list[h->now];

	for (size_t i = 0; i < results->n; i++) {
		const struct rut_result *from = results->tables[i];
		struct rut_hosts_table *t = table_of(h, from->cls);

		if (!host->begin_ns || from->begin_ns < host->begin_ns)
			host->begin_ns = from->begin_ns;
		if (from->end_ns > host->end_ns)
			host->end_ns = from->end_ns;
		for (size_t k = 0; t && !t->left_out && k < rut_result_rows(from); k++)
			if (add_row(h, t, from->cls, rut_result_row(from, k)))
				t = NULL;
		h->no_memory |= !t;
	}
}

void rut_cli_hosts_tables_fini(struct rut_hosts *h)
{
	for (size_t i = 0; i < h->n_tables; i++) {
		struct rut_hosts_table *t = &h->tables[i];

		for (size_t k = 0; k < t->n_rows; k++) {
			free(t->rows[k].key);
			free(t->rows[k].values);
		}
		for (size_t k = 0; k < t->n_columns; k++) {
			free(t->columns[k].key);
			free(t->columns[k].title);
			free(t->columns[k].unit);
		}
		rut_map_fini(&t->by_key);
		free(t->rows);
		free(t->columns);
		free(t->roles);
		free(t->title);
		free(t->key);
	}
	free(h->tables);
}
