/* SPDX-License-Identifier: MIT */
/*
 * Copies of a length that is known only at run time, into places behind which not one byte may be
 * written: a nested record may follow directly. So the last word overlaps the one before instead
 * of ending in single bytes, and the verifier, which walks through every length that it can
 * distinguish from another, sees each position as a masked number instead of a count of rounds.
 */
#ifndef RUT_BPF_COPY_BPF_H
#define RUT_BPF_COPY_BPF_H

#include <linux/types.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#define RUT_WORD(p, at) (*(__u64 *)((unsigned char *)(p) + (at)))

/* At most eight bytes that stand in a word. */
static __always_inline void rut_store_word(unsigned char *to, __u64 word, __u32 len)
{
	if (len >= 8) {
		*(__u64 *)to = word;
	} else if (len >= 4) {
		*(__u32 *)to = (__u32)word;
		*(__u32 *)(to + (len & 3)) = (__u32)(word >> 8 * (len & 3));
	} else if (len) {
		to[0] = (__u8)word;
		if (len > 1)
			to[1] = (__u8)(word >> 8);
		if (len > 2)
			to[2] = (__u8)(word >> 16);
	}
}

/*
 * `len` bytes, at most `max`, which is a constant and a multiple of 64; both places have room for
 * `max`, as far as the verifier is concerned, and `from` for eight bytes more. `again` is the same
 * length: as a number of its own it lets the verifier forget what the first loop said of it, so
 * that it walks through the rest once instead of once a round.
 */
static __always_inline void rut_copy(unsigned char *to, const unsigned char *from, __u32 len,
				     __u32 again, const __u32 max)
{
	__u32 at, i;

	if (len > max)
		return;
	for (i = 0; i < max / 64; i++) {
		at = i * 64;
		if (at + 64 > len)
			break;
		for (__u32 j = 0; j < 64; j += 8)
			RUT_WORD(to, at + j) = RUT_WORD(from, at + j);
	}
	len = again;
	if (len > max)
		return;
	at = len & ~63u;
	asm volatile("" : "+r"(at));
	for (i = 0; i < 7; i++, at += 8) {
		if (at + 8 > len || at > max - 8)
			break;
		RUT_WORD(to, at) = RUT_WORD(from, at);
	}
	if (len < 8) {
		rut_store_word(to, RUT_WORD(from, 0), len);
		return;
	}
	at = len - 8;
	asm volatile("" : "+r"(at));
	if (at <= max - 8)
		RUT_WORD(to, at) = RUT_WORD(from, at);
}

/* A device's or interrupt's name, measured and stored without a loop. */
struct rut_name {
	__u64 low, high; /* the text; bytes behind the NUL are not used */
	__u32 len;	 /* with the NUL, 1..16 */
};

#define RUT_NAME_MAX 16
#define RUT_BYTES(x) (0x0101010101010101ull * (x))

/* Bytes up to and with the first NUL of eight; 8 without one. */
static __always_inline __u32 rut_word_len(__u64 word)
{
	__u64 nul = (word - RUT_BYTES(0x01)) & ~word & RUT_BYTES(0x80);

	/* Below the lowest bit that is set there is one bit 0 a byte. */
	return (((nul & -nul) - 1) & RUT_BYTES(0x01)) * RUT_BYTES(0x01) >> 56;
}

static __always_inline void rut_measure_name(struct rut_name *n)
{
	__u32 len;

	n->high &= ~0ull >> 8;
	len = rut_word_len(n->low);
	if (len == 8 && n->low >> 56)
		len += rut_word_len(n->high);
	n->len = len;
}

/* Stores n->len bytes and none behind them. */
static __always_inline void rut_store_name(unsigned char *to, const struct rut_name *n)
{
	__u32 more;

	if (n->len <= 8) {
		rut_store_word(to, n->low, n->len);
		return;
	}
	more = (n->len - 8) & 15;
	if (more > 8)
		return;
	*(__u64 *)to = n->low;
	/* The last eight bytes, which overlap the first. */
	*(__u64 *)(to + more) =
		more == 8 ? n->high : n->low >> 8 * more | n->high << (64 - 8 * more);
}

#endif
