/* SPDX-License-Identifier: MIT */
/*
 * The ELF file of a process: what the linker would have made of its probes in C.
 *
 * One file holds the probes of all providers and grows while tracers have it open. Every part has a
 * fixed offset with room for all sites; the file is sparse, so room that is not used costs nothing.
 * A probe is added by writing its code, symbols and note behind what is there, and then the new
 * sizes into the section headers: a reader sees the probe or does not, never half of it. Nothing
 * that a tracer has found ever moves.
 *
 * What is in it, and who reads it:
 *
 *	.note.gnu.build-id   perf, to recognize the file
 *	.text                one site a probe
 *	.probes              one gate a probe: 16 bits of semaphore, which tracers make the kernel
 *			     count, and 16 bits of our own
 *	.note.stapsdt        provider, name, site, semaphore, and where each argument is: libbpf,
 *			     bpftrace, bcc, perf, SystemTap, gdb
 *	.stapsdt.base	     the note's anchor; it does not move
 *	.symtab		     a name for each site and semaphore
 *
 * A site is a function of its own: a nop, then a return. It is called with the arguments of the
 * probe by the C calling convention, so they are in registers and, beyond those, on the stack just
 * above the return address, where every tracer can describe and read them.
 *
 * On x86-64 the nop has five bytes (0f 1f 44 00 00): since Linux 6.18 the kernel replaces exactly
 * that instruction by a call, which costs about half of a trap. Sites are 16 bytes apart so that no
 * nop straddles a cache line or a page.
 *
 * Addresses are file offsets, so the file needs no relocation, and the loader is two mmap()s.
 */
#include "usdt/object.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"

enum {
	SEC_NULL,
	SEC_BUILD_ID,
	SEC_BASE,
	SEC_TEXT,
	SEC_PROBES,
	SEC_NOTES,
	SEC_SYMTAB,
	SEC_STRTAB,
	SEC_SHSTRTAB,
	SEC_COUNT
};

static const char *const sec_names[SEC_COUNT] = {
	"",	     ".note.gnu.build-id", ".stapsdt.base", ".text",
	".probes",   ".note.stapsdt",	   ".symtab",	    ".strtab",
	".shstrtab",
};

struct note_head {
	uint32_t name_len, desc_len, type;
	char name[8]; /* "stapsdt" */
	uint64_t site, base, semaphore;
} __attribute__((packed));
_Static_assert(sizeof(struct note_head) == 44, "no padding before the addresses");

struct build_id {
	uint32_t name_len, desc_len, type;
	char name[4]; /* "GNU" */
	uint64_t hash[2];
};

static const uint8_t x86_site[RUT_USDT_SITE_BYTES] = {
	0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3, 0xcc, 0xcc,
	0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
};
/* nop, ret, and two words that are no instruction */
static const uint8_t a64_site[RUT_USDT_SITE_BYTES] = {
	0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

/* A site's part of the string table, which the next probe at the site uses again if it fits. */
struct rut_usdt_strings {
	uint32_t at, bytes;
};

enum { NAME_BYTES_A_SITE = 256, NOTE_BYTES_A_SITE = 384 };

size_t rut_usdt_page_bytes(enum rut_usdt_arch arch)
{
	return arch == RUT_USDT_AARCH64 ? 65536 : 4096;
}

static size_t round_up(size_t v, size_t to)
{
	return (v + to - 1) / to * to;
}

/* The size a tracer reads, negative when it is signed, as in the notes; 0: no such type. */
static int type_size(enum rutile_usdt_type type)
{
	static const signed char sizes[RUTILE_USDT_TYPES] = {
		[RUTILE_USDT_U8] = 1,	[RUTILE_USDT_S8] = -1,	[RUTILE_USDT_U16] = 2,
		[RUTILE_USDT_S16] = -2, [RUTILE_USDT_U32] = 4,	[RUTILE_USDT_S32] = -4,
		[RUTILE_USDT_U64] = 8,	[RUTILE_USDT_S64] = -8, [RUTILE_USDT_STR] = 8,
		[RUTILE_USDT_F64] = 8,	[RUTILE_USDT_BOOL] = 1,
	};

	return type > 0 && type < RUTILE_USDT_TYPES ? sizes[type] : 0;
}

/* A register of the name that fits the size: %edi, %dil; x86 only. */
static void add_x86_register(struct rut_buf *out, unsigned i, int bytes)
{
	static const char *const regs[6][4] = {
		{"dil", "di", "edi", "rdi"}, {"sil", "si", "esi", "rsi"},
		{"dl", "dx", "edx", "rdx"},  {"cl", "cx", "ecx", "rcx"},
		{"r8b", "r8w", "r8d", "r8"}, {"r9b", "r9w", "r9d", "r9"},
	};
	unsigned k = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;

	rut_buf_printf(out, "%%%s", regs[i][k]);
}

int rut_usdt_object_args(enum rut_usdt_arch arch, const enum rutile_usdt_type *types, unsigned n,
			 struct rut_buf *out)
{
	if (n > RUTILE_USDT_MAX_ARGS)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++) {
		int size = type_size(types[i]);

		if (!size)
			return -EINVAL;
		rut_buf_printf(out, "%s%d@", i ? " " : "", size);
		if (arch == RUT_USDT_X86_64 && i < 6)
			add_x86_register(out, i, size < 0 ? -size : size);
		else if (arch == RUT_USDT_X86_64)
			rut_buf_printf(out, "%u(%%rsp)", 8 * (i - 5));
		else if (i < 8)
			rut_buf_printf(out, "x%u", i);
		else
			rut_buf_printf(out, "[sp, %u]", 8 * (i - 8));
	}
	return 0;
}

