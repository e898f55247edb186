/* SPDX-License-Identifier: MIT */
/* iousagetop: bytes by process, file, disk and network interface. */
#include "analysis/an_io.h"

#include <stdio.h>
#include <string.h>

#include "analysis/fmt.h"

static const struct rut_lami_column proc_columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"size", "Total operations size", RUT_LAMI_SIZE, NULL},
	{"disk_size", "Disk operations size", RUT_LAMI_SIZE, NULL},
	{"net_size", "Network operations size", RUT_LAMI_SIZE, NULL},
	{"unknown_size", "Unknown operations size", RUT_LAMI_SIZE, NULL},
};
static const struct rut_lami_column file_columns[] = {
	{"path", "File path/info", RUT_LAMI_PATH, NULL},
	{"size", "Operations size", RUT_LAMI_SIZE, NULL},
	{"fd_owners", "File descriptor owners", RUT_LAMI_STRING, NULL},
};
static const struct rut_lami_column block_columns[] = {
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"size", "Operations size", RUT_LAMI_SIZE, NULL},
};
static const struct rut_lami_column sector_columns[] = {
	{"disk", "Disk", RUT_LAMI_DISK, NULL},
	{"count", "Sector count", RUT_LAMI_NUMBER, "sectors"},
};
static const struct rut_lami_column request_columns[] = {
	{"disk", "Disk", RUT_LAMI_DISK, NULL},
	{"count", "Request count", RUT_LAMI_NUMBER, "I/O requests"},
};
static const struct rut_lami_column rtps_columns[] = {
	{"disk", "Disk", RUT_LAMI_DISK, NULL},
	{"rtps", "Request time/sector", RUT_LAMI_DURATION, NULL},
};
static const struct rut_lami_column netif_columns[] = {
	{"netif", "Network interface", RUT_LAMI_NETIF, NULL},
	{"size", "Operations size", RUT_LAMI_SIZE, NULL},
};
static const struct rut_lami_column written_columns[] = {
	{"path", "File name", RUT_LAMI_PATH, NULL},
	{"inode", "Inode", RUT_LAMI_NUMBER, NULL},
	{"size", "Written to a disk", RUT_LAMI_SIZE, NULL},
};

static const struct rut_lami_column no_data_columns[] = {
	{"disk", "Disk", RUT_LAMI_DISK, NULL},
	{"operation", "Operation", RUT_LAMI_STRING, NULL},
	{"process", "Process", RUT_LAMI_PROCESS, NULL},
	{"count", "Request count", RUT_LAMI_NUMBER, "I/O requests"},
	{"size", "Size of the range", RUT_LAMI_SIZE, NULL},
	{"avg_latency", "Average latency", RUT_LAMI_DURATION, NULL},
	{"max_latency", "Maximum latency", RUT_LAMI_DURATION, NULL},
};

const struct rut_lami_class rut_an_io_no_data_class =
	RUT_LAMI_CLASS("per-disk-no-data", "Disk requests that move no data", no_data_columns);
const struct rut_lami_class rut_an_io_written_class =
	RUT_LAMI_CLASS("per-file-top-block", "Per-file top block I/O operations", written_columns);
const struct rut_lami_class rut_an_io_proc_class =
	RUT_LAMI_CLASS("per-process-top", "Per-process top I/O operations", proc_columns);
const struct rut_lami_class rut_an_io_file_class =
	RUT_LAMI_CLASS("per-file-top", "Per-file top I/O operations", file_columns);
const struct rut_lami_class rut_an_io_block_class = RUT_LAMI_CLASS(
	"per-process-top-block", "Per-process top block I/O operations", block_columns);
const struct rut_lami_class rut_an_io_sector_class =
	RUT_LAMI_CLASS("per-disk-top-sector", "Per-disk top sector I/O operations", sector_columns);
const struct rut_lami_class rut_an_io_request_class =
	RUT_LAMI_CLASS("per-disk-top-request", "Per-disk top I/O requests", request_columns);
const struct rut_lami_class rut_an_io_rtps_class =
	RUT_LAMI_CLASS("per-disk-top-rps", "Per-disk top I/O request time/sector", rtps_columns);
const struct rut_lami_class rut_an_io_netif_class =
	RUT_LAMI_CLASS("per-netif-top", "Per-network interface top I/O operations", netif_columns);

