/* SPDX-License-Identifier: MIT */
/*
 * Sizes, and what lengths and tags refer to.
 *
 * A path in TSDL is looked up like a variable: among the members before, in the structures around,
 * from the innermost outwards, then in the scopes that were decoded before; or it begins with the
 * name of a scope. In CTF 2 it begins with an origin (see ctf2_class.c), or is relative; a variant
 * on the way is followed into every option, so that several fields may share one register. What is
 * found gets a register, which the decoder fills when it passes by.
 */
#include <string.h>

#include "ctf/ctf2.h"
#include "ctf/meta.h"

enum { MAX_BITS_SHIFT = 45, MAX_TARGETS = 64 };
#define MAX_BITS ((uint64_t)1 << MAX_BITS_SHIFT) /* of one field: no file holds more */

/* ---- Sizes ---- */

static uint64_t align_up(uint64_t v, uint64_t align)
{
	return (v + align - 1) & ~(align - 1);
}

static int layout_struct(struct rut_ctf_type *t, unsigned int depth, struct rut_err *err)
{
	uint64_t size = 0;
	int rc;

	t->fixed = true;
	for (uint32_t i = 0; i < t->n_fields; i++) {
		struct rut_ctf_type *f = t->fields[i].type;

		if ((rc = rut_meta_layout(f, depth + 1, err)) < 0)
			return rc;
		if (f->align > t->align)
			t->align = f->align;
		t->fixed &= f->fixed;
		size = t->fixed ? align_up(size, f->align) + f->size : 0;
		if (size > MAX_BITS)
			return rut_err_set(err, EINVAL, "'%s' ends absurdly far away",
					   t->fields[i].raw_name);
	}
	t->size = size;
	return 0;
}

static int layout_array(struct rut_ctf_type *t, unsigned int depth, struct rut_err *err)
{
	uint64_t stride;
	int rc = rut_meta_layout(t->elem, depth + 1, err);

	if (rc < 0)
		return rc;
	if (t->elem->align > t->align)
		t->align = t->elem->align;
	if (t->kind == RUT_CTF_KIND_SEQUENCE || !t->elem->fixed)
		return 0;
	stride = align_up(t->elem->size, t->elem->align);
	if (t->count > MAX_BITS || (stride && t->count > MAX_BITS / stride))
		return rut_err_set(err, EINVAL, "an array of %llu elements is absurdly long",
				   (unsigned long long)t->count);
	t->fixed = true;
	t->size = t->count ? (t->count - 1) * stride + t->elem->size : 0;
	return 0;
}

int rut_meta_layout(struct rut_ctf_type *t, unsigned int depth, struct rut_err *err)
{
	int rc = 0;

	if (depth > 2 * RUT_META_MAX_DEPTH)
		return rut_err_set(err, EINVAL, "types are nested more than %d deep",
				   RUT_META_MAX_DEPTH);
	switch (t->kind) {
	case RUT_CTF_KIND_INT:
	case RUT_CTF_KIND_ENUM:
		t->fixed = !t->vlen;
		return 0;
	case RUT_CTF_KIND_BOOL:
	case RUT_CTF_KIND_BITMAP:
	case RUT_CTF_KIND_FLOAT:
		t->fixed = true;
		return 0;
	case RUT_CTF_KIND_BLOB:
		if (t->len_path)
			return 0;
		if (t->count > MAX_BITS / 8)
			return rut_err_set(err, EINVAL, "a blob is absurdly long");
		t->fixed = true;
		t->size = t->count * 8;
		return 0;
	case RUT_CTF_KIND_STRUCT:
		return layout_struct(t, depth, err);
	case RUT_CTF_KIND_ARRAY:
	case RUT_CTF_KIND_SEQUENCE:
		return layout_array(t, depth, err);
	case RUT_CTF_KIND_OPTIONAL:
		return rut_meta_layout(t->elem, depth + 1, err);
	case RUT_CTF_KIND_VARIANT:
		for (uint32_t i = 0; i < t->n_fields && !rc; i++)
			rc = rut_meta_layout(t->fields[i].type, depth + 1, err);
		return rc;
	default:
		return 0;
	}
}

