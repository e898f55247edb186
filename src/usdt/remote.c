/* SPDX-License-Identifier: MIT */
/*
 * The tool's side of a control page.
 *
 * The page belongs to the other process, which may write anything into it at any time: what is
 * shown is copied first, terminated and checked then, and nothing read from it is used as an index
 * or a size. It is sealed against shrinking (checked), so reading it cannot end us by SIGBUS.
 */
#include "usdt/remote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

const char *rut_usdt_type_name(enum rutile_usdt_type type)
{
	static const char *const names[RUTILE_USDT_TYPES] = {
		[RUTILE_USDT_U8] = "uint8",   [RUTILE_USDT_S8] = "int8",
		[RUTILE_USDT_U16] = "uint16", [RUTILE_USDT_S16] = "int16",
		[RUTILE_USDT_U32] = "uint32", [RUTILE_USDT_S32] = "int32",
		[RUTILE_USDT_U64] = "uint64", [RUTILE_USDT_S64] = "int64",
		[RUTILE_USDT_STR] = "string", [RUTILE_USDT_F64] = "float64",
		[RUTILE_USDT_BOOL] = "bool",
	};

	return (int)type > 0 && type < RUTILE_USDT_TYPES ? names[type] : "?";
}

/* The descriptor in /proc/PID/fd that is a control page; -ENOENT: none. */
static int find_page(pid_t pid, char *path, size_t len, struct rut_err *err)
{
	char dir[64], link[64];
	struct dirent *e;
	int rc = -ENOENT;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", pid);
	d = opendir(dir);
	if (!d && errno == ENOENT)
		return rut_err_set(err, ESRCH, "no process with PID %d", pid);
	if (!d)
		return rut_err_errno(
			err, errno,
			"process %d belongs to another user, try it as that user or root", pid);
	while ((e = readdir(d))) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = 0;
		if (strncmp(link, "/memfd:" RUT_USDT_CTL_NAME,
			    strlen("/memfd:" RUT_USDT_CTL_NAME)) != 0)
			continue;
		snprintf(path, len, "%s/%.20s", dir, e->d_name);
		rc = 0;
		break;
	}
	closedir(d);
	if (rc)
		rut_err_set(err, ENOENT,
			    "process %d has no tracepoints to control: it does not use the gem "
			    "rutile or librutile-usdt, or it runs with RUTILE_CONTROL=off",
			    pid);
	return rc;
}

bool rut_usdt_is_sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	/* -1 for what is no memfd. */
	return seals >= 0 && seals & F_SEAL_SHRINK;
}

int rut_usdt_remote_map(struct rut_usdt_remote *ret, pid_t pid, int fd, struct rut_err *err)
{
	struct rut_usdt_ctl *page;
	struct stat st;

	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(*page) || !rut_usdt_is_sealed(fd))
		return rut_err_set(err, EPROTO, "process %d has a control page of another version",
				   pid);
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return rut_err_errno(err, errno, "cannot map the control page of process %d", pid);
	if (page->magic != RUT_USDT_CTL_MAGIC || page->slot_bytes != sizeof(struct rut_usdt_slot)) {
		munmap(page, sizeof(*page));
		return rut_err_set(err, EPROTO, "process %d has a control page of another version",
				   pid);
	}
	*ret = (struct rut_usdt_remote){.pid = pid, .ino = st.st_ino, .page = page};
	return 0;
}

int rut_usdt_remote_open(struct rut_usdt_remote *ret, pid_t pid, struct rut_err *err)
{
	_cleanup_close_ int fd = -1;
	char path[96];
	int rc = find_page(pid, path, sizeof(path), err);

	if (rc)
		return rc;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return rut_err_errno(err, errno,
				     "cannot control process %d, try it as its user or root", pid);
	return rut_usdt_remote_map(ret, pid, fd, err);
}

void rut_usdt_remote_fini(struct rut_usdt_remote *r)
{
	if (r->page)
		munmap(r->page, sizeof(*r->page));
	r->page = NULL;
}

/* The kernel's count of tracers, in the low half of the gate. Needs the right to trace. */
static int read_tracers(pid_t pid, uint64_t gate)
{
	uint16_t count = 0;
	struct iovec mine = {.iov_base = &count, .iov_len = sizeof(count)};
	struct iovec theirs = {.iov_base = (void *)(uintptr_t)gate, .iov_len = sizeof(count)};

	if (!gate || process_vm_readv(pid, &mine, 1, &theirs, 1, 0) != sizeof(count))
		return -1;
	return count;
}

