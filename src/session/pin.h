/* SPDX-License-Identifier: MIT */
/*
 * Sessions that live in the kernel: their maps and links are pinned in /sys/fs/bpf/rutile/NAME, so
 * they outlast every process. The file system is mounted if it is not.
 */
#ifndef RUT_SESSION_PIN_H
#define RUT_SESSION_PIN_H

#include <stdbool.h>

#include "session/guest.h"
#include "session/recorder.h"

#define RUT_BPFFS    "/sys/fs/bpf"
#define RUT_PIN_ROOT RUT_BPFFS "/rutile"

/* Letters, digits, '.', '_', '-', not first a '.'. Returns 0 or -EINVAL. */
int rut_session_check_name(const char *name, struct rut_err *err);

/*
 * Held while a session is made, or while what a killed process left of one is removed: what is
 * incomplete under it has no owner. Returns a descriptor or -errno.
 */
int rut_session_lock(struct rut_err *err);
void rut_session_unlock(int fd);

/*
 * Held while a session is changed: one process at a time. Returns a descriptor, which is closed to
 * let go, or -errno; -ENOENT: there is no such session, or no longer.
 */
int rut_session_lock_one(const char *name, struct rut_err *err);

/* The same without waiting: -EWOULDBLOCK when another process holds it. */
int rut_session_try_lock(const char *name);

/*
 * Pins maps and links, and those of a guest (NULL: none). -EEXIST when the name is taken: nothing
 * of the other session is touched.
 */
int rut_session_pin(struct rut_recorder *r, const struct rut_guest *guest, struct rut_err *err);

/* The session's directory of the BPF file system. */
void rut_session_dir(char *ret, size_t size, const char *name);

/* Pins the links that are not pinned yet (after an `add`); they replace links of the same name. */
int rut_session_pin_links(struct rut_recorder *r, struct rut_err *err);

/* Finds a session by name and maps it. -ENOENT: there is none of that name. */
int rut_session_open(struct rut_recorder **ret, const char *name, struct rut_err *err);

/* Unpins links: all, or those of programs that `sel` no longer needs. Removes programs without a
 * link. */
int rut_session_unpin_links(struct rut_recorder *r, const struct rut_selection *sel);

/* Unpins the links of one event that was added by name. */
void rut_session_unpin_dynamic(const struct rut_recorder *r, uint32_t id);

/* Has the event added by name of that id a link that is pinned? */
bool rut_session_has_dynamic(const struct rut_recorder *r, uint32_t id);

/* Events nested in themselves, of the pinned programs. */
uint64_t rut_session_missed(const struct rut_recorder *r);

/* Number of pinned links: attached programs. */
int rut_session_count_links(const char *name);

/* Removes the pins; the kernel frees what no other process holds. */
int rut_session_unpin(const char *name, struct rut_err *err);

/* Is the consumer of the session alive? False as well when it never had one. */
bool rut_session_consumer_alive(const struct rut_session_meta *m);

/* How long an answer of it is waited for. */
enum { RUT_SESSION_WAIT_MS = 5000 };

/* It has done what was asked for: maybe more, when others ask as well. */
static inline bool rut_session_reached(const uint32_t *done, uint32_t wanted)
{
	return (int32_t)(__atomic_load_n(done, __ATOMIC_ACQUIRE) - wanted) >= 0;
}

/* The start time of a process from /proc/PID/stat, 0 when it has exited. */
uint64_t rut_process_start_time(pid_t pid);

/*
 * Calls fn with the name of each session, sorted. Returns the number of sessions or -errno.
 */
int rut_session_each(void (*fn)(const char *name, void *arg), void *arg, struct rut_err *err);

#endif
