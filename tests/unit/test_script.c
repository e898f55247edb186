/* SPDX-License-Identifier: MIT */
/* The passes of the script compiler, each alone. Nothing is loaded into the kernel. */
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "ebpf/asm.h"
#include "ebpf/disasm.h"
#include "script/ast.h"
#include "script/ir.h"
#include "script/lex.h"
#include "script/kernel_has.h"
#include "script/ruby_probe.h"
#include "script/script.h"
#include "unit.h"

static void test_tokens(void **state)
{
	static const char text[] =
		"@x[1] += 0x1f /* no */ $a->b 10ms // end\n\"a\\\"b\" .. 1_000 2e3";
	static const struct {
		enum rut_token_kind kind;
		uint64_t value;
	} want[] = {
		{RUT_TOK_MAP, 0},    {RUT_TOK_OP, 0},	      {RUT_TOK_INT, 1},	   {RUT_TOK_OP, 0},
		{RUT_TOK_OP, 0},     {RUT_TOK_INT, 31},	      {RUT_TOK_VAR, 0},	   {RUT_TOK_OP, 0},
		{RUT_TOK_NAME, 0},   {RUT_TOK_INT, 10000000}, {RUT_TOK_STRING, 0}, {RUT_TOK_OP, 0},
		{RUT_TOK_INT, 1000}, {RUT_TOK_INT, 2000},     {RUT_TOK_END, 0},
	};
	struct rut_source src;
	struct rut_lexer lex = {&src, 0};
	struct rut_token t;

	rut_source_init(&src, "test", text, sizeof(text) - 1);
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		rut_lex_next(&lex, &t);
		assert_int_equal(t.kind, want[i].kind);
		if (t.kind == RUT_TOK_INT)
			assert_int_equal(t.value, want[i].value);
	}
	assert_int_equal(src.errors, 0);
	rut_source_fini(&src);
}

/* The message about a script, or "" when it compiles. */
static char *message(const char *text)
{
	struct rut_script_opts opts = {.name = "t"};
	struct rut_script_program *p;
	struct rut_err err = RUT_ERR_INIT;
	char *ret;

	rut_script_compile(&p, text, strlen(text), &opts, &err);
	assert_non_null(p);
	ret = strdup(p->src.messages.data ? p->src.messages.data : "");
	rut_script_free(p);
	return ret;
}

