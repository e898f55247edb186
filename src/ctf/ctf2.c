/* SPDX-License-Identifier: MIT */
/*
 * CTF 2's metadata: a sequence of JSON objects ("fragments") that describe field classes, clocks,
 * data stream classes and event record classes.
 */
#include "ctf/ctf2_priv.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/cleanup.h"

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

/* ---- Fragments ---- */

static int scope_property(struct rut_ctf2_parser *p, struct json_object *o, const char *key,
			  struct rut_ctf_type **ret)
{
	int rc = rut_ctf2_class_property(p, o, key, ret);

	if (!rc && *ret && (*ret)->kind != RUT_CTF_KIND_STRUCT)
		return rut_err_set(p->err, EINVAL, "'%s' must be a structure", key);
	return rc;
}

static int preamble(struct rut_ctf2_parser *p, struct json_object *o)
{
	struct json_object *uuid, *extensions;
	uint64_t version = 0;
	int rc;

	if (p->has_preamble)
		return rut_err_set(p->err, EINVAL, "there are two preambles");
	p->has_preamble = true;
	if ((rc = rut_ctf2_need_uint(p, o, "version", UINT64_MAX, &version)) < 0 ||
	    (rc = rut_ctf2_get(p, o, "uuid", json_type_array, &uuid)) < 0 ||
	    (rc = rut_ctf2_get(p, o, "extensions", json_type_object, &extensions)) < 0)
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

static int alias(struct rut_ctf2_parser *p, struct json_object *o)
{
	struct rut_ctf2_alias *a = rut_arena_alloc(&p->m->arena, sizeof(*a));
	struct rut_ctf_type *type;
	int rc;

	if (!a)
		return rut_ctf2_nomem(p);
	if ((rc = rut_ctf2_get_string(p, o, "name", &a->name)) < 0 ||
	    (rc = rut_ctf2_need_class(p, o, "field-class", &type)) < 0)
		return rc;
	if (!a->name)
		return rut_err_set(p->err, EINVAL, "'name' is missing");
	a->type = type;
	a->next = p->aliases;
	p->aliases = a;
	return 0;
}

static int trace_class(struct rut_ctf2_parser *p, struct json_object *o)
{
	struct json_object *env;
	int rc;

	if (p->has_trace)
		return rut_err_set(p->err, EINVAL, "there are two trace classes");
	p->has_trace = true;
	if ((rc = scope_property(p, o, "packet-header-field-class", &p->m->pub.packet_header)) <
		    0 ||
	    (rc = rut_ctf2_get(p, o, "environment", json_type_object, &env)) < 0)
		return rc;
	if (!env)
		return 0;
	json_object_object_foreach(env, key, value)
	{
		bool is_int = json_object_is_type(value, json_type_int);
		const char *name = rut_ctf2_copy(p, key);
		const char *str =
			is_int ? NULL
			       : rut_ctf2_copy(p, value ? json_object_get_string(value) : "");

		if (!name || (!is_int && !str) ||
		    rut_meta_add_env(p->m, name, str, is_int ? json_object_get_int64(value) : 0) <
			    0)
			return rut_ctf2_nomem(p);
	}
	return 0;
}

static int clock_class(struct rut_ctf2_parser *p, struct json_object *o)
{
	struct json_object *offset, *v;
	struct rut_meta_clock *c;
	const char *id = NULL, *name = NULL;
	int rc;

	if ((rc = rut_ctf2_get_string(p, o, "id", &id)) < 0 ||
	    (rc = rut_ctf2_get_string(p, o, "name", &name)) < 0)
		return rc;
	if (!id)
		id = name; /* before the final specification the name was the id */
	if (!id)
		return rut_err_set(p->err, EINVAL, "'id' is missing");
	c = rut_meta_clock(p->m, id);
	if (!c)
		return rut_ctf2_nomem(p);
	if (c->defined)
		return rut_err_set(p->err, EINVAL, "the clock class '%s' is defined twice", id);
	c->defined = true;
	if ((rc = rut_ctf2_need_uint(p, o, "frequency", UINT64_MAX, &c->pub.freq)) < 0 ||
	    (rc = rut_ctf2_get_uint(p, o, "precision", &c->pub.precision)) < 0 ||
	    (rc = rut_ctf2_get_string(p, o, "description", &c->pub.description)) < 0 ||
	    (rc = rut_ctf2_get(p, o, "offset-from-origin", json_type_object, &offset)) < 0)
		return rc;
	if (!c->pub.freq)
		return rut_err_set(p->err, EINVAL, "'frequency' must be more than 0");
	if (json_object_object_get_ex(o, "origin", &v) && json_object_is_type(v, json_type_string))
		c->pub.absolute = !strcmp(json_object_get_string(v), "unix-epoch");
	if (offset) {
		if ((rc = rut_ctf2_get(p, offset, "seconds", json_type_int, &v)) < 0)
			return rc;
		c->pub.offset_s = v ? json_object_get_int64(v) : 0;
		if ((rc = rut_ctf2_get(p, offset, "cycles", json_type_int, &v)) < 0)
			return rc;
		c->pub.offset_cycles = v ? json_object_get_int64(v) : 0;
	}
	return 0;
}

static int data_stream_class(struct rut_ctf2_parser *p, struct json_object *o)
{
	struct rut_meta_stream_class *sc = rut_meta_add_stream_class(p->m);
	struct rut_ctf_stream_class *pub;
	struct rut_ctf_type *t;
	int rc;

	if (!sc)
		return rut_ctf2_nomem(p);
	pub = &sc->pub;
	if ((rc = rut_ctf2_get_uint(p, o, "id", &pub->id)) < 0 ||
	    (rc = rut_ctf2_get_string(p, o, "name", &pub->name)) < 0 ||
	    (rc = rut_ctf2_get_string(p, o, "default-clock-class-id", &sc->clock_name)) < 0)
		return rc;
	if (!sc->clock_name &&
	    (rc = rut_ctf2_get_string(p, o, "default-clock-class-name", &sc->clock_name)) < 0)
		return rc;
	if (sc->clock_name) {
		struct rut_meta_clock *c = rut_meta_clock(p->m, sc->clock_name);

		if (!c)
			return rut_ctf2_nomem(p);
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

static int event_record_class(struct rut_ctf2_parser *p, struct json_object *o)
{
	struct rut_meta_event_class *ec = rut_meta_add_event_class(p->m);
	int rc;

	if (!ec)
		return rut_ctf2_nomem(p);
	ec->has_stream_id = true;
	if ((rc = rut_ctf2_get_uint(p, o, "id", &ec->pub.id)) < 0 ||
	    (rc = rut_ctf2_get_uint(p, o, "data-stream-class-id", &ec->stream_id)) < 0 ||
	    (rc = rut_ctf2_get_string(p, o, "name", &ec->pub.name)) < 0 ||
	    (rc = scope_property(p, o, "specific-context-field-class", &ec->pub.context)) < 0)
		return rc;
	return scope_property(p, o, "payload-field-class", &ec->pub.payload);
}

static int fragment(struct rut_ctf2_parser *p, struct json_object *o)
{
	static const struct {
		const char *type;
		int (*parse)(struct rut_ctf2_parser *p, struct json_object *o);
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
	if ((rc = rut_ctf2_get_string(p, o, "type", &type)) < 0)
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
	struct rut_ctf2_parser p = {.m = m, .err = err};
	unsigned int n = 0;
	size_t pos = 0;
	int rc;

	if (!tok)
		return rut_ctf2_nomem(&p);
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
