/* SPDX-License-Identifier: MIT */
/* Arguments of USDT notes in all the forms that compilers write, and tracefs formats. */
#include "unit.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/user.h>

#include "base/err.h"
#include "probe/arg.h"
#include "probe/demangle.h"
#include "probe/nop5.h"
#include "session/dynamic.h"
#include "session/tracefs.h"

#define REG(r) (short)offsetof(struct user_regs_struct, r)

/* Every symbol is 1000 and its length away. */
static int resolve(const char *symbol, size_t len, int64_t *ret_distance, void *arg)
{
	if (len == 4)
		return -ENOENT;
	*ret_distance = 1000 + (int64_t)len;
	return 0;
}

static void test_arguments(void **state)
{
#ifdef __x86_64__
	struct rut_probe_arg a[RUT_PROBE_ARGS];
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(rut_arg_parse("8@%rdi -4@%eax 1@$-5 -8@-20(%rbp) 2@%r10w 4@(%rax,%rbx,4) "
				       "8@16(%rcx,%rdx) 8f@%xmm0 8@sym(%rip) 1@%ah",
				       a, &err),
			 10);
	assert_int_equal(a[0].kind, RUT_ARG_REG);
	assert_int_equal(a[0].reg, REG(rdi));
	assert_int_equal(a[0].bytes, 8);
	assert_int_equal(a[0].form, RUT_ARG_UNSIGNED);
	assert_int_equal(a[1].reg, REG(rax));
	assert_int_equal(a[1].bytes, 4);
	assert_int_equal(a[1].form, RUT_ARG_SIGNED);
	assert_int_equal(a[2].kind, RUT_ARG_CONST);
	assert_int_equal(a[2].value, -5);
	assert_int_equal(a[3].kind, RUT_ARG_MEM);
	assert_int_equal(a[3].value, -20);
	assert_int_equal(a[3].reg, REG(rbp));
	assert_int_equal(a[3].index, -1);
	assert_int_equal(a[4].reg, REG(r10));
	assert_int_equal(a[5].reg, REG(rax));
	assert_int_equal(a[5].index, REG(rbx));
	assert_int_equal(a[5].scale, 2);
	assert_int_equal(a[6].value, 16);
	assert_int_equal(a[6].index, REG(rdx));
	assert_int_equal(a[6].scale, 0);
	assert_int_equal(a[7].kind, RUT_ARG_MISSING);
	assert_int_equal(a[8].kind, RUT_ARG_MISSING);
	assert_int_equal(a[9].reg, REG(rax) + 1);
	assert_int_equal(rut_arg_parse_at("-4@counter(%rip) 8@$table+8 2@-3+x.1(%rip) 8@gone(%rip) "
					  "4@0x10(%rax) 8@where 8@$0x10",
					  a, resolve, NULL, &err),
			 7);
	assert_int_equal(a[0].kind, RUT_ARG_MEM);
	assert_int_equal(a[0].reg, REG(rip));
	assert_int_equal(a[0].value, 1007);
	assert_int_equal(a[0].form, RUT_ARG_SIGNED);
	assert_int_equal(a[1].kind, RUT_ARG_PLACE);
	assert_int_equal(a[1].value, 1005 + 8);
	assert_int_equal(a[2].kind, RUT_ARG_MEM);
	assert_int_equal(a[2].value, 1003 - 3);
	assert_int_equal(a[3].kind, RUT_ARG_MISSING);
	assert_int_equal(a[4].kind, RUT_ARG_MEM);
	assert_int_equal(a[4].reg, REG(rax));
	assert_int_equal(a[4].value, 16);
	assert_int_equal(a[5].value, 1005);
	assert_int_equal(a[6].kind, RUT_ARG_CONST);
	assert_int_equal(a[6].value, 16);
	assert_int_equal(rut_arg_parse("", a, &err), 0);
	assert_int_equal(rut_arg_parse("8@%zzz", a, &err), -EINVAL);
	assert_int_equal(rut_arg_parse("3@%rax", a, &err), -EINVAL);
	assert_int_equal(rut_arg_parse("8@(%rax", a, &err), -EINVAL);
	assert_int_equal(
		rut_arg_parse("1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1 1@$1", a,
			      &err),
		-E2BIG);
#else
	skip();
#endif
}

static const char format[] = "name: x\nID: 1\nformat:\n"
			     "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
			     "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
			     "\tfield:const void * ptr;\toffset:8;\tsize:8;\tsigned:0;\n"
			     "\tfield:__data_loc char[] name;\toffset:16;\tsize:4;\tsigned:0;\n"
			     "\tfield:short a;\toffset:20;\tsize:2;\tsigned:1;\n"
			     "\tfield:char comm[16];\toffset:22;\tsize:16;\tsigned:0;\n"
			     "\tfield:u8 mac[6];\toffset:40;\tsize:6;\tsigned:0;\n\n"
			     "print fmt: \"%d\", REC->a\n";

