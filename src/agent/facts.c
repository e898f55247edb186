/* SPDX-License-Identifier: MIT */
/*
 * What the process knows about its application: the real path of its main script, Rails.root,
 * Bundler's root. From outside only the command line and the current directory are seen, which a
 * server changes at will.
 *
 * They are read from where Ruby, Rails and Bundler keep them (the stack of the main thread,
 * instance variables): none of their methods is called, and nothing is loaded. What comes of it is
 * decided by the tracer (src/ruby/root.c).
 */
#include "facts.h"

#include <stdlib.h>
#include <string.h>

/* A constant of Object that is there; nil: it is not, or would have to be loaded first. */
static VALUE constant(const char *name)
{
	VALUE object = *rb.rb_cObject;
	ID id = rb.rb_intern(name);

	if (!rb.rb_const_defined || !rb.rb_autoload_p || !rb.rb_const_defined(object, id) ||
	    rb.rb_autoload_p(object, id) != rb.qnil)
		return rb.qnil;
	return rb.rb_const_get(object, id);
}

static VALUE ivar(VALUE obj, const char *name)
{
	return rut_special_p(obj) ? rb.qnil : rb.rb_attr_get(obj, rb.rb_intern(name));
}

static uint32_t intern(struct rut_session *s, VALUE str)
{
	size_t len;
	const char *text = rut_agent_str(str, &len);

	return len ? rut_agent_table_str(&s->table, text, len) : 0;
}

/* Of a String or a Pathname. */
static uint32_t intern_path(struct rut_session *s, VALUE path)
{
	uint32_t str = intern(s, path);

	return str ? str : intern(s, ivar(path, "@path"));
}

/* Rails.application.config.root */
static uint32_t rails_root(struct rut_session *s)
{
	VALUE rails = constant("Rails"), app = ivar(rails, "@application");

	if (rut_special_p(app))
		app = ivar(ivar(rails, "@app_class"), "@instance");
	return intern_path(s, ivar(ivar(app, "@config"), "@root"));
}

static uint32_t bundler_root(struct rut_session *s)
{
	uint32_t root = intern_path(s, ivar(constant("Bundler"), "@root"));
	const char *gemfile = root ? NULL : getenv("BUNDLE_GEMFILE");

	return gemfile ? rut_agent_table_str(&s->table, gemfile, strlen(gemfile)) : root;
}

/* The outermost frame of the main thread, when that is the main script. */
static uint32_t main_script(struct rut_session *s)
{
	VALUE class = rb.rb_const_get(*rb.rb_cObject, rb.rb_intern("Thread"));
	VALUE locations = rut_agent_ask(rut_agent_ask(class, "main"), "backtrace_locations"), last;
	const char *label;
	size_t len;

	if (rut_special_p(locations))
		return 0;
	last = rb.rb_ary_entry(locations, -1);
	if (rut_special_p(last))
		return 0;
	label = rut_agent_str(rut_agent_ask(last, "label"), &len);
	return len == 6 && memcmp(label, "<main>", 6) == 0
		       ? intern(s, rut_agent_ask(last, "absolute_path"))
		       : 0;
}

static VALUE write_body(VALUE arg)
{
	struct rut_session *s = (struct rut_session *)arg;
	struct rut_agent_facts *facts = &s->table.hdr->facts;

	if (rb.rb_gv_get)
		facts->program = intern(s, rb.rb_gv_get("$0"));
	facts->main = main_script(s);
	facts->rails = rails_root(s);
	facts->bundler = bundler_root(s);
	return rb.qnil;
}

void rut_agent_facts_write(struct rut_session *s)
{
	int failed = 0;

	rb.rb_protect(write_body, (VALUE)s, &failed);
	if (failed)
		rb.rb_set_errinfo(rb.qnil);
}
