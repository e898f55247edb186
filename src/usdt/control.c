/* SPDX-License-Identifier: MIT */
/*
 * The control page and its thread: see ctl.h for what is on the page, and usdt.h for why it is
 * safe.
 *
 * The thread sleeps in a futex of the page. It does nothing that waits for the application: probes
 * that only the application can switch (a Ruby method has to be wrapped) are left to the binding,
 * which is notified by `wake`.
 *
 * In a forked child the parent's page must not be used: a command for the parent would reach both.
 * The child maps a new page over the old one, at the same address, so that the probes' pointers to
 * their slots stay right.
 */
#include "usdt/provider.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>

#include "usdt/seat.h"

static struct {
	struct rut_usdt_ctl *page; /* NULL: never started; else never unmapped */
	int fd;			   /* -1: the page is not to be found */
	uint64_t dev, ino;	   /* of fd */
	struct rut_usdt_probe *probes[RUT_USDT_CTL_SLOTS];
	bool running;
	uintptr_t epoch; /* atomic; the thread of another one ends */
	pthread_t thread;
	void (*wake)(void *arg);
	void *wake_arg;
	uint32_t serial;
	/* As on the page, where others may write. */
	uint32_t n_slots;
	uint64_t text_used;
	uint32_t n_free, cursor; /* slots below n_slots that are free, where to look for one */
} ctl = {.fd = -1};

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A page of this process alone, at `where` (NULL: anywhere). Returns the memfd or -errno. */
static int map_page(struct rut_usdt_ctl *where, struct rut_usdt_ctl **ret)
{
	int fd = rut_usdt_memfd(RUT_USDT_CTL_NAME, false, sizeof(*where));
	void *page;
	int rc;

	if (fd < 0)
		return fd;
	/* The name lookup in /proc asks for the right to trace; the mode asks for the same user. */
	if (fchmod(fd, 0600) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	page = mmap(where, sizeof(*where), PROT_READ | PROT_WRITE,
		    MAP_SHARED | (where ? MAP_FIXED : 0), fd, 0);
	if (page == MAP_FAILED) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*ret = page;
	return fd;
}

static void note_identity(int fd)
{
	struct stat st;

	ctl.fd = fd;
	if (fd >= 0 && !fstat(fd, &st)) {
		ctl.dev = st.st_dev;
		ctl.ino = st.st_ino;
	}
}

static bool owns_fd(void)
{
	struct stat st;

	return ctl.fd >= 0 && !fstat(ctl.fd, &st) && st.st_dev == ctl.dev && st.st_ino == ctl.ino;
}

static void settle(struct rut_usdt_slot *slot)
{
	__atomic_store_n(&slot->want, RUT_USDT_WANT_NOTHING, __ATOMIC_RELEASE);
	__atomic_fetch_add(&ctl.page->done, 1, __ATOMIC_RELEASE);
	futex_wake(&ctl.page->done);
}

/* Carries out the wishes that need no help of the binding. Returns whether others are left. Under
 * the lock.
 */
static bool apply(void)
{
	bool deferred = false;

	for (unsigned i = 0; i < ctl.n_slots; i++) {
		struct rut_usdt_probe *probe = ctl.probes[i];
		uint32_t want;

		if (!probe)
			continue;
		want = __atomic_load_n(&probe->slot->want, __ATOMIC_ACQUIRE);
		if (want != RUT_USDT_WANT_ON && want != RUT_USDT_WANT_OFF)
			continue;
		if (probe->deferred) {
			deferred = true;
			continue;
		}
		rut_usdt_probe_switch(probe, want == RUT_USDT_WANT_ON);
		settle(probe->slot);
	}
	return deferred;
}

/* Opens and closes the gates of all probes by what is wanted now. Under the lock. */
static void serve_rings(void)
{
	rut_usdt_seats_serve(ctl.page);
	for (unsigned i = 0; i < ctl.n_slots; i++)
		if (ctl.probes[i])
			rut_usdt_ring_gate(ctl.probes[i]);
}

/* Sleeps until something is asked; with a ring, until the leases have to be checked. */
static void wait_for_request(struct rut_usdt_ctl *page, uint32_t seen)
{
	const struct timespec lease = {.tv_sec = RUT_USDT_RING_LEASE_S};

	syscall(SYS_futex, &page->request, FUTEX_WAIT, seen, rut_usdt_ring_mask() ? &lease : NULL,
		NULL, 0);
}

static void *serve(void *arg)
{
	struct rut_usdt_ctl *page = ctl.page;
	uint32_t seen = 0;

	while (__atomic_load_n(&ctl.epoch, __ATOMIC_ACQUIRE) == (uintptr_t)arg) {
		uint32_t request = __atomic_load_n(&page->request, __ATOMIC_ACQUIRE);
		void (*wake)(void *) = NULL;
		void *wake_arg = NULL;

		if (rut_usdt_ring_mask()) {
			rut_usdt_lock();
			if (rut_usdt_seats_end_leases(page))
				serve_rings();
			rut_usdt_unlock();
		}
		if (request == seen) {
			wait_for_request(page, seen);
			continue;
		}
		seen = request;
		rut_usdt_lock();
		serve_rings();
		if (apply()) {
			wake = ctl.wake;
			wake_arg = ctl.wake_arg;
		}
		rut_usdt_unlock();
		if (wake)
			wake(wake_arg);
	}
	return arg;
}

/* Under the lock. */
static int start_thread(void)
{
	sigset_t all, old;
	pthread_attr_t attr;
	/* A thread that was asked to stop may not have seen it yet: it must not take it back. */
	uintptr_t epoch = __atomic_add_fetch(&ctl.epoch, 1, __ATOMIC_ACQ_REL);
	int rc;

	/* What was asked before the thread looked is no news. */
	__atomic_store_n(&ctl.page->request, 0, __ATOMIC_RELEASE);
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&ctl.thread, &attr, serve, (void *)epoch);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc)
		return -rc;
	pthread_setname_np(ctl.thread, "rutile-usdt");
	ctl.running = true;
	return 0;
}