void rut_usdt_layout_of(enum rut_usdt_arch arch, uint32_t sites, struct rut_usdt_layout *ret)
{
	size_t page = rut_usdt_page_bytes(arch);
	struct rut_usdt_layout at = {0};

	at.text = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr) + sizeof(struct build_id);
	at.text = round_up(at.text + 1, 64);
	at.rx_len = round_up(at.text + (size_t)sites * RUT_USDT_SITE_BYTES, page);
	at.gates = at.rx_len;
	at.rw_len = round_up((size_t)sites * RUT_USDT_GATE_BYTES, page);
	at.size = at.rx_len + at.rw_len;
	at.sections = at.size;
	at.symtab = at.sections + 4096;
	at.strtab = round_up(at.symtab + (1 + 2 * (size_t)sites) * sizeof(Elf64_Sym), 4096);
	at.strtab_cap = round_up((size_t)sites * NAME_BYTES_A_SITE + 1, 4096);
	at.notes = at.strtab + at.strtab_cap;
	at.notes_cap = round_up((size_t)sites * NOTE_BYTES_A_SITE, 4096);
	at.file_bytes = round_up(at.notes + at.notes_cap, page);
	*ret = at;
}

static Elf64_Shdr *section(const struct rut_usdt_image *img, unsigned sec)
{
	return (Elf64_Shdr *)(void *)(img->mem + img->at.sections) + sec;
}

/* Readers take what is below the size, so it is stored last. */
static void publish_size(const struct rut_usdt_image *img, unsigned sec, size_t bytes)
{
	__atomic_store_n(&section(img, sec)->sh_size, bytes, __ATOMIC_RELEASE);
}

static void set_section(const struct rut_usdt_image *img, unsigned sec, uint32_t type,
			uint64_t flags, size_t align, size_t offset, size_t bytes)
{
	Elf64_Shdr *sh = section(img, sec);

	sh->sh_type = type;
	sh->sh_flags = flags;
	sh->sh_offset = offset;
	sh->sh_addr = flags & SHF_ALLOC ? offset : 0;
	sh->sh_addralign = align;
	sh->sh_size = bytes;
}

static size_t build_id_at(void)
{
	return sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr);
}

static size_t base_at(void)
{
	return build_id_at() + sizeof(struct build_id);
}

/* The build ID changes with the content: perf keeps copies of files by it. */
static void put_build_id(struct rut_usdt_image *img)
{
	struct build_id id = {
		.name_len = 4, .desc_len = 16, .type = NT_GNU_BUILD_ID, .name = "GNU"};

	id.hash[0] = img->build[0];
	id.hash[1] = rut_hash_u64(img->build[0] ^ ++img->build[1]);
	memcpy(img->mem + build_id_at(), &id, sizeof(id));
}

static void put_sections(const struct rut_usdt_image *img)
{
	const struct rut_usdt_layout *at = &img->at;
	size_t names = at->sections + SEC_COUNT * sizeof(Elf64_Shdr), off = 0;

	set_section(img, SEC_BUILD_ID, SHT_NOTE, SHF_ALLOC, 4, build_id_at(),
		    sizeof(struct build_id));
	set_section(img, SEC_BASE, SHT_PROGBITS, SHF_ALLOC, 1, base_at(), 1);
	set_section(img, SEC_TEXT, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 64, at->text,
		    (size_t)img->sites * RUT_USDT_SITE_BYTES);
	set_section(img, SEC_PROBES, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 4, at->gates,
		    (size_t)img->sites * RUT_USDT_GATE_BYTES);
	set_section(img, SEC_NOTES, SHT_NOTE, 0, 4, at->notes, 0);
	set_section(img, SEC_SYMTAB, SHT_SYMTAB, 0, 8, at->symtab, sizeof(Elf64_Sym));
	section(img, SEC_SYMTAB)->sh_link = SEC_STRTAB;
	section(img, SEC_SYMTAB)->sh_info = 1; /* first global */
	section(img, SEC_SYMTAB)->sh_entsize = sizeof(Elf64_Sym);
	set_section(img, SEC_STRTAB, SHT_STRTAB, 0, 1, at->strtab, 1);
	for (unsigned i = 0; i < SEC_COUNT; i++) {
		size_t len = strlen(sec_names[i]) + 1;

		section(img, i)->sh_name = (uint32_t)off;
		memcpy(img->mem + names + off, sec_names[i], len);
		off += len;
	}
	set_section(img, SEC_SHSTRTAB, SHT_STRTAB, 0, 1, names, off);
}

