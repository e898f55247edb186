/* SPDX-License-Identifier: MIT */
#include "session/recover.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libkdumpfile/kdumpfile.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "ring/read.h"
#include "session/aside.h"
#include "session/meta.h"
#include "session/pin.h"
#include "session/stacks.h"

#define CPUS_MAX     8192
#define HOLES_MAX    (1ull << 32) /* pages: 16 TiB */
#define PHYSICAL_MAX (1ull << 52)
#define META_MAX     (RUT_META_ANCHOR_PAGES * RUT_PAGE)

/* A page of a core that begins with one of our magic numbers. */
struct page {
	uint64_t magic, address;
};

struct dump {
	kdump_ctx_t *ctx;	     /* of a kernel */
	kdump_bmp_t *pagemap;	     /* borrowed: the pages that it has; NULL: not known */
	uint64_t budget;	     /* pages that may still be read */
	const struct rut_core *core; /* ... or of a process: borrowed */
	uint64_t meta_at;	     /* where in it the description of the session is */
	struct page *pages;	     /* owned */
	size_t npages;
	const char *dir;
	void (*fn)(const struct rut_recovered *found, void *arg);
	void *arg;
	int found;
};

static bool read_page(struct dump *d, uint64_t pfn, void *to)
{
	size_t len = RUT_PAGE;

	return kdump_read(d->ctx, KDUMP_MACHPHYSADDR, pfn * RUT_PAGE, to, &len) == KDUMP_OK &&
	       len == RUT_PAGE;
}

static bool read_pages(struct dump *d, const uint32_t *pfns, size_t n, unsigned char *to)
{
	for (size_t i = 0; i < n; i++)
		if (!read_page(d, pfns[i], to + i * RUT_PAGE))
			return false;
	return true;
}

/* Nothing in a dump is trusted. */
static bool check_meta(struct rut_session_meta *m)
{
	if (!m->ncpus || m->ncpus > CPUS_MAX || m->shift < 12 || m->shift > 26 ||
	    m->count > RUT_RING_MAX_SUBBUFS || m->count < 2 || (m->count & (m->count - 1)) ||
	    m->text_len > RUT_META_DYNAMIC_OFFSET - RUT_META_TEXT_OFFSET ||
	    m->dynamic_len > RUT_META_PAGES_OFFSET - RUT_META_DYNAMIC_OFFSET || !m->nsets ||
	    m->nsets > RUT_STACK_SETS)
		return false;
	m->conf.contexts &= RUT_CTX_ALL;
	m->conf.name[sizeof(m->conf.name) - 1] = '\0';
	return rut_session_check_name(m->conf.name, NULL) == 0;
}

/* The whole description behind an anchor, checked, or NULL. */
static struct rut_session_meta *read_meta(struct dump *d, const struct rut_anchor *a)
{
	_cleanup_free_ struct rut_session_meta *m = NULL;

	if (a->version != RUT_META_VERSION || !a->npages || a->npages > RUT_META_ANCHOR_PAGES ||
	    a->bytes != (uint64_t)a->npages * RUT_PAGE || a->bytes <= RUT_META_PAGES_OFFSET)
		return NULL;
	m = malloc(a->bytes);
	if (!m || !read_pages(d, a->pfn, a->npages, (unsigned char *)m) ||
	    memcmp(&m->anchor, a, sizeof(*a)) != 0)
		return NULL;
	if (m->npages_ctl != m->ncpus ||
	    m->npages_ring != (((uint64_t)m->ncpus * m->count) << m->shift) / RUT_PAGE ||
	    !check_meta(m) || m->npages_stacks != rut_meta_stack_pages(m->nsets) ||
	    RUT_META_PAGES_OFFSET +
			    ((uint64_t)m->npages_ctl + m->npages_ring + m->npages_stacks) * 4 >
		    a->bytes)
		return NULL;
	return RUT_TAKE(m);
}

static int write_file(int dir, const char *name, const void *data, size_t len, bool append)
{
	_cleanup_close_ int fd = openat(
		dir, name,
		O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (append ? O_APPEND : O_EXCL), 0640);

	return fd < 0 ? -errno : rut_file_write(fd, data, len);
}

