/* SPDX-License-Identifier: MIT */
/* iolatencystats, iolatencyfreq, iolatencytop, iolog, iousagetop: what is kept of requests. */
#include "analysis/an_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Processes and descriptors ---- */

static struct rut_io_proc *get_proc(struct rut_io *io, const struct rut_thread *t)
{
	struct rut_io_proc *p = rut_an_ordered_add(&io->procs, (uint64_t)t->tid, sizeof(*p));

	if (p && !p->is_init) {
		p->is_init = true;
		p->index = io->procs.n;
		p->tid = t->tid;
		p->pid = t->pid;
		p->comm = t->comm;
	}
	return p;
}

/*
 * A binary search by time of opening. It stops at the first life that is still open, as the
 * reference does: a request on an earlier life of such a descriptor may go unnamed.
 */
static struct rut_io_fd *life_at(struct rut_io_fds *fds, int64_t ts_ns)
{
	struct rut_io_fd *lives = fds->lives;
	size_t n = fds->n;

	while (n) {
		size_t middle = n / 2;
		struct rut_io_fd *f = &lives[middle];

		if (f->close_ns == RUT_NO_TIME)
			return ts_ns >= f->open_ns ? f : NULL;
		if (ts_ns >= f->open_ns && ts_ns <= f->close_ns)
			return f;
		if (ts_ns < f->open_ns) {
			n = middle;
		} else {
			lives += middle + 1;
			n -= middle + 1;
		}
	}
	return NULL;
}

/* The life that is not over. NULL: none. */
static struct rut_io_fd *open_life(const struct rut_io_fds *fds)
{
	struct rut_io_fd *last = fds && fds->n ? &fds->lives[fds->n - 1] : NULL;

	return last && last->close_ns == RUT_NO_TIME ? last : NULL;
}

struct rut_io_fd *rut_an_io_proc_fd(const struct rut_io_proc *p, int64_t fd, int64_t ts_ns)
{
	struct rut_io_fds *fds = rut_ordered_get(&p->fds, (uint64_t)fd);

	return fds ? life_at(fds, ts_ns) : NULL;
}

/*
 * Lives that are over are kept where a list of requests is wanted, which names the file of each;
 * for the usage only one for each file, so that memory does not grow with every open.
 */
static struct rut_io_fd *new_life(struct rut_io *io, struct rut_io_fds *fds)
{
	const struct rut_conf *c = io->base.run->conf;
	struct rut_io_fd *last = fds->n ? &fds->lives[fds->n - 1] : NULL;

	if (last && last->close_ns != RUT_NO_TIME && !c->log && !c->top) {
		uintptr_t name = (uintptr_t)last->filename;
		size_t i;

		if (!c->usage)
			return last;
		i = (size_t)(uintptr_t)rut_map_get(&fds->by_name, name);
		if (i && i < fds->n) {
			fds->lives[i - 1].bytes[0] += last->bytes[0];
			fds->lives[i - 1].bytes[1] += last->bytes[1];
			return last;
		}
		if (rut_map_put(&fds->by_name, name, (void *)(uintptr_t)fds->n))
			return NULL;
	}
	if (fds->n == fds->cap) {
		size_t cap = fds->cap ? fds->cap * 2 : 4;
		void *lives = realloc(fds->lives, cap * sizeof(*fds->lives));

		if (!lives)
			return NULL;
		fds->lives = lives;
		fds->cap = cap;
	}
	return &fds->lives[fds->n++];
}

static void fini_lives(struct rut_io_fds *fds)
{
	free(fds->lives);
	rut_map_fini(&fds->by_name);
}

static void open_fd(struct rut_io *io, struct rut_io_proc *p, const struct rut_hook_fd *h)
{
	struct rut_io_fds *fds = rut_an_ordered_add(&p->fds, (uint64_t)h->fd, sizeof(*fds));
	struct rut_io_fd *f = fds ? new_life(io, fds) : NULL;

	if (!f) {
		io->base.run->engine->state.failed = true;
		return;
	}
	fds->fd = h->fd;
	*f = (struct rut_io_fd){
		.filename = h->info ? h->info->filename : "",
		.type = h->info ? h->info->type : RUT_FD_UNKNOWN,
		.open_ns = h->ts_ns,
		.close_ns = RUT_NO_TIME,
	};
}

