/* SPDX-License-Identifier: MIT */
#include "probe/symbols.h"

#include <errno.h>
#include <gelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "probe/debug.h"
#include "probe/elf_file.h"

#define SYMBOLS_MAX (4u << 20)
#define NESTED_MAX  1000 /* functions that are passed to find one around them */

struct symbol {
	uint64_t address, size;
	uint64_t reach; /* the furthest end of this and all before it */
	size_t name;	/* in names */
};

struct segment {
	uint64_t offset, address, bytes;
};

struct rut_symbols {
	struct symbol *list; /* owned; by address */
	size_t count;
	struct rut_buf names;
	struct segment segments[32];
	size_t nsegments;
};

size_t rut_elf_build_id(const char *path, uint8_t ret[RUT_BUILD_ID_MAX])
{
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file e;
	struct rut_err ignored = RUT_ERR_INIT;
	GElf_Phdr ph;

	if (rut_elf_file_init(&e, path, &ignored))
		return 0;
	for (size_t i = 0; i < e.phnum; i++) {
		size_t off = 0, next, name, desc;
		GElf_Nhdr nh;
		Elf_Data *data;

		if (!gelf_getphdr(e.elf, (int)i, &ph) || ph.p_type != PT_NOTE)
			continue;
		data = elf_getdata_rawchunk(e.elf, (int64_t)ph.p_offset, ph.p_filesz, ELF_T_NHDR);
		while (data && (next = gelf_getnote(data, off, &nh, &name, &desc)) > 0) {
			const char *bytes = data->d_buf;

			off = next;
			if (nh.n_type != NT_GNU_BUILD_ID || nh.n_namesz != 4 ||
			    memcmp(bytes + name, "GNU", 4) != 0 || !nh.n_descsz ||
			    nh.n_descsz > RUT_BUILD_ID_MAX)
				continue;
			memcpy(ret, bytes + desc, nh.n_descsz);
			return nh.n_descsz;
		}
	}
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	/* Of aliases the longest function, then the first in the file. */
	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->name > y->name ? -1 : x->name < y->name;
}

static int add_symbol(struct rut_symbols *s, const GElf_Sym *sym, const char *name)
{
	if (s->count % 1024 == 0) {
		void *more = reallocarray(s->list, s->count + 1024, sizeof(*s->list));

		if (!more)
			return -ENOMEM;
		s->list = more;
	}
	s->list[s->count++] = (struct symbol){
		.address = sym->st_value, .size = sym->st_size, .name = s->names.len};
	rut_buf_add(&s->names, name, strlen(name) + 1);
	return s->names.failed ? -ENOMEM : 0;
}

