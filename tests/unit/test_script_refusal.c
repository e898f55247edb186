/* SPDX-License-Identifier: MIT */
/* What logs of the verifier say: the instruction and the reason, as kernels of 5.10 to 6.18 write.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "script/refusal.h"
#include "unit.h"

static const struct {
	const char *log;
	size_t limit, insn;
	const char *reason;
} cases[] = {
	/* 5.10 */
	{"func#0 @0\n0: R1=ctx(id=0,off=0,imm=0) R10=fp0\n0: (b7) r0 = 1\n"
	 "1: R0_w=inv1 R1=ctx(id=0,off=0,imm=0) R10=fp0\n1: (79) r3 = *(u64 *)(r3 +0)\n"
	 "R3 !read_ok\nprocessed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 "
	 "peak_states 0 mark_read 0\n",
	 10, 1, "R3 !read_ok"},
	/* 6.18, with lines and states behind the instructions */
	{"0: R1=ctx() R10=fp0\n; @ = 1; @ x.bt:4\n0: (b7) r3 = 5                       ; R3=5\n"
	 "1: (79) r3 = *(u64 *)(r3 +0)\nR3 invalid mem access 'scalar'\n"
	 "verification time 41 usec\nstack depth 0+0\n"
	 "processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 "
	 "mark_read 0\n",
	 10, 1, "R3 invalid mem access 'scalar'"},
	/* In a function that is linked: the call is what the script says. */
	{"0: (b7) r1 = 0\n1: (85) call pc+4\ncaller:\n R10=fp0\ncallee:\n frame1: R1=0 R10=fp0\n"
	 "6: (79) r0 = *(u64 *)(r1 +0)\nR1 invalid mem access 'scalar'\n",
	 3, 1, "R1 invalid mem access 'scalar'"},
	/* Another path is walked last. */
	{"3: (15) if r3 == 0x0 goto pc+2\n4: (b7) r0 = 0\n5: (95) exit\n"
	 "from 3 to 6: R0=1 R10=fp0\n6: (bf) r0 = r9\nR9 !read_ok\nprocessed 9 insns\n",
	 10, 6, "R9 !read_ok"},
	/* Before any path is walked. */
	{"back-edge from insn 7 to 2\nverification time 9 usec\nstack depth 0\n"
	 "processed 0 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 "
	 "mark_read 0\n",
	 10, 7, "back-edge from insn 7 to 2"},
	/* Some text of the script looks like a reason. */
	{"0: (b7) r0 = 0\n; printf(\"R9 !read_ok\") @ x.bt:1\n1: (95) exit\n"
	 "BPF program is too large. Processed 1000001 insn\nprocessed 1000001 insns\n",
	 10, 1, "BPF program is too large. Processed 1000001 insn"},
	{"", 10, SIZE_MAX, ""},
	{"processed 0 insns (limit 1000000)\n", 10, SIZE_MAX, ""},
};

static void test_logs(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char log[1024], why[256];

		snprintf(log, sizeof(log), "%s", cases[i].log);
		assert_int_equal(rut_script_refused_insn(log, cases[i].limit), cases[i].insn);
		rut_script_refusal_reason(log, why, sizeof(why));
		assert_string_equal(why, cases[i].reason);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_logs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
