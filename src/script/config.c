/* SPDX-License-Identifier: MIT */
/* config = { name = value; ... }, and the sizes of maps that are declared. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "script/check.h"
#include "script/config.h"
#include "script/lex.h"

static const char *const switches[] = {"false", "true", NULL};
static const char *const stack_modes[] = {"bpftrace", "perf", "raw", NULL};
static const char *const licenses[] = {"Dual MIT/GPL",
				       "Dual BSD/GPL",
				       "Dual MPL/GPL",
				       "GPL and additional rights",
				       "GPL v2",
				       "GPL",
				       NULL};
static const char *const missing[] = {"error", "warn", "ignore", NULL};

enum form { NUMBER, TEXT, IGNORED };

static const struct option {
	const char *name;
	enum form form;
	uint64_t min, max;
	size_t offset;		  /* in struct rut_script_settings */
	const char *const *words; /* for numbers: their names; NULL: they have none */
} options[] = {
#define NUMBER_OF(f, min, max, words)                                                              \
	{                                                                                          \
#f, NUMBER, min, max, offsetof(struct rut_script_settings, f), words               \
	}
	NUMBER_OF(max_strlen, 1, 16384, NULL),
	NUMBER_OF(max_map_keys, 1, 16u << 20, NULL),
	NUMBER_OF(max_cat_bytes, 0, UINT32_MAX, NULL),
	NUMBER_OF(print_maps_on_exit, 0, 1, switches),
	NUMBER_OF(stack_mode, 0, 2, stack_modes),
	NUMBER_OF(missing_probes, 0, 2, missing),
	NUMBER_OF(cpp_demangle, 0, 1, switches),
	NUMBER_OF(license, 0, 5, licenses),
	{"str_trunc_trailer", TEXT, 0, 0, offsetof(struct rut_script_settings, trailer), NULL},
	/* Of how bpftrace itself works: */
	{"cache_user_symbols", IGNORED, 0, 0, 0, NULL},
	{"lazy_symbolication", IGNORED, 0, 0, 0, NULL},
	{"log_size", IGNORED, 0, 0, 0, NULL},
	{"max_ast_nodes", IGNORED, 0, 0, 0, NULL},
	{"max_bpf_progs", IGNORED, 0, 0, 0, NULL},
	{"max_probes", IGNORED, 0, 0, 0, NULL},
	{"on_stack_limit", IGNORED, 0, 0, 0, NULL},
	{"perf_rb_pages", IGNORED, 0, 0, 0, NULL},
	{"show_debug_info", IGNORED, 0, 0, 0, NULL},
	{"unstable_import", IGNORED, 0, 0, 0, NULL},
	{"unstable_import_statement", IGNORED, 0, 0, 0, NULL},
	{"unstable_macro", IGNORED, 0, 0, 0, NULL},
	{"unstable_map_decl", IGNORED, 0, 0, 0, NULL},
	{"unstable_typeinfo", IGNORED, 0, 0, 0, NULL},
	{"unstable_dw_ustack", IGNORED, 0, 0, 0, NULL},
	{"unstable_tseries", IGNORED, 0, 0, 0, NULL},
	{"use_blazesym", IGNORED, 0, 0, 0, NULL},
};

enum { NOPTIONS = sizeof(options) / sizeof(*options) };

static const struct option *find(const char *name)
{
	/* The name of the environment variable is accepted too. */
	if (!strncasecmp(name, "BPFTRACE_", 9))
		name += 9;
	for (size_t i = 0; i < NOPTIONS; i++)
		if (!strcasecmp(options[i].name, name))
			return &options[i];
	return NULL;
}

/* "name=value" */
static struct rut_span whole_of(const struct rut_config_entry *e)
{
	struct rut_span all = e->span;

	if (e->value)
		all.len = e->value->span.pos + e->value->span.len - all.pos;
	return all;
}

static int unknown(struct rut_script_program *p, const struct rut_config_entry *e)
{
	struct rut_nearest near = {e->name, strlen(e->name), "", 0};

	if (p->src.as_bpftrace)
		return rut_source_error(&p->src, whole_of(e),
					"%s: not a known configuration option", e->name);
	rut_source_error(&p->src, e->span, "there is no option '%s'", e->name);
	for (size_t i = 0; i < NOPTIONS; i++)
		rut_nearest_add(&near, options[i].name);
	if (near.name[0])
		rut_source_hint(&p->src, "did you mean '%s'?", near.name);
	return -EINVAL;
}

