/* SPDX-License-Identifier: MIT */
/*
 * Providers and probes: loading, firing, unloading, forking.
 *
 * Loading builds an ELF object (object.c) of the probes that are not loaded yet, writes it into a
 * sealed memfd and maps it privately: the sites executable, the gates writable. Tracers find the
 * mapping in /proc/PID/maps and the file in /proc/PID/fd; the kernel puts breakpoints into, and
 * counts tracers in, the private pages of one process. That is why a forked child is a target of
 * its own. Probes that are added later are merged with the others into a new object, unless
 * somebody traces those or shares them by fork(): then they get an object of their own, so that no
 * load ever moves a site under a tracer.
 *
 * What must stay true:
 * - A thread may read a probe's gate at any instant, also while another unloads. So the pointer to
 *   it swings to a constant 0 first, and the memory where the gate was stays readable for ever: it
 *   is overmapped by zeros and kept for the next object of that size.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "usdt/object.h"

/* Address space of objects that went: zeros, waiting for another object of the same size. */
struct spare {
	char *base;
	size_t size;
	struct spare *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct rutile_usdt_provider *providers;
static struct spare *spares;
static const volatile uint32_t closed_gate;
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

static void after_fork_in_parent(void)
{
	generation++;
	rut_usdt_unlock();
}

static void after_fork_in_child(void)
{
	generation++;
	for (struct rutile_usdt_provider *p = providers; p; p = p->next)
		for (size_t i = 0; i < p->n_probes; i++)
			p->probes[i]->begun = p->probes[i]->ended;
	rut_usdt_ctl_child();
	rut_usdt_unlock();
}

static void init_once(void)
{
	pthread_atfork(rut_usdt_lock, after_fork_in_parent, after_fork_in_child);
}

static bool name_is_valid(const char *name)
{
	size_t len = strlen(name);

	if (!len || len > RUTILE_USDT_NAME_MAX)
		return false;
	for (const char *c = name; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == ':')
			return false;
	return true;
}

int rutile_usdt_provider_new(const char *name, struct rutile_usdt_provider **ret)
{
	struct rutile_usdt_provider *p;

	if (!name_is_valid(name))
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

static bool types_are_valid(const enum rutile_usdt_type *types, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if ((int)types[i] <= 0 || types[i] >= RUTILE_USDT_TYPES)
			return false;
	return true;
}

static struct rut_usdt_probe *find_probe(const struct rutile_usdt_provider *p, const char *name)
{
	for (size_t i = 0; i < p->n_probes; i++)
		if (!strcmp(p->probes[i]->name, name))
			return p->probes[i];
	return NULL;
}

struct rutile_usdt_probe *rutile_usdt_probe_find(const struct rutile_usdt_provider *p,
						 const char *name,
						 const enum rutile_usdt_type **ret_types,
						 unsigned *ret_n)
{
	struct rut_usdt_probe *probe;

	rut_usdt_lock();
	probe = find_probe(p, name);
	rut_usdt_unlock();
	if (!probe)
		return NULL;
	if (ret_types)
		*ret_types = probe->types;
	if (ret_n)
		*ret_n = probe->n_types;
	return &probe->pub;
}

static int append_probe(struct rutile_usdt_provider *p, struct rut_usdt_probe *probe)
{
	struct rut_usdt_probe **more;

	if (find_probe(p, probe->name))
		return -EEXIST;
	more = realloc(p->probes, (p->n_probes + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	p->probes = more;
	p->probes[p->n_probes++] = probe;
	rut_usdt_ctl_add(probe);
	return 0;
}

int rutile_usdt_probe_add(struct rutile_usdt_provider *p, const char *name,
			  const enum rutile_usdt_type *types, unsigned n,
			  struct rutile_usdt_probe **ret)
{
	struct rut_usdt_probe *probe;
	int rc;

	if (n > RUTILE_USDT_MAX_ARGS)
		return -E2BIG;
	if (!name_is_valid(name) || !types_are_valid(types, n))
		return -EINVAL;
	probe = calloc(1, sizeof(*probe));
	if (!probe)
		return -ENOMEM;
	probe->name = strdup(name);
	if (!probe->name) {
		free(probe);
		return -ENOMEM;
	}
	probe->pub.gate = &closed_gate;
	probe->provider = p;
	probe->n_types = n;
	if (n)
		memcpy(probe->types, types, n * sizeof(*types));
	probe->on = true;
	probe->slot = &probe->own_slot;
	probe->slot_index = -1;
	probe->fd = -1;
	rut_usdt_lock();
	rc = append_probe(p, probe);
	rut_usdt_unlock();
	if (rc) {
		free(probe->name);
		free(probe);
		return rc;
	}
	*ret = &probe->pub;
	return 0;
}

#if defined(__linux__) && defined(RUT_USDT_ARCH)

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

int rut_usdt_memfd(const char *name, bool exec)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, exec ? flags | MFD_EXEC : flags);
	int high;

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	if (fd < 0)
		return -errno;
	if (fd > 2)
		return fd;
	/* The application closed its standard streams: whatever opens next expects to become them.
	 */
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	close(fd);
	return high < 0 ? -errno : high;
}

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* A range that nothing uses, from the spares or new; NULL: no address space. */
static char *take_range(size_t size)
{
	char *base;

	for (struct spare **s = &spares; *s; s = &(*s)->next) {
		struct spare *found = *s;

		if (found->size != size)
			continue;
		base = found->base;
		*s = found->next;
		free(found);
		return base;
	}
	base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return base == MAP_FAILED ? NULL : base;
}

/* Zeros over a range whose gates some thread may still look at. */
static void give_range(char *base, size_t size)
{
	struct spare *s = malloc(sizeof(*s));

	(void)mmap(base, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (!s)
		return; /* the range is lost; so is the process, soon */
	*s = (struct spare){.base = base, .size = size, .next = spares};
	spares = s;
}

static int map_object(struct rut_usdt_object *o, const struct rut_usdt_layout *at)
{
	char *base = take_range(at->size);
	int rc;

	if (!base)
		return -ENOMEM;
	if (mmap(base, at->rx_len, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, o->fd, 0) ==
		    MAP_FAILED ||
	    mmap(base + at->gates, at->rw_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
		 o->fd, (off_t)at->gates) == MAP_FAILED) {
		rc = -errno;
		give_range(base, at->size);
		return rc;
	}
	o->base = base;
	o->size = at->size;
	return 0;
}

static int open_object(const struct rutile_usdt_provider *p, const struct rut_buf *image,
		       struct rut_usdt_object *ret)
{
	_cleanup_close_ int fd = rut_usdt_memfd(p->name, true);
	struct stat st;
	int rc;

	if (fd < 0)
		return fd == -ENOSYS ? -ENOTSUP : fd;
	rc = write_all(fd, image->data, image->len);
	if (rc)
		return rc;
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	if (fstat(fd, &st))
		return -errno;
	*ret = (struct rut_usdt_object){
		.dev = st.st_dev, .ino = st.st_ino, .generation = generation};
	ret->fd = RUT_TAKE_FD(fd);
	return 0;
}

static bool owns_fd(const struct rut_usdt_object *o)
{
	struct stat st;

	return !fstat(o->fd, &st) && st.st_dev == o->dev && st.st_ino == o->ino;
}

static void close_object(const struct rut_usdt_object *o)
{
	if (owns_fd(o))
		close(o->fd);
}

/* One object of the probes that have none. Under the lock. */
static int load_object(struct rutile_usdt_provider *p, struct rut_usdt_probe **fresh, size_t n,
		       const struct rut_usdt_desc *descs)
{
	_cleanup_buf_ struct rut_buf image = RUT_BUF_INIT;
	struct rut_usdt_object o = {.fd = -1}, *more;
	struct rut_usdt_layout at = {0};
	int rc;

	more = realloc(p->objects, (p->n_objects + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	p->objects = more;
	rc = rut_usdt_object_build(RUT_USDT_ARCH, p->name, descs, n, &image, &at);
	if (rc)
		return rc;
	rc = open_object(p, &image, &o);
	if (rc)
		return rc;
	rc = map_object(&o, &at);
	if (rc) {
		close_object(&o);
		return rc;
	}
	p->objects[p->n_objects++] = o;
	for (size_t i = 0; i < n; i++) {
		fresh[i]->fd = o.fd;
		fresh[i]->site = o.base + at.text + i * RUT_USDT_SITE_BYTES;
		fresh[i]->gate =
			(volatile uint32_t *)(void *)(o.base + at.gates + i * RUT_USDT_GATE_BYTES);
		rut_usdt_ring_gate(fresh[i], fresh[i]->slot->ring);
		rut_usdt_probe_switch(fresh[i], fresh[i]->on);
	}
	return 0;
}

/* Who begins after the gate swung sees that; so this waits for those only that began before. */
void rut_usdt_wait_until_idle(const struct rut_usdt_probe *probe)
{
	uint64_t begun = __atomic_load_n(&probe->begun, __ATOMIC_SEQ_CST);

	while (__atomic_load_n(&probe->ended, __ATOMIC_SEQ_CST) < begun)
		sched_yield();
}

/* Waits until nobody is at a site whose gate swung, and takes the first n objects away. */
static void drop_objects(struct rutile_usdt_provider *p, size_t n)
{
	if (!n)
		return;
	for (size_t i = 0; i < p->n_probes; i++)
		rut_usdt_wait_until_idle(p->probes[i]);
	for (size_t i = 0; i < n; i++) {
		give_range(p->objects[i].base, p->objects[i].size);
		close_object(&p->objects[i]);
	}
	p->n_objects -= n;
	memmove(p->objects, p->objects + n, p->n_objects * sizeof(*p->objects));
}

/* Whether the probes that are loaded may move into a new object: nobody looks at where they are. */
static bool may_merge(const struct rutile_usdt_provider *p)
{
	for (size_t i = 0; i < p->n_objects; i++)
		if (p->objects[i].generation != generation)
			return false;
	for (size_t i = 0; i < p->n_probes; i++)
		if (p->probes[i]->gate && *p->probes[i]->gate)
			return false;
	return true;
}

/* Under the lock. */
static int load(struct rutile_usdt_provider *p)
{
	_cleanup_free_ struct rut_usdt_probe **fresh = calloc(p->n_probes + 1, sizeof(*fresh));
	_cleanup_free_ struct rut_usdt_desc *descs = calloc(p->n_probes + 1, sizeof(*descs));
	bool merge = may_merge(p);
	size_t n = 0, n_new = 0, n_old = p->n_objects;
	int rc;

	if (!fresh || !descs)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_probes; i++) {
		struct rut_usdt_probe *probe = p->probes[i];

		n_new += !probe->gate;
		if (probe->gate && !merge)
			continue;
		descs[n] = (struct rut_usdt_desc){probe->name, probe->types, probe->n_types};
		fresh[n++] = probe;
	}
	if (!n_new)
		return 0;
	rc = load_object(p, fresh, n, descs);
	if (!rc && merge)
		drop_objects(p, n_old);
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
		struct rut_usdt_probe *probe = p->probes[i];

		__atomic_store_n(&probe->pub.gate, &closed_gate, __ATOMIC_SEQ_CST);
		probe->gate = NULL;
		probe->fd = -1;
		rut_usdt_ctl_update(probe);
	}
	drop_objects(p, p->n_objects);
	free(p->objects);
	p->objects = NULL;
}

int rutile_usdt_provider_path(const struct rutile_usdt_provider *p, unsigned i, char *buf,
			      size_t len)
{
	const struct rut_usdt_object *o;
	int rc = -ENOENT, n;

	rut_usdt_lock();
	if (i < p->n_objects) {
		o = &p->objects[i];
		if (owns_fd(o))
			n = snprintf(buf, len, "/proc/%d/fd/%d", getpid(), o->fd);
		else /* closed by the application: there is a second way, for root */
			n = snprintf(buf, len, "/proc/%d/map_files/%lx-%lx", getpid(),
				     (unsigned long)o->base, (unsigned long)(o->base + o->size));
		rc = n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
	}
	rut_usdt_unlock();
	return rc;
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

int rut_usdt_memfd(const char *name, bool exec)
{
	(void)name, (void)exec;
	return -ENOTSUP;
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
	loaded = p->n_objects > 0;
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
	for (size_t i = 0; i < p->n_probes; i++)
		rut_usdt_ctl_remove(p->probes[i]);
	rut_usdt_unlock();
	for (size_t i = 0; i < p->n_probes; i++) {
		free(p->probes[i]->name);
		free(p->probes[i]);
	}
	free(p->probes);
	free(p->name);
	free(p);
}

void rut_usdt_probe_switch(struct rut_usdt_probe *probe, bool on)
{
	probe->on = on;
	__atomic_store_n(&probe->pub.gate, on && probe->gate ? probe->gate : &closed_gate,
			 __ATOMIC_SEQ_CST);
	rut_usdt_ctl_update(probe);
}

void rutile_usdt_fire(struct rutile_usdt_probe *pub, const uint64_t *args)
{
	struct rut_usdt_probe *probe = (struct rut_usdt_probe *)pub;
	uint64_t ended;
	uint32_t gate;

	__atomic_fetch_add(&probe->begun, 1, __ATOMIC_SEQ_CST);
	gate = *__atomic_load_n(&pub->gate, __ATOMIC_SEQ_CST);
	if (gate & 0xffff)
		call_site(probe->site, args, probe->n_types);
	if (gate >> 16)
		rut_usdt_ring_write(probe, args);
	if (!gate)
		__atomic_fetch_add(&probe->missed, 1, __ATOMIC_RELAXED);
	ended = __atomic_add_fetch(&probe->ended, 1, __ATOMIC_RELEASE);
	/* For the outside; of two threads the later number may be overwritten until the next event.
	 */
	__atomic_store_n(&probe->slot->counts[RUTILE_USDT_FIRED],
			 ended - __atomic_load_n(&probe->missed, __ATOMIC_RELAXED),
			 __ATOMIC_RELAXED);
}

uint64_t rutile_usdt_probe_count(const struct rutile_usdt_probe *pub, enum rutile_usdt_count what)
{
	const struct rut_usdt_probe *probe = (const struct rut_usdt_probe *)pub;

	if (what == RUTILE_USDT_FIRED)
		return __atomic_load_n(&probe->ended, __ATOMIC_RELAXED) -
		       __atomic_load_n(&probe->missed, __ATOMIC_RELAXED);
	return __atomic_load_n(&probe->slot->counts[what], __ATOMIC_RELAXED);
}

void rutile_usdt_probe_note(struct rutile_usdt_probe *pub, enum rutile_usdt_count what)
{
	struct rut_usdt_probe *probe = (struct rut_usdt_probe *)pub;

	__atomic_fetch_add(&probe->slot->counts[what], 1, __ATOMIC_RELAXED);
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
