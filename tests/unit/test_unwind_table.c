/* SPDX-License-Identifier: MIT */
/* The tables of native stacks as user space fills them, against a list of what was put in. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ring/write.h"
#include "session/recorder.h"
#include "session/unwind.h"
#include "session/unwind_table.h"

#define S 1000000000ull

static int setup(void **state)
{
	static struct rut_unwind_tables t;
	void *rows = mmap(NULL, RUT_UNWIND_ROWS_BYTES, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	void *ranges = mmap(NULL, RUT_UNWIND_RANGE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	rut_unwind_tables_init(&t, rows, ranges);
	*state = &t;
	return rows == MAP_FAILED || ranges == MAP_FAILED;
}

static int teardown(void **state)
{
	struct rut_unwind_tables *t = *state;

	rut_unwind_tables_fini(t);
	munmap(t->rows, RUT_UNWIND_ROWS_BYTES);
	munmap(t->ranges, RUT_UNWIND_RANGE_BYTES);
	return 0;
}

struct space {
	uint64_t id;
	uint32_t first, count;
};

static int by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static size_t sweep(struct rut_unwind_tables *t, const struct space *list, size_t n, uint64_t now)
{
	uint64_t ids[20000];
	size_t waiting = 0, k = 0;

	for (size_t i = 0; i < n; i++)
		if (list[i].id)
			ids[k++] = list[i].id;
	qsort(ids, k, sizeof(*ids), by_id);
	assert_int_equal(rut_unwind_tables_sweep(t, ids, k, true, now, &waiting), 0);
	return waiting;
}

/* Processes come and go for hours: those that live keep their ranges, and new ones find room. */
static void ranges_are_given_again(void **state)
{
	static struct rut_unwind_range range[RUT_UNWIND_RANGES];
	static struct space live[1500];
	struct rut_unwind_tables *t = *state;
	uint64_t now = S, last = 0;

	srand(1);
	for (int i = 0; i < 200000; i++) {
		struct space *s = &live[rand() % 1500];
		uint32_t count = 1 + (uint32_t)rand() % (rand() % 50 ? 60 : 256);

		now += 2000000;
		if (s->id)
			for (uint32_t k = 0; k < s->count; k += 7)
				assert_int_equal(t->ranges[s->first + k].start, s->id * 1024 + k);
		s->id = 0;
		if (rut_unwind_tables_crowded(t, now))
			sweep(t, live, 1500, now);
		for (uint32_t k = 0; k < count; k++)
			range[k].start = (last + 1) * 1024 + k;
		assert_int_equal(rut_unwind_tables_take(t, 0, range, count, &s->first, &s->id), 0);
		assert_true(s->id > last);
		assert_true(s->first + count <= RUT_UNWIND_RANGE_PAGES * RUT_UNWIND_RANGES);
		last = s->id;
		s->count = count;
	}
}

/* What nobody has any more is free at the second sweep, not at the first one. */
static void ranges_wait(void **state)
{
	static struct rut_unwind_range range[RUT_UNWIND_RANGES];
	static struct space list[RUT_UNWIND_RANGE_PAGES];
	struct rut_unwind_tables *t = *state;
	struct space s;

	for (size_t i = 0; i < RUT_UNWIND_RANGE_PAGES; i++)
		assert_int_equal(rut_unwind_tables_take(t, 0, range, RUT_UNWIND_RANGES,
							&list[i].first, &list[i].id),
				 0);
	assert_int_equal(rut_unwind_tables_take(t, 0, range, 1, &s.first, &s.id), -ENOSPC);
	assert_int_equal(sweep(t, list, RUT_UNWIND_RANGE_PAGES, S), 0);
	list[5].id = list[6].id = 0;
	assert_int_equal(sweep(t, list, RUT_UNWIND_RANGE_PAGES, S), 256);
	assert_int_equal(rut_unwind_tables_take(t, 0, range, 1, &s.first, &s.id), -ENOSPC);
	assert_int_equal(sweep(t, list, RUT_UNWIND_RANGE_PAGES, S + RUT_UNWIND_GRACE_NS), 0);
	/* Two neighbours are one room. */
	assert_int_equal(rut_unwind_tables_take(t, 0, range, 8, &s.first, &s.id), 0);
	assert_int_equal(
		rut_unwind_tables_take(t, 0, range, RUT_UNWIND_RANGES, &list[5].first, &list[5].id),
		0);
	assert_int_equal(list[5].first, s.first + 8);
}

