/* SPDX-License-Identifier: MIT */
#include "ctf/meta.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* ---- Pieces ---- */

void rut_meta_init(struct rut_meta *m)
{
	memset(m, 0, sizeof(*m));
	rut_arena_init(&m->arena, RUT_META_MAX_MEMORY);
	m->events_tail = &m->events;
}

void rut_meta_fini(struct rut_meta *m)
{
	for (size_t i = 0; i < m->pub.n_stream_classes; i++)
		rut_map_fini(&rut_meta_stream_class(m->pub.stream_classes[i])->other);
	for (struct rut_meta *o = m->older, *next; o; o = next) {
		next = o->older;
		o->older = NULL;
		rut_meta_fini(o);
		free(o);
	}
	rut_strtab_fini(&m->names);
	rut_arena_fini(&m->arena);
}

struct rut_ctf_type *rut_meta_type(struct rut_meta *m, enum rut_ctf_kind kind)
{
	struct rut_ctf_type *t;

	if (m->n_types >= RUT_META_MAX_TYPES)
		return NULL;
	t = rut_arena_alloc(&m->arena, sizeof(*t));
	if (!t)
		return NULL;
	m->n_types++;
	t->kind = (uint8_t)kind;
	t->align = 1;
	t->base = 10;
	t->reg = -1;
	t->len_reg = -1;
	return t;
}

static struct rut_ctf_type *clone(struct rut_meta *m, const struct rut_ctf_type *t,
				  unsigned int depth)
{
	struct rut_ctf_type *c;

	if (depth > 2 * RUT_META_MAX_DEPTH)
		return NULL;
	c = rut_meta_type(m, (enum rut_ctf_kind)t->kind);
	if (!c)
		return NULL;
	*c = *t; /* labels and ranges of enumerations never change: they are shared */
	if (t->elem && !(c->elem = clone(m, t->elem, depth + 1)))
		return NULL;
	c->fields = NULL;
	c->n_fields = 0;
	for (uint32_t i = 0; i < t->n_fields; i++) {
		struct rut_ctf_type *f = clone(m, t->fields[i].type, depth + 1);

		if (!f || rut_meta_add_field(m, c, t->fields[i].raw_name, t->fields[i].name, f) < 0)
			return NULL;
	}
	return c;
}

struct rut_ctf_type *rut_meta_clone(struct rut_meta *m, const struct rut_ctf_type *t)
{
	return clone(m, t, 0);
}

const char *rut_meta_name(struct rut_meta *m, const char *s, size_t len)
{
	int64_t id = rut_strtab_intern(&m->names, s, len);

	return id < 0 ? NULL : m->names.strs[id].data;
}

int rut_meta_add_field(struct rut_meta *m, struct rut_ctf_type *t, const char *raw_name,
		       const char *shown_name, struct rut_ctf_type *type)
{
	struct rut_ctf_field *fields =
		rut_arena_grow(&m->arena, t->fields, t->n_fields, sizeof(*fields));

	if (!fields)
		return -ENOMEM;
	fields[t->n_fields++] = (struct rut_ctf_field){shown_name, raw_name, type};
	t->fields = fields;
	return 0;
}

int rut_meta_add_range(struct rut_meta *m, struct rut_ctf_type *t, uint64_t lo, uint64_t hi,
		       uint32_t label)
{
	struct rut_ctf_range *ranges =
		rut_arena_grow(&m->arena, t->ranges, t->n_ranges, sizeof(*ranges));

	if (!ranges)
		return -ENOMEM;
	ranges[t->n_ranges++] = (struct rut_ctf_range){lo, hi, label};
	t->ranges = ranges;
	return 0;
}

int rut_meta_add_label(struct rut_meta *m, struct rut_ctf_type *t, const char *label)
{
	const char **labels = rut_arena_grow(&m->arena, t->labels, t->n_labels, sizeof(*labels));

	if (!labels)
		return -ENOMEM;
	labels[t->n_labels++] = label;
	t->labels = labels;
	return 0;
}

