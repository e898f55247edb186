/* SPDX-License-Identifier: MIT */
/* Functions in every form that compilers give to "load a number", and some that are not that. */
#include "agent/counter.h"
#include "unit.h"

/* A chain like Ruby's: a pointer to an object, which has a pointer to one that has the count. */
static struct {
	uint64_t before[80];
	size_t count;
} inner = {.count = 41};
static struct {
	void *other, *inner;
} outer = {&outer, &inner};
void *counter_outer __attribute__((visibility("hidden"), used)) = &outer;

/* The last two loads of all: 8(%rax), then 640(%rax). */
#define CHAIN "mov 8(%rax), %rax\n mov 640(%rax), %rax\n"
#define FUNCTION(name, code)                                                                       \
	size_t name(void) __attribute__((visibility("hidden")));                                   \
	__asm__(".text\n .type " #name ", @function\n .globl " #name "\n .hidden " #name           \
		"\n" #name ":\n" code ".size " #name ", . - " #name "\n")

FUNCTION(counter_plain, "mov counter_outer(%rip), %rax\n" CHAIN "ret\n");
FUNCTION(counter_lea, "endbr64\n lea counter_outer(%rip), %rax\n mov (%rax), %rax\n" CHAIN "ret\n");
FUNCTION(counter_frame,
	 "push %rbp\n mov %rsp, %rbp\n mov counter_outer(%rip), %rax\n" CHAIN "pop %rbp\n ret\n");
FUNCTION(counter_jump, "endbr64\n .byte 0xe9\n .long counter_plain - . - 4\n");
FUNCTION(counter_base, "mov counter_outer(%rip), %rax\n mov 8(%rax), %rax\n ret\n");
size_t (*counter_table)(void) __attribute__((visibility("hidden"), used)) = counter_base;
FUNCTION(counter_stub, "jmp *counter_table(%rip)\n");
FUNCTION(counter_call, "sub $8, %rsp\n call counter_stub\n mov 640(%rax), %rax\n"
		       "add $8, %rsp\n ret\n");

FUNCTION(counter_sum, "mov counter_outer(%rip), %rax\n" CHAIN "add $1, %rax\n ret\n");
FUNCTION(counter_half, "mov counter_outer(%rip), %rax\n" CHAIN "mov %eax, %eax\n ret\n");
FUNCTION(counter_address, "lea counter_outer(%rip), %rax\n ret\n");
FUNCTION(counter_other, "push %rbx\n mov counter_outer(%rip), %rbx\n mov 8(%rbx), %rax\n"
			"mov 640(%rax), %rax\n pop %rbx\n ret\n");

static void test_found(void **state)
{
	static size_t (*const functions[])(void) = {counter_plain, counter_lea, counter_frame,
						    counter_jump, counter_call};

	for (unsigned i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		const size_t *at = rut_agent_counter_of(functions[i]);

		assert_ptr_equal(at, &inner.count);
		inner.count++;
		assert_int_equal(*at, functions[i]());
	}
}

static void test_not_known(void **state)
{
	static size_t (*const functions[])(void) = {counter_sum, counter_half, counter_address,
						    counter_other};

	for (unsigned i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		assert_null(rut_agent_counter_of(functions[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_not_known),
	};

	return cmocka_run_group_tests_name("counter", tests, NULL, NULL);
}
