/* SPDX-License-Identifier: MIT */
/* cmocka wants these headers before its own. */
#ifndef RUT_TESTS_UNIT_H
#define RUT_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
