/* SPDX-License-Identifier: MIT */
#include "session/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "session/recorder.h"
#include "session/rubies.h"
#include "session/unwind.h"
#include "session/unwind_table.h"

/* Returns whether some could not be read yet. */
static bool scan(struct rut_recorder *r)
{
	DIR *d = opendir("/proc");
	bool again = false;

	for (struct dirent *e; d && (e = readdir(d));) {
		int32_t pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;

		if (pid <= 0 || pid == getpid())
			continue;
		/* Its code is read with its interpreter's loop. */
		rut_rubies_add(r, pid);
		again |= rut_unwind_find(r, pid) == -EAGAIN;
	}
	if (d)
		closedir(d);
	return again;
}

void rut_processes_scan(struct rut_recorder *r)
{
	if ((!rut_rubies_wanted(r) && !rut_unwind_wanted(r)) || !scan(r))
		return;
	/* There is room in half a second: until then events would be lost. */
	if (r->drains) {
		rut_unwind_lost(r);
		return;
	}
	poll(NULL, 0, RUT_UNWIND_GRACE_NS / 1000000 + 1);
	scan(r);
}