static int start(void (*wake)(void *arg), void *arg)
{
	struct rut_usdt_ctl *page = NULL;
	int fd;

	ctl.wake = wake;
	ctl.wake_arg = arg;
	if (ctl.running)
		return 0;
	fd = map_page(ctl.page, &page);
	if (fd < 0 || !page)
		return fd;
	note_identity(fd);
	ctl.page = page;
	page->slot_bytes = sizeof(struct rut_usdt_slot);
	page->n_slots = ctl.n_slots;
	page->text_used = ctl.text_used;
	page->pid = getpid();
	rut_usdt_seats_init(page);
	__atomic_store_n(&page->magic, RUT_USDT_CTL_MAGIC, __ATOMIC_RELEASE);
	rut_usdt_seats_from_env(page, ctl.fd);
	for (struct rutile_usdt_provider *p = rut_usdt_providers(); p; p = p->next)
		for (size_t i = 0; i < p->n_probes; i++)
			rut_usdt_ctl_add(p->probes[i]);
	return start_thread();
}

int rutile_usdt_control_start(void (*wake)(void *arg), void *arg)
{
	int rc;

	rut_usdt_lock();
	rc = start(wake, arg);
	rut_usdt_unlock();
	return rc;
}

void rutile_usdt_control_stop(void)
{
	pthread_t thread;

	rut_usdt_lock();
	if (!ctl.running) {
		rut_usdt_unlock();
		return;
	}
	ctl.running = false;
	thread = ctl.thread;
	__atomic_add_fetch(&ctl.epoch, 1, __ATOMIC_ACQ_REL);
	__atomic_fetch_add(&ctl.page->request, 1, __ATOMIC_RELEASE);
	futex_wake(&ctl.page->request);
	rut_usdt_rings_drop(rut_usdt_ring_mask());
	for (unsigned i = 0; i < ctl.n_slots; i++)
		if (ctl.probes[i])
			rut_usdt_ctl_remove(ctl.probes[i]);
	if (owns_fd())
		close(ctl.fd);
	ctl.fd = -1;
	rut_usdt_unlock();
	pthread_join(thread, NULL);
}

