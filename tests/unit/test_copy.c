/* SPDX-License-Identifier: MIT */
/* The copies of the eBPF programs, which are plain C too: every length, and not a byte more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/copy.bpf.h"

#define MAX   2048
#define GUARD 64

static void test_copy_every_length(void **state)
{
	static unsigned char from[MAX + 8], to[MAX + GUARD], want[MAX + GUARD];

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 7 + i / 251 + 1);
	for (uint32_t len = 0; len <= MAX; len++) {
		memset(to, 0xa5, sizeof(to));
		memset(want, 0xa5, sizeof(want));
		memcpy(want, from, len);
		rut_copy(to, from, len, len, MAX);
		assert_memory_equal(to, want, sizeof(to));
	}
	memset(want, 0xa5, sizeof(want));
	memset(to, 0xa5, sizeof(to));
	rut_copy(to, from, MAX + 1, MAX + 1, MAX);
	assert_memory_equal(to, want, sizeof(to));
}

static void check_name(const char *text, unsigned char filler)
{
	unsigned char field[16], to[32], want[32];
	size_t len = strnlen(text, 15) + 1;
	struct rut_name n;

	/* What stands behind the NUL in the kernel's field is anything. */
	memset(field, filler, sizeof(field));
	memcpy(field, text, len < 16 ? strlen(text) + 1 : 16);
	memcpy(&n.low, field, 8);
	memcpy(&n.high, field + 8, 8);
	rut_measure_name(&n);
	assert_int_equal(n.len, len);
	memset(to, 0xa5, sizeof(to));
	memset(want, 0xa5, sizeof(want));
	snprintf((char *)want, 16, "%s", text);
	want[len] = 0xa5;
	rut_store_name(to, &n);
	assert_memory_equal(to, want, sizeof(to));
}

static void test_names_of_every_length(void **state)
{
	static const char letters[] = "enp0s31f6.4094\xff\x80";
	static const unsigned char fillers[] = {0, 1, 0x7f, 0x80, 0xff};
	char text[24];

	(void)state;
	for (size_t f = 0; f < sizeof(fillers); f++)
		for (size_t len = 0; len < 16; len++) {
			memcpy(text, letters, len);
			text[len] = '\0';
			check_name(text, fillers[f]);
			/* Bytes of 1 and 0x80 are where the bit trick could err. */
			memset(text, 1, len);
			check_name(text, fillers[f]);
			memset(text, 0x80, len);
			check_name(text, fillers[f]);
		}
}

/* Sixteen bytes without a NUL: cut, and terminated. */
static void test_name_without_end(void **state)
{
	(void)state;
	check_name("0123456789abcdef", 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy_every_length),
		cmocka_unit_test(test_names_of_every_length),
		cmocka_unit_test(test_name_without_end),
	};

	return cmocka_run_group_tests_name("copy", tests, NULL, NULL);
}
