/* SPDX-License-Identifier: MIT */
/*
 * The general decoder: any type at any place, every read checked against the end. It reads packet
 * headers and unusual events' headers, passes over what no segment can describe, and serves
 * printers. The short paths of cursor.c must agree with it, which the tests check.
 */
#include "ctf/decode.h"

#include <math.h>

#include "ctf/bits.h"

/* Whether `bits` more can be read at the current place. */
static bool have(struct rut_ctf_iter *it, uint64_t bits)
{
	if (it->pos > it->end || bits > it->end - it->pos)
		it->failed = true;
	return !it->failed;
}

static void align(struct rut_ctf_iter *it, const struct rut_ctf_type *t)
{
	it->pos = rut_bits_align(it->pos, t->align);
}

uint64_t rut_decode_fixed(const uint8_t *data, uint64_t pos, const struct rut_ctf_type *t)
{
	unsigned int size = (unsigned int)t->size;
	uint64_t v = rut_bits_read(data, pos, size, t->big_endian);

	if (t->reversed)
		v = rut_bits_reverse(v, size);
	return t->is_signed ? rut_bits_sign(v, size) : v;
}

static uint64_t read_vlen(struct rut_ctf_iter *it, bool is_signed)
{
	unsigned int shift = 0;
	uint64_t v = 0;
	uint8_t byte;

	do {
		if (!have(it, 8))
			return 0;
		byte = it->data[it->pos >> 3];
		it->pos += 8;
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (shift > 140) { /* far more than 64 bits can need */
			it->failed = true;
			return 0;
		}
	} while (byte & 0x80);
	return is_signed ? rut_bits_sign(v, shift) : v;
}

static uint64_t read_int(struct rut_ctf_iter *it, const struct rut_ctf_type *t)
{
	uint64_t v;

	align(it, t);
	if (t->vlen) {
		v = read_vlen(it, t->is_signed);
	} else {
		if (!have(it, t->size))
			return 0;
		v = rut_decode_fixed(it->data, it->pos, t);
		it->pos += t->size;
	}
	if (t->reg >= 0)
		it->regs[t->reg] = v;
	return v;
}

static double half(uint64_t v)
{
	int exp = (int)(v >> 10 & 31);
	double m = (double)(v & 1023) / 1024, r;

	if (exp == 31)
		r = m > 0 ? NAN : INFINITY;
	else
		r = exp ? ldexp(1 + m, exp - 15) : ldexp(m, -14);
	return v >> 15 ? -r : r;
}

static double read_float(struct rut_ctf_iter *it, const struct rut_ctf_type *t)
{
	uint64_t v;
	double d;
	float f;

	align(it, t);
	if (!have(it, t->size))
		return 0;
	v = rut_decode_fixed(it->data, it->pos, t);
	it->pos += t->size;
	if (t->size == 16)
		return half(v);
	if (t->size == 32) {
		uint32_t u = (uint32_t)v;

		memcpy(&f, &u, 4);
		return (double)f;
	}
	memcpy(&d, &v, 8);
	return d;
}

/* Bytes before the NUL (of char_bytes bytes), at most `max`. */
static size_t text_len(const uint8_t *p, size_t max, unsigned int char_bytes)
{
	static const uint8_t zero[4];

	if (char_bytes <= 1)
		return strnlen((const char *)p, max);
	for (size_t i = 0; i + char_bytes <= max; i += char_bytes)
		if (!memcmp(p + i, zero, char_bytes))
			return i;
	return max;
}

static void read_string(struct rut_ctf_iter *it, const struct rut_ctf_type *t,
			struct rut_ctf_value *ret)
{
	size_t max, len;
	const uint8_t *p;

	align(it, t);
	ret->pos = it->pos;
	if (!have(it, 8ull * t->char_bytes))
		return;
	p = it->data + (it->pos >> 3);
	max = (it->end - it->pos) >> 3;
	len = text_len(p, max, t->char_bytes);
	if (len + t->char_bytes > max) {
		it->failed = true; /* no NUL before the end */
		return;
	}
	ret->kind = RUT_CTF_VALUE_STR;
	ret->str = (const char *)p;
	ret->len = len;
	it->pos += 8 * (len + t->char_bytes);
}

