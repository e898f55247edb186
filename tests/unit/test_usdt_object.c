/* SPDX-License-Identifier: MIT */
/* librutile-usdt: the object as libelf reads it. */
#include "usdt_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "usdt/arena.h"
#include "usdt/object.h"
#include "usdt/remote.h"

/* The n-th note of .note.stapsdt, and the addresses in it. */
struct note {
	uint64_t site, base, semaphore;
	const char *provider, *name, *args;
};

static bool find_note(Elf *elf, unsigned n, struct note *ret)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	size_t names;

	elf_getshdrstrndx(elf, &names);
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Nhdr nh;
		Elf_Data *data;
		size_t at = 0, name, desc;

		gelf_getshdr(scn, &sh);
		if (strcmp(elf_strptr(elf, names, sh.sh_name), ".note.stapsdt") != 0)
			continue;
		data = elf_getdata(scn, NULL);
		while ((at = gelf_getnote(data, at, &nh, &name, &desc)) > 0) {
			const char *d = (const char *)data->d_buf + desc;

			assert_int_equal(nh.n_type, 3);
			assert_string_equal((const char *)data->d_buf + name, "stapsdt");
			if (n--)
				continue;
			memcpy(ret, d, 24);
			ret->provider = d + 24;
			ret->name = ret->provider + strlen(ret->provider) + 1;
			ret->args = ret->name + strlen(ret->name) + 1;
			assert_ptr_equal(ret->args + strlen(ret->args) + 1, d + nh.n_descsz);
			return true;
		}
	}
	return false;
}

static bool section_address(Elf *elf, const char *name, uint64_t *ret, uint64_t *ret_size)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	size_t names;

	elf_getshdrstrndx(elf, &names);
	while ((scn = elf_nextscn(elf, scn))) {
		gelf_getshdr(scn, &sh);
		if (!strcmp(elf_strptr(elf, names, sh.sh_name), name)) {
			*ret = sh.sh_addr;
			*ret_size = sh.sh_size;
			return true;
		}
	}
	return false;
}

struct file {
	struct rut_usdt_image image;
	void *mem;
};

