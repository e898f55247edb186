/* SPDX-License-Identifier: MIT */
/* Between cursor.c (records), cursor_find.c (the short path) and cursor_packet.c. */
#ifndef RUT_CTF_CURSOR_PRIV_H
#define RUT_CTF_CURSOR_PRIV_H

#include "ctf/bits.h"
#include "ctf/cursor.h"
#include "ctf/decode.h"
#include "ctf/program.h"

#define likely(x)     __builtin_expect(!!(x), 1)
#define unlikely(x)   __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE inline __attribute__((always_inline))

static inline const struct rut_set_file *rut_cursor_file(const struct rut_cursor *c)
{
	return &c->s->files[c->file];
}

/* Reports bad input at a byte of the current file. */
__attribute__((format(printf, 3, 4), cold)) void rut_cursor_complain(struct rut_cursor *c,
								     uint64_t byte, const char *fmt,
								     ...);

/* Opens the next packet that is not wholly before opts->begin_ns. False at the end. */
bool rut_cursor_open_packet(struct rut_cursor *c);

/*
 * Finds the next wanted events of the packet, as far as headers have a plan, into c->found. Returns
 * their number. 0: the record at c->pos needs the long way, which also tells what is wrong with it;
 * nothing of it was taken.
 */
uint32_t rut_cursor_find(struct rut_cursor *c);

/* ---- Headers ---- */

static inline uint64_t rut_cursor_load(const uint8_t *p, unsigned int size)
{
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;

	switch (size) {
	case 8:
		memcpy(&v64, p, 8);
		return v64;
	case 4:
		memcpy(&v32, p, 4);
		return v32;
	case 2:
		memcpy(&v16, p, 2);
		return v16;
	case 1:
		return *p;
	default:
		return 0;
	}
}

/* A time of `bits` bits: the clock is at least where it was, so a smaller value has wrapped. */
static inline uint64_t rut_cursor_advance(uint64_t clk, uint64_t v, unsigned int bits)
{
	uint64_t mask;

	if (bits >= 64)
		return v;
	mask = ((uint64_t)1 << bits) - 1;
	if (v < (clk & mask))
		clk += mask + 1;
	return (clk & ~mask) | v;
}

struct rut_header {
	uint64_t id, clk;
	uint32_t bytes;
};

/* A header of a form known by its plan; h->max_bytes are there. */
static ALWAYS_INLINE struct rut_header rut_cursor_header(const struct rut_ctf_header_plan *h,
							 enum rut_ctf_header_kind kind,
							 const uint8_t *p, uint64_t clk)
{
	uint64_t w, id;

	switch (kind) {
	case RUT_CTF_HEADER_COMPACT:
		w = rut_cursor_load(p, 4);
		if ((w & 31) != 31)
			return (struct rut_header){w & 31, rut_cursor_advance(clk, w >> 5, 27), 4};
		break;
	case RUT_CTF_HEADER_LARGE:
		id = rut_cursor_load(p, 2);
		if (id != 65535)
			return (struct rut_header){
				id,
				rut_cursor_advance(clk, rut_cursor_load(p + h->short_ts_off, 4),
						   32),
				h->short_len};
		break;
	case RUT_CTF_HEADER_WORD:
		w = rut_cursor_load(p, 8);
		return (struct rut_header){w & 0xffff, rut_cursor_advance(clk, w >> 16, 48), 8};
	default:
		if (h->ts_size)
			clk = rut_cursor_advance(clk, rut_cursor_load(p + h->ts_off, h->ts_size),
						 8u * h->ts_size);
		return (struct rut_header){rut_cursor_load(p + h->id_off, h->id_size), clk, h->len};
	}
	return (struct rut_header){rut_cursor_load(p + h->id_off, 4),
				   rut_cursor_load(p + h->ts_off, 8), h->len};
}

/* ---- Records ---- */

static inline bool rut_cursor_walk_any(struct rut_cursor *c, const struct rut_ctf_type *t,
				       uint64_t *pos)
{
	struct rut_ctf_iter it = {
		.data = c->ev.data, .pos = *pos, .end = c->info.pub.content_bits, .regs = c->regs};

	rut_ctf_iter_skip(&it, t);
	*pos = it.pos;
	return !it.failed;
}

/*
 * Runs the program of a class; segments go to `seg`. Returns false when the record does not fit in
 * the packet.
 */
static ALWAYS_INLINE bool rut_cursor_walk(struct rut_cursor *c, const struct rut_ctf_program *prog,
					  uint64_t *seg, uint64_t *ret_pos)
{
	const uint64_t end = c->info.pub.content_bits;
	const uint8_t *data = c->ev.data, *nul;
	uint64_t pos = *ret_pos, n;

	for (const struct rut_ctf_step *s = prog->steps;; s++) {
		switch (s->op) {
		case RUT_CTF_OP_END:
			*ret_pos = pos;
			return true;
		case RUT_CTF_OP_FIXED:
			pos = rut_bits_align(pos, s->align);
			seg[s->seg] = pos;
			pos += s->bits;
			if (unlikely(pos > end))
				return false;
			break;
		case RUT_CTF_OP_SAVE:
			c->regs[s->type->reg] =
				rut_decode_fixed(data, seg[s->seg] + s->off, s->type);
			break;
		case RUT_CTF_OP_STRING:
			pos = rut_bits_align(pos, s->align);
			seg[s->seg] = pos;
			if (unlikely(pos >= end))
				return false;
			nul = memchr(data + (pos >> 3), 0, (end - pos) >> 3);
			if (unlikely(!nul))
				return false;
			pos = 8 * (uint64_t)(nul + 1 - data);
			break;
		case RUT_CTF_OP_SEQUENCE:
			pos = rut_bits_align(pos, s->align);
			seg[s->seg] = pos;
			n = c->regs[s->type->len_reg];
			if (unlikely(pos > end || n > (end - pos) / s->bits))
				return false;
			pos += n * s->bits;
			break;
		default:
			seg[s->seg] = rut_bits_align(pos, s->align);
			if (!rut_cursor_walk_any(c, s->type, &pos))
				return false;
		}
	}
}

#endif
