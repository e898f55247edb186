/* SPDX-License-Identifier: MIT */
/*
 * The ELF object of a provider.
 *
 * Tracers find USDT probes by reading the .note.stapsdt section of a file that a process has
 * mapped: for each probe the address of an instruction (its site), of a counter that the kernel
 * raises while somebody traces the probe (its semaphore), provider, name, and where the arguments
 * are at that instruction. So the object has
 *
 *	RX segment   headers, .note.gnu.build-id, .stapsdt.base, .text: the sites
 *	RW segment   .probes: the gates, of which the low half is the semaphore
 *	not mapped   .note.stapsdt, .symtab, .strtab, .shstrtab
 *
 * A site is a function of its own: a nop, then a return. It is called with the arguments of the
 * probe by the C calling convention, so they are in registers and, beyond those, on the stack just
 * above the return address, where every tracer can describe and read them.
 *
 * On x86-64 the nop has five bytes (0f 1f 44 00 00): since Linux 6.18 the kernel replaces exactly
 * that instruction by a call, which costs half of a trap. Sites are 16 bytes apart so that no nop
 * straddles a cache line or a page.
 *
 * Addresses are file offsets, so the object needs no relocation, and the loader is two mmap()s.
 */
#include "usdt/object.h"

#include <elf.h>
#include <errno.h>
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

struct elf {
	enum rut_usdt_arch arch;
	const char *provider;
	const struct rut_usdt_desc *probes;
	size_t n;
	struct rut_buf *out;
	struct rut_usdt_layout at;
	size_t build_id, base;
	Elf64_Shdr sh[SEC_COUNT];
};

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

static void pad_to(struct rut_buf *out, size_t offset)
{
	static const char zeros[64];

	while (out->len < offset && !out->failed) {
		size_t more = offset - out->len;

		rut_buf_add(out, zeros, more < sizeof(zeros) ? more : sizeof(zeros));
	}
}

static void lay_out(struct elf *e)
{
	size_t page = rut_usdt_page_bytes(e->arch);
	struct rut_usdt_layout *at = &e->at;

	e->build_id = sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Phdr);
	e->base = e->build_id + sizeof(struct build_id);
	at->text = round_up(e->base + 1, 64);
	at->rx_len = round_up(at->text + e->n * RUT_USDT_SITE_BYTES, page);
	at->gates = at->rx_len;
	at->rw_len = round_up(e->n * RUT_USDT_GATE_BYTES, page);
	at->size = at->rx_len + at->rw_len;
}

static void begin_section(struct elf *e, unsigned sec, uint32_t type, uint64_t flags, size_t align)
{
	Elf64_Shdr *sh = &e->sh[sec];

	pad_to(e->out, round_up(e->out->len, align));
	sh->sh_type = type;
	sh->sh_flags = flags;
	sh->sh_offset = e->out->len;
	sh->sh_addr = flags & SHF_ALLOC ? e->out->len : 0;
	sh->sh_addralign = align;
}

static void end_section(struct elf *e, unsigned sec)
{
	e->sh[sec].sh_size = e->out->len - e->sh[sec].sh_offset;
}

static void add_mapped_sections(struct elf *e)
{
	struct build_id id = {
		.name_len = 4, .desc_len = 16, .type = NT_GNU_BUILD_ID, .name = "GNU"};

	begin_section(e, SEC_BUILD_ID, SHT_NOTE, SHF_ALLOC, 4);
	rut_buf_add(e->out, &id, sizeof(id));
	end_section(e, SEC_BUILD_ID);
	begin_section(e, SEC_BASE, SHT_PROGBITS, SHF_ALLOC, 1);
	rut_buf_add(e->out, "", 1);
	end_section(e, SEC_BASE);
	begin_section(e, SEC_TEXT, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 64);
	for (size_t i = 0; i < e->n; i++)
		rut_buf_add(e->out, e->arch == RUT_USDT_X86_64 ? x86_site : a64_site,
			    RUT_USDT_SITE_BYTES);
	end_section(e, SEC_TEXT);
	pad_to(e->out, e->at.gates);
	begin_section(e, SEC_PROBES, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 4);
	pad_to(e->out, e->at.gates + e->n * RUT_USDT_GATE_BYTES);
	end_section(e, SEC_PROBES);
	/* The whole last page belongs to the gates: the file must reach as far as the mapping. */
	pad_to(e->out, e->at.size);
}

static int add_notes(struct elf *e)
{
	begin_section(e, SEC_NOTES, SHT_NOTE, 0, 4);
	for (size_t i = 0; i < e->n; i++) {
		const struct rut_usdt_desc *d = &e->probes[i];
		size_t at = e->out->len, desc;
		struct note_head head = {
			.name_len = 8,
			.type = 3,
			.name = "stapsdt",
			.site = e->at.text + i * RUT_USDT_SITE_BYTES,
			.base = e->base,
			.semaphore = e->at.gates + i * RUT_USDT_GATE_BYTES,
		};
		int rc;

		rut_buf_add(e->out, &head, sizeof(head));
		rut_buf_add(e->out, e->provider, strlen(e->provider) + 1);
		rut_buf_add(e->out, d->name, strlen(d->name) + 1);
		rc = rut_usdt_object_args(e->arch, d->types, d->n_types, e->out);
		if (rc)
			return rc;
		rut_buf_add(e->out, "", 1);
		if (e->out->failed)
			return -ENOMEM;
		desc = e->out->len - at - offsetof(struct note_head, site);
		head.desc_len = (uint32_t)desc;
		memcpy(e->out->data + at, &head, sizeof(head));
		pad_to(e->out, round_up(e->out->len, 4));
	}
	end_section(e, SEC_NOTES);
	return 0;
}

