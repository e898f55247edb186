/* SPDX-License-Identifier: GPL-2.0 */
/* Block devices. */
#ifndef RUT_BPF_EV_BLOCK_BPF_H
#define RUT_BPF_EV_BLOCK_BPF_H

#include "bpf/dirty.bpf.h"
#include "bpf/record.bpf.h"

/* LTTng's bits for the kind of a request. */
enum {
	RWBS_WRITE = 1 << 0,
	RWBS_DISCARD = 1 << 1,
	RWBS_READ = 1 << 2,
	RWBS_RAHEAD = 1 << 3,
	RWBS_SYNC = 1 << 5,
	RWBS_META = 1 << 6,
	RWBS_SECURE = 1 << 7,
	RWBS_FLUSH = 1 << 8,
	RWBS_FUA = 1 << 9,
	RWBS_PREFLUSH = 1 << 10,
};

/* The kernel's operations and flags in cmd_flags and bi_opf; the same since Linux 4.10. */
enum {
	OP_READ = 0,
	OP_WRITE = 1,
	OP_FLUSH = 2,
	OP_DISCARD = 3,
	OP_SECURE_ERASE = 5,
	OP_WRITE_ZEROES = 9,
	OP_DRV_IN = 34,
	OP_DRV_OUT = 35,
	OP_MASK = 255,
	FLAG_SYNC = 1 << 11,
	FLAG_META = 1 << 12,
	FLAG_FUA = 1 << 17,
	FLAG_PREFLUSH = 1 << 18,
	FLAG_RAHEAD = 1 << 19,
};

static __always_inline __u32 rwbs(__u32 flags)
{
	__u32 op = flags & OP_MASK, bits = 0;

	if (op == OP_WRITE)
		bits = RWBS_WRITE;
	else if (op == OP_DISCARD)
		bits = RWBS_DISCARD;
	else if (op == OP_SECURE_ERASE)
		bits = RWBS_DISCARD | RWBS_SECURE;
	else if (op == OP_FLUSH)
		bits = RWBS_FLUSH;
	else if (op == OP_READ)
		bits = RWBS_READ;
	/* Moved, not tested: each test would double what the verifier walks through. */
	bits |= (flags & FLAG_RAHEAD) / (FLAG_RAHEAD / RWBS_RAHEAD);
	bits |= (flags & FLAG_SYNC) / (FLAG_SYNC / RWBS_SYNC);
	bits |= (flags & FLAG_META) / (FLAG_META / RWBS_META);
	bits |= (flags & FLAG_PREFLUSH) / (FLAG_PREFLUSH / RWBS_PREFLUSH);
	bits |= (flags & FLAG_FUA) / (FLAG_FUA / RWBS_FUA);
	return bits;
}

