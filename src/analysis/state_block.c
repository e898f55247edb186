/* SPDX-License-Identifier: MIT */
/* The state model: disks and their requests, and statedumps. */
#include "analysis/state_priv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static struct rut_disk *get_disk(struct rut_state *st, int64_t dev)
{
	static struct rut_disk nothing;
	struct rut_disk *d = rut_map_get(&st->disks, (uint64_t)dev + 1), **list;

	if (d)
		return d;
	list = realloc(st->disk_list, (st->n_disks + 1) * sizeof(*list));
	if (list)
		st->disk_list = list;
	d = list ? calloc(1, sizeof(*d)) : NULL;
	if (!d || rut_map_put(&st->disks, (uint64_t)dev + 1, d)) {
		free(d);
		st->failed = true;
		return &nothing;
	}
	d->dev = dev;
	st->disk_list[st->n_disks++] = d;
	return d;
}

/* ---- Requests ---- */

enum { REMAP_DEV, REMAP_SECTOR, REMAP_OLD_DEV, REMAP_OLD_SECTOR };

static void bio_remap(struct rut_state *st, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c)
{
	int64_t dev = rut_ctf_i64(ev, &c->f[REMAP_DEV]);
	int64_t old_dev = rut_ctf_i64(ev, &c->f[REMAP_OLD_DEV]);
	uint64_t sector = rut_ctf_u64(ev, &c->f[REMAP_SECTOR]);
	uint64_t old_sector = rut_ctf_u64(ev, &c->f[REMAP_OLD_SECTOR]);
	struct rut_remap *r, **at = &st->remaps;
	size_t n = 0;

	for (; (r = *at); at = &r->next, n++) {
		if (r->dev == old_dev && r->sector == old_sector) {
			r->dev = dev;
			r->sector = sector;
			return;
		}
	}
	/* Lost completions must not make the list, and with it every request, grow without end. */
	if (n >= 4096) {
		r = st->remaps;
		st->remaps = r->next;
		for (at = &st->remaps; *at;)
			at = &(*at)->next;
	} else {
		r = malloc(sizeof(*r));
	}
	if (!r) {
		st->failed = true;
		return;
	}
	*r = (struct rut_remap){sector, old_sector, dev, old_dev, NULL};
	*at = r;
}

/* Where this request came from; with `forget` that is then forgotten. */
static int64_t unmap(struct rut_state *st, int64_t dev, uint64_t sector, bool forget)
{
	for (struct rut_remap **at = &st->remaps, *r; (r = *at); at = &r->next) {
		if (r->dev != dev || r->sector != sector)
			continue;
		dev = r->old_dev;
		if (forget) {
			*at = r->next;
			free(r);
		}
		break;
	}
	return dev;
}

static void bio_backmerge(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c)
{
	unmap(st, rut_ctf_i64(ev, &c->f[0]), rut_ctf_u64(ev, &c->f[1]), true);
}

enum {
	DIRTIED_DEV,
	DIRTIED_SECTOR,
	DIRTIED_BYTES,
	DIRTIED_TID,
	DIRTIED_PID,
	DIRTIED_COMM,
	DIRTIED_INODE,
	DIRTIED_NAME
};

/* Records of a request's parts come before that of the request, on the same CPU. */
static void block_dirtied(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c)
{
	int64_t dev = rut_ctf_i64(ev, &c->f[DIRTIED_DEV]);
	uint64_t sector = rut_ctf_u64(ev, &c->f[DIRTIED_SECTOR]);
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, st->cpu);
	struct rut_hook_dirtied h = {
		.cpu = st->cpu,
		.thread = rut_an_state_thread_new(st, rut_ctf_i64(ev, &c->f[DIRTIED_TID])),
		.bytes = rut_ctf_u64(ev, &c->f[DIRTIED_BYTES]),
		.inode = rut_ctf_u64(ev, &c->f[DIRTIED_INODE]),
		.name = rut_an_state_str(st, ev, &c->f[DIRTIED_NAME]),
	};

	if (cpu->dirtied_dev != dev || cpu->dirtied_sector != sector)
		cpu->dirtied_bytes = 0;
	cpu->dirtied_dev = dev;
	cpu->dirtied_sector = sector;
	cpu->dirtied_bytes += h.bytes;
	/* It may have ended long before. */
	if (h.thread->pid < 0)
		h.thread->pid = rut_ctf_i64(ev, &c->f[DIRTIED_PID]);
	if (!*h.thread->comm)
		rut_an_state_rename(st, h.thread, rut_an_state_str(st, ev, &c->f[DIRTIED_COMM]));
	rut_state_notify(st, RUT_HOOK_BLOCK_DIRTIED, &h);
}

