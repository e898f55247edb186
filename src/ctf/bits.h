/* SPDX-License-Identifier: MIT */
/*
 * Integers of any size at any bit. CTF fills little-endian bytes from the least significant bit up,
 * big-endian ones from the most significant bit down. The caller has checked the extent.
 */
#ifndef RUT_CTF_BITS_H
#define RUT_CTF_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t rut_bits_align(uint64_t pos, uint64_t align)
{
	return (pos + align - 1) & ~(align - 1);
}

static inline uint64_t rut_bits_sign(uint64_t v, unsigned int size)
{
	/* Sizes 1 to 63, in one comparison. */
	return size - 1 < 63 ? (uint64_t)((int64_t)(v << (64 - size)) >> (64 - size)) : v;
}

static inline uint64_t rut_bits_reverse(uint64_t v, unsigned int size)
{
	uint64_t r = 0;

	for (unsigned int i = 0; i < size; i++)
		r |= (v >> i & 1) << (size - 1 - i);
	return r;
}

static inline uint64_t rut_bits_slow(const uint8_t *p, unsigned int shift, unsigned int size,
				     bool be)
{
	unsigned int n = (shift + size + 7) / 8; /* 1 to 9 bytes */
	unsigned __int128 v = 0;

	for (unsigned int i = 0; i < n; i++)
		v |= (unsigned __int128)p[be ? n - 1 - i : i] << (8 * i);
	v >>= be ? 8 * n - shift - size : shift;
	return size < 64 ? (uint64_t)v & (((uint64_t)1 << size) - 1) : (uint64_t)v;
}

/* `size` is 1 to 64. */
static inline uint64_t rut_bits_read(const uint8_t *data, uint64_t pos, unsigned int size, bool be)
{
	const bool swap = be == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
	const uint8_t *p = data + (pos >> 3);
	uint64_t v64;
	uint32_t v32;
	uint16_t v16;

	if (pos & 7)
		return rut_bits_slow(p, pos & 7, size, be);
	switch (size) {
	case 8:
		return *p;
	case 16:
		memcpy(&v16, p, 2);
		return swap ? __builtin_bswap16(v16) : v16;
	case 32:
		memcpy(&v32, p, 4);
		return swap ? __builtin_bswap32(v32) : v32;
	case 64:
		memcpy(&v64, p, 8);
		return swap ? __builtin_bswap64(v64) : v64;
	default:
		return rut_bits_slow(p, 0, size, be);
	}
}

#endif
