/* SPDX-License-Identifier: MIT */
#include "got.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct relocs {
	const Elf64_Rela *first;
	size_t count;
};

struct library {
	const struct link_map *map;
	const Elf64_Sym *symbols;
	const char *strings;
	struct relocs plt, other;
	bool usable;
};

/* glibc has added the library's address to these values, unless the section cannot be written. */
static const void *address_of(const struct link_map *map, Elf64_Addr value)
{
	return (const void *)(value < map->l_addr ? map->l_addr + value : value);
}

static void read_dynamic(struct library *lib)
{
	bool rela = false;

	for (const Elf64_Dyn *d = lib->map->l_ld; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:
			lib->symbols = address_of(lib->map, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			lib->strings = address_of(lib->map, d->d_un.d_ptr);
			break;
		case DT_JMPREL:
			lib->plt.first = address_of(lib->map, d->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			lib->plt.count = d->d_un.d_val / sizeof(Elf64_Rela);
			break;
		case DT_RELA:
			lib->other.first = address_of(lib->map, d->d_un.d_ptr);
			break;
		case DT_RELASZ:
			lib->other.count = d->d_un.d_val / sizeof(Elf64_Rela);
			break;
		case DT_RELAENT:
			rela = d->d_un.d_val == sizeof(Elf64_Rela);
			break;
		default:
			break;
		}
	}
	lib->usable = rela && lib->symbols && lib->strings;
}

static uintptr_t *find_slot(const struct library *lib, struct relocs relocs, uint32_t type,
			    const char *name)
{
	for (size_t i = 0; relocs.first && i < relocs.count; i++) {
		const Elf64_Rela *r = &relocs.first[i];
		const Elf64_Sym *symbol = &lib->symbols[ELF64_R_SYM(r->r_info)];

		if (ELF64_R_TYPE(r->r_info) == type &&
		    strcmp(lib->strings + symbol->st_name, name) == 0)
			return (uintptr_t *)(lib->map->l_addr + r->r_offset);
	}
	return NULL;
}

struct relro {
	uintptr_t library, slot;
	bool inside;
};

static int check_relro(struct dl_phdr_info *info, size_t size, void *data)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct relro *relro = data;

	(void)size;
	if (info->dlpi_addr != relro->library)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *p = &info->dlpi_phdr[i];
		uintptr_t begin = info->dlpi_addr + p->p_vaddr;
		/* glibc protects whole pages: what is on the last one with others stays writable.
		 */
		uintptr_t end = (begin + p->p_memsz) & ~(page_bytes - 1);

		if (p->p_type == PT_GNU_RELRO && relro->slot >= begin && relro->slot < end)
			relro->inside = true;
	}
	return 1;
}

struct rut_got_slot rut_agent_got_find(const void *function, const char *name)
{
	struct library lib = {0};
	struct relro relro;
	Dl_info info;
	void *map;

	if (!dladdr1(function, &info, &map, RTLD_DL_LINKMAP) || !map)
		return (struct rut_got_slot){0};
	lib.map = map;
	read_dynamic(&lib);
	if (!lib.usable)
		return (struct rut_got_slot){0};
	relro = (struct relro){.library = lib.map->l_addr};
	relro.slot = (uintptr_t)find_slot(&lib, lib.plt, R_X86_64_JUMP_SLOT, name);
	if (!relro.slot)
		relro.slot = (uintptr_t)find_slot(&lib, lib.other, R_X86_64_GLOB_DAT, name);
	/* Before the first call a slot that is bound lazily has another address: left alone. */
	if (!relro.slot || *(const uintptr_t *)relro.slot != (uintptr_t)function)
		return (struct rut_got_slot){0};
	dl_iterate_phdr(check_relro, &relro);
	return (struct rut_got_slot){(uintptr_t *)relro.slot, relro.inside};
}

bool rut_agent_got_set(struct rut_got_slot slot, uintptr_t function)
{
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)((uintptr_t)slot.at & ~(page_bytes - 1));

	if (slot.read_only && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) < 0)
		return false;
	__atomic_store_n(slot.at, function, __ATOMIC_RELEASE);
	if (slot.read_only)
		mprotect(page, page_bytes, PROT_READ);
	return true;
}