static const char *const did[] = {"read", "written"};
static const char *const Did[] = {"Read", "Write"};

/* As many as the limit says; a limit of 0 or less ends after the first. */
static bool enough(const struct rut_io *io, size_t rows)
{
	return (int64_t)rows >= io->base.run->conf->limit;
}

/* ---- Processes ---- */

static int64_t total(const struct rut_io_proc *p, int w)
{
	return p->disk[w] + p->net[w] + p->unknown[w];
}

static int descending(int64_t x, int64_t y)
{
	return x > y ? -1 : x < y;
}

static int by_read(const void *a, const void *b)
{
	return descending(total(a, 0), total(b, 0));
}

static int by_written(const void *a, const void *b)
{
	return descending(total(a, 1), total(b, 1));
}

static int by_block_read(const void *a, const void *b)
{
	return descending(((const struct rut_io_proc *)a)->block[0],
			  ((const struct rut_io_proc *)b)->block[0]);
}

static int by_block_written(const void *a, const void *b)
{
	return descending(((const struct rut_io_proc *)a)->block[1],
			  ((const struct rut_io_proc *)b)->block[1]);
}

/* A statedump may have come after what the process did first. */
static int64_t late_pid(struct rut_io *io, const struct rut_io_proc *p)
{
	int64_t pid = rut_an_state_pid(&io->base.run->engine->state, p->tid, p->pid);

	return pid >= 0 ? pid : RUT_LAMI_NONE;
}

/* With --by cgroup, processes have no rows, but keep their descriptors. */
static bool has_row(const struct rut_io *io, const struct rut_io_proc *p)
{
	const char *by = io->base.run->conf->by;

	return !by || strcmp(by, "cgroup") != 0 || p->tid <= 0;
}

static struct rut_result *proc_table(struct rut_io *io, int w, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_io_proc_class, io->base.begin_ns, end_ns, did[w]);
	struct rut_io_proc **list =
		(struct rut_io_proc **)rut_an_ordered_sorted(&io->procs, w ? by_written : by_read);

	for (size_t i = 0; t && list && i < io->procs.n; i++) {
		const struct rut_io_proc *p = list[i];

		if (!has_row(io, p))
			continue;
		rut_an_result_process(t, p->comm, late_pid(io, p), p->tid);
		rut_an_result_int(t, RUT_LAMI_SIZE, total(p, w));
		rut_an_result_int(t, RUT_LAMI_SIZE, p->disk[w]);
		rut_an_result_int(t, RUT_LAMI_SIZE, p->net[w]);
		rut_an_result_int(t, RUT_LAMI_SIZE, p->unknown[w]);
		if (enough(io, rut_result_rows(t)))
			break;
	}
	free(list);
	return t;
}

static struct rut_result *block_table(struct rut_io *io, int w, int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_io_block_class, io->base.begin_ns, end_ns, did[w]);
	struct rut_io_proc **list = (struct rut_io_proc **)rut_an_ordered_sorted(
		&io->procs, w ? by_block_written : by_block_read);

	for (size_t i = 0; t && list && i < io->procs.n; i++) {
		const struct rut_io_proc *p = list[i];

		if (!p->block[w])
			continue;
		rut_an_result_process(t, *p->comm ? p->comm : NULL, late_pid(io, p), p->tid);
		rut_an_result_int(t, RUT_LAMI_SIZE, p->block[w]);
		if (enough(io, rut_result_rows(t)))
			break;
	}
	free(list);
	return t;
}

/* " (1234)", or " (pid=1234)"; of a group of threads nothing. */
static void pid_text(char *out, size_t size, const struct rut_cell *proc, const char *label)
{
	if (proc->i != RUT_LAMI_NONE)
		snprintf(out, size, " (%s%lld)", label, (long long)proc->i);
	else if (proc->j != RUT_LAMI_NONE)
		snprintf(out, size, " (%sunknown (tid=%lld))", label, (long long)proc->j);
	else
		*out = 0;
}

