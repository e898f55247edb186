/* SPDX-License-Identifier: MIT */
#include "base/memfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

static int mount_tmpfs(void)
{
	_cleanup_close_ int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	int fd = -1;

	if (fs >= 0 && !syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0700", 0) &&
	    !syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC,
				  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	return fd >= 0 ? fd : -errno;
}

static int write_text(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : rut_file_write(fd, text, strlen(text));
}

/* A user without a number in the namespace cannot make files there: user_namespaces(7). */
static int enter_namespaces(void)
{
	char uid_map[40], gid_map[40];
	int rc;

	snprintf(uid_map, sizeof(uid_map), "%u %u 1", geteuid(), geteuid());
	snprintf(gid_map, sizeof(gid_map), "%u %u 1", getegid(), getegid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -errno;
	rc = write_text("/proc/self/setgroups", "deny");
	if (!rc)
		rc = write_text("/proc/self/uid_map", uid_map);
	return rc ? rc : write_text("/proc/self/gid_map", gid_map);
}

int rut_memfs_mount(bool unshare, struct rut_err *err)
{
	int rc = mount_tmpfs();

	if (rc == -EPERM && unshare) {
		rc = enter_namespaces();
		if (!rc)
			rc = mount_tmpfs();
	}
	return rc < 0 ? rut_err_errno(err, -rc, "cannot make a file system in memory") : rc;
}
