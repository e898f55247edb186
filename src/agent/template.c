/* SPDX-License-Identifier: MIT */
#include "template.h"

#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The length of a method's name without "__HASH_NUMBER", where a minus is another '_'; 0: no such
 * end. */
static size_t length_of_path(const char *method)
{
	size_t end = strlen(method), before;

	for (int i = 0; i < 2; i++) {
		for (before = end; before && is_digit(method[before - 1]); before--)
			;
		if (before == end || before < 3 || method[before - 1] != '_')
			return 0;
		end = before - 1;
	}
	if (method[end - 1] != '_')
		return 0;
	end--;
	return end && method[end - 1] == '_' ? end - 1 : end;
}

/* Does the path end in these characters, when all but small letters are written as '_'? */
static bool ends_in(const char *path, size_t path_len, const char *written, size_t len)
{
	if (len > path_len)
		return false;
	path += path_len - len;
	for (size_t i = 0; i < len; i++) {
		char c = path[i] >= 'a' && path[i] <= 'z' ? path[i] : '_';

		if (written[i] != c)
			return false;
	}
	return true;
}

static const char *name_of(const char *path)
{
	static const char views[] = "/views/";
	const char *found = NULL, *dir = path, *file = path;

	for (const char *p = path; (p = strstr(p, views)); p++)
		found = p + sizeof(views) - 1;
	if (found)
		return found;
	for (const char *p = path; (p = strchr(p, '/')); p++) {
		dir = file;
		file = p + 1;
	}
	return dir;
}

bool rut_agent_template_name(const char *path, const char *method, char *buf, size_t size)
{
	size_t len, path_len;

	if (!path || !method || method[0] != '_')
		return false;
	len = length_of_path(method + 1);
	path_len = strlen(path);
	/* A hash that is negative has one '_' more, which may as well be of the path. */
	if (!len || (!ends_in(path, path_len, method + 1, len) &&
		     !ends_in(path, path_len, method + 1, len + 1)))
		return false;
	path = name_of(path);
	len = strlen(path);
	if (len > size - 1)
		len = size - 1;
	memcpy(buf, path, len);
	buf[len] = 0;
	return true;
}
