/* SPDX-License-Identifier: MIT */
#include "cli/hosts.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cli/analysis_run.h"
#include "ctf/reader.h"
#include "output/text.h"

/* ---- The hosts ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rut_hosts_host *)a)->name,
		      ((const struct rut_hosts_host *)b)->name);
}

static int find_hosts(struct rut_hosts *h, const char *dir, struct rut_err *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	if (!d)
		return rut_err_errno(err, errno, "cannot read '%s'", dir);
	while ((e = readdir(d))) {
		struct rut_hosts_host *more;

		if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_LNK))
			continue;
		more = reallocarray(h->list, h->n + 1, sizeof(*more));
		if (!more)
			break;
		h->list = more;
		more[h->n] = (struct rut_hosts_host){.name = strdup(e->d_name)};
		if (!more[h->n].name || asprintf(&more[h->n].path, "%s/%s", dir, e->d_name) < 0) {
			free(more[h->n].name);
			break;
		}
		h->n++;
	}
	closedir(d);
	if (e)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (!h->n)
		return rut_err_set(err, ENOENT, "no directory is in '%s': each host has one", dir);
	qsort(h->list, h->n, sizeof(*h->list), by_name);
	return 0;
}

/* A snapshot of a firing says by how much the host's clock was corrected. */
static void find_clock(struct rut_hosts_host *host)
{
	_cleanup_free_ char *path = NULL;
	struct rut_ctf_reader *reader = NULL;
	struct rut_ctf_set *set = NULL;
	struct rut_err err = RUT_ERR_INIT;
	const struct rut_ctf_event *ev;
	struct rut_ctf_ref offset, error;

	if (asprintf(&path, "%s/rutile_trigger", host->path) < 0)
		return;
	if (!rut_ctf_set_open(&set, (const char *const *)&path, 1, NULL, &err) &&
	    !rut_ctf_reader_new(&reader, set, NULL, &err) && (ev = rut_ctf_reader_next(reader)) &&
	    rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "clock_offset_ns", &offset) &&
	    rut_ctf_ref_find(ev->cls, RUT_CTF_SCOPE_PAYLOAD, "clock_error_ns", &error)) {
		host->has_clock = true;
		host->offset_ns = rut_ctf_i64(ev, &offset);
		host->error_ns = rut_ctf_i64(ev, &error);
	}
	rut_ctf_reader_free(reader);
	rut_ctf_set_free(set);
}

/* ---- Values ---- */

static bool is_number(enum rut_lami_type t)
{
	return t == RUT_LAMI_NUMBER || t == RUT_LAMI_RATIO || t == RUT_LAMI_DURATION ||
	       t == RUT_LAMI_SIZE;
}

static enum rut_hosts_how how_of(const struct rut_lami_column *c)
{
	static const struct {
		const char *word;
		enum rut_hosts_how how;
	} words[] = {
		{"min", RUT_HOSTS_MIN},	     {"max", RUT_HOSTS_MAX},
		{"avg", RUT_HOSTS_AVERAGE},  {"average", RUT_HOSTS_AVERAGE},
		{"mean", RUT_HOSTS_AVERAGE}, {"dev", RUT_HOSTS_APART},
		{"median", RUT_HOSTS_APART},
	};

