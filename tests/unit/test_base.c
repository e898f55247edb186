/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/procfs.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/core.h"
#include "base/err.h"
#include "base/file.h"
#include "base/glob.h"
#include "base/hash.h"
#include "base/leave.h"
#include "base/logfile.h"
#include "base/maps.h"
#include "base/parse.h"

static void test_err_names_the_cause(void **state)
{
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(rut_err_set(&err, ENOENT, "no file '%s'", "x"), -ENOENT);
	assert_string_equal(err.msg, "no file 'x'");
	assert_int_equal(rut_err_errno(&err, EACCES, "cannot open '%s'", "y"), -EACCES);
	assert_string_equal(err.msg, "cannot open 'y': Permission denied");
	assert_int_equal(rut_err_prefix(&err, "PID %d", 7), -EACCES);
	assert_string_equal(err.msg, "PID 7: cannot open 'y': Permission denied");
	assert_int_equal(rut_err_set(NULL, EIO, "nobody listens"), -EIO);
}

static void test_buf_grows_and_gives_up_its_memory(void **state)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char *data;

	for (int i = 0; i < 1000; i++)
		rut_buf_printf(&b, "%d,", i);
	assert_false(b.failed);
	assert_int_equal(b.len, strlen(b.data));
	assert_memory_equal(b.data, "0,1,2,", 6);
	assert_string_equal(b.data + b.len - 8, "998,999,");
	data = rut_buf_take(&b);
	assert_null(b.data);
	free(data);
	data = rut_buf_take(&b);
	assert_string_equal(data, "");
	free(data);
}

static void test_buf_reads_proc(void **state)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	assert_int_equal(rut_buf_read_file(&b, "/proc/self/comm", 4096), 0);
	assert_string_equal(b.data, "test_base\n");
	assert_int_equal(rut_buf_read_file(&b, "/proc/self/maps", 10), -EFBIG);
	assert_int_equal(rut_buf_read_file(&b, "/nonexistent", 10), -ENOENT);
}

/* Against a plain array: 100,000 puts and removes of 5,000 keys. */
static void test_map_agrees_with_an_array(void **state)
{
	static char *model[5000];
	static char values[5000];
	struct rut_map m = {0};
	size_t count = 0;
	unsigned int seed = 1;

	for (int i = 0; i < 100000; i++) {
		size_t k = (size_t)rand_r(&seed) % 5000;
		uint64_t key = k * 0x100000001ull;

		assert_ptr_equal(rut_map_get(&m, key), model[k]);
		if (rand_r(&seed) & 1) {
			assert_int_equal(rut_map_put(&m, key, &values[k]), 0);
			count += !model[k];
			model[k] = &values[k];
		} else {
			assert_ptr_equal(rut_map_remove(&m, key), model[k]);
			count -= !!model[k];
			model[k] = NULL;
		}
		assert_int_equal(m.count, count);
	}
	rut_map_each(&m, slot)
		count--;
	assert_int_equal(count, 0);
	rut_map_fini(&m);
}

/* The same of an index, with keys on both sides of its table's end. */
static void test_index_agrees_with_an_array(void **state)
{
	static char *model[5000];
	static char values[5000];
	struct rut_index x = {0};
	unsigned int seed = 1;

	for (int i = 0; i < 100000; i++) {
		size_t k = (size_t)rand_r(&seed) % 5000;
		uint64_t key = k < 2500 ? k * 7 : RUT_INDEX_KEYS - 100 + k - 2500;

		assert_ptr_equal(rut_index_get(&x, key), model[k]);
		model[k] = rand_r(&seed) & 1 ? &values[k] : NULL;
		assert_int_equal(rut_index_put(&x, key, model[k]), 0);
	}
	assert_null(rut_index_get(&x, UINT64_MAX));
	rut_index_fini(&x);
}

static void test_a_new_directory_takes_the_next_name(void **state)
{
	static const char *const want[] = {"t", "t-1", "t-2"};
	char dir[] = "/tmp/rutile-directory.XXXXXX", path[100], expected[100], small[8];

	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(rut_file_new_dir(path, sizeof(path), dir, "t"), 0);
		snprintf(expected, sizeof(expected), "%s/%s", dir, want[i]);
		assert_string_equal(path, expected);
	}
	/* Nothing is made under a name that was cut, nor in a directory that is not there. */
	assert_int_equal(rut_file_new_dir(small, sizeof(small), dir, "u"), -ENAMETOOLONG);
	assert_int_equal(rut_file_new_dir(path, sizeof(path), expected, "v/w"), -ENOENT);
	for (size_t i = 3; i-- > 0;) {
		snprintf(path, sizeof(path), "%s/%s", dir, want[i]);
		assert_int_equal(rmdir(path), 0);
	}
	assert_int_equal(rmdir(dir), 0);
}

