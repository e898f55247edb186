/* SPDX-License-Identifier: MIT */
#include "trigger/cause.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "ring/ring.h"
#include "ring/tsdl.h"

static void describe(struct rut_buf *b, const uint8_t uuid[16])
{
	rut_buf_puts(b, "/* CTF 1.8 */\n\n" RUT_TSDL_INTEGERS "\n");
	rut_tsdl_trace(b, uuid);
	rut_buf_puts(b, "env {\n\tdomain = \"ust\";\n\ttracer_name = \"rutile\";\n};\n\n");
	rut_buf_printf(
		b,
		"clock {\n\tname = \"monotonic\";\n\tfreq = 1000000000;\n\tabsolute = TRUE;\n"
		"\toffset = %lld;\n};\n\n",
		(long long)rut_clock_offset_ns());
	rut_buf_puts(b, RUT_TSDL_PACKETS("_pid", "0") "};\n\n");
	rut_buf_puts(b, "event {\n\tname = \"rutile_trigger\";\n\tid = 0;\n\tstream_id = 0;\n"
			"\tfields := struct {\n\t\tstring _id;\n\t\tstring _name;\n"
			"\t\tstring _when;\n\t\tstring _cause;\n\t};\n};\n");
}

static void write_record(struct rut_buf *b, const struct rut_trigger_cause *c,
			 const uint8_t uuid[16])
{
	const char *strings[] = {c->id, c->name, c->when, c->what};
	uint64_t header = RUT_RECORD_HEADER(0, c->ns);
	struct rut_packet p = {.magic = RUT_CTF_PACKET_MAGIC,
			       .timestamp_begin = c->ns,
			       .timestamp_end = c->ns,
			       .stream_id = 0};

	memcpy(p.uuid, uuid, sizeof(p.uuid));
	p.content_size = sizeof(p) + sizeof(header);
	for (unsigned i = 0; i < 4; i++)
		p.content_size += strlen(strings[i]) + 1;
	p.content_size *= 8;
	p.packet_size = p.content_size;
	rut_buf_add(b, &p, sizeof(p));
	rut_buf_add(b, &header, sizeof(header));
	for (unsigned i = 0; i < 4; i++)
		rut_buf_add(b, strings[i], strlen(strings[i]) + 1);
}

static int write_file(const char *path, const struct rut_buf *b)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

	if (b->failed)
		return -ENOMEM;
	return fd < 0 ? -errno : rut_file_write(fd, b->data, b->len);
}

int rut_trigger_cause_write(const struct rut_trigger_cause *c, const char *dir, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf metadata = RUT_BUF_INIT, stream = RUT_BUF_INIT;
	char path[PATH_MAX], file[PATH_MAX + 16];
	uint8_t uuid[16] = {0};
	int rc;

	if (getrandom(uuid, sizeof(uuid), 0) != sizeof(uuid))
		return rut_err_errno(err, errno, "no random numbers");
	describe(&metadata, uuid);
	write_record(&stream, c, uuid);
	snprintf(path, sizeof(path), "%s/rutile_trigger", dir);
	rc = mkdir(path, 0750) < 0 ? -errno : 0;
	snprintf(file, sizeof(file), "%s/metadata", path);
	if (!rc)
		rc = write_file(file, &metadata);
	snprintf(file, sizeof(file), "%s/stream", path);
	if (!rc)
		rc = write_file(file, &stream);
	return rc ? rut_err_errno(err, -rc, "cannot write '%s'", path) : 0;
}