/* Before 5.17 a request knew its disk, and a queue did not. */
struct request___old {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

static __always_inline __u32 disk_dev(struct request *rq)
{
	struct request___old *old = (void *)rq;
	struct gendisk *disk;

	if (bpf_core_field_exists(old->rq_disk))
		disk = old->rq_disk;
	else
		disk = rq->q->disk;
	return disk ? (__u32)disk->major << 20 | (__u32)disk->first_minor : 0;
}

static __always_inline bool is_passthrough(struct request *rq)
{
	__u32 op = rq->cmd_flags & OP_MASK;

	return op == OP_DRV_IN || op == OP_DRV_OUT;
}

static __always_inline __u64 rq_sector(struct request *rq)
{
	return is_passthrough(rq) || rq->__sector == ~0ull ? 0 : rq->__sector;
}

#define BLOCK_RQ(tp, sym, issue)                                                                   \
	SEC("tp_btf/" #tp)                                                                         \
	int BPF_PROG(tp, struct request *rq)                                                       \
	{                                                                                          \
		struct task_struct *task = bpf_get_current_task_btf();                             \
                                                                                                   \
		if ((issue) && !conf.no_dirtied && (rq->cmd_flags & OP_MASK) == OP_WRITE)          \
			tell_all_dirtied(rq, disk_dev(rq), rq_sector(rq));                         \
		if (((issue) && conf.no_issue) || !rut_allowed())                                  \
			return 0;                                                                  \
		RUT_BEGIN(sym);                                                                    \
		PUT(sym, dev, disk_dev(rq));                                                       \
		PUT(sym, sector, rq_sector(rq));                                                   \
		PUT(sym, nr_sector, is_passthrough(rq) ? 0 : rq->__data_len >> 9);                 \
		PUT(sym, bytes, rq->__data_len);                                                   \
		PUT(sym, tid, task->pid);                                                          \
		PUT(sym, rwbs, rwbs(rq->cmd_flags));                                               \
		rut_copy_comm(FIELD(sym, comm), task);                                             \
		RUT_END();                                                                         \
	}

BLOCK_RQ(block_rq_issue, BLOCK_RQ_ISSUE, true)
BLOCK_RQ(block_rq_insert, BLOCK_RQ_INSERT, false)

/*
 * By blk_status_t. Not static: the compiler would put it into a section of its own, for which
 * libbpf has no type information, and then drops that of the whole object.
 */
const volatile __u8 block_errnos[32] = {
	[1] = 95,   /* NOTSUPP: EOPNOTSUPP */
	[2] = 110,  /* TIMEOUT: ETIMEDOUT */
	[3] = 28,   /* NOSPC: ENOSPC */
	[4] = 67,   /* TRANSPORT: ENOLINK */
	[5] = 121,  /* TARGET: EREMOTEIO */
	[6] = 52,   /* RESV_CONFLICT: EBADE */
	[7] = 61,   /* MEDIUM: ENODATA */
	[8] = 84,   /* PROTECTION: EILSEQ */
	[9] = 12,   /* RESOURCE: ENOMEM */
	[11] = 78,  /* DM_REQUEUE: EREMCHG */
	[12] = 11,  /* AGAIN: EAGAIN */
	[13] = 16,  /* DEV_RESOURCE: EBUSY */
	[14] = 109, /* ZONE_OPEN_RESOURCE: ETOOMANYREFS */
	[15] = 75,  /* ZONE_ACTIVE_RESOURCE: EOVERFLOW */
	[16] = 19,  /* OFFLINE: ENODEV */
	[17] = 62,  /* DURATION_LIMIT: ETIME */
	[19] = 22,  /* INVAL: EINVAL */
};

/*
 * Since 5.16 the tracepoint's argument is a blk_status_t instead of a negative errno. The kernel
 * translates it by a table; what is not in the table is EIO.
 */
static __always_inline int block_errno(int status)
{
	__u32 i = status;

	if (status <= 0)
		return status;
	/* Until 6.11 there was a ZONE_RESOURCE at 14, which moved the next ones up. */
	if (!RUT_SINCE(6, 11) && i >= 15 && i <= 18)
		i--;
	return i < 32 && block_errnos[i] ? -(int)block_errnos[i] : -5;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int bytes)
{
	if (!rut_allowed())
		return 0;
	RUT_BEGIN(BLOCK_RQ_COMPLETE);
	PUT(BLOCK_RQ_COMPLETE, dev, disk_dev(rq));
	PUT(BLOCK_RQ_COMPLETE, sector, rq->__sector);
	PUT(BLOCK_RQ_COMPLETE, nr_sector, bytes >> 9);
	PUT(BLOCK_RQ_COMPLETE, error, block_errno(error));
	PUT(BLOCK_RQ_COMPLETE, rwbs, rwbs(rq->cmd_flags));
	RUT_END();
}

/* The partition's or disk's number as the kernel packs it, which LTTng stores. */
static __always_inline __u32 bio_dev(struct bio *bio)
{
	struct block_device *bdev = bio->bi_bdev;

	return bdev ? bdev->bd_dev : 0;
}

SEC("tp_btf/block_bio_remap")
int BPF_PROG(block_bio_remap, struct bio *bio, unsigned int dev, __u64 from)
{
	if (!rut_allowed())
		return 0;
	RUT_BEGIN(BLOCK_BIO_REMAP);
	PUT(BLOCK_BIO_REMAP, dev, bio_dev(bio));
	PUT(BLOCK_BIO_REMAP, sector, bio->bi_iter.bi_sector);
	PUT(BLOCK_BIO_REMAP, nr_sector, bio->bi_iter.bi_size >> 9);
	PUT(BLOCK_BIO_REMAP, rwbs, rwbs(bio->bi_opf));
	PUT(BLOCK_BIO_REMAP, old_dev, dev);
	PUT(BLOCK_BIO_REMAP, old_sector, from);
	RUT_END();
}

SEC("tp_btf/block_bio_backmerge")
int BPF_PROG(block_bio_backmerge, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!rut_allowed())
		return 0;
	RUT_BEGIN(BLOCK_BACKMERGE);
	PUT(BLOCK_BACKMERGE, dev, bio_dev(bio));
	PUT(BLOCK_BACKMERGE, sector, bio->bi_iter.bi_sector);
	PUT(BLOCK_BACKMERGE, nr_sector, bio->bi_iter.bi_size >> 9);
	PUT(BLOCK_BACKMERGE, rwbs, rwbs(bio->bi_opf));
	PUT(BLOCK_BACKMERGE, tid, task->pid);
	rut_copy_comm(FIELD(BLOCK_BACKMERGE, comm), task);
	RUT_END();
}

#endif
