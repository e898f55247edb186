/* SPDX-License-Identifier: MIT */
#include "session/mappings.h"

#include <bpf/bpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/maps.h"
#include "probe/symbols.h"
#include "session/rubies.h"
#include "session/unwind.h"

#define RING_PAGES 64 /* a power of two */
#define PAUSE_MS   2
#define PAUSE_MAX  32

struct mapping {
	int32_t pid;
	uint64_t time_ns, start, end, offset;
	uint8_t id_len, id[RUT_BUILD_ID_MAX];
	const char *path;
};

bool rut_mappings_wanted(const struct rut_recorder *r)
{
	if (r->conf.contexts & RUT_CTX_USTACK)
		return true;
	for (uint32_t i = 0; i < r->meta->ndynamic; i++)
		if (r->meta->dynamic[i].id && !strncmp(r->meta->dynamic[i].spec, "profile:", 8))
			return true;
	return false;
}

/* With a filter of processes only those, and those that were. */
static bool is_recorded(const struct rut_recorder *r, int32_t pid)
{
	uint32_t key = (uint32_t)pid, value;

	return !(r->conf.filters & RUT_FILTER_PID) ||
	       !bpf_map_lookup_elem(r->fds[RUT_MAP_TRACED], &key, &value) ||
	       !bpf_map_lookup_elem(r->fds[RUT_MAP_GONE], &key, &value);
}

static void write_mapping(struct rut_statedump *s, const struct mapping *m)
{
	struct rut_ev_SD_MAPPING rec = {
		.pid = m->pid,
		.mapped_ns = m->time_ns,
		.start = m->start,
		.end = m->end,
		.offset = m->offset,
		.build_id_length = m->id_len,
	};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	rut_buf_add(&b, &rec, sizeof(rec));
	rut_buf_add(&b, m->id, m->id_len);
	rut_buf_add(&b, m->path, strlen(m->path) + 1);
	if (!b.failed && b.len < 8192)
		rut_statedump_emit(s, RUT_EV_SD_MAPPING, b.data, b.len);
}

/* Build-ids of files, by device and inode: most processes have the same libraries. */
struct ids {
	struct rut_map map;
};

struct id {
	uint8_t len, bytes[RUT_BUILD_ID_MAX];
};

static void ids_fini(struct ids *ids)
{
	rut_map_each(&ids->map, slot)
		free(slot->value);
	rut_map_fini(&ids->map);
}

static void find_id(struct ids *ids, struct mapping *m)
{
	char path[1200];
	struct stat st;
	struct id *id;
	uint64_t key;

	if (m->path[0] != '/')
		return;
	snprintf(path, sizeof(path), "/proc/%d/root%s", m->pid, m->path);
	if (stat(path, &st) < 0)
		return;
	key = rut_hash_u64(st.st_ino) ^ (uint64_t)st.st_dev;
	id = rut_map_get(&ids->map, key);
	if (!id) {
		id = calloc(1, sizeof(*id));
		if (!id)
			return;
		id->len = (uint8_t)rut_elf_build_id(path, id->bytes);
		if (rut_map_put(&ids->map, key, id) < 0) {
			free(id);
			return;
		}
	}
	m->id_len = id->len;
	memcpy(m->id, id->bytes, id->len);
}

static void dump_process(struct rut_statedump *s, struct ids *ids, int32_t pid)
{
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	struct rut_mapping found;
	char path[1024];

	if (rut_maps_open(&maps, pid) < 0)
		return;
	while (rut_maps_next(&maps, &found)) {
		struct mapping m = {
			.pid = pid,
			.start = found.start,
			.end = found.end,
			.offset = found.offset,
			.path = path,
		};

		if (!found.exec || !found.path[0])
			continue;
		rut_mapping_name(&found, path, sizeof(path));
		find_id(ids, &m);
		write_mapping(s, &m);
	}
}

void rut_mappings_dump(struct rut_statedump *s, const struct rut_recorder *r)
{
	DIR *d = opendir("/proc");
	struct ids ids = {0};

	for (struct dirent *e; d && (e = readdir(d));)
		if (isdigit((unsigned char)e->d_name[0]) && is_recorded(r, atoi(e->d_name)) &&
		    atoi(e->d_name) != getpid())
			dump_process(s, &ids, atoi(e->d_name));
	if (d)
		closedir(d);
	ids_fini(&ids);
}

