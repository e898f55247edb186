/* SPDX-License-Identifier: MIT */
/*
 * `rutile recover` on damaged dumps. The first byte chooses: 0 the input is a core file; else it is
 * a list of changes (offset 24 bits, length 8 bits, bytes) to memory in which there is a session,
 * a ring of a Ruby process and one of static tracepoints. That is read as the memory of a process
 * (1), through libkdumpfile as the dump of a machine (2), or as the core file of a process, in
 * several segments (3). In the files the headers are changed too.
 */
#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/abi.h"
#include "base/err.h"
#include "ruby/core.h"
#include "session/meta.h"
#include "session/recover.h"
#include "usdt/ctl.h"
#include "usdt/recover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * Description, its control page and two sub-buffers; a Ruby ring of the same size, a table; the
 * table of stacks; the first page of a ring of static tracepoints and of their slots.
 */
enum {
	META_BYTES = RUT_META_PAGES_OFFSET + RUT_PAGE,
	CTL = META_BYTES,
	RING = CTL + RUT_PAGE,
	RUBY_CTL = RING + 2 * RUT_PAGE,
	RUBY_RING = RUBY_CTL + RUT_PAGE,
	TABLE = RUBY_RING + 2 * RUT_PAGE,
	TABLE_BYTES = 3 * RUT_PAGE,
	STACKS = TABLE + TABLE_BYTES,
	STACKS_PAGES = (sizeof(struct rut_stack_set) + RUT_PAGE - 1) / RUT_PAGE,
	USDT_CTL = STACKS + STACKS_PAGES * RUT_PAGE,
	USDT_RING = USDT_CTL + RUT_PAGE,
	USDT_PAGE = USDT_RING + RUT_PAGE,
	TOTAL = USDT_PAGE + RUT_USDT_CTL_HEADER_BYTES + RUT_PAGE,
	BASE_PAGE = 16, /* of the machine: the first page frame */
};

/* Of agent/event.h, whose names are also those of the kernel's events. */
enum { RUBY_STREAM = 1, RUBY_CALL = 1 };
struct call {
	uint64_t header;
	uint32_t row, tid, fiber, depth;
} __attribute__((packed));

static unsigned char *whole, *memory;
static char dir[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type;
	return ftw->level ? remove(path) : 0;
}

static void remove_dir(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	rmdir(dir);
}

static void fill_ring(unsigned char *ctl_at, unsigned char *ring, uint32_t stream, bool ruby)
{
	struct rut_ring_ctl *c = (void *)ctl_at;

	*c = (struct rut_ring_ctl){.magic = RUT_RING_MAGIC,
				   .version = RUT_RING_VERSION,
				   .subbuf_shift = 12,
				   .subbuf_count = 2,
				   .stream_id = stream,
				   .pid = ruby ? 77 : 0,
				   .uuid = {1, 2, 3},
				   .pos = RUT_PAGE + 88 + 24,
				   .commit = {RUT_PAGE, 88 + 24}};
	for (uint64_t i = 0; i < 2; i++) {
		struct rut_packet *p = (void *)(ring + i * RUT_PAGE);
		struct call *e = (void *)(p + 1);

		*p = (struct rut_packet){.magic = RUT_CTF_PACKET_MAGIC,
					 .uuid = {1, 2, 3},
					 .timestamp_begin = 1000 * i,
					 .content_size = (88 + 24) * 8,
					 .packet_size = RUT_PAGE * 8,
					 .packet_seq_num = i};
		*e = (struct call){.header = RUT_RECORD_HEADER(RUBY_CALL, 1000 * i + 5), .row = 0};
	}
}

static void fill_table(void)
{
	struct rut_agent_table *t = (void *)(memory + TABLE);
	struct rut_agent_row *row = (void *)(memory + TABLE + RUT_PAGE);
	uint64_t address = (uint64_t)BASE_PAGE * RUT_PAGE + TABLE;

	*t = (struct rut_agent_table){.magic = RUT_TABLE_MAGIC,
				      .abi = RUT_AGENT_ABI,
				      .size_bytes = TABLE_BYTES,
				      .row_count = 1,
				      .row_cap = 8,
				      .rows_off = RUT_PAGE,
				      .strs_off = 2 * RUT_PAGE,
				      .strs_len = 64};
	*row = (struct rut_agent_row){
		.class_name = 8, .method = 8, .path = 8, .flags = RUT_ROW_NAMED};
	memcpy(memory + TABLE + 2 * RUT_PAGE + 8, "\3\0\0\0App", 8);
	memcpy(((struct rut_ring_ctl *)(memory + RUBY_CTL))->_user, &address, sizeof(address));
}