struct rut_meta_stream_class *rut_meta_add_stream_class(struct rut_meta *m)
{
	struct rut_ctf_trace *t = &m->pub;
	struct rut_meta_stream_class *sc = rut_arena_alloc(&m->arena, sizeof(*sc));
	struct rut_ctf_stream_class **all =
		rut_arena_grow(&m->arena, t->stream_classes, t->n_stream_classes, sizeof(*all));

	if (!sc || !all)
		return NULL;
	sc->pub.trace = t;
	all[t->n_stream_classes++] = &sc->pub;
	t->stream_classes = all;
	return sc;
}

struct rut_meta_event_class *rut_meta_add_event_class(struct rut_meta *m)
{
	struct rut_meta_event_class *ec = rut_arena_alloc(&m->arena, sizeof(*ec));

	if (!ec)
		return NULL;
	ec->pub.loglevel = -1;
	*m->events_tail = ec;
	m->events_tail = &ec->next;
	return ec;
}

struct rut_meta_clock *rut_meta_clock(struct rut_meta *m, const char *name)
{
	struct rut_ctf_trace *t = &m->pub;
	struct rut_ctf_clock **all;
	struct rut_meta_clock *c;

	for (size_t i = 0; i < t->n_clocks; i++)
		if (!strcmp(t->clocks[i]->name, name))
			return (struct rut_meta_clock *)t->clocks[i];
	c = rut_arena_alloc(&m->arena, sizeof(*c));
	all = rut_arena_grow(&m->arena, t->clocks, t->n_clocks, sizeof(*all));
	if (!c || !all)
		return NULL;
	c->pub.name = name;
	c->pub.freq = 1000000000;
	all[t->n_clocks++] = &c->pub;
	t->clocks = all;
	return c;
}

