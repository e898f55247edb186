/* SPDX-License-Identifier: MIT */
/*
 * Metadata that grows while a trace is written: LTTng appends what is enabled later, rutile's
 * recorder puts a longer file in the place of the old.
 *
 * The whole file is parsed again, because new text may use names of types from far above. Of
 * the result only the classes that the trace did not have are taken: they are moved into the
 * description that is in use, resolved and compiled there. What was known keeps its place in
 * memory, its registers and its program, so that readers within a packet and everything that was
 * resolved before stay valid. The parsed rest is kept for as long as the trace: the new classes'
 * types live in it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "ctf/meta.h"

static const struct rut_ctf_clock *same_clock(const struct rut_meta *m,
					      const struct rut_ctf_clock *c)
{
	for (size_t i = 0; c && i < m->pub.n_clocks; i++)
		if (!strcmp(m->pub.clocks[i]->name, c->name))
			return m->pub.clocks[i];
	return NULL;
}

/* Types of the new description name clocks of the new description. */
static int move_clocks(const struct rut_meta *m, struct rut_ctf_type *t, struct rut_err *err)
{
	int rc;

	if (!t)
		return 0;
	if (t->clock) {
		const struct rut_ctf_clock *c = same_clock(m, t->clock);

		if (!c)
			return rut_err_set(err, ENOTSUP, "a clock came later: '%s'",
					   t->clock->name);
		t->clock = c;
	}
	if ((rc = move_clocks(m, t->elem, err)) < 0)
		return rc;
	for (uint32_t i = 0; i < t->n_fields; i++)
		if ((rc = move_clocks(m, t->fields[i].type, err)) < 0)
			return rc;
	return 0;
}

static bool has_event(const struct rut_ctf_stream_class *sc, uint64_t id)
{
	if (sc->n_by_id)
		return id < sc->n_by_id && sc->by_id[id];
	return rut_map_get(&rut_meta_stream_class(sc)->other, id) != NULL;
}

/* Adds a class of events to those of a stream class, ready for use but for the table of ids. */
static int adopt_event(struct rut_meta *m, struct rut_meta_stream_class *sc,
		       struct rut_meta_event_class *e, struct rut_err *err)
{
	struct rut_ctf_type *roots[] = {e->pub.context, e->pub.payload};
	bool referred = sc->header_referred; /* else headers are passed over by their short path */
	int rc = 0;

	if (!e->pub.name)
		e->pub.name = "";
	e->pub.stream_class = &sc->pub;
	for (int i = 0; i < 2 && !rc; i++) {
		rc = move_clocks(m, roots[i], err);
		if (!rc && roots[i])
			rc = rut_meta_layout(roots[i], 0, err);
	}
	if (!rc)
		rc = rut_meta_resolve_event(m, sc, &e->pub, err);
	if (!rc && sc->header_referred && !referred) {
		sc->header_referred = false;
		rc = rut_err_set(err, ENOTSUP, "a length or tag stands in the header of events");
	}
	if (!rc)
		rc = rut_meta_compile(m, &e->pub, err);
	if (rc < 0)
		return rut_err_prefix(err, "event '%s'", e->pub.name);
	return rut_meta_add_event(m, sc, e, err);
}

static int adopt_stream_class(struct rut_meta *m, struct rut_meta_stream_class *sc,
			      struct rut_err *err)
{
	struct rut_ctf_stream_class **all;
	int rc;

	if ((rc = move_clocks(m, sc->pub.packet_context, err)) < 0 ||
	    (rc = move_clocks(m, sc->pub.event_header, err)) < 0 ||
	    (rc = move_clocks(m, sc->pub.event_context, err)) < 0)
		return rc;
	sc->pub.trace = &m->pub;
	sc->pub.clock = same_clock(m, sc->pub.clock);
	all = rut_arena_grow(&m->arena, m->pub.stream_classes, m->pub.n_stream_classes,
			     sizeof(*all));
	if (!all)
		return rut_err_set(err, ENOMEM, "the description grows too large");
	all[m->pub.n_stream_classes++] = &sc->pub;
	m->pub.stream_classes = all;
	if ((rc = rut_meta_finish_stream_class(m, sc, err)) < 0)
		m->pub.n_stream_classes--;
	return rc;
}