static void print_procs(const struct rut_result *t, struct rut_buf *out, const char *title)
{
	struct rut_graph g = {0};
	struct rut_buf header = RUT_BUF_INIT, label = RUT_BUF_INIT;
	char value[48], name[160], pid[64], sizes[3][40];

	rut_an_fmt_line(&header, "{:<25} {:<10} {:<10} {:<10}", "Process", "Disk", "Net",
			"Unknown");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		pid_text(pid, sizeof(pid), &row[0], "");
		snprintf(name, sizeof(name), "%s%s", row[0].str ? row[0].str : "", pid);
		for (int k = 0; k < 3; k++)
			rut_an_fmt_size(sizes[k], sizeof(sizes[k]), (double)row[2 + k].i);
		rut_buf_clear(&label);
		rut_an_fmt_line(&label, "{:<25} {:>10} {:>10} {:>10}", name, sizes[0], sizes[1],
				sizes[2]);
		rut_an_fmt_size(value, sizeof(value), (double)row[1].i);
		rut_an_graph_add(&g, (double)row[1].i, value, 0, label.data);
	}
	rut_an_graph_bars(&g, out, title, header.data);
	rut_buf_fini(&header);
	rut_buf_fini(&label);
}

static void print_blocks(const struct rut_result *t, struct rut_buf *out, const char *title)
{
	struct rut_graph g = {0};
	char value[48], label[160], pid[64];

	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		pid_text(pid, sizeof(pid), &row[0], "pid=");
		snprintf(label, sizeof(label), "%s%s", row[0].str ? row[0].str : "unknown", pid);
		rut_an_fmt_size(value, sizeof(value), (double)row[1].i);
		rut_an_graph_add(&g, (double)row[1].i, value, 0, label);
	}
	rut_an_graph_bars(&g, out, title, "Process");
}

/* ---- Files ---- */

struct owner {
	int64_t pid, fd;
};

struct file_stats {
	const char *name; /* in the strings */
	int64_t bytes[2];
	struct owner *owners; /* owned */
	size_t n_owners;
};

struct files {
	struct rut_strtab names;
	struct rut_ordered list;
};

/* Equal names of several processes are distinguished by the name of the process. */
static bool is_generic(const char *name)
{
	static const char *const generic[] = {"pipe", "socket", "anon_inode", "unknown"};

	for (size_t i = 0; i < sizeof(generic) / sizeof(*generic); i++)
		if (!strncmp(name, generic[i], strlen(generic[i])))
			return true;
	return false;
}

static void add_owner(struct file_stats *f, int64_t pid, int64_t fd)
{
	struct owner *owners;

	for (size_t i = 0; i < f->n_owners; i++)
		if (f->owners[i].pid == pid)
			return;
	owners = realloc(f->owners, (f->n_owners + 1) * sizeof(*owners));
	if (!owners)
		return;
	f->owners = owners;
	owners[f->n_owners++] = (struct owner){pid, fd};
}

static void add_life(struct files *files, const struct rut_io_proc *p, int64_t fd,
		     const struct rut_io_fd *life)
{
	struct rut_buf name = RUT_BUF_INIT;
	struct file_stats *f;
	int64_t id;

	rut_buf_puts(&name, life->filename);
	if (is_generic(life->filename))
		rut_buf_printf(&name, " (%s)", p->comm);
	id = rut_strtab_intern(&files->names, name.data, name.len);
	rut_buf_fini(&name);
	f = id < 0 ? NULL : rut_an_ordered_add(&files->list, (uint64_t)id, sizeof(*f));
	if (!f)
		return;
	f->name = files->names.strs[id].data;
	f->bytes[0] += life->bytes[0];
	f->bytes[1] += life->bytes[1];
	add_owner(f, p->pid >= 0 ? p->pid : p->tid, fd);
}

static void collect_files(struct rut_io *io, struct files *files)
{
	for (size_t i = 0; i < io->procs.n; i++) {
		const struct rut_io_proc *p = io->procs.items[i];

		for (size_t k = 0; k < p->fds.n; k++) {
			const struct rut_io_fds *fds = p->fds.items[k];

			for (size_t l = 0; l < fds->n; l++)
				add_life(files, p, fds->fd, &fds->lives[l]);
		}
	}
}

static void free_files(struct files *files)
{
	for (size_t i = 0; i < files->list.n; i++)
		free(((struct file_stats *)files->list.items[i])->owners);
	rut_an_ordered_fini(&files->list);
	rut_strtab_fini(&files->names);
}

static int by_file_read(const void *a, const void *b)
{
	return descending(((const struct file_stats *)a)->bytes[0],
			  ((const struct file_stats *)b)->bytes[0]);
}

