/* SPDX-License-Identifier: MIT */
/* Finding and opening traces: directories, metadata, stream files. */
#include "ctf/set.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

enum { MAX_DIR_DEPTH = 32 };

void rut_set_complain(struct rut_ctf_set *set, const struct rut_err *err)
{
	set->errors++;
	rut_warn("%s", err->msg);
}

static int nomem(struct rut_err *err)
{
	return rut_err_set(err, ENOMEM, "out of memory");
}

/* Not one file's fault: whatever comes would be left out as well. */
static bool ends_all(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE;
}

/* Appends a pointer to an array that grows by doubling. */
static int push(void *array_ptr, size_t *n, void *item)
{
	void ***array = array_ptr;

	if (!(*n & (*n - 1))) {
		void **grown = realloc(*array, (*n ? 2 * *n : 1) * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		*array = grown;
	}
	(*array)[(*n)++] = item;
	return 0;
}

static void free_stream(struct rut_set_stream *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_files; i++) {
		rut_ctf_file_unmap(&s->files[i].map);
		free(s->files[i].path);
		free(s->files[i].skips);
	}
	free(s->files);
	free(s->marks);
	free(s);
}

void rut_ctf_set_free(struct rut_ctf_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->n_streams; i++)
		free_stream(set->streams[i]);
	for (size_t i = 0; i < set->n_traces; i++) {
		rut_meta_fini(set->traces[i]);
		free(set->traces[i]);
	}
	free(set->streams);
	free(set->traces);
	free(set->newest);
	free(set->classes);
	free(set);
}
RUT_DEFINE_CLEANUP(struct rut_ctf_set *, rut_ctf_set_free);

/* ---- One stream file ---- */

/* Puts a file among those of its stream instance, or makes a stream for it. */
static int add_file(struct rut_ctf_set *set, struct rut_meta *m, struct rut_set_file *f,
		    const struct rut_packet_info *info, struct rut_err *err)
{
	struct rut_set_stream *s = NULL;
	struct rut_set_file *files;
	size_t at;

	if (info->has_instance)
		s = set->newest[m->pub.index];
	while (s && (s->pub.cls != info->cls || !s->has_instance || s->instance != info->instance))
		s = s->older;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s || push(&set->streams, &set->n_streams, s) < 0) {
			free(s);
			return nomem(err);
		}
		s->pub.trace = &m->pub;
		s->pub.cls = info->cls;
		s->pub.index = (uint32_t)(set->n_streams - 1);
		s->meta = m;
		s->has_instance = info->has_instance;
		s->instance = info->instance;
		s->older = set->newest[m->pub.index];
		set->newest[m->pub.index] = s;
	}
	files = realloc(s->files, (s->n_files + 1) * sizeof(*files));
	if (!files)
		return nomem(err);
	s->files = files;
	f->has_begin = info->pub.has_begin;
	f->begin_ns = info->pub.begin_ns;
	for (at = s->n_files; at > 0 && f->has_begin && files[at - 1].begin_ns > f->begin_ns; at--)
		files[at] = files[at - 1];
	files[at] = *f;
	s->n_files++;
	s->pub.size_bytes += f->map.size;
	s->pub.path = files[0].path;
	set->bytes += f->map.size;
	return 0;
}

static int open_file(struct rut_ctf_set *set, struct rut_meta *m, const char *path, uint64_t *regs,
		     struct rut_err *err)
{
	struct rut_set_file f = {.path = strdup(path)};
	struct rut_packet_info info;
	int rc;

	if (!f.path)
		return nomem(err);
	rc = rut_ctf_file_map(&f.map, path, set->opts.consume, err);
	if (!rc && f.map.size) {
		rc = rut_packet_read(m, f.map.data, f.map.size, 0, regs, &info, err);
		if (rc < 0)
			rut_err_prefix(err, "'%s', byte 0", path);
		if (!rc && !(rc = add_file(set, m, &f, &info, err)))
			return 0;
	}
	rut_ctf_file_unmap(&f.map);
	free(f.path);
	return rc;
}