/* The kernel's notices */

struct ring {
	int fd;
	struct perf_event_mmap_page *page; /* a mapping; NULL: this CPU has none */
};

struct rut_mappings {
	struct ring *rings; /* owned */
	int n;
	int epoll_fd; /* of all rings; -1: there is none; owned */
	bool met;     /* the last look found new code of a process that is recorded */
	int pause_ms; /* wake-ups are so far apart */
	uint64_t lost;
	/* A record that wraps around the ring's end. */
	unsigned char copy[65536];
};

static size_t ring_bytes(void)
{
	return (size_t)RING_PAGES * (size_t)getpagesize();
}

static int open_ring(struct ring *r, int cpu, bool build_id)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.exclude_kernel = 1,
		.mmap = 1,
		.mmap2 = 1,
		.build_id = build_id,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = 1, /* each record wakes rut_mappings_wait() */
	};
	void *map;

	r->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (r->fd < 0)
		return -errno;
	map = mmap(NULL, ring_bytes() + (size_t)getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED,
		   r->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	r->page = map;
	return 0;
}

static void watch(struct rut_mappings *m, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};

	if (m->epoll_fd < 0 || epoll_ctl(m->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		rut_debug("new mappings are not read at once: %s", strerror(errno));
}

static int open_rings(struct rut_mappings **ret, const struct rut_recorder *rec)
{
	struct rut_mappings *m = calloc(1, sizeof(*m));
	int rc = 0;

	if (m)
		m->rings = calloc((size_t)rec->ncpus, sizeof(*m->rings));
	if (!m || !m->rings) {
		free(m);
		return -ENOMEM;
	}
	m->n = rec->ncpus;
	m->pause_ms = PAUSE_MS;
	m->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	for (int cpu = 0; cpu < m->n; cpu++)
		m->rings[cpu].fd = -1;
	for (int cpu = 0; cpu < m->n && !rc; cpu++) {
		rc = open_ring(&m->rings[cpu], cpu, true);
		/* Linux before 5.12 reports no build-ids. */
		if (rc == -EINVAL)
			rc = open_ring(&m->rings[cpu], cpu, false);
		if (rc == -ENODEV)
			rc = 0; /* offline */
		if (m->rings[cpu].page)
			watch(m, m->rings[cpu].fd);
	}
	if (rc) {
		rut_mappings_free(m);
		return rc;
	}
	*ret = m;
	return 0;
}

void rut_mappings_follow(struct rut_mappings **m, const struct rut_recorder *r)
{
	if (!*m && open_rings(m, r) < 0)
		rut_debug("new mappings are not recorded: their stacks have no names");
}

void rut_mappings_free(struct rut_mappings *m)
{
	if (!m)
		return;
	for (int i = 0; i < m->n; i++) {
		if (m->rings[i].page)
			munmap(m->rings[i].page, ring_bytes() + (size_t)getpagesize());
		rut_closep(&m->rings[i].fd);
	}
	rut_closep(&m->epoll_fd);
	free(m->rings);
	free(m);
}

/* As the kernel lays it out; the file's name and the sample's identity follow. */
struct mmap2 {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t start, len, offset;
	union {
		struct {
			uint32_t major, minor;
			uint64_t inode, generation;
		};
		struct {
			uint8_t id_len, _pad[3], id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

struct forked {
	struct perf_event_header header;
	uint32_t pid, parent, tid, parent_tid;
	uint64_t time_ns;
};

struct identity {
	uint32_t pid, tid;
	uint64_t time_ns;
};

static void on_mmap(struct rut_mappings *found, struct rut_statedump *s, struct rut_recorder *rec,
		    const struct mmap2 *r)
{
	const struct identity *id = (const void *)((const char *)r + r->header.size - sizeof(*id));
	struct mapping m = {
		.pid = (int32_t)r->pid,
		.time_ns = id->time_ns,
		.start = r->start,
		.end = r->start + r->len,
		.offset = r->offset,
		.path = r->path,
	};
	struct ids none = {0};
	bool is_file = r->header.size > sizeof(*r) && r->path[0] == '/' && r->path[1] != '/';

	if (r->prot & PROT_EXEC) {
		found->met = true;
		rut_unwind_mapped(rec, (int32_t)r->pid, is_file);
	}
	/* "//anon" is code made at run time. */
	if (r->header.size < sizeof(*r) + sizeof(*id) || !(r->prot & PROT_EXEC) ||
	    !memchr(r->path, 0, r->header.size - sizeof(*r)) || !strncmp(m.path, "//", 2))
		return;
	rut_rubies_mapped(rec, m.pid, m.path);
	if (!rut_mappings_wanted(rec))
		return;
	if (r->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		m.id_len = r->id_len > RUT_BUILD_ID_MAX ? RUT_BUILD_ID_MAX : r->id_len;
		memcpy(m.id, r->id, m.id_len);
	} else {
		find_id(&none, &m);
		ids_fini(&none);
	}
	write_mapping(s, &m);
}

static void on_fork(struct rut_statedump *s, const struct forked *r)
{
	struct rut_ev_SD_FORKED rec = {
		.pid = (int32_t)r->pid,
		.parent = (int32_t)r->parent,
		.forked_ns = r->time_ns,
	};

	if (r->header.size >= sizeof(*r) && r->pid != r->parent)
		rut_statedump_emit(s, RUT_EV_SD_FORKED, &rec, sizeof(rec));
}

static void on_record(struct rut_mappings *m, struct rut_statedump *s, struct rut_recorder *r,
		      const struct perf_event_header *h)
{
	uint32_t pid = 0;

	if (h->size >= sizeof(*h) + 4)
		memcpy(&pid, h + 1, sizeof(pid));
	if (h->type == PERF_RECORD_LOST)
		m->lost++;
	if ((h->type != PERF_RECORD_MMAP2 && h->type != PERF_RECORD_FORK) ||
	    (pid_t)pid == getpid() || !is_recorded(r, (int32_t)pid))
		return;
	if (h->type == PERF_RECORD_MMAP2)
		on_mmap(m, s, r, (const void *)h);
	else if (rut_mappings_wanted(r))
		on_fork(s, (const void *)h);
}

static void read_ring(struct rut_mappings *m, struct ring *ring, struct rut_statedump *s,
		      struct rut_recorder *r)
{
	const unsigned char *data = (const unsigned char *)ring->page + getpagesize();
	uint64_t size = ring_bytes(), tail = ring->page->data_tail;
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);

	while (head - tail >= sizeof(struct perf_event_header)) {
		uint64_t at = tail & (size - 1);
		const struct perf_event_header *h = (const void *)(data + at);
		uint16_t len = h->size;

		if (len < sizeof(*h) || len > head - tail)
			break;
		if (at + len > size) {
			memcpy(m->copy, h, size - at);
			memcpy(m->copy + (size - at), data, len - (size - at));
			h = (const void *)m->copy;
		}
		on_record(m, s, r, h);
		tail += len;
	}
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
}

void rut_mappings_step(struct rut_mappings *m, struct rut_statedump *s, struct rut_recorder *r)
{
	uint64_t lost = m->lost;

	m->met = false;
	for (int i = 0; i < m->n; i++)
		if (m->rings[i].page)
			read_ring(m, &m->rings[i], s, r);
	if (m->lost > lost)
		rut_unwind_lost(r);
	if (m->lost > lost)
		rut_warn("too many programs were started at once: some stacks will have no names");
}

void rut_mappings_wait(struct rut_mappings *m, int ms)
{
	struct epoll_event ev;

	if (m->met)
		m->pause_ms = PAUSE_MS;
	if (ms <= m->pause_ms) {
		poll(NULL, 0, ms);
		return;
	}
	/* What came before is ready at once. */
	poll(NULL, 0, m->pause_ms);
	ms -= m->pause_ms;
	/* Other processes map code, too: those that are not recorded wake this ever more rarely. */
	if (m->epoll_fd < 0)
		poll(NULL, 0, ms);
	else if (epoll_wait(m->epoll_fd, &ev, 1, ms) <= 0)
		m->pause_ms = PAUSE_MS;
	else if (m->pause_ms < PAUSE_MAX)
		m->pause_ms *= 2;
}
