/* SPDX-License-Identifier: MIT */
#ifndef RUT_SCRIPT_CONFIG_H
#define RUT_SCRIPT_CONFIG_H

struct rut_script_program;

/* Takes over what the script's config block says. 0 or -EINVAL, with a message. */
int rut_config_apply(struct rut_script_program *p);

#endif
