/* SPDX-License-Identifier: MIT */
/*
 * What another module keeps in a session's directory of the BPF file system: the maps and links of
 * a script. It is pinned before the session's own maps, so that a start that is killed leaves no
 * session without its guest, and is removed with the directory. Links must be named "link_..." and
 * have a ':' in their names: `stop` removes them with the session's.
 */
#ifndef RUT_SESSION_GUEST_H
#define RUT_SESSION_GUEST_H

struct rut_err;

struct rut_guest {
	/*
	 * `rings`: the map of the rings' control blocks, struct rut_ring_ctl by CPU. 0 or -errno;
	 * what was pinned then is removed by the session. NULL: there is none.
	 */
	int (*pin)(void *arg, const char *dir, int rings, struct rut_err *err);
	void *arg;
};

#endif
