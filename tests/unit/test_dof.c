/* SPDX-License-Identifier: MIT */
/*
 * The DOF encoder, read back by a decoder that knows nothing of it: offsets and numbers are those
 * that sys/dtrace.h of illumos, FreeBSD and XNU publishes, and the checks are those with which
 * their kernels refuse a provider.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "usdt/dof.h"

static uint64_t num(const struct rut_buf *b, uint64_t at, unsigned bytes)
{
	uint64_t v = 0;

	assert_true(at + bytes <= b->len);
	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)(uint8_t)b->data[at + i] << 8 * i;
	return v;
}

struct sec {
	uint32_t type, align, entsize;
	uint64_t offset, size;
};

static struct sec section(const struct rut_buf *b, uint64_t i)
{
	uint64_t at = num(b, 32, 8) + i * num(b, 24, 4);
	struct sec s = {(uint32_t)num(b, at, 4), (uint32_t)num(b, at + 4, 4),
			(uint32_t)num(b, at + 12, 4), num(b, at + 16, 8), num(b, at + 24, 8)};

	assert_true(i < num(b, 28, 4));
	assert_int_equal(num(b, at + 8, 4), 1); /* to be loaded */
	assert_true(s.align && !(s.align & (s.align - 1)));
	assert_int_equal(s.offset % s.align, 0);
	assert_true(s.offset + s.size <= num(b, 40, 8));
	if (s.entsize)
		assert_int_equal(s.size % s.entsize, 0);
	return s;
}

static const char *string(const struct rut_buf *b, struct sec strtab, uint64_t at)
{
	assert_true(at < strtab.size);
	assert_non_null(memchr(b->data + strtab.offset + at, 0, strtab.size - at));
	return b->data + strtab.offset + at;
}

static void check_header(const struct rut_buf *b, unsigned version)
{
	assert_memory_equal(b->data, "\177DOF", 4);
	assert_int_equal(num(b, 4, 1), 2); /* LP64 */
	assert_int_equal(num(b, 5, 1), 1); /* LSB */
	assert_int_equal(num(b, 6, 1), version);
	assert_int_equal(num(b, 7, 1), 2); /* DIF */
	assert_int_equal(num(b, 16, 4), 0);
	assert_int_equal(num(b, 20, 4), 64);
	assert_int_equal(num(b, 24, 4), 32);
	assert_int_equal(num(b, 40, 8), b->len);
	assert_int_equal(num(b, 48, 8), b->len);
}

static void test_provider(void **state)
{
	static const enum rutile_usdt_type types[] = {RUTILE_USDT_S64, RUTILE_USDT_STR,
						      RUTILE_USDT_BOOL};
	const struct rut_usdt_dof_probe probes[] = {
		{{"none", NULL, 0}, "fire", 0x100000f00, 4, 32},
		{{"paid", types, 3}, "fire", 0x100000f40, 6, 34},
		{{"sent", types, 1}, "send", 0x100000f80, 8, 36},
	};
	static const char *const c_types[] = {"int64_t", "char *", "uint8_t"};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct sec strtab, probe_sec, args, offs, enoffs, prov = {0};

	(void)state;
	assert_int_equal(rut_usdt_dof_build(RUT_USDT_DOF_VERSION_APPLE, "shop", probes, 3, &b), 0);
	check_header(&b, 3);
	for (uint64_t i = 0; i < num(&b, 28, 4); i++)
		if (section(&b, i).type == 15)
			prov = section(&b, i);
	assert_int_equal(prov.size, 44);
	strtab = section(&b, num(&b, prov.offset, 4));
	probe_sec = section(&b, num(&b, prov.offset + 4, 4));
	args = section(&b, num(&b, prov.offset + 8, 4));
	offs = section(&b, num(&b, prov.offset + 12, 4));
	enoffs = section(&b, num(&b, prov.offset + 40, 4));
	assert_int_equal(strtab.type, 8);
	assert_int_equal(probe_sec.type, 16);
	assert_int_equal(args.type, 17);
	assert_int_equal(offs.type, 18);
	assert_int_equal(enoffs.type, 26);
	assert_int_equal(probe_sec.align, 8);
	assert_int_equal(probe_sec.entsize, 48);
	assert_int_equal(args.entsize, 1);
	assert_int_equal(offs.entsize, 4);
	assert_int_equal(enoffs.entsize, 4);
	assert_string_equal(string(&b, strtab, 0), "");
	assert_string_equal(string(&b, strtab, num(&b, prov.offset + 16, 4)), "shop");
	assert_int_equal(probe_sec.size, 3 * 48);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t at = probe_sec.offset + 48 * i, n = probes[i].desc.n_types;
		uint64_t type = num(&b, at + 16, 4), arg = num(&b, at + 24, 4);

		assert_int_equal(num(&b, at, 8), probes[i].address);
		assert_string_equal(string(&b, strtab, num(&b, at + 8, 4)), probes[i].function);
		assert_string_equal(string(&b, strtab, num(&b, at + 12, 4)), probes[i].desc.name);
		assert_int_equal(num(&b, at + 20, 4), type);
		assert_int_equal(num(&b, at + 32, 1), n);
		assert_int_equal(num(&b, at + 33, 1), n);
		assert_int_equal(num(&b, at + 34, 2), 1);
		assert_int_equal(num(&b, at + 40, 2), 1);
		assert_int_equal(num(&b, at + 42, 6), 0);
		assert_true(arg + n <= args.size);
		for (unsigned k = 0; k < n; k++) {
			assert_string_equal(string(&b, strtab, type), c_types[k]);
			type += strlen(c_types[k]) + 1;
			assert_int_equal(num(&b, args.offset + arg + k, 1), k);
		}
		assert_int_equal(num(&b, offs.offset + 4 * num(&b, at + 28, 4), 4),
				 probes[i].site_offset);
		assert_int_equal(num(&b, enoffs.offset + 4 * num(&b, at + 36, 4), 4),
				 probes[i].enabled_offset);
	}
}

static void test_no_arguments_at_all(void **state)
{
	const struct rut_usdt_dof_probe probe = {{"x", NULL, 0}, "f", 0x1000, 0, 8};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	(void)state;
	assert_int_equal(rut_usdt_dof_build(RUT_USDT_DOF_VERSION_1, "p", &probe, 1, &b), 0);
	check_header(&b, 1);
	for (uint64_t i = 0; i < num(&b, 28, 4); i++)
		assert_true(section(&b, i).size > 0);
}

static void test_refused(void **state)
{
	enum rutile_usdt_type bad = (enum rutile_usdt_type)77;
	const struct rut_usdt_dof_probe wrong = {{"x", &bad, 1}, "f", 0, 0, 0};
	const struct rut_usdt_dof_probe many = {{"x", &bad, 13}, "f", 0, 0, 0};
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	(void)state;
	assert_int_equal(rut_usdt_dof_build(1, "p", &wrong, 1, &b), -EINVAL);
	assert_int_equal(rut_usdt_dof_build(1, "p", &many, 1, &b), -EINVAL);
	assert_int_equal(rut_usdt_dof_build(1, "p", &many, 0, &b), -EINVAL);
	assert_int_equal(b.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_provider),
		cmocka_unit_test(test_no_arguments_at_all),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
