/* SPDX-License-Identifier: MIT */
/*
 * The extension of the gem: Ruby's face of librutile-usdt.
 *
 * Thin by intention. What is here must be fast (firing), needs the library, or must work in other
 * ractors than the main one; everything else is Ruby code in lib/.
 */
#include "rb_ext.h"

#include <errno.h>
#include <time.h>

void raise_errno(int rc, const char *what)
{
	rb_syserr_fail(-rc, what);
}

/*
 * The monotonic clock in nanoseconds, the same that tracers stamp their events with.
 * @return [Integer]
 */
static VALUE rutile_nsec(VALUE self)
{
	struct timespec ts;

	(void)self;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return LL2NUM((long long)ts.tv_sec * 1000000000 + ts.tv_nsec);
}

RUTILE_USDT_API void Init_rutile_ext(void);

void Init_rutile_ext(void)
{
	VALUE module;

#ifdef HAVE_RB_EXT_RACTOR_SAFE
	rb_ext_ractor_safe(true);
#endif
	module = rb_define_module("Rutile");
	rb_define_module_function(module, "nsec", rutile_nsec, 0);
	init_provider(module);
	init_tracepoint(module);
	init_control(module);
	init_listeners(module);
	init_span(module);
}
