/* SPDX-License-Identifier: MIT */
/* librutile-usdt: the control page, and the children of traced processes. */
#include "usdt_unit.h"
#include "usdt/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "usdt/arena.h"
#include "usdt/ctl.h"
#include "usdt/object.h"

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

/* A thread that is asked to stop does so, although another is started before it has checked. */
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

/* A child is controlled by itself, and requests to it do not reach its parent. */
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
	/* Daemons, which are not waited for. */
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
	unsigned fds = count_fds(), maps = count_maps();
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
		if (count_maps() > maps + 60)
			_exit(3);
		pid = fork();
		if (pid) {
			int status = 0;

			_exit(waitpid(pid, &status, 0) != pid || status ? 4 : 0);
		}
	}
	_exit(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_control),
		cmocka_unit_test(test_control_is_started_before_it_has_stopped),
		cmocka_unit_test(test_control_of_child),
		cmocka_unit_test(test_stolen_descriptor),
		cmocka_unit_test(test_children_of_traced_parents),
		cmocka_unit_test(test_children_whose_tracer_left),
		cmocka_unit_test(test_descriptors_of_descendants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
