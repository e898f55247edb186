/* SPDX-License-Identifier: MIT */
#include "session/own.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "bpf/own.h"
#include "session/kernel.h"
#include "session/pin.h"

#define PIN RUT_BPFFS "/rutile_own"

static struct rut_own *map_table(int fd)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	void *p;

	/* Another version's table may have another form. */
	if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0 ||
	    info.value_size != sizeof(struct rut_own))
		return NULL;
	p = mmap(NULL, sizeof(struct rut_own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* Frees the slots of processes that have ended; true when this one is in the table already. */
static bool sweep(struct rut_own *own, uint32_t tgid, uint64_t start)
{
	bool found = false;

	for (size_t i = 0; i < RUT_OWN_SLOTS; i++) {
		uint32_t id = own->slots[i].tgid;

		if (id && rut_process_start_time((pid_t)id) != own->slots[i].start_ticks)
			own->slots[i].tgid = 0;
		found |= own->slots[i].tgid == tgid && own->slots[i].start_ticks == start;
	}
	return found;
}

static void add(struct rut_own *own, uint32_t tgid, uint64_t start)
{
	uint64_t bits[RUT_OWN_WORDS] = {0};

	for (size_t i = 0; i < RUT_OWN_SLOTS; i++) {
		if (own->slots[i].tgid)
			continue;
		own->slots[i].start_ticks = start;
		__atomic_store_n(&own->slots[i].tgid, tgid, __ATOMIC_RELEASE);
		break;
	}
	for (size_t i = 0; i < RUT_OWN_SLOTS; i++)
		if (own->slots[i].tgid)
			bits[RUT_OWN_WORD(own->slots[i].tgid)] |= RUT_OWN_BIT(own->slots[i].tgid);
	for (size_t i = 0; i < RUT_OWN_WORDS; i++)
		__atomic_store_n(&own->bits[i], bits[i], __ATOMIC_RELEASE);
}

/* The process that has entered itself; a child has not. */
static pid_t entered;

void rut_own_enter(int fd)
{
	/* One at a time; the table has no file that could be locked. */
	_cleanup_close_ int lock = open(RUT_BPFFS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct rut_own *own = map_table(fd);
	uint32_t tgid = (uint32_t)getpid();
	uint64_t start = rut_process_start_time(getpid());

	if (!own)
		return;
	if (lock >= 0)
		flock(lock, LOCK_EX);
	if (start && !sweep(own, tgid, start))
		add(own, tgid, start);
	entered = getpid();
	munmap(own, sizeof(*own));
}

void rut_own_join(void)
{
	_cleanup_close_ int fd = access(PIN, W_OK) < 0 ? -1 : bpf_obj_get(PIN);

	if (fd >= 0)
		rut_own_enter(fd);
}

static int create(struct rut_err *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	_cleanup_close_ int fd =
		bpf_map_create(BPF_MAP_TYPE_ARRAY, "own", 4, sizeof(struct rut_own), 1, &opts);
	int other;

	if (fd < 0)
		return fd == -EPERM ? rut_kernel_no_privilege(err)
				    : rut_err_errno(err, -fd, "cannot make the map 'own'");
	if (bpf_obj_pin(fd, PIN) < 0) {
		/* Another process may have been quicker. */
		other = errno == EEXIST ? bpf_obj_get(PIN) : -1;
		if (other >= 0)
			return other;
		rut_debug("rutile's processes are known to this session only");
	}
	return RUT_TAKE_FD(fd);
}

int rut_own_open(struct rut_err *err)
{
	struct rut_own *own;
	int fd = bpf_obj_get(PIN);

	own = fd < 0 ? NULL : map_table(fd);
	if (own) {
		munmap(own, sizeof(*own));
	} else {
		if (fd >= 0) { /* another version's */
			close(fd);
			unlink(PIN);
		}
		fd = create(err);
		entered = 0;
	}
	if (fd >= 0 && entered != getpid())
		rut_own_enter(fd);
	return fd;
}
