/* SPDX-License-Identifier: MIT */
/*
 * Where a function finds the number that it returns.
 *
 * Ruby's rb_gc_count() loads the count of GCs from where it is, through two or three addresses that
 * never change while the process lives. Each hook needs that number, and a call into Ruby's library
 * costs it more than the rest of its look (it can no longer keep everything in registers, and
 * touches lines of the cache that it has no other use for). So the function's code is read, once:
 * if it is nothing but loads, the last one says where the number is. Every load read here is one
 * that the function has just done itself. With any other instruction in it the answer is: not
 * known.
 */
#include "counter.h"

#include "ruby_abi/idle.h"

#include <string.h>

#define STEPS_MAX 32
#define DEPTH_MAX 3

struct reader {
	const unsigned char *pc;
	uintptr_t rax;
	bool rax_known, rax_loaded;
	uintptr_t at; /* what was loaded last */
	int steps;
};

static int32_t imm32(const unsigned char *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void load(struct reader *r, uintptr_t at, int len)
{
	r->at = at;
	memcpy(&r->rax, (const void *)at, sizeof(r->rax));
	r->rax_known = r->rax_loaded = true;
	r->pc += len;
}

/* mov or lea into %rax, relative to %rip or %rax. */
static bool read_load(struct reader *r)
{
	const unsigned char *p = r->pc;

	if (p[0] != 0x48 || (p[1] != 0x8b && p[1] != 0x8d))
		return false;
	if (p[2] == 0x05 && p[1] == 0x8d) {
		r->rax = (uintptr_t)(p + 7) + (uintptr_t)(intptr_t)imm32(p + 3);
		r->rax_known = true;
		r->rax_loaded = false;
		r->pc += 7;
		return true;
	}
	if (p[2] == 0x05) {
		load(r, (uintptr_t)(p + 7) + (uintptr_t)(intptr_t)imm32(p + 3), 7);
		return true;
	}
	if (!r->rax_known || p[1] != 0x8b)
		return false;
	if (p[2] == 0x00)
		load(r, r->rax, 3);
	else if (p[2] == 0x40)
		load(r, r->rax + (uintptr_t)(intptr_t)(int8_t)p[3], 4);
	else if (p[2] == 0x80)
		load(r, r->rax + (uintptr_t)(intptr_t)imm32(p + 3), 7);
	else
		return false;
	return true;
}

/* To the end of this function, and of those that it calls. */
static bool read_code(struct reader *r, int depth)
{
	while (r->steps++ < STEPS_MAX) {
		const unsigned char *p = r->pc;

		if (p[0] == 0xc3) { /* ret */
			return r->rax_loaded;
		} else if (rut_idle_bytes(p)) {
			r->pc += rut_idle_bytes(p);
		} else if (p[0] == 0xe9) { /* jmp */
			r->pc = p + 5 + imm32(p + 1);
		} else if (p[0] == 0xe8 && depth < DEPTH_MAX) { /* call */
			r->pc = p + 5 + imm32(p + 1);
			r->rax_known = r->rax_loaded = false;
			if (!read_code(r, depth + 1))
				return false;
			r->pc = p + 5;
		} else if (p[0] == 0xff && p[1] == 0x25) { /* jmp *: the library's table */
			memcpy(&r->pc, p + 6 + imm32(p + 2), sizeof(r->pc));
		} else if (p[0] == 0xf2 && p[1] == 0xff && p[2] == 0x25) { /* bnd jmp * */
			memcpy(&r->pc, p + 7 + imm32(p + 3), sizeof(r->pc));
		} else if (!read_load(r)) {
			return false;
		}
	}
	return false;
}

const size_t *rut_agent_counter_of(size_t (*function)(void))
{
	/* The first call fills the library's table. */
	size_t now = function();
	struct reader r = {.pc = (const unsigned char *)(uintptr_t)function};

	if (!read_code(&r, 0) || r.rax != now || r.at % sizeof(size_t) != 0)
		return NULL;
	return (const size_t *)r.at;
}