/* How many elements (or bytes) follow; false when they cannot fit. */
static bool length_of(struct rut_ctf_iter *it, const struct rut_ctf_type *t, uint64_t *ret)
{
	uint64_t n = t->len_reg >= 0 ? it->regs[t->len_reg] : t->count;
	uint64_t size = t->elem && t->elem->fixed ? t->elem->size : 0;

	if (t->kind == RUT_CTF_KIND_BLOB)
		size = 8;
	/* Elements without any size are nonsense, but must not make anyone count for hours. */
	if (it->pos > it->end ||
	    (size ? n > (it->end - it->pos) / size : n > (it->end > 1 << 20 ? it->end : 1 << 20)))
		it->failed = true;
	*ret = it->failed ? 0 : n;
	return !it->failed;
}

static void read_bytes(struct rut_ctf_iter *it, const struct rut_ctf_type *t,
		       struct rut_ctf_value *ret)
{
	uint64_t n;

	align(it, t);
	if (it->pos & 7) {
		it->failed = true;
		return;
	}
	ret->pos = it->pos;
	if (!length_of(it, t, &n))
		return;
	ret->str = (const char *)it->data + (it->pos >> 3);
	ret->kind = t->text ? RUT_CTF_VALUE_STR : RUT_CTF_VALUE_BYTES;
	ret->len = t->text ? text_len((const uint8_t *)ret->str, n, t->char_bytes) : n;
	it->pos += 8 * n;
}

void rut_ctf_iter_value(struct rut_ctf_iter *it, const struct rut_ctf_type *t,
			struct rut_ctf_value *ret)
{
	*ret = (struct rut_ctf_value){.type = t};
	if (it->failed)
		return;
	switch (t->kind) {
	case RUT_CTF_KIND_INT:
	case RUT_CTF_KIND_ENUM:
	case RUT_CTF_KIND_BOOL:
	case RUT_CTF_KIND_BITMAP:
		ret->pos = rut_bits_align(it->pos, t->align);
		ret->u = read_int(it, t);
		ret->kind = t->is_signed ? RUT_CTF_VALUE_INT : RUT_CTF_VALUE_UINT;
		break;
	case RUT_CTF_KIND_FLOAT:
		ret->pos = rut_bits_align(it->pos, t->align);
		ret->d = read_float(it, t);
		ret->kind = RUT_CTF_VALUE_FLOAT;
		break;
	case RUT_CTF_KIND_STRING:
		read_string(it, t, ret);
		break;
	case RUT_CTF_KIND_BLOB:
		read_bytes(it, t, ret);
		break;
	case RUT_CTF_KIND_ARRAY:
	case RUT_CTF_KIND_SEQUENCE:
		if (t->text && t->elem->size == 8) {
			read_bytes(it, t, ret);
			break;
		}
		__attribute__((fallthrough));
	default:
		ret->pos = rut_bits_align(it->pos, t->align);
		ret->kind = RUT_CTF_VALUE_NESTED;
		if ((t->kind == RUT_CTF_KIND_ARRAY || t->kind == RUT_CTF_KIND_SEQUENCE))
			ret->len = t->len_reg >= 0 ? it->regs[t->len_reg] : t->count;
		rut_ctf_iter_skip(it, t);
		break;
	}
	if (it->failed)
		ret->kind = RUT_CTF_VALUE_NONE;
}

static bool in_range(const struct rut_ctf_type *t, const struct rut_ctf_range *r, uint64_t v)
{
	return t->tag_signed ? (int64_t)v >= (int64_t)r->lo && (int64_t)v <= (int64_t)r->hi
			     : v >= r->lo && v <= r->hi;
}

