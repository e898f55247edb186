/* SPDX-License-Identifier: MIT */
/* Rutile::Provider: the part that talks to the library. The rest is lib/rutile/provider.rb. */
#include "rb_ext.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/*
 * Only this lock protects what ractors share. No Ruby function is called under it: a thread that
 * waits there for the collector would block the collector.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct holder *holders;	 /* those that are found by name */
static bool ractors_declare;	 /* one other than the main one did */
static int32_t all_enabled = -1; /* atomic; Rutile.enable! or disable!; -1: neither */
static VALUE provider_class;

/* A tracepoint that the main ractor has not yet seen. */
struct handed {
	struct handed *next;
	VALUE tracepoint;
};

static struct handed *first_handed, **last_handed = &first_handed;

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void drop_lock(void)
{
	pthread_mutex_unlock(&lock);
}

struct holder *holder_ref(struct holder *h)
{
	take_lock();
	h->refs++;
	drop_lock();
	return h;
}

/* Under the lock. */
static void list(struct holder *h)
{
	h->listed = true;
	h->next = holders;
	if (holders)
		holders->prev = h;
	holders = h;
}

/* Under the lock. */
static void unlist(struct holder *h)
{
	if (!h->listed)
		return;
	h->listed = false;
	if (h->next)
		h->next->prev = h->prev;
	if (h->prev)
		h->prev->next = h->next;
	else
		holders = h->next;
	h->next = h->prev = NULL;
}

void holder_unref(struct holder *h)
{
	bool last;

	if (!h)
		return;
	take_lock();
	last = !--h->refs;
	if (last)
		unlist(h);
	drop_lock();
	if (!last)
		return;
	rutile_usdt_provider_free(h->provider);
	free(h);
}

/* Under the lock. Takes a reference. Nothing to search for while all of them are the main ractor's,
 * which knows its own.
 */
static struct holder *find(const char *name)
{
	for (struct holder *h = ractors_declare ? holders : NULL; h; h = h->next) {
		if (strcmp(rutile_usdt_provider_name(h->provider), name) != 0)
			continue;
		h->refs++;
		return h;
	}
	return NULL;
}

static int holder_new(const char *name, struct holder **ret)
{
	struct holder *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return -ENOMEM;
	h->refs = 1;
	h->enabled = -1;
	rc = rutile_usdt_provider_new(name, &h->provider);
	if (rc)
		free(h);
	else
		*ret = h;
	return rc;
}