static void test_strtab_gives_the_same_id_for_the_same_bytes(void **state)
{
	struct rut_strtab t = {0};
	char word[32];

	assert_int_equal(rut_strtab_find(&t, "x", 1), -1);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 10000; i++) {
			int len = snprintf(word, sizeof(word), "word%d", i);

			assert_int_equal(rut_strtab_intern(&t, word, len), i);
		}
	assert_int_equal(t.count, 10000);
	assert_string_equal(t.strs[1234].data, "word1234");
	assert_int_equal(rut_strtab_find(&t, "word77", 6), 77);
	assert_int_equal(rut_strtab_find(&t, "word", 4), -1);
	rut_strtab_fini(&t);
}

static size_t count_lines(const char *path, long *ret_bytes)
{
	FILE *f = fopen(path, "r");
	size_t n = 0;
	int c;

	*ret_bytes = 0;
	for (; f && (c = getc(f)) != EOF; ++*ret_bytes)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

/* Three processes write at once: no line is torn or lost but by the limits, which are kept. */
static void test_logfile_keeps_its_limits(void **state)
{
	char dir[] = "/tmp/rutile-test-log-XXXXXX", path[600], cmd[100];
	struct rut_logfile log = {.who = "test", .size_bytes = 4000, .keep = 3};
	size_t lines = 0;
	long bytes;

	assert_non_null(mkdtemp(dir));
	snprintf(log.path, sizeof(log.path), "%s/x.log", dir);
	for (int i = 0; i < 3; i++) {
		if (fork())
			continue;
		for (int k = 0; k < 200; k++)
			if (rut_logfile_append(&log, RUT_LOG_WARN, "a message\nof two lines"))
				_exit(1);
		_exit(0);
	}
	for (int i = 0, status; i < 3; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	for (int i = 0; i <= 3; i++) {
		if (i)
			snprintf(path, sizeof(path), "%s/x.log.%d", dir, i);
		else
			snprintf(path, sizeof(path), "%s/x.log", dir);
		lines += count_lines(path, &bytes);
		assert_true(bytes <= 4000);
		assert_true(i == 0 || bytes > 3800);
	}
	snprintf(path, sizeof(path), "%s/x.log.4", dir);
	assert_int_equal(access(path, F_OK), -1);
	/* 600 were written, of about 70 bytes: four files hold some 55 each. */
	assert_true(lines > 3 * 45 && lines < 4 * 80);
	/* A link that another user put there is not followed. */
	snprintf(log.path, sizeof(log.path), "%s/link", dir);
	assert_int_equal(symlink("/tmp/rutile-test-nowhere", log.path), 0);
	assert_true(rut_logfile_append(&log, RUT_LOG_INFO, "x") < 0);
	assert_int_equal(access("/tmp/rutile-test-nowhere", F_OK), -1);
	snprintf(cmd, sizeof(cmd), "rm -r '%s'", dir);
	assert_int_equal(system(cmd), 0);
}

/* A pipe that is not to be waited for takes what it has room for, and then nothing more. */
static void test_file_write_goes_on_after_a_short_write(void **state)
{
	char *data, *got;
	int fds[2], room;

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	room = fcntl(fds[1], F_SETPIPE_SZ, 4096);
	assert_true(room > 0);
	data = malloc((size_t)room * 2);
	got = malloc((size_t)room * 2);
	assert_true(data && got);
	for (int i = 0; i < room * 2; i++)
		data[i] = (char)(i * 7 >> 3);
	assert_int_equal(rut_file_write(fds[1], data, (size_t)room * 2), -EAGAIN);
	assert_int_equal(read(fds[0], got, (size_t)room * 2), room);
	assert_memory_equal(got, data, (size_t)room);
	assert_int_equal(rut_file_write(fds[1], data, (size_t)room), 0);
	assert_int_equal(read(fds[0], got, (size_t)room), room);
	assert_memory_equal(got, data, (size_t)room);
	assert_int_equal(rut_file_write(fds[1], data, 0), 0);
	free(data);
	free(got);
	close(fds[0]);
	close(fds[1]);
}

/* Segments that overlap share nothing once the core is open: each address has one content. */
static void test_core_segments_never_overlap(void **state)
{
	static const struct {
		uint64_t from, bytes;
	} list[] = {{0x3000, 0x1000}, {0x1000, 0x1800}, {0x2000, 0x800}, {0x2400, 0x1000}};
	struct {
		Elf64_Ehdr e;
		Elf64_Phdr p[5];
		Elf64_Nhdr note;
		char name[8];
		prpsinfo_t info;
		char memory[0x4000];
	} *file = calloc(1, sizeof(*file));
	char path[] = "/tmp/rutile-unit-XXXXXX";
	struct rut_core *core = NULL;
	int fd = mkstemp(path);

	assert_true(file && fd >= 0);
	memcpy(file->e.e_ident, ELFMAG, SELFMAG);
	file->e.e_ident[EI_CLASS] = ELFCLASS64;
	file->e.e_ident[EI_DATA] = ELFDATA2LSB;
	file->e.e_type = ET_CORE;
	file->e.e_phoff = offsetof(__typeof__(*file), p);
	file->e.e_phentsize = sizeof(Elf64_Phdr);
	file->e.e_phnum = 5;
	for (int i = 0; i < 4; i++)
		file->p[i] =
			(Elf64_Phdr){.p_type = PT_LOAD,
				     .p_offset = offsetof(__typeof__(*file), memory) + list[i].from,
				     .p_vaddr = list[i].from,
				     .p_filesz = list[i].bytes};
	file->p[4] = (Elf64_Phdr){.p_type = PT_NOTE,
				  .p_offset = offsetof(__typeof__(*file), note),
				  .p_filesz = sizeof(file->note) + 8 + sizeof(prpsinfo_t)};
	file->note = (Elf64_Nhdr){5, sizeof(prpsinfo_t), NT_PRPSINFO};
	memcpy(file->name, "CORE", 5);
	for (size_t i = 0; i < sizeof(file->memory); i++)
		file->memory[i] = (char)(i / 256);
	assert_int_equal(write(fd, file, sizeof(*file)), sizeof(*file));
	assert_int_equal(rut_core_open(&core, path, NULL), 0);
	for (size_t i = 0; i < core->count; i++) {
		const struct rut_core_segment *s = &core->segments[i];

		assert_true(!i || s[-1].address + s[-1].bytes <= s->address);
		assert_int_equal(*s->data, s->address / 256);
		assert_ptr_equal(rut_core_at(core, s->address, s->bytes), s->data);
	}
	assert_int_equal(*rut_core_at(core, 0x2900, 1), 0x29);
	assert_int_equal(*rut_core_at(core, 0x3f00, 1), 0x3f);
	rut_core_free(core);
	close(fd);
	unlink(path);
	free(file);
}

static void test_numbers_are_digits_and_nothing_else(void **state)
{
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "0x1", "1k", "x"};
	const char *end;
	uint64_t v = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(rut_parse_u64(bad[i], &v), -EINVAL);
	assert_int_equal(rut_parse_u64("18446744073709551616", &v), -ERANGE);
	assert_int_equal(v, 7);
	assert_int_equal(rut_parse_u64("18446744073709551615", &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(rut_parse_u64_prefix("12/3m", &v, &end), 0);
	assert_int_equal(v, 12);
	assert_string_equal(end, "/3m");
	assert_int_equal(rut_parse_u64_prefix("/3m", &v, &end), -EINVAL);
}

static void test_durations_have_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"0", 0},
		{"7ns", 7},
		{"250us", 250000},
		{"10ms", 10000000},
		{"1.5s", 1500000000},
		{".5", 500000000},
		{"3", 3000000000},
		{"5m", 300000000000},
		{"2h", 7200000000000},
		{"1d", 86400000000000},
		{"0.4ns", 0},
		{"0.6ns", 1},
		{"9e18ns", 9000000000000000000u},
	};
	static const char *const bad[] = {"",	"s",   "-1s", " 1s",	"1 s",	 "1s ", "1min",
					  "1S", "nan", "inf", "9e19ns", "1e999", "5mm"};
	uint64_t ns = 7;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(rut_parse_duration(good[i].text, &ns), 0);
		assert_true(ns == good[i].ns);
	}
	ns = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(rut_parse_duration(bad[i], &ns), -EINVAL);
	assert_int_equal(ns, 7);
}

