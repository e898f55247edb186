/* SPDX-License-Identifier: MIT */
/*
 * Scripts: what compiles is disassembled, nothing is loaded. Most inputs that the fuzzer makes of
 * the corpus do not parse; what parses goes through types, intermediate code, registers and
 * emission.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "script/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const params[] = {"1", "text"};
	struct rut_script_opts opts = {
		.name = "stdin", .params = params, .nparams = 2, .unsafe = size & 1};
	struct rut_script_program *p = NULL;
	struct rut_err err = RUT_ERR_INIT;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	rut_script_compile(&p, text, size, &opts, &err);
	rut_script_free(p);
	free(text);
	return 0;
}
