/* SPDX-License-Identifier: MIT */
/*
 * A command that rutile starts loads the agent by RUBYOPT. When its Ruby takes long to start, the
 * tracer has injected the agent before that. Only one of the two may hook: the tracer talks to the
 * one that came first, and the other would wait for a session that is never offered to it.
 *
 * The control page of the first copy is a mapping of this process, whose name says what it is.
 */
#include "twin.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMFD_NAME "/memfd:" RUT_AGENT_MEMFD " (deleted)"

/* "START-END PERMISSIONS OFFSET DEVICE INODE NAME" */
static struct rut_agent_ctl *page_of_line(const char *line)
{
	const char *name = strchr(line, '/'), *mode = strchr(line, ' ');
	struct rut_agent_ctl *ctl;

	if (!name || !mode || strcmp(name, MEMFD_NAME) != 0 || strncmp(mode, " rw-s ", 6) != 0)
		return NULL;
	ctl = (struct rut_agent_ctl *)strtoul(line, NULL, 16);
	return ctl->abi == RUT_AGENT_ABI && ctl->size_bytes == sizeof(*ctl) ? ctl : NULL;
}

struct rut_agent_ctl *rut_agent_twin_find(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct rut_agent_ctl *ctl = NULL;
	char text[4096], *end;
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return NULL;
	while (!ctl && (n = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
		have += (size_t)n;
		text[have] = 0;
		while (!ctl && (end = strchr(text, '\n'))) {
			*end++ = 0;
			ctl = page_of_line(text);
			have -= (size_t)(end - text);
			memmove(text, end, have + 1);
		}
		if (have == sizeof(text) - 1)
			have = 0; /* a path too long to be ours */
	}
	close(fd);
	return ctl;
}
