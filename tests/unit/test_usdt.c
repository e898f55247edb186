/* SPDX-License-Identifier: MIT */
/* librutile-usdt: the object as libelf reads it, and the life of providers and probes. */
#include "unit.h"
#include "usdt/remote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "rutile/usdt.h"
#include "usdt/arena.h"
#include "usdt/ctl.h"
#include "usdt/object.h"
#include "usdt/provider.h"

static const enum rutile_usdt_type all_types[RUTILE_USDT_MAX_ARGS] = {
	RUTILE_USDT_S64, RUTILE_USDT_STR, RUTILE_USDT_S32, RUTILE_USDT_U16,
	RUTILE_USDT_S8,	 RUTILE_USDT_F64, RUTILE_USDT_U64, RUTILE_USDT_BOOL,
	RUTILE_USDT_U32, RUTILE_USDT_S16, RUTILE_USDT_U8,  RUTILE_USDT_S64,
};

/* The n-th note of .note.stapsdt, and the addresses in it. */
struct note {
	uint64_t site, base, semaphore;
	const char *provider, *name, *args;
};

static bool find_note(Elf *elf, unsigned n, struct note *ret)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	size_t names;

	elf_getshdrstrndx(elf, &names);
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Nhdr nh;
		Elf_Data *data;
		size_t at = 0, name, desc;

		gelf_getshdr(scn, &sh);
		if (strcmp(elf_strptr(elf, names, sh.sh_name), ".note.stapsdt") != 0)
			continue;
		data = elf_getdata(scn, NULL);
		while ((at = gelf_getnote(data, at, &nh, &name, &desc)) > 0) {
			const char *d = (const char *)data->d_buf + desc;

			assert_int_equal(nh.n_type, 3);
			assert_string_equal((const char *)data->d_buf + name, "stapsdt");
			if (n--)
				continue;
			memcpy(ret, d, 24);
			ret->provider = d + 24;
			ret->name = ret->provider + strlen(ret->provider) + 1;
			ret->args = ret->name + strlen(ret->name) + 1;
			assert_ptr_equal(ret->args + strlen(ret->args) + 1, d + nh.n_descsz);
			return true;
		}
	}
	return false;
}

static bool section_address(Elf *elf, const char *name, uint64_t *ret, uint64_t *ret_size)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	size_t names;

	elf_getshdrstrndx(elf, &names);
	while ((scn = elf_nextscn(elf, scn))) {
		gelf_getshdr(scn, &sh);
		if (!strcmp(elf_strptr(elf, names, sh.sh_name), name)) {
			*ret = sh.sh_addr;
			*ret_size = sh.sh_size;
			return true;
		}
	}
	return false;
}

struct file {
	struct rut_usdt_image image;
	void *mem;
};

