/* SPDX-License-Identifier: MIT */
#include "trigger/text.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/parse.h"

size_t rut_trigger_trimmed(const char *s, size_t len)
{
	while (len && isspace((unsigned char)s[len - 1]))
		len--;
	return len;
}

int rut_trigger_duration(const char *s, size_t len, uint64_t *ret_ns)
{
	char text[32];
	uint64_t ns;

	if (len >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, len);
	text[len] = 0;
	if (rut_parse_duration(text, &ns) || !ns)
		return -EINVAL;
	*ret_ns = ns;
	return 0;
}

int rut_trigger_copy(char *to, size_t size, const char *from, size_t len, struct rut_err *err)
{
	if (len >= size)
		return rut_err_set(err, EINVAL, "'%.40s...' is longer than %zu bytes", from,
				   size - 1);
	memcpy(to, from, len);
	to[len] = 0;
	return 0;
}