static int by_file_written(const void *a, const void *b)
{
	return descending(((const struct file_stats *)a)->bytes[1],
			  ((const struct file_stats *)b)->bytes[1]);
}

static void add_owners(const struct rut_io *io, const struct file_stats *f, struct rut_result *t)
{
	struct rut_buf b = RUT_BUF_INIT;

	rut_buf_puts(&b, "");
	for (size_t i = 0; i < f->n_owners; i++) {
		const struct rut_io_proc *p =
			rut_ordered_get(&io->procs, (uint64_t)f->owners[i].pid);

		rut_buf_printf(&b, "fd %lld in %s (%lld) ", (long long)f->owners[i].fd,
			       p ? p->comm : "", (long long)f->owners[i].pid);
	}
	rut_an_result_text(t, RUT_LAMI_STRING, b.data ? b.data : "");
	rut_buf_fini(&b);
}

static struct rut_result *file_table(struct rut_io *io, const struct files *files, int w,
				     int64_t end_ns)
{
	struct rut_result *t =
		rut_an_result_new(&rut_an_io_file_class, io->base.begin_ns, end_ns, did[w]);
	struct file_stats **list = (struct file_stats **)rut_an_ordered_sorted(
		&files->list, w ? by_file_written : by_file_read);

	for (size_t i = 0; t && list && i < files->list.n; i++) {
		if (!list[i]->bytes[w])
			continue;
		rut_an_result_text(t, RUT_LAMI_PATH, list[i]->name);
		rut_an_result_int(t, RUT_LAMI_SIZE, list[i]->bytes[w]);
		add_owners(io, list[i], t);
		if (enough(io, rut_result_rows(t)))
			break;
	}
	free(list);
	return t;
}

static int by_written_bytes(const void *a, const void *b)
{
	return descending(((const struct rut_io_written *)a)->bytes,
			  ((const struct rut_io_written *)b)->bytes);
}

/* NULL: the trace does not say which files were written to disks. */
static struct rut_result *written_table(struct rut_io *io, int64_t end_ns)
{
	struct rut_result *t = io->written.n
				       ? rut_an_result_new(&rut_an_io_written_class,
							   io->base.begin_ns, end_ns, "written")
				       : NULL;
	struct rut_io_written **list =
		(struct rut_io_written **)rut_an_ordered_sorted(&io->written, by_written_bytes);

	for (size_t i = 0; t && list && i < io->written.n; i++) {
		rut_an_result_text(t, RUT_LAMI_PATH, list[i]->name);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)list[i]->inode);
		rut_an_result_int(t, RUT_LAMI_SIZE, list[i]->bytes);
		if (enough(io, rut_result_rows(t)))
			break;
	}
	free(list);
	return t;
}

/* ---- Disks and interfaces ---- */

enum disk_what { DISK_SECTORS, DISK_REQUESTS, DISK_TIME };

static int by_sectors(const void *a, const void *b)
{
	return descending((int64_t)((const struct rut_io_disk *)a)->sectors,
			  (int64_t)((const struct rut_io_disk *)b)->sectors);
}

static int by_requests(const void *a, const void *b)
{
	return descending((int64_t)((const struct rut_io_disk *)a)->requests,
			  (int64_t)((const struct rut_io_disk *)b)->requests);
}

static int by_nothing(const void *a, const void *b)
{
	(void)a;
	(void)b;
	return 0;
}

static int by_range(const void *a, const void *b)
{
	return descending((int64_t)((const struct rut_io_no_data *)a)->sectors,
			  (int64_t)((const struct rut_io_no_data *)b)->sectors);
}

/* NULL: there were none. */
static struct rut_result *no_data_table(struct rut_io *io, int64_t end_ns)
{
	struct rut_result *t = io->no_data.n ? rut_an_result_new(&rut_an_io_no_data_class,
								 io->base.begin_ns, end_ns, NULL)
					     : NULL;
	struct rut_io_no_data **list =
		(struct rut_io_no_data **)rut_an_ordered_sorted(&io->no_data, by_range);
	char name[RUT_IO_DISK_NAME];