static void on_fd_create(void *arg, const void *data)
{
	const struct rut_hook_fd *h = data;
	struct rut_io *io = arg;
	struct rut_io_proc *p = get_proc(io, h->parent);

	if (p)
		open_fd(io, p, h);
}

static void on_fd_close(void *arg, const void *data)
{
	const struct rut_hook_fd *h = data;
	struct rut_io *io = arg;
	struct rut_io_proc *p = rut_ordered_get(&io->procs, (uint64_t)h->parent->tid);
	struct rut_io_fd *f = p ? open_life(rut_ordered_get(&p->fds, (uint64_t)h->fd)) : NULL;

	if (f)
		f->close_ns = h->ts_ns;
}

static void on_fd_update(void *arg, const void *data)
{
	const struct rut_hook_fd *h = data;
	struct rut_io *io = arg;
	struct rut_io_proc *p = get_proc(io, h->parent);
	struct rut_io_fds *fds;

	if (!p || !h->info)
		return;
	fds = rut_ordered_get(&p->fds, (uint64_t)h->fd);
	if (!fds || !fds->n) {
		open_fd(io, p, h);
	} else {
		fds->lives[fds->n - 1].filename = h->info->filename;
		fds->lives[fds->n - 1].type = h->info->type;
	}
}

/* The thread's descriptors are its leader's. */
static void on_parent(void *arg, const void *data)
{
	const struct rut_hook_parent *h = data;
	struct rut_io *io = arg;
	struct rut_io_proc *p = get_proc(io, h->thread), *leader = get_proc(io, h->parent);

	if (!p || !leader)
		return;
	p->pid = leader->tid;
	for (size_t i = 0; i < p->fds.n; i++) {
		struct rut_io_fds *from = p->fds.items[i];
		struct rut_io_fds *to = rut_ordered_get(&leader->fds, (uint64_t)from->fd);

		if (to) {
			fini_lives(from);
			continue;
		}
		to = rut_an_ordered_add(&leader->fds, (uint64_t)from->fd, sizeof(*to));
		if (to)
			*to = *from;
		else
			fini_lives(from);
	}
	rut_an_ordered_fini(&p->fds);
}

/* ---- Requests ---- */

enum { OPT_MIN_SIZE = RUT_ANALYSIS_OPT, OPT_MAX_SIZE, OPT_SPLICE };

static const struct rut_opt options[] = {
	{"minsize", "BYTES", "leave out smaller requests", OPT_MIN_SIZE},
	{"maxsize", "BYTES", "leave out larger ones", OPT_MAX_SIZE},
	{"splice", NULL, "count splice and sendfile too", OPT_SPLICE},
	{0},
};

struct own {
	bool has_min_size, has_max_size;
	double min_size, max_size; /* bytes */
	bool splice;
};

static int option(void *own, int id, const char *value)
{
	struct own *o = own;
	double bytes;
	char *end;

	if (id == OPT_SPLICE) {
		o->splice = true;
		return 0;
	}
	bytes = strtod(value, &end);
	if (end == value || *end)
		return -EINVAL;
	*(id == OPT_MIN_SIZE ? &o->has_min_size : &o->has_max_size) = true;
	*(id == OPT_MIN_SIZE ? &o->min_size : &o->max_size) = bytes;
	return 0;
}

static int run_init(struct rut_run *run)
{
	const struct own *o = run->conf->own;

	run->engine->state.count_splice = o && o->splice;
	return 0;
}

static bool passes_size(const struct own *o, int64_t size)
{
	if (!o)
		return true;
	return !(o->has_min_size && (double)size < o->min_size) &&
	       !(o->has_max_size && (double)size > o->max_size);
}