/* ---- References ---- */

struct level {
	struct rut_ctf_type *t; /* a structure that is open */
	uint32_t visible;	/* its members before this one are known */
};

struct resolver {
	struct rut_meta *m;
	struct rut_meta_stream_class *sc;
	struct rut_err *err;
	struct rut_ctf_type *roots[RUT_CTF_SCOPE_COUNT];
	enum rut_ctf_scope scope;
	struct level stack[2 * RUT_META_MAX_DEPTH + 2];
	unsigned int n;
	struct rut_ctf_type *targets[MAX_TARGETS];
	unsigned int n_targets;
};

static const struct {
	const char *prefix;
	enum rut_ctf_scope scope;
} prefixes[] = {
	{"trace.packet.header.", RUT_CTF_SCOPE_PACKET_HEADER},
	{"stream.packet.context.", RUT_CTF_SCOPE_PACKET_CONTEXT},
	{"stream.event.header.", RUT_CTF_SCOPE_EVENT_HEADER},
	{"stream.event.context.", RUT_CTF_SCOPE_STREAM_CONTEXT},
	{"event.context.", RUT_CTF_SCOPE_EVENT_CONTEXT},
	{"event.fields.", RUT_CTF_SCOPE_PAYLOAD},
	{"packet.header.", RUT_CTF_SCOPE_PACKET_HEADER},
	{"packet.context.", RUT_CTF_SCOPE_PACKET_CONTEXT},
};

/* The member with the name that `path` begins with, among the first `visible`. */
static struct rut_ctf_type *member(const struct rut_ctf_type *t, uint32_t visible, char sep,
				   const char **path)
{
	const char *end = strchrnul(*path, sep);
	size_t len = (size_t)(end - *path);

	for (uint32_t i = visible; i-- > 0;) {
		const char *name = t->fields[i].raw_name;

		if (!strncmp(name, *path, len) && !name[len]) {
			*path = *end ? end + 1 : end;
			return t->fields[i].type;
		}
	}
	return NULL;
}

/* Follows the rest of a path from `t` down, and notes what it leads to. */
static void follow(struct resolver *r, struct rut_ctf_type *t, char sep, const char *path)
{
	while (t && *path) {
		if (sep == RUT_CTF2_SEP &&
		    (t->kind == RUT_CTF_KIND_OPTIONAL || t->kind == RUT_CTF_KIND_ARRAY ||
		     t->kind == RUT_CTF_KIND_SEQUENCE)) {
			t = t->elem; /* the current element */
			continue;
		}
		if (sep == RUT_CTF2_SEP && t->kind == RUT_CTF_KIND_VARIANT) {
			for (uint32_t i = 0; i < t->n_fields; i++)
				follow(r, t->fields[i].type, sep, path);
			return;
		}
		if (t->kind != RUT_CTF_KIND_STRUCT && t->kind != RUT_CTF_KIND_VARIANT)
			return;
		t = member(t, t->n_fields, sep, &path);
	}
	while (t && t->kind == RUT_CTF_KIND_OPTIONAL)
		t = t->elem;
	if (t && sep == RUT_CTF2_SEP && t->kind == RUT_CTF_KIND_VARIANT) {
		for (uint32_t i = 0; i < t->n_fields; i++)
			follow(r, t->fields[i].type, sep, path);
		return;
	}
	if (t && r->n_targets < MAX_TARGETS)
		r->targets[r->n_targets++] = t;
}

/* How many members of a root are known to the scope being walked. */
static uint32_t visible_of(const struct resolver *r, enum rut_ctf_scope scope)
{
	if (scope == r->scope && r->n)
		return r->stack[0].visible;
	return r->roots[scope]->n_fields;
}