int rut_meta_add_env(struct rut_meta *m, const char *name, const char *str, int64_t num)
{
	struct rut_ctf_trace *t = &m->pub;
	struct rut_ctf_env *env = rut_arena_grow(&m->arena, t->env, t->n_env, sizeof(*env));

	if (!env)
		return -ENOMEM;
	env[t->n_env++] = (struct rut_ctf_env){name, str, num};
	t->env = env;
	return 0;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

bool rut_parse_uuid(const char *s, size_t len, uint8_t ret[16])
{
	unsigned int n = 0;

	for (size_t i = 0; i < len; i++) {
		int d = hex_digit(s[i]);

		if (s[i] == '-')
			continue;
		if (d < 0 || n >= 32)
			return false;
		ret[n / 2] = (uint8_t)(n % 2 ? ret[n / 2] | d : d << 4);
		n++;
	}
	return n == 32;
}

/* ---- Public look-ups ---- */

const struct rut_ctf_env *rut_ctf_trace_env(const struct rut_ctf_trace *t, const char *name)
{
	for (size_t i = 0; i < t->n_env; i++)
		if (!strcmp(t->env[i].name, name))
			return &t->env[i];
	return NULL;
}

struct rut_ctf_type *rut_ctf_class_scope(const struct rut_ctf_event_class *c,
					 enum rut_ctf_scope scope)
{
	switch (scope) {
	case RUT_CTF_SCOPE_PACKET_HEADER:
		return c->stream_class->trace->packet_header;
	case RUT_CTF_SCOPE_PACKET_CONTEXT:
		return c->stream_class->packet_context;
	case RUT_CTF_SCOPE_EVENT_HEADER:
		return c->stream_class->event_header;
	case RUT_CTF_SCOPE_STREAM_CONTEXT:
		return c->stream_class->event_context;
	case RUT_CTF_SCOPE_EVENT_CONTEXT:
		return c->context;
	case RUT_CTF_SCOPE_PAYLOAD:
		return c->payload;
	default:
		return NULL;
	}
}

struct rut_ctf_type *rut_ctf_type_member(const struct rut_ctf_type *t, const char *name)
{
	for (uint32_t i = 0; i < t->n_fields; i++)
		if (!strcmp(t->fields[i].raw_name, name))
			return t->fields[i].type;
	for (uint32_t i = 0; i < t->n_fields; i++)
		if (!strcmp(t->fields[i].name, name))
			return t->fields[i].type;
	return NULL;
}

/* ---- Finishing ---- */

struct role_name {
	const char *name;
	enum rut_ctf_role role;
};

static const struct role_name header_roles[] = {
	{"magic", RUT_CTF_ROLE_MAGIC},
	{"uuid", RUT_CTF_ROLE_UUID},
	{"stream_id", RUT_CTF_ROLE_STREAM_ID},
	{"stream_instance_id", RUT_CTF_ROLE_STREAM_INSTANCE_ID},
	{0},
};

static const struct role_name context_roles[] = {
	{"timestamp_begin", RUT_CTF_ROLE_TIMESTAMP},
	{"timestamp_end", RUT_CTF_ROLE_TIMESTAMP_END},
	{"content_size", RUT_CTF_ROLE_CONTENT_SIZE},
	{"packet_size", RUT_CTF_ROLE_PACKET_SIZE},
	{"events_discarded", RUT_CTF_ROLE_EVENTS_DISCARDED},
	{"packet_seq_num", RUT_CTF_ROLE_PACKET_SEQ},
	{"cpu_id", RUT_CTF_ROLE_CPU_ID},
	{0},
};

static const struct role_name event_roles[] = {
	{"id", RUT_CTF_ROLE_EVENT_ID},
	{"timestamp", RUT_CTF_ROLE_TIMESTAMP},
	{0},
};

static bool is_integer(const struct rut_ctf_type *t)
{
	return t->kind == RUT_CTF_KIND_INT || t->kind == RUT_CTF_KIND_ENUM;
}

/* CTF 1.8 gives meaning by name. `deep`: the header of events, which may hold a variant. */
static void name_roles(struct rut_ctf_type *t, const struct role_name *roles, bool deep)
{
	for (uint32_t i = 0; t && i < t->n_fields; i++) {
		struct rut_ctf_type *f = t->fields[i].type;

		if (deep && f->n_fields)
			name_roles(f, roles, deep);
		for (const struct role_name *r = roles; r->name; r++) {
			bool uuid = r->role == RUT_CTF_ROLE_UUID;

			if (strcmp(t->fields[i].raw_name, r->name) != 0)
				continue;
			if (uuid ? f->kind == RUT_CTF_KIND_ARRAY && f->count == 16 &&
					    is_integer(f->elem) && f->elem->size == 8
				 : is_integer(f))
				f->role = (uint8_t)r->role;
		}
		if (deep && is_integer(f) && f->clock)
			f->role = RUT_CTF_ROLE_TIMESTAMP;
	}
}

/* The clock that the times in this tree are of; maps those without one to the only clock. */
static void find_clock(struct rut_meta *m, struct rut_ctf_type *t, const struct rut_ctf_clock **clk)
{
	if (!t)
		return;
	if (t->role == RUT_CTF_ROLE_TIMESTAMP || t->role == RUT_CTF_ROLE_TIMESTAMP_END) {
		if (!t->clock && (*clk || m->pub.n_clocks == 1))
			t->clock = *clk ? *clk : m->pub.clocks[0];
		if (t->clock && !*clk)
			*clk = t->clock;
	}
	for (uint32_t i = 0; i < t->n_fields; i++)
		find_clock(m, t->fields[i].type, clk);
}

struct rut_meta_stream_class *rut_meta_find_stream_class(const struct rut_meta *m, uint64_t id)
{
	for (size_t i = 0; i < m->pub.n_stream_classes; i++)
		if (m->pub.stream_classes[i]->id == id)
			return rut_meta_stream_class(m->pub.stream_classes[i]);
	return NULL;
}

static int check_clocks(struct rut_meta *m, struct rut_err *err)
{
	for (size_t i = 0; i < m->pub.n_clocks; i++) {
		struct rut_meta_clock *c = (struct rut_meta_clock *)m->pub.clocks[i];
		__int128 ns, rest;

		if (!c->defined)
			return rut_err_set(err, EINVAL, "the clock '%s' is not defined",
					   c->pub.name);
		/* Rounded down, so that what is left is not negative. */
		ns = (__int128)c->pub.offset_cycles * 1000000000;
		rest = ns % (__int128)c->pub.freq;
		if (rest < 0)
			rest += c->pub.freq;
		ns = (ns - rest) / (__int128)c->pub.freq + (__int128)c->pub.offset_s * 1000000000;
		if (ns > INT64_MAX || ns < INT64_MIN)
			return rut_err_set(err, ERANGE, "the offset of the clock '%s' is absurd",
					   c->pub.name);
		c->pub.base_ns = (int64_t)ns;
		c->pub.base_rest = (uint64_t)rest;
	}
	return 0;
}

int rut_meta_add_event(struct rut_meta *m, struct rut_meta_stream_class *sc,
		       struct rut_meta_event_class *e, struct rut_err *err)
{
	struct rut_ctf_event_class **all =
		rut_arena_grow(&m->arena, sc->pub.events, sc->pub.n_events, sizeof(*all));

	if (!all)
		return rut_err_set(err, ENOMEM, "the description grows too large");
	all[sc->pub.n_events++] = &e->pub;
	sc->pub.events = all;
	return 0;
}

static int link_events(struct rut_meta *m, struct rut_err *err)
{
	for (struct rut_meta_event_class *e = m->events; e; e = e->next) {
		struct rut_meta_stream_class *sc = rut_meta_find_stream_class(m, e->stream_id);
		int rc;

		if (!e->has_stream_id && m->pub.n_stream_classes == 1)
			sc = rut_meta_stream_class(m->pub.stream_classes[0]);
		if (!sc)
			return rut_err_set(err, EINVAL,
					   "line %u: the event '%s' is of stream %llu, which is "
					   "not described",
					   e->line, e->pub.name ? e->pub.name : "",
					   (unsigned long long)e->stream_id);
		if (!e->pub.name)
			e->pub.name = "";
		e->pub.stream_class = &sc->pub;
		rc = rut_meta_add_event(m, sc, e, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* A table by id where ids are dense, which they always are in practice; else a map. */
int rut_meta_index_events(struct rut_meta *m, struct rut_meta_stream_class *sc, struct rut_err *err)
{
	struct rut_ctf_stream_class *pub = &sc->pub;
	uint64_t max_id = 0;

	for (size_t i = 0; i < pub->n_events; i++)
		if (pub->events[i]->id > max_id)
			max_id = pub->events[i]->id;
	rut_map_fini(&sc->other);
	pub->n_by_id = max_id < 4 * pub->n_events + 65536 ? max_id + 1 : 0;
	pub->by_id = rut_arena_alloc(&m->arena, (pub->n_by_id + 1) * sizeof(*pub->by_id));
	if (!pub->by_id)
		return rut_err_set(err, ENOMEM, "the description grows too large");
	for (size_t i = 0; i < pub->n_events; i++) {
		struct rut_ctf_event_class *e = pub->events[i];
		bool twice = pub->n_by_id ? pub->by_id[e->id] != NULL
					  : rut_map_get(&sc->other, e->id) != NULL;

		if (twice)
			return rut_err_set(err, EINVAL,
					   "line %u: the id %llu of the event '%s' is taken",
					   ((struct rut_meta_event_class *)e)->line,
					   (unsigned long long)e->id, e->name);
		if (pub->n_by_id)
			pub->by_id[e->id] = e;
		else if (rut_map_put(&sc->other, e->id, e) < 0)
			return rut_err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static int layout_all(struct rut_meta_stream_class *sc, struct rut_err *err)
{
	struct rut_ctf_type *roots[] = {sc->pub.packet_context, sc->pub.event_header,
					sc->pub.event_context};
	int rc = 0;

	for (int i = 0; i < 3 && !rc; i++)
		rc = roots[i] ? rut_meta_layout(roots[i], 0, err) : 0;
	for (size_t i = 0; i < sc->pub.n_events && !rc; i++) {
		struct rut_ctf_event_class *e = sc->pub.events[i];

		if (e->context)
			rc = rut_meta_layout(e->context, 0, err);
		if (e->payload && !rc)
			rc = rut_meta_layout(e->payload, 0, err);
		if (rc)
			rut_err_prefix(err, "event '%s'", e->name);
	}
	return rc;
}

int rut_meta_finish_stream_class(struct rut_meta *m, struct rut_meta_stream_class *sc,
				 struct rut_err *err)
{
	int rc;

	if (rut_meta_find_stream_class(m, sc->pub.id) != sc)
		return rut_err_set(err, EINVAL, "line %u: the stream id %llu is taken", sc->line,
				   (unsigned long long)sc->pub.id);
	if (m->pub.major == 1) {
		name_roles(sc->pub.packet_context, context_roles, false);
		name_roles(sc->pub.event_header, event_roles, true);
	}
	if (m->pub.major == 1 || sc->pub.clock) { /* CTF 2 names the clock or there is none */
		find_clock(m, sc->pub.event_header, &sc->pub.clock);
		find_clock(m, sc->pub.packet_context, &sc->pub.clock);
	}
	if ((rc = rut_meta_index_events(m, sc, err)) < 0 || (rc = layout_all(sc, err)) < 0 ||
	    (rc = rut_meta_resolve(m, sc, err)) < 0)
		return rc;
	rut_meta_plan_header(sc);
	for (size_t i = 0; i < sc->pub.n_events; i++)
		if (rut_meta_compile(m, sc->pub.events[i], err) < 0)
			return rut_err_prefix(err, "event '%s'", sc->pub.events[i]->name);
	return 0;
}

int rut_meta_finish(struct rut_meta *m, struct rut_err *err)
{
	int rc;

	if ((rc = check_clocks(m, err)) < 0)
		return rc;
	if (!m->pub.n_stream_classes && !rut_meta_add_stream_class(m))
		return rut_err_set(err, ENOMEM, "out of memory");
	if (m->pub.packet_header) {
		if (m->pub.major == 1)
			name_roles(m->pub.packet_header, header_roles, false);
		if (rut_meta_layout(m->pub.packet_header, 0, err) < 0)
			return rut_err_prefix(err, "packet header");
	}
	if ((rc = link_events(m, err)) < 0)
		return rc;
	for (size_t i = 0; i < m->pub.n_stream_classes; i++)
		if ((rc = rut_meta_finish_stream_class(
			     m, rut_meta_stream_class(m->pub.stream_classes[i]), err)) < 0)
			return rc;
	return 0;
}

/* ---- Loading ---- */

enum { META_MAGIC = 0x75d11d57, META_HEADER = 37 };

static uint32_t get32(const uint8_t *p, bool be)
{
	return be ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
		  : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/*
 * Joins the text of metadata packets: magic, uuid[16], checksum, content size and packet size in
 * bits, then the five bytes compression, encryption, checksum scheme, major, minor.
 */
static int unpack(const char *data, size_t len, struct rut_buf *text, bool *ret_cut,
		  struct rut_err *err)
{
	const uint8_t *p = (const uint8_t *)data;
	bool be = get32(p, true) == META_MAGIC;
	size_t pos = 0;

	while (pos < len) {
		uint32_t content, size;

		if (len - pos < META_HEADER) {
			*ret_cut = true;
			break;
		}
		if (get32(p + pos, be) != META_MAGIC)
			return rut_err_set(err, EINVAL,
					   "byte %zu: no metadata packet (magic number 0x%08x)",
					   pos, get32(p + pos, be));
		content = get32(p + pos + 24, be);
		size = get32(p + pos + 28, be);
		if (p[pos + 32] || p[pos + 33])
			return rut_err_set(err, ENOTSUP,
					   "byte %zu: the metadata is compressed or encrypted",
					   pos);
		/* What is there of the last packet is used. */
		if (!(content % 8) && content <= size && content / 8 > len - pos) {
			*ret_cut = true;
			content = (uint32_t)(len - pos) * 8;
			size = content;
		}
		if (content % 8 || size % 8 || content < META_HEADER * 8 || content > size)
			return rut_err_set(err, EINVAL,
					   "byte %zu: a metadata packet of %u bits with %u of "
					   "content, %zu bytes are left",
					   pos, size, content, len - pos);
		rut_buf_add(text, data + pos + META_HEADER, content / 8 - META_HEADER);
		pos += size / 8 < len - pos ? size / 8 : len - pos; /* padding may be missing */
	}
	return text->failed ? rut_err_set(err, ENOMEM, "out of memory") : 0;
}

/*
 * How much of a text that is cut off is whole: up to the last declaration that has ended (TSDL), or
 * to the last separator (JSON).
 */
static size_t whole_part(const char *data, size_t len)
{
	size_t whole = 0;
	int depth = 0;

	if (len && data[0] == '\x1e') {
		while (len && data[len - 1] != '\x1e')
			len--;
		return len ? len - 1 : 0;
	}
	for (size_t i = 0; i < len; i++) {
		char c = data[i];

		if (c == '"' || c == '\'') {
			for (i++; i < len && data[i] != c; i++)
				i += data[i] == '\\';
		} else if (c == '/' && i + 1 < len && data[i + 1] == '*') {
			const char *end = memmem(data + i + 2, len - i - 2, "*/", 2);

			i = end ? (size_t)(end - data) + 1 : len;
		} else if (c == '/' && i + 1 < len && data[i + 1] == '/') {
			while (i < len && data[i] != '\n')
				i++;
		} else if (c == '{') {
			depth++;
		} else if (c == '}') {
			depth--;
		} else if (c == ';' && !depth) {
			whole = i + 1;
		}
	}
	return whole;
}

/* Either language, in packets or not. */
static int parse(struct rut_meta *m, const char *data, size_t len, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	size_t i = 0;
	int rc = 0;

	if (len >= 4 && (get32((const uint8_t *)data, true) == META_MAGIC ||
			 get32((const uint8_t *)data, false) == META_MAGIC)) {
		m->metadata_has_packets = true;
		rc = unpack(data, len, &text, &m->cut, err);
		data = text.data ? text.data : "";
		len = text.len;
	}
	while (i < len && strchr(" \t\r\n\x1e", data[i]) && data[i])
		i++;
	if (rc < 0)
		return rc;
	if (m->cut)
		len = whole_part(data, len);
	if (i < len && (data[i] == '{' || (i && data[i - 1] == '\x1e')))
		return rut_ctf2_parse(m, data, len, err);
	return rut_tsdl_parse(m, data, len, err);
}

int rut_meta_parse(struct rut_meta *m, const char *data, size_t len, const char *name,
		   struct rut_err *err)
{
	int rc = parse(m, data, len, err);

	if (!rc)
		rc = rut_meta_finish(m, err);
	return rc < 0 ? rut_err_prefix(err, "metadata '%s'", name) : 0;
}

int rut_meta_read(struct rut_meta *m, const char *path, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf raw = RUT_BUF_INIT;
	struct stat st;
	int rc;

	/* Checked before it is read: what is written meanwhile is seen later. */
	if (!stat(path, &st)) {
		m->file_bytes = st.st_size;
		m->file_time = st.st_mtim;
	}
	rc = rut_buf_read_file(&raw, path, RUT_META_MAX_BYTES);
	if (rc == -EFBIG)
		return rut_err_set(err, EFBIG, "metadata '%s': larger than %d MiB", path,
				   RUT_META_MAX_BYTES >> 20);
	if (rc < 0)
		return rut_err_errno(err, -rc, "cannot read '%s'", path);
	rc = parse(m, raw.data ? raw.data : "", raw.len, err);
	return rc < 0 ? rut_err_prefix(err, "metadata '%s'", path) : 0;
}

int rut_meta_load(struct rut_meta *m, const char *path, struct rut_err *err)
{
	int rc = rut_meta_read(m, path, err);

	if (rc < 0)
		return rc;
	rc = rut_meta_finish(m, err);
	return rc < 0 ? rut_err_prefix(err, "metadata '%s'", path) : 0;
}