static void test_format(void **state)
{
	struct rut_tracefs_format f;
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(rut_tracefs_parse(format, &f, &err), 0);
	assert_int_equal(f.nfields, 5);
	assert_string_equal(f.fields[0].name, "ptr");
	assert_int_equal(f.fields[0].kind, RUT_FK_X64);
	assert_int_equal(f.fields[1].kind, RUT_FK_S16);
	assert_int_equal(f.fields[2].kind, RUT_FK_TEXT);
	assert_int_equal(f.fields[2].count, 16);
	assert_int_equal(f.fields[3].kind, RUT_FK_ARRAY_X8);
	assert_int_equal(f.fields[4].kind, RUT_FK_STR);
	assert_string_equal(f.fields[4].name, "name");
	/* Runs: ptr; a and comm together; mac behind a gap. */
	assert_int_equal(f.conf.nruns, 3);
	assert_int_equal(f.conf.run_from[1], 20);
	assert_int_equal(f.conf.run_len[1], 18);
	assert_int_equal(f.conf.run_from[2], 40);
	assert_int_equal(f.conf.nstrs, 1);
	assert_int_equal(f.conf.str_at[0], 16);
}

static void test_format_arrays(void **state)
{
	static const char text[] =
		"\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n"
		"\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n"
		"\tfield:u16 port[2];\toffset:64;\tsize:4;\tsigned:0;\n"
		"\tfield:int x[MAX];\toffset:68;\tsize:8;\tsigned:1;\n";
	struct rut_tracefs_format f;

	assert_int_equal(rut_tracefs_parse(text, &f, NULL), 0);
	assert_int_equal(f.nfields, 4);
	assert_int_equal(f.fields[1].kind, RUT_FK_ARRAY_X64);
	assert_int_equal(f.fields[1].count, 6);
	assert_int_equal(f.fields[2].kind, RUT_FK_ARRAY_X16);
	assert_int_equal(f.fields[2].count, 2);
	assert_int_equal(f.fields[3].kind, RUT_FK_ARRAY_X8);
	assert_int_equal(f.fields[3].count, 8);
}

/* No name is given twice, whatever is selected. */
static void test_names(void **state)
{
	struct rut_strtab names = {0};
	struct rut_syscall_event call;
	struct rut_event e;
	size_t n = 0;

	for (uint32_t id = 0; id < RUT_EV_COUNT; id++, n++) {
		rut_event_static(&e, id);
		assert_true(rut_strtab_intern(&names, e.name, strlen(e.name)) >= 0);
	}
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++)
		for (int exit = 0; exit < 2; exit++) {
			if (!rut_event_syscall(&call, nr, exit))
				continue;
			assert_true(rut_strtab_intern(&names, call.title, strlen(call.title)) >= 0);
			n++;
		}
	assert_int_equal(names.count, n);
	rut_strtab_fini(&names);
}