static void test_sizes_are_powers_of_1024(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"17", 17},
		{"4k", 4096},
		{"10M", 10485760},
		{"1G", 1073741824},
		{"1GiB", 1073741824},
		{"1gB", 1073741824},
		{"2T", 2199023255552},
		{"16777215T", 16777215ull << 40},
	};
	static const char *const bad[] = {
		"",   "k", "-1k", "1.5k", "1kb", "1ki", "1x", "16777216T", "99999999999999999999",
		"1 k"};
	uint64_t bytes = 7;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(rut_parse_size(good[i].text, &bytes), 0);
		assert_true(bytes == good[i].bytes);
	}
	bytes = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(rut_parse_size(bad[i], &bytes), -EINVAL);
	assert_int_equal(bytes, 7);
}

static void test_seconds_are_exact(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {{"1", 1000000000},
		    {"+0.25", 250000000},
		    {"-3600", -3600000000000},
		    {"1700000000.123456789", 1700000000123456789},
		    {"-0.5", -500000000}};
	static const char *const bad[] = {"", "-", ".5", "1s", "9000000001", "1.2.3"};
	int64_t ns = 7;

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(rut_parse_seconds(good[i].text, &ns), 0);
		assert_true(ns == good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(rut_parse_seconds(bad[i], &ns), -EINVAL);
}

/* Measurements of one difference differ by some nanoseconds; a day that is set differs by more. */
static void test_a_known_clock_offset_stays(void **state)
{
	int64_t known = rut_clock_offset_ns();

	for (int i = 0; i < 1000; i++)
		assert_int_equal(rut_clock_offset_near_ns(known + i % 100), known + i % 100);
	assert_in_range(rut_clock_offset_near_ns(known + 1000000) - known + 10000, 0, 20000);
	assert_in_range(rut_clock_offset_near_ns(0) - known + 10000, 0, 20000);
}

static void test_mappings_are_those_of_the_process(void **state)
{
	char spaces[] = "7f00-7f10 r-xp 00026000 08:1a 123   /opt/my ruby/lib.so (deleted)";
	char none[] = "not a mapping", shown[64];
	_cleanup_maps_ struct rut_maps maps = RUT_MAPS_INIT;
	struct rut_mapping m;
	bool code = false, data = false;
	static int here = 1;

	assert_true(rut_mapping_parse(spaces, &m));
	assert_string_equal(m.path, "/opt/my ruby/lib.so");
	assert_true(m.deleted && m.read && !m.write && m.exec && !m.shared);
	assert_true(m.start == 0x7f00 && m.end == 0x7f10 && m.offset == 0x26000 && m.inode == 123);
	assert_true(m.dev_major == 8 && m.dev_minor == 0x1a);
	rut_mapping_name(&m, shown, sizeof(shown));
	assert_string_equal(shown, "/opt/my ruby/lib.so (deleted)");
	/* Nothing else is opened in its place. */
	assert_true(rut_mapping_open(getpid(), &m) < 0);
	assert_false(rut_mapping_parse(none, &m));

	assert_int_equal(rut_maps_open(&maps, getpid()), 0);
	while (rut_maps_next(&maps, &m)) {
		uint64_t fn = (uintptr_t)test_mappings_are_those_of_the_process;

		code |= m.exec && fn >= m.start && fn < m.end && strstr(m.path, "test");
		data |= m.write && (uintptr_t)&here >= m.start && (uintptr_t)&here < m.end;
	}
	assert_true(code && data);
}

static void test_only_regular_files_are_opened(void **state)
{
	char name[] = "/tmp/rutile-pipe-XXXXXX";
	int fd = rut_file_open_regular("/proc/self/exe");

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rut_file_open_regular("/dev/zero"), -EINVAL);
	assert_int_equal(rut_file_open_regular("/no/such/file"), -ENOENT);
	assert_true(mkdtemp(name));
	assert_int_equal(rut_file_open_regular(name), -EINVAL);
	rmdir(name);
	/* A pipe without a writer does not block. */
	assert_int_equal(mkfifo(name, 0600), 0);
	fd = rut_file_open_regular(name);
	unlink(name);
	assert_int_equal(fd, -EINVAL);
}

