/* SPDX-License-Identifier: MIT */
/*
 * Metadata of CTF 2: field classes.
 *
 * Where a length or selector stands is kept as a path of member names (RUT_CTF2_SEP between them)
 * after "@SCOPE" or one RUT_CTF2_UP for each structure to go up; resolve.c follows it.
 */
#include "ctf/ctf2.h"
#include "ctf/ctf2_priv.h"

#include <inttypes.h>
#include <string.h>

/* ---- Scalars ---- */

static int parse_class(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type **ret);

/* What all fixed-length classes have in common. */
static int fixed_length(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	const char *byte_order = NULL, *bit_order = NULL;
	int rc;

	if ((rc = rut_ctf2_need_uint(p, o, "length", 64, &t->size)) < 0 ||
	    (rc = rut_ctf2_get_align(p, o, "alignment", &t->align)) < 0 ||
	    (rc = rut_ctf2_get_string(p, o, "byte-order", &byte_order)) < 0 ||
	    (rc = rut_ctf2_get_string(p, o, "bit-order", &bit_order)) < 0)
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

static int integer(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *mappings;
	uint64_t base = 10;
	int rc;

	if ((rc = rut_ctf2_get_uint(p, o, "preferred-display-base", &base)) < 0 ||
	    (rc = rut_ctf2_get(p, o, "mappings", json_type_object, &mappings)) < 0)
		return rc;
	if (base != 2 && base != 8 && base != 10 && base != 16)
		return rut_err_set(p->err, EINVAL,
				   "'preferred-display-base' must be 2, 8, 10 or 16");
	t->base = (uint8_t)base;
	if (mappings && json_object_object_length(mappings)) {
		t->kind = RUT_CTF_KIND_ENUM;
		if ((rc = rut_ctf2_add_labels(p, t, mappings)) < 0)
			return rc;
	}
	return rut_ctf2_get_roles(p, o, t);
}

static int parse_fixed_int(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc = fixed_length(p, o, t);

	return rc < 0 ? rc : integer(p, o, t);
}

static int parse_fixed_sint(struct rut_ctf2_parser *p, struct json_object *o,
			    struct rut_ctf_type *t)
{
	t->is_signed = true;
	return parse_fixed_int(p, o, t);
}

static int parse_vlen_int(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	t->vlen = true;
	t->align = 8;
	t->size = 64;
	return integer(p, o, t);
}

static int parse_vlen_sint(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	t->is_signed = true;
	return parse_vlen_int(p, o, t);
}

/* Until RC-7.0 an enumeration was a class of its own; since then it is an integer's `mappings`. */
static int need_mappings(struct rut_ctf2_parser *p, struct json_object *o)
{
	struct json_object *mappings;
	int rc = rut_ctf2_get(p, o, "mappings", json_type_object, &mappings);

	if (!rc && (!mappings || !json_object_object_length(mappings)))
		return rut_err_set(p->err, EINVAL, "an enumeration has no 'mappings'");
	return rc;
}

static int parse_bits(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *flags;
	int rc = fixed_length(p, o, t);

	t->base = 2;
	if (rc < 0 || (rc = rut_ctf2_get(p, o, "flags", json_type_object, &flags)) < 0)
		return rc;
	return flags ? rut_ctf2_add_labels(p, t, flags) : 0;
}

static int parse_float(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
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
static int path_of(struct rut_ctf2_parser *p, struct json_object *list, size_t first, char *out,
		   size_t size, size_t *len)
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
static int get_location(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
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
		if ((rc = rut_ctf2_get(p, o, key, json_type_object, &loc)) < 0 ||
		    (rc = rut_ctf2_get_string(p, loc, "origin", &origin)) < 0 ||
		    (rc = rut_ctf2_get(p, loc, "path", json_type_array, &list)) < 0)
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
	return t->len_path ? 0 : rut_ctf2_nomem(p);
}

/* ---- Strings and bytes ---- */

static int encoding(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	const char *s = "utf-8";
	int rc = rut_ctf2_get_string(p, o, "encoding", &s);

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
static int text(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc = encoding(p, o, t);

	if (rc < 0)
		return rc;
	t->text = true;
	t->elem = rut_meta_type(p->m, RUT_CTF_KIND_INT);
	if (!t->elem)
		return rut_ctf2_nomem(p);
	t->elem->size = t->elem->align = 8;
	return 0;
}

static int parse_static_string(struct rut_ctf2_parser *p, struct json_object *o,
			       struct rut_ctf_type *t)
{
	int rc = rut_ctf2_need_uint(p, o, "length", (uint64_t)1 << 40, &t->count);

	return rc < 0 ? rc : text(p, o, t);
}

static int parse_dynamic_string(struct rut_ctf2_parser *p, struct json_object *o,
				struct rut_ctf_type *t)
{
	int rc = get_location(p, o, "length-field-location", t);

	t->len_bytes = true;
	return rc < 0 ? rc : text(p, o, t);
}

static int parse_static_blob(struct rut_ctf2_parser *p, struct json_object *o,
			     struct rut_ctf_type *t)
{
	int rc = rut_ctf2_need_uint(p, o, "length", (uint64_t)1 << 40, &t->count);

	t->align = 8;
	return rc < 0 ? rc : rut_ctf2_get_roles(p, o, t);
}

static int parse_dynamic_blob(struct rut_ctf2_parser *p, struct json_object *o,
			      struct rut_ctf_type *t)
{
	t->align = 8;
	t->len_bytes = true;
	return get_location(p, o, "length-field-location", t);
}

/* ---- Compounds ---- */

/* A property that is a field class or the name of an alias; *ret is NULL when it is not there. */
int rut_ctf2_class_property(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
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
	for (const struct rut_ctf2_alias *a = p->aliases; a; a = a->next)
		if (!strcmp(a->name, name)) {
			*ret = rut_meta_clone(p->m, a->type);
			return *ret ? 0 : rut_ctf2_nomem(p);
		}
	return rut_err_set(p->err, EINVAL, "the field class '%s' is not defined", name);
}

int rut_ctf2_need_class(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
			struct rut_ctf_type **ret)
{
	int rc = rut_ctf2_class_property(p, o, key, ret);

	if (!rc && !*ret)
		return rut_err_set(p->err, EINVAL, "'%s' is missing", key);
	return rc;
}

static int parse_struct(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *members;
	struct rut_ctf_type *type;
	int rc;

	if ((rc = rut_ctf2_get_align(p, o, "minimum-alignment", &t->align)) < 0 ||
	    (rc = rut_ctf2_get(p, o, "member-classes", json_type_array, &members)) < 0)
		return rc;
	for (size_t i = 0; members && i < json_object_array_length(members); i++) {
		struct json_object *member = json_object_array_get_idx(members, i);
		const char *name = NULL;

		if (!json_object_is_type(member, json_type_object))
			return rut_err_set(p->err, EINVAL, "a member class must be an object");
		if ((rc = rut_ctf2_get_string(p, member, "name", &name)) < 0)
			return rc;
		if (!name)
			return rut_err_set(p->err, EINVAL, "a member has no 'name'");
		for (uint32_t k = 0; k < t->n_fields && t->n_fields < 512; k++)
			if (!strcmp(t->fields[k].name, name))
				return rut_err_set(p->err, EINVAL, "there are two members '%s'",
						   name);
		if (rut_ctf2_need_class(p, member, "field-class", &type) < 0)
			return rut_err_prefix(p->err, "member '%s'", name);
		if (rut_meta_add_field(p->m, t, name, name, type) < 0)
			return rut_ctf2_nomem(p);
	}
	return 0;
}

static int parse_array(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	int rc;

	if ((rc = rut_ctf2_get_align(p, o, "minimum-alignment", &t->align)) < 0 ||
	    (rc = rut_ctf2_need_class(p, o, "element-field-class", &t->elem)) < 0)
		return rc;
	if (t->kind == RUT_CTF_KIND_SEQUENCE)
		return get_location(p, o, "length-field-location", t);
	return rut_ctf2_need_uint(p, o, "length", (uint64_t)1 << 45, &t->count);
}

static int parse_optional(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *ranges;
	int rc;

	if ((rc = get_location(p, o, "selector-field-location", t)) < 0 ||
	    (rc = rut_ctf2_need_class(p, o, "field-class", &t->elem)) < 0 ||
	    (rc = rut_ctf2_get(p, o, "selector-field-ranges", json_type_array, &ranges)) < 0)
		return rc;
	return ranges ? rut_ctf2_add_ranges(p, t, ranges, RUT_CTF2_EITHER, 0) : 0;
}

static int parse_variant(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	struct json_object *options;
	int rc;

	if ((rc = get_location(p, o, "selector-field-location", t)) < 0 ||
	    (rc = rut_ctf2_get(p, o, "options", json_type_array, &options)) < 0)
		return rc;
	if (!options || !json_object_array_length(options))
		return rut_err_set(p->err, EINVAL, "a variant has no 'options'");
	for (size_t i = 0; i < json_object_array_length(options); i++) {
		struct json_object *option = json_object_array_get_idx(options, i), *ranges;
		struct rut_ctf_type *type;
		const char *name = "";

		if (!json_object_is_type(option, json_type_object))
			return rut_err_set(p->err, EINVAL, "an option must be an object");
		if ((rc = rut_ctf2_get_string(p, option, "name", &name)) < 0 ||
		    (rc = rut_ctf2_need_class(p, option, "field-class", &type)) < 0 ||
		    (rc = rut_ctf2_get(p, option, "selector-field-ranges", json_type_array,
				       &ranges)) < 0)
			return rc;
		if (rut_meta_add_field(p->m, t, name, name, type) < 0)
			return rut_ctf2_nomem(p);
		if ((rc = rut_ctf2_add_ranges(p, t, ranges, RUT_CTF2_EITHER, t->n_fields - 1)) < 0)
			return rc;
	}
	return 0;
}

static int skip_class(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
{
	return encoding(p, o, t);
}

static int parse_class(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type **ret)
{
	static const struct {
		const char *name;
		enum rut_ctf_kind kind;
		int (*parse)(struct rut_ctf2_parser *p, struct json_object *o,
			     struct rut_ctf_type *t);
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
	int rc = rut_ctf2_get_string(p, o, "type", &name);

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
			return rut_ctf2_nomem(p);
		p->depth++;
		rc = kinds[i].mappings ? need_mappings(p, o) : 0;
		if (!rc)
			rc = kinds[i].parse(p, o, *ret);
		p->depth--;
		return rc;
	}
	return rut_err_set(p->err, EINVAL, "invalid field class type '%s'", name ? name : "");
}
