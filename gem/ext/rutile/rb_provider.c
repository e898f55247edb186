/* SPDX-License-Identifier: MIT */
/* Rutile::Provider: the part that talks to the library. The rest is lib/rutile/provider.rb. */
#include "rb_ext.h"

#include <errno.h>
#include <stdlib.h>

struct holder *holder_ref(struct holder *h)
{
	__atomic_fetch_add(&h->refs, 1, __ATOMIC_RELAXED);
	return h;
}

void holder_unref(struct holder *h)
{
	if (!h || __atomic_fetch_sub(&h->refs, 1, __ATOMIC_ACQ_REL) != 1)
		return;
	rutile_usdt_provider_free(h->provider);
	free(h);
}

static void provider_free(void *data)
{
	holder_unref(data);
}

static const rb_data_type_t provider_type = {
	.wrap_struct_name = "rutile/provider",
	.function = {.dfree = provider_free},
	.flags = RUBY_TYPED_FREE_IMMEDIATELY,
};

static VALUE provider_alloc(VALUE klass)
{
	return TypedData_Wrap_Struct(klass, &provider_type, NULL);
}

struct holder *provider_holder(VALUE self)
{
	struct holder *h = rb_check_typeddata(self, &provider_type);

	if (!h)
		rb_raise(rb_eArgError, "uninitialized provider");
	return h;
}

static VALUE provider_create(VALUE self, VALUE name)
{
	struct holder *h;
	int rc;

	if (rb_check_typeddata(self, &provider_type))
		rb_raise(rb_eArgError, "provider initialized twice");
	StringValueCStr(name);
	h = malloc(sizeof(*h));
	if (!h)
		rb_memerror();
	h->refs = 1;
	rc = rutile_usdt_provider_new(RSTRING_PTR(name), &h->provider);
	if (rc) {
		free(h);
		if (rc != -EINVAL)
			raise_errno(rc, "provider");
		rb_raise(rb_eArgError,
			 "invalid provider name %+" PRIsVALUE
			 ": 1 to %d printable characters without blanks and colons",
			 name, RUTILE_USDT_NAME_MAX);
	}
	DATA_PTR(self) = h;
	return self;
}

/* 0, or an errno: a system that forbids it must not stop the application. */
static VALUE provider_load(VALUE self)
{
	return INT2FIX(-rutile_usdt_provider_load(provider_holder(self)->provider));
}

static VALUE provider_unload(VALUE self)
{
	rutile_usdt_provider_unload(provider_holder(self)->provider);
	return Qnil;
}

/*
 * Whether tracers can find the probes now.
 * @return [Boolean]
 */
static VALUE provider_loaded(VALUE self)
{
	return rutile_usdt_provider_loaded(provider_holder(self)->provider) ? Qtrue : Qfalse;
}

/*
 * The files, seen from other processes, in which tracers find the probes: "/proc/PID/fd/N". More
 * than one when tracepoints were added while others were traced or shared with forked children.
 * @return [Array<String>]
 */
static VALUE provider_paths(VALUE self)
{
	struct holder *h = provider_holder(self);
	VALUE paths = rb_ary_new();
	char path[96];

	for (unsigned i = 0; !rutile_usdt_provider_path(h->provider, i, path, sizeof(path)); i++)
		rb_ary_push(paths, rb_str_new_cstr(path));
	return paths;
}

void init_provider(VALUE module)
{
	VALUE klass = rb_define_class_under(module, "Provider", rb_cObject);

	rb_define_alloc_func(klass, provider_alloc);
	rb_undef_method(klass, "initialize_copy");
	rb_define_private_method(klass, "native_create", provider_create, 1);
	rb_define_private_method(klass, "native_load", provider_load, 0);
	rb_define_private_method(klass, "native_unload", provider_unload, 0);
	rb_define_method(klass, "loaded?", provider_loaded, 0);
	rb_define_method(klass, "paths", provider_paths, 0);
}
