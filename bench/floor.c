/* SPDX-License-Identifier: MIT */
/*
 * Attaches programs of floor.bpf.c until its input ends.
 *
 *	floor OBJECT empty|clock [PROGRAM]...    all of the kind, or those on the tracepoints named
 */
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool wanted(const char *name, int argc, char **argv)
{
	size_t len = strlen(argv[2]);

	if (strncmp(name, argv[2], len) != 0 || name[len] != '_')
		return false;
	for (int i = 3; i < argc; i++)
		if (!strcmp(name + len + 1, argv[i]))
			return true;
	return argc == 3;
}

int main(int argc, char **argv)
{
	struct bpf_object *obj = argc > 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_program *prog;

	if (!obj)
		return 2;
	bpf_object__for_each_program(prog, obj)
		bpf_program__set_autoload(prog, wanted(bpf_program__name(prog), argc, argv));
	if (bpf_object__load(obj) < 0)
		return 1;
	bpf_object__for_each_program(prog, obj) if (bpf_program__autoload(prog) &&
						    !bpf_program__attach(prog)) return 1;
	puts("attached");
	fflush(stdout);
	return getchar() == EOF ? 0 : 1;
}
