/* SPDX-License-Identifier: MIT */
/*
 * What another module keeps in a session's directory of the BPF file system: the maps and links of
 * a script. It is pinned before the session's own maps, so that a start that is killed leaves no
 * session without its guest, and is removed with the directory. Links must be named "link_..." and
 * have a ':' in their names: `stop` removes them with the session's. Those whose names begin with
 * RUT_GUEST_LINKS may be many: their programs do nothing while RUT_GUEST_HELD is set in the first
 * word of the map RUT_GUEST_SWITCH, so that `stop` need not wait for the kernel to detach them.
 */
#ifndef RUT_SESSION_GUEST_H
#define RUT_SESSION_GUEST_H

#include <stdbool.h>

#define RUT_GUEST_LINKS	 "script:"
#define RUT_GUEST_SWITCH "script_counters"
#define RUT_GUEST_HELD	 (1ull << 63)

struct rut_err;

/*
 * The programs of the guest of this session do nothing from when this returns, or work again.
 * False: there is no guest.
 */
bool rut_guest_hold(const char *session, bool hold);

/*
 * Waits until the kernel has detached what an earlier stop has left to it. 0 or -errno. Under the
 * lock of the session rut_guest_is_gone() says whether that is still so: then no stop comes
 * between.
 */
int rut_guest_wait(const char *session, struct rut_err *err);
bool rut_guest_is_gone(const char *session);

struct rut_guest {
	/*
	 * `rings`: the map of the rings' control blocks, struct rut_ring_ctl by CPU. 0 or -errno;
	 * what was pinned then is removed by the session. NULL: there is none.
	 */
	int (*pin)(void *arg, const char *dir, int rings, struct rut_err *err);
	/* Attaches it again after a stop; what was pinned then is removed when it fails. */
	int (*resume)(void *arg, const char *dir, struct rut_err *err);
	void *arg;
};

#endif
