/* SPDX-License-Identifier: MIT */
/* A viewer of a relay daemon: the input is what the daemon says. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/memfs.h"
#include "stream/conn.h"
#include "stream/viewer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rut_live_url url = {.host = "relay", .session = "s"};
	static const volatile sig_atomic_t never;
	struct rut_err err = RUT_ERR_INIT;
	struct rut_conn conn = {.fd = -1};
	struct rut_viewer *v;
	const int room = 1 << 20;
	static bool checked;
	int pair[2], rc;

	if (!checked) { /* without it every input ends before it is read */
		int fd = rut_memfs_mount(true, &err);

		if (fd < 0) {
			fprintf(stderr, "%s\n", err.msg);
			exit(1);
		}
		close(fd);
		checked = true;
	}

	if (size > room / 4 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return 0;
	/* All of it is in the socket, then its end: nothing is waited for. What the viewer says is
	 * lost. */
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (send(pair[1], data, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size) {
		close(pair[0]);
		close(pair[1]);
		return 0;
	}
	shutdown(pair[1], SHUT_WR);
	conn.fd = pair[0];
	rc = rut_viewer_attach(&v, &conn, &url, &never, &err);
	if (!rc) {
		for (int i = 0; i < 3 && !rc; i++)
			rc = rut_viewer_step(v, &err);
		if (strncmp(rut_viewer_path(v), "/proc/self/fd/", 14) != 0)
			abort();
		rut_viewer_free(v);
	}
	close(pair[1]);
	return 0;
}