uint64_t rut_ctf_iter_enter(struct rut_ctf_iter *it, const struct rut_ctf_type *t)
{
	uint64_t n = 0, tag;

	if (it->failed)
		return 0;
	switch (t->kind) {
	case RUT_CTF_KIND_STRUCT:
		align(it, t);
		return t->n_fields;
	case RUT_CTF_KIND_ARRAY:
	case RUT_CTF_KIND_SEQUENCE:
		align(it, t);
		length_of(it, t, &n);
		return n;
	case RUT_CTF_KIND_VARIANT:
		tag = it->regs[t->len_reg];
		for (uint32_t i = 0; i < t->n_ranges; i++)
			if (in_range(t, &t->ranges[i], tag))
				return t->ranges[i].label;
		it->failed = true;
		return 0;
	case RUT_CTF_KIND_OPTIONAL:
		align(it, t);
		tag = it->regs[t->len_reg];
		if (!t->n_ranges)
			return tag != 0;
		for (uint32_t i = 0; i < t->n_ranges; i++)
			if (in_range(t, &t->ranges[i], tag))
				return 1;
		return 0;
	default:
		return 0;
	}
}

void rut_ctf_iter_skip(struct rut_ctf_iter *it, const struct rut_ctf_type *t)
{
	struct rut_ctf_value v;
	uint64_t n;

	if (it->failed)
		return;
	if (t->fixed && !t->saves) {
		align(it, t);
		if (have(it, t->size))
			it->pos += t->size;
		return;
	}
	switch (t->kind) {
	case RUT_CTF_KIND_STRUCT:
		n = rut_ctf_iter_enter(it, t);
		for (uint64_t i = 0; i < n && !it->failed; i++)
			rut_ctf_iter_skip(it, t->fields[i].type);
		return;
	case RUT_CTF_KIND_ARRAY:
	case RUT_CTF_KIND_SEQUENCE:
		n = rut_ctf_iter_enter(it, t);
		if (t->elem->fixed && !t->elem->saves) {
			uint64_t stride = rut_bits_align(t->elem->size, t->elem->align);

			n = n ? (n - 1) * stride + t->elem->size : 0;
			if (have(it, n))
				it->pos += n;
			return;
		}
		for (uint64_t i = 0; i < n && !it->failed; i++)
			rut_ctf_iter_skip(it, t->elem);
		return;
	case RUT_CTF_KIND_VARIANT:
		n = rut_ctf_iter_enter(it, t);
		if (!it->failed)
			rut_ctf_iter_skip(it, t->fields[n].type);
		return;
	case RUT_CTF_KIND_OPTIONAL:
		if (rut_ctf_iter_enter(it, t))
			rut_ctf_iter_skip(it, t->elem);
		return;
	default:
		rut_ctf_iter_value(it, t, &v);
	}
}

/* ---- Fields by reference ---- */

const struct rut_ctf_type *rut_ctf_iter_init(struct rut_ctf_iter *it,
					     const struct rut_ctf_event *ev,
					     enum rut_ctf_scope scope)
{
	const struct rut_ctf_type *root = rut_ctf_class_scope(ev->cls, scope);

	*it = (struct rut_ctf_iter){
		.data = ev->data,
		.end = ev->packet->content_bits,
		.regs = (uint64_t *)ev->regs,
	};
	if (!root)
		return NULL;
	if (scope == RUT_CTF_SCOPE_PACKET_CONTEXT)
		it->pos = ev->packet->context_pos;
	else if (scope == RUT_CTF_SCOPE_EVENT_HEADER)
		it->pos = ev->header_pos;
	else if (scope != RUT_CTF_SCOPE_PACKET_HEADER)
		it->pos = ev->seg[root->seg] + root->off;
	return root;
}

static enum rut_ctf_load load_of(const struct rut_ctf_type *t)
{
	const bool native_be = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	int s = t->is_signed ? RUT_CTF_LOAD_S8 - RUT_CTF_LOAD_U8 : 0;

	switch (t->kind) {
	case RUT_CTF_KIND_STRING:
		return RUT_CTF_LOAD_BYTES;
	case RUT_CTF_KIND_ARRAY:
	case RUT_CTF_KIND_SEQUENCE:
		return t->text && t->elem->size == 8 && t->align >= 8 ? RUT_CTF_LOAD_BYTES
								      : RUT_CTF_LOAD_AT;
	case RUT_CTF_KIND_INT:
	case RUT_CTF_KIND_ENUM:
	case RUT_CTF_KIND_BOOL:
	case RUT_CTF_KIND_BITMAP:
		break;
	default:
		return RUT_CTF_LOAD_AT;
	}
	if (t->vlen || t->reversed || t->align < 8 || (t->size != 8 && t->big_endian != native_be))
		return RUT_CTF_LOAD_AT;
	switch (t->size) {
	case 8:
		return (enum rut_ctf_load)(RUT_CTF_LOAD_U8 + s);
	case 16:
		return (enum rut_ctf_load)(RUT_CTF_LOAD_U16 + s);
	case 32:
		return (enum rut_ctf_load)(RUT_CTF_LOAD_U32 + s);
	case 64:
		return (enum rut_ctf_load)(RUT_CTF_LOAD_U64 + s);
	default:
		return RUT_CTF_LOAD_AT;
	}
}

