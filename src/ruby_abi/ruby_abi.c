/* SPDX-License-Identifier: MIT */
#include "ruby_abi/ruby_abi.h"

#include <stddef.h>

#define FL_USER0 (1u << 12)
#define FL_USER1 (1u << 13)

/* clang-format off */
static const struct rut_ruby_abi rows[] = {
	/* version, frame, insns_info, line is VALUE, entry, string, class, TLS, th->ec, pthread, FL_SINGLETON */
	{206, 7, 120, true,  8,  false, false, false, 32, 72, FL_USER0},
	{207, 7, 120, true,  8,  false, false, false, 32, 72, FL_USER0},
	{300, 7, 120, true,  8,  false, false, true,  0,  0,  FL_USER0},
	{301, 8, 120, true,  12, false, false, true,  0,  0,  FL_USER0},
	{302, 8, 112, false, 12, true,  true,  true,  0,  0,  FL_USER0},
	{303, 7, 112, false, 12, true,  true,  true,  0,  0,  FL_USER0},
	{304, 7, 112, false, 12, true,  true,  true,  0,  0,  FL_USER1},
};
/* clang-format on */

const struct rut_ruby_abi *rut_ruby_abi_find(const char *version)
{
	unsigned int number;

	if (version[0] < '0' || version[0] > '9' || version[1] != '.' || version[2] < '0' ||
	    version[2] > '9')
		return NULL;
	number = (unsigned int)(version[0] - '0') * 100 + (unsigned int)(version[2] - '0');
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].version == number)
			return &rows[i];
	return NULL;
}