static void find_absolute(struct resolver *r, enum rut_ctf_scope scope, char sep, const char *path)
{
	struct rut_ctf_type *t;

	if (scope > r->scope || !r->roots[scope])
		return;
	/* Within the open structures themselves only what stands before is known. */
	t = member(r->roots[scope], visible_of(r, scope), sep, &path);
	if (!t && scope == r->scope && r->n && visible_of(r, scope) < r->roots[scope]->n_fields) {
		/* The member being walked: its own earlier members are known. */
		const struct rut_ctf_field *f = &r->roots[scope]->fields[visible_of(r, scope)];
		size_t len = strlen(f->raw_name);

		if (!strncmp(path, f->raw_name, len) && path[len] == sep) {
			path += len + 1;
			t = f->type;
		}
	}
	follow(r, t, sep, path);
	if (r->n_targets && scope == RUT_CTF_SCOPE_EVENT_HEADER && r->scope != scope)
		r->sc->header_referred = true;
}

static void find_tsdl(struct resolver *r, const char *path)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes) && !r->n_targets; i++) {
		size_t len = strlen(prefixes[i].prefix);

		if (!strncmp(path, prefixes[i].prefix, len))
			find_absolute(r, prefixes[i].scope, '.', path + len);
	}
	for (unsigned int i = r->n; i-- > 0 && !r->n_targets;) {
		const char *rest = path;
		struct rut_ctf_type *t = member(r->stack[i].t, r->stack[i].visible, '.', &rest);

		if (t) {
			follow(r, t, '.', rest);
			return;
		}
	}
	for (int s = (int)r->scope - 1; s >= 0 && !r->n_targets; s--)
		find_absolute(r, (enum rut_ctf_scope)s, '.', path);
}

static void find_ctf2(struct resolver *r, const char *path)
{
	struct rut_ctf_type *t;
	unsigned int i = r->n;

	if (path[0] == '@' && path[1] >= '0' && path[1] < '0' + RUT_CTF_SCOPE_COUNT) {
		find_absolute(r, (enum rut_ctf_scope)(path[1] - '0'), RUT_CTF2_SEP, path + 2);
		return;
	}
	for (; *path == RUT_CTF2_UP && i; path++)
		i--;
	if (!i)
		return;
	t = member(r->stack[i - 1].t, r->stack[i - 1].visible, RUT_CTF2_SEP, &path);
	follow(r, t, RUT_CTF2_SEP, path);
}

/* TSDL: the option of a label has the label's name, perhaps with an underscore before. */
static int label_ranges(struct resolver *r, struct rut_ctf_type *v, const struct rut_ctf_type *tag)
{
	if (tag->kind != RUT_CTF_KIND_ENUM)
		return rut_err_set(r->err, EINVAL,
				   "the tag '%s' of a variant is not an enumeration", v->len_path);
	v->ranges = NULL;
	v->n_ranges = 0;
	for (uint32_t i = 0; i < tag->n_ranges; i++) {
		const char *label = tag->labels[tag->ranges[i].label];

		for (uint32_t o = 0; o < v->n_fields; o++) {
			const char *name = v->fields[o].raw_name;

			if (strcmp(name, label) != 0 &&
			    strcmp(name + (name[0] == '_'), label) != 0 &&
			    strcmp(name, label + (label[0] == '_')) != 0)
				continue;
			if (rut_meta_add_range(r->m, v, tag->ranges[i].lo, tag->ranges[i].hi, o))
				return rut_err_set(r->err, ENOMEM, "out of memory");
			break;
		}
	}
	return 0;
}

/* The path as a user reads it. */
static const char *readable(const char *path, char buf[128])
{
	size_t n = 0;

	path += path[0] == '@' ? 2 : 0;
	for (; *path && n < 127; path++)
		if (*path != RUT_CTF2_UP)
			buf[n++] = *path == RUT_CTF2_SEP ? '.' : *path;
	buf[n] = '\0';
	return buf;
}

