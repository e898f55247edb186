/* SPDX-License-Identifier: MIT */
/*
 * CTF 2's metadata: a sequence of JSON objects ("fragments") that describe field classes, clocks,
 * data stream classes and event record classes.
 *
 * Where a length or selector stands is kept as a path of member names (RUT_CTF2_SEP between them)
 * after "@SCOPE" or one RUT_CTF2_UP for each structure to go up; resolve.c follows it.
 */
#include "ctf/ctf2.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/cleanup.h"
#include "ctf/meta.h"

static void put_json(struct json_object **o)
{
	if (*o)
		json_object_put(*o);
}

static void free_tokener(struct json_tokener **t)
{
	if (*t)
		json_tokener_free(*t);
}

struct alias {
	struct alias *next;
	const char *name;
	const struct rut_ctf_type *type;
};

struct parser {
	struct rut_meta *m;
	struct rut_err *err;
	struct alias *aliases;
	unsigned int depth;
	bool has_preamble, has_trace;
};

static int nomem(struct parser *p)
{
	return rut_err_set(p->err, ENOMEM, "the description grows too large");
}

/* ---- Properties ---- */

static const char *copy(struct parser *p, const char *s)
{
	return rut_meta_name(p->m, s, strlen(s));
}

/* The property, which must be of this type; NULL when it is not there. */
static int get(struct parser *p, struct json_object *o, const char *key, enum json_type type,
	       struct json_object **ret)
{
	static const char *const names[] = {
		[json_type_boolean] = "a boolean", [json_type_double] = "a number",
		[json_type_int] = "an integer",	   [json_type_object] = "an object",
		[json_type_array] = "an array",	   [json_type_string] = "a string",
	};

	*ret = NULL;
	if (!json_object_object_get_ex(o, key, ret))
		return 0;
	if (!json_object_is_type(*ret, type))
		return rut_err_set(p->err, EINVAL, "'%s' must be %s", key, names[type]);
	return 0;
}

static int get_string(struct parser *p, struct json_object *o, const char *key, const char **ret)
{
	struct json_object *v;
	int rc = get(p, o, key, json_type_string, &v);

	if (rc < 0 || !v)
		return rc;
	*ret = copy(p, json_object_get_string(v));
	return *ret ? 0 : nomem(p);
}

/* An integer of 0 or more; *ret keeps its default when there is none. */
static int get_uint(struct parser *p, struct json_object *o, const char *key, uint64_t *ret)
{
	struct json_object *v;
	int rc = get(p, o, key, json_type_int, &v);

	if (rc < 0 || !v)
		return rc;
	if (json_object_get_int64(v) < 0)
		return rut_err_set(p->err, EINVAL, "'%s' must be 0 or more", key);
	*ret = json_object_get_uint64(v);
	return 0;
}

static int need_uint(struct parser *p, struct json_object *o, const char *key, uint64_t max,
		     uint64_t *ret)
{
	int rc;

	if (!json_object_object_get_ex(o, key, NULL))
		return rut_err_set(p->err, EINVAL, "'%s' is missing", key);
	if ((rc = get_uint(p, o, key, ret)) < 0)
		return rc;
	if (*ret > max)
		return rut_err_set(p->err, EINVAL, "'%s' is %" PRIu64 ", more than %" PRIu64, key,
				   *ret, max);
	return 0;
}

static int get_align(struct parser *p, struct json_object *o, const char *key, uint32_t *ret)
{
	uint64_t v = *ret;
	int rc = get_uint(p, o, key, &v);

	if (rc < 0)
		return rc;
	if (!v || v & (v - 1) || v > 1 << 20)
		return rut_err_set(p->err, EINVAL, "'%s' must be a power of two, not %" PRIu64, key,
				   v);
	*ret = (uint32_t)v;
	return 0;
}

enum signedness { UNSIGNED, SIGNED, EITHER };

/* [[lo, hi], ...]. EITHER: what selects is not known yet, resolve.c cuts off what is negative. */
static int add_ranges(struct parser *p, struct rut_ctf_type *t, struct json_object *set,
		      enum signedness sign, uint32_t label)
{
	size_t n = json_object_is_type(set, json_type_array) ? json_object_array_length(set) : 0;