static void put_headers(const struct rut_usdt_image *img)
{
	size_t page = rut_usdt_page_bytes(img->arch);
	const struct rut_usdt_layout *at = &img->at;
	Elf64_Ehdr eh = {
		.e_type = ET_DYN,
		.e_machine = img->arch == RUT_USDT_X86_64 ? EM_X86_64 : EM_AARCH64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = at->sections,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SEC_COUNT,
		.e_shstrndx = SEC_SHSTRTAB,
	};
	Elf64_Phdr ph[3] = {
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_X,
		 .p_filesz = at->text + (size_t)img->sites * RUT_USDT_SITE_BYTES,
		 .p_align = page},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_W,
		 .p_offset = at->gates,
		 .p_vaddr = at->gates,
		 .p_paddr = at->gates,
		 .p_filesz = (size_t)img->sites * RUT_USDT_GATE_BYTES,
		 .p_align = page},
		{.p_type = PT_NOTE,
		 .p_flags = PF_R,
		 .p_offset = build_id_at(),
		 .p_vaddr = build_id_at(),
		 .p_paddr = build_id_at(),
		 .p_filesz = sizeof(struct build_id),
		 .p_align = 4},
	};

	memcpy(eh.e_ident, ELFMAG, SELFMAG);
	eh.e_ident[EI_CLASS] = ELFCLASS64;
	eh.e_ident[EI_DATA] = ELFDATA2LSB;
	eh.e_ident[EI_VERSION] = EV_CURRENT;
	for (unsigned i = 0; i < 3; i++)
		ph[i].p_memsz = ph[i].p_filesz;
	memcpy(img->mem, &eh, sizeof(eh));
	memcpy(img->mem + sizeof(eh), ph, sizeof(ph));
}

int rut_usdt_image_init(struct rut_usdt_image *img, enum rut_usdt_arch arch, uint32_t sites,
			void *mem, uint64_t unique)
{
	*img = (struct rut_usdt_image){.arch = arch, .mem = mem, .sites = sites};
	rut_usdt_layout_of(arch, sites, &img->at);
	img->strings = calloc(sites, sizeof(*img->strings));
	if (!img->strings)
		return -ENOMEM;
	img->strtab_len = 1;
	img->n_symbols = 1;
	img->build[0] = unique;
	put_headers(img);
	put_build_id(img);
	put_sections(img);
	return 0;
}

void rut_usdt_image_fini(struct rut_usdt_image *img)
{
	free(img->strings);
	img->strings = NULL;
}

/* Code up to this site, in whole pages: a page that was executed must not change. */
static void fill_code(struct rut_usdt_image *img, uint32_t site)
{
	const uint8_t *code = img->arch == RUT_USDT_X86_64 ? x86_site : a64_site;
	size_t page = rut_usdt_page_bytes(img->arch);
	size_t end = round_up(img->at.text + (site + 1) * (size_t)RUT_USDT_SITE_BYTES, page);

	while (img->filled < img->sites) {
		size_t at = img->at.text + img->filled * (size_t)RUT_USDT_SITE_BYTES;

		if (at >= end)
			break;
		memcpy(img->mem + at, code, RUT_USDT_SITE_BYTES);
		img->filled++;
	}
}

/* Writes the site's two names; 0: there is no room, and the symbols have no names. */
static uint32_t put_names(struct rut_usdt_image *img, uint32_t site, const char *provider,
			  const char *name, uint32_t *ret_second)
{
	struct rut_usdt_strings *s = &img->strings[site];
	size_t one = strlen(provider) + strlen(name) + 2;
	size_t bytes = 2 * one + strlen("_semaphore");
	char *to;

	if (s->bytes < bytes) {
		if (img->strtab_len + bytes > img->at.strtab_cap)
			return 0;
		*s = (struct rut_usdt_strings){(uint32_t)img->strtab_len, (uint32_t)bytes};
		img->strtab_len += bytes;
	}
	to = (char *)img->mem + img->at.strtab + s->at;
	snprintf(to, one, "%s_%s", provider, name);
	snprintf(to + one, bytes - one, "%s_%s_semaphore", provider, name);
	publish_size(img, SEC_STRTAB, img->strtab_len);
	*ret_second = s->at + (uint32_t)one;
	return s->at;
}

