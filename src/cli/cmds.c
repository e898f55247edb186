/* SPDX-License-Identifier: MIT */
#include "cli/cmd.h"

#include <stddef.h>

extern const struct rut_cmd cmd_help;

/* In the order in which the help lists them; verbs of one group stand together. */
const struct rut_cmd *const rut_cmds[] = {
	&cmd_help,
	NULL,
};