/* Exact names first, to distinguish "__x" from "_x"; then shown ones. */
static const struct rut_ctf_type *find_member(const struct rut_ctf_type *t, const char *name,
					      size_t len)
{
	for (int raw = 0; raw < 2; raw++)
		for (uint32_t i = 0; i < t->n_fields; i++) {
			const char *n = raw ? t->fields[i].raw_name : t->fields[i].name;

			if (!strncmp(n, name, len) && !n[len])
				return t->fields[i].type;
		}
	return NULL;
}

static const struct rut_ctf_type *find_path(const struct rut_ctf_type *t, const char *path)
{
	while (t) {
		const char *end = strchrnul(path, '.');

		while (t->kind == RUT_CTF_KIND_OPTIONAL)
			t = t->elem;
		t = find_member(t, path, (size_t)(end - path));
		if (!*end)
			break;
		path = end + 1;
	}
	return t;
}

void rut_ctf_ref_of(const struct rut_ctf_type *t, enum rut_ctf_scope scope, struct rut_ctf_ref *ret)
{
	*ret = (struct rut_ctf_ref){
		.load = RUT_CTF_LOAD_SEARCH, .scope = (uint8_t)scope, .type = t};
	if (t->located) {
		ret->load = (uint8_t)load_of(t);
		ret->seg = t->seg;
		ret->off = t->off;
		if (ret->load >= RUT_CTF_LOAD_U8 && ret->load <= RUT_CTF_LOAD_S64)
			ret->shift = (uint8_t)(64 - t->size);
	}
}

static bool ref_in_scope(const struct rut_ctf_event_class *cls, enum rut_ctf_scope scope,
			 const char *name, struct rut_ctf_ref *ret)
{
	const struct rut_ctf_type *root = rut_ctf_class_scope(cls, scope);
	const struct rut_ctf_type *t = root ? find_path(root, name) : NULL;

	if (!t)
		return false;
	rut_ctf_ref_of(t, scope, ret);
	return true;
}

bool rut_ctf_ref_find(const struct rut_ctf_event_class *cls, enum rut_ctf_scope scope,
		      const char *name, struct rut_ctf_ref *ret)
{
	static const enum rut_ctf_scope order[] = {
		RUT_CTF_SCOPE_PAYLOAD,	      RUT_CTF_SCOPE_EVENT_CONTEXT,
		RUT_CTF_SCOPE_STREAM_CONTEXT, RUT_CTF_SCOPE_EVENT_HEADER,
		RUT_CTF_SCOPE_PACKET_CONTEXT, RUT_CTF_SCOPE_PACKET_HEADER,
	};

	memset(ret, 0, sizeof(*ret));
	if (scope != RUT_CTF_SCOPE_ANY)
		return ref_in_scope(cls, scope, name, ret);
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++)
		if (ref_in_scope(cls, order[i], name, ret))
			return true;
	return false;
}

/* Walks until it stands at `target`. */
static bool search(struct rut_ctf_iter *it, const struct rut_ctf_type *t,
		   const struct rut_ctf_type *target)
{
	uint64_t n;

	if (t == target)
		return true;
	switch (t->kind) {
	case RUT_CTF_KIND_STRUCT:
		n = rut_ctf_iter_enter(it, t);
		for (uint64_t i = 0; i < n && !it->failed; i++)
			if (search(it, t->fields[i].type, target))
				return true;
		return false;
	case RUT_CTF_KIND_VARIANT:
		n = rut_ctf_iter_enter(it, t);
		return !it->failed && search(it, t->fields[n].type, target);
	case RUT_CTF_KIND_OPTIONAL:
		return rut_ctf_iter_enter(it, t) && search(it, t->elem, target);
	default:
		rut_ctf_iter_skip(it, t);
		return false;
	}
}