enum { RQ_DEV, RQ_SECTOR, RQ_NR, RQ_TID, RQ_RWBS };

/* The thread with most of the pending requests when this one is issued, by a vote in one pass. */
static void count_ahead(const struct rut_disk *d, struct rut_block_rq *rq)
{
	uint32_t votes = 0;

	rut_map_each(&d->pending, s) {
		const struct rut_block_rq *other = s->value;

		if (other->tid == rq->tid)
			continue;
		rq->ahead++;
		if (!votes)
			rq->ahead_tid = other->tid;
		votes += other->tid == rq->ahead_tid ? 1 : (uint32_t)-1;
	}
}

static size_t inserted_at(const struct rut_disk *d, uint64_t sector)
{
	return (sector * 0x9e3779b97f4a7c15u >> 32) % (sizeof(d->inserted) / sizeof(*d->inserted));
}

static void rq_insert(struct rut_state *st, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c)
{
	uint64_t sector = rut_ctf_u64(ev, &c->f[RQ_SECTOR]);
	struct rut_disk *d = get_disk(st, unmap(st, rut_ctf_i64(ev, &c->f[RQ_DEV]), sector, false));
	size_t at = inserted_at(d, sector);

	d->inserted[at].sector = sector;
	d->inserted[at].tid = rut_ctf_i64(ev, &c->f[RQ_TID]);
}

/* A thread of the kernel issues what others have put into the queue. */
static int64_t owner_of(struct rut_state *st, const struct rut_disk *d, uint64_t sector,
			int64_t issued_by)
{
	const struct rut_thread *t = rut_an_state_thread(st, issued_by);
	size_t at = inserted_at(d, sector);

	if (!t || strncmp(t->comm, "kworker/", 8) != 0 || d->inserted[at].sector != sector ||
	    !d->inserted[at].tid)
		return issued_by;
	return d->inserted[at].tid;
}

/* As tracers record them (LTTng's RWBS_FLAG_*). */
enum {
	RWBS_WRITE = 1 << 0,
	RWBS_DISCARD = 1 << 1,
	RWBS_READ = 1 << 2,
	RWBS_SECURE = 1 << 7,
	RWBS_FLUSH = 1 << 8,
};

/*
 * A flush that belongs to a write has both bits. Zeroes have none; in traces that no tracer has
 * recorded, as those of lttng-analyses' tests, neither have reads.
 */
static enum rut_block_op op_of(uint64_t rwbs, bool of_tracer)
{
	if (!rwbs && !of_tracer)
		return RUT_BLOCK_READ;
	if (rwbs & RWBS_WRITE)
		return RUT_BLOCK_WRITE;
	if (rwbs & RWBS_READ)
		return RUT_BLOCK_READ;
	if (rwbs & RWBS_DISCARD)
		return rwbs & RWBS_SECURE ? RUT_BLOCK_ERASE : RUT_BLOCK_DISCARD;
	return rwbs & RWBS_FLUSH ? RUT_BLOCK_FLUSH : RUT_BLOCK_OTHER;
}

const char *rut_an_block_op_name(enum rut_block_op op)
{
	static const char *const names[] = {"read",	    "write", "discard",
					    "secure erase", "flush", "other"};

	return names[op];
}

