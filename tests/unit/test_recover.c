/* SPDX-License-Identifier: MIT */
/*
 * Stacks out of a dump: memory with one session in it is put together page by page, in an order of
 * its own, and read as the dump of a kernel and as the core of a process.
 */
#include "session/recover.h"
#include "unit.h"

#include <elf.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "session/meta.h"

#define NSETS	     2
#define STACK_PAGES  ((NSETS * sizeof(struct rut_stack_set) + RUT_PAGE - 1) / RUT_PAGE)
#define META_PAGES   (RUT_META_PAGES_OFFSET / RUT_PAGE + 1)
#define TOTAL_PAGES  (META_PAGES + 3 + STACK_PAGES)
#define FIRST_PAGE   16 /* of the machine */
#define BEGIN_NS     5000000ull
#define END_NS	     6000000ull
#define KERNEL_PLACE 0xffffffff81000000ull

static const uint8_t uuid[16] = {9, 8, 7, 6, 5, 4, 3, 2, 1};

/* What a session has in memory. */
static struct {
	union {
		struct rut_session_meta meta;
		unsigned char bytes[META_PAGES * RUT_PAGE];
	};
	union {
		struct rut_ring_ctl ctl;
		unsigned char ctl_page[RUT_PAGE];
	};
	unsigned char ring[2 * RUT_PAGE];
	union {
		struct rut_stack_set sets[NSETS];
		unsigned char stack_pages[STACK_PAGES * RUT_PAGE];
	};
} session __attribute__((aligned(RUT_PAGE)));

_Static_assert(sizeof(session) == TOTAL_PAGES * RUT_PAGE, "no gaps");

static uint64_t put_stack(uint32_t set, uint32_t way, uint32_t count, uint64_t used_ns)
{
	struct rut_stack_set *s = &session.sets[set];
	uint64_t hash;

	memcpy(&hash, uuid, sizeof(hash));
	for (uint32_t i = 0; i < count; i++) {
		s->address[way][i] = KERNEL_PLACE + 100000 * set + 1000 * way + i;
		hash = rut_stack_hash_step(hash, s->address[way][i]);
	}
	s->count[way] = count;
	s->used_ns[way] = used_ns;
	return s->id[way] = rut_stack_hash_end(hash);
}

static void fill_ring(uint64_t stack)
{
	struct rut_packet *p = (void *)session.ring;
	uint64_t record[2] = {RUT_RECORD_HEADER(0, BEGIN_NS + 1), stack};

	session.ctl = (struct rut_ring_ctl){.magic = RUT_RING_MAGIC,
					    .version = RUT_RING_VERSION,
					    .subbuf_shift = 12,
					    .subbuf_count = 2,
					    .pos = RUT_PAGE,
					    .commit = {RUT_PAGE}};
	memcpy(session.ctl.uuid, uuid, sizeof(uuid));
	*p = (struct rut_packet){.magic = RUT_CTF_PACKET_MAGIC,
				 .timestamp_begin = BEGIN_NS,
				 .timestamp_end = END_NS,
				 .content_size = (sizeof(*p) + sizeof(record)) * 8,
				 .packet_size = RUT_PAGE * 8};
	memcpy(p->uuid, uuid, sizeof(uuid));
	memcpy(p + 1, record, sizeof(record));
}

/* The page of the machine that page i of the session has: they lie in the opposite order. */
static uint32_t frame_of(size_t i)
{
	return (uint32_t)(FIRST_PAGE + TOTAL_PAGES - 1 - i);
}

