/* SPDX-License-Identifier: MIT */
#include "ctf_writer.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int rut_ctf_writer_open(struct rut_ctf_writer *w, const char *path, bool big_endian,
			struct rut_err *err)
{
	*w = (struct rut_ctf_writer){.fd = -1, .big_endian = big_endian};
	if (!path)
		return 0;
	w->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	return w->fd < 0 ? rut_err_errno(err, errno, "cannot create '%s'", path) : 0;
}

int rut_ctf_writer_close(struct rut_ctf_writer *w)
{
	int rc = w->error;

	if (w->fd >= 0 && close(w->fd) < 0 && !rc)
		rc = -errno;
	rut_buf_fini(&w->packet);
	w->fd = -1;
	return rc;
}

/* Makes the packet reach at least to bit `end`, with zeros. */
static bool extend(struct rut_ctf_writer *w, uint64_t end)
{
	size_t need = (size_t)((end + 7) / 8);

	if (need <= w->packet.len)
		return true;
	if (rut_buf_reserve(&w->packet, need - w->packet.len) < 0) {
		w->error = w->error ? w->error : -ENOMEM;
		return false;
	}
	memset(w->packet.data + w->packet.len, 0, need - w->packet.len);
	w->packet.len = need;
	return true;
}

void rut_ctf_writer_align(struct rut_ctf_writer *w, uint32_t align)
{
	w->pos = (w->pos + align - 1) & ~((uint64_t)align - 1);
	extend(w, w->pos);
}

void rut_ctf_writer_patch(struct rut_ctf_writer *w, uint64_t pos, uint64_t v, unsigned int bits)
{
	uint8_t *p;

	if (!extend(w, pos + bits))
		return;
	p = (uint8_t *)w->packet.data;
	for (unsigned int i = 0; i < bits; i++) {
		/* Little endian fills from the low bit up, big endian from the high bit down. */
		uint64_t bit = v >> (w->big_endian ? bits - 1 - i : i) & 1;
		uint64_t at = pos + i;
		uint8_t mask = (uint8_t)(1 << (w->big_endian ? 7 - at % 8 : at % 8));

		p[at / 8] = (uint8_t)(bit ? p[at / 8] | mask : p[at / 8] & ~mask);
	}
}

uint64_t rut_ctf_writer_put(struct rut_ctf_writer *w, uint64_t v, unsigned int bits, uint32_t align)
{
	uint64_t pos;

	rut_ctf_writer_align(w, align);
	pos = w->pos;
	rut_ctf_writer_patch(w, pos, v, bits);
	w->pos += bits;
	return pos;
}

void rut_ctf_writer_bytes(struct rut_ctf_writer *w, const void *data, size_t len)
{
	rut_ctf_writer_align(w, 8);
	if (!extend(w, w->pos + 8 * len))
		return;
	if (len)
		memcpy(w->packet.data + w->pos / 8, data, len);
	w->pos += 8 * len;
}

void rut_ctf_writer_string(struct rut_ctf_writer *w, const char *s)
{
	rut_ctf_writer_bytes(w, s, strlen(s) + 1);
}

void rut_ctf_writer_end_packet(struct rut_ctf_writer *w, size_t bytes)
{
	size_t done = 0;

	extend(w, 8 * (uint64_t)bytes);
	while (w->fd >= 0 && done < w->packet.len && !w->error) {
		ssize_t n = write(w->fd, w->packet.data + done, w->packet.len - done);

		if (n < 0 && errno != EINTR)
			w->error = -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	rut_buf_clear(&w->packet);
	w->pos = 0;
}

void rut_ctf_pack_metadata(struct rut_buf *out, const char *text, size_t len, size_t max,
			   const uint8_t uuid[16], bool big_endian)
{
	size_t done = 0;

	do {
		size_t n = len - done < max ? len - done : max;
		struct rut_ctf_writer w = {.fd = -1, .big_endian = big_endian};

		rut_ctf_writer_put(&w, 0x75d11d57, 32, 8);
		rut_ctf_writer_bytes(&w, uuid, 16);
		rut_ctf_writer_put(&w, 0, 32, 8);	       /* checksum */
		rut_ctf_writer_put(&w, 8 * (37 + n), 32, 8);   /* content */
		rut_ctf_writer_put(&w, 8 * (37 + max), 32, 8); /* packet */
		rut_ctf_writer_put(&w, 0, 24, 8);	       /* no compression, encryption */
		rut_ctf_writer_put(&w, 1, 8, 8);
		rut_ctf_writer_put(&w, 8, 8, 8);
		rut_ctf_writer_bytes(&w, text + done, n);
		extend(&w, 8 * (37 + (uint64_t)max));
		rut_buf_add(out, w.packet.data, w.packet.len);
		rut_buf_fini(&w.packet);
		done += n;
	} while (done < len);
}