/* Two symbols a probe, "PROVIDER_NAME" and "PROVIDER_NAME_semaphore": profilers show the first. */
static void add_symbols(struct elf *e)
{
	Elf64_Sym sym = {0};
	uint32_t name = 1;

	begin_section(e, SEC_SYMTAB, SHT_SYMTAB, 0, 8);
	rut_buf_add(e->out, &sym, sizeof(sym));
	for (size_t i = 0; i < e->n; i++) {
		uint32_t len = (uint32_t)(strlen(e->provider) + strlen(e->probes[i].name) + 2);

		sym = (Elf64_Sym){
			.st_name = name,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = SEC_TEXT,
			.st_value = e->at.text + i * RUT_USDT_SITE_BYTES,
			.st_size = RUT_USDT_SITE_BYTES,
		};
		rut_buf_add(e->out, &sym, sizeof(sym));
		sym = (Elf64_Sym){
			.st_name = name + len,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
			.st_shndx = SEC_PROBES,
			.st_value = e->at.gates + i * RUT_USDT_GATE_BYTES,
			.st_size = 2,
		};
		rut_buf_add(e->out, &sym, sizeof(sym));
		name += 2 * len + (uint32_t)strlen("_semaphore");
	}
	end_section(e, SEC_SYMTAB);
	e->sh[SEC_SYMTAB].sh_link = SEC_STRTAB;
	e->sh[SEC_SYMTAB].sh_info = 1; /* first global */
	e->sh[SEC_SYMTAB].sh_entsize = sizeof(Elf64_Sym);

	begin_section(e, SEC_STRTAB, SHT_STRTAB, 0, 1);
	rut_buf_add(e->out, "", 1);
	for (size_t i = 0; i < e->n; i++) {
		rut_buf_printf(e->out, "%s_%s", e->provider, e->probes[i].name);
		rut_buf_add(e->out, "", 1);
		rut_buf_printf(e->out, "%s_%s_semaphore", e->provider, e->probes[i].name);
		rut_buf_add(e->out, "", 1);
	}
	end_section(e, SEC_STRTAB);
}

static void add_section_names(struct elf *e)
{
	uint32_t name = 0;

	begin_section(e, SEC_SHSTRTAB, SHT_STRTAB, 0, 1);
	for (unsigned i = 0; i < SEC_COUNT; i++) {
		e->sh[i].sh_name = name;
		rut_buf_add(e->out, sec_names[i], strlen(sec_names[i]) + 1);
		name += (uint32_t)strlen(sec_names[i]) + 1;
	}
	end_section(e, SEC_SHSTRTAB);
}

/* Headers are written last, when all offsets are known, over the room left for them. */
static void put_headers(struct elf *e, size_t shoff)
{
	size_t page = rut_usdt_page_bytes(e->arch);
	Elf64_Ehdr eh = {
		.e_type = ET_DYN,
		.e_machine = e->arch == RUT_USDT_X86_64 ? EM_X86_64 : EM_AARCH64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_shoff = shoff,
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
		 .p_filesz = e->at.text + e->n * RUT_USDT_SITE_BYTES,
		 .p_align = page},
		{.p_type = PT_LOAD,
		 .p_flags = PF_R | PF_W,
		 .p_offset = e->at.gates,
		 .p_vaddr = e->at.gates,
		 .p_paddr = e->at.gates,
		 .p_filesz = e->n * RUT_USDT_GATE_BYTES,
		 .p_align = page},
		{.p_type = PT_NOTE,
		 .p_flags = PF_R,
		 .p_offset = e->build_id,
		 .p_vaddr = e->build_id,
		 .p_paddr = e->build_id,
		 .p_filesz = sizeof(struct build_id),
		 .p_align = 4},
	};

	memcpy(eh.e_ident, ELFMAG, SELFMAG);
	eh.e_ident[EI_CLASS] = ELFCLASS64;
	eh.e_ident[EI_DATA] = ELFDATA2LSB;
	eh.e_ident[EI_VERSION] = EV_CURRENT;
	for (unsigned i = 0; i < 3; i++)
		ph[i].p_memsz = ph[i].p_filesz;
	memcpy(e->out->data, &eh, sizeof(eh));
	memcpy(e->out->data + sizeof(eh), ph, sizeof(ph));
}

/* The build id is a hash of the object, so that perf's cache tells two providers apart. */
static void put_build_id(struct elf *e)
{
	uint64_t hash[2] = {rut_hash_bytes(e->out->data, e->out->len)};

	hash[1] = rut_hash_u64(hash[0] ^ e->out->len);
	memcpy(e->out->data + e->build_id + offsetof(struct build_id, hash), hash, sizeof(hash));
}

int rut_usdt_object_build(enum rut_usdt_arch arch, const char *provider,
			  const struct rut_usdt_desc *probes, size_t n, struct rut_buf *out,
			  struct rut_usdt_layout *ret_layout)
{
	struct elf e = {.arch = arch, .provider = provider, .probes = probes, .n = n, .out = out};
	size_t shoff;
	int rc;

	if (!n || out->len)
		return -EINVAL;
	lay_out(&e);
	pad_to(out, e.build_id);
	add_mapped_sections(&e);
	rc = add_notes(&e);
	if (rc)
		return rc;
	add_symbols(&e);
	add_section_names(&e);
	pad_to(out, round_up(out->len, 8));
	shoff = out->len;
	rut_buf_add(out, e.sh, sizeof(e.sh));
	if (out->failed)
		return -ENOMEM;
	put_headers(&e, shoff);
	put_build_id(&e);
	*ret_layout = e.at;
	return 0;
}
