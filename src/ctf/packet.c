/* SPDX-License-Identifier: MIT */
#include "ctf/packet.h"

#include <string.h>

#include "ctf/bits.h"

enum { MAGIC = 0xc1fc1fc1u };

/* What the roles in a packet's header and context said. */
struct roles {
	uint32_t seen; /* bit: enum rut_ctf_role */
	uint64_t value[RUT_CTF_ROLE_CPU_ID + 1];
	const struct rut_ctf_type *type[RUT_CTF_ROLE_CPU_ID + 1];
	uint64_t uuid_pos;
};

static bool has(const struct roles *r, enum rut_ctf_role role)
{
	return r->seen & 1u << role;
}

static void read_roles(struct rut_ctf_iter *it, const struct rut_ctf_type *t, struct roles *r)
{
	struct rut_ctf_value v;
	uint64_t n;

	if (it->failed)
		return;
	if (t->kind == RUT_CTF_KIND_STRUCT) {
		n = rut_ctf_iter_enter(it, t);
		for (uint64_t i = 0; i < n; i++)
			read_roles(it, t->fields[i].type, r);
	} else if (t->kind == RUT_CTF_KIND_VARIANT) {
		n = rut_ctf_iter_enter(it, t);
		if (!it->failed)
			read_roles(it, t->fields[n].type, r);
	} else if (t->kind == RUT_CTF_KIND_OPTIONAL) {
		if (rut_ctf_iter_enter(it, t))
			read_roles(it, t->elem, r);
	} else if (t->role) {
		rut_ctf_iter_value(it, t, &v);
		if (it->failed)
			return;
		r->seen |= 1u << t->role;
		r->value[t->role] = v.u;
		r->type[t->role] = t;
		if (t->role == RUT_CTF_ROLE_UUID)
			r->uuid_pos = v.pos;
	} else {
		rut_ctf_iter_skip(it, t);
	}
}

int64_t rut_ctf_clock_ns(const struct rut_ctf_clock *c, uint64_t value)
{
	unsigned __int128 since = value;
	__int128 ns;

	if (c->freq != 1000000000)
		since = (since * 1000000000 + c->base_rest) / c->freq;
	ns = (__int128)since + c->base_ns;
	return ns > INT64_MAX ? INT64_MAX : ns < INT64_MIN ? INT64_MIN : (int64_t)ns;
}

static uint64_t mask_of(const struct rut_ctf_type *t)
{
	return t->vlen || t->size >= 64 ? UINT64_MAX : ((uint64_t)1 << t->size) - 1;
}

static int check_header(const struct rut_meta *m, const uint8_t *p, const struct roles *r,
			struct rut_packet_info *ret, struct rut_err *err)
{
	const struct rut_ctf_trace *t = &m->pub;

	if (has(r, RUT_CTF_ROLE_MAGIC) && r->value[RUT_CTF_ROLE_MAGIC] != MAGIC)
		return rut_err_set(err, EINVAL,
				   "no packet begins here: its magic number is 0x%08llx, not 0x%x",
				   (unsigned long long)r->value[RUT_CTF_ROLE_MAGIC], MAGIC);
	if (has(r, RUT_CTF_ROLE_UUID) && t->has_uuid && !(r->uuid_pos & 7) &&
	    memcmp(p + (r->uuid_pos >> 3), t->uuid, 16) != 0)
		ret->other_trace = true;
	for (size_t i = 0; i < t->n_stream_classes && !ret->cls; i++)
		if (has(r, RUT_CTF_ROLE_STREAM_ID)
			    ? t->stream_classes[i]->id == r->value[RUT_CTF_ROLE_STREAM_ID]
			    : t->n_stream_classes == 1 || t->stream_classes[i]->id == 0)
			ret->cls = t->stream_classes[i];
	if (!ret->cls)
		return rut_err_set(err, EINVAL,
				   "the packet is of stream %llu, which the metadata lacks",
				   (unsigned long long)r->value[RUT_CTF_ROLE_STREAM_ID]);
	ret->has_instance = has(r, RUT_CTF_ROLE_STREAM_INSTANCE_ID);
	ret->instance = r->value[RUT_CTF_ROLE_STREAM_INSTANCE_ID];
	return 0;
}

static int take_sizes(const struct roles *r, uint64_t avail, struct rut_packet_info *ret,
		      struct rut_err *err)
{
	uint64_t packet = avail, content;