/* Stands at the field; false when this event does not have it. */
static bool seek_ref(struct rut_ctf_iter *it, const struct rut_ctf_event *ev,
		     const struct rut_ctf_ref *ref)
{
	const struct rut_ctf_type *root;

	if (!ref->type)
		return false;
	root = rut_ctf_iter_init(it, ev, (enum rut_ctf_scope)ref->scope);
	if (ref->load == RUT_CTF_LOAD_SEARCH)
		return root && search(it, root, ref->type) && !it->failed;
	it->pos = ev->seg[ref->seg] + ref->off;
	return true;
}

void rut_ctf_get(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref,
		 struct rut_ctf_value *ret)
{
	struct rut_ctf_iter it;

	if (seek_ref(&it, ev, ref))
		rut_ctf_iter_value(&it, ref->type, ret);
	else
		*ret = (struct rut_ctf_value){.type = ref->type};
}

uint64_t rut_ctf_u64_any(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref)
{
	struct rut_ctf_value v;

	rut_ctf_get(ev, ref, &v);
	switch (v.kind) {
	case RUT_CTF_VALUE_UINT:
	case RUT_CTF_VALUE_INT:
		return v.u;
	case RUT_CTF_VALUE_FLOAT:
		return v.d > -9.2e18 && v.d < 9.2e18 ? (uint64_t)(int64_t)v.d : 0;
	default:
		return 0;
	}
}

uint64_t rut_ctf_u64_last(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref)
{
	return rut_decode_fixed(ev->data, ev->seg[ref->seg] + ref->off, ref->type);
}

const char *rut_ctf_str(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref,
			size_t *ret_len)
{
	struct rut_ctf_value v;

	if (ref->load == RUT_CTF_LOAD_BYTES && ref->type->char_bytes == 1) {
		const char *p = (const char *)rut_ctf_ref_ptr(ev, ref);

		if (ref->type->kind == RUT_CTF_KIND_ARRAY) {
			*ret_len = strnlen(p, ref->type->count);
			return p;
		}
		if (ref->type->kind == RUT_CTF_KIND_STRING) {
			*ret_len = strnlen(p, ev->packet->content_bits / 8 -
						      (size_t)(p - (const char *)ev->data));
			return p;
		}
	}
	rut_ctf_get(ev, ref, &v);
	if (v.kind == RUT_CTF_VALUE_STR || v.kind == RUT_CTF_VALUE_BYTES) {
		*ret_len = v.len;
		return v.str;
	}
	if (v.kind == RUT_CTF_VALUE_NESTED && ref->type->elem && ref->type->elem->size == 8 &&
	    !(v.pos & 7)) { /* an array of bytes that is not marked as text */
		*ret_len = v.len;
		return (const char *)ev->data + (v.pos >> 3);
	}
	*ret_len = 0;
	return "";
}

uint64_t rut_ctf_seq_len(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref)
{
	struct rut_ctf_value v;

	if (!ref->type || !ref->type->elem || ref->type->kind == RUT_CTF_KIND_OPTIONAL)
		return 0;
	if (ref->type->text) {
		rut_ctf_get(ev, ref, &v);
		return v.len;
	}
	return ref->type->len_reg >= 0 ? ev->regs[ref->type->len_reg] : ref->type->count;
}

uint64_t rut_ctf_seq_u64(const struct rut_ctf_event *ev, const struct rut_ctf_ref *ref, uint64_t i)
{
	const struct rut_ctf_type *e;
	struct rut_ctf_value v;
	struct rut_ctf_iter it;

	if (i >= rut_ctf_seq_len(ev, ref) || !seek_ref(&it, ev, ref))
		return 0;
	e = ref->type->elem;
	it.pos = rut_bits_align(it.pos, ref->type->align);
	if (e->fixed)
		it.pos += i * rut_bits_align(e->size, e->align);
	else
		for (; i; i--)
			rut_ctf_iter_skip(&it, e);
	rut_ctf_iter_value(&it, e, &v);
	return v.kind == RUT_CTF_VALUE_UINT || v.kind == RUT_CTF_VALUE_INT ? v.u : 0;
}
