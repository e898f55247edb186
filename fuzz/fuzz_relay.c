/* SPDX-License-Identifier: MIT */
/*
 * A receiver of traces: the input is what a control connection sends, a line "----", and what a
 * data connection sends. The numbers of streams are the receiver's to choose, so in the second part
 * "@N" at the place of one is replaced by that of the N-th stream that was added. A second such
 * line begins what a viewer sends. Nothing but below the receiver's directory may be made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "received.h"
#include "stream/peer.h"
#include "stream/store_live.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The handles that ADD_STREAM replied: 12 bytes each, the status last. */
static uint64_t handles[8];
static size_t n_handles;

static void feed(struct rut_peer *p, const uint8_t *data, size_t size, bool collect)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_buf out = RUT_BUF_INIT;
	size_t step = size > 64 ? 61 : 7;

	for (size_t at = 0; at < size; at += step) {
		size_t n = size - at < step ? size - at : step, before = out.len;

		if (rut_peer_feed(p, data + at, n, &out, &err))
			break;
		if (collect && out.len - before == 12 && n_handles < 8)
			memcpy(&handles[n_handles++], out.data + before, 8);
	}
	rut_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rut_store_limits limits = {
		.bytes = 1 << 20, .streams = 4, .sessions = 2, .connections = 2};
	const uint8_t *sep = memmem(data, size, "\n----\n", 6);
	const uint8_t *third =
		sep ? memmem(sep + 6, size - (size_t)(sep + 6 - data), "\n----\n", 6) : NULL;
	size_t first = sep ? (size_t)(sep - data) : size;
	struct rut_peer *control, *other;
	struct rut_store *store;
	uint8_t second[4096];
	char dir[80];
	size_t n;

	if (!top[0]) {
		strcpy(top, access("/dev/shm", W_OK) ? "/tmp/rutile-fuzz-XXXXXX"
						     : "/dev/shm/rutile-fuzz-XXXXXX");
		if (!mkdtemp(top))
			abort();
		atexit(clean);
	}
	snprintf(dir, sizeof(dir), "%s/dir", top);
	if (rut_store_new(&store, dir, &limits, NULL))
		abort();
	rut_store_serve(store);
	n_handles = 0;
	control = rut_peer_new(store, "a", RUT_PEER_CONTROL);
	feed(control, data, first, true);
	n = third ? (size_t)(third - sep) - 6 : sep ? size - first - 6 : 0;
	n = n < sizeof(second) ? n : sizeof(second);
	if (n)
		memcpy(second, sep + 6, n);
	for (size_t i = 8; i + 8 <= n && i < 256; i++)
		if (second[i] == '@' && (size_t)(second[i + 1] - '0') < n_handles)
			memcpy(second + i, &handles[second[i + 1] - '0'], 8);
	/* A stream's number is of no use to another client. */
	other = rut_peer_new(store, "b", RUT_PEER_DATA);
	feed(other, second, n, false);
	rut_peer_free(other);
	other = rut_peer_new(store, "a", RUT_PEER_DATA);
	feed(other, second, n, false);
	rut_peer_free(other);
	other = rut_peer_new(store, "c", RUT_PEER_VIEWER);
	if (third)
		feed(other, third + 6, size - (size_t)(third + 6 - data), false);
	rut_peer_free(control);
	/* The session is over, and the viewer goes on. */
	if (third)
		feed(other, third + 6, size - (size_t)(third + 6 - data), false);
	rut_peer_free(other);
	rut_store_free(store);
	clean();
	mkdir(top, 0700);
	return 0;
}