static struct stat file_stat(unsigned long n, unsigned int uid)
{
	struct stat st = {.st_ino = n, .st_dev = 1, .st_uid = uid, .st_size = 1000};

	st.st_mtim.tv_sec = 7;
	st.st_ctim.tv_sec = 8;
	return st;
}

static int add_file(struct rut_unwind_tables *t, unsigned long n, unsigned int uid, size_t rows,
		    uint64_t now, struct rut_unwind_file **ret)
{
	struct stat st = file_stat(n, uid);
	struct rut_unwind_table table = {.rows = calloc(rows + 1, sizeof(*table.rows)),
					 .nrows = rows};
	int rc;

	for (size_t i = 0; i < rows; i++)
		table.rows[i].pc = (uint32_t)(n * 7 + i);
	rc = rut_unwind_tables_add(t, &st, &table, now, ret);
	free(table.rows);
	return rc;
}

/* Files that processes have mapped stay; of the others those are given up that are asked for no
 * more. */
static void files_are_given_up(void **state)
{
	struct rut_unwind_tables *t = *state;
	struct rut_unwind_file *kept, *f;
	struct rut_unwind_range r = {.start = 1};
	struct stat st = file_stat(1, 0);
	struct space s = {0};

	assert_null(rut_unwind_tables_find(t, &st, S));
	assert_int_equal(add_file(t, 1, 0, 60000, S, &kept), 0);
	assert_ptr_equal(rut_unwind_tables_find(t, &st, S), kept);
	assert_true(kept->first > 0);
	r.first = kept->first;
	r.count = kept->count;
	assert_int_equal(rut_unwind_tables_take(t, 0, &r, 1, &s.first, &s.id), 0);
	for (unsigned long n = 2; n < 500; n++) {
		uint64_t now = S * (20 + 3 * n);
		int rc = add_file(t, n, 0, 250000, now, &f);

		if (rc == -ENOSPC) {
			sweep(t, &s, 1, now);
			rc = add_file(t, n, 0, 250000, now, &f);
		}
		assert_int_equal(rc, 0);
		for (size_t i = 0; i < 250000; i += 1000)
			assert_int_equal(t->rows[f->first + i].pc, n * 7 + i);
	}
	for (size_t i = 0; i < 60000; i++)
		assert_int_equal(t->rows[kept->first + i].pc, 7 + i);
	assert_ptr_equal(rut_unwind_tables_find(t, &st, 1700 * S), kept);
	/* Row 0 is nobody's. */
	assert_int_equal(t->rows[0].pc, 0);
	/* In use within the last seconds, although no range shows it yet. */
	assert_int_equal(add_file(t, 1000, 0, rut_unwind_tables_room(), 1701 * S, &f), -ENOSPC);
}

/* Of large files not all are taken: all that are smaller find room. */
static void large_files_leave_room(void **state)
{
	struct rut_unwind_tables *t = *state;
	struct rut_unwind_file *f;
	int rc = 0, n = 0;

	for (; !rc; n++)
		rc = add_file(t, (unsigned long)n + 1, 0, 400000, S, &f);
	assert_int_equal(rc, -ENOSPC);
	assert_true(n > 2);
	for (n = 0; n < 10; n++)
		assert_int_equal(add_file(t, (unsigned long)n + 100, 0, 60000, S, &f), 0);
}

/* Another file that was made to look the same is another one. */
static void files_are_told_apart(void **state)
{
	struct rut_unwind_tables *t = *state;
	struct rut_unwind_file *f;
	struct stat st = file_stat(9, 5);

	assert_int_equal(add_file(t, 9, 5, 10, S, &f), 0);
	/* Written again with its old time: only the kernel sets the other one. */
	st.st_ctim.tv_nsec++;
	assert_null(rut_unwind_tables_find(t, &st, S));
	st = file_stat(9, 5);
	st.st_size++;
	assert_null(rut_unwind_tables_find(t, &st, S));
	st = file_stat(9, 5);
	assert_ptr_equal(rut_unwind_tables_find(t, &st, S), f);
}