/* Which tracepoints are events of rutile, and which are not. */
static void test_split(void **state)
{
	static const struct {
		const char *word, *names;
		int more;
	} cases[] = {
		{"sched_switch", "sched_switch", 0},
		{"syscall:open*", "syscall:open*", 0},
		{"sched:sched_switch", "sched_switch", 0},
		{"net:netif_receive_skb", "net_if_receive_skb", 0},
		{"irq:softirq_entry", "irq_softirq_entry", 0},
		{"kmem:mm_page_alloc", "kmem_mm_page_alloc", 0},
		{"!sched:sched_wak*", "!sched_waking,!sched_wakeup,!sched_wakeup_new", 1},
		{"irq:irq_handler_*", "irq_handler_entry,irq_handler_exit", 1},
		{"raw_syscalls:sys_enter", "", 1},
		{"task:task_rename", "", 1},
		{"net:sched_switch", "", 1},
		{"tp:sched:sched_switch", "", 1},
		{"usdt:a:b:c", "", 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rut_buf names = RUT_BUF_INIT;

		assert_int_equal(rut_dynamic_split(cases[i].word, &names), cases[i].more);
		assert_string_equal(names.data ? names.data : "", cases[i].names);
		rut_buf_fini(&names);
	}
}

static void test_selection(void **state)
{
	struct rut_selection sel = {0};
	struct rut_syscall_desc d;
	struct rut_err err = RUT_ERR_INIT;

	assert_int_equal(
		rut_selection_add(&sel, "sched,!sched_switch,syscall:open*,irq_softirq_*", &err),
		0);
	assert_true(sel.events[RUT_EV_SCHED_WAKING]);
	assert_false(sel.events[RUT_EV_SCHED_SWITCH]);
	assert_true(sel.events[RUT_EV_SOFTIRQ_ENTRY]);
	assert_false(sel.events[RUT_EV_IRQ_ENTRY]);
	assert_int_equal(sel.syscalls[257], RUT_SYSCALL_ENTRY | RUT_SYSCALL_EXIT);
	assert_int_equal(sel.syscalls[0], 0);
	assert_int_equal(rut_selection_add(&sel, "nonsense", &err), -ENOENT);
	/* openat(dfd, filename, flags, mode) */
	rut_syscall_describe(&d, 257);
	assert_int_equal(d.nargs, 4);
	assert_int_equal(d.str[0], 2);
	assert_int_equal(d.skip, 2);
	assert_int_equal(d.negative, 1 | 4);
	assert_int_equal(d.narrow, 1 | 4 | 8);
}

#define IS_NOP5(...)                                                                               \
	rut_nop5_is((const uint8_t[16]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* The encodings that assemblers write, as objdump shows them. */
static void test_nop5(void **state)
{
	assert_true(IS_NOP5(0x0f, 0x1f, 0x44, 0, 0));	     /* nopl 0x0(%rax,%rax,1) */
	assert_true(IS_NOP5(0x66, 0x0f, 0x1f, 0x40, 0));     /* nopw 0x0(%rax) */
	assert_true(IS_NOP5(0x3e, 0x0f, 0x1f, 0x40, 0));     /* nopl %ds:0x0(%rax) */
	assert_true(IS_NOP5(0x66, 0x66, 0x0f, 0x1f, 0x00));  /* data16 nopw (%rax) */
	assert_true(IS_NOP5(0x66, 0x66, 0x66, 0x66, 0x90));  /* data16 data16 data16 xchg %ax,%ax */
	assert_true(IS_NOP5(0x3e, 0x8d, 0x74, 0x26, 0x00));  /* lea %ds:0x0(%rsi,%riz,1),%esi */
	assert_false(IS_NOP5(0x90, 0x0f, 0x1f, 0x40, 0));    /* nop; nopl 0x0(%rax) */
	assert_false(IS_NOP5(0x0f, 0x1f, 0x40, 0, 0x90));    /* nopl 0x0(%rax); nop */
	assert_false(IS_NOP5(0x66, 0x0f, 0x1f, 0x44, 0, 0)); /* nopw 0x0(%rax,%rax,1) */
	assert_false(IS_NOP5(0x0f, 0x1f, 0x80, 0, 0, 0, 0)); /* nopl 0x0(%rax) */
	assert_false(IS_NOP5(0x66, 0x66, 0x66, 0x90, 0xc3)); /* data16 data16 xchg %ax,%ax; ret */
	assert_false(IS_NOP5(0xe8, 0, 0, 0, 0));	     /* call */
	assert_false(IS_NOP5(0x55, 0x48, 0x89, 0xe5, 0x5d)); /* push %rbp; mov %rsp,%rbp */
	assert_false(IS_NOP5(0x0f, 0x1f, 0x44, 0));	     /* cut off */
}

static void assert_demangled(const char *name, const char *want)
{
	char *got = rut_demangle(name);

	if (want) {
		assert_non_null(got);
		assert_string_equal(got, want);
	} else {
		assert_null(got);
	}
	free(got);
}

/* Each parameter is two of the one before: A<int, int>, A<A<int, int>, A<int, int> >, ... */
static void test_names_that_grow(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[512] = "_Z1f1AIiiE";

	assert_demangled("_ZN4shop5totalEi", "shop::total(int)");
	assert_demangled("_RNvC4shop5total", "shop::total");
	assert_demangled("_Z1f1AIiiES_IS0_S0_E", "f(A<int, int>, A<A<int, int>, A<int, int> >)");
	for (size_t i = 0; i < 26; i++)
		sprintf(name + strlen(name), "S_IS%c_S%c_E", digits[i], digits[i]);
	assert_demangled(name, NULL);
}

/* The same in Rust, whose names say at which byte of theirs a type is. */
static void test_names_of_rust_that_grow(void **state)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[512] = "_RINvC1a1fTllE";
	size_t at = strlen("INvC1a1f");

	assert_demangled("_RINvC1a1fTllETB7_B7_EE", "a::f::<(i32, i32), ((i32, i32), (i32, i32))>");
	for (size_t i = 0; i < 26; i++) {
		size_t next = strlen(name) - 2, number = at - 1;
		char back[8];

		if (number < 62)
			sprintf(back, "B%c_", digits[number]);
		else
			sprintf(back, "B%c%c_", digits[number / 62], digits[number % 62]);
		sprintf(name + strlen(name), "T%s%sE", back, back);
		at = next;
	}
	strcat(name, "E");
	assert_demangled(name, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nop5),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_format_arrays),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_selection),
		cmocka_unit_test(test_names_that_grow),
		cmocka_unit_test(test_names_of_rust_that_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