/* Room for a text, if possible the slot's own; false: there is none. */
static bool make_room(struct rut_usdt_slot *slot, size_t bytes)
{
	if (slot->text_bytes >= bytes && slot->text <= RUT_USDT_TEXT_BYTES - bytes)
		return true;
	if (ctl.text_used + bytes > RUT_USDT_TEXT_BYTES)
		return false;
	slot->text = (uint32_t)ctl.text_used;
	slot->text_bytes = (uint32_t)bytes;
	ctl.text_used += bytes;
	__atomic_store_n(&ctl.page->text_used, ctl.text_used, __ATOMIC_RELEASE);
	return true;
}

static bool put_text(struct rut_usdt_slot *slot, const struct rut_usdt_probe *probe)
{
	const char *parts[] = {probe->provider->name, probe->name,
			       probe->arg_names ? probe->arg_names : ""};
	size_t bytes = 3;
	char *to;

	for (unsigned i = 0; i < 3; i++)
		bytes += strlen(parts[i]);
	if (!make_room(slot, bytes))
		return false;
	to = ctl.page->texts + slot->text;
	for (unsigned i = 0; i < 3; i++) {
		memcpy(to, parts[i], strlen(parts[i]) + 1);
		to += strlen(parts[i]) + 1;
	}
	return true;
}

static bool fill_slot(struct rut_usdt_slot *slot, const struct rut_usdt_probe *probe)
{
	uint32_t before = __atomic_load_n(&slot->ring, __ATOMIC_ACQUIRE);

	if (!put_text(slot, probe))
		return false;
	slot->want = RUT_USDT_WANT_NOTHING;
	slot->n_types = probe->n_types;
	for (unsigned i = 0; i < probe->n_types; i++)
		slot->types[i] = (uint8_t)probe->types[i];
	slot->serial = ++ctl.serial;
	/* A tool that recorded the slot's last probe knows the number as that one's. */
	__atomic_store_n(&slot->ring,
			 rut_usdt_seats_match(ctl.page, probe->provider->name, probe->name) &
				 ~before,
			 __ATOMIC_RELEASE);
	return true;
}

/* From now on threads count in `to`. What they counted elsewhere until now is added there. */
static void move_counts(struct rut_usdt_probe *probe, uint64_t *to)
{
	uint64_t *from = probe->counts;

	for (unsigned i = 0; i < RUTILE_USDT_COUNTS; i++)
		__atomic_store_n(&to[i], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&probe->counts, to, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < RUTILE_USDT_COUNTS; i++) {
		uint64_t so_far = __atomic_load_n(&from[i], __ATOMIC_RELAXED), none = 0;

		/* Of the events it is the sum that is stored, not what is to be added. */
		if (i == RUTILE_USDT_FIRED)
			__atomic_compare_exchange_n(&to[i], &none, so_far, false, __ATOMIC_RELAXED,
						    __ATOMIC_RELAXED);
		else
			__atomic_fetch_add(&to[i], so_far, __ATOMIC_RELAXED);
	}
}

/* Events of a slot's last probe may be in the ring: such a slot is taken only when asked for. */
static unsigned find_free(bool recorded)
{
	for (unsigned n = 0; n < ctl.n_slots; n++) {
		unsigned i = ctl.cursor = (ctl.cursor + 1) % ctl.n_slots;

		if (!ctl.probes[i] && (recorded || !ctl.page->slots[i].ring))
			return i;
	}
	return RUT_USDT_CTL_SLOTS;
}

