/* SPDX-License-Identifier: MIT */
/* Metadata of any kind: TSDL or JSON, plain or in packets. */
#include <stddef.h>
#include <stdint.h>

#include "ctf/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rut_err err = RUT_ERR_INIT;
	struct rut_meta m;

	rut_meta_init(&m);
	rut_meta_parse(&m, (const char *)data, size, "fuzz", &err);
	rut_meta_fini(&m);
	return 0;
}
