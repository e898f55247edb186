/* SPDX-License-Identifier: MIT */
#include "ctf/meta.h"

int rut_ctf2_parse(struct rut_meta *m, const char *text, size_t len, struct rut_err *err)
{
	return rut_err_set(err, ENOTSUP, "CTF 2 is not yet read");
}
