/* SPDX-License-Identifier: MIT */
#include "probe/binary.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "probe/debug.h"
#include "probe/elf_file.h"

void rut_elf_file_fini(struct rut_elf_file *e)
{
	if (e->elf)
		elf_end(e->elf);
	rut_closep(&e->fd);
}

int rut_elf_file_init(struct rut_elf_file *e, const char *path, struct rut_err *err)
{
	*e = (struct rut_elf_file){.fd = rut_file_open_regular(path)};
	if (e->fd < 0 && e->fd != -EINVAL)
		return rut_err_errno(err, -e->fd, "cannot open '%s'", path);
	if (e->fd >= 0 && elf_version(EV_CURRENT) != EV_NONE)
		e->elf = elf_begin(e->fd, ELF_C_READ, NULL);
	if (!e->elf || elf_kind(e->elf) != ELF_K_ELF || gelf_getclass(e->elf) != ELFCLASS64 ||
	    elf_getphdrnum(e->elf, &e->phnum) < 0)
		return rut_err_set(err, ENOEXEC, "'%s' is not a 64-bit ELF file", path);
	return 0;
}

/* Virtual address -> offset in the file, by the segments that are loaded. */
static bool to_offset(const struct rut_elf_file *e, uint64_t vaddr, uint64_t *ret)
{
	GElf_Phdr ph;

	for (size_t i = 0; i < e->phnum; i++) {
		if (!gelf_getphdr(e->elf, (int)i, &ph) || ph.p_type != PT_LOAD ||
		    vaddr < ph.p_vaddr || vaddr - ph.p_vaddr >= ph.p_memsz)
			continue;
		*ret = vaddr - ph.p_vaddr + ph.p_offset;
		return true;
	}
	return false;
}

Elf_Scn *rut_elf_file_section(const struct rut_elf_file *e, const char *name, GElf_Shdr *ret)
{
	size_t strndx;
	Elf_Scn *scn = NULL;

	if (elf_getshdrstrndx(e->elf, &strndx) < 0)
		return NULL;
	while ((scn = elf_nextscn(e->elf, scn))) {
		const char *s;

		if (!gelf_getshdr(scn, ret))
			continue;
		s = elf_strptr(e->elf, strndx, ret->sh_name);
		if (s && !strcmp(s, name))
			return scn;
	}
	return NULL;
}

/* The descriptor of one note: three addresses, then three strings. */
static bool parse_note(const struct rut_elf_file *e, const char *desc, size_t size,
		       uint64_t base_now, struct rut_usdt_site *ret)
{
	const char *end = desc + size, *p = desc + 24;
	uint64_t addr[3];
	const char *s[3];

	if (size < 27)
		return false;
	memcpy(addr, desc, sizeof(addr));
	for (int i = 0; i < 3; i++) {
		const char *nul = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;

		if (!nul)
			return false;
		s[i] = p;
		p = nul + 1;
	}
	if (strlen(s[0]) >= sizeof(ret->provider) || strlen(s[1]) >= sizeof(ret->name) ||
	    strlen(s[2]) >= sizeof(ret->args))
		return false;
	*ret = (struct rut_usdt_site){0};
	snprintf(ret->provider, sizeof(ret->provider), "%s", s[0]);
	snprintf(ret->name, sizeof(ret->name), "%s", s[1]);
	snprintf(ret->args, sizeof(ret->args), "%s", s[2]);
	/* Prelink moves a file; the section .stapsdt.base says by how much. */
	if (base_now && addr[1]) {
		addr[0] += base_now - addr[1];
		if (addr[2])
			addr[2] += base_now - addr[1];
	}
	ret->address = addr[0];
	if (!to_offset(e, addr[0], &ret->offset))
		return false;
	return !addr[2] || to_offset(e, addr[2], &ret->semaphore);
}

static int add_site(struct rut_usdt_site **sites, size_t *count, const struct rut_usdt_site *site)
{
	struct rut_usdt_site *more;

	if (*count % 64 == 0) {
		more = reallocarray(*sites, *count + 64, sizeof(*more));
		if (!more)
			return -ENOMEM;
		*sites = more;
	}
	(*sites)[(*count)++] = *site;
	return 0;
}