/* Of random patterns and texts over a small alphabet, most of them with several special characters.
 */
static void test_globs_agree_with_fnmatch(void **state)
{
	static const char letters[] = "ab*?[]!^-\\a";
	char pattern[10], text[8];
	unsigned int seed = 1, matches = 0, differ = 0;

	setlocale(LC_ALL, "C");
	for (int i = 0; i < 400000; i++) {
		size_t n = (size_t)rand_r(&seed) % (sizeof(pattern) - 1),
		       len = (size_t)rand_r(&seed) % (sizeof(text) - 1);
		bool want;

		for (size_t k = 0; k < n; k++)
			pattern[k] = letters[(size_t)rand_r(&seed) % (sizeof(letters) - 1)];
		pattern[n] = '\0';
		for (size_t k = 0; k < len; k++)
			text[k] = letters[(size_t)rand_r(&seed) % (sizeof(letters) - 1)];
		text[len] = '\0';
		/* A backslash at the end, and collating symbols, are left open by POSIX. */
		if ((n && pattern[n - 1] == '\\') || strstr(pattern, "[[") || strstr(pattern, "--"))
			continue;
		want = fnmatch(pattern, text, 0) == 0;
		matches += want;
		if (rut_glob(pattern, n, text, len, RUT_GLOB_SHELL) != want) {
			if (!differ++)
				fprintf(stderr, "'%s' '%s': fnmatch says %d\n", pattern, text,
					want);
		}
	}
	assert_true(matches > 5000);
	assert_int_equal(differ, 0);
}

