/* SPDX-License-Identifier: MIT */
/*
 * Families: the processes that count into one file (agent/abi.h), because they were forked with our
 * session in them. A process that has taken a slot there is known at once and for good, also when
 * it has ended before anybody looked: its counts and its records are in memory that we have mapped.
 * A child that lives longer is found by tree.c as well, which takes its agent over; its place is
 * the same.
 *
 * When a process has ended, what it counted is added to the rows of ended processes, its memory
 * is returned, and its place is free for another child. A place is given back only when the process
 * is known to have ended: what else it may have become, it must not count into another's rows.
 */
#include "ruby/family.h"

#include "base/cleanup.h"
#include "ruby/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void rut_family_pid_ns(pid_t pid, char *ret, size_t cap)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	n = readlink(path, ret, cap - 1);
	ret[n < 0 ? 0 : n] = 0;
}

/* ---- places ---- */

size_t rut_family_table_offset(const struct rut_family *f, uint32_t member)
{
	return RUT_FAMILY_BYTES + member * f->table_bytes;
}

/* The family of this file; `fd` is taken when it is a new one. */
static struct rut_family *find_family(struct rut_tracer *t, pid_t pid, int *fd, struct rut_err *err)
{
	struct rut_agent_family *map;
	struct rut_family *f, **to;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	char self[64];
	struct stat st;

	if (fstat(*fd, &st) < 0 || st.st_size < RUT_FAMILY_BYTES)
		goto foreign;
	for (size_t i = 0; i < t->family_count; i++)
		if (t->families[i]->ino == st.st_ino)
			return t->families[i];
	to = realloc(t->families, (t->family_count + 1) * sizeof(struct rut_family *));
	f = to ? calloc(1, sizeof(*f)) : NULL;
	if (to)
		t->families = to;
	map = f ? mmap(NULL, RUT_FAMILY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0)
		: MAP_FAILED;
	if (map == MAP_FAILED) {
		free(f);
		rut_err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	f->map = map;
	f->ino = st.st_ino;
	f->ring_fd = -1;
	f->table_bytes = __atomic_load_n(&map->table_bytes, __ATOMIC_RELAXED);
	f->members = __atomic_load_n(&map->members, __ATOMIC_RELAXED);
	if (map->magic != RUT_FAMILY_MAGIC || map->abi != RUT_AGENT_ABI || !f->members ||
	    f->members > RUT_FAMILY_MEMBERS || f->table_bytes < sizeof(struct rut_agent_table) ||
	    f->table_bytes % 4096 || f->table_bytes > 1ull << 32 ||
	    rut_family_table_offset(f, f->members) > (uint64_t)st.st_size) {
		munmap(map, RUT_FAMILY_BYTES);
		free(f);
		goto foreign;
	}
	f->fd = *fd;
	*fd = -1;
	/* For children that we come too late to: they count as long as it is held (agent/abi.h). */
	fcntl(f->fd, F_OFD_SETLK, &lock);
	rut_family_pid_ns(pid, f->pid_ns, sizeof(f->pid_ns));
	rut_family_pid_ns(getpid(), self, sizeof(self));
	f->same_ns = strcmp(self, f->pid_ns) == 0;
	t->families[t->family_count++] = f;
	return f;
foreign:
	rut_err_set(err, EPROTO, "the tables of process %d are not ours", (int)pid);
	return NULL;
}

int rut_family_map(struct rut_tracee *p, struct rut_family *f, uint32_t member)
{
	void *m = mmap(NULL, f->table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd,
		       (off_t)rut_family_table_offset(f, member));

	if (m == MAP_FAILED)
		return -errno;
	p->table = m;
	p->table_bytes = f->table_bytes;
	p->family = f;
	p->member = member;
	f->known[member] = p;
	return 0;
}

int rut_family_join(struct rut_tracer *t, struct rut_tracee *p, struct rut_tracee **ret_seen,
		    struct rut_err *err)
{
	struct rut_agent_slot *slot = &p->ctl->slots[p->slot];
	_cleanup_close_ int fd =
		rut_target_open_shared(p->pid, slot->table_fd, RUT_AGENT_TABLE_MEMFD);
	uint32_t member = __atomic_load_n(&slot->member, __ATOMIC_RELAXED);
	struct rut_tracee *seen;
	struct rut_family *f;
	struct stat st;
	int r;

	if (fd < 0 && fd != -ENOENT)
		return rut_err_errno(err, -fd, "cannot open the tables of process %d", (int)p->pid);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_ino != slot->table_ino)
		return rut_target_closed(p->pid, "tables", err);
	f = find_family(t, p->pid, &fd, err);
	if (!f)
		return -EPROTO;
	if (member >= f->members)
		return rut_err_set(err, EPROTO, "the tables of process %d are not ours",
				   (int)p->pid);
	seen = f->known[member];
	r = rut_family_map(p, f, member);
	if (r < 0)
		return rut_err_errno(err, -r, "cannot map the tables of process %d", (int)p->pid);
	if (!seen)
		return 0;
	/* We know it from its place: here is the process to it. */
	p->announced = seen->announced;
	p->names = RUT_TAKE(seen->names);
	p->names_cap = seen->names_cap;
	p->base = RUT_TAKE(seen->base);
	p->base_count = seen->base_count;
	p->events = RUT_TAKE(seen->events);
	p->out = RUT_TAKE(seen->out);
	p->recorded = seen->recorded;
	seen->family = NULL;
	*ret_seen = seen;
	return 0;
}

void rut_family_leave(struct rut_tracee *p)
{
	if (p->family && p->family->known[p->member] == p)
		p->family->known[p->member] = NULL;
}

void rut_family_free_all(struct rut_tracer *t)
{
	for (size_t i = 0; i < t->family_count; i++) {
		struct rut_family *f = t->families[i];

		munmap(f->map, RUT_FAMILY_BYTES);
		close(f->fd);
		if (f->ring_fd >= 0)
			close(f->ring_fd);
		free(f);
	}
	free(t->families);
}
