/* SPDX-License-Identifier: MIT */
/*
 * A whole trace: the input is metadata, a line "----", and a stream file. It is read by the short
 * paths and by the general one, which must agree, and printed as text and as JSON, which touches
 * every field.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "ctf/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[64];

static void remove_dir(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/metadata", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/s", dir);
	unlink(path);
	rmdir(dir);
}

static void put_file(const char *name, const uint8_t *data, size_t size)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	if (!f || (size && fwrite(data, size, 1, f) != 1) || fclose(f))
		abort();
}

static void on_error(const char *msg, void *arg)
{
	(void)msg;
	(void)arg;
}

static void on_loss(const struct rut_ctf_loss *loss, void *arg)
{
	(void)loss;
	(void)arg;
}

/* Prints everything; returns a hash of it. */
static uint64_t print(struct rut_ctf_set *set, bool general, bool ahead, bool json)
{
	struct rut_ctf_reader_opts opts = {
		.general = general, .ahead = ahead, .on_error = on_error, .on_loss = on_loss};
	struct rut_ctf_text_opts topts = {.json = json, .names = 3, .gmt = true};
	struct rut_buf out = RUT_BUF_INIT;
	const struct rut_ctf_event *ev;
	struct rut_ctf_reader *r;
	struct rut_ctf_text *text;
	uint64_t hash = 1;
	int n = 0;

	if (rut_ctf_text_new(&text, set, &topts, NULL) < 0)
		return 0;
	if (rut_ctf_reader_new(&r, set, &opts, NULL) < 0)
		abort();
	while ((ev = rut_ctf_reader_next(r)) && n++ < 2000) {
		rut_ctf_text_event(text, ev, &out);
		hash = rut_hash_u64(hash) ^ rut_hash_bytes(out.data, out.len);
		rut_buf_clear(&out);
	}
	rut_ctf_reader_free(r);
	rut_ctf_text_free(text);
	rut_buf_fini(&out);
	return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *sep = memmem(data, size, "\n----\n", 6);
	const char *path = dir;
	struct rut_ctf_set *set;
	size_t meta;
	int64_t begin, end;
	uint64_t hash;

	if (!sep)
		return 0;
	if (!dir[0]) {
		strcpy(dir, access("/dev/shm", W_OK) ? "/tmp/rutile-fuzz-XXXXXX"
						     : "/dev/shm/rutile-fuzz-XXXXXX");
		if (!mkdtemp(dir))
			abort();
		atexit(remove_dir);
	}
	meta = (size_t)(sep - (const char *)data);
	put_file("metadata", data, meta);
	put_file("s", data + meta + 6, size - meta - 6);
	if (rut_ctf_set_open(&set, &path, 1, NULL, NULL) < 0)
		return 0;
	hash = print(set, false, false, false);
	if (hash != print(set, true, false, false) || hash != print(set, false, true, false))
		abort();
	print(set, false, false, true);
	rut_ctf_set_range(set, &begin, &end);
	rut_ctf_set_free(set);
	return 0;
}
