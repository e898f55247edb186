/* SPDX-License-Identifier: MIT */
/* `rutile probes`: what can be recorded here, in the words that -e understands. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "cli/cmd.h"
#include "probe/binary.h"
#include "session/events.h"
#include "session/kernel.h"
#include "session/tracefs.h"

static const struct rut_opt options[] = {
	{0},
};

static void print_fields(const struct rut_event *e)
{
	printf("(");
	for (size_t i = 0; i < e->nfields; i++)
		if (e->fields[i].kind != RUT_FK_LEN8)
			printf("%s%s", i ? ", " : "", e->fields[i].name);
	printf(")\n");
}

static int list_events(const char *pattern)
{
	struct rut_strtab tps = {0};
	struct rut_syscall_event call;
	struct rut_event e;
	int n = 0;

	/* Without BTF nothing can be recorded, but the names are still of use. */
	if (rut_kernel_tracepoints(&tps, NULL) < 0)
		fprintf(stderr, "rutile probes: this kernel has no BTF: nothing can be recorded\n");
	for (uint32_t id = 0; id < RUT_EV_SD_START; id++) {
		rut_event_static(&e, id);
		if ((fnmatch(pattern, e.name, 0) && strcmp(pattern, e.group) != 0) ||
		    rut_strtab_find(&tps, e.tracepoint, strlen(e.tracepoint)) < 0)
			continue;
		printf("%s", e.name);
		print_fields(&e);
		n++;
	}
	for (uint32_t nr = 0; nr < 2 * RUT_SYSCALLS_MAX; nr++) {
		if (!rut_event_syscall(&call, nr / 2, nr & 1) ||
		    (fnmatch(pattern, call.event.name, 0) && strcmp(pattern, "syscall") != 0))
			continue;
		printf("%s", call.event.name);
		print_fields(&call.event);
		n++;
	}
	rut_strtab_fini(&tps);
	return n;
}

static int list_tracepoints(const char *category, const char *pattern, struct rut_err *err)
{
	struct rut_strtab names = {0};
	int rc = rut_tracefs_find(category, pattern, &names, err);

	for (size_t i = 0; i < names.count; i++) {
		struct rut_tracefs_format f;
		struct rut_event e = {0};

		if (rut_tracefs_read(category, names.strs[i].data, &f, NULL) < 0)
			continue;
		memcpy(e.fields, f.fields, sizeof(e.fields));
		e.nfields = f.nfields;
		printf("%s:%s", category, names.strs[i].data);
		print_fields(&e);
	}
	rut_strtab_fini(&names);
	return rc;
}

static int list_binary(const char *binary, struct rut_err *err)
{
	_cleanup_free_ struct rut_usdt_site *sites = NULL;
	char path[512];
	size_t n = 0;
	int rc = rut_elf_find(binary, 0, path, sizeof(path), err);

	if (!rc)
		rc = rut_elf_usdt(path, "*", "*", &sites, &n, err);
	for (size_t i = 0; i < n; i++)
		printf("usdt:%s:%s:%s  %s\n", path, sites[i].provider, sites[i].name,
		       sites[i].args);
	if (!rc && !n)
		rc = rut_err_set(err, ENOENT, "'%s' has no static probes", path);
	return rc;
}

static int list(const char *what, struct rut_err *err)
{
	char category[128];
	const char *colon = strchr(what, ':');

	if (strchr(what, '/') || (!colon && !access(what, R_OK)))
		return list_binary(what, err);
	if (!strncmp(what, "syscall:", 8)) {
		snprintf(category, sizeof(category), "syscall_*_%.100s", what + 8);
		what = category;
	} else if (colon) {
		snprintf(category, sizeof(category), "%.*s", (int)(colon - what), what);
		return list_tracepoints(category, colon + 1, err);
	}
	if (!list_events(what))
		return rut_err_set(err, ENOENT, "no event is called '%s'", what);
	return 0;
}

static int run(const struct rut_cmd *cmd, int argc, char **argv)
{
	_cleanup_free_ const char **words = NULL;
	struct rut_err err = RUT_ERR_INIT;
	size_t n;
	int rc = rut_cli_args_words(cmd, argc, argv, &words, &n);

	if (rc)
		return rc == RUT_ARGS_HELP ? RUT_EXIT_OK : rc;
	for (size_t i = 0; i < n; i++)
		if (list(words[i], &err) < 0)
			return rut_cli_fail(cmd, &err);
	if (!n)
		list_events("*");
	return RUT_EXIT_OK;
}

const struct rut_cmd cmd_probes = {
	.name = "probes",
	.group = "Record",
	.summary = "list what can be recorded, with its fields",
	.usage = "[PATTERN | CATEGORY:PATTERN | BINARY]...",
	.options = options,
	.run = run,
};
