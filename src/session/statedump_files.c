/* SPDX-License-Identifier: MIT */
#include "session/statedump_files.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "bpf/statedump.h"
#include "statedump.skel.h"

/* PROC_PID_INIT_INO of the kernel. */
#define INITIAL_PID_NS 0xeffffffcu

struct rut_open_files {
	struct rut_buf rows; /* struct rut_open_file, by pid and fd */
};

static int by_place(const void *a, const void *b)
{
	const struct rut_open_file *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->fd < y->fd ? -1 : x->fd > y->fd;
}

static int read_all(int fd, struct rut_buf *b)
{
	char part[16384];
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) != 0) {
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		rut_buf_add(b, part, (size_t)n);
	}
	return b->failed ? -ENOMEM : 0;
}

/*
 * The iterator's program, or NULL. It stays loaded until the process exits: each rotation has a
 * statedump, and libbpf reads all types of the kernel to load a program. A link of it exists only
 * while it runs.
 */
static const struct bpf_program *program(void)
{
	static struct rut_statedump_bpf *skel;
	static bool tried;

	if (!tried)
		skel = rut_statedump_bpf__open_and_load();
	tried = true;
	return skel ? skel->progs.open_files : NULL;
}

/*
 * The iterator has the PIDs of the initial namespace. In another one those of /proc are different:
 * the same number may be another process.
 */
static bool are_pids_global(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == INITIAL_PID_NS;
}

static int iterate(struct rut_buf *b)
{
	const struct bpf_program *prog = are_pids_global() ? program() : NULL;
	struct bpf_link *link = prog ? bpf_program__attach_iter(prog, NULL) : NULL;
	int fd = link ? bpf_iter_create(bpf_link__fd(link)) : -EOPNOTSUPP;
	int rc = fd < 0 ? fd : read_all(fd, b);

	rut_closep(&fd);
	bpf_link__destroy(link);
	return rc;
}

struct rut_open_files *rut_open_files_new(void)
{
	struct rut_open_files *files = calloc(1, sizeof(*files));
	int rc = files ? iterate(&files->rows) : -ENOMEM;

	if (rc) {
		rut_debug("the modes of open files are unknown: error %d", -rc);
		rut_open_files_free(files);
		return NULL;
	}
	if (files->rows.len)
		qsort(files->rows.data, files->rows.len / sizeof(struct rut_open_file),
		      sizeof(struct rut_open_file), by_place);
	return files;
}

uint32_t rut_open_files_mode(const struct rut_open_files *files, pid_t pid, uint32_t fd)
{
	const struct rut_open_file key = {.pid = pid, .fd = fd}, *found;

	if (!files || !files->rows.len)
		return 0;
	found = bsearch(&key, files->rows.data, files->rows.len / sizeof(key), sizeof(key),
			by_place);
	return found ? found->mode : 0;
}

void rut_open_files_free(struct rut_open_files *files)
{
	if (files)
		rut_buf_fini(&files->rows);
	free(files);
}
