/* SPDX-License-Identifier: MIT */
#ifndef RUT_RUBY_NATIVE_H
#define RUT_RUBY_NATIVE_H

#include "ruby/target.h"

/*
 * Does the processor run the code that this process has mapped? Not under valgrind or an emulator
 * of user programs, whose libraries are data for a program that is linked statically: what is
 * injected would not run in the emulated program but in the emulator. True when that is not known.
 */
bool rut_target_is_native(const struct rut_target *t);

#define RUT_NOT_NATIVE                                                                             \
	"process %d runs in an emulator or under valgrind, into which nothing can be injected; "   \
	"start it with rutile: rutile VERB -- COMMAND"

#endif