static void rq_issue(struct rut_state *st, const struct rut_ctf_event *ev,
		     const struct rut_state_class *c)
{
	int64_t dev = rut_ctf_i64(ev, &c->f[RQ_DEV]);
	uint64_t sector = rut_ctf_u64(ev, &c->f[RQ_SECTOR]);
	uint64_t nr = rut_ctf_u64(ev, &c->f[RQ_NR]);
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, st->cpu);
	struct rut_block_rq *rq;
	struct rut_disk *d;
	int64_t owner_tid;

	if (!nr)
		return;
	d = get_disk(st, unmap(st, dev, sector, false));
	rq = rut_map_get(&d->pending, sector + 1);
	/* The disk may be too busy to take it: a thread of the kernel issues it again later. */
	owner_tid = rq ? rq->owner_tid : owner_of(st, d, sector, rut_ctf_i64(ev, &c->f[RQ_TID]));
	if (!rq) {
		rq = st->free_rqs;
		if (rq)
			st->free_rqs = rq->next;
		else
			rq = malloc(sizeof(*rq));
		if (!rq || rut_map_put(&d->pending, sector + 1, rq)) {
			free(rq);
			st->failed = true;
			return;
		}
	}
	*rq = (struct rut_block_rq){
		.begin_ns = ev->ts_ns,
		.sector = sector,
		.nr_sector = nr,
		.tid = rut_ctf_i64(ev, &c->f[RQ_TID]),
		.owner_tid = owner_tid,
		.dev = dev,
		.op = op_of(rut_ctf_u64(ev, &c->f[RQ_RWBS]), c->of_tracer),
	};
	if (cpu->dirtied_bytes && cpu->dirtied_dev == dev && cpu->dirtied_sector == sector) {
		rq->dirtied_bytes = cpu->dirtied_bytes;
		cpu->dirtied_bytes = 0;
	}
	if (st->hooks[RUT_HOOK_WAKEUP].n)
		count_ahead(d, rq);
}

static void rq_complete(struct rut_state *st, const struct rut_ctf_event *ev,
			const struct rut_state_class *c)
{
	int64_t dev = rut_ctf_i64(ev, &c->f[RQ_DEV]);
	uint64_t sector = rut_ctf_u64(ev, &c->f[RQ_SECTOR]);
	struct rut_hook_block h = {.cpu = st->cpu};
	struct rut_cpu *cpu = rut_an_state_get_cpu(st, st->cpu);
	struct rut_block_rq *rq;
	struct rut_disk *d;

	if (!rut_ctf_u64(ev, &c->f[RQ_NR]))
		return;
	d = get_disk(st, unmap(st, dev, sector, true));
	rq = rut_map_get(&d->pending, sector + 1);
	if (!rq || rq->nr_sector != rut_ctf_u64(ev, &c->f[RQ_NR]))
		return;
	rq->end_ns = ev->ts_ns;
	cpu->disk_done = true;
	cpu->done_dev = d->dev;
	cpu->done_tid = rq->tid;
	cpu->done_ahead = rq->ahead;
	cpu->done_ahead_tid = rq->ahead_tid;
	h.disk = d;
	h.rq = rq;
	h.thread = rut_an_state_thread(st, rq->tid);
	rut_state_notify(st, RUT_HOOK_BLOCK_DONE, &h);
	rut_map_remove(&d->pending, sector + 1);
	rq->next = st->free_rqs;
	st->free_rqs = rq;
}

#define BLOCK                                                                                      \
	(RUT_HOOK_BIT(RUT_HOOK_BLOCK_DONE) | RUT_HOOK_BIT(RUT_HOOK_BLOCK_DIRTIED) |                \
	 RUT_HOOK_BIT(RUT_HOOK_DISK) | RUT_HOOK_BIT(RUT_HOOK_WAKEUP))

