/* SPDX-License-Identifier: MIT */
#include "ring/append.h"

#include <errno.h>
#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE	    ((size_t)4096)
#define CHAIN_PAGES 64 /* appended at a time */

int rut_packet_write(int fd, const void *data, size_t len, off_t at)
{
	const char *p = data;

	while (len) {
		ssize_t n = pwrite(fd, p, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		p += n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}

void rut_packet_make_empty(struct rut_packet *head)
{
	head->timestamp_end = head->timestamp_begin;
	head->content_size = sizeof(*head) * 8;
	head->packet_size = PAGE * 8;
}

/* Step 1: pages that are packets without events, with numbers in a row. */
int rut_packet_append_empty(int fd, struct rut_packet head, size_t pages, off_t end)
{
	static const unsigned char zeros[PAGE];
	struct rut_packet heads[CHAIN_PAGES];
	struct iovec iov[2 * CHAIN_PAGES];

	rut_packet_make_empty(&head);
	while (pages) {
		size_t n = pages < CHAIN_PAGES ? pages : CHAIN_PAGES;
		ssize_t done;

		for (size_t i = 0; i < n; i++) {
			heads[i] = head;
			heads[i].packet_seq_num += i;
			iov[2 * i] = (struct iovec){&heads[i], sizeof(head)};
			iov[2 * i + 1] = (struct iovec){(void *)zeros, PAGE - sizeof(head)};
		}
		done = pwritev(fd, iov, (int)(2 * n), end);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < (ssize_t)PAGE)
			return done < 0 ? -errno : -ENOSPC;
		/* Short inside a page: that page is written again. */
		n = (size_t)done / PAGE;
		head.packet_seq_num += n;
		end += (off_t)(n * PAGE);
		pages -= n;
	}
	return 0;
}

/* The first page, with the header `head`, at once. */
int rut_packet_write_first(int fd, const struct rut_packet *head, const unsigned char *packet,
			   off_t end)
{
	struct iovec iov[2] = {
		{(void *)head, sizeof(*head)},
		{(void *)(packet + sizeof(*head)), PAGE - sizeof(*head)},
	};
	ssize_t n;

	do
		n = pwritev(fd, iov, 2, end);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n < (ssize_t)PAGE ? -ENOSPC : 0;
}

int rut_packet_append(int fd, const struct rut_packet *head, const unsigned char *packet,
		      size_t len, off_t end)
{
	const off_t size_at = end + (off_t)offsetof(struct rut_packet, packet_size);
	const size_t h = sizeof(*head);
	int rc;

	if (len <= PAGE)
		return rut_packet_write_first(fd, head, packet, end);
	rc = rut_packet_append_empty(fd, *head, len / PAGE, end);
	if (!rc)
		rc = rut_packet_write(fd, &head->packet_size, sizeof(head->packet_size), size_at);
	if (!rc)
		rc = rut_packet_write(fd, packet + PAGE, len - PAGE, end + (off_t)PAGE);
	/* In two steps: a reader must not see the header before the records. */
	if (!rc)
		rc = rut_packet_write(fd, packet + h, PAGE - h, end + (off_t)h);
	return rc ? rc : rut_packet_write(fd, head, h, end);
}

int rut_packet_add_count(int fd, struct rut_packet *head, uint64_t records, off_t end)
{
	const struct rut_packet_foot foot = {RUT_PACKET_COUNTED, records};
	off_t behind = end + (off_t)(head->packet_size / 8);
	struct rut_packet next = *head;
	int rc = 0;

	if (head->packet_size - head->content_size < sizeof(foot) * 8) {
		next.packet_seq_num++;
		rc = rut_packet_append_empty(fd, next, 1, behind);
		head->packet_size += PAGE * 8;
		behind += (off_t)PAGE;
		if (!rc)
			rc = rut_packet_write(
				fd, &head->packet_size, sizeof(head->packet_size),
				end + (off_t)offsetof(struct rut_packet, packet_size));
	}
	return rc ? rc : rut_packet_write(fd, &foot, sizeof(foot), behind - (off_t)sizeof(foot));
}

bool rut_packet_read_foot(int fd, const struct rut_packet *head, off_t at, uint64_t magic,
			  uint64_t *ret_records)
{
	struct rut_packet_foot foot;

	if (head->packet_size < head->content_size + sizeof(foot) * 8 ||
	    pread(fd, &foot, sizeof(foot),
		  at + (off_t)(head->packet_size / 8) - (off_t)sizeof(foot)) !=
		    (ssize_t)sizeof(foot) ||
	    foot.magic != magic)
		return false;
	*ret_records = foot.records;
	return true;
}

bool rut_packet_is_filler(int fd, const struct rut_packet *head, off_t at, uint64_t *ret_records)
{
	return head->content_size == sizeof(*head) * 8 &&
	       rut_packet_read_foot(fd, head, at, RUT_PACKET_DROPPED, ret_records);
}
