/* SPDX-License-Identifier: MIT */
/* A row of a profile, opened. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "cli/profile_table.h"

static const struct {
	const char *stack;
	uint64_t ns;
} stacks[] = {
	{"ruby;main;A#a;B#b;C#c", 400000000},
	{"ruby;main;A#a;B#b;C#c;A#a;D#d", 200000000}, /* below its own first call */
	{"ruby;other;A#a;D#d", 300000000},
	{"ruby;main;A#a", 95000000},
	{"ruby;main;A#a;E#e", 5000000}, /* half a percent */
	{"ruby;main;D#d", 7000000},	/* not below it */
	{"A#a", 1},			/* a process of that name, without a caller */
};

static void make(struct rut_profile *p)
{
	*p = (struct rut_profile){.n_stacks = 16, .stack_ns = calloc(16, sizeof(uint64_t))};
	assert_non_null(p->stack_ns);
	for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++) {
		int64_t id =
			rut_strtab_intern(&p->stacks, stacks[i].stack, strlen(stacks[i].stack));

		assert_true(id >= 0 && id < 16);
		p->stack_ns[id] = stacks[i].ns;
	}
}

/* Cells of the last column are as wide as the widest. */
static void strip(char *text)
{
	char *to = text;

	for (const char *c = text; *c; c++) {
		if (*c == '\n')
			while (to > text && to[-1] == ' ')
				to--;
		*to++ = *c;
	}
	*to = '\0';
}

static void test_a_row_is_opened(void **state)
{
	const struct rut_profile_show show = {.limit = 10};
	struct rut_buf out = RUT_BUF_INIT;
	struct rut_profile p;

	(void)state;
	make(&p);
	rut_cli_profile_tree(&p, &show, "A#a", 0, &out);
	assert_false(out.failed);
	strip(out.data);
	assert_string_equal(out.data, "Total (s)    % Called from\n"
				      "    0.700 70.0 main\n"
				      "    0.300 30.0 other\n"
				      "\n"
				      "Total (s)     % Self (s) Name\n"
				      "    1.000 100.0    0.095 A#a\n"
				      "    0.600  60.0    0.000   B#b\n"
				      "    0.600  60.0    0.400     C#c\n"
				      "    0.200  20.0    0.000       A#a\n"
				      "    0.200  20.0    0.200         D#d\n"
				      "    0.300  30.0    0.300   D#d\n");
	rut_buf_fini(&out);
	rut_an_profile_fini(&p);
}

static void test_an_unknown_row_is_empty(void **state)
{
	const struct rut_profile_show show = {.alloc = true, .limit = 10};
	struct rut_buf out = RUT_BUF_INIT;
	struct rut_profile p;

	(void)state;
	make(&p);
	rut_cli_profile_tree(&p, &show, "A#", 0, &out);
	assert_false(out.failed);
	assert_null(strstr(out.data, "B#b"));
	rut_buf_fini(&out);
	rut_an_profile_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_row_is_opened),
		cmocka_unit_test(test_an_unknown_row_is_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