static void fill_stacks(void)
{
	struct rut_stack_set *set = (void *)(memory + STACKS);
	const uint8_t uuid[16] = {1, 2, 3};
	uint64_t hash;

	for (uint32_t way = 0; way < 3; way++) {
		memcpy(&hash, uuid, sizeof(hash));
		set->count[way] = way + 1;
		for (uint32_t i = 0; i <= way; i++) {
			set->address[way][i] = 0xffffffff81000000 + way * 100 + i;
			hash = rut_stack_hash_step(hash, set->address[way][i]);
		}
		set->used_ns[way] = 1000;
		set->id[way] = rut_stack_hash_end(hash);
	}
}

static void fill_usdt(void)
{
	struct rut_ring_ctl *c = (void *)(memory + USDT_CTL);
	struct rut_usdt_ring_user *user = (void *)c->_user;
	struct rut_packet *p = (void *)(memory + USDT_RING);
	struct rut_usdt_ctl *page = (void *)(memory + USDT_PAGE);
	struct {
		struct call head;
		uint16_t rest;
		char text[4];
	} __attribute__((packed)) *e = (void *)(p + 1);

	*c = (struct rut_ring_ctl){.magic = RUT_RING_MAGIC,
				   .version = RUT_RING_VERSION,
				   .subbuf_shift = RUT_USDT_RING_SHIFT,
				   .subbuf_count = RUT_USDT_RING_SUBBUFS,
				   .pid = 78,
				   .uuid = {4},
				   .pos = 88 + 30,
				   .commit = {88 + 30}};
	*user = (struct rut_usdt_ring_user){.magic = RUT_USDT_RING_MAGIC, .real_ns = 1};
	*p = (struct rut_packet){
		.magic = RUT_CTF_PACKET_MAGIC, .uuid = {4}, .timestamp_begin = 1000};
	/* A thread, a CPU, 12 bytes of numbers, text. */
	*e = (__typeof__(*e)){.head.header = RUT_RECORD_HEADER(0, 1005), .text = "abc"};
	page->magic = RUT_USDT_CTL_MAGIC;
	page->slot_bytes = sizeof(struct rut_usdt_slot);
	page->n_slots = 2;
	page->pid = 78;
	for (uint32_t i = 0; i < 2; i++) {
		struct rut_usdt_slot *s = &page->slots[i];

		s->serial = i + 1;
		s->n_types = 3;
		memcpy(s->types, ((uint8_t[]){RUTILE_USDT_S64, RUTILE_USDT_U32, RUTILE_USDT_STR}),
		       3);
	}
}

static void fill_memory(void)
{
	struct rut_session_meta *m = (void *)memory;
	uint32_t *list = (void *)(memory + RUT_META_PAGES_OFFSET);

	memset(memory, 0, TOTAL);
	m->anchor = (struct rut_anchor){.magic = RUT_META_MAGIC,
					.version = RUT_META_VERSION,
					.bytes = META_BYTES,
					.uuid = {1, 2, 3},
					.npages = META_BYTES / RUT_PAGE};
	for (uint32_t i = 0; i < m->anchor.npages; i++)
		m->anchor.pfn[i] = BASE_PAGE + i;
	m->ncpus = 1;
	m->shift = 12;
	m->count = 2;
	m->npages_ctl = 1;
	m->npages_ring = 2;
	m->npages_stacks = STACKS_PAGES;
	m->nsets = 1;
	m->conf.contexts = RUT_CTX_KSTACK;
	for (uint32_t i = 0; i < 3; i++)
		list[i] = BASE_PAGE + CTL / RUT_PAGE + i;
	for (uint32_t i = 0; i < STACKS_PAGES; i++)
		list[3 + i] = BASE_PAGE + STACKS / RUT_PAGE + i;
	memcpy(m->conf.name, "fuzz", 5);
	m->text_len = 8;
	memcpy(memory + RUT_META_TEXT_OFFSET, "/* CTF *", 8);
	fill_ring(memory + CTL, memory + RING, 0, false);
	fill_ring(memory + RUBY_CTL, memory + RUBY_RING, RUBY_STREAM, true);
	fill_table();
	fill_stacks();
	fill_usdt();
}