/* Two symbols a site, "PROVIDER_NAME" and "PROVIDER_NAME_semaphore": profilers show the first. */
static void put_symbols(struct rut_usdt_image *img, uint32_t site, const char *provider,
			const char *name)
{
	Elf64_Sym *at = (Elf64_Sym *)(void *)(img->mem + img->at.symtab) + 1 + 2 * (size_t)site;
	uint32_t second = 0, first = put_names(img, site, provider, name, &second);

	if (!first)
		return;
	at[0] = (Elf64_Sym){
		.st_name = first,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = SEC_TEXT,
		.st_value = img->at.text + (size_t)site * RUT_USDT_SITE_BYTES,
		.st_size = RUT_USDT_SITE_BYTES,
	};
	at[1] = (Elf64_Sym){
		.st_name = second,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
		.st_shndx = SEC_PROBES,
		.st_value = img->at.gates + (size_t)site * RUT_USDT_GATE_BYTES,
		.st_size = 2,
	};
	if (img->n_symbols < 3 + 2 * site)
		img->n_symbols = 3 + 2 * site;
	publish_size(img, SEC_SYMTAB, img->n_symbols * sizeof(Elf64_Sym));
}

static int build_note(const struct rut_usdt_image *img, uint32_t site, const char *provider,
		      const struct rut_usdt_desc *desc, struct rut_buf *out)
{
	struct note_head head = {
		.name_len = 8,
		.type = 3,
		.name = "stapsdt",
		.site = img->at.text + (size_t)site * RUT_USDT_SITE_BYTES,
		.base = base_at(),
		.semaphore = img->at.gates + (size_t)site * RUT_USDT_GATE_BYTES,
	};
	int rc;

	rut_buf_add(out, &head, sizeof(head));
	rut_buf_add(out, provider, strlen(provider) + 1);
	rut_buf_add(out, desc->name, strlen(desc->name) + 1);
	rc = rut_usdt_object_args(img->arch, desc->types, desc->n_types, out);
	if (rc)
		return rc;
	rut_buf_add(out, "", 1);
	head.desc_len = (uint32_t)(out->len - offsetof(struct note_head, site));
	rut_buf_add(out, "\0\0", -out->len % 4);
	if (out->failed)
		return -ENOMEM;
	memcpy(out->data, &head, sizeof(head));
	return 0;
}

int rut_usdt_image_add(struct rut_usdt_image *img, uint32_t site, const char *provider,
		       const struct rut_usdt_desc *desc)
{
	_cleanup_buf_ struct rut_buf note = RUT_BUF_INIT;
	int rc;

	if (site >= img->sites)
		return -ENOSPC;
	rc = build_note(img, site, provider, desc, &note);
	if (rc)
		return rc;
	if (img->notes_len + note.len > img->at.notes_cap)
		return -ENOSPC;
	fill_code(img, site);
	put_symbols(img, site, provider, desc->name);
	memcpy(img->mem + img->at.notes + img->notes_len, note.data, note.len);
	img->notes_len += note.len;
	put_build_id(img);
	publish_size(img, SEC_NOTES, img->notes_len);
	return 0;
}

void rut_usdt_image_remove(struct rut_usdt_image *img, bool (*gone)(uint32_t site, void *arg),
			   void *arg)
{
	unsigned char *notes = img->mem + img->at.notes;
	size_t from = 0, to = 0;

	/* A tool that reads just now finds no probes rather than broken ones. */
	publish_size(img, SEC_NOTES, 0);
	while (from < img->notes_len) {
		struct note_head head;
		uint32_t site;
		size_t bytes;

		memcpy(&head, notes + from, sizeof(head));
		bytes = round_up(offsetof(struct note_head, site) + head.desc_len, 4);
		site = (uint32_t)((head.site - img->at.text) / RUT_USDT_SITE_BYTES);
		if (gone(site, arg)) {
			memset(img->mem + img->at.symtab +
				       (1 + 2 * (size_t)site) * sizeof(Elf64_Sym),
			       0, 2 * sizeof(Elf64_Sym));
		} else {
			if (to != from)
				memmove(notes + to, notes + from, bytes);
			to += bytes;
		}
		from += bytes;
	}
	img->notes_len = to;
	put_build_id(img);
	publish_size(img, SEC_NOTES, to);
}