/* ---- One trace ---- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static void free_list(struct dirent **list, int n)
{
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

static int add_classes(struct rut_ctf_set *set, struct rut_meta *m)
{
	for (size_t i = 0; i < m->pub.n_stream_classes; i++) {
		struct rut_ctf_stream_class *sc = m->pub.stream_classes[i];

		for (size_t k = 0; k < sc->n_events; k++) {
			uint32_t index = sc->events[k]->index;

			if (index < set->n_classes && set->classes[index] == sc->events[k])
				continue; /* of before the metadata grew */
			sc->events[k]->index = (uint32_t)set->n_classes;
			if (push(&set->classes, &set->n_classes, sc->events[k]) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static void shift_clocks(const struct rut_ctf_set *set, struct rut_meta *m)
{
	for (size_t i = 0; i < m->pub.n_clocks; i++) {
		struct rut_ctf_clock *c = m->pub.clocks[i];

		if (set->opts.no_clock_offset) {
			c->base_ns = 0;
			c->base_rest = 0;
		}
		if (__builtin_add_overflow(c->base_ns, set->opts.clock_offset_ns, &c->base_ns))
			c->base_ns = INT64_MAX;
	}
}

static bool known(const struct rut_ctf_set *set, const char *path)
{
	for (size_t i = 0; i < set->n_streams; i++)
		for (size_t f = 0; f < set->streams[i]->n_files; f++)
			if (!strcmp(set->streams[i]->files[f].path, path))
				return true;
	return false;
}

/* Opens the files of a trace; with `refresh` those that are new. Returns how many, or -errno. */
static int open_streams(struct rut_ctf_set *set, struct rut_meta *m, const char *dir, bool refresh,
			struct rut_err *err)
{
	_cleanup_free_ uint64_t *regs = calloc(m->n_regs + 1, sizeof(*regs));
	struct dirent **list;
	int n, rc = 0, opened = 0;

	if (!regs)
		return nomem(err);
	n = scandir(dir, &list, visible, by_name);
	if (n < 0)
		/* cppcheck-suppress memleak ; it has a cleanup attribute */
		return rut_err_errno(err, errno, "cannot read the directory '%s'", dir);
	for (int i = 0; i < n && !ends_all(rc); i++) {
		_cleanup_free_ char *path = NULL;
		struct rut_err local = RUT_ERR_INIT;
		struct stat st;

		rc = 0;
		if (!strcmp(list[i]->d_name, "metadata"))
			continue;
		if (asprintf(&path, "%s/%s", dir, list[i]->d_name) < 0) {
			path = NULL;
			rc = nomem(err);
			break;
		}
		if (!stat(path, &st) &&
		    (S_ISDIR(st.st_mode) || (refresh && (!st.st_size || known(set, path)))))
			continue;
		rc = open_file(set, m, path, regs, &local);
		if (ends_all(rc) && err)
			*err = local;
		else if (rc < 0 && !refresh) /* else it may be about to be written */
			rut_set_complain(set, &local);
		opened += !rc;
	}
	free_list(list, n);
	return ends_all(rc) ? rc : opened;
}

/* What makes a trace less than it was, or empty. */
static void complain_of_metadata(struct rut_ctf_set *set, const struct rut_meta *m)
{
	struct rut_err err = RUT_ERR_INIT;
	size_t n = 0;

	for (size_t i = 0; i < m->pub.n_stream_classes; i++)
		n += m->pub.stream_classes[i]->n_events;
	if (m->cut) {
		rut_err_set(&err, EINVAL,
			    "metadata '%s/metadata': cut off: what it described last is missing",
			    m->pub.path);
		rut_set_complain(set, &err);
	} else if (!n && !set->opts.consume) {
		rut_err_set(&err, EINVAL, "metadata '%s/metadata': it describes no events",
			    m->pub.path);
		rut_set_complain(set, &err);
	}
}

static int add_trace(struct rut_ctf_set *set, struct rut_meta *m)
{
	size_t n = set->n_traces; /* both grow at the same numbers */

	if (push(&set->newest, &n, NULL) < 0)
		return -ENOMEM;
	return push(&set->traces, &set->n_traces, m);
}

static int open_trace(struct rut_ctf_set *set, const char *dir, struct rut_err *err)
{
	_cleanup_free_ char *path = NULL;
	struct rut_meta *m;
	const char *slash = strrchr(dir, '/');
	int rc;

	if (asprintf(&path, "%s/metadata", dir) < 0) {
		path = NULL;
		return nomem(err);
	}
	m = malloc(sizeof(*m));
	if (!m)
		return nomem(err);
	rut_meta_init(m);
	rc = rut_meta_load(m, path, err);
	if (!rc) {
		m->pub.path = rut_meta_name(m, dir, strlen(dir));
		m->pub.name = slash && slash[1] ? m->pub.path + (slash + 1 - dir) : m->pub.path;
		m->pub.index = (uint32_t)set->n_traces;
		if (!m->pub.path || add_trace(set, m) < 0)
			rc = nomem(err);
	}
	if (rc < 0) {
		rut_meta_fini(m);
		free(m);
		return rc;
	}
	shift_clocks(set, m);
	if (add_classes(set, m) < 0)
		return nomem(err);
	complain_of_metadata(set, m);
	rc = open_streams(set, m, dir, false, err);
	return rc < 0 ? rc : 0;
}

static int refresh_file(struct rut_ctf_set *set, struct rut_set_stream *s, struct rut_set_file *f)
{
	struct rut_ctf_file map;
	struct stat st;

	if (stat(f->path, &st) < 0 || (uint64_t)st.st_size <= f->map.size ||
	    rut_ctf_file_map(&map, f->path, set->opts.consume, NULL) < 0)
		return 0;
	if (map.size <= f->map.size) {
		rut_ctf_file_unmap(&map);
		return 0;
	}
	s->pub.size_bytes += map.size - f->map.size;
	set->bytes += map.size - f->map.size;
	rut_ctf_file_unmap(&f->map);
	f->map = map;
	s->grown_ns = rut_now_ns();
	return 1;
}

int rut_set_refresh_metadata(struct rut_ctf_set *set, struct rut_err *err)
{
	int n = 0;

	for (size_t i = 0; i < set->n_traces; i++) {
		_cleanup_free_ char *path = NULL;
		struct rut_err local = RUT_ERR_INIT;
		struct rut_meta *m = set->traces[i];
		int rc;

		if (asprintf(&path, "%s/metadata", m->pub.path) < 0) {
			path = NULL;
			return nomem(err);
		}
		rc = rut_meta_grow(m, path, &local);
		if (rc < 0)
			rut_set_complain(set, &local); /* what came before it counts */
		if (add_classes(set, m) < 0)
			return nomem(err);
		n += rc > 0;
	}
	return n;
}

/* Opens the files that came since. Returns how many, or -errno. */
static int refresh_streams(struct rut_ctf_set *set, struct rut_err *err)
{
	int n = 0;

	for (size_t i = 0; i < set->n_traces; i++) {
		int rc = open_streams(set, set->traces[i], set->traces[i]->pub.path, true, err);

		if (rc < 0)
			return rc;
		n += rc;
	}
	return n;
}

int rut_set_refresh(struct rut_ctf_set *set, struct rut_err *err)
{
	int n = 0, opened, grown, later = 0;

	for (size_t i = 0; i < set->n_streams; i++) {
		struct rut_set_stream *s = set->streams[i];

		n += refresh_file(set, s, &s->files[s->n_files - 1]);
	}
	/*
	 * The data first: a tracer writes metadata before the events that need it, so that what is
	 * read of it afterwards covers all that was mapped.
	 */
	opened = refresh_streams(set, err);
	if (opened < 0)
		return opened;
	grown = rut_set_refresh_metadata(set, err);
	if (grown > 0) /* perhaps also a stream that could not be opened before */
		later = refresh_streams(set, err);
	if ((opened || later > 0) && rut_set_rank_streams(set) < 0)
		return nomem(err);
	return grown < 0 ? grown : later < 0 ? later : n + opened + grown + later;
}

/* ---- Directories ---- */

struct search {
	struct rut_ctf_set *set;
	struct rut_err first; /* what was wrong with the first trace that could not be opened */
	size_t found;
};

static int search_dir(struct search *s, const char *dir, int depth, struct rut_err *err)
{
	_cleanup_free_ char *meta = NULL;
	struct rut_err local = RUT_ERR_INIT;
	struct dirent **list;
	struct stat st;
	int n, rc = 0;

	if (asprintf(&meta, "%s/metadata", dir) < 0) {
		meta = NULL;
		return nomem(err);
	}
	if (!lstat(meta, &st) && !S_ISDIR(st.st_mode)) {
		s->found++;
		rc = open_trace(s->set, dir, &local);
		if (ends_all(rc)) {
			if (err)
				*err = local;
			return rc;
		}
		if (rc < 0) {
			if (!s->first.code)
				s->first = local;
			rut_set_complain(s->set, &local);
		}
	}
	if (depth >= MAX_DIR_DEPTH)
		return 0;
	n = scandir(dir, &list, visible, by_name);
	if (n < 0) {
		rut_err_errno(&local, errno, "cannot read the directory '%s'", dir);
		if (!s->first.code)
			s->first = local;
		rut_set_complain(s->set, &local);
		return 0;
	}
	rc = 0;
	for (int i = 0; i < n && rc >= 0; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s", dir, list[i]->d_name) < 0) {
			path = NULL;
			rc = nomem(err);
		} else if (!lstat(path, &st) && S_ISDIR(st.st_mode)) {
			rc = search_dir(s, path, depth + 1, err);
		}
	}
	free_list(list, n);
	return rc;
}

