/* SPDX-License-Identifier: MIT */
/*
 * A collector of NATS messages: the input is messages, each a line with its subject, a line with
 * the number of its bytes, and these bytes. Nothing but below the collector's directory may be
 * made, and the files there must be rows of whole packets. The first line is an address as well.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "received.h"
#include "ring/ring.h"
#include "stream/nats_store.h"
#include "stream/nats_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file of packets is a sequence of them. */
static int check_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	const char *name = path + where->base;
	uint64_t at = 0;
	FILE *f;

	if (type != FTW_F || name[0] == '.' || !strcmp(name, "metadata"))
		return 0;
	f = fopen(path, "r");
	while (f && at < (uint64_t)st->st_size) {
		struct rut_packet p;

		if (fseek(f, (long)at, SEEK_SET) || fread(&p, sizeof(p), 1, f) != 1 ||
		    p.magic != RUT_CTF_PACKET_MAGIC || p.packet_size < sizeof(p) * 8)
			abort();
		at += p.packet_size / 8;
	}
	if (!f || at != (uint64_t)st->st_size)
		abort();
	fclose(f);
	return 0;
}

/* Takes a line. Returns false at the end. */
static bool get_line(const uint8_t **p, size_t *left, char *ret, size_t size)
{
	const uint8_t *end = memchr(*p, '\n', *left);
	size_t n = end ? (size_t)(end - *p) : 0;

	if (!end || n >= size)
		return false;
	memcpy(ret, *p, n);
	ret[n] = '\0';
	*left -= n + 1;
	*p = end + 1;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rut_store_limits limits = {.bytes = 1 << 20, .streams = 4};
	struct rut_nats_store *store;
	char dir[80], subject[1200], number[16];
	struct rut_nats_url url;

	if (!top[0]) {
		strcpy(top, access("/dev/shm", W_OK) ? "/tmp/rutile-fuzz-XXXXXX"
						     : "/dev/shm/rutile-fuzz-XXXXXX");
		if (!mkdtemp(top))
			abort();
		atexit(clean);
	}
	snprintf(dir, sizeof(dir), "%s/dir", top);
	if (rut_nats_store_new(&store, dir, &limits, NULL))
		abort();
	while (get_line(&data, &size, subject, sizeof(subject)) &&
	       get_line(&data, &size, number, sizeof(number))) {
		size_t n = strtoul(number, NULL, 10);
		void *copy;

		n = n < size ? n : size;
		copy = malloc(n + 1);
		memcpy(copy, data, n);
		rut_nats_store_put(store, subject, copy, n);
		free(copy);
		data += n;
		size -= n;
		rut_nats_url_parse(subject, &url, NULL);
	}
	rut_nats_store_sync(store);
	rut_nats_store_free(store);
	nftw(top, check_one, 16, FTW_PHYS);
	clean();
	mkdir(top, 0700);
	return 0;
}