/* Copies one part of a text; returns what is behind it. */
static const char *take_part(const char *at, const char *end, char *ret, size_t size)
{
	size_t n = strnlen(at, (size_t)(end - at));

	snprintf(ret, size, "%.*s", (int)(n < size ? n : size - 1), at);
	return at + n < end ? at + n + 1 : end;
}

static void copy_text(const struct rut_usdt_ctl *page, const struct rut_usdt_slot *slot,
		      struct rut_usdt_info *ret)
{
	char text[RUT_USDT_TEXT_MAX];
	uint32_t bytes = slot->text_bytes < sizeof(text) ? slot->text_bytes : sizeof(text);
	const char *at = text, *end = text + bytes;

	if (bytes > RUT_USDT_TEXT_BYTES || slot->text > RUT_USDT_TEXT_BYTES - bytes)
		return;
	memcpy(text, page->texts + slot->text, bytes);
	at = take_part(at, end, ret->provider, sizeof(ret->provider));
	at = take_part(at, end, ret->name, sizeof(ret->name));
	take_part(at, end, ret->arg_names, sizeof(ret->arg_names));
}

void rut_usdt_info_of(const struct rut_usdt_ctl *page, unsigned i, struct rut_usdt_info *ret)
{
	struct rut_usdt_slot slot = page->slots[i];

	*ret = (struct rut_usdt_info){.slot = i, .serial = slot.serial};
	copy_text(page, &slot, ret);
	ret->n_types = slot.n_types < RUTILE_USDT_MAX_ARGS ? slot.n_types : RUTILE_USDT_MAX_ARGS;
	for (unsigned k = 0; k < ret->n_types; k++)
		ret->types[k] = (enum rutile_usdt_type)slot.types[k];
	ret->fd = slot.fd;
	ret->loaded = slot.flags & RUT_USDT_SLOT_LOADED;
	ret->on = slot.flags & RUT_USDT_SLOT_ON;
	ret->deferred = slot.flags & RUT_USDT_SLOT_DEFERRED;
	ret->tracers = -1;
	ret->gate = slot.gate;
	memcpy(ret->counts, slot.counts, sizeof(ret->counts));
}

static int by_serial(const void *a, const void *b)
{
	uint32_t x = ((const struct rut_usdt_info *)a)->serial;
	uint32_t y = ((const struct rut_usdt_info *)b)->serial;

	return (x > y) - (x < y);
}

int rut_usdt_remote_list(const struct rut_usdt_remote *r, struct rut_usdt_info **ret,
			 size_t *ret_count)
{
	uint32_t n = __atomic_load_n(&r->page->n_slots, __ATOMIC_ACQUIRE);
	struct rut_usdt_info *list;
	size_t count = 0;

	if (n > RUT_USDT_CTL_SLOTS)
		n = RUT_USDT_CTL_SLOTS;
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		if (__atomic_load_n(&r->page->slots[i].state, __ATOMIC_ACQUIRE) ==
		    RUT_USDT_SLOT_USED) {
			rut_usdt_info_of(r->page, i, &list[count]);
			list[count].tracers = read_tracers(r->pid, list[count].gate);
			count++;
		}
	qsort(list, count, sizeof(*list), by_serial);
	*ret = list;
	*ret_count = count;
	return 0;
}

void rut_usdt_remote_ask(struct rut_usdt_remote *r, const struct rut_usdt_info *probe, bool on)
{
	struct rut_usdt_slot *slot = &r->page->slots[probe->slot];

	if (slot->serial == probe->serial)
		__atomic_store_n(&slot->want, on ? RUT_USDT_WANT_ON : RUT_USDT_WANT_OFF,
				 __ATOMIC_RELEASE);
}

static bool wishes_are_left(const struct rut_usdt_remote *r)
{
	for (unsigned i = 0; i < RUT_USDT_CTL_SLOTS; i++)
		if (r->page->slots[i].state == RUT_USDT_SLOT_USED &&
		    __atomic_load_n(&r->page->slots[i].want, __ATOMIC_ACQUIRE))
			return true;
	return false;
}

int rut_usdt_remote_commit(struct rut_usdt_remote *r, unsigned timeout_ms)
{
	const struct timespec look_again = {.tv_nsec = 100000000};
	uint64_t end = rut_now_ms() + timeout_ms;

	__atomic_fetch_add(&r->page->request, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &r->page->request, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	for (;;) {
		uint32_t done = __atomic_load_n(&r->page->done, __ATOMIC_ACQUIRE);

		if (!wishes_are_left(r))
			return 0;
		if (kill(r->pid, 0) && errno == ESRCH)
			return -ESRCH;
		if (rut_now_ms() >= end)
			return -ETIMEDOUT;
		syscall(SYS_futex, &r->page->done, FUTEX_WAIT, done, &look_again, NULL, 0);
	}
}