static int collect(const struct rut_elf_file *e, const char *provider, const char *name,
		   struct rut_usdt_site **sites, size_t *count)
{
	size_t off = 0, next, name_off, desc_off;
	uint64_t base = 0;
	Elf_Data *data;
	GElf_Nhdr nhdr;
	GElf_Shdr sh;
	Elf_Scn *scn;

	if (rut_elf_file_section(e, ".stapsdt.base", &sh))
		base = sh.sh_addr;
	scn = rut_elf_file_section(e, ".note.stapsdt", &sh);
	data = scn && sh.sh_type == SHT_NOTE ? elf_getdata(scn, NULL) : NULL;
	if (!data)
		return 0;
	while ((next = gelf_getnote(data, off, &nhdr, &name_off, &desc_off)) > 0) {
		const char *bytes = data->d_buf;
		struct rut_usdt_site site;

		off = next;
		if (nhdr.n_type != 3 || nhdr.n_namesz != 8 ||
		    memcmp(bytes + name_off, "stapsdt", 8) != 0 ||
		    !parse_note(e, bytes + desc_off, nhdr.n_descsz, base, &site))
			continue;
		if (fnmatch(provider, site.provider, 0) || fnmatch(name, site.name, 0))
			continue;
		if (add_site(sites, count, &site) < 0)
			return -ENOMEM;
	}
	return 0;
}

int rut_elf_usdt(const char *path, const char *provider, const char *name,
		 struct rut_usdt_site **ret, size_t *ret_count, struct rut_err *err)
{
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file e;
	_cleanup_free_ struct rut_usdt_site *sites = NULL;
	size_t count = 0;
	int rc = rut_elf_file_init(&e, path, err);

	if (!rc && collect(&e, provider, name, &sites, &count) < 0)
		rc = rut_err_set(err, ENOMEM, "out of memory");
	if (rc)
		return rc;
	*ret = RUT_TAKE(sites);
	*ret_count = count;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct rut_function *x = a, *y = b;
	int rc = strcmp(x->name, y->name);

	return rc ? rc : (x->offset > y->offset) - (x->offset < y->offset);
}

/* The symbols of a table; offsets are those of `e`, which may be another file than the table's. */
static int functions_in(const struct rut_elf_file *e, const struct rut_elf_file *from, Elf_Scn *scn,
			const GElf_Shdr *sh, const char *pattern, struct rut_function **list,
			size_t *count)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;
	GElf_Sym sym;

	for (size_t i = 0; data && i < n && i < INT32_MAX; i++) {
		struct rut_function f = {0};
		const char *s;

		if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF ||
		    GELF_ST_TYPE(sym.st_info) != STT_FUNC)
			continue;
		s = elf_strptr(from->elf, sh->sh_link, sym.st_name);
		if (!s || strlen(s) >= sizeof(f.name) || fnmatch(pattern, s, 0) != 0 ||
		    !to_offset(e, sym.st_value, &f.offset))
			continue;
		snprintf(f.name, sizeof(f.name), "%s", s);
		f.address = sym.st_value;
		f.size = sym.st_size;
		if (*count % 64 == 0) {
			void *more = reallocarray(*list, *count + 64, sizeof(**list));

			if (!more)
				return -ENOMEM;
			*list = more;
		}
		(*list)[(*count)++] = f;
	}
	return 0;
}

static int functions_of(const struct rut_elf_file *e, const struct rut_elf_file *from,
			const char *pattern, struct rut_function **list, size_t *count)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	int rc = 0;

	while (!rc && (scn = elf_nextscn(from->elf, scn)))
		if (gelf_getshdr(scn, &sh) &&
		    (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM))
			rc = functions_in(e, from, scn, &sh, pattern, list, count);
	return rc;
}

