/* SPDX-License-Identifier: MIT */
/* What a script and the environment set: config = { name = value; ... }, BPFTRACE_NAME=value. */
#ifndef RUT_SCRIPT_CONFIG_H
#define RUT_SCRIPT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct rut_script_program;
struct rut_script_settings;

void rut_config_init(struct rut_script_settings *ret, uint32_t max_strlen);
/* 0 or -EINVAL, with a message. */
int rut_config_apply(struct rut_script_program *p);
/*
 * What an option is set to: a number, and its name or a text (NULL: it has none), which lives as
 * long as p. Options that mean nothing here are 0. False: there is no such option.
 */
bool rut_config_value(const struct rut_script_program *p, const char *name, uint64_t *ret,
		      const char **ret_text);

#endif