static int adopt_events(struct rut_meta *m, struct rut_meta *from, size_t *n, struct rut_err *err)
{
	int rc;

	for (struct rut_meta_event_class *e = from->events, *next; e; e = next) {
		struct rut_meta_stream_class *sc = rut_meta_find_stream_class(m, e->stream_id);

		next = e->next;
		if (!e->has_stream_id && m->pub.n_stream_classes == 1)
			sc = rut_meta_stream_class(m->pub.stream_classes[0]);
		if (!sc)
			return rut_err_set(
				err, EINVAL,
				"line %u: an event of stream %llu, which is not described", e->line,
				(unsigned long long)e->stream_id);
		if (has_event(&sc->pub, e->pub.id))
			continue;
		if ((rc = adopt_event(m, sc, e, err)) < 0)
			return rc;
		(*n)++;
	}
	return 0;
}

/* Moves what is new from `from`, a description that was parsed but not finished. Counts it. */
static int adopt(struct rut_meta *m, struct rut_meta *from, size_t *n, struct rut_err *err)
{
	int rc = 0, index_rc = 0;

	for (size_t i = 0; i < from->pub.n_stream_classes && !rc; i++) {
		struct rut_ctf_stream_class *sc = from->pub.stream_classes[i];

		if (rut_meta_find_stream_class(m, sc->id))
			continue;
		rc = adopt_stream_class(m, rut_meta_stream_class(sc), err);
		*n += !rc;
	}
	if (!rc)
		rc = adopt_events(m, from, n, err);
	/* Also after an error: what came before it is in use. */
	for (size_t i = 0; i < m->pub.n_stream_classes && *n && !index_rc; i++) {
		struct rut_meta_stream_class *sc = rut_meta_stream_class(m->pub.stream_classes[i]);

		index_rc = rut_meta_index_events(m, sc, rc < 0 ? NULL : err);
		if (index_rc < 0)
			sc->pub.n_by_id = 0; /* half a table is none */
	}
	return rc < 0 ? rc : index_rc;
}

static bool unchanged(const struct rut_meta *m, const struct stat *st)
{
	return m->file_bytes == st->st_size && m->file_time.tv_sec == st->st_mtim.tv_sec &&
	       m->file_time.tv_nsec == st->st_mtim.tv_nsec;
}

int rut_meta_grow(struct rut_meta *m, const char *path, struct rut_err *err)
{
	struct rut_err partial = RUT_ERR_INIT;
	struct rut_meta *from;
	struct stat st;
	size_t n = 0;
	int rc;

	if (stat(path, &st) < 0 || unchanged(m, &st))
		return 0;
	from = malloc(sizeof(*from));
	if (!from)
		return rut_err_set(err, ENOMEM, "out of memory");
	rut_meta_init(from);
	rc = rut_meta_read(from, path, &partial);
	m->file_bytes = from->file_bytes;
	m->file_time = from->file_time;
	/* A part of it may not be written yet: then it changes again. */
	if (rc < 0 || from->pub.major != m->pub.major ||
	    from->pub.big_endian != m->pub.big_endian ||
	    memcmp(from->pub.uuid, m->pub.uuid, sizeof(m->pub.uuid)) != 0) {
		rut_meta_fini(from);
		free(from);
		return 0;
	}
	rc = adopt(m, from, &n, err);
	if (n || rc < 0) {
		from->older = m->older;
		m->older = from;
	} else {
		rut_meta_fini(from);
		free(from);
	}
	if (rc < 0)
		return rut_err_prefix(err, "metadata '%s', which grew", path);
	return n > 0;
}