	for (size_t i = 0; t && list && i < io->no_data.n; i++) {
		const struct rut_io_no_data *r = list[i];
		const struct rut_thread *now =
			rut_an_state_thread(&io->base.run->engine->state, r->tid);

		rut_an_result_text(t, RUT_LAMI_DISK, rut_an_io_disk_name(r->disk, r->dev, name));
		rut_an_result_text(t, RUT_LAMI_STRING, rut_an_block_op_name(r->op));
		rut_an_result_process(t, now && *now->comm ? now->comm : r->comm, RUT_LAMI_NONE,
				      r->tid);
		rut_an_result_int(t, RUT_LAMI_NUMBER, (int64_t)r->requests);
		rut_an_result_int(t, RUT_LAMI_SIZE, (int64_t)r->sectors * 512);
		rut_an_result_float(t, RUT_LAMI_DURATION,
				    (double)r->total_ns / (double)r->requests);
		rut_an_result_int(t, RUT_LAMI_DURATION, r->max_ns);
		if (enough(io, rut_result_rows(t)))
			break;
	}
	free(list);
	return t;
}

static void print_no_data(const struct rut_result *t, struct rut_buf *out)
{
	static const char line[] = "{:<10} {:<13} {:<26} {:>10} {:>12} {:>14} {:>14}\n";
	char who[64], count[24], size[40], us[2][40];

	rut_buf_printf(out, "\n%s\n", t->cls->title);
	rut_an_fmt_line(out, line, "Disk", "Operation", "Thread", "Requests", "Size",
			"Average (us)", "Maximum (us)");
	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		rut_an_fmt_process(who, sizeof(who), &row[2]);
		snprintf(count, sizeof(count), "%lld", (long long)row[3].i);
		rut_an_fmt_size(size, sizeof(size), (double)row[4].i);
		for (int k = 0; k < 2; k++)
			rut_an_fmt_us_cell(us[k], sizeof(us[k]), &row[5 + k]);
		rut_an_fmt_line(out, line, row[0].str, row[1].str, who, count, size, us[0], us[1]);
	}
}

static struct rut_result *disk_table(struct rut_io *io, enum disk_what what, int64_t end_ns)
{
	static const struct rut_lami_class *const classes[] = {
		&rut_an_io_sector_class, &rut_an_io_request_class, &rut_an_io_rtps_class};
	static int (*const orders[])(const void *, const void *) = {by_sectors, by_requests,
								    by_nothing};
	struct rut_result *t = rut_an_result_new(classes[what], io->base.begin_ns, end_ns, NULL);
	struct rut_io_disk **list =
		(struct rut_io_disk **)rut_an_ordered_sorted(&io->disks, orders[what]);
	char name[RUT_IO_DISK_NAME];

	for (size_t i = 0; t && list && i < io->disks.n; i++) {
		const struct rut_io_disk *d = list[i];

		if (!d->requests || (what == DISK_SECTORS && !d->sectors))
			continue;
		rut_an_result_text(t, RUT_LAMI_DISK, rut_an_io_disk_name(d->name, d->dev, name));
		if (what == DISK_TIME)
			rut_an_result_float(t, RUT_LAMI_DURATION,
					    (double)d->total_ns / (double)d->requests);
		else
			rut_an_result_int(
				t, RUT_LAMI_NUMBER,
				(int64_t)(what == DISK_SECTORS ? d->sectors : d->requests));
		if (enough(io, rut_result_rows(t)))
			break;
	}
	free(list);
	return t;
}

static int by_received(const void *a, const void *b)
{
	return descending(((const struct rut_io_iface *)a)->bytes[0],
			  ((const struct rut_io_iface *)b)->bytes[0]);
}

static int by_sent(const void *a, const void *b)
{
	return descending(((const struct rut_io_iface *)a)->bytes[1],
			  ((const struct rut_io_iface *)b)->bytes[1]);
}

static struct rut_result *netif_table(struct rut_io *io, int sent, int64_t end_ns)
{
	struct rut_result *t = rut_an_result_new(&rut_an_io_netif_class, io->base.begin_ns, end_ns,
						 sent ? "sent" : "received");
	struct rut_io_iface **list = (struct rut_io_iface **)rut_an_ordered_sorted(
		&io->ifaces, sent ? by_sent : by_received);

	for (size_t i = 0; t && list && i < io->ifaces.n; i++) {
		rut_an_result_text(t, RUT_LAMI_NETIF, list[i]->name);
		rut_an_result_int(t, RUT_LAMI_SIZE, list[i]->bytes[sent]);
		if (enough(io, rut_result_rows(t)))
			break;
	}
	free(list);
	return t;
}

