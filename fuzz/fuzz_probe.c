/* SPDX-License-Identifier: MIT */
/* What comes from binaries, from tracefs and from the command line of the recorder. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/arg.h"
#include "probe/binary.h"
#include "probe/demangle.h"
#include "probe/symbols.h"
#include "session/dynamic.h"
#include "session/filter.h"
#include "session/tracefs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_text(const char *text)
{
	static struct rut_tracefs_format format;
	static struct rut_filter filter;
	struct rut_probe_arg args[RUT_PROBE_ARGS];
	struct rut_arg_spec specs[RUT_PROBE_ARGS];
	struct rut_selection sel = {0};
	struct rut_filter_names names = {0};
	char word[64];

	free(rut_demangle(text));
	rut_arg_parse(text, args, NULL);
	rut_arg_specs_parse(text, specs, NULL);
	rut_tracefs_parse(text, &format, NULL);
	for (const char *p = text; (p = rut_dynamic_next_word(p, word, sizeof(word)));)
		rut_selection_add(&sel, word, NULL);
	sel.events[RUT_EV_SCHED_SWITCH] = true;
	sel.events[RUT_EV_SCHED_EXEC] = true;
	sel.syscalls[257] = RUT_SYSCALL_ENTRY | RUT_SYSCALL_EXIT;
	rut_filter_compile(&filter, text, &sel, RUT_CTX_PID | RUT_CTX_PROCNAME, &names, NULL);
	rut_filter_fini(&filter);
}

static void as_binary(const uint8_t *data, size_t size)
{
	struct rut_usdt_site *sites = NULL;
	struct rut_function *functions = NULL;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct rut_symbols *syms = NULL;
	uint8_t id[RUT_BUILD_ID_MAX];
	uint64_t offset, distance;
	char path[64];
	size_t n;

	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (write(fd, data, size) == (ssize_t)size) {
		rut_elf_usdt(path, "*", "*", &sites, &n, NULL);
		free(sites);
		n = 0;
		rut_elf_functions(path, "*", &functions, &n, NULL);
		free(functions);
		rut_elf_build_id(path, id);
		if (!rut_symbols_open(&syms, "", path))
			for (offset = 0; offset < size; offset += 1 + size / 64)
				rut_symbols_find(syms, offset, &distance);
		rut_symbols_free(syms);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size > 4 && !memcmp(data, "\177ELF", 4)) {
		as_binary(data, size);
		return 0;
	}
	text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	as_text(text);
	free(text);
	return 0;
}