/* A user's files and processes leave room for those of others. */
static void users_have_shares(void **state)
{
	static struct rut_unwind_range range[RUT_UNWIND_RANGES];
	struct rut_unwind_tables *t = *state;
	struct rut_unwind_file *f;
	uint64_t space;
	uint32_t first;
	int rc = 0, n = 0;

	for (unsigned long i = 1; !rc; i++, n++)
		rc = add_file(t, i, 1000, 100000, S, &f);
	assert_int_equal(rc, -EDQUOT);
	assert_true(n > 1);
	assert_int_equal(add_file(t, 90000, 0, 100000, S, &f), 0);
	assert_int_equal(add_file(t, 90001, 1001, 100000, S, &f), 0);
	for (unsigned long i = 1, got = 0; got < 3000; i++, got++)
		rc = add_file(t, 100000 + i, 1002, 0, S, &f);
	assert_int_equal(rc, -EDQUOT);
	assert_int_equal(add_file(t, 90002, 0, 0, S, &f), 0);
	/* Old files make room for those that are built again, by rows and by number. */
	assert_int_equal(add_file(t, 90003, 1000, 100000, 60 * S, &f), -EDQUOT);
	assert_int_equal(add_file(t, 90004, 1002, 10, 60 * S, &f), -EDQUOT);
	assert_true(rut_unwind_tables_may_sweep(t, 60 * S));
	sweep(t, NULL, 0, 60 * S);
	assert_int_equal(add_file(t, 90003, 1000, 100000, 60 * S, &f), 0);
	assert_int_equal(add_file(t, 90004, 1002, 10, 60 * S, &f), 0);
	/* A sweep takes milliseconds, and files are made in less. */
	assert_false(rut_unwind_tables_may_sweep(t, 60 * S + 100000000));
	assert_true(rut_unwind_tables_may_sweep(t, 60 * S + 300000000));
	for (rc = 0; !rc;)
		rc = rut_unwind_tables_take(t, 1000, range, RUT_UNWIND_RANGES, &first, &space);
	assert_int_equal(rc, -EDQUOT);
	assert_int_equal(rut_unwind_tables_take(t, 1001, range, 100, &first, &space), 0);
	assert_int_equal(rut_unwind_tables_take(t, 0, range, 100, &first, &space), 0);
}

