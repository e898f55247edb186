/* SPDX-License-Identifier: MIT */
/*
 * Providers and probes: declaring, loading, firing, unloading, forking.
 *
 * Loading gives each probe a site and a gate in an arena (arena.c) and describes it there. A probe
 * keeps its site as long as it exists, so tracers that stay attached see it again after it was
 * unloaded and loaded.
 *
 * What must stay true:
 * - A thread may read a probe's gate at any instant, also while another unloads. So the pointer to
 *   it swings to a constant 0 first, and the memory of the gate stays readable.
 * - A thread may be at a site while another unloads. Firing counts its begin, reads the gate
 *   again, and counts its end; unloading swings the gates and waits until both counts are the same.
 *   Firing calls nothing that blocks, so this is short.
 * - fork() may happen in one thread while another holds the lock or fires: the lock is taken across
 *   the fork, and the child, in which no other thread lives, forgets the others' counts.
 */
#include "usdt/provider.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "usdt/arena.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rutile_usdt_provider *providers;
const volatile uint32_t rut_usdt_closed_gate;
static uint32_t generation; /* forks that this process did or came from */

void rut_usdt_lock(void)
{
	pthread_mutex_lock(&lock);
}

void rut_usdt_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

uint32_t rut_usdt_generation(void)
{
	return __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

struct rutile_usdt_provider *rut_usdt_providers(void)
{
	return providers;
}

static bool renew_sites(void);

/* What cannot be fired without danger never is. */
static void close_all(void)
{
	for (struct rutile_usdt_provider *p = providers; p; p = p->next)
		for (size_t i = 0; i < p->n_probes; i++)
			p->probes[i]->pub.gate = &rut_usdt_closed_gate;
}

static void after_fork_in_parent(void)
{
	generation++;
	rut_usdt_unlock();
}

static void after_fork_in_child(void)
{
	bool safe;

	generation++;
	for (struct rutile_usdt_provider *p = providers; p; p = p->next)
		for (size_t i = 0; i < p->n_probes; i++)
			p->probes[i]->begun = p->probes[i]->ended;
	safe = renew_sites();
	rut_usdt_ctl_child();
	if (!safe)
		close_all();
	rut_usdt_unlock();
}

static void init_once(void)
{
	pthread_atfork(rut_usdt_lock, after_fork_in_parent, after_fork_in_child);
}

int rutile_usdt_provider_new(const char *name, struct rutile_usdt_provider **ret)
{
	struct rutile_usdt_provider *p;

	if (!rut_usdt_name_is_valid(name))
		return -EINVAL;
	pthread_once(&once, init_once);
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->name = strdup(name);
	if (!p->name) {
		free(p);
		return -ENOMEM;
	}
	rut_usdt_lock();
	p->next = providers;
	providers = p;
	rut_usdt_unlock();
	*ret = p;
	return 0;
}

const char *rutile_usdt_provider_name(const struct rutile_usdt_provider *p)
{
	return p->name;
}

/* A thread that begins after the gate swung sees that; this waits for those that began before. */
void rut_usdt_wait_until_idle(const struct rut_usdt_probe *probe)
{
	uint64_t begun = __atomic_load_n(&probe->begun, __ATOMIC_SEQ_CST);

	while (__atomic_load_n(&probe->ended, __ATOMIC_SEQ_CST) < begun)
		sched_yield();
}

#if defined(__linux__) && defined(RUT_USDT_ARCH)

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

/* Not 0, 1 or 2: the application may have closed its standard streams to reopen them. */
static int high_memfd(const char *name, unsigned flags)
{
	int fd = memfd_create(name, flags), high;

	if (fd < 0 && errno == EINVAL && flags & MFD_EXEC)
		fd = memfd_create(name, flags & ~MFD_EXEC);
	if (fd < 0)
		return -errno;
	if (fd > 2)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return high < 0 ? -errno : high;
}

int rut_usdt_memfd(const char *name, bool exec, size_t bytes)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (exec ? MFD_EXEC : 0);
	struct rlimit limit;
	int fd, rc;

	/* Above the limit the kernel would kill the process by SIGXFSZ. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < bytes)
		return -EFBIG;
	fd = high_memfd(name, flags);
	if (fd < 0)
		return fd;
	if (!ftruncate(fd, (off_t)bytes))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

/* The probe cannot be seen or fired from now on; threads may still be at its site. */
static void close_probe(struct rut_usdt_probe *probe)
{
	__atomic_store_n(&probe->pub.gate, &rut_usdt_closed_gate, __ATOMIC_SEQ_CST);
	__atomic_store_n(&probe->gate, NULL, __ATOMIC_RELEASE);
	rut_usdt_ctl_update(probe);
}

/* Under the lock. */
static int load_probe(struct rut_usdt_probe *probe)
{
	const struct rut_usdt_desc desc = {probe->name, probe->types, probe->n_types};
	int rc = 0;

	do {
		if (!probe->arena)
			rc = rut_usdt_arena_take(&probe->arena, &probe->site_index);
		if (rc)
			return rc;
		rc = rut_usdt_arena_show(probe->arena, probe->site_index, probe->provider->name,
					 &desc);
		if (rc) {
			rut_usdt_arena_give(probe->arena, probe->site_index);
			probe->arena = NULL;
		}
	} while (rc == -ENOSPC);
	if (rc)
		return rc;
	probe->site = rut_usdt_arena_site(probe->arena, probe->site_index);
	__atomic_store_n(&probe->gate, rut_usdt_arena_gate(probe->arena, probe->site_index),
			 __ATOMIC_RELEASE);
	rut_usdt_ring_gate(probe);
	rut_usdt_probe_switch(probe, probe->on);
	return 0;
}

/* Under the lock. */
static int load(struct rutile_usdt_provider *p)
{
	struct rut_usdt_arena *a;
	int rc = p->n_probes ? 0 : rut_usdt_arena_get(&a);

	for (size_t i = p->n_loaded; i < p->n_probes && !rc; i++) {
		if (!p->probes[i]->gate)
			rc = load_probe(p->probes[i]);
		if (!rc)
			p->n_loaded = i + 1;
	}
	if (!rc)
		p->loaded = true;
	return rc;
}

int rutile_usdt_provider_load(struct rutile_usdt_provider *p)
{
	int rc;

	rut_usdt_lock();
	rc = load(p);
	rut_usdt_unlock();
	return rc;
}

/* Under the lock. */
static void unload(struct rutile_usdt_provider *p)
{
	for (size_t i = 0; i < p->n_probes; i++) {
		if (!p->probes[i]->gate)
			continue;
		close_probe(p->probes[i]);
		rut_usdt_arena_hide(p->probes[i]->arena, p->probes[i]->site_index);
	}
	rut_usdt_arena_sweep();
	for (size_t i = 0; i < p->n_probes; i++)
		rut_usdt_wait_until_idle(p->probes[i]);
	p->n_loaded = 0;
	p->loaded = false;
}

/* Gives the site back; the probe is unloaded and idle. */
static void give_site(struct rut_usdt_probe *probe)
{
	if (probe->arena)
		rut_usdt_arena_give(probe->arena, probe->site_index);
	probe->arena = NULL;
}

void rut_usdt_probe_retire(struct rut_usdt_probe *probe)
{
	close_probe(probe);
	if (!probe->arena)
		return;
	rut_usdt_arena_hide(probe->arena, probe->site_index);
	rut_usdt_arena_sweep();
	rut_usdt_wait_until_idle(probe);
	give_site(probe);
}

static bool is_in(const struct rutile_usdt_provider *p, const struct rut_usdt_arena *a)
{
	for (size_t i = 0; i < p->n_probes; i++)
		if (p->probes[i]->gate && p->probes[i]->arena == a)
			return true;
	/* One without probes is where they would be. */
	return !p->n_probes && p->loaded && !rut_usdt_arena_next(a);
}

int rutile_usdt_provider_path(const struct rutile_usdt_provider *p, unsigned i, char *buf,
			      size_t len)
{
	struct rut_usdt_arena *a;
	int rc = -ENOENT;

	rut_usdt_lock();
	for (a = rut_usdt_arena_next(NULL); a; a = rut_usdt_arena_next(a))
		if (is_in(p, a) && !i--)
			break;
	if (a)
		rc = rut_usdt_arena_path(a, buf, len);
	rut_usdt_unlock();
	return rc;
}

int rut_usdt_probe_fd(const struct rut_usdt_probe *probe)
{
	return rut_usdt_arena_fd(probe->arena);
}

static bool renew_sites(void)
{
	return rut_usdt_arena_child();
}

/* The sites are functions that return at once; what matters is where the arguments are. */
static void call_site(void *site, const uint64_t *args, unsigned n)
{
	typedef uint64_t u;
	u a[RUTILE_USDT_MAX_ARGS];

	switch (n) {
	case 0:
		((void (*)(void))site)();
		return;
	case 1:
		((void (*)(u))site)(args[0]);
		return;
	case 2:
		((void (*)(u, u))site)(args[0], args[1]);
		return;
	case 3:
		((void (*)(u, u, u))site)(args[0], args[1], args[2]);
		return;
	case 4:
		((void (*)(u, u, u, u))site)(args[0], args[1], args[2], args[3]);
		return;
	default:
		break;
	}
	for (unsigned i = 0; i < RUTILE_USDT_MAX_ARGS; i++)
		a[i] = i < n ? args[i] : 0;
	((void (*)(u, u, u, u, u, u, u, u, u, u, u, u))site)(a[0], a[1], a[2], a[3], a[4], a[5],
							     a[6], a[7], a[8], a[9], a[10], a[11]);
}

#else /* no way to be traced here: probes exist and stay off */

int rut_usdt_memfd(const char *name, bool exec, size_t bytes)
{
	(void)name, (void)exec, (void)bytes;
	return -ENOTSUP;
}

void rut_usdt_probe_retire(struct rut_usdt_probe *probe)
{
	(void)probe;
}

static void give_site(struct rut_usdt_probe *probe)
{
	(void)probe;
}

static bool renew_sites(void)
{
	return true;
}

int rutile_usdt_provider_load(struct rutile_usdt_provider *p)
{
	(void)p;
	return -ENOTSUP;
}

static void unload(struct rutile_usdt_provider *p)
{
	(void)p;
}

int rutile_usdt_provider_path(const struct rutile_usdt_provider *p, unsigned i, char *buf,
			      size_t len)
{
	(void)p, (void)i, (void)buf, (void)len;
	return -ENOENT;
}

static void call_site(void *site, const uint64_t *args, unsigned n)
{
	(void)site, (void)args, (void)n;
}

#endif

void rutile_usdt_provider_unload(struct rutile_usdt_provider *p)
{
	rut_usdt_lock();
	unload(p);
	rut_usdt_unlock();
}

bool rutile_usdt_provider_loaded(const struct rutile_usdt_provider *p)
{
	bool loaded;

	rut_usdt_lock();
	loaded = p->loaded;
	rut_usdt_unlock();
	return loaded;
}

void rutile_usdt_provider_free(struct rutile_usdt_provider *p)
{
	if (!p)
		return;
	rut_usdt_lock();
	unload(p);
	for (struct rutile_usdt_provider **at = &providers; *at; at = &(*at)->next) {
		if (*at == p) {
			*at = p->next;
			break;
		}
	}
	for (size_t i = 0; i < p->n_probes; i++) {
		rut_usdt_ctl_remove(p->probes[i]);
		give_site(p->probes[i]);
	}
	rut_usdt_unlock();
	for (size_t i = 0; i < p->n_probes; i++)
		rut_usdt_probe_free(p->probes[i]);
	while (p->replaced) {
		struct rut_usdt_probe *probe = p->replaced;

		p->replaced = probe->replaced;
		rut_usdt_probe_free(probe);
	}
	free(p->probes);
	free(p->names);
	free(p->name);
	free(p);
}

void rut_usdt_probe_switch(struct rut_usdt_probe *probe, bool on)
{
	probe->on = on;
	__atomic_store_n(&probe->pub.gate, on && probe->gate ? probe->gate : &rut_usdt_closed_gate,
			 __ATOMIC_SEQ_CST);
	rut_usdt_ctl_update(probe);
}

static void set_time(struct rut_usdt_timing *timing)
{
	timing->ns = rut_now_ns();
	if (timing->duration)
		*timing->duration = timing->ns - timing->start_ns;
}

/* Inlined into both callers, so that firing without a timing does not check for one. */
static inline __attribute__((always_inline)) void fire(struct rutile_usdt_probe *pub,
						       const uint64_t *args,
						       struct rut_usdt_timing *timing)
{
	struct rut_usdt_probe *probe = (struct rut_usdt_probe *)pub;
	uint64_t ended, *counts;
	uint32_t gate;

	__atomic_fetch_add(&probe->begun, 1, __ATOMIC_SEQ_CST);
	gate = __atomic_load_n(__atomic_load_n(&pub->gate, __ATOMIC_SEQ_CST), __ATOMIC_ACQUIRE);
	/* The site may cost a microsecond: an interval begins after it and ends before it. */
	if (timing && timing->duration && gate & 0xffff)
		set_time(timing);
	if (gate & 0xffff)
		call_site(probe->site, args, probe->n_types);
	if (gate >> 16)
		rut_usdt_ring_write(probe, args, gate >> 16, timing);
	if (!gate)
		__atomic_fetch_add(&probe->missed, 1, __ATOMIC_RELAXED);
	ended = __atomic_add_fetch(&probe->ended, 1, __ATOMIC_RELEASE);
	/* For the outside; of two threads the later number may be overwritten until the next event.
	 */
	counts = __atomic_load_n(&probe->counts, __ATOMIC_ACQUIRE);
	__atomic_store_n(&counts[RUTILE_USDT_FIRED],
			 ended - __atomic_load_n(&probe->missed, __ATOMIC_RELAXED),
			 __ATOMIC_RELAXED);
}

void rutile_usdt_fire(struct rutile_usdt_probe *pub, const uint64_t *args)
{
	fire(pub, args, NULL);
}

uint64_t rutile_usdt_fire_timed(struct rutile_usdt_probe *pub, const uint64_t *args,
				uint64_t start_ns, uint64_t *duration)
{
	struct rut_usdt_timing timing = {start_ns, duration, 0};

	fire(pub, args, &timing);
	if (!timing.ns)
		set_time(&timing);
	return timing.ns;
}

uint64_t rutile_usdt_probe_count(const struct rutile_usdt_probe *pub, enum rutile_usdt_count what)
{
	const struct rut_usdt_probe *probe = (const struct rut_usdt_probe *)pub;
	const uint64_t *counts = __atomic_load_n(&probe->counts, __ATOMIC_ACQUIRE);

	if (what == RUTILE_USDT_FIRED)
		return __atomic_load_n(&probe->ended, __ATOMIC_RELAXED) -
		       __atomic_load_n(&probe->missed, __ATOMIC_RELAXED);
	return __atomic_load_n(&counts[what], __ATOMIC_RELAXED);
}

void rut_usdt_probe_note(struct rut_usdt_probe *probe, enum rutile_usdt_count what)
{
	uint64_t *counts = __atomic_load_n(&probe->counts, __ATOMIC_ACQUIRE);

	__atomic_fetch_add(&counts[what], 1, __ATOMIC_RELAXED);
}

void rutile_usdt_probe_note(struct rutile_usdt_probe *pub, enum rutile_usdt_count what)
{
	rut_usdt_probe_note((struct rut_usdt_probe *)pub, what);
}

bool rutile_usdt_probe_is_on(const struct rutile_usdt_probe *pub)
{
	const struct rut_usdt_probe *probe = (const struct rut_usdt_probe *)pub;
	bool on;

	rut_usdt_lock();
	on = probe->on && probe->gate;
	rut_usdt_unlock();
	return on;
}
