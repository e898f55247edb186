/* SPDX-License-Identifier: MIT */
/*
 * Instructions that stand around what a short function of Ruby returns. The agent and the reader of
 * other processes' memory decode such functions to learn where Ruby keeps what they return.
 */
#ifndef RUT_RUBY_ABI_IDLE_H
#define RUT_RUBY_ABI_IDLE_H

#include <stddef.h>
#include <string.h>

/* Instructions that change nothing of what is returned; their length or 0. */
static inline int rut_idle_bytes(const unsigned char *p)
{
	static const struct {
		unsigned char bytes[4];
		int given, len;
	} idle[] = {
		{{0xf3, 0x0f, 0x1e, 0xfa}, 4, 4}, /* endbr64 */
		{{0x48, 0x83, 0xec}, 3, 4},	  /* sub $8,%rsp */
		{{0x48, 0x83, 0xc4}, 3, 4},	  /* add $8,%rsp */
		{{0x55}, 1, 1},			  /* push %rbp */
		{{0x48, 0x89, 0xe5}, 3, 3},	  /* mov %rsp,%rbp */
		{{0x5d}, 1, 1},			  /* pop %rbp */
	};

	for (size_t i = 0; i < sizeof(idle) / sizeof(*idle); i++)
		if (!memcmp(p, idle[i].bytes, (size_t)idle[i].given))
			return idle[i].len;
	return 0;
}

#endif