	if (!n)
		return rut_err_set(p->err, EINVAL, "a set of ranges is missing or empty");
	for (size_t i = 0; i < n; i++) {
		struct json_object *r = json_object_array_get_idx(set, i), *end[2];
		uint64_t v[2];

		if (!json_object_is_type(r, json_type_array) || json_object_array_length(r) != 2)
			return rut_err_set(p->err, EINVAL, "a range must be [LOWER, UPPER]");
		for (int k = 0; k < 2; k++) {
			end[k] = json_object_array_get_idx(r, (size_t)k);
			if (!json_object_is_type(end[k], json_type_int))
				return rut_err_set(p->err, EINVAL, "a range must be of integers");
			v[k] = json_object_get_int64(end[k]) < 0
				       ? (uint64_t)json_object_get_int64(end[k])
				       : json_object_get_uint64(end[k]);
		}
		if (sign == UNSIGNED && json_object_get_int64(end[1]) < 0)
			continue; /* cannot occur */
		if (sign == UNSIGNED && json_object_get_int64(end[0]) < 0)
			v[0] = 0;
		if (json_object_get_int64(end[0]) < 0
			    ? (int64_t)v[0] > json_object_get_int64(end[1])
			    : json_object_get_int64(end[1]) < 0 || v[0] > v[1])
			return rut_err_set(p->err, EINVAL, "a range ends before it begins");
		if (rut_meta_add_range(p->m, t, v[0], v[1], label) < 0)
			return nomem(p);
	}
	return 0;
}

