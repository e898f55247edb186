/* SPDX-License-Identifier: MIT */
/*
 * inject_tool PID FILE [COUNT]: injects FILE and prints how it went, one line each:
 * "tid stops pause_us total_us place". For the tests of src/ruby/inject.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "ruby/inject.h"

int main(int argc, char **argv)
{
	_cleanup_buf_ struct rut_buf image = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;
	int count = argc > 3 ? atoi(argv[3]) : 1;

	if (argc < 3)
		return 2;
	if (rut_buf_read_file(&image, argv[2], 64 << 20) < 0) {
		fprintf(stderr, "cannot read '%s'\n", argv[2]);
		return 2;
	}
	for (int i = 0; i < count; i++) {
		struct rut_inject_report r;

		if (rut_inject_reported(atoi(argv[1]), image.data, image.len, &r, &err) < 0) {
			fprintf(stderr, "%s\n", err.msg);
			return 1;
		}
		printf("%d %u %.0f %.0f %s\n", r.tid, r.stops, (double)r.pause_ns / 1e3,
		       (double)r.total_ns / 1e3, r.place);
		fflush(stdout);
	}
	return 0;
}
