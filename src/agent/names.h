/* SPDX-License-Identifier: MIT */
/* Names of classes, by C functions of Ruby's only. */
#ifndef RUT_AGENT_NAMES_H
#define RUT_AGENT_NAMES_H

#include "rb.h"

/*
 * Writes the name of a class, NUL-terminated; of a singleton class, that of its object. Never runs
 * Ruby code of the application.
 */
void rut_agent_class_name(VALUE klass, char *buf, size_t size, bool *ret_singleton);

#endif