static void new_file(struct file *f, enum rut_usdt_arch arch, uint32_t sites)
{
	struct rut_usdt_layout at;

	rut_usdt_layout_of(arch, sites, &at);
	f->mem = mmap(NULL, at.file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(f->mem, MAP_FAILED);
	assert_int_equal(rut_usdt_image_init(&f->image, arch, sites, f->mem, 1), 0);
}

static void free_file(struct file *f)
{
	munmap(f->mem, f->image.at.file_bytes);
	rut_usdt_image_fini(&f->image);
}

static Elf *open_file(const struct file *f)
{
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory(f->mem, f->image.at.file_bytes);
	assert_non_null(elf);
	return elf;
}

static void check_object(enum rut_usdt_arch arch, int machine, const char *args, const void *insn,
			 size_t insn_bytes)
{
	const struct rut_usdt_desc none = {"none", NULL, 0}, all = {"all", all_types, 12};
	uint64_t addr, size, base;
	struct file f;
	struct note note;
	GElf_Ehdr eh;
	GElf_Phdr ph;
	Elf *elf;

	new_file(&f, arch, 16);
	assert_int_equal(rut_usdt_image_add(&f.image, 0, "shop", &none), 0);
	assert_int_equal(rut_usdt_image_add(&f.image, 3, "shop", &all), 0);
	assert_int_equal(rut_usdt_image_add(&f.image, 16, "shop", &all), -ENOSPC);
	elf = open_file(&f);
	assert_non_null(gelf_getehdr(elf, &eh));
	assert_int_equal(eh.e_machine, machine);
	assert_int_equal(eh.e_type, ET_DYN);
	assert_true(section_address(elf, ".stapsdt.base", &base, &size));
	assert_true(section_address(elf, ".probes", &addr, &size));
	assert_int_equal(addr % rut_usdt_page_bytes(arch), 0);
	assert_non_null(gelf_getphdr(elf, 1, &ph));
	assert_int_equal(ph.p_flags, PF_R | PF_W);
	assert_true(find_note(elf, 0, &note));
	assert_string_equal(note.name, "none");
	assert_string_equal(note.args, "");
	assert_true(find_note(elf, 1, &note));
	assert_string_equal(note.provider, "shop");
	assert_string_equal(note.name, "all");
	assert_string_equal(note.args, args);
	assert_int_equal(note.base, base);
	assert_true(note.semaphore >= addr && note.semaphore + 2 <= addr + size);
	assert_memory_equal((char *)f.mem + note.site, insn, insn_bytes);
	assert_false(find_note(elf, 2, &note));
	/* Everything that is mapped is in the file: no SIGBUS at the gates. */
	assert_true(f.image.at.file_bytes >= f.image.at.size);
	elf_end(elf);
	free_file(&f);
}

static void test_object_x86_64(void **state)
{
	static const uint8_t nop_ret[] = {0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3};

	(void)state;
	check_object(RUT_USDT_X86_64, EM_X86_64,
		     "-8@%rdi 8@%rsi -4@%edx 2@%cx -1@%r8b 8@%r9 8@8(%rsp) 1@16(%rsp) "
		     "4@24(%rsp) -2@32(%rsp) 1@40(%rsp) -8@48(%rsp)",
		     nop_ret, sizeof(nop_ret));
}

static void test_object_aarch64(void **state)
{
	static const uint32_t nop_ret[] = {0xd503201f, 0xd65f03c0};

	(void)state;
	check_object(RUT_USDT_AARCH64, EM_AARCH64,
		     "-8@x0 8@x1 -4@x2 2@x3 -1@x4 8@x5 8@x6 1@x7 "
		     "4@[sp, 0] -2@[sp, 8] 1@[sp, 16] -8@[sp, 24]",
		     nop_ret, sizeof(nop_ret));
}

static bool is_odd(uint32_t site, void *arg)
{
	(void)arg;
	return site & 1;
}

/* Many probes need several pages of sites and gates: every address must be inside its section. */
static void test_object_large(void **state)
{
	char name[8], want[8];
	struct note note;
	struct file f;
	Elf *elf;

	(void)state;
	new_file(&f, RUT_USDT_X86_64, 2000);
	for (unsigned i = 0; i < 2000; i++) {
		const struct rut_usdt_desc d = {name, all_types, i % 13};

		snprintf(name, sizeof(name), "p%u", i);
		assert_int_equal(rut_usdt_image_add(&f.image, i, "big", &d), 0);
	}
	elf = open_file(&f);
	for (unsigned i = 0; i < 2000; i += 333) {
		snprintf(want, sizeof(want), "p%u", i);
		assert_true(find_note(elf, i, &note));
		assert_string_equal(note.name, want);
		assert_int_equal(note.site, f.image.at.text + 16 * i);
		assert_int_equal(note.semaphore, f.image.at.gates + 4 * i);
		assert_true(note.site % 4096 <= 4096 - 5);
	}
	elf_end(elf);
	rut_usdt_image_remove(&f.image, is_odd, NULL);
	elf = open_file(&f);
	assert_true(find_note(elf, 999, &note));
	assert_string_equal(note.name, "p1998");
	assert_false(find_note(elf, 1000, &note));
	elf_end(elf);
	free_file(&f);
}

/* What a process may cut off while we have it mapped, or what is no memory at all, is not sealed.
 */
static void test_sealed(void **state)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int open_fd = memfd_create("a", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(file >= 0 && open_fd >= 0);
	assert_false(rut_usdt_is_sealed(file));
	assert_false(rut_usdt_is_sealed(open_fd));
	assert_int_equal(fcntl(open_fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_true(rut_usdt_is_sealed(open_fd));
	close(file);
	close(open_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_object_x86_64),
		cmocka_unit_test(test_object_aarch64),
		cmocka_unit_test(test_object_large),
		cmocka_unit_test(test_sealed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