/* DIR/NAME/kernel with the metadata in it; NAME-1 and so on when that exists. */
static int make_trace(struct dump *d, const struct rut_session_meta *m, char *path, size_t size,
		      struct rut_err *err)
{
	int fd, rc = rut_file_new_dir(path, size, d->dir, m->conf.name);

	if (rc < 0)
		return rut_err_errno(err, -rc, "cannot make the directory '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	rc = fd < 0 || mkdirat(fd, "kernel", 0750) < 0 ? -errno : 0;
	if (!rc) {
		int kernel = openat(fd, "kernel", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		close(fd);
		fd = kernel;
		rc = fd < 0 ? -errno : 0;
	}
	if (!rc)
		rc = write_file(fd, "metadata", (const char *)m + RUT_META_TEXT_OFFSET, m->text_len,
				false);
	if (!rc)
		rc = write_file(fd, "metadata", (const char *)m + RUT_META_DYNAMIC_OFFSET,
				m->dynamic_len, true);
	if (rc) {
		rut_closep(&fd);
		return rut_err_errno(err, -rc, "cannot write '%s'", path);
	}
	return fd;
}

/* In the core of a process: a page that begins with our magic number and has this identity. */
static const unsigned char *find_page(const struct dump *d, uint64_t magic, const uint8_t uuid[16],
				      uint32_t cpu, uint64_t seq, size_t len)
{
	for (size_t i = 0; i < d->npages; i++) {
		const struct page *p = &d->pages[i];
		const unsigned char *at;
		struct rut_ring_ctl c;
		struct rut_packet k;

		if (p->magic != magic || !(at = rut_core_at(d->core, p->address, len)))
			continue;
		if (magic == RUT_RING_MAGIC) {
			memcpy(&c, at, sizeof(c));
			if (c.cpu_id == cpu && !memcmp(c.uuid, uuid, 16))
				return at;
			continue;
		}
		memcpy(&k, at, sizeof(k));
		if (k.cpu_id == cpu && k.packet_seq_num == seq && !memcmp(k.uuid, uuid, 16))
			return at;
	}
	return NULL;
}

static bool read_ctl(struct dump *d, const struct rut_session_meta *m, uint32_t cpu,
		     struct rut_ring_ctl *ret)
{
	const uint32_t *list = (const void *)((const char *)m + RUT_META_PAGES_OFFSET);
	const unsigned char *at;

	if (!d->core)
		return read_page(d, list[cpu], ret);
	at = find_page(d, RUT_RING_MAGIC, m->anchor.uuid, cpu, 0, sizeof(*ret));
	if (at)
		memcpy(ret, at, sizeof(*ret));
	return at;
}

static bool read_packet(struct dump *d, const struct rut_session_meta *m, uint32_t cpu, uint64_t i,
			unsigned char *to)
{
	const uint32_t *list = (const void *)((const char *)m + RUT_META_PAGES_OFFSET);
	uint32_t per = (1u << m->shift) / RUT_PAGE;
	const unsigned char *at;

	if (!d->core) {
		list += m->npages_ctl + ((size_t)cpu * m->count + (i & (m->count - 1))) * per;
		return read_pages(d, list, per, to);
	}
	at = find_page(d, RUT_CTF_PACKET_MAGIC, m->anchor.uuid, cpu, i, 1u << m->shift);
	if (at)
		memcpy(to, at, 1u << m->shift);
	return at;
}

/* The time that the packets written so far span. */
struct span {
	uint64_t begin_ns, end_ns;
};

static int write_ring(struct dump *d, const struct rut_session_meta *m, uint32_t cpu, int dir,
		      struct span *span, struct rut_recovered *found)
{
	const struct rut_packet *p;
	_cleanup_free_ unsigned char *data = malloc(1ull << m->shift);
	_cleanup_free_ struct rut_ring_ctl *ctl =
		aligned_alloc(_Alignof(struct rut_ring_ctl), sizeof(*ctl));
	uint64_t first, last;
	char name[32];

	if (!data || !ctl)
		return -ENOMEM;
	snprintf(name, sizeof(name), "kernel_%u", cpu);
	if (!read_ctl(d, m, cpu, ctl) || ctl->magic != RUT_RING_MAGIC ||
	    memcmp(ctl->uuid, m->anchor.uuid, sizeof(ctl->uuid)) != 0) {
		found->damaged++;
		/* cppcheck-suppress memleak ; it has a cleanup attribute */
		return 0;
	}
	last = (ctl->pos + (1ull << m->shift) - 1) >> m->shift;
	first = last > m->count ? last - m->count : 0;
	for (uint64_t i = first; i < last; i++) {
		bool there = read_packet(d, m, cpu, i, data);
		int rc;

		/* What was on disk already need not be in the core. */
		if (!there && d->core && ctl->mode == RUT_RING_DISCARD &&
		    (i + 1) << m->shift <= ctl->consumed)
			continue;
		if (!there ||
		    !rut_ring_salvage(ctl, m->shift, m->count, m->anchor.uuid, i, (void *)data)) {
			found->damaged++;
			continue;
		}
		rc = write_file(dir, name, data, 1ull << m->shift, true);
		if (rc)
			return rc;
		p = (const void *)data;
		if (!found->packets || p->timestamp_begin < span->begin_ns)
			span->begin_ns = p->timestamp_begin;
		if (p->timestamp_end > span->end_ns)
			span->end_ns = p->timestamp_end;
		found->packets++;
		found->bytes += 1ull << m->shift;
	}
	return 0;
}

/* The table of stacks of a kernel's dump. A page that is missing costs the stacks in it. */
static void read_table(struct dump *d, const struct rut_session_meta *m, unsigned char *to)
{
	const uint32_t *list = (const void *)((const char *)m + RUT_META_PAGES_OFFSET);

	list += m->npages_ctl + m->npages_ring;
	for (uint32_t i = 0; i < m->npages_stacks; i++)
		if (!read_page(d, list[i], to + (size_t)i * RUT_PAGE))
			memset(to + (size_t)i * RUT_PAGE, 0, RUT_PAGE);
}

struct stacks {
	struct dump *d;
	const struct rut_session_meta *m;
	struct rut_stack_set *sets; /* owned; page by page */
	const struct span *span;
	int dir;
	size_t count;
};

static void emit_table(struct rut_statedump *s, struct stacks *st)
{
	st->count = rut_stacks_write_table(s, st->sets, st->m->nsets, st->m->anchor.uuid,
					   st->span->begin_ns);
}

/*
 * In the core of a process the table is behind the rings where the process has copied all that
 * (session/words.c). Else it is a mapping of the table's size. Stacks are known by their hash, into
 * which the session's identity goes: those of others are none.
 */
static void emit_stacks(struct rut_statedump *s, void *arg)
{
	struct stacks *st = arg;
	const struct rut_core *core = st->d->core;
	const struct rut_session_meta *m = st->m;
	size_t bytes = m->nsets * sizeof(*st->sets);
	const unsigned char *at;

	if (!core) {
		read_table(st->d, m, (unsigned char *)st->sets);
		emit_table(s, st);
		return;
	}
	at = rut_core_at(core,
			 st->d->meta_at + RUT_META_PAGES_OFFSET +
				 (uint64_t)m->ncpus * RUT_RING_CTL_SIZE +
				 (((uint64_t)m->ncpus * m->count) << m->shift),
			 bytes);
	if (at) {
		memcpy(st->sets, at, bytes);
		emit_table(s, st);
	}
	for (size_t i = 0; i < core->count && !st->count; i++) {
		if (core->segments[i].bytes / RUT_PAGE != rut_meta_stack_pages(m->nsets))
			continue;
		memcpy(st->sets, core->segments[i].data, bytes);
		emit_table(s, st);
	}
}

/* Its unused rest is cut off; it ends with the trace, not when it is put together here. */
static int write_aside(const unsigned char *packet, uint64_t records, void *arg)
{
	const struct stacks *st = arg;
	struct rut_packet *p = (struct rut_packet *)packet; /* in the memory of aside.c */
	uint64_t len = (p->content_size / 8 + RUT_PAGE - 1) & ~(uint64_t)(RUT_PAGE - 1);
	char name[32];

	if (p->timestamp_end != p->timestamp_begin)
		p->timestamp_end = st->span->end_ns;
	if (len * 8 < p->packet_size)
		p->packet_size = len * 8;
	snprintf(name, sizeof(name), "kernel_%u", st->m->ncpus);
	return records ? write_file(st->dir, name, packet, p->packet_size / 8, true) : 0;
}

static int write_stacks(struct dump *d, const struct rut_session_meta *m, int dir,
			const struct span *span, struct rut_recovered *found)
{
	_cleanup_free_ struct rut_stack_set *sets =
		malloc((size_t)rut_meta_stack_pages(m->nsets) * RUT_PAGE);
	struct stacks st = {.d = d, .m = m, .sets = sets, .span = span, .dir = dir};
	const struct rut_aside aside = {
		.uuid = m->anchor.uuid,
		.contexts = m->conf.contexts,
		.ncpus = m->ncpus,
		.at_ns = span->begin_ns,
		.write = write_aside,
		.arg = &st,
	};
	int rc;

	if (!sets)
		return -ENOMEM;
	rc = found->packets ? rut_aside_write(&aside, emit_stacks, &st) : 0;
	found->stacks = st.count;
	return rc;
}

static int write_session(struct dump *d, const struct rut_session_meta *m, struct rut_err *err)
{
	struct rut_recovered found = {.name = m->conf.name};
	struct span span = {0};
	_cleanup_close_ int dir = -1;
	char path[RUT_PATH_MAX];
	int rc = 0;

	dir = make_trace(d, m, path, sizeof(path), err);
	if (dir < 0)
		return dir;
	found.path = path;
	for (uint32_t cpu = 0; cpu < m->ncpus && !rc; cpu++)
		rc = write_ring(d, m, cpu, dir, &span, &found);
	if (!rc)
		rc = write_stacks(d, m, dir, &span, &found);
	if (rc)
		return rut_err_errno(err, -rc, "cannot write '%s'", path);
	d->found++;
	if (d->fn)
		d->fn(&found, d->arg);
	return 0;
}

/* No format describes a page of memory by less than this. */
#define PAGE_BYTES_MIN 24

/*
 * The next page that the dump has, from *pfn on. The headers may be damaged and say anything: no
 * more pages are read than the file has room for.
 */
static bool next_page(struct dump *d, uint64_t *pfn)
{
	kdump_addr_t next = *pfn;

	if (d->budget-- == 0)
		return false;
	if (!d->pagemap)
		return true;
	if (kdump_bmp_find_set(d->pagemap, &next) != KDUMP_OK)
		return false;
	*pfn = next;
	return true;
}

static int scan_page(struct dump *d, uint64_t pfn, struct rut_anchor *a, struct rut_err *err)
{
	_cleanup_free_ struct rut_session_meta *m = NULL;
	uint64_t magic = 0;
	size_t len = sizeof(magic);

	if (kdump_read(d->ctx, KDUMP_MACHPHYSADDR, pfn * RUT_PAGE, &magic, &len) != KDUMP_OK ||
	    magic != RUT_META_MAGIC || !read_page(d, pfn, a))
		return 0;
	m = read_meta(d, a);
	return m ? write_session(d, m, err) : 0;
}

static int scan(struct dump *d, uint64_t max_pfn, uint64_t file_bytes, struct rut_err *err)
{
	_cleanup_free_ struct rut_anchor *a = malloc(sizeof(*a));
	kdump_attr_t map = {0};
	int rc = 0;

	if (!a)
		return rut_err_set(err, ENOMEM, "out of memory");
	if (kdump_get_attr(d->ctx, KDUMP_ATTR_FILE_PAGEMAP, &map) == KDUMP_OK &&
	    map.type == KDUMP_BITMAP)
		d->pagemap = map.val.bitmap;
	/* Without a map of the present pages, absent ones are tried too. */
	d->budget = d->pagemap ? file_bytes / PAGE_BYTES_MIN : HOLES_MAX;
	for (uint64_t pfn = 0; pfn < max_pfn && rc >= 0 && next_page(d, &pfn); pfn++)
		rc = pfn < max_pfn ? scan_page(d, pfn, a, err) : 0;
	return rc < 0 ? rc : 0;
}

/*
 * makedumpfile and QEMU also write a "flattened" form, made for pipes: a page of header, then
 * pieces with their offset and size (big endian), in any order. It is put together in a nameless
 * file.
 */
static int unflatten(int from, const char *dir, struct rut_err *err)
{
	_cleanup_close_ int to = -1;
	_cleanup_free_ char *buf = malloc(1 << 20);
	uint64_t head[2];
	off_t at = RUT_PAGE;

	to = open(dir, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (!buf || to < 0)
		return rut_err_errno(err, buf ? errno : ENOMEM, "cannot unpack the dump in '%s'",
				     dir);
	while (pread(from, head, sizeof(head), at) == sizeof(head)) {
		uint64_t offset = be64toh(head[0]), size = be64toh(head[1]);

		at += sizeof(head);
		if (offset == UINT64_MAX)
			return RUT_TAKE_FD(to);
		while (size) {
			size_t want = size < 1 << 20 ? size : 1 << 20;
			ssize_t n = pread(from, buf, want, at);

			if (n <= 0)
				return rut_err_set(err, EPROTO, "the dump is cut off");
			if (pwrite(to, buf, (size_t)n, (off_t)offset) != n)
				return rut_err_errno(err, errno, "cannot unpack the dump in '%s'",
						     dir);
			at += n;
			offset += (uint64_t)n;
			size -= (uint64_t)n;
		}
	}
	return rut_err_set(err, EPROTO, "the dump is cut off");
}

static int list_pages(struct dump *d)
{
	size_t cap = 0;

	for (size_t i = 0; i < d->core->count; i++) {
		const struct rut_core_segment *s = &d->core->segments[i];

		for (size_t off = -s->address % RUT_PAGE; off + 8 <= s->bytes; off += RUT_PAGE) {
			uint64_t magic;

			memcpy(&magic, s->data + off, sizeof(magic));
			if ((uint32_t)magic == RUT_CTF_PACKET_MAGIC)
				magic = RUT_CTF_PACKET_MAGIC;
			if (magic != RUT_CTF_PACKET_MAGIC && magic != RUT_RING_MAGIC &&
			    magic != RUT_META_MAGIC)
				continue;
			if (d->npages == cap) {
				void *more;

				cap = cap ? cap * 2 : 64;
				more = reallocarray(d->pages, cap, sizeof(*d->pages));
				if (!more)
					return -ENOMEM;
				d->pages = more;
			}
			d->pages[d->npages++] = (struct page){magic, s->address + off};
		}
	}
	return 0;
}

int rut_recover_core(const struct rut_core *core, const char *dir,
		     void (*fn)(const struct rut_recovered *found, void *arg), void *arg,
		     struct rut_err *err)
{
	struct dump d = {.core = core, .dir = dir, .fn = fn, .arg = arg};
	int rc = list_pages(&d) < 0 ? rut_err_set(err, ENOMEM, "out of memory") : 0;

	for (size_t i = 0; i < d.npages && !rc; i++) {
		_cleanup_free_ struct rut_session_meta *m = NULL;
		const unsigned char *at;
		bool again = false;

		if (d.pages[i].magic != RUT_META_MAGIC)
			continue;
		at = rut_core_at(core, d.pages[i].address, RUT_META_PAGES_OFFSET);
		m = at ? malloc(RUT_META_PAGES_OFFSET) : NULL;
		if (!m)
			continue;
		memcpy(m, at, RUT_META_PAGES_OFFSET);
		d.meta_at = d.pages[i].address;
		/* A core by gcore may have the same session twice. */
		for (size_t j = 0; j < i && !again; j++)
			again = d.pages[j].magic == RUT_META_MAGIC &&
				(at = rut_core_at(core, d.pages[j].address, sizeof(m->anchor))) &&
				!memcmp(((const struct rut_anchor *)at)->uuid, m->anchor.uuid, 16);
		if (!again && m->anchor.version == RUT_META_VERSION && check_meta(m))
			rc = write_session(&d, m, err);
	}
	free(d.pages);
	return rc < 0 ? rc : d.found;
}

static bool is_flattened(int fd)
{
	char magic[16] = "";

	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       !memcmp(magic, "makedumpfile", 13);
}

/*
 * libkdumpfile 0.5.1 frees something that it has not set when a dump is not ELF (it crashes under
 * MALLOC_PERTURB_): such a context stays until the process ends.
 */
static void free_dump(kdump_ctx_t *ctx)
{
	static kdump_ctx_t *volatile kept; /* else leak checkers report it */
	const char *format = NULL;

	if (kdump_get_string_attr(ctx, KDUMP_ATTR_FILE_FORMAT, &format) != KDUMP_OK ||
	    strcmp(format, "elf") == 0)
		kdump_free(ctx);
	else
		kept = ctx;
	(void)kept;
}

/*
 * The library trusts the headers of an ELF dump, and crashes or stands still at damaged ones. What
 * they say of tables and notes must lie in the file; memory may be cut off.
 */
static bool are_headers_sane(int fd, uint64_t size)
{
	Elf64_Ehdr e;

	if (pread(fd, &e, sizeof(e), 0) != sizeof(e) || memcmp(e.e_ident, ELFMAG, SELFMAG) != 0)
		return true; /* of another kind */
	if (e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_ident[EI_DATA] != ELFDATA2LSB ||
	    e.e_phentsize != sizeof(Elf64_Phdr) || !e.e_phnum || e.e_phnum == PN_XNUM ||
	    e.e_phoff > size || (size - e.e_phoff) / sizeof(Elf64_Phdr) < e.e_phnum)
		return false;
	if ((!e.e_shnum && e.e_shoff) || (e.e_shnum && e.e_shoff < sizeof(e)))
		return false;
	if (e.e_shnum &&
	    (e.e_shentsize != sizeof(Elf64_Shdr) || e.e_shoff > size ||
	     (size - e.e_shoff) / sizeof(Elf64_Shdr) < e.e_shnum || e.e_shstrndx >= e.e_shnum))
		return false;
	for (unsigned i = 0; i < e.e_phnum; i++) {
		Elf64_Phdr p;

		if (pread(fd, &p, sizeof(p), (off_t)(e.e_phoff + i * sizeof(p))) != sizeof(p))
			return false;
		if (p.p_type == PT_NOTE && (p.p_offset > size || size - p.p_offset < p.p_filesz))
			return false;
		if (p.p_type == PT_LOAD &&
		    (p.p_paddr + p.p_memsz < p.p_paddr || p.p_vaddr + p.p_memsz < p.p_vaddr ||
		     p.p_filesz > p.p_memsz || p.p_offset + p.p_filesz < p.p_offset ||
		     p.p_memsz > PHYSICAL_MAX || p.p_paddr > PHYSICAL_MAX))
			return false;
	}
	return true;
}

int rut_recover(const char *dump, const char *dir,
		void (*fn)(const struct rut_recovered *found, void *arg), void *arg,
		struct rut_err *err)
{
	_cleanup_close_ int fd = open(dump, O_RDONLY | O_CLOEXEC);
	struct dump d = {.dir = dir, .fn = fn, .arg = arg};
	kdump_num_t max_pfn = 0;
	struct stat st;
	int rc = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return rut_err_errno(err, errno, "cannot open '%s'", dump);
	if (mkdir(dir, 0750) < 0 && errno != EEXIST)
		return rut_err_errno(err, errno, "cannot make the directory '%s'", dir);
	if (is_flattened(fd)) {
		int flat = unflatten(fd, dir, err);

		if (flat < 0)
			return flat;
		close(fd);
		fd = flat;
	}
	if (fstat(fd, &st) < 0 || !are_headers_sane(fd, (uint64_t)st.st_size))
		return rut_err_set(err, ENOEXEC,
				   "'%s' is not a memory dump: its headers are damaged", dump);
	d.ctx = kdump_new();
	if (!d.ctx)
		return rut_err_set(err, ENOMEM, "out of memory");
	/* A dump that was cut off must be an error of read(2), not a SIGBUS. */
	kdump_set_number_attr(d.ctx, KDUMP_ATTR_FILE_MMAP_POLICY, KDUMP_MMAP_NEVER);
	if (kdump_open_fd(d.ctx, fd) != KDUMP_OK)
		rc = rut_err_set(err, ENOEXEC, "'%s' is not a memory dump: %s", dump,
				 kdump_get_err(d.ctx));
	else if (kdump_get_number_attr(d.ctx, "max_pfn", &max_pfn) != KDUMP_OK)
		rc = rut_err_set(err, ENOEXEC, "the memory size of '%s' is not known: %s", dump,
				 kdump_get_err(d.ctx));
	else
		rc = scan(&d, max_pfn, (uint64_t)st.st_size, err);
	free_dump(d.ctx);
	if (!rc && !d.found)
		return rut_err_set(err, ENOENT, "there is no session of rutile in '%s'", dump);
	return rc ? rc : d.found;
}