static int open_path(struct search *s, const char *arg, struct rut_err *err)
{
	_cleanup_free_ char *path = strdup(arg);
	size_t len = strlen(arg), found = s->found;
	struct stat st;
	char *slash;
	int rc;

	if (!path)
		return nomem(err);
	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	if (stat(path, &st) < 0)
		return rut_err_errno(err, errno, "cannot open '%s'", arg);
	if (!S_ISDIR(st.st_mode)) {
		slash = strrchr(path, '/');
		if (strcmp(slash ? slash + 1 : path, "metadata") != 0)
			return rut_err_set(err, ENOTDIR,
					   "'%s' is neither a directory nor a trace's metadata",
					   arg);
		if (slash)
			slash[slash == path] = '\0';
		s->found++;
		return open_trace(s->set, slash ? path : ".", err);
	}
	if ((rc = search_dir(s, path, 0, err)) < 0)
		return rc;
	if (s->found == found)
		return rut_err_set(err, ENOENT,
				   "no trace in '%s': no file 'metadata' in it or below", arg);
	return 0;
}

int rut_ctf_set_open(struct rut_ctf_set **ret, const char *const *paths, size_t n,
		     const struct rut_ctf_set_opts *opts, struct rut_err *err)
{
	_cleanup_(rut_ctf_set_freep)
	struct rut_ctf_set *set = calloc(1, sizeof(*set));
	struct search s = {.set = set};
	int rc;

	if (!set)
		return nomem(err);
	if (opts)
		set->opts = *opts;
	for (size_t i = 0; i < n; i++)
		if ((rc = open_path(&s, paths[i], err)) < 0)
			return rc;
	if ((!set->opts.consume && rut_set_find_twins(set)) || rut_set_rank_streams(set) < 0)
		return nomem(err);
	if (!set->n_traces && s.first.code) {
		if (err)
			*err = s.first;
		return -s.first.code;
	}
	*ret = RUT_TAKE(set);
	return 0;
}

/* ---- Look-ups ---- */

size_t rut_ctf_set_n_traces(const struct rut_ctf_set *set)
{
	return set->n_traces;
}

const struct rut_ctf_trace *rut_ctf_set_trace(const struct rut_ctf_set *set, size_t i)
{
	return &set->traces[i]->pub;
}

size_t rut_ctf_set_n_classes(const struct rut_ctf_set *set)
{
	return set->n_classes;
}

const struct rut_ctf_event_class *rut_ctf_set_class(const struct rut_ctf_set *set, size_t i)
{
	return set->classes[i];
}

size_t rut_ctf_set_n_streams(const struct rut_ctf_set *set)
{
	return set->n_streams;
}

const struct rut_ctf_stream *rut_ctf_set_stream(const struct rut_ctf_set *set, size_t i)
{
	return &set->streams[i]->pub;
}

uint64_t rut_ctf_set_bytes(const struct rut_ctf_set *set)
{
	return set->bytes;
}

uint64_t rut_ctf_set_errors(const struct rut_ctf_set *set)
{
	return set->errors;
}
