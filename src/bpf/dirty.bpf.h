/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The processes that changed the pages which a request writes. A write into a file changes pages of
 * the page cache; they reach the disk later, in a request of the kernel's worker or of another
 * process. So the thread that makes a page dirty is remembered by the page's place in its file, and
 * found again when the page is in a request. Of a bio, which is a run of pages of one file, the
 * first page counts; of a page that is forgotten, the thread that changed the file last.
 */
#ifndef RUT_BPF_DIRTY_BPF_H
#define RUT_BPF_DIRTY_BPF_H

#include <bpf/bpf_core_read.h>

#include "bpf/record.bpf.h"

#define RUT_DIRTY_PAGES 65536 /* remembered */
#define RUT_DIRTY_BIOS	16    /* of one request */
#define RUT_WHOLE_FILE	~0ull /* index: the file's last */

struct rut_dirty_at {
	__u64 mapping; /* struct address_space of the file */
	__u64 index;   /* page */
};

struct rut_dirty_by {
	__u32 tid, pid;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RUT_DIRTY_PAGES);
	__type(key, struct rut_dirty_at);
	__type(value, struct rut_dirty_by);
} dirtied SEC(".maps");

/* Of struct task_struct, the same since Linux 3. */
#define RUT_PF_LOCAL_THROTTLE 0x00100000 /* writes for others: a loop device, the NFS server */
#define RUT_PF_KTHREAD	      0x00200000

SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(writeback_dirty_folio, struct folio *folio, struct address_space *mapping)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct rut_dirty_at at = {(__u64)mapping, folio->index};
	struct rut_dirty_by by = {.tid = task->pid, .pid = task->tgid};

	/* A thread of the kernel that cannot write a page yet (jbd2, the flusher) makes it dirty
	 * again. */
	__u64 how = (task->flags & (RUT_PF_KTHREAD | RUT_PF_LOCAL_THROTTLE)) == RUT_PF_KTHREAD
			    ? BPF_NOEXIST
			    : BPF_ANY;

	if (!rut_allowed() || !mapping)
		return 0;
	rut_copy_comm(by.comm, task);
	bpf_map_update_elem(&dirtied, &at, &by, how);
	at.index = RUT_WHOLE_FILE;
	bpf_map_update_elem(&dirtied, &at, &by, how);
	return 0;
}

#define RUT_AT(base, type, field) ((const char *)(base) + bpf_core_field_offset(type, field))

/* The first page of what a bio writes: of a large one, the head, which knows the file. */
static __always_inline __u64 bio_page(struct bio *bio)
{
	struct bio_vec *vec = bio->bi_io_vec;
	__u64 page = 0, head = 0;

	if (!vec)
		return 0;
	/* As numbers: the verifier allows no arithmetic with the kernel's pointers. */
	rut_read_kernel(&page, 8, RUT_AT(vec, struct bio_vec, bv_page), false);
	if (page && bpf_core_field_exists(struct page, compound_head))
		rut_read_kernel(&head, 8, RUT_AT(page, struct page, compound_head), false);
	return head & 1 ? head - 1 : page;
}

/* Where in which file the page is; its mapping is 0 where it is of none. */
static __always_inline void page_place(struct rut_dirty_at *at, __u64 page)
{
	at->mapping = 0;
	at->index = 0;
	if (!page)
		return;
	rut_read_kernel(&at->mapping, 8, RUT_AT(page, struct folio, mapping), false);
	rut_read_kernel(&at->index, 8, RUT_AT(page, struct folio, index), false);
	/* The low bits say that it belongs to memory, not to a file. */
	if (at->mapping & 3)
		at->mapping = 0;
}

/* The name under which the file is known, without its directory. */
static __always_inline void file_name(char *to, __u64 inode)
{
	__u64 alias = 0, name = 0, dentry;

	rut_read_kernel(&alias, 8, RUT_AT(inode, struct inode, i_dentry.first), false);
	if (!alias)
		return;
	dentry = alias - bpf_core_field_offset(struct dentry, d_u);
	rut_read_kernel(&name, 8, RUT_AT(dentry, struct dentry, d_name.name), false);
	if (!name)
		return;
	rut_read_kernel(to, 16, (const char *)name, false);
	rut_read_kernel(to + 16, 16, (const char *)name + 16, false);
	rut_read_kernel(to + 32, 8, (const char *)name + 32, false);
	to[39] = 0;
}

/* Behind the NUL there is whatever was in memory. */
static __always_inline void clear_rest(char *name)
{
	bool end = false;

#pragma unroll
	for (int i = 0; i < 40; i++) {
		end |= !name[i];
		if (end)
			name[i] = 0;
	}
}

static __noinline int tell_dirtied(struct bio *bio, __u32 dev, __u64 sector)
{
	const __u64 size = 8 + conf.context_size + sizeof(struct rut_ev_BLOCK_DIRTIED);
	struct rut_dirty_at at;
	struct rut_dirty_by *by;
	struct rut_slot slot;
	__u64 inode = 0;
	unsigned char *p;

	page_place(&at, bio_page(bio));
	if (!at.mapping)
		return 0;
	by = bpf_map_lookup_elem(&dirtied, &at);
	if (!by) {
		at.index = RUT_WHOLE_FILE;
		by = bpf_map_lookup_elem(&dirtied, &at);
	}
	if (!by)
		return 0;
	p = rut_reserve(&slot, RUT_EV_BLOCK_DIRTIED, size, size);
	if (!p)
		return 0;
	p = rut_store_contexts(NULL, p);
	rut_read_kernel(&inode, 8, RUT_AT(at.mapping, struct address_space, host), false);
	PUT(BLOCK_DIRTIED, dev, dev);
	PUT(BLOCK_DIRTIED, sector, sector);
	PUT(BLOCK_DIRTIED, bytes, bio->bi_iter.bi_size);
	PUT(BLOCK_DIRTIED, tid, by->tid);
	PUT(BLOCK_DIRTIED, pid, by->pid);
	__builtin_memcpy(FIELD(BLOCK_DIRTIED, comm), by->comm, 16);
	__builtin_memset(FIELD(BLOCK_DIRTIED, filename), 0, 40);
	file_name(FIELD(BLOCK_DIRTIED, filename), inode);
	clear_rest(FIELD(BLOCK_DIRTIED, filename));
	if (inode)
		rut_read_kernel(&inode, 8, RUT_AT(inode, struct inode, i_ino), false);
	PUT(BLOCK_DIRTIED, inode, inode);
	rut_commit(&slot, size);
	return 0;
}

static __always_inline void tell_all_dirtied(struct request *rq, __u32 dev, __u64 sector)
{
	struct bio *bio = rq->bio;

	for (int i = 0; i < RUT_DIRTY_BIOS && bio; i++) {
		tell_dirtied(bio, dev, sector);
		bio = bio->bi_next;
	}
}

#endif