static void fill_session(void)
{
	struct rut_session_meta *m = &session.meta;
	uint32_t *list = (void *)(session.bytes + RUT_META_PAGES_OFFSET);

	memset(&session, 0, sizeof(session));
	m->anchor.magic = RUT_META_MAGIC;
	m->anchor.version = RUT_META_VERSION;
	m->anchor.bytes = META_PAGES * RUT_PAGE;
	m->anchor.npages = META_PAGES;
	memcpy(m->anchor.uuid, uuid, sizeof(uuid));
	for (uint32_t i = 0; i < META_PAGES; i++)
		m->anchor.pfn[i] = frame_of(i);
	for (uint32_t i = 0; i < 3 + STACK_PAGES; i++)
		list[i] = frame_of(META_PAGES + i);
	m->ncpus = m->npages_ctl = 1;
	m->shift = 12;
	m->count = m->npages_ring = 2;
	m->nsets = NSETS;
	m->npages_stacks = STACK_PAGES;
	m->conf.contexts = RUT_CTX_KSTACK;
	strcpy(m->conf.name, "made");
	memcpy(session.bytes + RUT_META_TEXT_OFFSET, "/* CTF 1.8 */\n", 14);
	m->text_len = 14;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void on_found(const struct rut_recovered *found, void *arg)
{
	*(struct rut_recovered *)arg = *found;
}

/* As the dump of a kernel. */
static int recover_kernel(const char *dir, struct rut_recovered *found)
{
	_cleanup_close_ int fd = memfd_create("dump", MFD_CLOEXEC);
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p;
		unsigned char rest[RUT_PAGE - sizeof(Elf64_Ehdr) - sizeof(Elf64_Phdr)];
	} head = {
		.e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		      .e_type = ET_CORE,
		      .e_machine = EM_X86_64,
		      .e_version = EV_CURRENT,
		      .e_phoff = sizeof(head.e),
		      .e_ehsize = sizeof(head.e),
		      .e_phentsize = sizeof(head.p),
		      .e_phnum = 1},
		.p = {.p_type = PT_LOAD,
		      .p_flags = PF_R,
		      .p_offset = RUT_PAGE,
		      .p_vaddr = 0xffff888000000000ull + FIRST_PAGE * RUT_PAGE,
		      .p_paddr = FIRST_PAGE * RUT_PAGE,
		      .p_filesz = sizeof(session),
		      .p_memsz = sizeof(session)},
	};
	char path[64];

	assert_int_equal(write(fd, &head, sizeof(head)), sizeof(head));
	for (size_t i = 0; i < TOTAL_PAGES; i++)
		assert_int_equal(pwrite(fd, (const char *)&session + i * RUT_PAGE, RUT_PAGE,
					(off_t)(frame_of(i) - FIRST_PAGE + 1) * RUT_PAGE),
				 RUT_PAGE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return rut_recover(path, dir, on_found, found, NULL);
}

/* As the core of a process: the maps lie anywhere, and another one of the table's size is there. */
static int recover_process(const char *dir, struct rut_recovered *found)
{
	static unsigned char other[STACK_PAGES * RUT_PAGE];
	struct rut_core_segment segments[] = {
		{0x10000, other, sizeof(other)},
		{0x100000, session.bytes, sizeof(session.bytes)},
		{0x400000, session.ctl_page, sizeof(session.ctl_page)},
		{0x500000, session.ring, sizeof(session.ring)},
		{0x600000, session.stack_pages, sizeof(session.stack_pages)},
	};
	struct rut_core core = {.segments = segments, .count = 5};

	memset(other, 0x5a, sizeof(other));
	return rut_recover_core(&core, dir, on_found, found, NULL);
}

/* ... that has copied it all when it crashed. */
static int recover_copy(const char *dir, struct rut_recovered *found)
{
	static unsigned char copy[RUT_META_PAGES_OFFSET + (3 + STACK_PAGES) * RUT_PAGE];
	struct rut_core_segment segment = {0x20000, copy, sizeof(copy)};
	struct rut_core core = {.segments = &segment, .count = 1};

	memcpy(copy, session.bytes, RUT_META_PAGES_OFFSET);
	memcpy(copy + RUT_META_PAGES_OFFSET, (const char *)&session + META_PAGES * RUT_PAGE,
	       sizeof(copy) - RUT_META_PAGES_OFFSET);
	return rut_recover_core(&core, dir, on_found, found, NULL);
}

