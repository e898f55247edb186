/* SPDX-License-Identifier: MIT */
#ifndef RUT_TRIGGER_WHEN_H
#define RUT_TRIGGER_WHEN_H

#include "trigger/spec.h"

/* Takes the text of --when apart (spec.h has its forms). Returns 0 or -EINVAL with the reason. */
int rut_trigger_parse_when(struct rut_trigger_when *w, const char *text, struct rut_err *err);

#endif
