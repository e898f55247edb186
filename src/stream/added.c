/* SPDX-License-Identifier: MIT */
#include "stream/added.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

/* The end of a block: an empty line, or the end of the text. */
static size_t block(const char *text, size_t len)
{
	const char *end = len ? memmem(text, len, "\n\n", 2) : NULL;

	return end ? (size_t)(end + 2 - text) : len;
}

int rut_metadata_added(const char *old, size_t old_len, const char *text, size_t len,
		       struct rut_buf *out)
{
	const size_t before = out->len;

	while (len) {
		size_t n = block(text, len), o = block(old, old_len);

		if (o == n && !memcmp(old, text, n)) {
			old += o;
			old_len -= o;
		} else {
			rut_buf_add(out, text, n);
		}
		text += n;
		len -= n;
	}
	if (!old_len)
		return out->failed ? -ENOMEM : 0;
	if (!out->failed)
		out->len = before;
	return -EINVAL;
}

/* The head of a metadata packet, as CTF 1.8 describes it. */
struct head {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t checksum;
	uint32_t content_bits, packet_bits;
	uint8_t compression, encryption, checksum_scheme;
	uint8_t major, minor;
} __attribute__((packed));

#define METADATA_MAGIC 0x75d11d57u
#define METADATA_BYTES 4096 /* of a packet */

/* The trace's uuid by the text; all zeros when there is none. */
static void find_uuid(const char *text, size_t len, uint8_t ret[16])
{
	static const char key[] = "uuid = \"";
	const char *end = text + len, *p = len ? memmem(text, len, key, sizeof(key) - 1) : NULL;
	size_t digits = 0;

	memset(ret, 0, 16);
	for (p = p ? p + sizeof(key) - 1 : end; p < end && digits < 32 && *p != '"'; p++) {
		int v = isdigit((unsigned char)*p)    ? *p - '0'
			: isxdigit((unsigned char)*p) ? tolower((unsigned char)*p) - 'a' + 10
						      : -1;

		if (v >= 0) {
			ret[digits / 2] = (uint8_t)(ret[digits / 2] << 4 | v);
			digits++;
		}
	}
}

void rut_metadata_packets(const char *whole, size_t whole_len, const char *text, size_t len,
			  struct rut_buf *out)
{
	struct head h = {.magic = METADATA_MAGIC, .major = 1, .minor = 8};

	_Static_assert(sizeof(h) == 37, "the head of a metadata packet");
	find_uuid(whole, whole_len, h.uuid);
	while (len) {
		size_t n = len < METADATA_BYTES - sizeof(h) ? len : METADATA_BYTES - sizeof(h);

		h.content_bits = h.packet_bits = (uint32_t)(sizeof(h) + n) * 8;
		rut_buf_add(out, &h, sizeof(h));
		rut_buf_add(out, text, n);
		text += n;
		len -= n;
	}
}