/* The holder of that name, or a new one. The caller owns the reference. */
static int holder_get(const char *name, bool shared, struct holder **ret)
{
	struct holder *h = NULL, *made;
	int rc;

	if (!shared)
		return holder_new(name, ret);
	take_lock();
	h = find(name);
	drop_lock();
	if (h) {
		*ret = h;
		return 0;
	}
	rc = holder_new(name, &made);
	if (rc)
		return rc;
	take_lock();
	h = find(name);
	if (!h)
		list(made);
	drop_lock();
	*ret = h ? h : made;
	if (h)
		holder_unref(made);
	return 0;
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

/* `main`: called by the main ractor. */
static VALUE provider_create(VALUE self, VALUE name, VALUE main)
{
	struct holder *h;
	int rc;

	if (rb_check_typeddata(self, &provider_type))
		rb_raise(rb_eArgError, "provider initialized twice");
	StringValueCStr(name);
	if (!RTEST(main)) {
		take_lock();
		ractors_declare = true;
		drop_lock();
	}
	rc = holder_get(RSTRING_PTR(name), rb_obj_class(self) == provider_class, &h);
	if (rc == -ENOMEM)
		rb_memerror();
	if (rc == -EINVAL)
		rb_raise(rb_eArgError,
			 "invalid provider name %+" PRIsVALUE
			 ": 1 to %d printable characters without blanks and colons",
			 name, RUTILE_USDT_NAME_MAX);
	if (rc)
		raise_errno(rc, "provider");
	DATA_PTR(self) = h;
	return self;
}

/* What the main ractor says of the provider, or of all; otherwise the argument. */
static VALUE provider_is_enabled(VALUE self, VALUE otherwise)
{
	int32_t enabled = __atomic_load_n(&provider_holder(self)->enabled, __ATOMIC_RELAXED);

	if (enabled < 0)
		enabled = __atomic_load_n(&all_enabled, __ATOMIC_RELAXED);
	return enabled < 0 ? otherwise : enabled ? Qtrue : Qfalse;
}

static VALUE provider_note_enabled(VALUE self, VALUE enabled)
{
	__atomic_store_n(&provider_holder(self)->enabled, RTEST(enabled), __ATOMIC_RELAXED);
	return enabled;
}

/* For providers that are made by other ractors. */
static VALUE provider_note_all_enabled(VALUE klass, VALUE enabled)
{
	(void)klass;
	__atomic_store_n(&all_enabled, RTEST(enabled), __ATOMIC_RELAXED);
	return enabled;
}

/* The tracepoint must be shareable. Any ractor but the main one. */
static VALUE provider_hand_over(VALUE klass, VALUE tracepoint)
{
	struct handed *handed = malloc(sizeof(*handed));

	(void)klass;
	if (!handed)
		rb_memerror();
	*handed = (struct handed){.tracepoint = tracepoint};
	take_lock();
	*last_handed = handed;
	last_handed = &handed->next;
	drop_lock();
	return Qnil;
}

/* The oldest tracepoint that was handed over, or nil. The main ractor only. */
static VALUE provider_next_handed(VALUE klass)
{
	VALUE tracepoint;
	struct handed *handed;

	(void)klass;
	take_lock();
	handed = first_handed;
	if (handed) {
		first_handed = handed->next;
		if (!first_handed)
			last_handed = &first_handed;
	}
	drop_lock();
	if (!handed)
		return Qnil;
	tracepoint = handed->tracepoint;
	free(handed);
	return tracepoint;
}

/* While all ractors stand still. */
static void mark_handed(void *data)
{
	(void)data;
	for (struct handed *handed = first_handed; handed; handed = handed->next)
		rb_gc_mark(handed->tracepoint);
}

static const rb_data_type_t handed_type = {
	.wrap_struct_name = "rutile/handed",
	.function = {.dmark = mark_handed},
};

/* 0, or an errno: a system that forbids it must not stop the application. */
static VALUE provider_load(VALUE self)
{
	return INT2FIX(-rutile_usdt_provider_load(provider_holder(self)->provider));
}

static VALUE provider_unload(VALUE self)
{
	struct holder *h = provider_holder(self);

	__atomic_store_n(&h->enabled, 0, __ATOMIC_RELAXED);
	take_lock();
	unlist(h);
	drop_lock();
	rutile_usdt_provider_unload(h->provider);
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
	VALUE meta = rb_singleton_class(klass);

	provider_class = klass;
	pthread_atfork(take_lock, drop_lock, drop_lock);
	/* Marks through a pointer that is not NULL only. */
	rb_gc_register_mark_object(TypedData_Wrap_Struct(rb_cObject, &handed_type, &first_handed));
	rb_define_alloc_func(klass, provider_alloc);
	rb_undef_method(klass, "initialize_copy");
	rb_define_private_method(klass, "native_create", provider_create, 2);
	rb_define_private_method(klass, "native_enabled?", provider_is_enabled, 1);
	rb_define_private_method(klass, "native_enabled=", provider_note_enabled, 1);
	rb_define_private_method(meta, "native_all_enabled=", provider_note_all_enabled, 1);
	rb_define_private_method(meta, "native_hand_over", provider_hand_over, 1);
	rb_define_private_method(meta, "native_next_handed", provider_next_handed, 0);
	rb_define_private_method(klass, "native_load", provider_load, 0);
	rb_define_private_method(klass, "native_unload", provider_unload, 0);
	rb_define_method(klass, "loaded?", provider_loaded, 0);
	rb_define_method(klass, "paths", provider_paths, 0);
}
