/* SPDX-License-Identifier: MIT */
/* One hook for the methods of a file: see files.c. */
#ifndef RUT_AGENT_FILES_H
#define RUT_AGENT_FILES_H

#include "core.h"

/* `by_name`: for methods that are chosen by name. */
bool rut_agent_files_usable(bool by_name);
/*
 * One hook for these methods of one file, RUT_FILE_METHODS at most, in the order of their lines.
 * False: not on this Ruby, and none has it. The array is changed.
 */
bool rut_agent_file_hook(struct rut_session *s, VALUE *iseqs, long count);

#endif