/* Checks what a path leads to, and gives all of it one register. */
static int bind_targets(struct resolver *r, struct rut_ctf_type *t, bool tag)
{
	const char *what = tag ? "tag" : "length";
	int32_t reg = -1;
	char buf[128];

	for (unsigned int i = 0; i < r->n_targets; i++) {
		struct rut_ctf_type *target = r->targets[i];

		if (target->kind != RUT_CTF_KIND_INT && target->kind != RUT_CTF_KIND_ENUM &&
		    !(tag && target->kind == RUT_CTF_KIND_BOOL))
			return rut_err_set(r->err, EINVAL, "the %s '%s' is not an integer", what,
					   readable(t->len_path, buf));
		if (!tag && target->is_signed)
			return rut_err_set(r->err, EINVAL, "the length '%s' is signed",
					   readable(t->len_path, buf));
		if (reg < 0)
			reg = target->reg;
		if (target->reg >= 0 && target->reg != reg)
			return rut_err_set(r->err, ENOTSUP,
					   "the %s '%s' means fields that others refer to apart",
					   what, readable(t->len_path, buf));
	}
	if (reg < 0) {
		if (r->m->n_regs >= RUT_META_MAX_REGS)
			return rut_err_set(r->err, EINVAL, "too many lengths and tags");
		reg = (int32_t)r->m->n_regs++;
	}
	for (unsigned int i = 0; i < r->n_targets; i++)
		r->targets[i]->reg = reg;
	t->len_reg = reg;
	t->tag_signed = r->targets[0]->is_signed;
	for (uint32_t i = 0; tag && !t->tag_signed && i < t->n_ranges; i++)
		if (t->ranges[i].lo > t->ranges[i].hi)
			t->ranges[i].lo = 0; /* from below 0 */
	return 0;
}

static int bind(struct resolver *r, struct rut_ctf_type *t)
{
	bool tag = t->kind == RUT_CTF_KIND_VARIANT || t->kind == RUT_CTF_KIND_OPTIONAL;
	char buf[128];
	int rc;

	if (!t->len_path)
		return rut_err_set(r->err, EINVAL, "a %s has no tag",
				   t->kind == RUT_CTF_KIND_VARIANT ? "variant" : "optional field");
	r->n_targets = 0;
	if (r->m->pub.major == 1)
		find_tsdl(r, t->len_path);
	else
		find_ctf2(r, t->len_path);
	if (!r->n_targets)
		return rut_err_set(r->err, EINVAL, "the %s '%s' stands nowhere before its use",
				   tag ? "tag" : "length", readable(t->len_path, buf));
	if ((rc = bind_targets(r, t, tag)) < 0)
		return rc;
	if (t->kind == RUT_CTF_KIND_VARIANT && r->m->pub.major == 1)
		return label_ranges(r, t, r->targets[0]);
	return 0;
}

/* Can a label be found by bisection? Enumerations of Ruby methods have thousands of them. */
static bool is_ordered(const struct rut_ctf_type *t)
{
	for (uint32_t i = 0; i < t->n_ranges; i++)
		if (t->is_signed || t->ranges[i].lo > t->ranges[i].hi ||
		    (i && t->ranges[i].lo <= t->ranges[i - 1].hi))
			return false;
	return true;
}

