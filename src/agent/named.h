/* SPDX-License-Identifier: MIT */
/*
 * Methods chosen by name: what they are called, before they are called.
 *
 * Code does not refer to its method. The method entries of classes refer to their code.
 */
#ifndef RUT_AGENT_NAMED_H
#define RUT_AGENT_NAMED_H

#include "list.h"

struct rut_session;

/* enum rb_method_type_t, since 2.0: the low bits of a definition */
#define RUT_METHOD_TYPE_ISEQ	0
#define RUT_METHOD_TYPE_BMETHOD 4

enum rut_named_is {
	RUT_NAMED_WANTED,
	RUT_NAMED_UNWANTED,
	RUT_NAMED_UNKNOWN, /* not a method yet, or of several, wanted and not */
};

struct rut_named {
	const struct rut_session *s;
	const struct rut_list *ments; /* method entries of type ISEQ, by code; borrowed */
	VALUE owner;		      /* the last one, and its name */
	bool singleton;
	char name[512];
};

/* The code of a method entry of type ISEQ. */
VALUE rut_agent_named_code(VALUE ment);
enum rut_named_is rut_agent_named_is(struct rut_named *n, VALUE iseq);

/* Makes a row for the method of this entry if the filter wants it, without calls. */
void rut_agent_named_row(struct rut_session *s, VALUE ment);

#endif
