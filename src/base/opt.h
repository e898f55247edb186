/* SPDX-License-Identifier: MIT */
/* An option of the command line. Here because an analysis of a trace describes its own. */
#ifndef RUT_BASE_OPT_H
#define RUT_BASE_OPT_H

struct rut_opt {
	const char *name; /* long name without dashes */
	const char
		*arg; /* name of the argument for the help; NULL: a flag; "[X]": optional, --o=X */
	const char *help; /* NULL: accepted, but not shown */
	int id;		  /* what rut_cli_args_next() returns; a printable character is also -c */
};

#endif