static void test_globs_of_expressions(void **state)
{
	assert_true(rut_glob("a\\*", 3, "a\\b", 3, RUT_GLOB_EXPR));
	assert_false(rut_glob("a\\*", 3, "a*", 2, RUT_GLOB_EXPR));
	assert_true(rut_glob("[^a]", 4, "^", 1, RUT_GLOB_EXPR));
	assert_false(rut_glob("[^a]", 4, "b", 1, RUT_GLOB_EXPR));
	assert_true(rut_glob_string("[^a]", "b"));
	/* Not all of a buffer. */
	assert_true(rut_glob("ab*zzz", 3, "abc", 2, RUT_GLOB_SHELL));
}

/* Also where no descriptor with a higher number than those of the others can be had. */
static void test_the_last_descriptor_is_closed_last(void **state)
{
	char path[] = "/tmp/rut-leave-XXXXXX";
	int ends[2], fds[1], again, lock = mkstemp(path);
	struct pollfd end = {.events = POLLIN};
	struct rlimit files, few;
	bool early = false, ended = false;

	again = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(lock >= 0 && again >= 0 && !unlink(path));
	assert_int_equal(flock(lock, LOCK_EX), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	fds[0] = fcntl(ends[1], F_DUPFD, 200);
	assert_int_equal(fds[0], 200);
	close(ends[1]);
	few = (struct rlimit){201, files.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	rut_leave_behind(fds, 1, lock);
	setrlimit(RLIMIT_NOFILE, &files);
	close(fds[0]);
	close(lock);
	end.fd = ends[0];
	for (uint64_t until = rut_now_ms() + 10000; !ended && rut_now_ms() < until;) {
		ended = !flock(again, LOCK_EX | LOCK_NB);
		early = ended && poll(&end, 1, 0) != 1;
	}
	assert_true(ended);
	assert_false(early);
	close(again);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_globs_agree_with_fnmatch),
		cmocka_unit_test(test_globs_of_expressions),
		cmocka_unit_test(test_err_names_the_cause),
		cmocka_unit_test(test_buf_grows_and_gives_up_its_memory),
		cmocka_unit_test(test_buf_reads_proc),
		cmocka_unit_test(test_map_agrees_with_an_array),
		cmocka_unit_test(test_index_agrees_with_an_array),
		cmocka_unit_test(test_logfile_keeps_its_limits),
		cmocka_unit_test(test_file_write_goes_on_after_a_short_write),
		cmocka_unit_test(test_a_new_directory_takes_the_next_name),
		cmocka_unit_test(test_strtab_gives_the_same_id_for_the_same_bytes),
		cmocka_unit_test(test_core_segments_never_overlap),
		cmocka_unit_test(test_numbers_are_digits_and_nothing_else),
		cmocka_unit_test(test_a_known_clock_offset_stays),
		cmocka_unit_test(test_mappings_are_those_of_the_process),
		cmocka_unit_test(test_only_regular_files_are_opened),
		cmocka_unit_test(test_durations_have_units),
		cmocka_unit_test(test_sizes_are_powers_of_1024),
		cmocka_unit_test(test_seconds_are_exact),
		cmocka_unit_test(test_the_last_descriptor_is_closed_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