/* `headers`: of what is before the memory, a page. */
static void change_memory(const uint8_t *data, size_t size, size_t headers)
{
	while (size > 4) {
		size_t at = (size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
		size_t len = data[3] % 64;

		/* Half of the places in the first pages of what has figures in it. */
		static const size_t starts[15] = {0,
						  sizeof(struct rut_anchor),
						  RUT_META_PAGES_OFFSET,
						  CTL,
						  RING,
						  RUBY_CTL,
						  RUBY_RING,
						  TABLE,
						  TABLE + RUT_PAGE,
						  STACKS,
						  USDT_CTL,
						  USDT_RING,
						  USDT_PAGE,
						  USDT_PAGE + RUT_USDT_CTL_HEADER_BYTES,
						  USDT_RING};
		size_t start = at >> 19 & 15;

		if (at & 1 << 23)
			at = (start < 15 ? starts[start] + headers : 0) + at % 512;
		data += 4;
		size -= 4;
		len = len < size ? len : size;
		at %= headers + TOTAL - 64;
		memcpy(memory - headers + at, data, len);
		data += len;
		size -= len;
	}
}

static int begin(const struct rut_ruby_core *ring, void *arg, struct rut_err *err)
{
	(void)ring, (void)arg, (void)err;
	return 0;
}

static void on_event(const struct rut_ruby_event *ev, void *arg)
{
	*(size_t *)arg += ev->class_name ? strlen(ev->class_name) : 1;
	if (ev->args)
		*(size_t *)arg += strlen(ev->args);
}

static void on_static(const struct rut_usdt_recovered *found, void *arg)
{
	*(size_t *)arg = 1 + found->events + 2 * found->packets - found->damaged;
}

/* Returns the number of sessions; of what is not damaged both must be found. */
static int read_core(const struct rut_core *core)
{
	size_t sum = 0;
	int rings = rut_ruby_core_read(core, begin, on_event, &sum, NULL);

	return rut_usdt_recover(core, dir, on_static, &sum, NULL) == 1 && sum == 4 &&
	       rut_recover_core(core, dir, NULL, NULL, NULL) == 1 && rings == 1;
}

static int read_file(const uint8_t *data, size_t size, bool kernel)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct rut_core *core;
	char path[64];
	int found = 0;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (kernel)
		found = rut_recover(path, dir, NULL, NULL, NULL);
	else if (!rut_core_open(&core, path, NULL)) {
		found = read_core(core);
		rut_core_free(core);
	}
	close(fd);
	return found;
}

static void set_up(void)
{
	strcpy(dir, access("/dev/shm", W_OK) ? "/tmp/rutile-fuzz-XXXXXX"
					     : "/dev/shm/rutile-fuzz-XXXXXX");
	whole = aligned_alloc(RUT_PAGE, RUT_PAGE + TOTAL);
	if (!mkdtemp(dir) || !whole)
		abort();
	atexit(remove_dir);
	memory = whole + RUT_PAGE;
}

static void add_segment(Elf64_Ehdr *e, uint64_t vaddr, size_t from, size_t to)
{
	Elf64_Phdr *p = (Elf64_Phdr *)(e + 1) + e->e_phnum++;

	*p = (Elf64_Phdr){.p_type = PT_LOAD,
			  .p_flags = PF_R,
			  .p_offset = RUT_PAGE + from,
			  .p_vaddr = vaddr + from,
			  .p_paddr = (uint64_t)BASE_PAGE * RUT_PAGE + from,
			  .p_filesz = to - from,
			  .p_memsz = to - from};
}

/* The page before the memory: headers of the file. */
static void fill_headers(bool kernel)
{
	const uint64_t base = (uint64_t)BASE_PAGE * RUT_PAGE;
	Elf64_Ehdr *e = (void *)whole;
	struct {
		Elf64_Nhdr head;
		char name[8];
		prpsinfo_t info;
	} *note = (void *)(whole + 1024);

	memset(whole, 0, RUT_PAGE);
	memcpy(e->e_ident, ELFMAG, SELFMAG);
	e->e_ident[EI_CLASS] = ELFCLASS64;
	e->e_ident[EI_DATA] = ELFDATA2LSB;
	e->e_ident[EI_VERSION] = EV_CURRENT;
	e->e_type = ET_CORE;
	e->e_machine = EM_X86_64;
	e->e_version = EV_CURRENT;
	e->e_phoff = e->e_ehsize = sizeof(*e);
	e->e_phentsize = sizeof(Elf64_Phdr);
	if (kernel) {
		add_segment(e, 0xffff888000000000ull + base, 0, TOTAL);
		return;
	}
	*note = (__typeof__(*note)){{5, sizeof(prpsinfo_t), NT_PRPSINFO}, "CORE", {.pr_pid = 77}};
	add_segment(e, base, 0, RUBY_CTL);
	add_segment(e, base, RUBY_CTL, TABLE);
	add_segment(e, base, TABLE, STACKS);
	add_segment(e, base, STACKS, TOTAL);
	((Elf64_Phdr *)(e + 1))[e->e_phnum++] =
		(Elf64_Phdr){.p_type = PT_NOTE, .p_offset = 1024, .p_filesz = sizeof(*note)};
}

static int read_changed(const uint8_t *data, size_t size)
{
	struct rut_core_segment segment = {(uint64_t)BASE_PAGE * RUT_PAGE, memory, TOTAL};
	const struct rut_core core = {.segments = &segment, .count = 1};
	bool kernel = data[0] % 4 == 2;

	fill_memory();
	if (data[0] % 4 == 1) {
		change_memory(data + 1, size - 1, 0);
		return read_core(&core);
	}
	fill_headers(kernel);
	change_memory(data + 1, size - 1, RUT_PAGE);
	return read_file(whole, RUT_PAGE + TOTAL, kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (!whole)
		set_up();
	if (data[0] % 4 == 0)
		read_file(data + 1, size - 1, false);
	else if (read_changed(data, size) != 1 && size == 1)
		abort();
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return 0;
}