static void test_messages(void **state)
{
	static const struct {
		const char *text, *begins;
	} cases[] = {
		{"begin { @x = 1; }", ""},
		{"", "t:1:1: error: the script has no probe"},
		{"begin {\n  @x = 1 2;\n}",
		 "t:2:10: error: ';' is missing before this\n  @x = 1 2;\n         ^"},
		{"begin { $x++; }", "t:1:9: error: the variable $x is not assigned"},
		{"begin { @x = \"a\"; @x = 1; }", "t:1:24: error: @x holds string[2], not int64"},
		{"begin { @[1] = 1; @[\"a\"] = 1; }", "t:1:19: error: the key of @ is int64, not"},
		{"begin { @[1] = 1; @ = 1; }", "t:1:19: error: @ has a key elsewhere"},
		{"begin { printf(\"%d\", \"a\"); }", "t:1:16: error: "},
		{"begin { printf(\"%d\"); }", "t:1:16: error: "},
		{"begin { @ = hist(1, 9); }", "t:1:21: error: the bits of hist() are 0 to 5"},
		{"begin { break; }", "t:1:9: error: there is no loop here"},
		{"begin { @x = count(1); }", "t:1:14: error: count() takes"},
		{"begin { $x = count(); }", "t:1:14: error: count() can only be assigned"},
		{"begin { count(); }", "t:1:9: error: the result of count() must be assigned"},
		{"begin { system(\"ls\"); }", "t:1:9: error: system() runs commands"},
		{"begin { @x = \"abc }", "t:1:14: error: the string has no end"},
		{"interval:h:9999999999 { }", "t:1:1: error: 9999999999h is too long"},
		{"interval:9999999999h { }", "t:1:1: error: 9999999999h is too long"},
		{"profile:m:307445735 { }", "t:1:1: error: 307445735m is too long"},
		{"begni { }", "t:1:1: error: there is no kind of probe 'begni'"},
		{"watchpoint:0x1:3:w { }", "t:1:1: error: the length of a watchpoint is 1, 2"},
		{"watchpoint:0x1:8:r { }", "t:1:1: error: this CPU cannot watch reads alone"},
		{"fn f($x) { return f($x); } begin { f(1); }",
		 "t:1:4: error: macros are nested too deeply, or call themselves"},
		{"fn f($x) { } begin { f(); }", "t:1:22: error: f() is given too few arguments"},
		{"fn f(@x) { } begin { }",
		 "t:1:6: error: the parameters of a function are variables"},
		{"fn f($x : int64) { } begin { f(\"a\"); }", "t:1:4: error: "},
		{"import \"none.bt\"; begin { }", "t:1:8: error: cannot import 'none.bt'"},
		{"import none; begin { }", "t:1:8: error: a file is expected"},
		{"enum e { A = B }; begin { print(A); }", "t:1:14: error: 'B' is not known"},
		{"self:signal:SIGNONE { }", "t:1:1: error: there is no signal 'SIGNONE'"},
		{"begin { getopt(@x); }", "t:1:9: error: the value of getopt() is not used"},
		{"begin { print(getopt(\"a\", comm)); }", "t:1:27: error: the default of getopt()"},
		{"begin { @ = tseries(1, 0, 5); }", "t:1:24: error: the interval of tseries()"},
		{"begin { @ = tseries(1, 1s, 5, \"x\"); }", "t:1:31: error: intervals are"},
		{"struct a { struct { int b; } c; }; begin { $x = ((struct a *)1).c.d; }",
		 "t:1:50: error: struct (unnamed 1) has no field 'd'"},
		{"struct a { int b[0]; int8[9] c; }; begin { $x = ((struct a *)1).c[9]; }",
		 "t:1:67: error: the index 9 is out of bounds"},
		{"iter:task:pin { }", "t:1:1: error: iterators cannot be pinned"},
		{"macro a($x) { a($x) } begin { $y = 1; a($y); }",
		 "t:1:15: error: macros are nested"},
		{"struct s { void a : 1; }; begin { @ = sizeof(struct s); }",
		 "t:1:1: error: the bit-field 'a' is not an integer"},
		{"struct z { }; struct s { struct z a : 1; }; begin { @ = sizeof(struct s); }",
		 "t:1:15: error: the bit-field 'a' is not an integer"},
		{"struct s { int a : 3; bool b : 1; }; begin { @ = sizeof(struct s); }", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *m = message(cases[i].text);

		if (strncmp(m, cases[i].begins, strlen(cases[i].begins)) != 0 ||
		    (!cases[i].begins[0] && m[0]))
			print_error("%s\nwanted %s\ngot %s\n", cases[i].text, cases[i].begins, m);
		assert_int_equal(strncmp(m, cases[i].begins, strlen(cases[i].begins)), 0);
		free(m);
	}
}

static void test_deferred(void **state)
{
	static const struct {
		const char *text;
		bool session, first; /* is the first probe deferred? */
	} cases[] = {
		{"ruby:A#b { @[pid, tid, comm] = count(); }", false, true},
		{"ruby:A#b { @[pid, tid, comm] = count(); }", true, true},
		{"ruby:A#b { @ = max(nsecs); @b = max(nsecs(monotonic)); }", false, true},
		{"ruby:A#b { @ = max(nsecs(tai)); }", false, false},
		{"ruby:A#b { @[tid(init)] = count(); }", false, false},
		{"ruby:A#b /tid > 1/ { printf(\"%s %d\", args.id, tid); }", false, true},
		{"ruby:A#b { printf(\"%s %d\", args.id, tid); }", true, false},
		{"ruby:A#b { print((tid, strftime(\"%T\", nsecs))); }", false, true},
		{"ruby:A#b { @ = count(); print(@); }", false, false},
		{"ruby:A#b { printf(\"%d\", @); } begin { @ = 1; }", false, false},
		{"ruby:A#b { printf(\"%d\", cpu); }", false, false},
		{"ruby:A#b { print(tid); } ruby:A#c { exit(); }", false, false},
		{"ruby:A#b { print(tid); } ruby:A#c { time(); }", false, true},
		{"ruby:A#b { @[rand] = count(); }", false, false},
	};

	if (!rut_script_kernel_has("bpf_loop"))
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rut_script_opts opts = {.name = "t", .pid = 1, .session = cases[i].session};
		struct rut_script_program *p;
		struct rut_err err = RUT_ERR_INIT;

		if (rut_script_compile(&p, cases[i].text, strlen(cases[i].text), &opts, &err))
			fail_msg("%s: %s", cases[i].text, p->src.messages.data);
		if (p->ruby_probes[0]->deferred != cases[i].first)
			fail_msg("%s: %d", cases[i].text, p->ruby_probes[0]->deferred);
		rut_script_free(p);
	}
}