/* {"label": ranges, ...} of integers, {"flag": ranges} of bit maps. */
static int add_labels(struct parser *p, struct rut_ctf_type *t, struct json_object *o)
{
	json_object_object_foreach(o, name, ranges)
	{
		const char *label = copy(p, name);
		int rc;

		if (!label || rut_meta_add_label(p->m, t, label) < 0)
			return nomem(p);
		rc = add_ranges(p, t, ranges, t->is_signed ? SIGNED : UNSIGNED, t->n_labels - 1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int get_roles(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	static const struct {
		const char *name;
		enum rut_ctf_role role;
	} roles[] = {
		{"packet-magic-number", RUT_CTF_ROLE_MAGIC},
		{"metadata-stream-uuid", RUT_CTF_ROLE_UUID},
		{"data-stream-class-id", RUT_CTF_ROLE_STREAM_ID},
		{"data-stream-id", RUT_CTF_ROLE_STREAM_INSTANCE_ID},
		{"packet-total-length", RUT_CTF_ROLE_PACKET_SIZE},
		{"packet-content-length", RUT_CTF_ROLE_CONTENT_SIZE},
		{"default-clock-timestamp", RUT_CTF_ROLE_TIMESTAMP},
		{"packet-end-default-clock-timestamp", RUT_CTF_ROLE_TIMESTAMP_END},
		{"discarded-event-record-counter-snapshot", RUT_CTF_ROLE_EVENTS_DISCARDED},
		{"packet-sequence-number", RUT_CTF_ROLE_PACKET_SEQ},
		{"event-record-class-id", RUT_CTF_ROLE_EVENT_ID},
	};
	struct json_object *list;
	int rc = get(p, o, "roles", json_type_array, &list);

	if (rc < 0 || !list)
		return rc;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		const char *s = json_object_get_string(json_object_array_get_idx(list, i));

		for (size_t k = 0; s && k < sizeof(roles) / sizeof(*roles); k++)
			if (!strcmp(s, roles[k].name))
				t->role = (uint8_t)roles[k].role;
	}
	return 0;
}

/* ---- Scalars ---- */

static int parse_class(struct parser *p, struct json_object *o, struct rut_ctf_type **ret);

/* What all fixed-length classes have in common. */
static int fixed_length(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	const char *byte_order = NULL, *bit_order = NULL;
	int rc;

	if ((rc = need_uint(p, o, "length", 64, &t->size)) < 0 ||
	    (rc = get_align(p, o, "alignment", &t->align)) < 0 ||
	    (rc = get_string(p, o, "byte-order", &byte_order)) < 0 ||
	    (rc = get_string(p, o, "bit-order", &bit_order)) < 0)
		return rc;
	if (!t->size)
		return rut_err_set(p->err, EINVAL, "'length' is 0");
	if (!byte_order ||
	    (strcmp(byte_order, "big-endian") != 0 && strcmp(byte_order, "little-endian") != 0))
		return rut_err_set(p->err, EINVAL,
				   "'byte-order' must be big-endian or little-endian");
	t->big_endian = byte_order[0] == 'b';
	if (bit_order && strcmp(bit_order, "first-to-last") != 0 &&
	    strcmp(bit_order, "last-to-first") != 0)
		return rut_err_set(p->err, EINVAL,
				   "'bit-order' must be first-to-last or last-to-first");
	t->reversed = bit_order && (bit_order[0] == 'f') == t->big_endian;
	return 0;
}

static int integer(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *mappings;
	uint64_t base = 10;
	int rc;

	if ((rc = get_uint(p, o, "preferred-display-base", &base)) < 0 ||
	    (rc = get(p, o, "mappings", json_type_object, &mappings)) < 0)
		return rc;
	if (base != 2 && base != 8 && base != 10 && base != 16)
		return rut_err_set(p->err, EINVAL,
				   "'preferred-display-base' must be 2, 8, 10 or 16");
	t->base = (uint8_t)base;
	if (mappings && json_object_object_length(mappings)) {
		t->kind = RUT_CTF_KIND_ENUM;
		if ((rc = add_labels(p, t, mappings)) < 0)
			return rc;
	}
	return get_roles(p, o, t);
}

static int parse_fixed_int(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc = fixed_length(p, o, t);

	return rc < 0 ? rc : integer(p, o, t);
}

static int parse_fixed_sint(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	t->is_signed = true;
	return parse_fixed_int(p, o, t);
}

static int parse_vlen_int(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	t->vlen = true;
	t->align = 8;
	t->size = 64;
	return integer(p, o, t);
}

static int parse_vlen_sint(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	t->is_signed = true;
	return parse_vlen_int(p, o, t);
}

/* Until RC-7.0 an enumeration was a class of its own; since then it is an integer's `mappings`. */
static int need_mappings(struct parser *p, struct json_object *o)
{
	struct json_object *mappings;
	int rc = get(p, o, "mappings", json_type_object, &mappings);

	if (!rc && (!mappings || !json_object_object_length(mappings)))
		return rut_err_set(p->err, EINVAL, "an enumeration has no 'mappings'");
	return rc;
}

static int parse_bits(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *flags;
	int rc = fixed_length(p, o, t);

	t->base = 2;
	if (rc < 0 || (rc = get(p, o, "flags", json_type_object, &flags)) < 0)
		return rc;
	return flags ? add_labels(p, t, flags) : 0;
}

static int parse_float(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc = fixed_length(p, o, t);

	if (rc < 0)
		return rc;
	if (t->size != 16 && t->size != 32 && t->size != 64)
		return rut_err_set(p->err, ENOTSUP,
				   "a floating point number of %" PRIu64
				   " bits: only 16, 32 and 64 can be read",
				   t->size);
	t->exp_bits = t->size == 16 ? 5 : t->size == 32 ? 8 : 11;
	return 0;
}

/* ---- Lengths and selectors ---- */

/* The elements of `list` from `first` on. */
static int path_of(struct parser *p, struct json_object *list, size_t first, char *out, size_t size,
		   size_t *len)
{
	static const char up[] = {RUT_CTF2_UP, '\0'};
	size_t base = *len, n = json_object_array_length(list);

	for (size_t i = first; i < n; i++) {
		struct json_object *item = json_object_array_get_idx(list, i);
		const char *s = json_object_get_string(item);
		char *last;

		if (item && !json_object_is_type(item, json_type_string))
			return rut_err_set(p->err, EINVAL, "a 'path' must be of strings and null");
		if (!item && *len > base && out[*len - 1] != RUT_CTF2_UP) {
			/* up again from a member: as if it had not been named */
			out[*len - 1] = '\0';
			last = strrchr(out + base, RUT_CTF2_SEP);
			*len = last ? (size_t)(last - out) + 1 : base;
			continue;
		}
		if (!item)
			s = up;
		else if (strchr(s, RUT_CTF2_SEP) || strchr(s, RUT_CTF2_UP))
			return rut_err_set(p->err, EINVAL, "control characters in a 'path'");
		if (*len + strlen(s) + 2 > size)
			return rut_err_set(p->err, EINVAL, "a 'path' is too long");
		memcpy(out + *len, s, strlen(s));
		*len += strlen(s);
		if (item)
			out[(*len)++] = RUT_CTF2_SEP;
	}
	if (*len == base || out[*len - 1] != RUT_CTF2_SEP)
		return rut_err_set(p->err, EINVAL, "a 'path' must end with a name");
	(*len)--;
	return 0;
}

/* The scope's number, or -1. */
static int find_origin(const char *name)
{
	static const char *const origins[] = {
		"packet-header",
		"packet-context",
		"event-record-header",
		"event-record-common-context",
		"event-record-specific-context",
		"event-record-payload",
	};
	int n = (int)(sizeof(origins) / sizeof(*origins));

	for (int i = 0; i < n; i++)
		if (!strcmp(origins[i], name))
			return i;
	return -1;
}

/* {"origin": SCOPE, "path": [...]}; before the final specification [SCOPE, ...]. */
static int get_location(struct parser *p, struct json_object *o, const char *key,
			struct rut_ctf_type *t)
{
	struct json_object *loc, *list;
	const char *origin = NULL;
	size_t len = 0, first = 0;
	int rc, scope = -1;
	char path[512];

	if (!json_object_object_get_ex(o, key, &loc))
		return rut_err_set(p->err, EINVAL, "'%s' is missing", key);
	if (json_object_is_type(loc, json_type_array)) {
		list = loc;
		origin = json_object_get_string(json_object_array_get_idx(list, 0));
		scope = origin ? find_origin(origin) : -1;
		first = scope >= 0;
	} else {
		if ((rc = get(p, o, key, json_type_object, &loc)) < 0 ||
		    (rc = get_string(p, loc, "origin", &origin)) < 0 ||
		    (rc = get(p, loc, "path", json_type_array, &list)) < 0)
			return rc;
		if (!list)
			return rut_err_set(p->err, EINVAL, "'%s' has no 'path'", key);
		if (origin && (scope = find_origin(origin)) < 0)
			return rut_err_set(p->err, EINVAL, "invalid origin '%s'", origin);
	}
	if (scope >= 0) {
		path[len++] = '@';
		path[len++] = (char)('0' + scope);
	}
	if ((rc = path_of(p, list, first, path, sizeof(path), &len)) < 0)
		return rc;
	t->len_path = rut_meta_name(p->m, path, len);
	return t->len_path ? 0 : nomem(p);
}

/* ---- Strings and bytes ---- */

static int encoding(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	const char *s = "utf-8";
	int rc = get_string(p, o, "encoding", &s);

	if (rc < 0)
		return rc;
	t->align = 8;
	t->big_endian = strlen(s) > 2 && !strcmp(s + strlen(s) - 2, "be");
	if (!strcmp(s, "utf-8"))
		t->char_bytes = 1;
	else if (!strcmp(s, "utf-16be") || !strcmp(s, "utf-16le"))
		t->char_bytes = 2;
	else if (!strcmp(s, "utf-32be") || !strcmp(s, "utf-32le"))
		t->char_bytes = 4;
	else
		return rut_err_set(p->err, EINVAL, "invalid encoding '%s'", s);
	return 0;
}

/* A string of a given length is an array of bytes that is shown as text. */
static int text(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc = encoding(p, o, t);

	if (rc < 0)
		return rc;
	t->text = true;
	t->elem = rut_meta_type(p->m, RUT_CTF_KIND_INT);
	if (!t->elem)
		return nomem(p);
	t->elem->size = t->elem->align = 8;
	return 0;
}

static int parse_static_string(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc = need_uint(p, o, "length", (uint64_t)1 << 40, &t->count);

	return rc < 0 ? rc : text(p, o, t);
}

static int parse_dynamic_string(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc = get_location(p, o, "length-field-location", t);

	t->len_bytes = true;
	return rc < 0 ? rc : text(p, o, t);
}

static int parse_static_blob(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc = need_uint(p, o, "length", (uint64_t)1 << 40, &t->count);

	t->align = 8;
	return rc < 0 ? rc : get_roles(p, o, t);
}

static int parse_dynamic_blob(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	t->align = 8;
	t->len_bytes = true;
	return get_location(p, o, "length-field-location", t);
}

/* ---- Compounds ---- */

/* A property that is a field class or the name of an alias; *ret is NULL when it is not there. */
static int class_property(struct parser *p, struct json_object *o, const char *key,
			  struct rut_ctf_type **ret)
{
	struct json_object *v;
	const char *name;

	*ret = NULL;
	if (!json_object_object_get_ex(o, key, &v))
		return 0;
	if (json_object_is_type(v, json_type_object))
		return parse_class(p, v, ret);
	if (!json_object_is_type(v, json_type_string))
		return rut_err_set(p->err, EINVAL, "'%s' must be a field class or a name", key);
	name = json_object_get_string(v);
	for (const struct alias *a = p->aliases; a; a = a->next)
		if (!strcmp(a->name, name)) {
			*ret = rut_meta_clone(p->m, a->type);
			return *ret ? 0 : nomem(p);
		}
	return rut_err_set(p->err, EINVAL, "the field class '%s' is not defined", name);
}

static int need_class(struct parser *p, struct json_object *o, const char *key,
		      struct rut_ctf_type **ret)
{
	int rc = class_property(p, o, key, ret);

	if (!rc && !*ret)
		return rut_err_set(p->err, EINVAL, "'%s' is missing", key);
	return rc;
}

static int parse_struct(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *members;
	struct rut_ctf_type *type;
	int rc;

	if ((rc = get_align(p, o, "minimum-alignment", &t->align)) < 0 ||
	    (rc = get(p, o, "member-classes", json_type_array, &members)) < 0)
		return rc;
	for (size_t i = 0; members && i < json_object_array_length(members); i++) {
		struct json_object *member = json_object_array_get_idx(members, i);
		const char *name = NULL;

		if (!json_object_is_type(member, json_type_object))
			return rut_err_set(p->err, EINVAL, "a member class must be an object");
		if ((rc = get_string(p, member, "name", &name)) < 0)
			return rc;
		if (!name)
			return rut_err_set(p->err, EINVAL, "a member has no 'name'");
		for (uint32_t k = 0; k < t->n_fields && t->n_fields < 512; k++)
			if (!strcmp(t->fields[k].name, name))
				return rut_err_set(p->err, EINVAL, "there are two members '%s'",
						   name);
		if (need_class(p, member, "field-class", &type) < 0)
			return rut_err_prefix(p->err, "member '%s'", name);
		if (rut_meta_add_field(p->m, t, name, name, type) < 0)
			return nomem(p);
	}
	return 0;
}

static int parse_array(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc;

	if ((rc = get_align(p, o, "minimum-alignment", &t->align)) < 0 ||
	    (rc = need_class(p, o, "element-field-class", &t->elem)) < 0)
		return rc;
	if (t->kind == RUT_CTF_KIND_SEQUENCE)
		return get_location(p, o, "length-field-location", t);
	return need_uint(p, o, "length", (uint64_t)1 << 45, &t->count);
}

static int parse_optional(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *ranges;
	int rc;

	if ((rc = get_location(p, o, "selector-field-location", t)) < 0 ||
	    (rc = need_class(p, o, "field-class", &t->elem)) < 0 ||
	    (rc = get(p, o, "selector-field-ranges", json_type_array, &ranges)) < 0)
		return rc;
	return ranges ? add_ranges(p, t, ranges, EITHER, 0) : 0;
}

static int parse_variant(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *options;
	int rc;

	if ((rc = get_location(p, o, "selector-field-location", t)) < 0 ||
	    (rc = get(p, o, "options", json_type_array, &options)) < 0)
		return rc;
	if (!options || !json_object_array_length(options))
		return rut_err_set(p->err, EINVAL, "a variant has no 'options'");
	for (size_t i = 0; i < json_object_array_length(options); i++) {
		struct json_object *option = json_object_array_get_idx(options, i), *ranges;
		struct rut_ctf_type *type;
		const char *name = "";

		if (!json_object_is_type(option, json_type_object))
			return rut_err_set(p->err, EINVAL, "an option must be an object");
		if ((rc = get_string(p, option, "name", &name)) < 0 ||
		    (rc = need_class(p, option, "field-class", &type)) < 0 ||
		    (rc = get(p, option, "selector-field-ranges", json_type_array, &ranges)) < 0)
			return rc;
		if (rut_meta_add_field(p->m, t, name, name, type) < 0)
			return nomem(p);
		if ((rc = add_ranges(p, t, ranges, EITHER, t->n_fields - 1)) < 0)
			return rc;
	}
	return 0;
}

static int skip_class(struct parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	return encoding(p, o, t);
}

static int parse_class(struct parser *p, struct json_object *o, struct rut_ctf_type **ret)
{
	static const struct {
		const char *name;
		enum rut_ctf_kind kind;
		int (*parse)(struct parser *p, struct json_object *o, struct rut_ctf_type *t);
		bool mappings; /* must be there */
	} kinds[] = {
		{"fixed-length-bit-array", RUT_CTF_KIND_BITMAP, parse_bits},
		{"fixed-length-bit-map", RUT_CTF_KIND_BITMAP, parse_bits},
		{"fixed-length-boolean", RUT_CTF_KIND_BOOL, fixed_length},
		{"fixed-length-unsigned-integer", RUT_CTF_KIND_INT, parse_fixed_int},
		{"fixed-length-signed-integer", RUT_CTF_KIND_INT, parse_fixed_sint},
		{"fixed-length-floating-point-number", RUT_CTF_KIND_FLOAT, parse_float},
		{"fixed-length-unsigned-enumeration", RUT_CTF_KIND_INT, parse_fixed_int, true},
		{"fixed-length-signed-enumeration", RUT_CTF_KIND_INT, parse_fixed_sint, true},
		{"variable-length-unsigned-enumeration", RUT_CTF_KIND_INT, parse_vlen_int, true},
		{"variable-length-signed-enumeration", RUT_CTF_KIND_INT, parse_vlen_sint, true},
		{"variable-length-unsigned-integer", RUT_CTF_KIND_INT, parse_vlen_int},
		{"variable-length-signed-integer", RUT_CTF_KIND_INT, parse_vlen_sint},
		{"null-terminated-string", RUT_CTF_KIND_STRING, skip_class},
		{"static-length-string", RUT_CTF_KIND_ARRAY, parse_static_string},
		{"dynamic-length-string", RUT_CTF_KIND_SEQUENCE, parse_dynamic_string},
		{"static-length-blob", RUT_CTF_KIND_BLOB, parse_static_blob},
		{"dynamic-length-blob", RUT_CTF_KIND_BLOB, parse_dynamic_blob},
		{"structure", RUT_CTF_KIND_STRUCT, parse_struct},
		{"static-length-array", RUT_CTF_KIND_ARRAY, parse_array},
		{"dynamic-length-array", RUT_CTF_KIND_SEQUENCE, parse_array},
		{"optional", RUT_CTF_KIND_OPTIONAL, parse_optional},
		{"variant", RUT_CTF_KIND_VARIANT, parse_variant},
	};
	const char *name = NULL;
	int rc = get_string(p, o, "type", &name);

	if (rc < 0)
		return rc;
	if (p->depth >= RUT_META_MAX_DEPTH)
		return rut_err_set(p->err, EINVAL, "field classes are nested more than %d deep",
				   RUT_META_MAX_DEPTH);
	for (size_t i = 0; name && i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(kinds[i].name, name) != 0)
			continue;
		*ret = rut_meta_type(p->m, kinds[i].kind);
		if (!*ret)
			return nomem(p);
		p->depth++;
		rc = kinds[i].mappings ? need_mappings(p, o) : 0;
		if (!rc)
			rc = kinds[i].parse(p, o, *ret);
		p->depth--;
		return rc;
	}
	return rut_err_set(p->err, EINVAL, "invalid field class type '%s'", name ? name : "");
}

/* ---- Fragments ---- */

static int scope_property(struct parser *p, struct json_object *o, const char *key,
			  struct rut_ctf_type **ret)
{
	int rc = class_property(p, o, key, ret);

	if (!rc && *ret && (*ret)->kind != RUT_CTF_KIND_STRUCT)
		return rut_err_set(p->err, EINVAL, "'%s' must be a structure", key);
	return rc;
}

static int preamble(struct parser *p, struct json_object *o)
{
	struct json_object *uuid, *extensions;
	uint64_t version = 0;
	int rc;

	if (p->has_preamble)
		return rut_err_set(p->err, EINVAL, "there are two preambles");
	p->has_preamble = true;
	if ((rc = need_uint(p, o, "version", UINT64_MAX, &version)) < 0 ||
	    (rc = get(p, o, "uuid", json_type_array, &uuid)) < 0 ||
	    (rc = get(p, o, "extensions", json_type_object, &extensions)) < 0)
		return rc;
	if (version != 2)
		return rut_err_set(p->err, ENOTSUP, "version %" PRIu64 " of CTF is not known",
				   version);
	if (extensions) {
		json_object_object_foreach(extensions, space, value)
		{
			if (!json_object_is_type(value, json_type_object) ||
			    json_object_object_length(value))
				return rut_err_set(p->err, ENOTSUP,
						   "the extensions of '%s' are not known, "
						   "and may change the format",
						   space);
		}
	}
	p->m->pub.major = 2;
	if (!uuid)
		return 0;
	if (json_object_array_length(uuid) != 16)
		return rut_err_set(p->err, EINVAL, "'uuid' must be of 16 integers");
	for (size_t i = 0; i < 16; i++)
		p->m->pub.uuid[i] =
			(uint8_t)json_object_get_int(json_object_array_get_idx(uuid, i));
	p->m->pub.has_uuid = true;
	return 0;
}

static int alias(struct parser *p, struct json_object *o)
{
	struct alias *a = rut_arena_alloc(&p->m->arena, sizeof(*a));
	struct rut_ctf_type *type;
	int rc;

	if (!a)
		return nomem(p);
	if ((rc = get_string(p, o, "name", &a->name)) < 0 ||
	    (rc = need_class(p, o, "field-class", &type)) < 0)
		return rc;
	if (!a->name)
		return rut_err_set(p->err, EINVAL, "'name' is missing");
	a->type = type;
	a->next = p->aliases;
	p->aliases = a;
	return 0;
}

static int trace_class(struct parser *p, struct json_object *o)
{
	struct json_object *env;
	int rc;

	if (p->has_trace)
		return rut_err_set(p->err, EINVAL, "there are two trace classes");
	p->has_trace = true;
	if ((rc = scope_property(p, o, "packet-header-field-class", &p->m->pub.packet_header)) <
		    0 ||
	    (rc = get(p, o, "environment", json_type_object, &env)) < 0)
		return rc;
	if (!env)
		return 0;
	json_object_object_foreach(env, key, value)
	{
		bool is_int = json_object_is_type(value, json_type_int);
		const char *name = copy(p, key);
		const char *str =
			is_int ? NULL : copy(p, value ? json_object_get_string(value) : "");

		if (!name || (!is_int && !str) ||
		    rut_meta_add_env(p->m, name, str, is_int ? json_object_get_int64(value) : 0) <
			    0)
			return nomem(p);
	}
	return 0;
}

static int clock_class(struct parser *p, struct json_object *o)
{
	struct json_object *offset, *v;
	struct rut_meta_clock *c;
	const char *id = NULL, *name = NULL;
	int rc;

	if ((rc = get_string(p, o, "id", &id)) < 0 || (rc = get_string(p, o, "name", &name)) < 0)
		return rc;
	if (!id)
		id = name; /* before the final specification the name was the id */
	if (!id)
		return rut_err_set(p->err, EINVAL, "'id' is missing");
	c = rut_meta_clock(p->m, id);
	if (!c)
		return nomem(p);
	if (c->defined)
		return rut_err_set(p->err, EINVAL, "the clock class '%s' is defined twice", id);
	c->defined = true;
	if ((rc = need_uint(p, o, "frequency", UINT64_MAX, &c->pub.freq)) < 0 ||
	    (rc = get_uint(p, o, "precision", &c->pub.precision)) < 0 ||
	    (rc = get_string(p, o, "description", &c->pub.description)) < 0 ||
	    (rc = get(p, o, "offset-from-origin", json_type_object, &offset)) < 0)
		return rc;
	if (!c->pub.freq)
		return rut_err_set(p->err, EINVAL, "'frequency' must be more than 0");
	if (json_object_object_get_ex(o, "origin", &v) && json_object_is_type(v, json_type_string))
		c->pub.absolute = !strcmp(json_object_get_string(v), "unix-epoch");
	if (offset) {
		if ((rc = get(p, offset, "seconds", json_type_int, &v)) < 0)
			return rc;
		c->pub.offset_s = v ? json_object_get_int64(v) : 0;
		if ((rc = get(p, offset, "cycles", json_type_int, &v)) < 0)
			return rc;
		c->pub.offset_cycles = v ? json_object_get_int64(v) : 0;
	}
	return 0;
}

static int data_stream_class(struct parser *p, struct json_object *o)
{
	struct rut_meta_stream_class *sc = rut_meta_add_stream_class(p->m);
	struct rut_ctf_stream_class *pub;
	struct rut_ctf_type *t;
	int rc;

	if (!sc)
		return nomem(p);
	pub = &sc->pub;
	if ((rc = get_uint(p, o, "id", &pub->id)) < 0 ||
	    (rc = get_string(p, o, "name", &pub->name)) < 0 ||
	    (rc = get_string(p, o, "default-clock-class-id", &sc->clock_name)) < 0)
		return rc;
	if (!sc->clock_name &&
	    (rc = get_string(p, o, "default-clock-class-name", &sc->clock_name)) < 0)
		return rc;
	if (sc->clock_name) {
		struct rut_meta_clock *c = rut_meta_clock(p->m, sc->clock_name);

		if (!c)
			return nomem(p);
		if (!c->defined)
			return rut_err_set(p->err, EINVAL, "the clock class '%s' is not defined",
					   sc->clock_name);
		pub->clock = &c->pub;
	}
	if ((rc = scope_property(p, o, "packet-context-field-class", &pub->packet_context)) < 0 ||
	    (rc = scope_property(p, o, "event-record-header-field-class", &pub->event_header)) <
		    0 ||
	    (rc = scope_property(p, o, "event-record-common-context-field-class",
				 &pub->event_context)) < 0)
		return rc;
	/* CTF 2 has no role for it; tracers use the name of CTF 1.8. */
	t = pub->packet_context ? rut_ctf_type_member(pub->packet_context, "cpu_id") : NULL;
	if (t && !t->role && (t->kind == RUT_CTF_KIND_INT || t->kind == RUT_CTF_KIND_ENUM))
		t->role = RUT_CTF_ROLE_CPU_ID;
	return 0;
}

static int event_record_class(struct parser *p, struct json_object *o)
{
	struct rut_meta_event_class *ec = rut_meta_add_event_class(p->m);
	int rc;

	if (!ec)
		return nomem(p);
	ec->has_stream_id = true;
	if ((rc = get_uint(p, o, "id", &ec->pub.id)) < 0 ||
	    (rc = get_uint(p, o, "data-stream-class-id", &ec->stream_id)) < 0 ||
	    (rc = get_string(p, o, "name", &ec->pub.name)) < 0 ||
	    (rc = scope_property(p, o, "specific-context-field-class", &ec->pub.context)) < 0)
		return rc;
	return scope_property(p, o, "payload-field-class", &ec->pub.payload);
}

static int fragment(struct parser *p, struct json_object *o)
{
	static const struct {
		const char *type;
		int (*parse)(struct parser *p, struct json_object *o);
	} kinds[] = {
		{"preamble", preamble},
		{"field-class-alias", alias},
		{"trace-class", trace_class},
		{"clock-class", clock_class},
		{"data-stream-class", data_stream_class},
		{"event-record-class", event_record_class},
	};
	const char *type = NULL;
	int rc;

	if (!json_object_is_type(o, json_type_object))
		return rut_err_set(p->err, EINVAL, "a fragment must be an object");
	if ((rc = get_string(p, o, "type", &type)) < 0)
		return rc;
	if (!p->has_preamble && (!type || strcmp(type, "preamble") != 0))
		return rut_err_set(p->err, EINVAL, "the first fragment must be a preamble");
	for (size_t i = 0; type && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].type, type)) {
			rc = kinds[i].parse(p, o);
			return rc < 0 ? rut_err_prefix(p->err, "%s", type) : 0;
		}
	return rut_err_set(p->err, EINVAL, "invalid fragment type '%s'", type ? type : "");
}

