/* SPDX-License-Identifier: MIT */
/* Compiled scripts: what is written is what is read, and the numbers of the machine are changed. */
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "ebpf/asm.h"
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

static struct rut_script_program *compiled_of(const char *source)
{
	const struct rut_script_opts opts = {.name = "dir/some.bt", .portable = true};
	struct rut_script_program *p = NULL;
	struct rut_err err = RUT_ERR_INIT;
	int rc = rut_script_compile(&p, source, strlen(source), &opts, &err);

	if (rc)
		fprintf(stderr, "%s%s\n", err.msg, p ? p->src.messages.data : "");
	assert_int_equal(rc, 0);
	return p;
}

static struct rut_script_program *compiled(void)
{
	return compiled_of(text);
}

static struct rut_script_program *read_back(struct rut_script_program *p)
{
	struct rut_script_program *programs[RUT_PORTABLE_USES] = {p}, *ret = NULL;
	_cleanup_buf_ struct rut_buf file = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(rut_portable_write(&file, programs), 0);
	assert_true(rut_portable_is(file.data, file.len));
	assert_int_equal(rut_portable_read(&ret, "f", file.data, file.len, RUT_PORTABLE_SESSION,
					   false, &err),
			 -ENOENT);
	assert_int_equal(
		rut_portable_read(&ret, "f", file.data, file.len, RUT_PORTABLE_RUN, false, &err),
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

/* Reads a file whose first program has these instructions at its end, and the right digest. */
static int read_with(const struct bpf_insn *insns, size_t n, bool unsafe, struct rut_err *err)
{
	struct rut_script_program *p = compiled(), *q = NULL;
	struct rut_script_program *programs[RUT_PORTABLE_USES] = {p};
	_cleanup_buf_ struct rut_buf file = RUT_BUF_INIT;
	struct rut_script_prog *prog = &p->progs[0];
	int rc;

	prog->insns = realloc(prog->insns, (prog->ninsns + n) * sizeof(*insns));
	prog->places = realloc(prog->places, (prog->ninsns + n) * sizeof(*prog->places));
	assert_true(prog->insns && prog->places);
	memcpy(prog->insns + prog->ninsns, insns, n * sizeof(*insns));
	memset(prog->places + prog->ninsns, 0, n * sizeof(*prog->places));
	prog->ninsns += n;
	assert_int_equal(rut_portable_write(&file, programs), 0);
	rut_script_free(p);
	rc = rut_portable_read(&q, "f", file.data, file.len, RUT_PORTABLE_RUN, unsafe, err);
	if (!rc) {
		assert_int_equal(q->opts.unsafe, unsafe);
		rut_script_free(q);
	}
	return rc;
}

static int read_call(uint8_t code, uint8_t src, int32_t helper, bool unsafe)
{
	const struct bpf_insn call = {.code = code, .src_reg = src & 15, .imm = helper};
	struct rut_err err = RUT_ERR_INIT;

	return read_with(&call, 1, unsafe, &err);
}

/* The permission is of who runs it, whatever the file says. */
static void test_unsafe_helpers_need_permission(void **state)
{
	static const int32_t unsafe[] = {BPF_FUNC_send_signal, BPF_FUNC_send_signal_thread,
					 BPF_FUNC_probe_write_user, BPF_FUNC_override_return};
	const struct bpf_insn call = {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_send_signal};
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(read_call(BPF_JMP | BPF_CALL, 0, BPF_FUNC_ktime_get_ns, false), 0);
	for (size_t i = 0; i < sizeof(unsafe) / sizeof(*unsafe); i++) {
		assert_int_equal(read_call(BPF_JMP | BPF_CALL, 0, unsafe[i], false), -EPERM);
		assert_int_equal(read_call(BPF_JMP | BPF_CALL, 0, unsafe[i], true), 0);
	}
	assert_int_equal(read_with(&call, 1, false, &err), -EPERM);
	assert_non_null(strstr(err.msg, "it needs --unsafe"));
}

/* Whatever scripts are compiled to is read: each kind of value calls helpers of its own. */
static void test_helpers_of_scripts_are_read(void **state)
{
	struct rut_script_program *p = compiled_of(
		"begin {\n"
		"  @n[nsecs, nsecs(boot), nsecs(sw_tai), elapsed, jiffies, cpu, numaid, rand] = "
		"1;\n"
		"  @who[pid, tid, uid, gid, username, comm, cgroup, curtask.pid] = count();\n"
		"  @stack[kstack, ustack(3)] = count(); @text[str(uptr(1)), str(kptr(2)), buf(3, "
		"4)] = 1;\n"
		"  @mem[*(int32 *)uptr(5), *(int64 *)kptr(6)] = 1; @t = strftime(\"%H\", nsecs);\n"
		"  @sum = sum(2); if (@sum > 3) { delete(@one, 1); delete(@t); }\n"
		"  for ($kv : @text) { print($kv.1); } @one[1] = 1; $i = 0; while ($i < 4) { $i++; "
		"}\n"
		"}\n");
	struct rut_script_program *q = read_back(p);

	for (size_t i = 0; i < p->nprogs; i++)
		assert_memory_equal(q->progs[i].insns, p->progs[i].insns,
				    p->progs[i].ninsns * sizeof(struct bpf_insn));
	rut_script_free(p);
	rut_script_free(q);
}

/* Also with --unsafe: helpers that no script calls, functions of the kernel, and of the file. */
static void test_other_calls_are_refused(void **state)
{
	static const int32_t other[] = {0,
					-1,
					BPF_FUNC_trace_printk,
					BPF_FUNC_tail_call,
					BPF_FUNC_perf_event_output,
					BPF_FUNC_d_path,
					BPF_FUNC_sys_bpf,
					100000};

	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
		assert_int_equal(read_call(BPF_JMP | BPF_CALL, 0, other[i], true), -EBADMSG);
	for (uint8_t src = 1; src < 4; src++)
		assert_int_equal(read_call(BPF_JMP | BPF_CALL, src, BPF_FUNC_ktime_get_ns, true),
				 -EBADMSG);
	assert_int_equal(read_call(BPF_JMP | BPF_CALL | BPF_X, 0, BPF_FUNC_ktime_get_ns, true),
			 -EBADMSG);
	assert_int_equal(read_call(BPF_JMP32 | BPF_CALL, 0, BPF_FUNC_ktime_get_ns, true), -EBADMSG);
}

/* What is not replaced when it is loaded would be a descriptor of this process, or a kernel's. */
static void test_loads_name_maps_of_the_file(void **state)
{
	struct bpf_insn load[2] = {{.code = BPF_LD | BPF_IMM | BPF_DW, .imm = 5}};
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(read_with(load, 2, true, &err), 0);
	for (uint8_t src = 1; src < 8; src++) {
		load[0].src_reg = src & 15;
		assert_int_equal(read_with(load, 2, true, &err), -EBADMSG);
	}
	/* Of one slot. */
	load[0].src_reg = 0;
	assert_int_equal(read_with(load, 1, true, &err), -EBADMSG);
}

/* A fact or a descriptor in a place of another kind would make another call of a call. */
static void test_numbers_are_in_their_places(void **state)
{
	struct rut_script_program *p, *programs[RUT_PORTABLE_USES] = {NULL}, *q;

	for (int relo = 0; relo < 2; relo++) {
		_cleanup_buf_ struct rut_buf file = RUT_BUF_INIT;
		struct rut_err err = RUT_ERR_INIT;
		struct rut_script_prog *prog;
		uint32_t call = 0;

		p = programs[0] = compiled();
		prog = &p->progs[0];
		while (prog->insns[call].code != (BPF_JMP | BPF_CALL))
			call++;
		assert_true(prog->nrelos && prog->nmap_refs);
		if (relo)
			prog->relos[0].insn = call;
		else
			prog->map_refs[0].insn = call;
		assert_int_equal(rut_portable_write(&file, programs), 0);
		assert_int_equal(rut_portable_read(&q, "f", file.data, file.len, RUT_PORTABLE_RUN,
						   true, &err),
				 -EBADMSG);
		rut_script_free(p);
	}
}

/* Of actions that refer to the same type, each has the keys of its own quantiles. */
static void test_quantiles_have_keys_of_their_own(void **state)
{
	struct rut_script_program *p =
		compiled_of("begin { @l[1] = lhist(3, 0, 100, 10); @l[2] = lhist(4, 0, 100, 10);\n"
			    "  printf(\"%d %d\\n\", p99(@l[1]), p50(@l[2]));\n"
			    "  printf(\"%d %d\\n\", p90(@l[1]), 2); }\n");
	struct rut_script_program *q;

	assert_int_equal(p->nactions, 2);
	assert_int_equal(p->actions[0].nquantiles, 2);
	assert_int_equal(p->actions[1].nquantiles, 1);
	p->actions[1].args = p->actions[0].args;
	q = read_back(p);
	for (size_t i = 0; i < 2; i++) {
		const struct rut_type *was = p->actions[i].args, *is = q->actions[i].args;

		assert_int_equal(q->actions[i].nquantiles, p->actions[i].nquantiles);
		assert_int_equal(is->nfields, was->nfields);
		for (size_t k = 0; k < q->actions[i].nquantiles; k++)
			assert_int_equal(is->fields[is->nfields + k].offset,
					 was->fields[was->nfields + k].offset);
	}
	assert_ptr_not_equal(q->actions[0].args->fields, q->actions[1].args->fields);
	rut_script_free(p);
	rut_script_free(q);
}

static int read_changed(struct rut_script_program *p)
{
	struct rut_script_program *programs[RUT_PORTABLE_USES] = {p}, *q = NULL;
	_cleanup_buf_ struct rut_buf file = RUT_BUF_INIT;
	struct rut_err err = RUT_ERR_INIT;
	int rc;

	assert_int_equal(rut_portable_write(&file, programs), 0);
	rc = rut_portable_read(&q, "f", file.data, file.len, RUT_PORTABLE_RUN, true, &err);
	if (!rc)
		rut_script_free(q);
	rut_script_free(p);
	return rc;
}

/* The kernel counts in a semaphore's word; programs of other types have other powers. */
static void test_probes_are_as_compiled(void **state)
{
	struct rut_script_program *p = compiled();

	assert_int_equal(read_changed(p), 0);
	p = compiled();
	p->progs[0].type = BPF_PROG_TYPE_KPROBE;
	assert_int_equal(read_changed(p), -EBADMSG);
	p = compiled();
	p->progs[0].expected = BPF_MODIFY_RETURN;
	assert_int_equal(read_changed(p), -EBADMSG);
	p = compiled();
	p->progs[0].nattach = 0;
	assert_int_equal(read_changed(p), -EBADMSG);
	for (uint64_t semaphore = 0; semaphore < 2; semaphore++) {
		p = compiled();
		p->progs[0].type = BPF_PROG_TYPE_KPROBE;
		p->progs[0].attach[0].kind = RUT_PROBE_UPROBE;
		p->progs[0].attach[0].path = "/bin/true";
		p->progs[0].attach[0].symbol = "main";
		p->progs[0].attach[0].semaphore = semaphore;
		assert_int_equal(read_changed(p), semaphore ? -EBADMSG : 0);
	}
	p = compiled();
	p->actions[0].kind = RUT_ACTION_STOP;
	assert_int_equal(read_changed(p), -EBADMSG);
}

/* A message of a refusal cites the text there. */
static void test_places_are_in_the_text(void **state)
{
	struct rut_script_program *p = compiled();
	uint32_t len = (uint32_t)p->src.whole;

	p->progs[0].places[1] = len;
	assert_int_equal(read_changed(p), 0);
	p = compiled();
	p->progs[0].places[1] = len + 1;
	assert_int_equal(read_changed(p), -EBADMSG);
	p = compiled();
	p->progs[p->nprogs - 1].places[0] = UINT32_MAX;
	assert_int_equal(read_changed(p), -EBADMSG);
}

static void test_short_records_are_not_whole(void **state)
{
	struct rut_script_program *p = compiled();
	const struct rut_script_action *a = &p->actions[0];
	size_t size = sizeof(struct rut_script_event) + a->args->size;

	assert_true(a->args->size > 0);
	assert_true(rut_script_event_is_whole(a, size));
	assert_false(rut_script_event_is_whole(a, size - 1));
	assert_false(rut_script_event_is_whole(a, 4));
	rut_script_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_numbers_of_the_machine_are_changed),
		cmocka_unit_test(test_bytes_without_a_digest_are_checked),
		cmocka_unit_test(test_unsafe_helpers_need_permission),
		cmocka_unit_test(test_helpers_of_scripts_are_read),
		cmocka_unit_test(test_other_calls_are_refused),
		cmocka_unit_test(test_loads_name_maps_of_the_file),
		cmocka_unit_test(test_numbers_are_in_their_places),
		cmocka_unit_test(test_quantiles_have_keys_of_their_own),
		cmocka_unit_test(test_probes_are_as_compiled),
		cmocka_unit_test(test_places_are_in_the_text),
		cmocka_unit_test(test_short_records_are_not_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