static int read_table(struct rut_symbols *s, const struct rut_elf_file *e, uint32_t type)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(e->elf, scn))) {
		Elf_Data *data;
		size_t n;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type != type)
			continue;
		data = elf_getdata(scn, NULL);
		n = data && sh.sh_entsize ? data->d_size / sh.sh_entsize : 0;
		for (size_t i = 0; i < n && i < SYMBOLS_MAX; i++) {
			const char *name;
			GElf_Sym sym;

			if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF ||
			    (GELF_ST_TYPE(sym.st_info) != STT_FUNC &&
			     GELF_ST_TYPE(sym.st_info) != STT_GNU_IFUNC))
				continue;
			name = elf_strptr(e->elf, sh.sh_link, sym.st_name);
			if (name && *name && add_symbol(s, &sym, name) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

/*
 * Of a debug file only sections with contents count: it has the headers of the other file,
 * but not what they describe, and its offsets are its own.
 */
static void read_segments(struct rut_symbols *s, const struct rut_elf_file *e, bool is_debug)
{
	GElf_Phdr ph;

	for (size_t i = 0; i < e->phnum && s->nsegments < 32; i++)
		if (gelf_getphdr(e->elf, (int)i, &ph) && ph.p_type == PT_LOAD && ph.p_filesz &&
		    (!is_debug || ph.p_flags & PF_X))
			s->segments[s->nsegments++] =
				(struct segment){ph.p_offset, ph.p_vaddr, ph.p_filesz};
}

/* The names that programs link by come first: of aliases they are the better known. */
static int read_tables(struct rut_symbols *s, const struct rut_elf_file *e)
{
	int rc = read_table(s, e, SHT_DYNSYM);

	return rc ? rc : read_table(s, e, SHT_SYMTAB);
}

static void sort(struct rut_symbols *s)
{
	uint64_t reach = 0;

	if (s->count)
		qsort(s->list, s->count, sizeof(*s->list), by_address);
	for (size_t i = 0; i < s->count; i++) {
		uint64_t end = s->list[i].address + s->list[i].size;

		if (end > reach)
			reach = end;
		s->list[i].reach = reach;
	}
}

static int add_debug(struct rut_symbols *s, const char *path)
{
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file e;
	struct rut_err ignored = RUT_ERR_INIT;

	/* Without it there are the names of the file itself. */
	if (rut_elf_file_init(&e, path, &ignored))
		return 0;
	return read_tables(s, &e);
}

int rut_symbols_open(struct rut_symbols **ret, const char *root, const char *path)
{
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file e;
	struct rut_err ignored = RUT_ERR_INIT;
	struct rut_symbols *s;
	char debug[PATH_MAX];
	int rc = rut_elf_file_init(&e, path, &ignored);

	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	read_segments(s, &e, false);
	rc = read_tables(s, &e);
	if (!rc && !rut_debug_find(root, path, debug, sizeof(debug)))
		rc = add_debug(s, debug);
	if (rc) {
		rut_symbols_free(s);
		return rc;
	}
	sort(s);
	*ret = s;
	return 0;
}

int rut_symbols_open_id(struct rut_symbols **ret, const char *root, const uint8_t *id,
			size_t id_len)
{
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file e = {.fd = -1};
	struct rut_err ignored = RUT_ERR_INIT;
	struct rut_symbols *s;
	char path[PATH_MAX];
	int rc = rut_debug_find_id(root, id, id_len, path, sizeof(path));

	if (!rc)
		rc = rut_elf_file_init(&e, path, &ignored);
	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	read_segments(s, &e, true);
	rc = s->nsegments ? read_tables(s, &e) : -ENOENT;
	if (rc) {
		rut_symbols_free(s);
		return rc;
	}
	sort(s);
	*ret = s;
	return 0;
}

void rut_symbols_free(struct rut_symbols *s)
{
	if (!s)
		return;
	free(s->list);
	rut_buf_fini(&s->names);
	free(s);
}

static const char *name_of(const struct rut_symbols *s, size_t i, uint64_t address,
			   uint64_t *ret_distance)
{
	*ret_distance = address - s->list[i].address;
	return s->names.data + s->list[i].name;
}

const char *rut_symbols_find(const struct rut_symbols *s, uint64_t offset, uint64_t *ret_distance)
{
	size_t low = 0, high = s->count, i;
	uint64_t address = 0;
	bool found = false;

	for (i = 0; i < s->nsegments && !found; i++) {
		const struct segment *g = &s->segments[i];

		found = offset >= g->offset && offset - g->offset < g->bytes;
		address = found ? offset - g->offset + g->address : 0;
	}
	if (!found)
		return NULL;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->list[mid].address <= address)
			low = mid + 1;
		else
			high = mid;
	}
	/* Assembly has functions without a size: they reach to the next one. */
	if (low && !s->list[low - 1].size)
		return name_of(s, low - 1, address, ret_distance);
	/* A function may lie inside another. */
	for (i = low; i && low - i < NESTED_MAX && s->list[i - 1].reach > address; i--)
		if (address - s->list[i - 1].address < s->list[i - 1].size)
			return name_of(s, i - 1, address, ret_distance);
	return NULL;
}