/* The file with the debug information of a stripped one, if there is one. */
static bool open_debug(const char *path, struct rut_elf_file *ret)
{
	struct rut_err ignored = RUT_ERR_INIT;
	char root[64], debug[PATH_MAX];

	*ret = (struct rut_elf_file){.fd = -1};
	rut_debug_root(path, root, sizeof(root));
	return !rut_debug_find(root, path, debug, sizeof(debug)) &&
	       !rut_elf_file_init(ret, debug, &ignored);
}

int rut_elf_functions(const char *path, const char *pattern, struct rut_function **ret,
		      size_t *ret_count, struct rut_err *err)
{
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file e;
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file debug = {.fd = -1};
	_cleanup_free_ struct rut_function *list = NULL;
	size_t count = 0, kept = 0;
	int rc = rut_elf_file_init(&e, path, err);

	if (rc)
		return rc;
	rc = functions_of(&e, &e, pattern, &list, &count);
	if (!rc && open_debug(path, &debug))
		rc = functions_of(&e, &debug, pattern, &list, &count);
	if (rc)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (count)
		qsort(list, count, sizeof(*list), by_name);
	/* Several tables have the same. */
	for (size_t i = 0; i < count; i++)
		if (!i || by_name(&list[i - 1], &list[i]))
			list[kept++] = list[i];
	*ret = RUT_TAKE(list);
	*ret_count = kept;
	return 0;
}

static bool symbol_in(const struct rut_elf_file *e, Elf_Scn *scn, const GElf_Shdr *sh,
		      const char *symbol, uint64_t *ret)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;
	GElf_Sym sym;

	for (size_t i = 0; data && i < n && i < INT32_MAX; i++) {
		const char *s;

		if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF)
			continue;
		s = elf_strptr(e->elf, sh->sh_link, sym.st_name);
		if (!s || strcmp(s, symbol) != 0)
			continue;
		*ret = sym.st_value;
		return true;
	}
	return false;
}

static bool symbol_of(const struct rut_elf_file *e, const char *symbol, uint64_t *ret)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	while ((scn = elf_nextscn(e->elf, scn)))
		if (gelf_getshdr(scn, &sh) &&
		    (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM) &&
		    symbol_in(e, scn, &sh, symbol, ret))
			return true;
	return false;
}

int rut_elf_address(const char *path, const char *symbol, uint64_t *ret_address,
		    struct rut_err *err)
{
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file e;
	_cleanup_(rut_elf_file_fini)
	struct rut_elf_file debug = {.fd = -1};
	int rc = rut_elf_file_init(&e, path, err);

	if (rc)
		return rc;
	if (symbol_of(&e, symbol, ret_address) ||
	    (open_debug(path, &debug) && symbol_of(&debug, symbol, ret_address)))
		return 0;
	return rut_err_set(err, ENOENT, "'%s' has no symbol '%s'", path, symbol);
}

static bool try_path(char *ret, size_t size, const char *dir, size_t dir_len, const char *name)
{
	int n = snprintf(ret, size, "%.*s/%s", (int)dir_len, dir, name);

	return n > 0 && (size_t)n < size && !access(ret, R_OK);
}

/* Walks a list of directories separated by colons. */
static bool search(char *ret, size_t size, const char *dirs, const char *name)
{
	while (dirs && *dirs) {
		size_t len = strcspn(dirs, ":");

		if (try_path(ret, size, dirs, len, name))
			return true;
		dirs += len + (dirs[len] == ':');
	}
	return false;
}

int rut_elf_find(const char *binary, int pid, char *ret, size_t size, struct rut_err *err)
{
	static const char libs[] = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:"
				   "/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:"
				   "/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/lib";
	char root[64] = "";
	int n;

	if (pid > 0)
		snprintf(root, sizeof(root), "/proc/%d/root", pid);
	if (strchr(binary, '/')) {
		n = snprintf(ret, size, "%s%s", root, binary);
		if (n > 0 && (size_t)n < size && !access(ret, R_OK))
			return 0;
		return rut_err_errno(err, errno, "cannot open '%s%s'", root, binary);
	}
	if (search(ret, size, getenv("PATH"), binary) || search(ret, size, libs, binary))
		return 0;
	return rut_err_set(err, ENOENT, "there is no program or library '%s': give its path",
			   binary);
}
