/* SPDX-License-Identifier: MIT */
/*
 * What is read from another process, which may hold anything: its ELF tables in memory (the data
 * is its memory from address 0), its list of mappings, its command line, its seccomp filter.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ruby/proc.h"
#include "ruby/role.h"
#include "ruby/seccomp.h"
#include "ruby/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void symbols(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct rut_target t = RUT_TARGET_INIT;
	struct rut_mapping module = {.read = true, .inode = 1, .path = "/x"};
	struct rut_target_symbol sym;

	if (fd < 0)
		fd = memfd_create("fuzz", 0);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		return;
	t.mem_fd = fd;
	rut_target_find_symbol(&t, &module, "dlopen", &sym);
	rut_target_find_symbol(&t, &module, "ruby_version", &sym);
}

static void mappings(const uint8_t *data, size_t size)
{
	struct rut_target t = RUT_TARGET_INIT;
	const struct rut_mapping *libc;
	char *text = malloc(size + 1);

	if (!text)
		return;
	memcpy(text, data, size);
	text[size] = 0;
	if (rut_target_parse_maps(&t, text) == 0) {
		rut_target_libc(&t, &libc);
		for (size_t i = 0; i < t.map_count; i++) {
			rut_target_mapping_at(&t, t.maps[i].start);
			rut_target_module_of(&t, &t.maps[i]);
			rut_mapping_basename(&t.maps[i]);
		}
	}
	rut_target_fini(&t);
}

static void command_line(const uint8_t *data, size_t size)
{
	struct rut_ruby_proc p = {0};
	char *text = malloc(size + 1);
	struct rut_role_input in = {
		.user = "nobody", .cmdline_bytes = size, .cwd = "/", .comm = "x"};

	if (!text)
		return;
	memcpy(text, data, size);
	text[size] = 0;
	in.cmdline = text;
	if (rut_role_find(&in, &p) == 0) {
		rut_role_name_matches(p.name, "job");
		rut_role_name_matches("puma: worker [shop]", text);
	}
	rut_ruby_proc_fini(&p);
	free(text);
}

static void seccomp(const uint8_t *data, size_t size)
{
	struct seccomp_data call = {.nr = 319};
	size_t count = size / sizeof(struct sock_filter);
	struct sock_filter *prog = calloc(count + 1, sizeof(*prog));

	if (!prog)
		return;
	memcpy(prog, data, count * sizeof(*prog));
	rut_seccomp_run(prog, count, &call);
	free(prog);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0] % 4) {
	case 1:
		mappings(data + 1, size - 1);
		break;
	case 2:
		command_line(data + 1, size - 1);
		break;
	case 3:
		seccomp(data + 1, size - 1);
		break;
	default:
		/* An ELF file may stand for itself. */
		symbols(data, size);
		symbols(data + 1, size - 1);
		break;
	}
	return 0;
}