/* A file without room is not read again at once, and another one is not taken for it. */
static void refused_files_are_remembered(void **state)
{
	struct rut_unwind_tables *t = *state;
	struct rut_unwind_table table = {.nsegments = 1, .segments = {{.address = 77}}};
	struct stat st = file_stat(5, 1000), other = st;
	struct rut_unwind_file *f, *found;

	assert_null(rut_unwind_tables_find(t, &st, S));
	f = rut_unwind_tables_refuse(t, &st, &table, S);
	assert_non_null(f);
	assert_ptr_equal(rut_unwind_tables_find(t, &st, 30 * S), f);
	/* One row, row 0: nothing is known. */
	assert_int_equal(f->first, 0);
	assert_int_equal(f->count, 1);
	assert_int_equal(f->nsegments, 1);
	assert_int_equal(f->segments[0].address, 77);
	other.st_size++;
	assert_null(rut_unwind_tables_find(t, &other, 2 * S));
	/* It has another chance, and is found where it got room. */
	assert_null(rut_unwind_tables_find(t, &st, 32 * S));
	f = rut_unwind_tables_refuse(t, &st, &table, 32 * S);
	assert_ptr_equal(rut_unwind_tables_find(t, &st, 33 * S), f);
	assert_int_equal(add_file(t, 5, 1000, 10, 34 * S, &found), 0);
	assert_ptr_equal(rut_unwind_tables_find(t, &st, 35 * S), found);
	/* However many there are, they take little. */
	for (unsigned long n = 10; n < 20000; n++) {
		st = file_stat(n, 1000);
		assert_non_null(rut_unwind_tables_refuse(t, &st, &table, 36 * S));
		assert_true(t->refused.count <= 4096);
		assert_non_null(rut_unwind_tables_find(t, &st, 37 * S));
	}
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A process that takes the lock again and again; stopped while it has it. */
static pid_t stop_holder(struct rut_unwind_tables *t)
{
	const uint64_t *lock = (const void *)t->shared;
	pid_t pid = fork();

	if (!pid)
		for (unsigned long n = 1;; n++) {
			size_t waiting;

			rut_unwind_tables_sweep(t, NULL, 0, true, n, &waiting);
		}
	for (int i = 0; i < 2000; i++) {
		int status;

		usleep(1000);
		kill(pid, SIGSTOP);
		waitpid(pid, &status, WUNTRACED);
		if (__atomic_load_n(lock, __ATOMIC_ACQUIRE))
			return pid;
		kill(pid, SIGCONT);
	}
	fail_msg("%s", "never stopped with the lock");
	return pid;
}

/* A stopped process that holds the lock is waited for once, and a killed one is not. */
static void a_stopped_holder_costs_one_wait(void **state)
{
	struct rut_unwind_tables *t = *state;
	struct stat st = file_stat(1, 0);
	pid_t pid = stop_holder(t);
	struct rut_unwind_file *f;
	double begun;

	assert_int_equal(add_file(t, 1, 0, 10, S, &f), -EAGAIN);
	assert_true(t->stuck);
	/* Each would have waited for 2 s. */
	begun = seconds();
	for (int i = 0; i < 50; i++)
		assert_null(rut_unwind_tables_find(t, &st, S));
	assert_true(rut_unwind_tables_stuck(t));
	assert_true(seconds() - begun < 20);
	/* It is dead, although nobody has waited for it. */
	kill(pid, SIGKILL);
	for (int i = 0; i < 10000 && rut_unwind_tables_stuck(t); i++)
		usleep(1000);
	assert_false(t->stuck);
	assert_int_equal(add_file(t, 1, 0, 10, S, &f), 0);
	waitpid(pid, NULL, 0);
}

/* Several processes fill the tables at once, and are killed at any moment: nothing is given twice.
 */
static void killed_processes_leave_whole_tables(void **state)
{
	struct rut_unwind_tables *t = *state;
	static struct rut_unwind_range range[64];
	size_t waiting, files = 0;
	uint64_t space;
	uint32_t first;

	for (int round = 0; round < 12; round++) {
		pid_t pids[2];

		for (unsigned long k = 0; k < 2; k++) {
			pids[k] = fork();
			if (pids[k])
				continue;
			for (unsigned long i = 0;; i++) {
				struct rut_unwind_file *f;
				unsigned long n = 1000 * (round * 2 + k) + i % 900 + 1;

				add_file(t, n, 0, 100, S, &f);
				rut_unwind_tables_take(t, 0, range, 64, &first, &space);
				rut_unwind_tables_sweep(t, NULL, 0, false, i * S, &waiting);
			}
		}
		usleep(120000 + 1000 * (round % 5));
		for (int k = 0; k < 2; k++) {
			kill(pids[k], SIGKILL);
			waitpid(pids[k], NULL, 0);
		}
	}
	/* The lock of one that is dead can be taken. */
	assert_int_equal(rut_unwind_tables_take(t, 0, range, 64, &first, &space), 0);
	for (unsigned long n = 1; n < 80000; n++) {
		struct stat st = file_stat(n, 0);
		struct rut_unwind_file *f = rut_unwind_tables_find(t, &st, S);

		for (size_t i = 0; f && i < 100; i++)
			assert_int_equal(t->rows[f->first + i].pc, n * 7 + i);
		files += f != NULL;
	}
	assert_true(files > 0);
}

static int memory(size_t bytes)
{
	int fd = memfd_create("table", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

/* A process that has mapped code is read a millisecond later, not at the next look at the rings. */
static void new_code_is_due_at_once(void **state)
{
	static struct rut_recorder r = {.conf.contexts = RUT_CTX_USTACK};
	uint64_t mapped, after, due;

	if (!rut_unwind_wanted(&r))
		skip(); /* this kernel cannot */
	r.fds[RUT_MAP_UNWIND_ROWS] = memory(RUT_UNWIND_ROWS_BYTES);
	r.fds[RUT_MAP_UNWIND_RANGES] = memory(RUT_UNWIND_RANGE_BYTES);
	rut_unwind_mapped(&r, getpid(), true);
	mapped = rut_ring_clock();
	rut_unwind_step(&r);
	after = rut_ring_clock();
	due = rut_unwind_due_ns(&r);
	/* Or, if it took long to find that out, after a rest. */
	assert_in_range(due, 1, mapped + S / 1000 + 2 * (after - mapped));
	/* What it maps then does not put it off. */
	rut_unwind_mapped(&r, getpid(), true);
	assert_int_equal(rut_unwind_due_ns(&r), due);
	rut_unwind_free(r.unwinds);
	close(r.fds[RUT_MAP_UNWIND_ROWS]);
	close(r.fds[RUT_MAP_UNWIND_RANGES]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_code_is_due_at_once),
		cmocka_unit_test_setup_teardown(ranges_are_given_again, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(files_are_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(large_files_leave_room, setup, teardown),
		cmocka_unit_test_setup_teardown(files_are_told_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(users_have_shares, setup, teardown),
		cmocka_unit_test_setup_teardown(refused_files_are_remembered, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stopped_holder_costs_one_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_processes_leave_whole_tables, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