const struct rut_state_def rut_an_state_block_defs[] = {
	{"block_bio_remap", bio_remap, {"dev", "sector", "old_dev", "old_sector"}, BLOCK},
	{"block_bio_backmerge", bio_backmerge, {"dev", "sector"}, BLOCK},
	{"rutile_block_dirtied",
	 block_dirtied,
	 {"dev", "sector", "bytes", "tid", "pid", "comm", "inode", "filename"},
	 BLOCK},
	{"block_rq_insert", rq_insert, {"dev", "sector", "nr_sector", "tid"}, BLOCK},
	{"block_rq_issue", rq_issue, {"dev", "sector", "nr_sector", "tid", "rwbs"}, BLOCK},
	{"block_rq_complete", rq_complete, {"dev", "sector", "nr_sector"}, BLOCK},
	{NULL, NULL, {NULL}, 0},
};

/* ---- Statedumps ---- */

static void dump_disk(struct rut_state *st, const struct rut_ctf_event *ev,
		      const struct rut_state_class *c)
{
	struct rut_hook_disk h = {.dev = rut_ctf_i64(ev, &c->f[0]),
				  .name = rut_an_state_str(st, ev, &c->f[1])};
	struct rut_disk *d = get_disk(st, h.dev);

	if (!d->name)
		d->name = h.name;
	rut_state_notify(st, RUT_HOOK_DISK, &h);
}

static void dump_fd_of(struct rut_state *st, const struct rut_ctf_event *ev, int64_t pid,
		       const struct rut_fd *seen)
{
	struct rut_thread *t = rut_an_state_thread_new(st, pid);
	struct rut_fd *f;

	if (t->pid < 0) /* a thread with descriptors is a leader */
		t->pid = pid;
	f = rut_an_state_fd(t, seen->fd);
	if (f) {
		f->filename = seen->filename;
		if (f->type == RUT_FD_UNKNOWN || f->type == RUT_FD_MAYBE_NET)
			f->type = seen->type;
		rut_an_state_notify_fd(st, RUT_HOOK_FD_UPDATE, ev, t, seen->fd, ev->ts_ns);
		return;
	}
	f = rut_an_state_add_fd(st, t, seen->fd);
	f->filename = seen->filename;
	f->cloexec = seen->cloexec;
	f->type = seen->type;
	st->origin = RUT_FD_DUMPED;
	rut_an_state_notify_fd(st, RUT_HOOK_FD_CREATE, ev, t, seen->fd, ev->ts_ns);
	st->origin = RUT_FD_FOUND;
}

static struct rut_file_table *get_table(struct rut_state *st, uint64_t address)
{
	struct rut_file_table *t = rut_map_get(&st->tables, address);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t || rut_map_put(&st->tables, address, t)) {
		free(t);
		st->failed = true;
		return NULL;
	}
	return t;
}

/*
 * From LTTng 2.12 on descriptors are dumped once for each table of files, which threads and
 * processes share; the processes name their table. Either may come first.
 */
static void table_add_pid(struct rut_state *st, const struct rut_ctf_event *ev, uint64_t address,
			  int64_t pid)
{
	struct rut_file_table *t = get_table(st, address);
	int64_t *pids;

	for (size_t i = 0; t && i < t->n_pids; i++)
		if (t->pids[i] == pid)
			return;
	pids = t ? realloc(t->pids, (t->n_pids + 1) * sizeof(*pids)) : NULL;
	if (!pids) {
		st->failed = true;
		return;
	}
	t->pids = pids;
	pids[t->n_pids++] = pid;
	for (size_t i = 0; i < t->n_fds; i++)
		dump_fd_of(st, ev, pid, &t->fds[i]);
}

static void table_add_fd(struct rut_state *st, const struct rut_ctf_event *ev, uint64_t address,
			 const struct rut_fd *seen)
{
	struct rut_file_table *t = get_table(st, address);
	struct rut_fd *fds = t ? realloc(t->fds, (t->n_fds + 1) * sizeof(*fds)) : NULL;

	if (!fds) {
		st->failed = true;
		return;
	}
	t->fds = fds;
	fds[t->n_fds++] = *seen;
	for (size_t i = 0; i < t->n_pids; i++)
		dump_fd_of(st, ev, t->pids[i], seen);
}

enum { DFD_PID, DFD_FD, DFD_FILENAME, DFD_FLAGS, DFD_TABLE };

