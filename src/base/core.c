/* SPDX-License-Identifier: MIT */
#include "base/core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Only cores of processes have NT_PRPSINFO; dumps of a kernel do not. */
static bool read_notes(struct rut_core *c, const unsigned char *p, size_t len)
{
	while (len >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		size_t name, desc;

		memcpy(&n, p, sizeof(n));
		name = ((size_t)n.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)n.n_descsz + 3) & ~(size_t)3;
		if (len - sizeof(n) < name || len - sizeof(n) - name < desc)
			return false;
		if (n.n_type == NT_PRPSINFO && n.n_namesz == 5 &&
		    n.n_descsz >= sizeof(prpsinfo_t) && !memcmp(p + sizeof(n), "CORE", 5)) {
			prpsinfo_t info;

			memcpy(&info, p + sizeof(n) + name, sizeof(info));
			c->pid = info.pr_pid;
			memcpy(c->name, info.pr_fname, sizeof(info.pr_fname));
			return true;
		}
		p += sizeof(n) + name + desc;
		len -= sizeof(n) + name + desc;
	}
	return false;
}

static int by_address(const void *a, const void *b)
{
	const struct rut_core_segment *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/*
 * Memory has one content: of segments that overlap, which only a damaged file has, the later one
 * loses what an earlier one has already. The search by address depends on that.
 */
static void cut_overlaps(struct rut_core *c)
{
	uint64_t end = 0;
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++) {
		struct rut_core_segment s = c->segments[i];
		uint64_t skip = s.address < end ? end - s.address : 0;

		if (skip >= s.bytes)
			continue;
		s.address += skip;
		s.data += skip;
		s.bytes -= skip;
		end = s.address + s.bytes;
		c->segments[n++] = s;
	}
	c->count = n;
}

/* The number of program headers; with very many it stands in the first section header. */
static uint64_t header_count(const struct rut_core *c, const Elf64_Ehdr *e)
{
	Elf64_Shdr s;

	if (e->e_phnum != PN_XNUM)
		return e->e_phnum;
	if (e->e_shoff > c->map_bytes || c->map_bytes - e->e_shoff < sizeof(s))
		return 0;
	memcpy(&s, c->map + e->e_shoff, sizeof(s));
	return s.sh_info;
}

static int read_headers(struct rut_core *c, struct rut_err *err)
{
	bool process = false;
	Elf64_Ehdr e;
	uint64_t n;

	if (c->map_bytes < sizeof(e))
		return rut_err_set(err, ENOEXEC, "it is too short");
	memcpy(&e, c->map, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_ident[EI_DATA] != ELFDATA2LSB || e.e_type != ET_CORE ||
	    e.e_phentsize != sizeof(Elf64_Phdr))
		return rut_err_set(err, ENOEXEC, "it is not a 64-bit ELF core");
	n = header_count(c, &e);
	if (e.e_phoff > c->map_bytes || (c->map_bytes - e.e_phoff) / sizeof(Elf64_Phdr) < n)
		return rut_err_set(err, ENOEXEC, "it is cut off in its headers");
	c->segments = calloc(n + 1, sizeof(*c->segments));
	if (!c->segments)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Phdr p;

		memcpy(&p, c->map + e.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_offset > c->map_bytes)
			continue;
		if (p.p_filesz > c->map_bytes - p.p_offset)
			p.p_filesz = c->map_bytes - p.p_offset;
		if (p.p_type == PT_NOTE)
			process |= read_notes(c, c->map + p.p_offset, p.p_filesz);
		if (p.p_type == PT_LOAD && p.p_filesz && p.p_vaddr + p.p_filesz > p.p_vaddr)
			c->segments[c->count++] = (struct rut_core_segment){
				p.p_vaddr, c->map + p.p_offset, p.p_filesz};
	}
	qsort(c->segments, c->count, sizeof(*c->segments), by_address);
	cut_overlaps(c);
	return process ? 0 : rut_err_set(err, ENOEXEC, "it is not a core of a process");
}

int rut_core_open(struct rut_core **ret, const char *path, struct rut_err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct rut_core *c;
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return rut_err_errno(err, errno, "cannot open '%s'", path);
	if (!S_ISREG(st.st_mode) || !st.st_size)
		return rut_err_set(err, ENOEXEC, "'%s' is not a core of a process", path);
	c = calloc(1, sizeof(*c));
	if (!c)
		return rut_err_set(err, ENOMEM, "out of memory");
	c->map_bytes = (size_t)st.st_size;
	c->map = mmap(NULL, c->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (c->map == MAP_FAILED) {
		c->map = NULL;
		rc = rut_err_errno(err, errno, "cannot map '%s'", path);
	} else {
		rc = read_headers(c, err);
		if (rc)
			rut_err_prefix(err, "'%s'", path);
	}
	if (rc) {
		rut_core_free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

/* The number of the first segment that ends behind the address. */
static size_t find(const struct rut_core *c, uint64_t address)
{
	size_t low = 0, high = c->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->segments[mid].address + c->segments[mid].bytes > address)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

const unsigned char *rut_core_at(const struct rut_core *c, uint64_t address, size_t len)
{
	const struct rut_core_segment *s = &c->segments[find(c, address)];

	if (s == c->segments + c->count || s->address > address ||
	    s->bytes - (address - s->address) < len)
		return NULL;
	return s->data + (address - s->address);
}

void rut_core_copy(const struct rut_core *c, uint64_t address, void *to, size_t len)
{
	for (size_t i = find(c, address); i < c->count && len; i++) {
		const struct rut_core_segment *s = &c->segments[i];
		size_t skip = s->address < address ? address - s->address : 0, n = s->bytes - skip;
		uint64_t at = s->address + skip - address;

		if (s->address + skip - address >= len)
			break;
		memcpy((char *)to + at, s->data + skip, n < len - at ? n : len - at);
	}
}

void rut_core_free(struct rut_core *c)
{
	if (!c)
		return;
	if (c->map)
		munmap(c->map, c->map_bytes);
	free(c->segments);
	free(c);
}
