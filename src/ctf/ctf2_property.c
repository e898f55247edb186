/* SPDX-License-Identifier: MIT */
/* Metadata of CTF 2: the properties of its JSON objects. */
#include "ctf/ctf2_priv.h"

#include <inttypes.h>
#include <string.h>

int rut_ctf2_nomem(struct rut_ctf2_parser *p)
{
	return rut_err_set(p->err, ENOMEM, "the description grows too large");
}

const char *rut_ctf2_copy(struct rut_ctf2_parser *p, const char *s)
{
	return rut_meta_name(p->m, s, strlen(s));
}

int rut_ctf2_get(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
		 enum json_type type, struct json_object **ret)
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

int rut_ctf2_get_string(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
			const char **ret)
{
	struct json_object *v;
	int rc = rut_ctf2_get(p, o, key, json_type_string, &v);

	if (rc < 0 || !v)
		return rc;
	*ret = rut_ctf2_copy(p, json_object_get_string(v));
	return *ret ? 0 : rut_ctf2_nomem(p);
}

int rut_ctf2_get_uint(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
		      uint64_t *ret)
{
	struct json_object *v;
	int rc = rut_ctf2_get(p, o, key, json_type_int, &v);

	if (rc < 0 || !v)
		return rc;
	if (json_object_get_int64(v) < 0)
		return rut_err_set(p->err, EINVAL, "'%s' must be 0 or more", key);
	*ret = json_object_get_uint64(v);
	return 0;
}

int rut_ctf2_need_uint(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
		       uint64_t max, uint64_t *ret)
{
	int rc;

	if (!json_object_object_get_ex(o, key, NULL))
		return rut_err_set(p->err, EINVAL, "'%s' is missing", key);
	if ((rc = rut_ctf2_get_uint(p, o, key, ret)) < 0)
		return rc;
	if (*ret > max)
		return rut_err_set(p->err, EINVAL, "'%s' is %" PRIu64 ", more than %" PRIu64, key,
				   *ret, max);
	return 0;
}

int rut_ctf2_get_align(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
		       uint32_t *ret)
{
	uint64_t v = *ret;
	int rc = rut_ctf2_get_uint(p, o, key, &v);

	if (rc < 0)
		return rc;
	if (!v || v & (v - 1) || v > 1 << 20)
		return rut_err_set(p->err, EINVAL, "'%s' must be a power of two, not %" PRIu64, key,
				   v);
	*ret = (uint32_t)v;
	return 0;
}

int rut_ctf2_add_ranges(struct rut_ctf2_parser *p, struct rut_ctf_type *t, struct json_object *set,
			enum rut_ctf2_sign sign, uint32_t label)
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
		if (sign == RUT_CTF2_UNSIGNED && json_object_get_int64(end[1]) < 0)
			continue; /* cannot occur */
		if (sign == RUT_CTF2_UNSIGNED && json_object_get_int64(end[0]) < 0)
			v[0] = 0;
		if (json_object_get_int64(end[0]) < 0
			    ? (int64_t)v[0] > json_object_get_int64(end[1])
			    : json_object_get_int64(end[1]) < 0 || v[0] > v[1])
			return rut_err_set(p->err, EINVAL, "a range ends before it begins");
		if (rut_meta_add_range(p->m, t, v[0], v[1], label) < 0)
			return rut_ctf2_nomem(p);
	}
	return 0;
}

int rut_ctf2_add_labels(struct rut_ctf2_parser *p, struct rut_ctf_type *t, struct json_object *o)
{
	json_object_object_foreach(o, name, ranges)
	{
		const char *label = rut_ctf2_copy(p, name);
		int rc;

		if (!label || rut_meta_add_label(p->m, t, label) < 0)
			return rut_ctf2_nomem(p);
		rc = rut_ctf2_add_ranges(p, t, ranges,
					 t->is_signed ? RUT_CTF2_SIGNED : RUT_CTF2_UNSIGNED,
					 t->n_labels - 1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int rut_ctf2_get_roles(struct rut_ctf2_parser *p, struct json_object *o, struct rut_ctf_type *t)
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
	int rc = rut_ctf2_get(p, o, "roles", json_type_array, &list);

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
