/* SPDX-License-Identifier: MIT */
/*
 * Functions that are written in the language itself. A script that calls one has its text appended,
 * as an imported file "stdlib/base.bt" is; what the script defines under the same name comes first.
 */
#include "script/prelude.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "script/parse_priv.h"

/* The next key each time, until all were seen. */
#define FOREACH(of, better)                                                                        \
	"{\n"                                                                                      \
	"  let $n = (int64)0;\n"                                                                   \
	"  let $more = true;\n"                                                                    \
	"  while ($n < (int64)(limit) && $more) {\n"                                               \
	"    let $any = false;\n"                                                                  \
	"    let $best = (int64)0;\n"                                                              \
	"    for ($kv : @m) {\n"                                                                   \
	"      if (!has_key(@seen, $kv.0) && (!$any || (int64)$kv." of " " better " $best)) {\n"   \
	"        $k = $kv.0; $best = (int64)$kv." of "; $any = true;\n"                            \
	"      }\n"                                                                                \
	"    }\n"                                                                                  \
	"    $more = $any;\n"                                                                      \
	"    $n++;\n"                                                                              \
	"    if ($any) { @seen[$k] = 1; body }\n"                                                  \
	"  }\n"                                                                                    \
	"  for ($kv : @seen) { delete(@seen, $kv.0); }\n"                                          \
	"}\n"

static const struct function {
	const char *name;
	const char *text;
} functions[] = {
	/* At the lines where bpftrace has it, which its message cites. */
	{"assert", "\n\n"
		   "macro assert(condition, msg)\n"
		   "{\n"
		   "  if (!(condition)) {\n"
		   "    errorf(\"assert failed: %s\", msg);\n"
		   "    exit(1);\n"
		   "  }\n"
		   "}\n"},
	{"is_err", "macro is_err(p) { (uint64)(p) >= 18446744073709547521 }\n"},
	{"find", "macro find(@m, key, $value)\n"
		 "{\n"
		 "  let $key = key;\n"
		 "  let $found = false;\n"
		 "  if (has_key(@m, $key)) { $value = @m[$key]; $found = true; }\n"
		 "  $found\n"
		 "}\n"},
	{"memcmp", "macro memcmp(left, right, count)\n"
		   "{\n"
		   "  let $left = left;\n"
		   "  let $right = right;\n"
		   "  let $result = (int64)0;\n"
		   "  let $i = (int64)0;\n"
		   "  while ($i < (int64)(count)) {\n"
		   "    $result = (int64)(uint8)$left[$i] - (int64)(uint8)$right[$i];\n"
		   "    if ($result != 0) { break; }\n"
		   "    $i++;\n"
		   "  }\n"
		   "  $result\n"
		   "}\n"},
	/* One loop: which byte of the text the part begins at, and how many are equal. */
	{"__strfind", "macro __strfind(text, part)\n"
		      "{\n"
		      "  let $text = text;\n"
		      "  let $part = part;\n"
		      "  let $i = (int64)0;\n"
		      "  let $k = (int64)0;\n"
		      "  let $at = (int64)-1;\n"
		      "  while (true) {\n"
		      "    if ($k >= (int64)sizeof($part) || $part[$k] == 0) { $at = $i; break; }\n"
		      "    if ($i + $k >= (int64)sizeof($text) || $text[$i + $k] == 0) { break; }\n"
		      "    if ($text[$i + $k] == $part[$k]) { $k++; } else { $i++; $k = 0; }\n"
		      "  }\n"
		      "  $at\n"
		      "}\n"},
	{"__foreach_value_up",
	 "macro __foreach_value_up(@m, @seen, $k, limit, body)\n" FOREACH("1", "<")},
	{"__foreach_value_down",
	 "macro __foreach_value_down(@m, @seen, $k, limit, body)\n" FOREACH("1", ">")},
	{"__foreach_key_up",
	 "macro __foreach_key_up(@m, @seen, $k, limit, body)\n" FOREACH("0", "<")},
	{"__foreach_key_down",
	 "macro __foreach_key_down(@m, @seen, $k, limit, body)\n" FOREACH("0", ">")},
	{"__strhas", "macro __strhas(text, part) { __strfind(text, part) >= 0 }\n"},
	{"socket_cookie", "macro socket_cookie(sk) { (uint64)((struct sock "
			  "*)(sk)).__sk_common.skc_cookie.counter }\n"},
};

enum { FUNCTIONS = sizeof(functions) / sizeof(*functions) };

_Static_assert(FUNCTIONS <= 32, "a bit each in rut_ast.prelude");

static bool is_constant(const struct rut_node *n)
{
	return n->kind == RUT_N_STRING || n->kind == RUT_N_PARAM ||
	       (n->kind == RUT_N_CALL && !strcmp(n->text, "str") && n->list &&
		n->list->kind == RUT_N_PARAM);
}

void rut_prelude_call(struct rut_ast *ast, struct rut_node *call)
{
	const struct rut_node *part = call->list ? call->list->next : NULL;

	/* Of a constant part the code is made at once. */
	if (part && !part->next && !is_constant(part)) {
		if (!strcmp(call->text, "strstr"))
			call->text = "__strfind";
		else if (!strcmp(call->text, "strcontains"))
			call->text = "__strhas";
	}
	for (unsigned i = 0; i < FUNCTIONS; i++)
		if (!strcmp(functions[i].name, call->text))
			ast->prelude |= 1u << i;
}

static bool is_defined(const struct rut_ast *ast, const char *name)
{
	for (const struct rut_macro *m = ast->macros; m; m = m->next)
		if (!strcmp(m->name, name))
			return true;
	return false;
}

int rut_prelude_add(struct rut_parser *p)
{
	struct rut_ast *ast = p->ast;
	uint32_t done = 0;
	int rc = 0;

	while (!rc && (ast->prelude & ~done)) {
		unsigned i = (unsigned)__builtin_ctz(ast->prelude & ~done);

		done |= 1u << i;
		if (!is_defined(ast, functions[i].name))
			rc = rut_p_part(p, "stdlib/base.bt", functions[i].text);
	}
	return rc;
}

void rut_prelude_nearest(struct rut_nearest *near)
{
	for (unsigned i = 0; i < FUNCTIONS; i++)
		if (functions[i].name[0] != '_')
			rut_nearest_add(near, functions[i].name);
}