static void dump_fd(struct rut_state *st, const struct rut_ctf_event *ev,
		    const struct rut_state_class *c)
{
	struct rut_fd seen = {
		.fd = rut_ctf_i64(ev, &c->f[DFD_FD]),
		.filename = rut_an_state_str(st, ev, &c->f[DFD_FILENAME]),
		.cloexec = rut_ctf_u64(ev, &c->f[DFD_FLAGS]) & O_CLOEXEC,
	};

	seen.type = rut_an_state_fd_type_of(seen.filename);
	/* rutile writes both; a pid that is only in the context is the dumping thread's. */
	if (rut_ctf_ref_ok(&c->f[DFD_PID]) && c->f[DFD_PID].scope == RUT_CTF_SCOPE_PAYLOAD)
		dump_fd_of(st, ev, rut_ctf_i64(ev, &c->f[DFD_PID]), &seen);
	else if (rut_ctf_ref_ok(&c->f[DFD_TABLE]))
		table_add_fd(st, ev, rut_ctf_u64(ev, &c->f[DFD_TABLE]), &seen);
}

/* A thread that turns out not to be the leader gives its descriptors to the leader. */
static void give_fds(struct rut_state *st, struct rut_thread *from, struct rut_thread *to)
{
	size_t n;
	struct rut_fd **list = rut_an_state_fds(from, &n);

	for (size_t i = 0; i < n; i++) {
		if (!rut_an_state_fd(to, list[i]->fd)) {
			struct rut_fd *f = rut_an_state_add_fd(st, to, list[i]->fd);
			uint64_t seq = f->seq;

			*f = *list[i];
			f->seq = seq;
		}
		rut_an_state_remove_fd(st, from, list[i]->fd);
	}
	free(list);
}

enum { DPS_TID, DPS_PID, DPS_NAME, DPS_PRIO, DPS_TABLE };

static void dump_process(struct rut_state *st, const struct rut_ctf_event *ev,
			 const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_thread_new(st, rut_ctf_i64(ev, &c->f[DPS_TID]));
	int64_t pid = rut_ctf_i64(ev, &c->f[DPS_PID]);

	t->pid = pid;
	rut_an_state_rename(st, t, rut_an_state_str(st, ev, &c->f[DPS_NAME]));
	/* What scheduling events said of the priority is newer. */
	if (!t->has_prio && rut_ctf_ref_ok(&c->f[DPS_PRIO])) {
		t->has_prio = true;
		t->prio = (int32_t)rut_ctf_i64(ev, &c->f[DPS_PRIO]);
	}
	if (pid >= 0 && pid != t->tid) {
		struct rut_hook_parent h = {t, rut_an_state_leader(st, t)};

		give_fds(st, t, h.parent);
		rut_state_notify(st, RUT_HOOK_PARENT, &h);
	}
	if (rut_ctf_ref_ok(&c->f[DPS_TABLE]) && rut_ctf_u64(ev, &c->f[DPS_TABLE]))
		table_add_pid(st, ev, rut_ctf_u64(ev, &c->f[DPS_TABLE]), pid);
}

static void dump_cgroup(struct rut_state *st, const struct rut_ctf_event *ev,
			const struct rut_state_class *c)
{
	struct rut_thread *t = rut_an_state_thread_new(st, rut_ctf_i64(ev, &c->f[0]));

	t->cgroup = rut_an_state_str(st, ev, &c->f[1]);
}

const struct rut_state_def rut_an_state_dump_defs[] = {
	{"lttng_statedump_block_device", dump_disk, {"dev", "diskname"}},
	{"lttng_statedump_file_descriptor",
	 dump_fd,
	 {"pid", "fd", "filename", "flags", "file_table_address"}},
	{"lttng_statedump_process_state",
	 dump_process,
	 {"tid", "pid", "name", "prio", "file_table_address"}},
	{"rutile_statedump_cgroup", dump_cgroup, {"tid", "path"}},
	{"rutile_syscall_string", rut_an_state_sys_string, {"value"}, RUT_STATE_SERVES_IO},
	{NULL, NULL, {NULL}, 0},
};