/* A free one if there are many, so that the search is short; else one that was never used. */
static unsigned free_slot(void)
{
	unsigned i = RUT_USDT_CTL_SLOTS;

	if (ctl.n_free > 256 && ctl.n_free > ctl.n_slots / 8)
		i = find_free(false);
	if (i == RUT_USDT_CTL_SLOTS && ctl.n_slots < RUT_USDT_CTL_SLOTS)
		return ctl.n_slots;
	if (i == RUT_USDT_CTL_SLOTS && ctl.n_free)
		i = find_free(false);
	if (i == RUT_USDT_CTL_SLOTS && ctl.n_free)
		i = find_free(true);
	return i;
}

void rut_usdt_ctl_add(struct rut_usdt_probe *probe)
{
	struct rut_usdt_slot *slot;
	unsigned i;

	if (!ctl.page || ctl.fd < 0 || probe->slot_index >= 0)
		return;
	i = free_slot();
	if (i == RUT_USDT_CTL_SLOTS || !fill_slot(&ctl.page->slots[i], probe))
		return; /* works as any other, but is not seen from outside */
	slot = &ctl.page->slots[i];
	ctl.probes[i] = probe;
	probe->slot_index = (int)i;
	probe->slot = slot;
	move_counts(probe, slot->counts);
	rut_usdt_ctl_update(probe);
	__atomic_store_n(&slot->state, RUT_USDT_SLOT_USED, __ATOMIC_RELEASE);
	if (ctl.n_slots <= i) {
		ctl.n_slots = i + 1;
		__atomic_store_n(&ctl.page->n_slots, ctl.n_slots, __ATOMIC_RELEASE);
	} else {
		ctl.n_free--;
	}
	if (slot->ring)
		__atomic_fetch_add(&ctl.page->news, 1, __ATOMIC_RELEASE);
	rut_usdt_ring_gate(probe);
}

void rut_usdt_ctl_remove(struct rut_usdt_probe *probe)
{
	if (probe->slot_index < 0)
		return;
	__atomic_store_n(&probe->slot->state, RUT_USDT_SLOT_FREE, __ATOMIC_RELEASE);
	move_counts(probe, probe->own_counts);
	ctl.probes[probe->slot_index] = NULL;
	ctl.n_free++;
	probe->slot_index = -1;
	probe->slot = NULL;
}

void rut_usdt_ctl_rename(struct rut_usdt_probe *probe)
{
	if (probe->slot)
		(void)put_text(probe->slot, probe);
}

void rut_usdt_ctl_update(struct rut_usdt_probe *probe)
{
	struct rut_usdt_slot *slot = probe->slot;
	uint32_t flags = 0;

	if (!slot)
		return;
	flags |= probe->on ? RUT_USDT_SLOT_ON : 0;
	flags |= probe->deferred ? RUT_USDT_SLOT_DEFERRED : 0;
	flags |= probe->gate ? RUT_USDT_SLOT_LOADED : 0;
	slot->gate = (uintptr_t)probe->gate;
	slot->fd = probe->gate ? rut_usdt_probe_fd(probe) : -1;
	__atomic_store_n(&slot->flags, flags, __ATOMIC_RELEASE);
}

