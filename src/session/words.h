/* SPDX-License-Identifier: MIT */
/*
 * The last words of a process that drains rings. The memory of maps is never in a core dump (the
 * kernel marks their mappings so, and does not let us undo it), so when the process crashes, what
 * it has not written yet is copied to ordinary memory on the way to the dump. `rutile recover`
 * finds it.
 */
#ifndef RUT_SESSION_WORDS_H
#define RUT_SESSION_WORDS_H

#include "session/recorder.h"

/*
 * From now on signals that end in a core are answered by that copy first, one recorder a process.
 * Costs no memory until then. The recorder must outlive it. Failure to get the address space is
 * not visible to the caller.
 */
void rut_words_arm(const struct rut_recorder *r);
void rut_words_disarm(void);

#endif