/* The events in the file beside the CPUs' are the stacks of these numbers and sizes, in order. */
static void check_stacks(const char *dir, const uint64_t *ids, const uint32_t *counts, size_t n)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const struct rut_packet *p;
	const char *at, *end;
	char path[128];

	snprintf(path, sizeof(path), "%s/made/kernel/kernel_1", dir);
	assert_int_equal(rut_buf_read_file(&b, path, 1 << 20), 0);
	p = (const void *)b.data;
	assert_true(b.len >= sizeof(*p));
	assert_int_equal(p->packet_size / 8, b.len);
	assert_int_equal(p->timestamp_begin, BEGIN_NS);
	assert_int_equal(p->timestamp_end, END_NS);
	at = b.data + sizeof(*p);
	end = b.data + p->content_size / 8;
	for (size_t i = 0; i < n; i++) {
		struct rut_ev_SD_STACK rec;
		uint64_t head, address;

		memcpy(&head, at, sizeof(head));
		assert_int_equal(head, RUT_RECORD_HEADER(RUT_EV_SD_STACK, BEGIN_NS));
		at += sizeof(head) + rut_context_size(RUT_CTX_KSTACK);
		memcpy(&rec, at, sizeof(rec));
		assert_int_equal(rec.id, ids[i]);
		assert_int_equal(rec.addresses_length, counts[i]);
		at += sizeof(rec);
		memcpy(&address, at + 8 * (counts[i] - 1), sizeof(address));
		assert_int_equal((address - KERNEL_PLACE) % 1000, counts[i] - 1);
		/* No names of the kernel that reads the dump. */
		at += 8 * counts[i];
		assert_int_equal(*at++, 0);
	}
	assert_ptr_equal(at, end);
}

static void check_all(const uint64_t *ids, const uint32_t *counts, size_t n)
{
	int (*const ways[])(const char *, struct rut_recovered *) = {recover_kernel,
								     recover_process, recover_copy};

	for (int i = 0; i < 3; i++) {
		char dir[] = "/tmp/rutile-unit-XXXXXX";
		struct rut_recovered found = {0};

		assert_non_null(mkdtemp(dir));
		assert_int_equal(ways[i](dir, &found), 1);
		assert_int_equal(found.packets, 1);
		assert_int_equal(found.stacks, n);
		if (n)
			check_stacks(dir, ids, counts, n);
		nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	}
}

static void test_stacks(void **state)
{
	uint64_t ids[3];

	fill_session();
	ids[0] = put_stack(0, 3, 1, BEGIN_NS + 10);
	ids[1] = put_stack(0, 15, RUT_STACK_DEPTH, BEGIN_NS);
	ids[2] = put_stack(1, 0, 7, END_NS);
	fill_ring(ids[0]);
	check_all(ids, (uint32_t[]){1, RUT_STACK_DEPTH, 7}, 3);
}

/* Places that were being written, are damaged, or were used before anything that is there. */
static void test_others(void **state)
{
	uint64_t id;

	fill_session();
	put_stack(0, 0, 5, BEGIN_NS + 10);
	session.sets[0].address[0][4]++;
	put_stack(0, 1, 5, BEGIN_NS + 10);
	session.sets[0].count[1] = RUT_STACK_DEPTH + 1;
	put_stack(0, 2, 5, BEGIN_NS + 10);
	session.sets[0].id[2] = RUT_STACK_LOST;
	put_stack(1, 3, 5, BEGIN_NS - 2 * RUT_STACK_TOUCH_NS);
	id = put_stack(1, 4, 5, BEGIN_NS + 10);
	fill_ring(id);
	check_all(&id, (uint32_t[]){5}, 1);
}

/* A session that records no stacks has a table of one set, which is empty. */
static void test_none(void **state)
{
	fill_session();
	fill_ring(0);
	check_all(NULL, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests_name("recover", tests, NULL, NULL);
}