/* What is in use of the page, into memory that the child has for itself. */
static void *copy_page(size_t *ret_bytes, size_t *ret_slots)
{
	size_t slots =
		offsetof(struct rut_usdt_ctl, slots) + ctl.n_slots * sizeof(struct rut_usdt_slot);
	/* Not malloc(): other libraries' fork handlers may not have run yet. */
	char *copy = mmap(NULL, slots + ctl.text_used, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return NULL;
	memcpy(copy, ctl.page, slots);
	memcpy(copy + slots, ctl.page->texts, ctl.text_used);
	*ret_slots = slots;
	*ret_bytes = slots + ctl.text_used;
	return copy;
}

/* A tool may find the child's page before it is whole: it must not take the parent's rings for the
 * child's. */
static void unpublish(struct rut_usdt_ctl *copy)
{
	copy->magic = 0;
	for (unsigned i = 0; i < RUT_USDT_SEATS; i++) {
		copy->seats[i].made_for = 0;
		copy->seats[i].fd = RUT_USDT_NO_RING;
	}
}

/* In the child of a fork, under the lock: a page, rings and a thread of its own. */
void rut_usdt_ctl_child(void)
{
	int fd, old = owns_fd() ? ctl.fd : -1;
	uint32_t recorded = rut_usdt_ring_mask();
	struct rut_usdt_ctl *page;
	size_t bytes, slots;
	char *copy;

	rut_usdt_rings_child();
	if (!ctl.running)
		return;
	ctl.running = false;
	copy = copy_page(&bytes, &slots);
	if (copy)
		unpublish((struct rut_usdt_ctl *)(void *)copy);
	fd = map_page(ctl.page, &page);
	if (fd < 0) /* no outside control, but never the parent's page */
		(void)mmap(ctl.page, sizeof(*ctl.page), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (copy) {
		memcpy(ctl.page, copy, slots);
		memcpy(ctl.page->texts, copy + slots, bytes - slots);
		munmap(copy, bytes);
	}
	ctl.page->pid = getpid();
	__atomic_store_n(&ctl.page->magic, RUT_USDT_CTL_MAGIC, __ATOMIC_RELEASE);
	if (fd >= 0 && old >= 0 && dup3(fd, old, O_CLOEXEC) == old) {
		close(fd);
		fd = old;
	}
	note_identity(fd);
	rut_usdt_seats_child(ctl.page, fd, copy ? recorded : 0);
	for (unsigned i = 0; i < ctl.n_slots; i++)
		if (ctl.probes[i])
			rut_usdt_ring_gate(ctl.probes[i]);
	if (fd >= 0)
		start_thread();
}

int rutile_usdt_probe_wanted(const struct rutile_usdt_probe *pub)
{
	const struct rut_usdt_probe *probe = (const struct rut_usdt_probe *)pub;
	uint32_t want;

	rut_usdt_lock();
	want = probe->slot ? __atomic_load_n(&probe->slot->want, __ATOMIC_ACQUIRE)
			   : RUT_USDT_WANT_NOTHING;
	rut_usdt_unlock();
	return want == RUT_USDT_WANT_ON ? 1 : want == RUT_USDT_WANT_OFF ? 0 : -1;
}

static void forget_wish(struct rut_usdt_probe *probe)
{
	if (probe->slot && probe->slot->want)
		settle(probe->slot);
}

#else /* no futex, no memfd: no control from outside */

int rutile_usdt_control_start(void (*wake)(void *arg), void *arg)
{
	(void)wake, (void)arg;
	return -ENOTSUP;
}

void rutile_usdt_control_stop(void)
{
}

void rut_usdt_ctl_add(struct rut_usdt_probe *probe)
{
	(void)probe;
}

void rut_usdt_ctl_remove(struct rut_usdt_probe *probe)
{
	(void)probe;
}

void rut_usdt_ctl_update(struct rut_usdt_probe *probe)
{
	(void)probe;
}

void rut_usdt_ctl_rename(struct rut_usdt_probe *probe)
{
	(void)probe;
}

void rut_usdt_ctl_child(void)
{
}

int rutile_usdt_probe_wanted(const struct rutile_usdt_probe *probe)
{
	(void)probe;
	return -1;
}

static void forget_wish(struct rut_usdt_probe *probe)
{
	(void)probe;
}

#endif

void rutile_usdt_probe_set(struct rutile_usdt_probe *pub, bool on)
{
	struct rut_usdt_probe *probe = (struct rut_usdt_probe *)pub;

	rut_usdt_lock();
	rut_usdt_probe_switch(probe, on);
	forget_wish(probe);
	rut_usdt_unlock();
}

void rutile_usdt_probe_defer(struct rutile_usdt_probe *pub, bool deferred)
{
	struct rut_usdt_probe *probe = (struct rut_usdt_probe *)pub;

	rut_usdt_lock();
	probe->deferred = deferred;
	rut_usdt_ctl_update(probe);
	rut_usdt_unlock();
}
