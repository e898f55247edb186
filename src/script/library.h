/* SPDX-License-Identifier: MIT */
/*
 * Scripts that are known by name: the *.bt files of the directories in $RUTILE_SCRIPTS (separated
 * by colons), and then of share/rutile/scripts beside the directory of the program. The first line
 * of a script says what it does: "// name: summary".
 */
#ifndef RUT_SCRIPT_LIBRARY_H
#define RUT_SCRIPT_LIBRARY_H

#include <stddef.h>

struct rut_err;

struct rut_script_entry {
	char *name;
	char *summary; /* "": the script has none */
	char *path;
};

/* All scripts by name; of two of one name the first found. 0 or -ENOMEM. */
int rut_script_library_list(struct rut_script_entry **ret, size_t *ret_count);
void rut_script_library_free(struct rut_script_entry *list, size_t count);

/*
 * The path of the script (allocated), which must be a name, without directory or ".bt". 0, or
 * -ENOENT with a message that names the nearest one.
 */
int rut_script_library_find(char **ret_path, const char *name, struct rut_err *err);

#endif
