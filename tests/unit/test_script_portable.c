/* SPDX-License-Identifier: MIT */
/* Compiled scripts: what is written is what is read, and the numbers of the machine are changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/fact.h"
#include "script/format.h"
#include "script/portable.h"
#include "script/script.h"
#include "unit.h"

static const char text[] =
	"config = { max_strlen = 77 }\n"
	"begin {\n"
	"  @a[1, \"x\"] = hist(5); @l = lhist(3, 0, 100, 10); @s = stats(ncpus);\n"
	"  @t[(a = 1, b = (2, \"yy\"))] = count(); @n = ncpus; @e = tseries(3, 1s, 5);\n"
	"  printf(\"a=%d %s\\n\", 1, comm); print(@a[1, \"x\"]); printf(\"%d\\n\", p99(@l));\n"
	"  if (glob(comm, \"a*\", \"b?\")) { time(\"%H\"); exit(3); }\n"
	"}\n"
	"// nobody cites this line\n"
	"interval:1s { clear(@a); for ($i : 0..3) { @n = $i; } }\n";

static struct rut_script_program *compiled(void)
{
	const struct rut_script_opts opts = {.name = "dir/some.bt", .portable = true};
	struct rut_script_program *p = NULL;
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_script_compile(&p, text, strlen(text), &opts, &err);

	if (rc)
		fprintf(stderr, "%s%s\n", err.msg, p ? p->src.messages.data : "");
	assert_int_equal(rc, 0);
	return p;
}

static struct rut_script_program *read_back(struct rut_script_program *p)
{
	struct rut_script_program *programs[RUT_PORTABLE_USES] = {p}, *ret = NULL;
	_cleanup_buf_ struct rut_buf file = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(rut_portable_write(&file, programs), 0);
	assert_true(rut_portable_is(file.data, file.len));
	assert_int_equal(
		rut_portable_read(&ret, "f", file.data, file.len, RUT_PORTABLE_SESSION, &err),
		-ENOENT);
	assert_int_equal(rut_portable_read(&ret, "f", file.data, file.len, RUT_PORTABLE_RUN, &err),
			 0);
	return ret;
}

static void test_what_is_written_is_read(void **state)
{
	struct rut_script_program *p = compiled(), *q = read_back(p);

	assert_string_equal(q->src.name, "some.bt");
	assert_int_equal(q->set.max_strlen, 77);
	assert_int_equal(q->nmaps, p->nmaps);
	for (size_t i = 0; i < p->nmaps; i++) {
		assert_string_equal(q->maps[i].name, p->maps[i].name);
		assert_int_equal(q->maps[i].value->kind, p->maps[i].value->kind);
		assert_int_equal(q->maps[i].value->size, p->maps[i].value->size);
		assert_int_equal(q->maps[i].value_bytes, p->maps[i].value_bytes);
		assert_int_equal(q->maps[i].key_bytes, p->maps[i].key_bytes);
	}
	assert_int_equal(q->nactions, p->nactions);
	for (size_t i = 0; i < p->nactions; i++) {
		assert_int_equal(q->actions[i].kind, p->actions[i].kind);
		assert_int_equal(!q->actions[i].parsed, !p->actions[i].parsed);
		assert_int_equal(q->actions[i].nquantiles, p->actions[i].nquantiles);
	}
	assert_int_equal(q->nprogs, p->nprogs);
	for (size_t i = 0; i < p->nprogs; i++) {
		assert_int_equal(q->progs[i].ninsns, p->progs[i].ninsns);
		assert_memory_equal(q->progs[i].insns, p->progs[i].insns,
				    p->progs[i].ninsns * sizeof(struct bpf_insn));
		assert_int_equal(q->progs[i].nfunctions, p->progs[i].nfunctions);
		assert_string_equal(q->progs[i].attach[0].name, p->progs[i].attach[0].name);
	}
	assert_int_equal(q->tables_bytes, p->tables_bytes);
	assert_memory_equal(q->tables, p->tables, p->tables_bytes);
	assert_int_equal(q->nsites, p->nsites);
	/* Positions are what they were; lines that nothing cites are blank. */
	assert_int_equal(strlen(q->text), strlen(p->text));
	assert_null(strstr(q->text, "nobody"));
	assert_non_null(strstr(q->text, "printf"));
	rut_script_free(p);
	rut_script_free(q);
}

/* On a machine with other CPUs: the numbers that instructions have become those of this one. */
static void test_numbers_of_the_machine_are_changed(void **state)
{
	struct rut_script_program *p = compiled(), *q;
	struct rut_script_fact *cpus = NULL;
	size_t changed = 0;

	for (size_t i = 0; i < p->nfacts; i++)
		if (p->facts[i].kind == RUT_FACT_CPUS)
			cpus = &p->facts[i];
	assert_non_null(cpus);
	cpus->value += 7;
	for (size_t i = 0; i < p->nprogs; i++)
		for (size_t k = 0; k < p->progs[i].nrelos; k++)
			if (&p->facts[p->progs[i].relos[k].fact] == cpus) {
				p->progs[i].insns[p->progs[i].relos[k].insn].imm += 7;
				changed++;
			}
	assert_true(changed > 1);
	q = read_back(p);
	assert_int_equal(rut_fact_relocate(q), 0);
	rut_script_free(p);
	p = compiled();
	for (size_t i = 0; i < p->nprogs; i++)
		assert_memory_equal(q->progs[i].insns, p->progs[i].insns,
				    p->progs[i].ninsns * sizeof(struct bpf_insn));
	rut_script_free(p);
	rut_script_free(q);
}

/* The rest of a file that was cut anywhere, or is of bytes that were changed, is no program. */
static void test_bytes_without_a_digest_are_checked(void **state)
{
	struct rut_script_program *p = compiled(), *q;
	struct rut_script_program *programs[RUT_PORTABLE_USES] = {p};
	_cleanup_buf_ struct rut_buf file = RUT_BUF_INIT;
	const size_t head = 72; /* the header, and the length of the first program */
	size_t len;

	assert_int_equal(rut_portable_write(&file, programs), 0);
	rut_script_free(p);
	len = file.len - head - 8;
	assert_int_equal(rut_portable_decode(&q, "f", file.data + head, len), 0);
	rut_script_free(q);
	for (size_t cut = 0; cut < len; cut += 1 + cut / 40)
		assert_int_equal(rut_portable_decode(&q, "f", file.data + head, cut), -EBADMSG);
	for (size_t at = 0; at < len; at++) {
		file.data[head + at] ^= 0x80;
		if (!rut_portable_decode(&q, "f", file.data + head, len))
			rut_script_free(q);
		file.data[head + at] ^= 0x80;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_numbers_of_the_machine_are_changed),
		cmocka_unit_test(test_bytes_without_a_digest_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
