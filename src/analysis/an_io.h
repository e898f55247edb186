/* SPDX-License-Identifier: MIT */
/* What the files of the input and output analysis share. */
#ifndef RUT_ANALYSIS_AN_IO_H
#define RUT_ANALYSIS_AN_IO_H

#include "analysis/engine.h"
#include "analysis/freq.h"
#include "analysis/ordered.h"

/* One life of a descriptor: from open to close. */
struct rut_io_fd {
	const char *filename;
	enum rut_fd_type type;
	int64_t open_ns, close_ns; /* RUT_NO_TIME: still open */
	int64_t bytes[2];	   /* read, written */
};

/* All lives of a descriptor's number in a process. */
struct rut_io_fds {
	int64_t fd;
	struct rut_io_fd *lives; /* owned */
	size_t n, cap;
	struct rut_map by_name; /* filename -> which of the lives that are over, from 1 */
};

struct rut_io_proc {
	int64_t tid, pid; /* pid -1: unknown */
	const char *comm;
	bool is_init;
	size_t index;				       /* order of first sight */
	int64_t disk[2], net[2], unknown[2], block[2]; /* read, written */
	struct rut_ordered fds;
};

struct rut_io_disk {
	int64_t dev;
	const char *name; /* NULL: shown by number */
	bool is_init;
	uint64_t requests, sectors;
	int64_t total_ns;
	struct rut_stat latency; /* of the requests that pass the filters */
};

struct rut_io_iface {
	const char *name;
	int64_t bytes[2]; /* received, sent */
};

/* Requests of a thread that move no data: discards and the like. */
struct rut_io_no_data {
	int64_t dev, tid;
	const char *disk, *comm; /* NULL: shown by number, or unknown */
	enum rut_block_op op;
	uint64_t requests, sectors;
	int64_t total_ns, max_ns;
};

/* A file of which pages were written to a disk. */
struct rut_io_written {
	const char *name;
	uint64_t inode;
	int64_t bytes;
};

/* A request, for the log and the top. */
struct rut_io_row {
	int64_t begin_ns, end_ns;
	bool has_size, has_fd;
	int64_t size, fd;
	struct rut_io_proc *proc;
	const char *name;
	size_t seq;
};

struct rut_io_rows {
	struct rut_io_row *rows; /* owned */
	size_t n, cap;
};

enum { RUT_IO_CAT_OPEN, RUT_IO_CAT_READ, RUT_IO_CAT_WRITE, RUT_IO_CAT_SYNC, RUT_IO_CATS };

struct rut_io {
	struct rut_instance base;
	struct rut_ordered procs, disks, ifaces, written, no_data;
	struct rut_stat latency[RUT_IO_CATS];
	struct rut_io_rows top[RUT_IO_CATS], log;
	size_t seq;
};

#define RUT_IO_DISK_NAME 48

/* The name of a disk, or its numbers in `buf`. */
const char *rut_an_io_disk_name(const char *known, int64_t dev, char buf[RUT_IO_DISK_NAME]);
/* The life that `ts_ns` falls in. NULL: none. */
struct rut_io_fd *rut_an_io_proc_fd(const struct rut_io_proc *p, int64_t fd, int64_t ts_ns);
void rut_an_io_sort(struct rut_io *io, struct rut_io_rows *rows, bool by_duration, int64_t limit);

extern const char *const rut_an_io_cat_names[RUT_IO_CATS];
extern const struct rut_lami_class rut_an_io_stats_class, rut_an_io_disk_class,
	rut_an_io_freq_class, rut_an_io_top_class, rut_an_io_log_class, rut_an_io_proc_class,
	rut_an_io_file_class, rut_an_io_block_class, rut_an_io_sector_class,
	rut_an_io_request_class, rut_an_io_rtps_class, rut_an_io_netif_class,
	rut_an_io_written_class, rut_an_io_no_data_class;

void rut_an_io_report(struct rut_instance *inst, int64_t end_ns);
/* The usage: bytes by process, file, disk and interface. */
void rut_an_io_report_usage(struct rut_io *io, int64_t end_ns);

#endif
