/* SPDX-License-Identifier: MIT */
#include "base/tracefs.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statfs.h>

#include "base/err.h"
#include "base/log.h"

#define TRACEFS "/sys/kernel/tracing"

int rut_tracefs_need(struct rut_err *err)
{
	struct statfs st;

	if (!statfs(TRACEFS, &st) && (unsigned long)st.f_type == TRACEFS_MAGIC)
		return 0;
	if (mount("tracefs", TRACEFS, "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return rut_err_set(err, ENOENT,
				   "tracefs is not mounted at '" TRACEFS "', and cannot be: %s",
				   strerror(errno));
	rut_info("mounted tracefs at '" TRACEFS "'");
	return 0;
}