static void test_defaults(void **state)
{
	struct rut_script_opts opts = {.name = "t"};
	struct rut_script_program *p;
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(rut_script_compile(&p, "begin { }", 9, &opts, &err), 0);
	assert_int_equal(p->set.max_cat_bytes, 10240);
	rut_script_free(p);
}

/* Hundreds of values that are alive at once: registers run out, slots of the frame too. */
static void test_registers(void **state)
{
	struct rut_ir ir = {0};
	struct rut_asm code = {0};
	struct rut_err err = RUT_ERR_INIT;
	rut_vreg v[40], sum;

	for (int i = 0; i < 40; i++)
		v[i] = rut_ir_call(&ir, BPF_FUNC_ktime_get_ns, 0, NULL);
	sum = v[0];
	for (int i = 1; i < 40; i++)
		sum = rut_ir_alu(&ir, BPF_ADD, sum, v[i]);
	rut_ir_store(&ir, 8, RUT_IR_FP, -8, sum);
	ir.frame = 8;
	rut_ir_add(&ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
	assert_int_equal(rut_ir_compile(&ir, &code, &err), 0);
	assert_int_equal(rut_asm_finish(&code, &err), 0);
	rut_asm_fini(&code);
	rut_ir_fini(&ir);

	ir = (struct rut_ir){.frame = 400};
	code = (struct rut_asm){0};
	for (int i = 0; i < 40; i++)
		v[i] = rut_ir_call(&ir, BPF_FUNC_ktime_get_ns, 0, NULL);
	sum = v[0];
	for (int i = 1; i < 40; i++)
		sum = rut_ir_alu(&ir, BPF_ADD, sum, v[i]);
	rut_ir_store(&ir, 8, RUT_IR_FP, -8, sum);
	rut_ir_add(&ir, (struct rut_ir_insn){.op = RUT_IR_EXIT});
	assert_int_equal(rut_ir_compile(&ir, &code, &err), -E2BIG);
	rut_asm_fini(&code);
	rut_ir_fini(&ir);
}

/* What is not used or not reached is not emitted. */
static void test_clean(void **state)
{
	struct rut_ir ir = {0};
	struct rut_asm code = {0};
	struct rut_err err = RUT_ERR_INIT;
	rut_vreg unused = rut_ir_const(&ir, 5);
	uint32_t end = rut_ir_label(&ir);

	rut_ir_alu_imm(&ir, BPF_ADD, unused, 1);
	rut_ir_jump(&ir, end);
	rut_ir_store_imm(&ir, 8, RUT_IR_FP, -8, 1);
	rut_ir_place(&ir, end);
	rut_ir_add(&ir, (struct rut_ir_insn){.op = RUT_IR_EXIT, .imm = 3});
	assert_int_equal(rut_ir_compile(&ir, &code, &err), 0);
	assert_int_equal(rut_asm_finish(&code, &err), 0);
	assert_int_equal(rut_asm_count(&code), 2);
	rut_asm_fini(&code);
	rut_ir_fini(&ir);
}

static void test_far_jump(void **state)
{
	struct rut_asm code = {0};
	struct rut_err err = RUT_ERR_INIT;
	uint32_t end = rut_asm_label(&code);

	rut_asm_jump(&code, end);
	for (int i = 0; i < 40000; i++)
		rut_asm_alu_imm(&code, BPF_MOV, 0, i);
	rut_asm_place(&code, end);
	rut_asm_exit(&code);
	assert_int_equal(rut_asm_finish(&code, &err), -E2BIG);
	rut_asm_fini(&code);
}

static void test_disassembly(void **state)
{
	struct rut_asm code = {0};
	struct rut_buf out = RUT_BUF_INIT;

	rut_asm_const(&code, 1, 0x123456789aull);
	rut_asm_load(&code, 4, 2, 1, 8);
	rut_asm_branch_imm(&code, BPF_JSGT, 2, 5, rut_asm_label(&code));
	rut_asm_place(&code, 0);
	rut_asm_exit(&code);
	assert_int_equal(rut_asm_finish(&code, NULL), 0);
	for (size_t at = 0; at < rut_asm_count(&code);)
		at += rut_disasm((const struct bpf_insn *)(void *)code.code.data, at, &out);
	assert_string_equal(out.data, "   0: r1 = 0x123456789a ll\n   2: r2 = *(u32 *)(r1 +8)\n"
				      "   3: if r2 s> 5 goto 4\n   4: exit\n");
	rut_buf_fini(&out);
	rut_asm_fini(&code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tokens),	  cmocka_unit_test(test_messages),
		cmocka_unit_test(test_deferred),  cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_registers), cmocka_unit_test(test_clean),
		cmocka_unit_test(test_far_jump),  cmocka_unit_test(test_disassembly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
