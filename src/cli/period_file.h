/* SPDX-License-Identifier: MIT */
/*
 * Files of periods by path, or by the name of one that is installed: NAME.periods in
 * /etc/rutile/periods, then in share/rutile/periods beside the directory of the program.
 */
#ifndef RUT_CLI_PERIOD_FILE_H
#define RUT_CLI_PERIOD_FILE_H

#include "base/err.h"
#include "expr/period.h"

/* Adds what the file holds. Returns 0, or -errno with a message. */
int rut_cli_period_file_read(struct rut_period_set *set, const char *name, struct rut_err *err);

#endif