static void new_file(struct file *f, enum rut_usdt_arch arch, uint32_t sites)
{
	struct rut_usdt_layout at;

	rut_usdt_layout_of(arch, sites, &at);
	f->mem = mmap(NULL, at.file_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(f->mem, MAP_FAILED);
	assert_int_equal(rut_usdt_image_init(&f->image, arch, sites, f->mem, 1), 0);
}

static void free_file(struct file *f)
{
	munmap(f->mem, f->image.at.file_bytes);
	rut_usdt_image_fini(&f->image);
}

static Elf *open_file(const struct file *f)
{
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory(f->mem, f->image.at.file_bytes);
	assert_non_null(elf);
	return elf;
}

static void check_object(enum rut_usdt_arch arch, int machine, const char *args, const void *insn,
			 size_t insn_bytes)
{
	const struct rut_usdt_desc none = {"none", NULL, 0}, all = {"all", all_types, 12};
	uint64_t addr, size, base;
	struct file f;
	struct note note;
	GElf_Ehdr eh;
	GElf_Phdr ph;
	Elf *elf;

	new_file(&f, arch, 16);
	assert_int_equal(rut_usdt_image_add(&f.image, 0, "shop", &none), 0);
	assert_int_equal(rut_usdt_image_add(&f.image, 3, "shop", &all), 0);
	assert_int_equal(rut_usdt_image_add(&f.image, 16, "shop", &all), -ENOSPC);
	elf = open_file(&f);
	assert_non_null(gelf_getehdr(elf, &eh));
	assert_int_equal(eh.e_machine, machine);
	assert_int_equal(eh.e_type, ET_DYN);
	assert_true(section_address(elf, ".stapsdt.base", &base, &size));
	assert_true(section_address(elf, ".probes", &addr, &size));
	assert_int_equal(addr % rut_usdt_page_bytes(arch), 0);
	assert_non_null(gelf_getphdr(elf, 1, &ph));
	assert_int_equal(ph.p_flags, PF_R | PF_W);
	assert_true(find_note(elf, 0, &note));
	assert_string_equal(note.name, "none");
	assert_string_equal(note.args, "");
	assert_true(find_note(elf, 1, &note));
	assert_string_equal(note.provider, "shop");
	assert_string_equal(note.name, "all");
	assert_string_equal(note.args, args);
	assert_int_equal(note.base, base);
	assert_true(note.semaphore >= addr && note.semaphore + 2 <= addr + size);
	assert_memory_equal((char *)f.mem + note.site, insn, insn_bytes);
	assert_false(find_note(elf, 2, &note));
	/* Everything that is mapped is in the file: no SIGBUS at the gates. */
	assert_true(f.image.at.file_bytes >= f.image.at.size);
	elf_end(elf);
	free_file(&f);
}

static void test_object_x86_64(void **state)
{
	static const uint8_t nop_ret[] = {0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3};

	(void)state;
	check_object(RUT_USDT_X86_64, EM_X86_64,
		     "-8@%rdi 8@%rsi -4@%edx 2@%cx -1@%r8b 8@%r9 8@8(%rsp) 1@16(%rsp) "
		     "4@24(%rsp) -2@32(%rsp) 1@40(%rsp) -8@48(%rsp)",
		     nop_ret, sizeof(nop_ret));
}

static void test_object_aarch64(void **state)
{
	static const uint32_t nop_ret[] = {0xd503201f, 0xd65f03c0};

	(void)state;
	check_object(RUT_USDT_AARCH64, EM_AARCH64,
		     "-8@x0 8@x1 -4@x2 2@x3 -1@x4 8@x5 8@x6 1@x7 "
		     "4@[sp, 0] -2@[sp, 8] 1@[sp, 16] -8@[sp, 24]",
		     nop_ret, sizeof(nop_ret));
}

static bool is_odd(uint32_t site, void *arg)
{
	(void)arg;
	return site & 1;
}

/* Many probes need several pages of sites and gates: every address must be inside its section. */
static void test_object_large(void **state)
{
	char name[8], want[8];
	struct note note;
	struct file f;
	Elf *elf;

	(void)state;
	new_file(&f, RUT_USDT_X86_64, 2000);
	for (unsigned i = 0; i < 2000; i++) {
		const struct rut_usdt_desc d = {name, all_types, i % 13};

		snprintf(name, sizeof(name), "p%u", i);
		assert_int_equal(rut_usdt_image_add(&f.image, i, "big", &d), 0);
	}
	elf = open_file(&f);
	for (unsigned i = 0; i < 2000; i += 333) {
		snprintf(want, sizeof(want), "p%u", i);
		assert_true(find_note(elf, i, &note));
		assert_string_equal(note.name, want);
		assert_int_equal(note.site, f.image.at.text + 16 * i);
		assert_int_equal(note.semaphore, f.image.at.gates + 4 * i);
		assert_true(note.site % 4096 <= 4096 - 5);
	}
	elf_end(elf);
	rut_usdt_image_remove(&f.image, is_odd, NULL);
	elf = open_file(&f);
	assert_true(find_note(elf, 999, &note));
	assert_string_equal(note.name, "p1998");
	assert_false(find_note(elf, 1000, &note));
	elf_end(elf);
	free_file(&f);
}

static struct rut_usdt_probe *private(struct rutile_usdt_probe *probe)
{
	return (struct rut_usdt_probe *)probe;
}

static void test_bad_declarations(void **state)
{
	struct rutile_usdt_provider *p = NULL;
	struct rutile_usdt_probe *probe = NULL;
	enum rutile_usdt_type bad = (enum rutile_usdt_type)99, types[13] = {0};
	char longest[RUTILE_USDT_NAME_MAX + 2];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(rutile_usdt_provider_new("", &p), -EINVAL);
	assert_int_equal(rutile_usdt_provider_new("a b", &p), -EINVAL);
	assert_int_equal(rutile_usdt_provider_new("a:b", &p), -EINVAL);
	assert_int_equal(rutile_usdt_provider_new(longest, &p), -EINVAL);
	longest[RUTILE_USDT_NAME_MAX] = 0;
	assert_int_equal(rutile_usdt_provider_new(longest, &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", &bad, 1, &probe), -EINVAL);
	assert_int_equal(rutile_usdt_probe_add(p, "x", types, 13, &probe), -E2BIG);
	assert_int_equal(rutile_usdt_probe_add(p, "x\n", NULL, 0, &probe), -EINVAL);
	assert_null(probe);
	assert_int_equal(rutile_usdt_probe_add(p, "x", NULL, 0, &probe), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", NULL, 0, &probe), -EEXIST);
	rutile_usdt_provider_free(p);
	rutile_usdt_provider_free(NULL);
}

/* What the kernel does when a tracer comes: it adds to the semaphore in the private page. */
static void trace(struct rutile_usdt_probe *probe, int by)
{
	*(volatile uint16_t *)(volatile void *)private(probe)->gate += (uint16_t)by;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Times are those of the clock, traced or not. */
static void test_fire_timed(void **state)
{
	static const enum rutile_usdt_type types[] = {RUTILE_USDT_STR, RUTILE_USDT_S64};
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	uint64_t args[] = {0, 0}, before, begin, end;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("timed", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "a", types, 2, &probe), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	for (int traced = 0; traced < 2; traced++) {
		before = now_ns();
		begin = rutile_usdt_fire_timed(probe, args, 0, NULL);
		assert_int_equal(args[1], 0);
		end = rutile_usdt_fire_timed(probe, args, begin, &args[1]);
		assert_true(before <= begin && begin <= end && end <= now_ns());
		assert_int_equal(args[1], end - begin);
		assert_int_equal(rutile_usdt_probe_count(probe, RUTILE_USDT_FIRED), 2 * traced);
		if (!traced)
			trace(probe, 1);
		args[1] = 0;
	}
	rutile_usdt_provider_free(p);
}

static void test_life(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *a, *b;
	const uint64_t args[12] = {1, 2, 3};
	char path[64], again[64];

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("life", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "a", all_types, 12, &a), 0);
	assert_false(rutile_usdt_enabled(a));
	rutile_usdt_fire(a, args);
	assert_int_equal(rutile_usdt_provider_path(p, 0, path, sizeof(path)), -ENOENT);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_true(rutile_usdt_provider_loaded(p));
	assert_false(rutile_usdt_enabled(a));
	trace(a, 1);
	assert_true(rutile_usdt_enabled(a));
	rutile_usdt_fire(a, args);
	assert_int_equal(rutile_usdt_probe_count(a, RUTILE_USDT_FIRED), 1);
	/* Added later: the first stays where it is, its tracer too. */
	assert_int_equal(rutile_usdt_provider_path(p, 0, path, sizeof(path)), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "b", NULL, 0, &b), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_int_equal(rutile_usdt_provider_path(p, 0, again, sizeof(again)), 0);
	assert_string_equal(path, again);
	assert_int_equal(rutile_usdt_provider_path(p, 1, again, sizeof(again)), -ENOENT);
	assert_true(rutile_usdt_enabled(a));
	assert_false(rutile_usdt_enabled(b));
	rutile_usdt_probe_set(a, false);
	assert_false(rutile_usdt_enabled(a));
	rutile_usdt_fire(a, args);
	assert_int_equal(rutile_usdt_probe_count(a, RUTILE_USDT_FIRED), 1);
	rutile_usdt_probe_set(a, true);
	assert_true(rutile_usdt_enabled(a));
	rutile_usdt_provider_unload(p);
	assert_false(rutile_usdt_enabled(a));
	assert_false(rutile_usdt_provider_loaded(p));
	rutile_usdt_provider_free(p);
}

static unsigned count_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned n = 0;
	int c;

	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Loading and unloading, creating and freeing: neither descriptors nor mappings grow. */
static void test_no_growth(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	unsigned maps = 0, fds = 0;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		if (i == 10) {
			maps = count_lines("/proc/self/maps");
			fds = count_fds();
		}
		assert_int_equal(rutile_usdt_provider_new("grow", &p), 0);
		assert_int_equal(rutile_usdt_probe_add(p, "x", all_types, 3, &probe), 0);
		for (unsigned k = 0; k < 3; k++) {
			assert_int_equal(rutile_usdt_provider_load(p), 0);
			rutile_usdt_provider_unload(p);
		}
		rutile_usdt_provider_free(p);
	}
	assert_int_equal(count_lines("/proc/self/maps"), maps);
	assert_int_equal(count_fds(), fds);
}

struct hammer {
	struct rutile_usdt_probe *probe;
	bool stop;
	uint64_t seen;
};

static void *fire_all_the_time(void *arg)
{
	struct hammer *h = arg;
	const uint64_t args[12] = {0};

	while (!__atomic_load_n(&h->stop, __ATOMIC_RELAXED)) {
		if (rutile_usdt_enabled(h->probe)) {
			rutile_usdt_fire(h->probe, args);
			__atomic_fetch_add(&h->seen, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

/* The gate and the site vanish under two threads that fire: that must never be noticed. */
static void test_unload_while_firing(void **state)
{
	struct rutile_usdt_provider *p;
	struct hammer h = {0};
	pthread_t threads[2];

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("race", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", all_types, 12, &h.probe), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fire_all_the_time, &h), 0);
	for (unsigned i = 0; i < 200; i++) {
		uint64_t before = __atomic_load_n(&h.seen, __ATOMIC_RELAXED);

		assert_int_equal(rutile_usdt_provider_load(p), 0);
		trace(h.probe, 1);
		while (__atomic_load_n(&h.seen, __ATOMIC_RELAXED) == before)
			sched_yield();
		rutile_usdt_provider_unload(p);
	}
	__atomic_store_n(&h.stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	rutile_usdt_provider_free(p);
}

/* The control page of a process, mapped the way a tool does it; NULL: none. */
static struct rut_usdt_ctl *open_page(pid_t pid)
{
	char path[300], link[128];
	struct rut_usdt_ctl *page = NULL;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, e->d_name);
		n = readlink(path, link, sizeof(link) - 1);
		link[n < 0 ? 0 : n] = 0;
		if (strstr(link, "memfd:" RUT_USDT_CTL_NAME)) {
			int fd = open(path, O_RDWR | O_CLOEXEC);

			page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			assert_int_equal(ftruncate(fd, 0), -1); /* sealed: no SIGBUS for anybody */
			close(fd);
		}
	}
	closedir(d);
	return page == MAP_FAILED ? NULL : page;
}

/* The n-th part of a slot's text. */
static const char *part_of(const struct rut_usdt_ctl *page, unsigned slot, unsigned n)
{
	const char *at = page->texts + page->slots[slot].text;

	while (n--)
		at += strlen(at) + 1;
	return at;
}

static struct rut_usdt_slot *find_slot(struct rut_usdt_ctl *page, const char *name)
{
	for (unsigned i = 0; i < page->n_slots; i++)
		if (page->slots[i].state == RUT_USDT_SLOT_USED &&
		    !strcmp(part_of(page, i, 1), name))
			return &page->slots[i];
	return NULL;
}

static void ask(struct rut_usdt_ctl *page, struct rut_usdt_slot *slot, uint32_t want)
{
	__atomic_store_n(&slot->want, want, __ATOMIC_RELEASE);
	__atomic_fetch_add(&page->request, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &page->request, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wait_done(struct rut_usdt_slot *slot)
{
	for (int i = 0; i < 600000 && __atomic_load_n(&slot->want, __ATOMIC_ACQUIRE); i++)
		usleep(100);
}

static int wakes;

static void on_wake(void *arg)
{
	__atomic_fetch_add((int *)arg, 1, __ATOMIC_RELEASE);
}

static void test_control(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *now, *later;
	struct rut_usdt_slot *slot;
	struct rut_usdt_ctl *page;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("ctl", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "now", all_types, 2, &now), 0);
	assert_int_equal(rutile_usdt_control_start(on_wake, &wakes), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "later", NULL, 0, &later), 0);
	rutile_usdt_probe_defer(later, true);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	page = open_page(getpid());
	assert_non_null(page);
	assert_int_equal(page->pid, getpid());

	slot = find_slot(page, "now");
	assert_non_null(slot);
	assert_string_equal(part_of(page, (unsigned)(slot - page->slots), 0), "ctl");
	assert_int_equal(slot->n_types, 2);
	ask(page, slot, RUT_USDT_WANT_OFF);
	wait_done(slot);
	assert_false(rutile_usdt_probe_is_on(now));
	assert_int_equal(slot->flags & RUT_USDT_SLOT_ON, 0);
	ask(page, slot, RUT_USDT_WANT_ON);
	wait_done(slot);
	assert_true(rutile_usdt_probe_is_on(now));
	assert_int_equal(wakes, 0);

	slot = find_slot(page, "later");
	ask(page, slot, RUT_USDT_WANT_OFF);
	for (int i = 0; i < 600000 && !__atomic_load_n(&wakes, __ATOMIC_ACQUIRE); i++)
		usleep(100);
	assert_true(rutile_usdt_probe_is_on(later));
	assert_int_equal(rutile_usdt_probe_wanted(later), 0);
	rutile_usdt_probe_set(later, false);
	assert_int_equal(slot->want, 0);
	assert_int_equal(rutile_usdt_probe_wanted(later), -1);

	rutile_usdt_provider_free(p);
	assert_null(find_slot(page, "now"));
	munmap(page, sizeof(*page));
	rutile_usdt_control_stop();
	assert_null(open_page(getpid()));
}

static int count_threads(const char *name)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		char path[300], text[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "r");
		if (f && fgets(text, sizeof(text), f))
			n += !strncmp(text, name, strlen(name));
		if (f)
			fclose(f);
	}
	closedir(d);
	return n;
}

/* One that was joined may still be there for a moment. */
static void wait_threads(const char *name, int n)
{
	for (int i = 0; i < 300000 && count_threads(name) != n; i++)
		usleep(100);
	assert_int_equal(count_threads(name), n);
}

static uint32_t held; /* 1: on_held() waits, 2: it is there */

static void on_held(void *arg)
{
	(void)arg;
	__atomic_store_n(&held, 2, __ATOMIC_RELEASE);
	for (int i = 0; i < 300000 && __atomic_load_n(&held, __ATOMIC_ACQUIRE); i++)
		usleep(100);
}

static void *stop_it(void *arg)
{
	rutile_usdt_control_stop();
	return arg;
}

/* A thread that is told to stop does so, although another is started before it has looked. */
static void test_control_is_started_before_it_has_stopped(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *later;
	struct rut_usdt_ctl *page;
	struct timespec end;
	pthread_t other;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("stop", &p), 0);
	assert_int_equal(rutile_usdt_control_start(on_held, NULL), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "later", NULL, 0, &later), 0);
	rutile_usdt_probe_defer(later, true);
	page = open_page(getpid());
	assert_non_null(page);
	__atomic_store_n(&held, 1, __ATOMIC_RELEASE);
	ask(page, find_slot(page, "later"), RUT_USDT_WANT_OFF);
	for (int i = 0; i < 300000 && __atomic_load_n(&held, __ATOMIC_ACQUIRE) != 2; i++)
		usleep(100);
	munmap(page, sizeof(*page));

	assert_int_equal(pthread_create(&other, NULL, stop_it, NULL), 0);
	/* Nothing happens while it runs; then there are two of them. */
	for (int i = 0; i < 300000 && count_threads("rutile-usdt") != 2; i++) {
		assert_int_equal(rutile_usdt_control_start(NULL, NULL), 0);
		usleep(100);
	}
	__atomic_store_n(&held, 0, __ATOMIC_RELEASE);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 30;
	assert_int_equal(pthread_timedjoin_np(other, NULL, &end), 0);
	wait_threads("rutile-usdt", 1);
	rutile_usdt_control_stop();
	wait_threads("rutile-usdt", 0);
	rutile_usdt_provider_free(p);
}

static void child_of_fork(int ready, int go)
{
	char c;

	if (write(ready, "x", 1) != 1 || read(go, &c, 1) != 1)
		_exit(9);
}

/* A child is controlled by itself, and what is said to it does not reach its parent. */
static void test_control_of_child(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	struct rut_usdt_ctl *page;
	struct rut_usdt_slot *slot;
	int ready[2], go[2], status;
	char path[64], c;
	pid_t pid;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("fork", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", NULL, 0, &probe), 0);
	assert_int_equal(rutile_usdt_control_start(NULL, NULL), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_true(!pipe(ready) && !pipe(go));
	pid = fork();
	if (!pid) {
		snprintf(path, sizeof(path), "/proc/%d/", getpid());
		child_of_fork(ready[1], go[0]);
		if (rutile_usdt_probe_is_on(probe))
			_exit(1);
		if (rutile_usdt_provider_path(p, 0, path + 32, 32) ||
		    strncmp(path, path + 32, strlen(path)) != 0)
			_exit(2);
		rutile_usdt_provider_free(p);
		_exit(0);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	page = open_page(pid);
	assert_non_null(page);
	assert_int_equal(page->pid, pid);
	slot = find_slot(page, "x");
	assert_non_null(slot);
	ask(page, slot, RUT_USDT_WANT_OFF);
	wait_done(slot);
	assert_true(rutile_usdt_probe_is_on(probe));
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	munmap(page, sizeof(*page));
	rutile_usdt_provider_free(p);
	rutile_usdt_control_stop();
	for (unsigned i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
}

/* An application that closes all descriptors and opens its own: those are not ours to close. */
static void test_stolen_descriptor(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	char path[64];
	int fd, mine;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("stolen", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", NULL, 0, &probe), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_int_equal(rutile_usdt_provider_path(p, 0, path, sizeof(path)), 0);
	fd = atoi(strrchr(path, '/') + 1);
	mine = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(dup2(mine, fd), fd);
	assert_int_equal(rutile_usdt_provider_path(p, 0, path, sizeof(path)), 0);
	assert_non_null(strstr(path, "/map_files/"));
	rutile_usdt_provider_free(p);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
	close(mine);
}

/* The kernel's own counter of a site's hits, on all CPUs and in all processes. */
struct tracer {
	int fds[256];
	unsigned n;
};

static void attach(struct tracer *t, const struct rutile_usdt_probe *pub, const char *path)
{
	const struct rut_usdt_probe *probe = (const struct rut_usdt_probe *)pub;
	struct rut_usdt_layout at;
	struct perf_event_attr attr = {.size = sizeof(attr)};
	FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%u", &attr.type), 1);
	fclose(f);
	rut_usdt_layout_of(RUT_USDT_ARCH, RUT_USDT_ARENA_SITES, &at);
	attr.config = (at.gates + probe->site_index * 4ull) << 32;
	attr.config1 = (uintptr_t)path;
	attr.config2 = at.text + probe->site_index * 16ull;
	t->n = 0;
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF) && cpu < 256; cpu++) {
		int fd =
			(int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd >= 0)
			t->fds[t->n++] = fd;
	}
	assert_true(t->n > 0);
}

static uint64_t hits(const struct tracer *t)
{
	uint64_t sum = 0, one;

	for (unsigned i = 0; i < t->n; i++) {
		assert_int_equal(read(t->fds[i], &one, sizeof(one)), sizeof(one));
		sum += one;
	}
	return sum;
}

static void detach(struct tracer *t)
{
	while (t->n)
		close(t->fds[--t->n]);
}

static void expect_good_end(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static pid_t fork_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	return pid;
}

/* A child fires and exits; 0: it could. */
static void fire_once(struct rutile_usdt_probe *probe)
{
	bool on = rutile_usdt_enabled(probe);

	rutile_usdt_fire(probe, NULL);
	_exit(on && rutile_usdt_probe_count(probe, RUTILE_USDT_FIRED) ? 0 : 1);
}

/*
 * Since Linux 6.18 the kernel turns a traced site into a call of a page that children do not get.
 * They must live, and be counted.
 */
static void test_children_of_traced_parents(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	struct tracer t;
	char path[64];
	pid_t pid;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("family", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", NULL, 0, &probe), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_int_equal(rutile_usdt_provider_path(p, 0, path, sizeof(path)), 0);
	attach(&t, probe, path);
	for (unsigned i = 0; i < 3; i++)
		rutile_usdt_fire(probe, NULL);
	assert_int_equal(hits(&t), 3);
	for (unsigned i = 0; i < 1000; i++) {
		pid = fork_child();
		if (!pid)
			fire_once(probe);
		expect_good_end(pid);
	}
	assert_int_equal(hits(&t), 1003);
	/* A child of a child that fired, and one of a child that did not. */
	for (unsigned i = 0; i < 1000; i++) {
		pid = fork_child();
		if (!pid) {
			int status = 0;

			if (i & 1)
				rutile_usdt_fire(probe, NULL);
			pid = fork();
			if (!pid)
				fire_once(probe);
			_exit(pid < 0 || waitpid(pid, &status, 0) != pid || status != 0);
		}
		expect_good_end(pid);
	}
	assert_int_equal(hits(&t), 2503);
	/* One without a descriptor of the file. */
	pid = fork_child();
	if (!pid) {
		close_range(3, ~0u, 0);
		pid = fork();
		if (!pid)
			fire_once(probe);
		fire_once(probe);
	}
	expect_good_end(pid);
	while (hits(&t) < 2505)
		usleep(1000);
	/* Daemons, whose end nobody awaits. */
	for (unsigned i = 0; i < 200; i++) {
		pid = fork_child();
		if (!pid) {
			if (daemon(1, 1))
				_exit(1);
			fire_once(probe);
		}
		expect_good_end(pid);
	}
	while (hits(&t) < 2705)
		usleep(1000);
	for (unsigned i = 0; i < 1000; i++) {
		pid = vfork();
		if (!pid)
			_exit(0);
		expect_good_end(pid);
	}
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(posix_spawn(&pid, "/bin/true", NULL, NULL,
					     (char *[]){(char *)(uintptr_t) "true", NULL}, environ),
				 0);
		expect_good_end(pid);
	}
	rutile_usdt_fire(probe, NULL);
	assert_int_equal(hits(&t), 2706);
	detach(&t);
	rutile_usdt_provider_free(p);
}

/* The tracer leaves between the fork and the child's event, or before the fork. */
static void test_children_whose_tracer_left(void **state)
{
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	struct tracer t;
	char path[64], c;
	int go[2];
	pid_t pid;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("left", &p), 0);
	assert_int_equal(rutile_usdt_probe_add(p, "x", NULL, 0, &probe), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_int_equal(rutile_usdt_provider_path(p, 0, path, sizeof(path)), 0);
	assert_int_equal(pipe(go), 0);
	for (unsigned i = 0; i < 6; i++) {
		attach(&t, probe, path);
		for (unsigned k = 0; k < 3; k++)
			rutile_usdt_fire(probe, NULL);
		if (i & 1)
			detach(&t);
		pid = fork_child();
		if (!pid) {
			detach(&t); /* the copies */
			if (read(go[0], &c, 1) != 1)
				_exit(2);
			while (rutile_usdt_enabled(probe))
				usleep(100);
			rutile_usdt_fire(probe, NULL);
			((void (*)(void)) private(probe)->site)();
			_exit(0);
		}
		if (!(i & 1))
			detach(&t);
		assert_int_equal(write(go[1], "x", 1), 1);
		expect_good_end(pid);
	}
	for (unsigned i = 0; i < 1000; i++) {
		pid = fork_child();
		if (!pid) {
			((void (*)(void)) private(probe)->site)();
			_exit(0);
		}
		expect_good_end(pid);
	}
	close(go[0]);
	close(go[1]);
	rutile_usdt_provider_free(p);
}

/* Descriptors and mappings do not depend on what a process and its ancestors declare. */
static void test_descriptors_of_descendants(void **state)
{
	unsigned fds = count_fds(), maps = count_lines("/proc/self/maps");
	struct rutile_usdt_provider *p;
	struct rutile_usdt_probe *probe;
	pid_t pid = fork_child();
	char name[16];

	(void)state;
	if (pid) {
		expect_good_end(pid);
		return;
	}
	for (unsigned depth = 0; depth < 10; depth++) {
		for (unsigned i = 0; i < 500; i++) {
			snprintf(name, sizeof(name), "p%u_%u", depth, i);
			if (rutile_usdt_provider_new(name, &p) ||
			    rutile_usdt_probe_add(p, name, all_types, 12, &probe) ||
			    rutile_usdt_provider_load(p))
				_exit(1);
		}
		if (count_fds() > fds + 2)
			_exit(2);
		if (count_lines("/proc/self/maps") > maps + 60)
			_exit(3);
		pid = fork();
		if (pid) {
			int status = 0;

			_exit(waitpid(pid, &status, 0) != pid || status ? 4 : 0);
		}
	}
	_exit(0);
}

/* The same declaration is the same probe, another one replaces it. */
static void test_declared_again(void **state)
{
	const enum rutile_usdt_type other[] = {RUTILE_USDT_STR};
	struct rutile_usdt_probe *a, *b, *c, *named;
	struct rutile_usdt_provider *p;

	(void)state;
	assert_int_equal(rutile_usdt_provider_new("again", &p), 0);
	assert_int_equal(rutile_usdt_probe_declare(p, "x", all_types, 2, &a), 0);
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	trace(a, 1);
	assert_int_equal(rutile_usdt_probe_declare(p, "x", all_types, 2, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(rutile_usdt_probe_declare(p, "x", other, 1, &c), 0);
	assert_ptr_not_equal(a, c);
	assert_false(rutile_usdt_enabled(a));
	assert_false(rutile_usdt_probe_is_on(a));
	assert_int_equal(rutile_usdt_provider_load(p), 0);
	assert_true(rutile_usdt_probe_is_on(c));
	assert_ptr_equal(rutile_usdt_probe_find(p, "x", NULL, NULL), c);

	assert_int_equal(rutile_usdt_probe_declare(p, "named", all_types, 2, &named), 0);
	assert_int_equal(rutile_usdt_probe_name_args(named, (const char *[]){"order_id", "to"}), 0);
	assert_int_equal(rutile_usdt_probe_name_args(named, (const char *[]){"to", "to"}), -EINVAL);
	assert_int_equal(rutile_usdt_probe_name_args(named, (const char *[]){"to", "1"}), -EINVAL);
	assert_string_equal(private(named)->arg_names, "order_id,to");
	assert_int_equal(rutile_usdt_probe_name_args(named, NULL), 0);
	assert_null(private(named)->arg_names);
	rutile_usdt_provider_free(p);
}

/* Above the limit of file sizes the kernel would kill the process. */
static void test_limit_of_file_sizes(void **state)
{
	pid_t pid = fork_child();

	(void)state;
	if (!pid) {
		const struct rlimit limit = {4096, 4096};
		struct rutile_usdt_provider *p;
		struct rutile_usdt_probe *probe;

		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(rutile_usdt_provider_new("small", &p) ||
		      rutile_usdt_probe_add(p, "x", NULL, 0, &probe) ||
		      rutile_usdt_provider_load(p) != -EFBIG || rutile_usdt_enabled(probe));
	}
	expect_good_end(pid);
}

/* What a process may cut off while we have it mapped, or what is no memory at all, is not sealed.
 */
static void test_sealed(void **state)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int open_fd = memfd_create("a", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(file >= 0 && open_fd >= 0);
	assert_false(rut_usdt_is_sealed(file));
	assert_false(rut_usdt_is_sealed(open_fd));
	assert_int_equal(fcntl(open_fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_true(rut_usdt_is_sealed(open_fd));
	close(file);
	close(open_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_object_x86_64),
		cmocka_unit_test(test_object_aarch64),
		cmocka_unit_test(test_object_large),
		cmocka_unit_test(test_bad_declarations),
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_fire_timed),
		cmocka_unit_test(test_no_growth),
		cmocka_unit_test(test_unload_while_firing),
		cmocka_unit_test(test_control),
		cmocka_unit_test(test_control_is_started_before_it_has_stopped),
		cmocka_unit_test(test_control_of_child),
		cmocka_unit_test(test_stolen_descriptor),
		cmocka_unit_test(test_children_of_traced_parents),
		cmocka_unit_test(test_children_whose_tracer_left),
		cmocka_unit_test(test_descriptors_of_descendants),
		cmocka_unit_test(test_declared_again),
		cmocka_unit_test(test_limit_of_file_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
