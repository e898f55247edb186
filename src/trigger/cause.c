/* SPDX-License-Identifier: MIT */
#include "trigger/cause.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "ring/ring.h"
#include "ring/tsdl.h"
#include "trigger/text.h"

#define CLOCK_MAX_NS 31536000000000000ll

static void describe(struct rut_buf *b, const struct rut_trigger_cause *c, const uint8_t uuid[16])
{
	rut_buf_puts(b, "/* CTF 1.8 */\n\n" RUT_TSDL_INTEGERS "\n");
	rut_tsdl_trace(b, uuid);
	rut_buf_puts(b, "env {\n\tdomain = \"ust\";\n\ttracer_name = \"rutile\";\n};\n\n");
	rut_buf_printf(
		b,
		"clock {\n\tname = \"monotonic\";\n\tfreq = 1000000000;\n\tabsolute = TRUE;\n"
		"\toffset = %lld;\n};\n\n",
		(long long)(rut_clock_offset_ns() - c->clock_offset_ns));
	rut_buf_puts(b, RUT_TSDL_PACKETS("_pid", "0") "};\n\n");
	rut_buf_puts(b, "event {\n\tname = \"rutile_trigger\";\n\tid = 0;\n\tstream_id = 0;\n"
			"\tfields := struct {\n\t\tstring _id;\n\t\tstring _name;\n"
			"\t\tstring _when;\n\t\tstring _cause;\n\t\tstring _host;\n"
			"\t\tint64_t _clock_offset_ns;\n\t\tint64_t _clock_error_ns;\n\t};\n};\n");
}

static void write_record(struct rut_buf *b, const struct rut_trigger_cause *c,
			 const uint8_t uuid[16])
{
	const char *strings[] = {c->id, c->name, c->when, c->what, c->host ? c->host : ""};
	const int64_t clocks[] = {c->clock_offset_ns, c->clock_error_ns};
	const size_t n = sizeof(strings) / sizeof(*strings);
	uint64_t header = RUT_RECORD_HEADER(0, c->ns);
	struct rut_packet p = {.magic = RUT_CTF_PACKET_MAGIC,
			       .timestamp_begin = c->ns,
			       .timestamp_end = c->ns,
			       .stream_id = 0};

	memcpy(p.uuid, uuid, sizeof(p.uuid));
	p.content_size = sizeof(p) + sizeof(header) + sizeof(clocks);
	for (size_t i = 0; i < n; i++)
		p.content_size += strlen(strings[i]) + 1;
	p.content_size *= 8;
	p.packet_size = p.content_size;
	rut_buf_add(b, &p, sizeof(p));
	rut_buf_add(b, &header, sizeof(header));
	for (size_t i = 0; i < n; i++)
		rut_buf_add(b, strings[i], strlen(strings[i]) + 1);
	rut_buf_add(b, clocks, sizeof(clocks));
}

int rut_trigger_cause_parse(struct rut_trigger_cause *ret, const char *s, char *text, size_t size,
			    struct rut_err *err)
{
	char *part[6], *rest = text, *end;
	int64_t n[3];

	*ret = (struct rut_trigger_cause){.when = "fleet", .what = ""};
	if (rut_trigger_copy(text, size, s, strlen(s), err))
		return -EINVAL;
	for (int i = 0; i < 6; i++)
		part[i] = strsep(&rest, ",");
	if (!part[5] || rest || !*part[0])
		return rut_err_set(err, EINVAL, "'%s' is not ID,NAME,HOST,OFFSET,ERROR,TIME", s);
	for (int i = 0; i < 3; i++) {
		errno = 0;
		n[i] = strtoll(part[3 + i], &end, 10);
		if (errno || end == part[3 + i] || *end)
			return rut_err_set(err, EINVAL, "invalid number '%s'", part[3 + i]);
	}
	ret->id = part[0];
	ret->name = part[1];
	ret->host = part[2];
	/* A clock that is wrong by a year is no reason to compute with overflows. */
	if (n[0] > CLOCK_MAX_NS || n[0] < -CLOCK_MAX_NS || n[2] < 0 || n[2] > INT64_MAX / 2)
		return rut_err_set(err, EINVAL, "'%s' is not a time", s);
	ret->clock_offset_ns = n[0];
	ret->clock_error_ns = n[1];
	ret->ns = (uint64_t)(n[2] + n[0] - rut_clock_offset_ns());
	return 0;
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
	describe(&metadata, c, uuid);
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