int rut_ctf2_parse(struct rut_meta *m, const char *text, size_t len, struct rut_err *err)
{
	_cleanup_(free_tokener)
	struct json_tokener *tok = json_tokener_new_ex(4 * RUT_META_MAX_DEPTH);
	struct parser p = {.m = m, .err = err};
	unsigned int n = 0;
	size_t pos = 0;
	int rc;

	if (!tok)
		return nomem(&p);
	for (;;) {
		_cleanup_(put_json)
		struct json_object *o = NULL;
		size_t left;

		while (pos < len && (text[pos] == 0x1e || text[pos] == ' ' || text[pos] == '\n' ||
				     text[pos] == '\t' || text[pos] == '\r'))
			pos++;
		if (pos >= len)
			break;
		left = len - pos;
		json_tokener_reset(tok);
		o = json_tokener_parse_ex(tok, text + pos, (int)left);
		if (json_tokener_get_error(tok) != json_tokener_success) {
			enum json_tokener_error e = json_tokener_get_error(tok);

			return rut_err_set(err, EINVAL, "byte %zu: fragment %u is not JSON: %s",
					   pos + json_tokener_get_parse_end(tok), n,
					   e == json_tokener_continue ? "it does not end"
								      : json_tokener_error_desc(e));
		}
		rc = fragment(&p, o);
		if (rc < 0)
			return rut_err_prefix(err, "byte %zu: fragment %u", pos, n);
		pos += json_tokener_get_parse_end(tok);
		n++;
	}
	if (!m->pub.n_stream_classes)
		return rut_err_set(err, EINVAL, "there is no data stream class");
	return 0;
}