/* The number that a word means; false: it means none. */
static bool number_of(const struct option *o, const char *text, uint64_t *ret)
{
	for (uint64_t i = 0; o->words && o->words[i]; i++) {
		if (!strcmp(o->words[i], text)) {
			*ret = i;
			return true;
		}
	}
	return rut_lex_number(text, ret);
}

static void set(struct rut_script_program *p, const struct option *o, uint64_t v, const char *text)
{
	char *at = (char *)&p->set + o->offset;

	if (o->form == TEXT)
		memcpy(at, &text, sizeof(text));
	else
		*(uint32_t *)(void *)at = (uint32_t)v;
}

static int invalid_word(struct rut_script_program *p, const struct option *o,
			const struct rut_node *value)
{
	_cleanup_buf_ struct rut_buf words = RUT_BUF_INIT;

	for (size_t i = 0; o->words[i]; i++)
		rut_buf_printf(&words, "%s%s", i ? ", " : "", o->words[i]);
	return rut_source_error(&p->src, value->span,
				"Invalid value for %s. Found: %s. Valid values: %s.", o->name,
				value->text ? value->text : "an expression", words.data);
}

static int apply(struct rut_script_program *p, const struct rut_config_entry *e)
{
	const struct option *o = find(e->name);
	const struct rut_node *value = e->value;
	uint64_t v = value->value;

	if (!o)
		return unknown(p, e);
	if (o->form == IGNORED)
		return 0;
	if (o->form == TEXT && value->kind != RUT_N_STRING)
		return rut_source_error(&p->src, value->span, "a text is expected here");
	if (o->form == NUMBER && value->kind != RUT_N_INT &&
	    ((value->kind != RUT_N_NAME && value->kind != RUT_N_STRING) ||
	     !number_of(o, value->text, &v)) &&
	    o->words)
		return invalid_word(p, o, value);
	if (o->form == NUMBER && value->kind != RUT_N_INT &&
	    ((value->kind != RUT_N_NAME && value->kind != RUT_N_STRING) ||
	     !number_of(o, value->text, &v)))
		return rut_source_error(&p->src, value->span, "a number is expected here");
	if (o->form == NUMBER && (v < o->min || v > o->max))
		return rut_source_error(&p->src, value->span, "%s is %llu to %llu", o->name,
					(unsigned long long)o->min, (unsigned long long)o->max);
	set(p, o, v, value->text);
	return 0;
}

/* BPFTRACE_MAX_STRLEN and its like are above what the script says. */
static int apply_environment(struct rut_script_program *p, const struct option *o)
{
	char name[64] = "BPFTRACE_";
	const char *text;
	uint64_t v = 0;

	for (size_t i = 0; i < sizeof(name) - 10 && o->name[i]; i++)
		name[9 + i] = (char)toupper((unsigned char)o->name[i]);
	text = o->form == IGNORED ? NULL : getenv(name);
	if (!text)
		return 0;
	if (o->form == NUMBER && (!number_of(o, text, &v) || v < o->min || v > o->max)) {
		rut_buf_printf(&p->src.messages,
			       "%s: error: %s=%s: a number from %llu to %llu is expected\n",
			       p->src.name, name, text, (unsigned long long)o->min,
			       (unsigned long long)o->max);
		p->src.errors++;
		return -EINVAL;
	}
	set(p, o, v, text);
	return 0;
}

void rut_config_init(struct rut_script_settings *ret, uint32_t max_strlen)
{
	*ret = (struct rut_script_settings){
		.max_strlen = max_strlen ? max_strlen : 1024,
		.max_map_keys = 4096,
		.max_cat_bytes = 10240,
		.print_maps_on_exit = 1,
		.cpp_demangle = 1,
		.license = 5,
		.trailer = "..",
	};
}

int rut_config_apply(struct rut_script_program *p)
{
	int rc = 0;

	for (const struct rut_config_entry *e = p->ast.config; e && !rc; e = e->next)
		rc = apply(p, e);
	for (size_t i = 0; i < NOPTIONS && !rc; i++)
		rc = apply_environment(p, &options[i]);
	return rc;
}

/* config().NAME */
bool rut_config_value(const struct rut_script_program *p, const char *name, uint64_t *ret,
		      const char **ret_text)
{
	const struct option *o = find(name);
	const char *at = o ? (const char *)&p->set + o->offset : NULL;

	*ret_text = NULL;
	if (!o)
		return false;
	*ret = 0;
	if (o->form == TEXT)
		memcpy(ret_text, at, sizeof(*ret_text));
	else if (o->form == NUMBER)
		*ret = *(const uint32_t *)(const void *)at;
	if (o->form == NUMBER && o->words && o->words != switches)
		*ret_text = o->words[*ret];
	return true;
}