static int visit(struct resolver *r, struct rut_ctf_type *t)
{
	int rc = 0;

	switch (t->kind) {
	case RUT_CTF_KIND_STRUCT:
		r->stack[r->n++] = (struct level){t, 0};
		for (uint32_t i = 0; i < t->n_fields && !rc; i++) {
			r->stack[r->n - 1].visible = i;
			rc = visit(r, t->fields[i].type);
		}
		r->n--;
		return rc;
	case RUT_CTF_KIND_VARIANT:
		rc = bind(r, t);
		for (uint32_t i = 0; i < t->n_fields && !rc; i++)
			rc = visit(r, t->fields[i].type);
		return rc;
	case RUT_CTF_KIND_SEQUENCE:
	case RUT_CTF_KIND_OPTIONAL:
		rc = bind(r, t);
		return rc ? rc : visit(r, t->elem);
	case RUT_CTF_KIND_ARRAY:
		return visit(r, t->elem);
	case RUT_CTF_KIND_BLOB:
		return t->len_path ? bind(r, t) : 0;
	case RUT_CTF_KIND_ENUM:
		t->ordered = is_ordered(t);
		return 0;
	default:
		return 0;
	}
}

static int visit_scope(struct resolver *r, enum rut_ctf_scope scope)
{
	r->scope = scope;
	r->n = 0;
	return r->roots[scope] ? visit(r, r->roots[scope]) : 0;
}

/* Once all references are known: what cannot be passed over by its size alone. */
static bool mark_saves(struct rut_ctf_type *t)
{
	t->saves = t->reg >= 0;
	if (t->elem)
		t->saves |= mark_saves(t->elem);
	for (uint32_t i = 0; i < t->n_fields; i++)
		t->saves |= mark_saves(t->fields[i].type);
	return t->saves;
}

static void mark_scopes(struct resolver *r, int from, int to)
{
	for (int s = from; s <= to; s++)
		if (r->roots[s])
			mark_saves(r->roots[s]);
}

static void set_roots(struct resolver *r)
{
	r->roots[RUT_CTF_SCOPE_PACKET_HEADER] = r->m->pub.packet_header;
	r->roots[RUT_CTF_SCOPE_PACKET_CONTEXT] = r->sc->pub.packet_context;
	r->roots[RUT_CTF_SCOPE_EVENT_HEADER] = r->sc->pub.event_header;
	r->roots[RUT_CTF_SCOPE_STREAM_CONTEXT] = r->sc->pub.event_context;
}

static int resolve_event(struct resolver *r, const struct rut_ctf_event_class *e)
{
	int rc;

	r->roots[RUT_CTF_SCOPE_EVENT_CONTEXT] = e->context;
	r->roots[RUT_CTF_SCOPE_PAYLOAD] = e->payload;
	rc = visit_scope(r, RUT_CTF_SCOPE_EVENT_CONTEXT);
	if (!rc)
		rc = visit_scope(r, RUT_CTF_SCOPE_PAYLOAD);
	if (!rc)
		mark_scopes(r, RUT_CTF_SCOPE_EVENT_CONTEXT, RUT_CTF_SCOPE_PAYLOAD);
	return rc;
}

int rut_meta_resolve(struct rut_meta *m, struct rut_meta_stream_class *sc, struct rut_err *err)
{
	struct resolver r = {.m = m, .sc = sc, .err = err};
	int rc = 0;

	set_roots(&r);
	for (int s = 0; s <= RUT_CTF_SCOPE_STREAM_CONTEXT && !rc; s++)
		rc = visit_scope(&r, (enum rut_ctf_scope)s);
	for (size_t i = 0; i < sc->pub.n_events && !rc; i++) {
		rc = resolve_event(&r, sc->pub.events[i]);
		if (rc)
			return rut_err_prefix(err, "event '%s'", sc->pub.events[i]->name);
	}
	mark_scopes(&r, 0, RUT_CTF_SCOPE_STREAM_CONTEXT);
	return rc;
}

int rut_meta_resolve_event(struct rut_meta *m, struct rut_meta_stream_class *sc,
			   struct rut_ctf_event_class *e, struct rut_err *err)
{
	struct resolver r = {.m = m, .sc = sc, .err = err};
	int rc;

	set_roots(&r);
	rc = resolve_event(&r, e);
	if (!rc)
		mark_scopes(&r, 0, RUT_CTF_SCOPE_STREAM_CONTEXT);
	return rc;
}