	if (has(r, RUT_CTF_ROLE_PACKET_SIZE))
		packet = r->value[RUT_CTF_ROLE_PACKET_SIZE];
	else if (has(r, RUT_CTF_ROLE_CONTENT_SIZE))
		packet = rut_bits_align(r->value[RUT_CTF_ROLE_CONTENT_SIZE] & ~(7ull << 61), 8);
	content = has(r, RUT_CTF_ROLE_CONTENT_SIZE) ? r->value[RUT_CTF_ROLE_CONTENT_SIZE] : packet;
	if (!packet || packet % 8)
		return rut_err_set(err, EINVAL, "the packet says that it is %llu bits long",
				   (unsigned long long)packet);
	if (content > packet)
		return rut_err_set(err, EINVAL,
				   "the packet says that %llu bits of its %llu are content",
				   (unsigned long long)content, (unsigned long long)packet);
	if (content < ret->events_pos)
		return rut_err_set(err, EINVAL,
				   "the packet says that it holds %llu bits, but its header "
				   "alone has %llu",
				   (unsigned long long)content,
				   (unsigned long long)ret->events_pos);
	if (packet > avail) {
		ret->cut = true;
		packet = avail;
		content = content < avail ? content : avail;
	}
	ret->pub.packet_bits = packet;
	ret->pub.content_bits = content;
	return 0;
}

static void take_time(const struct roles *r, enum rut_ctf_role role, struct rut_packet_info *info,
		      bool *ret_has, uint64_t *ret_clock, int64_t *ret_ns)
{
	const struct rut_ctf_clock *c;

	if (!has(r, role))
		return;
	c = r->type[role]->clock ? r->type[role]->clock : info->cls->clock;
	*ret_clock = r->value[role];
	*ret_ns = c ? rut_ctf_clock_ns(c, *ret_clock) : 0;
	*ret_has = c != NULL;
}

int rut_packet_read(const struct rut_meta *m, const uint8_t *file, uint64_t size, uint64_t offset,
		    uint64_t *regs, struct rut_packet_info *ret, struct rut_err *err)
{
	struct rut_ctf_iter it = {.data = file + offset, .end = (size - offset) * 8, .regs = regs};
	struct roles r = {0};
	struct rut_ctf_packet *p = &ret->pub;
	int rc;

	memset(ret, 0, sizeof(*ret));
	p->offset_bytes = offset;
	p->cpu = -1;
	if (m->pub.packet_header)
		read_roles(&it, m->pub.packet_header, &r);
	if (it.failed)
		return rut_err_set(err, EINVAL, "the packet's header is cut off");
	if ((rc = check_header(m, file + offset, &r, ret, err)) < 0)
		return rc;
	if (ret->cls->packet_context) {
		p->context_pos = rut_bits_align(it.pos, ret->cls->packet_context->align);
		read_roles(&it, ret->cls->packet_context, &r);
	}
	if (it.failed)
		return rut_err_set(err, EINVAL, "the packet's context is cut off");
	ret->events_pos = it.pos;
	if ((rc = take_sizes(&r, it.end, ret, err)) < 0)
		return rc;
	take_time(&r, RUT_CTF_ROLE_TIMESTAMP, ret, &p->has_begin, &p->begin_clock, &p->begin_ns);
	take_time(&r, RUT_CTF_ROLE_TIMESTAMP_END, ret, &p->has_end, &p->end_clock, &p->end_ns);
	if (has(&r, RUT_CTF_ROLE_EVENTS_DISCARDED)) {
		p->has_discarded = true;
		p->discarded = r.value[RUT_CTF_ROLE_EVENTS_DISCARDED];
		ret->discarded_mask = mask_of(r.type[RUT_CTF_ROLE_EVENTS_DISCARDED]);
	}
	if (has(&r, RUT_CTF_ROLE_PACKET_SEQ)) {
		p->has_seq = true;
		p->seq = r.value[RUT_CTF_ROLE_PACKET_SEQ];
		ret->seq_mask = mask_of(r.type[RUT_CTF_ROLE_PACKET_SEQ]);
	}
	if (has(&r, RUT_CTF_ROLE_CPU_ID))
		p->cpu = (int32_t)r.value[RUT_CTF_ROLE_CPU_ID];
	return 0;
}