static void print_written(const struct rut_result *t, struct rut_buf *out)
{
	struct rut_graph g = {0};
	char value[48], name[128];

	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);

		/* What has no name is the device itself: the metadata of its file system. */
		snprintf(name, sizeof(name), "%.60s (inode %lld)",
			 row[0].str[0] ? row[0].str : "metadata", (long long)row[1].i);
		rut_an_fmt_size(value, sizeof(value), (double)row[2].i);
		rut_an_graph_add(&g, (double)row[2].i, value, 0, name);
	}
	rut_an_graph_bars(&g, out, "Block I/O Write by File", "File");
}

/* Graphs of a name and a number. */
static void print_named(const struct rut_result *t, struct rut_buf *out, const char *title,
			const char *header, const char *unit)
{
	struct rut_graph g = {0};
	char value[48];

	for (size_t i = 0; i < rut_result_rows(t); i++) {
		const struct rut_cell *row = rut_result_row(t, i);
		double v = rut_an_cell_value(&row[1]);

		if (row[1].type == RUT_LAMI_DURATION)
			v /= 1e6;
		if (unit)
			rut_an_fmt_bar_value(value, sizeof(value), v, row[1].is_float, unit);
		else
			rut_an_fmt_size(value, sizeof(value), v);
		rut_an_graph_add(&g, v, value, 0, row[0].str);
	}
	rut_an_graph_bars(&g, out, title, header);
}

/* ---- Report ---- */

enum {
	T_READ,
	T_WRITTEN,
	T_FILE_READ,
	T_FILE_WRITTEN,
	T_BLOCK_READ,
	T_BLOCK_WRITTEN,
	T_BLOCK_FILE,
	T_SECTOR,
	T_REQUEST,
	T_TIME,
	T_NO_DATA,
	T_RECEIVED,
	T_SENT,
	TABLES
};

static void print_all(struct rut_result **t, struct rut_buf *out)
{
	char title[64];

	for (int w = 0; w < 2; w++) {
		snprintf(title, sizeof(title), "Per-process I/O %s", Did[w]);
		print_procs(t[T_READ + w], out, title);
	}
	for (int w = 0; w < 2; w++) {
		snprintf(title, sizeof(title), "Per-file I/O %s", Did[w]);
		print_named(t[T_FILE_READ + w], out, title, "Path", NULL);
	}
	for (int w = 0; w < 2; w++) {
		snprintf(title, sizeof(title), "Block I/O %s", Did[w]);
		print_blocks(t[T_BLOCK_READ + w], out, title);
	}
	if (t[T_BLOCK_FILE])
		print_written(t[T_BLOCK_FILE], out);
	print_named(t[T_SECTOR], out, "Disk Requests Sector Count", "Disk", "sectors");
	print_named(t[T_REQUEST], out, "Disk Request Count", "Disk", "requests");
	print_named(t[T_TIME], out, "Disk Request Average Latency", "Disk", "ms");
	if (t[T_NO_DATA])
		print_no_data(t[T_NO_DATA], out);
	print_named(t[T_RECEIVED], out, "Network Received Bytes", "Interface", NULL);
	print_named(t[T_SENT], out, "Network Sent Bytes", "Interface", NULL);
}

void rut_an_io_report_usage(struct rut_io *io, int64_t end_ns)
{
	struct rut_run *run = io->base.run;
	struct rut_result *t[TABLES];
	struct files files = {0};

	collect_files(io, &files);
	for (int w = 0; w < 2; w++) {
		t[T_READ + w] = proc_table(io, w, end_ns);
		t[T_FILE_READ + w] = file_table(io, &files, w, end_ns);
		t[T_BLOCK_READ + w] = block_table(io, w, end_ns);
		t[T_RECEIVED + w] = netif_table(io, w, end_ns);
	}
	t[T_BLOCK_FILE] = written_table(io, end_ns);
	t[T_NO_DATA] = no_data_table(io, end_ns);
	for (int i = 0; i < 3; i++)
		t[T_SECTOR + i] = disk_table(io, (enum disk_what)i, end_ns);
	free_files(&files);
	if (!run->conf->mi)
		print_all(t, &run->out);
	for (int i = 0; i < TABLES; i++) {
		if (!t[i])
			continue;
		if (run->conf->mi)
			rut_an_results_take(&run->results, t[i]);
		else
			rut_an_result_free(t[i]);
	}
}