static bool passes_time(const struct rut_conf *c, int64_t ns, bool has_size, int64_t size)
{
	if (c->has_max && (double)ns > c->max_ns)
		return false;
	if (c->has_min && (double)ns < c->min_ns)
		return false;
	return !has_size || passes_size(c->own, size);
}

/* Longest or earliest first; equal ones by process, in the order that these were seen. */
static int compare_rows(const struct rut_io_row *x, const struct rut_io_row *y, int64_t kx,
			int64_t ky)
{
	if (kx != ky)
		return kx < ky ? -1 : 1;
	if (x->proc->index != y->proc->index)
		return x->proc->index < y->proc->index ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int by_duration(const void *a, const void *b)
{
	const struct rut_io_row *x = a, *y = b;

	return compare_rows(x, y, x->begin_ns - x->end_ns, y->begin_ns - y->end_ns);
}

static int by_begin(const void *a, const void *b)
{
	const struct rut_io_row *x = a, *y = b;

	return compare_rows(x, y, x->begin_ns, y->begin_ns);
}

void rut_an_io_sort(struct rut_io *io, struct rut_io_rows *rows, bool duration, int64_t limit)
{
	(void)io;
	if (rows->n)
		qsort(rows->rows, rows->n, sizeof(*rows->rows), duration ? by_duration : by_begin);
	if (limit >= 0 && rows->n > (size_t)limit)
		rows->n = (size_t)limit;
}

static void add_row(struct rut_io *io, struct rut_io_rows *rows, const struct rut_io_row *row,
		    int64_t limit)
{
	if (rows->n == rows->cap) {
		size_t cap = rows->cap ? rows->cap * 2 : 256;
		void *grown;

		/* Of the longest only some are wanted. */
		if (rows->n && limit >= 0 && rows->n >= 2 * (size_t)limit + 128) {
			rut_an_io_sort(io, rows, true, limit);
			cap = rows->cap;
		}
		grown = realloc(rows->rows, cap * sizeof(*rows->rows));
		if (!grown) {
			io->base.run->engine->state.failed = true;
			return;
		}
		rows->rows = grown;
		rows->cap = cap;
	}
	rows->rows[rows->n++] = *row;
}

static void count_category(struct rut_io *io, int cat, const struct rut_io_row *row)
{
	const struct rut_conf *c = io->base.run->conf;

	rut_stat_add(&io->latency[cat], row->end_ns - row->begin_ns);
	if (c->top)
		add_row(io, &io->top[cat], row, c->limit < 0 ? 0 : c->limit);
}

static void count_request(struct rut_io *io, struct rut_io_proc *p, const struct rut_hook_io *h)
{
	const struct rut_conf *c = io->base.run->conf;
	const struct rut_io_rq *rq = h->rq;
	struct rut_io_row row = {
		.begin_ns = rq->begin_ns,
		.end_ns = rq->end_ns,
		.has_size = rq->has_size,
		.size = rq->size,
		.has_fd = rq->has_fd,
		.fd = rq->fd,
		.proc = p,
		.name = h->info->name,
		.seq = io->seq++,
	};

	if (!passes_time(c, rq->end_ns - rq->begin_ns, rq->has_size, rq->size))
		return;
	if (rq->op == RUT_IO_OPEN)
		count_category(io, RUT_IO_CAT_OPEN, &row);
	if (rq->op == RUT_IO_READ || rq->op == RUT_IO_READ_WRITE)
		count_category(io, RUT_IO_CAT_READ, &row);
	if (rq->op == RUT_IO_WRITE || rq->op == RUT_IO_READ_WRITE)
		count_category(io, RUT_IO_CAT_WRITE, &row);
	if (rq->op == RUT_IO_SYNC)
		count_category(io, RUT_IO_CAT_SYNC, &row);
	if (c->log)
		add_row(io, &io->log, &row, -1);
}

static void add_bytes(struct rut_io_proc *p, enum rut_fd_type type, int write, int64_t bytes)
{
	if (type == RUT_FD_DISK)
		p->disk[write] += bytes;
	else if (type == RUT_FD_NET || type == RUT_FD_MAYBE_NET)
		p->net[write] += bytes;
	else
		p->unknown[write] += bytes;
}

/* Bytes go to the thread; which file they were in is known by the leader. */
static void count_bytes(struct rut_io_proc *p, struct rut_io_fd *const fds[2],
			const struct rut_io_rq *rq)
{
	if (!rq->has_size || rq->error || !fds[0] || !fds[1])
		return;
	if (rq->op == RUT_IO_READ || rq->op == RUT_IO_READ_WRITE) {
		add_bytes(p, fds[0]->type, 0, rq->size);
		fds[0]->bytes[0] += rq->size;
	}
	if (rq->op == RUT_IO_WRITE || rq->op == RUT_IO_READ_WRITE) {
		add_bytes(p, fds[1]->type, 1, rq->size);
		fds[1]->bytes[1] += rq->size;
	}
}

/*
 * The descriptor of a request. What was open when the interval began is known to the model, not yet
 * here.
 */
static struct rut_io_fd *learn_fd(struct rut_io *io, struct rut_io_proc *leader,
				  const struct rut_hook_io *h, int64_t fd)
{
	struct rut_hook_fd known = {.ts_ns = io->base.begin_ns, .parent = h->parent, .fd = fd};
	struct rut_io_fds *fds = rut_ordered_get(&leader->fds, (uint64_t)fd);

	if (fds)
		return open_life(fds);
	known.info = rut_an_state_fd(h->parent, fd);
	if (!known.info)
		return NULL;
	open_fd(io, leader, &known);
	return open_life(rut_ordered_get(&leader->fds, (uint64_t)fd));
}

static void on_io_exit(void *arg, const void *data)
{
	const struct rut_hook_io *h = data;
	const struct rut_io_rq *rq = h->rq;
	struct rut_io *io = arg;
	const struct rut_conf *c = io->base.run->conf;
	const struct rut_thread *row;
	struct rut_io_proc *p, *leader;
	struct rut_io_fd *fds[2] = {NULL, NULL};

	row = rut_an_run_row(io->base.run, h->thread);
	p = get_proc(io, row);
	leader = get_proc(io, h->parent);
	if (!p || !leader)
		return;
	if (!rut_an_conf_cpu(c, h->cpu) || !rut_an_conf_thread(c, h->thread))
		return;
	if (rq->has_fd)
		fds[0] = fds[1] = learn_fd(io, leader, h, rq->fd);
	if (rq->has_fds) {
		(void)learn_fd(io, leader, h, rq->fd_in);
		fds[1] = learn_fd(io, leader, h, rq->fd_out);
		/* Learning the second may move the first. */
		fds[0] = learn_fd(io, leader, h, rq->fd_in);
	}
	if (!rq->error && rq->is_transfer && (!fds[0] || !fds[1]))
		return;
	count_request(io, p, h);
	count_bytes(p, fds, rq);
	p->comm = row->comm;
	leader->comm = h->parent->comm;
}

/* ---- Disks and interfaces ---- */

static struct rut_io_disk *get_disk(struct rut_io *io, int64_t dev, const char *name)
{
	struct rut_io_disk *d = rut_an_ordered_add(&io->disks, (uint64_t)dev, sizeof(*d));

	if (d && !d->is_init) {
		d->is_init = true;
		d->dev = dev;
		d->name = name;
		if (rut_an_stat_init(&d->latency, rut_an_stat_keep(io->base.run->conf)))
			io->base.run->engine->state.failed = true;
	}
	return d;
}

/* Workers of the kernel issue these: they are charged to the thread that put them into the queue.
 */
static void count_no_data(struct rut_io *io, const struct rut_hook_block *h, int64_t duration)
{
	int64_t tid = h->rq->owner_tid;
	struct rut_thread *t = rut_an_state_thread(&io->base.run->engine->state, tid);
	struct rut_io_no_data *r;
	uint64_t key;

	if (t) {
		t = rut_an_run_row(io->base.run, t);
		tid = t->tid;
	}
	key = rut_hash_u64((uint64_t)h->disk->dev) ^ (uint64_t)tid * 8 ^ h->rq->op;
	r = rut_an_ordered_add(&io->no_data, key, sizeof(*r));
	if (!r)
		return;
	r->dev = h->disk->dev;
	r->disk = h->disk->name;
	r->tid = tid;
	r->comm = t ? t->comm : NULL;
	r->op = h->rq->op;
	r->requests++;
	r->sectors += h->rq->nr_sector;
	r->total_ns += duration;
	if (duration > r->max_ns)
		r->max_ns = duration;
}

static void on_block(void *arg, const void *data)
{
	const struct rut_hook_block *h = data;
	struct rut_io *io = arg;
	const struct rut_conf *c = io->base.run->conf;
	int64_t duration = h->rq->end_ns - h->rq->begin_ns;
	int64_t bytes = (int64_t)h->rq->nr_sector * 512;
	struct rut_io_disk *d;
	struct rut_io_proc *p;

	if (!rut_an_conf_cpu(c, h->cpu) || !rut_an_conf_thread(c, h->thread) ||
	    (!h->thread && (c->n_tids || c->n_pids || c->n_procnames)))
		return;
	if (!rut_block_moves_data(h->rq->op)) {
		count_no_data(io, h, duration);
		return;
	}
	d = get_disk(io, h->disk->dev, h->disk->name);
	p = h->thread ? get_proc(io, rut_an_run_row(io->base.run, h->thread)) : NULL;
	if (d) {
		d->requests++;
		d->sectors += h->rq->nr_sector;
		d->total_ns += duration;
		if (passes_time(c, duration, true, bytes))
			rut_stat_add(&d->latency, duration);
	}
	if (h->rq->op == RUT_BLOCK_WRITE)
		bytes -= (int64_t)h->rq->dirtied_bytes;
	if (p && bytes > 0)
		p->block[h->rq->op == RUT_BLOCK_WRITE] += bytes;
}

/* What reaches the disk later is the doing of the thread that changed the pages. */
static void on_dirtied(void *arg, const void *data)
{
	const struct rut_hook_dirtied *h = data;
	struct rut_io *io = arg;
	const struct rut_conf *c = io->base.run->conf;
	struct rut_io_written *w;
	struct rut_io_proc *p;

	if (!rut_an_conf_cpu(c, h->cpu) || !rut_an_conf_thread(c, h->thread))
		return;
	p = get_proc(io, rut_an_run_row(io->base.run, h->thread));
	if (p)
		p->block[1] += (int64_t)h->bytes;
	/* Names are interned; address and inode identify a file. */
	w = rut_an_ordered_add(&io->written, ((uint64_t)(uintptr_t)h->name << 16) ^ h->inode,
			       sizeof(*w));
	if (!w)
		return;
	w->name = h->name;
	w->inode = h->inode;
	w->bytes += (int64_t)h->bytes;
}

static void on_disk(void *arg, const void *data)
{
	const struct rut_hook_disk *h = data;
	struct rut_io_disk *d = get_disk(arg, h->dev, h->name);

	if (d)
		d->name = h->name;
}

static void on_net(void *arg, const void *data)
{
	const struct rut_hook_net *h = data;
	struct rut_io *io = arg;
	/* Names are interned: the address identifies them. */
	struct rut_io_iface *i =
		rut_an_ordered_add(&io->ifaces, (uint64_t)(uintptr_t)h->iface, sizeof(*i));

	if (!i)
		return;
	i->name = h->iface;
	i->bytes[!h->received] += h->bytes;
}

/* A row has the last name of its thread. */
RUT_DEFINE_NAME_HOOK(on_name, struct rut_io, procs, struct rut_io_proc, tid);

static const struct rut_analysis_hook hooks[] = {
	{RUT_HOOK_IO_EXIT, on_io_exit},
	{RUT_HOOK_FD_CREATE, on_fd_create},
	{RUT_HOOK_FD_CLOSE, on_fd_close},
	{RUT_HOOK_FD_UPDATE, on_fd_update},
	{RUT_HOOK_PARENT, on_parent},
	{RUT_HOOK_BLOCK_DONE, on_block},
	{RUT_HOOK_BLOCK_DIRTIED, on_dirtied},
	{RUT_HOOK_DISK, on_disk},
	{RUT_HOOK_NET, on_net},
	{RUT_HOOK_NAME, on_name},
	{0, NULL},
};

/* ---- Life ---- */

static int init(struct rut_instance *inst)
{
	struct rut_io *io = (struct rut_io *)inst;
	int r = 0;

	io->procs.by_tid = !inst->period;
	for (int i = 0; i < RUT_IO_CATS && !r; i++)
		r = rut_an_stat_init(&io->latency[i], rut_an_stat_keep(inst->run->conf));
	return r;
}

static void fini(struct rut_instance *inst)
{
	struct rut_io *io = (struct rut_io *)inst;

	for (size_t i = 0; i < io->procs.n; i++) {
		struct rut_io_proc *p = io->procs.items[i];

		for (size_t k = 0; k < p->fds.n; k++)
			fini_lives(p->fds.items[k]);
		rut_an_ordered_fini(&p->fds);
	}
	for (size_t i = 0; i < io->disks.n; i++)
		rut_an_stat_fini(&((struct rut_io_disk *)io->disks.items[i])->latency);
	rut_an_ordered_fini(&io->procs);
	rut_an_ordered_fini(&io->disks);
	rut_an_ordered_fini(&io->ifaces);
	rut_an_ordered_fini(&io->written);
	rut_an_ordered_fini(&io->no_data);
	for (int i = 0; i < RUT_IO_CATS; i++) {
		rut_an_stat_fini(&io->latency[i]);
		free(io->top[i].rows);
	}
	free(io->log.rows);
}

/* Only the tables of bytes have rows of threads. */
static int check(const struct rut_conf *c, struct rut_err *err)
{
	if (!c->by || (c->usage && !c->stats && !c->freq && !c->log && !c->top))
		return 0;
	return rut_err_set(err, EINVAL, "--by %s works only with --usage", c->by);
}

static const char *const tags[] = {
	"linux-kernel", "lttng-analyses", "io", "syscall", "stats", "freq", "log", "top", NULL};
static const struct rut_lami_class *const classes[] = {
	&rut_an_class_percentiles, &rut_an_io_stats_class,
	&rut_an_io_disk_class,	   &rut_an_io_freq_class,
	&rut_an_io_top_class,	   &rut_an_io_log_class,
	&rut_an_io_proc_class,	   &rut_an_io_file_class,
	&rut_an_io_block_class,	   &rut_an_io_sector_class,
	&rut_an_io_request_class,  &rut_an_io_rtps_class,
	&rut_an_io_netif_class,	   &rut_an_io_written_class,
	&rut_an_io_no_data_class,  NULL};

static const char *const needs[] = {"*syscall_entry_*", "*sys_*",	    "block_rq_*",
				    "net_dev_xmit",	"net*_receive_skb", NULL};

const struct rut_analysis rut_analysis_io = {
	.info = {"I/O analysis",
		 "System call/disk latency statistics, system call latency distribution, system "
		 "call top latencies, I/O usage top, and I/O operations log",
		 tags, classes},
	.options = options,
	.own_size = sizeof(struct own),
	.option = option,
	.check = check,
	.run_init = run_init,
	.needs = needs,
	.needs_threads = true,
	.report_needs = {"*syscall_entry_*", "sys_*", "block_rq_*"},
	.instance_size = sizeof(struct rut_io),
	.hooks = hooks,
	.init = init,
	.report = rut_an_io_report,
	.fini = fini,
};
