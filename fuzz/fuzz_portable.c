/* SPDX-License-Identifier: MIT */
/*
 * Compiled scripts, without the header whose digest the fuzzer would not find: what is read is
 * shown, each action with a record of zeros and of ones, and each map as an empty table.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "script/output.h"
#include "script/portable.h"
#include "script/rows.h"
#include "script/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const struct rut_script_program *p, struct rut_script_out *out, int byte)
{
	struct rut_err err = RUT_ERR_INIT;

	for (size_t i = 0; i < p->nactions; i++) {
		const struct rut_script_action *a = &p->actions[i];
		uint32_t bytes = a->args ? a->args->size : 0;
		char *record;

		/* Those read maps of the kernel, or files. */
		if (a->kind == RUT_ACTION_PRINT_MAP || a->kind == RUT_ACTION_CLEAR ||
		    a->kind == RUT_ACTION_ZERO || a->kind == RUT_ACTION_CAT ||
		    a->kind == RUT_ACTION_SYSTEM || bytes > 1 << 16)
			continue;
		record = malloc(bytes + 1);
		if (!record)
			return;
		memset(record, byte, bytes);
		rut_script_out_event(out, a, p->maps, p->nmaps, record, bytes, &err);
		free(record);
	}
	for (size_t i = 0; i < p->nmaps; i++) {
		struct rut_script_rows rows;

		rut_script_rows_init(&rows, &p->maps[i]);
		rut_script_out_rows(out, &p->maps[i], &rows, 0, 1);
		rut_script_rows_fini(&rows);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *nowhere;
	struct rut_script_program *p;
	struct rut_script_out *out = NULL;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	if (!nowhere || rut_portable_decode(&p, "x.rbc", data, size))
		return 0;
	for (int json = 0; json < 2; json++) {
		const struct rut_script_out_config config = {
			.out = nowhere, .err = nowhere, .json = json, .source = p->src.name};

		if (rut_script_out_new(&out, &config))
			break;
		show(p, out, 0);
		show(p, out, 0xff);
		rut_script_out_free(out);
	}
	rut_script_free(p);
	return 0;
}