	if (c->key && c->key[0] == 'p' && c->key[1] >= '0' && c->key[1] <= '9')
		return RUT_HOSTS_APART;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (c->key && strstr(c->key, words[i].word))
			return words[i].how;
	return c->type == RUT_LAMI_RATIO ? RUT_HOSTS_MEAN : RUT_HOSTS_SUM;
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

static int add_column(struct rut_hosts_table *t, const struct rut_lami_column *c)
{
	struct rut_hosts_column *more = reallocarray(t->columns, t->n_columns + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	t->columns = more;
	more[t->n_columns] = (struct rut_hosts_column){
		.title = strdup(c->title),
		.unit = c->unit ? strdup(c->unit) : NULL,
		.type = c->type,
		.how = how_of(c),
	};
	return more[t->n_columns++].title ? 0 : -ENOMEM;
}

/* What the hosts are compared by: a share, else the time, else the bytes, else the number. */
static void choose_columns(struct rut_hosts_table *t)
{
	static const enum rut_lami_type order[] = {RUT_LAMI_RATIO, RUT_LAMI_DURATION, RUT_LAMI_SIZE,
						   RUT_LAMI_NUMBER};
	size_t found = t->n_columns;

	t->count = t->n_columns;
	for (size_t i = t->n_columns; i--;)
		if (t->columns[i].type == RUT_LAMI_NUMBER && t->columns[i].how == RUT_HOSTS_SUM)
			t->count = i;
	for (size_t k = 0; k < 4 && found == t->n_columns; k++)
		for (size_t i = t->n_columns; i--;)
			if (t->columns[i].type == order[k] && (t->columns[i].how == RUT_HOSTS_SUM ||
							       t->columns[i].how == RUT_HOSTS_MEAN))
				found = i;
	t->main = found < t->n_columns ? found : 0;
}

static struct rut_hosts_table *table_of(struct rut_hosts *h, const struct rut_lami_class *cls)
{
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;
	struct rut_hosts_table *t;
	bool numbers = false;

	for (size_t i = 0; i < h->n_tables; i++)
		if (!strcmp(h->tables[i].title, cls->title))
			return &h->tables[i];
	t = reallocarray(h->tables, h->n_tables + 1, sizeof(*t));
	if (!t)
		return NULL;
	h->tables = t;
	t += h->n_tables;
	*t = (struct rut_hosts_table){.title = strdup(cls->title)};
	h->n_tables++;
	for (size_t i = 0; i < cls->n_columns; i++) {
		const struct rut_lami_column *c = &cls->columns[i];

		if (is_number(c->type)) {
			numbers = true;
			if (add_column(t, c))
				return NULL;
		} else if (!numbers && c->type != RUT_LAMI_TIME_RANGE) {
			rut_buf_printf(&key, "%s%s", key.len ? ", " : "", c->title);
		}
	}
	t->key = strdup(key.data ? key.data : "");
	choose_columns(t);
	return t->title && t->key ? t : NULL;
}

static void put_key(struct rut_buf *b, const struct rut_cell *c)
{
	if (b->len)
		rut_buf_puts(b, ", ");
	switch ((enum rut_lami_type)c->type) {
	case RUT_LAMI_IRQ:
		rut_buf_printf(b, "%s %lld%s%s", c->hard ? "IRQ" : "softirq", (long long)c->i,
			       c->str ? " " : "", c->str ? c->str : "");
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
	default: /* of a process the name: its number is another one on each host */
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
	_cleanup_buf_ struct rut_buf key = RUT_BUF_INIT;
	struct rut_hosts_row *r;
	size_t first = 0, column = 0;
	double weight = 1;

	for (; first < cls->n_columns && !is_number(cls->columns[first].type); first++)
		if (cls->columns[first].type != RUT_LAMI_TIME_RANGE)
			put_key(&key, &cells[first]);
	r = key.failed ? NULL : row_of(h, t, key.data ? key.data : "");
	if (!r)
		return -ENOMEM;
	for (size_t i = first; i < cls->n_columns; i++) {
		if (is_number(cls->columns[i].type) && column++ == t->count)
			weight = rut_an_cell_value(&cells[i]);
	}
	column = 0;
	for (size_t i = first; i < cls->n_columns; i++) {
		if (!is_number(cls->columns[i].type))
			continue;
		if (cells[i].type == (uint8_t)cls->columns[i].type)
			add_value(&r->values[h->now * t->n_columns + column],
				  t->columns[column].how, rut_an_cell_value(&cells[i]), weight);
		column++;
	}
	return 0;
}

static void take(void *arg, const struct rut_results *results)
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
		for (size_t k = 0; t && k < rut_result_rows(from); k++)
			if (add_row(h, t, from->cls, rut_result_row(from, k)))
				t = NULL;
		h->no_memory |= !t;
	}
}

/* ---- The run ---- */

static void fini(struct rut_hosts *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->list[i].name);
		free(h->list[i].path);
	}
	for (size_t i = 0; i < h->n_tables; i++) {
		struct rut_hosts_table *t = &h->tables[i];

		for (size_t k = 0; k < t->n_rows; k++) {
			free(t->rows[k].key);
			free(t->rows[k].values);
		}
		for (size_t k = 0; k < t->n_columns; k++) {
			free(t->columns[k].title);
			free(t->columns[k].unit);
		}
		rut_map_fini(&t->by_key);
		free(t->rows);
		free(t->columns);
		free(t->title);
		free(t->key);
	}
	free(h->tables);
	free(h->list);
}

int rut_cli_hosts_run(const struct rut_analysis_args *a, const struct rut_analysis *const *analyses,
		      size_t n)
{
	struct rut_hosts h = {0};
	struct rut_err err = RUT_ERR_INIT;
	int rc = RUT_EXIT_OK;

	if (a->n_paths != 1 || a->follow || a->conf.refresh_ns)
		return rut_cli_analysis_usage(a, "--hosts takes one directory, without --follow "
						 "and --refresh");
	if (find_hosts(&h, a->paths[0], &err))
		rc = rut_cli_fail(a->cmd, &err);
	for (h.now = 0; !rc && h.now < h.n; h.now++) {
		struct rut_analysis_args side = *a;
		const char *path = h.list[h.now].path;

		side.paths = &path;
		side.hosts = side.merge = false;
		side.conf.mi = side.no_progress = side.skip_validation = true;
		side.conf.limit = INT64_MAX / 4;
		side.conf.json = side.conf.explain = false;
		side.sink = take;
		side.sink_arg = &h;
		h.list[h.now].failed = rut_cli_analysis_run(&side, analyses, n) != RUT_EXIT_OK;
		find_clock(&h.list[h.now]);
	}
	if (!rc && h.no_memory) {
		(void)rut_err_set(&err, ENOMEM, "out of memory");
		rc = rut_cli_fail(a->cmd, &err);
	}
	if (!rc && a->conf.mi)
		rut_cli_hosts_json(&h, a);
	else if (!rc)
		rut_cli_hosts_text(&h, a);
	for (size_t i = 0; !rc && i < h.n; i++)
		if (h.list[i].failed)
			rc = RUT_EXIT_FAIL;
	fini(&h);
	return rc;
}
