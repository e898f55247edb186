/* SPDX-License-Identifier: MIT */
#include "base/proc.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"

pid_t rut_proc_parent(pid_t pid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	char path[64];
	const char *p;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (rut_buf_read_file(&b, path, 4096) < 0 || !b.data)
		return 0;
	/* Behind a name that may hold anything. */
	p = strrchr(b.data, ')');
	return p && sscanf(p + 1, " %*c %d", &parent) == 1 ? parent : 0;
}
