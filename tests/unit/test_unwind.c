/* SPDX-License-Identifier: MIT */
/* Unwind tables, compared with those that readelf shows. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "probe/unwind.h"

static const struct rut_unwind_row *row_at(const struct rut_unwind_table *t, unsigned long pc)
{
	size_t lo = 0, hi = t->nrows;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->rows[mid].pc <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &t->rows[lo - 1] : NULL;
}

/* A line of readelf: "LOC CFA rbx rbp ra", each "u", "c-16", "rsp+8", "exp", "vexp". */
struct line {
	unsigned long pc;
	char cfa[32], bp[32], ra[32];
};

static bool read_line(struct line *l, char *text, const int *columns)
{
	char *save = NULL;
	int i = 0;

	*l = (struct line){.bp = "u", .ra = "c-8"};
	for (char *word = strtok_r(text, " \n", &save); word;
	     word = strtok_r(NULL, " \n", &save), i++) {
		if (word[0] == '(') /* "r10 (r10)" is one */
			i--;
		else if (!i)
			l->pc = strtoul(word, NULL, 16);
		else if (i == 1)
			snprintf(l->cfa, sizeof(l->cfa), "%s", word);
		else if (i == columns[0])
			snprintf(l->bp, sizeof(l->bp), "%s", word);
		else if (i == columns[1])
			snprintf(l->ra, sizeof(l->ra), "%s", word);
	}
	return i > 1;
}

/* 1: as expected; 0: it says that nothing is known, where something is; -1: wrong. */
static int compare(const struct rut_unwind_table *t, const struct line *l)
{
	const struct rut_unwind_row *r = row_at(t, l->pc);
	unsigned int kind = r ? RUT_UNWIND_KIND(r->rule) : RUT_UNWIND_NONE;
	unsigned long want;

	if (!strcmp(l->ra, "u"))
		return kind == RUT_UNWIND_END ? 1 : -1;
	if (kind == RUT_UNWIND_SIGNAL)
		return !strcmp(l->cfa, "exp") ? 1 : -1;
	/* Not where calls push it. */
	if (strcmp(l->ra, "c-8") != 0)
		return kind ? -1 : 1;
	if (strncmp(l->cfa, "rsp+", 4) != 0 && strncmp(l->cfa, "rbp+", 4) != 0) {
		/* Another register, or an expression; this knows a few of those. */
		if (kind == RUT_UNWIND_SP || kind == RUT_UNWIND_BP)
			return -1;
		return !!kind;
	}
	if (!kind)
		return 0;
	want = strtoul(l->cfa + 4, NULL, 10) / 8;
	if (kind != (l->cfa[1] == 's' ? RUT_UNWIND_SP : RUT_UNWIND_BP) ||
	    RUT_UNWIND_CFA(r->rule) != want)
		return -1;
	want = l->bp[0] == 'c' ? strtoul(l->bp + 2, NULL, 10) / 8 : 0;
	return RUT_UNWIND_BP_AT(r->rule) == want ? 1 : -1;
}

/* readelf's register columns of a function: of %rbp and of the return address. */
static void read_columns(char *text, int columns[2])
{
	char *save = NULL;
	int i = 0;

	columns[0] = columns[1] = -1;
	for (char *word = strtok_r(text, " \n", &save); word;
	     word = strtok_r(NULL, " \n", &save), i++)
		columns[0] = !strcmp(word, "rbp") ? i : columns[0],
		columns[1] = !strcmp(word, "ra") ? i : columns[1];
}

static void check_file(const char *path)
{
	int fd = open(path, O_RDONLY), columns[2] = {-1, -1}, good = 0, unknown = 0, bad = 0;
	struct rut_unwind_table t = {0};
	char command[512], text[1024];
	struct line last = {0};
	FILE *f;

	if (fd < 0)
		return;
	assert_int_equal(rut_unwind_read(&t, fd), 0);
	close(fd);
	snprintf(command, sizeof(command), "readelf -wF '%s' 2>/dev/null", path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(text, sizeof(text), f)) {
		struct line l;
		bool in_cie = false;

		if (strstr(text, "   LOC ")) {
			read_columns(text, columns);
			continue;
		}
		if (strlen(text) < 18 || text[16] != ' ' || strchr(text, '=') ||
		    !read_line(&l, text, columns))
			l = (struct line){0};
		in_cie = !l.pc;
		/* Of two lines for one address the second holds. */
		if (last.pc && last.pc != l.pc) {
			int rc = compare(&t, &last);

			good += rc > 0;
			unknown += !rc;
			bad += rc < 0;
			if (rc < 0 && bad < 5)
				print_message("# %s: %lx %s %s %s\n", path, last.pc, last.cfa,
					      last.bp, last.ra);
		}
		last = in_cie ? (struct line){0} : l;
	}
	pclose(f);
	print_message("# %s: %zu rows of %zu functions; %d as readelf, %d not known, %d wrong\n",
		      path, t.nrows, t.nfunctions, good, unknown, bad);
	assert_true(good > 100);
	assert_int_equal(bad, 0);
	/* Assembly has rules of its own kind. */
	assert_true(unknown <= good / 50);
	rut_unwind_fini(&t);
}

static void test_readelf(void **state)
{
	char line[1024], path[900], perms[8], seen[16][900];
	FILE *maps = fopen("/proc/self/maps", "r");
	size_t n = 0;

	assert_non_null(maps);
	while (n < 16 && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%*s %7s %*s %*s %*s %899s", perms, path) != 2 ||
		    perms[2] != 'x' || path[0] != '/' || !strstr(path, "/lib"))
			continue;
		snprintf(seen[n++], sizeof(seen[0]), "%s", path);
	}
	fclose(maps);
	assert_true(n >= 1);
	for (size_t i = 0; i < n; i++)
		check_file(seen[i]);
	/* Much assembly, and many functions. */
	check_file("/usr/lib/x86_64-linux-gnu/libcrypto.so.3");
	check_file("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1");
}

static void test_vdso(void **state)
{
	struct rut_unwind_table t;
	const void *image = (const void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);

	assert_non_null(image);
	assert_int_equal(rut_unwind_read_image(&t, image, 8192), 0);
	assert_true(t.nfunctions >= 4);
	assert_non_null(rut_unwind_function_at(&t, t.functions[1].start));
	assert_null(rut_unwind_function_at(&t, t.functions[0].start - 1));
	rut_unwind_fini(&t);
}

/* No byte of a file is trusted. */
static void test_bad(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	static unsigned char image[1 << 19];
	ssize_t n = read(fd, image, sizeof(image));
	struct rut_unwind_table t;
	unsigned int seed = 7;

	assert_true(n > 4096);
	close(fd);
	assert_int_equal(rut_unwind_read_image(&t, image, 10), -ENOEXEC);
	for (int round = 0; round < 300; round++) {
		unsigned char *copy = malloc((size_t)n);

		assert_non_null(copy);
		memcpy(copy, image, (size_t)n);
		for (int k = 0; k < 2000; k++)
			copy[(size_t)rand_r(&seed) % (size_t)n] = (unsigned char)rand_r(&seed);
		/* What makes it be read at all. */
		memcpy(copy, image, round % 2 ? 64 + 56 * 14 : 64);
		rut_unwind_read_image(&t, copy, (size_t)n);
		for (size_t i = 1; i < t.nrows; i++)
			assert_true(t.rows[i - 1].pc <= t.rows[i].pc);
		rut_unwind_fini(&t);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readelf),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests_name("unwind", tests, NULL, NULL);
}
