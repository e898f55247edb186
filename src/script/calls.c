/* SPDX-License-Identifier: MIT */
/* The functions: a table of their arguments, types and code. */
#include <linux/bpf.h>
#include <string.h>

#include "script/calls.h"
#include "script/format.h"

static const struct rut_type *none(void)
{
	return rut_type_simple(RUT_T_VOID);
}

/* printf(), errorf(), warnf(), cat(), system(): a format and its values. */

/* A quotient that is shown with decimals: both of its parts are sent. */
static const struct rut_type *check_quotient(struct rut_checker *c, struct rut_node *e)
{
	const struct rut_type *a = rut_check_int(c, e->a, "what is divided"),
			      *b = rut_check_int(c, e->b, "the divisor");
	struct rut_type *t;

	if (!a || !b)
		return NULL;
	t = rut_type_new(c->arena, RUT_T_AVG, 16, 8);
	t->is_signed = a->is_signed;
	return t;
}

/* An argument of printf() and its like: what is shown with decimals is sent as a pair. */
static const struct rut_type *check_shown(struct rut_checker *c, const struct rut_node *format,
					  struct rut_node *e, uint32_t i)
{
	bool real = format && rut_script_format_wants_real(format->text, i);
	const struct rut_type *t;

	if (real && e->kind == RUT_N_BINARY && e->op == '/')
		return check_quotient(c, e);
	c->shown = e;
	t = rut_check_expr(c, e);
	c->shown = NULL;
	if (real && t && e->kind == RUT_N_MAP && c->prog->maps[e->index].value &&
	    (c->prog->maps[e->index].value->kind == RUT_T_AVG ||
	     c->prog->maps[e->index].value->kind == RUT_T_STATS)) {
		struct rut_type *avg = rut_type_new(c->arena, RUT_T_AVG, 16, 8);

		avg->is_signed = c->prog->maps[e->index].value->is_signed;
		return avg;
	}
	return t;
}

/* Both words of an average, or of a quotient. */
static void gen_pair(struct rut_gen *g, struct rut_node *e, struct rut_mem to)
{
	rut_vreg parts[2];

	if (e->kind == RUT_N_MAP) {
		rut_gen_map_sums(g, e, parts);
	} else {
		parts[0] = rut_gen_scalar(g, e->a);
		parts[1] = rut_gen_scalar(g, e->b);
	}
	rut_ir_store(&g->ir, 8, to.base, to.off, parts[0]);
	rut_ir_store(&g->ir, 8, to.base, to.off + 8, parts[1]);
}

/* What a macro makes of itself is a block: when it is a text alone, it is that text. */
static void become_constant(struct rut_node *n)
{
	const struct rut_node *only = n->kind == RUT_N_BLOCK ? n->list : NULL;

	if (!only || only->next || only->kind != RUT_N_EXPR || only->a->kind != RUT_N_STRING)
		return;
	n->kind = RUT_N_STRING;
	n->text = only->a->text;
	n->len = only->a->len;
	n->list = NULL;
}

static const struct rut_type *check_format(struct rut_checker *c, struct rut_node *n,
					   enum rut_script_action_kind kind)
{
	struct rut_type_field fields[128] = {0};
	struct rut_script_action action = {.kind = kind, .map = -1};
	struct rut_err err = RUT_ERR_INIT;
	uint32_t count = 0;
	size_t at = 0;

	become_constant(n->list);
	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "the first argument of %s() is a constant text",
				       n->text);
	for (struct rut_node *e = n->list->next; e; e = e->next) {
		const struct rut_type *t = check_shown(c, n->list, e, count);

		if (!t)
			return NULL;
		if (count == 64)
			return rut_check_error(c, e, "%s() takes at most 64 values", n->text);
		if (t->kind == RUT_T_VOID || (rut_type_is_agg(t) && t->kind != RUT_T_AVG))
			return rut_check_error(c, e, "this has no value to show");
		fields[count++].type = t;
	}
	if (!c->loud)
		return none();
	action.format = n->list->text;
	action.args = rut_type_tuple(c->arena, RUT_T_TUPLE, fields, count);
	if (!rut_quantile_add(c, &action, n->list->next, fields, count))
		return NULL;
	if (rut_script_format_parse(&action.parsed, action.format, action.args, &at, &err))
		return rut_check_error(c, n->list, "%s", err.msg);
	n->index = rut_program_action(c->prog, &action, n);
	return none();
}

static const struct rut_type *check_printf(struct rut_checker *c, struct rut_node *n)
{
	return check_format(c, n, RUT_ACTION_PRINTF);
}

static const struct rut_type *check_errorf(struct rut_checker *c, struct rut_node *n)
{
	return check_format(c, n, RUT_ACTION_ERRORF);
}

static const struct rut_type *check_warnf(struct rut_checker *c, struct rut_node *n)
{
	return check_format(c, n, RUT_ACTION_WARNF);
}

static const struct rut_type *check_cat(struct rut_checker *c, struct rut_node *n)
{
	return check_format(c, n, RUT_ACTION_CAT);
}

static const struct rut_type *check_system(struct rut_checker *c, struct rut_node *n)
{
	if (!c->prog->opts.unsafe)
		return rut_check_error(c, n, "system() runs commands: it needs --unsafe");
	return check_format(c, n, RUT_ACTION_SYSTEM);
}

/* The values of the list from `first` into a record of the action. */
void rut_gen_send(struct rut_gen *g, struct rut_node *n, struct rut_node *first)
{
	const struct rut_type *args = g->prog->actions[n->index].args;
	uint32_t end = rut_ir_label(&g->ir), i = 0, done = 0;
	uint32_t header = (uint32_t)sizeof(struct rut_script_event);
	rut_vreg record;
	struct rut_mem to;

	record = rut_gen_record(g, n, n->index, end);
	for (struct rut_node *e = first; e && args; e = e->next, i++) {
		const struct rut_type_field *f = &args->fields[i];

		to = (struct rut_mem){record, (int32_t)(header + done), RUT_SPACE_BPF};
		rut_gen_zero(g, to, f->offset - done);
		to.off = (int32_t)(header + f->offset);
		if (f->type->kind == RUT_T_AVG)
			gen_pair(g, e, to);
		else
			rut_gen_into(g, e, f->type, to);
		done = f->offset + f->type->size;
	}
	if (args) {
		to = (struct rut_mem){record, (int32_t)(header + done), RUT_SPACE_BPF};
		rut_gen_zero(g, to, ((args->size + 7) & ~7u) - done);
		rut_gen_quantile_keys(g, first, &g->prog->actions[n->index], record, header);
	}
	rut_gen_submit(g, record);
	rut_ir_place(&g->ir, end);
}

static rut_vreg gen_printf(struct rut_gen *g, struct rut_node *n)
{
	rut_gen_send(g, n, n->list->next);
	return 0;
}

/* exit(), exit(code) */

static const struct rut_type *check_exit(struct rut_checker *c, struct rut_node *n)
{
	struct rut_type_field field = {.type = rut_type_int(8, true)};
	struct rut_script_action action = {.kind = RUT_ACTION_EXIT, .map = -1};

	if (n->list && !rut_check_int(c, n->list, "the exit code"))
		return NULL;
	if (!c->loud)
		return none();
	action.args = rut_type_tuple(c->arena, RUT_T_TUPLE, &field, 1);
	n->index = rut_program_action(c->prog, &action, n);
	return none();
}

static rut_vreg gen_exit(struct rut_gen *g, struct rut_node *n)
{
	uint32_t header = (uint32_t)sizeof(struct rut_script_event), end = rut_ir_label(&g->ir);
	rut_vreg code = n->list ? rut_gen_scalar(g, n->list) : rut_ir_const(&g->ir, 0), record;

	/* The word is seen even when the ring is full. */
	rut_gen_set_exit(g, code);
	record = rut_gen_record(g, n, n->index, end);
	rut_ir_store(&g->ir, 8, record, (int32_t)header, code);
	rut_gen_submit(g, record);
	rut_ir_place(&g->ir, end);
	rut_ir_jump(&g->ir, g->exit);
	return 0;
}

/* str(pointer), str(pointer, length) */

static const struct rut_type *check_str(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *sum = n->list;
	const struct rut_type *t;
	_cleanup_buf_ struct rut_buf buf = RUT_BUF_INIT;
	uint32_t size = c->prog->set.max_strlen + 1;
	int64_t len;

	/* str($1 + 2): the rest of the text. */
	if (sum->kind == RUT_N_BINARY && sum->op == '+' && sum->a->kind == RUT_N_PARAM &&
	    sum->b->kind == RUT_N_INT && sum->a->value) {
		const char *s = sum->a->value <= c->prog->ast.nparams
					? c->prog->ast.params[sum->a->value - 1]
					: "";

		sum->kind = RUT_N_STRING;
		sum->text = s + (sum->b->value < strlen(s) ? sum->b->value : strlen(s));
		sum->len = (uint32_t)strlen(sum->text);
	}
	t = rut_check_expr(c, sum);
	if (!t)
		return NULL;
	if (t->kind == RUT_T_STRING && !n->list->next)
		return t;
	if (t->kind == RUT_T_STRING)
		size = t->size;
	else if (!rut_type_is_scalar(t) && t->kind != RUT_T_ARRAY)
		return rut_check_error(c, n->list, "str() takes a pointer, not %s",
				       rut_type_text(t, &buf));
	if (n->list->next) {
		if (!rut_check_int(c, n->list->next, "the length"))
			return NULL;
		if (rut_literal_int(n->list->next, &len)) {
			if (len < 0)
				return rut_check_error(c, n->list->next, "the length is negative");
			/* Of what is read the zero is one; a text has its characters. */
			if (t->kind == RUT_T_STRING)
				len++;
			if (len < size)
				size = len ? (uint32_t)len : 1;
		}
	}
	return rut_type_string(c->arena, size);
}

static void gen_str(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	const struct rut_type *t = n->list->type;
	enum rut_space space = rut_call_space(g, t);
	struct rut_node *length = n->list->next;
	uint32_t good;
	rut_vreg from, len, rc;

	if (t->kind == RUT_T_STRING) {
		rut_gen_into(g, n->list, n->type, to);
		return;
	}
	from = t->kind == RUT_T_ARRAY ? rut_gen_pointer(g, rut_gen_address(g, n->list))
				      : rut_gen_scalar(g, n->list);
	if (!length || length->kind == RUT_N_INT) {
		rut_gen_read_text(g, n, to, n->type->size, from, space);
		return;
	}
	/* A length that is known when it runs, with the zero: at most the size. */
	len = rut_ir_reg(&g->ir);
	rut_ir_mov(&g->ir, len, rut_gen_scalar(g, length));
	good = rut_ir_label(&g->ir);
	rut_ir_branch_imm(&g->ir, BPF_JLE, len, n->type->size, good);
	rut_ir_add(&g->ir,
		   (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = len, .imm = n->type->size});
	rut_ir_place(&g->ir, good);
	rut_gen_zero(g, to, n->type->size);
	struct rut_ir_arg args[] = {rut_gen_arg(to), RUT_ARG(len), RUT_ARG(from)};
	rc = rut_ir_call(&g->ir,
			 space == RUT_SPACE_USER ? BPF_FUNC_probe_read_user_str
						 : BPF_FUNC_probe_read_kernel_str,
			 3, args);
	good = rut_ir_label(&g->ir);
	rut_ir_branch_imm(&g->ir, BPF_JSGE, rc, 0, good);
	rut_gen_count(g, n, RUT_SITE_READ);
	rut_ir_place(&g->ir, good);
}

/* What `str(x)` and its like read: user memory where the pointer says so, or by its address. */
enum rut_space rut_call_space(const struct rut_gen *g, const struct rut_type *t)
{
	if (t->kind == RUT_T_POINTER)
		return t->user ? RUT_SPACE_USER : RUT_SPACE_KERNEL;
	if (t->kind == RUT_T_ARRAY)
		return RUT_SPACE_KERNEL;
	return rut_probe_is_user(g->ctx->kind) ? RUT_SPACE_USER : RUT_SPACE_KERNEL;
}

/* print(), clear(), zero(), delete(), len() */

/* "value", "-value", "key", "-key"; 0: reported. */
static int print_order(struct rut_checker *c, const struct rut_node *e)
{
	static const char *const orders[] = {
		[RUT_SCRIPT_PRINT_VALUE_UP] = "value",
		[RUT_SCRIPT_PRINT_VALUE_DOWN] = "-value",
		[RUT_SCRIPT_PRINT_KEY_UP] = "key",
		[RUT_SCRIPT_PRINT_KEY_DOWN] = "-key",
	};

	for (int i = 1; e->kind == RUT_N_STRING && i <= RUT_SCRIPT_PRINT_KEY_DOWN; i++)
		if (!strcmp(orders[i], e->text))
			return i;
	rut_check_error(c, e, "the order is \"value\", \"-value\", \"key\" or \"-key\"");
	return 0;
}

static const struct rut_type *check_whole_map(struct rut_checker *c, struct rut_node *n,
					      enum rut_script_action_kind kind)
{
	struct rut_script_action action = {.kind = kind, .map = -1};
	struct rut_node *m = n->list;
	int64_t v[2] = {0, 0};
	int i = 0;

	if (m->kind != RUT_N_MAP || m->a)
		return rut_check_error(c, m, "%s() takes a map: %s(@x)", n->text, n->text);
	for (struct rut_node *e = m->next; e; e = e->next) {
		if (i == 2) {
			action.order = print_order(c, e);
			if (!action.order)
				return NULL;
			break;
		}
		if (!rut_check_int(c, e, "this"))
			return NULL;
		if (!rut_literal_int(e, &v[i++]))
			return rut_check_error(c, e, "a constant is expected here");
	}
	rut_check_map_name(c, m);
	if (m->index < 0)
		return rut_check_error(c, m, "nothing is ever assigned to %s", m->text);
	if (!c->loud)
		return none();
	if (!c->prog->maps[m->index].value)
		return rut_check_error(c, m, "nothing is ever assigned to %s", m->text);
	action.map = m->index;
	action.top = v[0];
	action.div = v[1];
	n->index = rut_program_action(c->prog, &action, n);
	return none();
}

static const struct rut_type *check_print(struct rut_checker *c, struct rut_node *n)
{
	struct rut_script_action action = {.kind = RUT_ACTION_PRINT_VALUE, .map = -1};
	struct rut_type_field fields[4] = {0};
	const struct rut_type *t;

	if (n->list->kind == RUT_N_MAP && !n->list->a)
		return check_whole_map(c, n, RUT_ACTION_PRINT_MAP);
	if (n->list->next)
		return rut_check_error(c, n->list->next, "only a whole map has top and divisor");
	t = check_shown(c, NULL, n->list, 0);
	if (!t)
		return NULL;
	if (t->kind == RUT_T_VOID)
		return rut_check_error(c, n->list, "this has no value to show");
	if (!c->loud)
		return none();
	if (n->list->kind == RUT_N_MAP && n->list->a) {
		action.map = n->list->index;
		fields[0].type = c->prog->maps[action.map].key;
		fields[1].type = t;
		/* Of an aggregation the key: the consumer reads and merges the value. */
		if (rut_type_is_agg(c->prog->maps[action.map].value))
			action.kind = RUT_ACTION_PRINT_KEY;
		action.args = rut_type_tuple(c->arena, RUT_T_TUPLE, fields,
					     action.kind == RUT_ACTION_PRINT_KEY ? 1 : 2);
	} else {
		fields[0].type = t;
		action.args = rut_type_tuple(c->arena, RUT_T_TUPLE, fields, 1);
		if (!rut_quantile_add(c, &action, n->list, fields, 1))
			return NULL;
	}
	n->index = rut_program_action(c->prog, &action, n);
	return none();
}

static rut_vreg gen_print(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_script_action *a = &g->prog->actions[n->index];
	uint32_t end, header = (uint32_t)sizeof(struct rut_script_event);
	struct rut_mem to;
	rut_vreg record;

	if (a->kind == RUT_ACTION_PRINT_MAP || a->map < 0) {
		rut_gen_send(g, n, a->kind == RUT_ACTION_PRINT_VALUE ? n->list : NULL);
		return 0;
	}
	end = rut_ir_label(&g->ir);
	record = rut_gen_record(g, n, n->index, end);
	to = (struct rut_mem){record, (int32_t)header, RUT_SPACE_BPF};
	rut_gen_zero(g, to, (a->args->size + 7) & ~7u);
	rut_gen_into(g, n->list->a, a->args->fields[0].type, to);
	if (a->kind == RUT_ACTION_PRINT_VALUE) {
		to.off = (int32_t)(header + a->args->fields[1].offset);
		rut_gen_into(g, n->list, a->args->fields[1].type, to);
	}
	rut_gen_submit(g, record);
	rut_ir_place(&g->ir, end);
	return 0;
}

static const struct rut_type *check_clear(struct rut_checker *c, struct rut_node *n)
{
	return check_whole_map(c, n, RUT_ACTION_CLEAR);
}

static const struct rut_type *check_zero(struct rut_checker *c, struct rut_node *n)
{
	return check_whole_map(c, n, RUT_ACTION_ZERO);
}

static rut_vreg gen_signal_only(struct rut_gen *g, struct rut_node *n)
{
	rut_gen_send(g, n, NULL);
	return 0;
}

static const struct rut_type *check_time(struct rut_checker *c, struct rut_node *n)
{
	struct rut_script_action action = {.kind = RUT_ACTION_TIME, .map = -1};

	if (n->list && n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "the format of time() is a constant text");
	action.format = n->list ? n->list->text : "%H:%M:%S\n";
	if (c->loud)
		n->index = rut_program_action(c->prog, &action, n);
	return none();
}

/* delete(@m[k]), delete(@m, k) */
static const struct rut_type *check_delete(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *m = n->list;

	if (m->kind != RUT_N_MAP)
		return rut_check_error(c, m, "delete() takes a map: delete(@x, key)");
	if (m->next) {
		m->a = m->next;
		m->next = NULL;
	}
	if (!rut_check_map(c, m))
		return NULL;
	if (!c->loud)
		return rut_type_simple(RUT_T_BOOL);
	if (!c->prog->maps[m->index].value)
		return rut_check_error(c, m, "nothing is ever assigned to %s", m->text);
	return rut_type_simple(RUT_T_BOOL);
}

static rut_vreg gen_delete(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_script_map *m = &g->prog->maps[n->list->index];
	struct rut_ir_arg key = rut_gen_map_key(g, n->list);
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(RUT_MAP_USER + n->list->index), key};
	uint32_t good;
	rut_vreg rc, done;

	if (m->is_array) {
		rut_vreg at = rut_ir_call(&g->ir, BPF_FUNC_map_lookup_elem, 2, args);

		good = rut_ir_label(&g->ir);
		rut_ir_branch_imm(&g->ir, BPF_JEQ, at, 0, good);
		rut_gen_zero(g, (struct rut_mem){at, 0, RUT_SPACE_BPF}, m->value_bytes);
		rut_ir_place(&g->ir, good);
		return rut_ir_const(&g->ir, 1);
	}
	rc = rut_ir_call(&g->ir, BPF_FUNC_map_delete_elem, 2, args);
	done = rut_ir_reg(&g->ir);
	good = rut_ir_label(&g->ir);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = done, .imm = 1});
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rc, 0, good);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = done});
	rut_ir_place(&g->ir, good);
	return done;
}

static const struct rut_call calls[] = {
	{"printf", RUT_CALL_STATEMENT, 1, 65, check_printf, gen_printf, NULL, NULL},
	{"errorf", RUT_CALL_STATEMENT, 1, 65, check_errorf, gen_printf, NULL, NULL},
	{"warnf", RUT_CALL_STATEMENT, 1, 65, check_warnf, gen_printf, NULL, NULL},
	{"debugf", RUT_CALL_STATEMENT, 1, 65, rut_check_debugf, rut_gen_debugf, NULL, NULL},
	{"getopt", RUT_CALL_VALUE, 1, 3, rut_check_getopt, NULL, NULL, NULL},
	{"cat", RUT_CALL_STATEMENT, 1, 65, check_cat, gen_printf, NULL, NULL},
	{"system", RUT_CALL_STATEMENT, 1, 65, check_system, gen_printf, NULL, NULL},
	{"exit", RUT_CALL_STATEMENT, 0, 1, check_exit, gen_exit, NULL, NULL},
	{"print", RUT_CALL_STATEMENT, 1, 4, check_print, gen_print, NULL, NULL},
	{"clear", RUT_CALL_STATEMENT, 1, 1, check_clear, gen_signal_only, NULL, NULL},
	{"zero", RUT_CALL_STATEMENT, 1, 1, check_zero, gen_signal_only, NULL, NULL},
	{"time", RUT_CALL_STATEMENT, 0, 1, check_time, gen_signal_only, NULL, NULL},
	{"delete", RUT_CALL_STATEMENT | RUT_CALL_VALUE, 1, 2, check_delete, gen_delete, NULL, NULL},
	{"str", RUT_CALL_VALUE, 1, 2, check_str, NULL, gen_str, NULL},
	{"count", RUT_CALL_ASSIGN, 0, 0, rut_check_count, NULL, NULL, rut_update_count},
	{"sum", RUT_CALL_ASSIGN, 1, 1, rut_check_sum, NULL, NULL, rut_update_sum},
	{"avg", RUT_CALL_ASSIGN, 1, 1, rut_check_avg, NULL, NULL, rut_update_avg},
	{"stats", RUT_CALL_ASSIGN, 1, 1, rut_check_stats, NULL, NULL, rut_update_avg},
	{"min", RUT_CALL_ASSIGN, 1, 1, rut_check_min, NULL, NULL, rut_update_min},
	{"max", RUT_CALL_ASSIGN, 1, 1, rut_check_max, NULL, NULL, rut_update_max},
	{"hist", RUT_CALL_ASSIGN, 1, 2, rut_check_hist, NULL, NULL, rut_update_hist},
	{"lhist", RUT_CALL_ASSIGN, 4, 4, rut_check_lhist, NULL, NULL, rut_update_lhist},
	{"tseries", RUT_CALL_ASSIGN, 3, 4, rut_check_tseries, NULL, NULL, rut_update_tseries},
	{"buf", RUT_CALL_VALUE, 1, 2, rut_check_buf, NULL, rut_gen_buf, NULL},
	{"ntop", RUT_CALL_VALUE, 1, 2, rut_check_ntop, NULL, rut_gen_ntop, NULL},
	{"pton", RUT_CALL_VALUE, 1, 1, rut_check_pton, NULL, rut_gen_pton, NULL},
	{"macaddr", RUT_CALL_VALUE, 1, 1, rut_check_macaddr, NULL, rut_gen_macaddr, NULL},
	{"bswap", RUT_CALL_VALUE, 1, 1, rut_check_bswap, rut_gen_bswap, NULL, NULL},
	{"strlen", RUT_CALL_VALUE, 1, 1, rut_check_strlen, rut_gen_strlen, NULL, NULL},
	{"strncmp", RUT_CALL_VALUE, 3, 3, rut_check_strncmp, rut_gen_strncmp, NULL, NULL},
	{"strcontains", RUT_CALL_VALUE, 2, 2, rut_check_strcontains, rut_gen_strcontains, NULL,
	 NULL},
	{"strstr", RUT_CALL_VALUE, 2, 2, rut_check_strcontains, rut_gen_strcontains, NULL, NULL},
	{"len", RUT_CALL_VALUE, 1, 1, rut_check_len, rut_gen_len, NULL, NULL},
	{"has_key", RUT_CALL_VALUE, 1, 2, rut_check_has_key, rut_gen_has_key, NULL, NULL},
	{"strftime", RUT_CALL_VALUE, 2, 2, rut_check_strftime, NULL, rut_gen_strftime, NULL},
	{"strerror", RUT_CALL_VALUE, 1, 1, rut_check_strerror, rut_gen_first, NULL, NULL},
	{"signal_name", RUT_CALL_VALUE, 1, 1, rut_check_signal_name, rut_gen_first, NULL, NULL},
	{"syscall_name", RUT_CALL_VALUE, 1, 1, rut_check_syscall_name, rut_gen_first, NULL, NULL},
	{"cgroup_path", RUT_CALL_VALUE, 1, 2, rut_check_cgroup_path, NULL, rut_gen_cgroup_path,
	 NULL},
	{"cgroupid", RUT_CALL_VALUE, 1, 1, rut_check_cgroupid, NULL, NULL, NULL},
	{"kaddr", RUT_CALL_VALUE, 1, 1, rut_check_kaddr, NULL, NULL, NULL},
	{"uaddr", RUT_CALL_VALUE, 1, 1, rut_check_uaddr, rut_gen_uaddr, NULL, NULL},
	{"percpu_kaddr", RUT_CALL_VALUE, 1, 2, rut_check_percpu_kaddr, rut_gen_percpu_kaddr, NULL,
	 NULL},
	{"container_of", RUT_CALL_VALUE, 3, 3, rut_check_container_of, rut_gen_container_of, NULL,
	 NULL},
	{"reg", RUT_CALL_VALUE, 1, 1, rut_check_reg, rut_gen_reg, NULL, NULL},
	{"kptr", RUT_CALL_VALUE, 1, 1, rut_check_space, rut_gen_first, NULL, NULL},
	{"uptr", RUT_CALL_VALUE, 1, 1, rut_check_space, rut_gen_first, NULL, NULL},
	{"nsecs", RUT_CALL_VALUE, 0, 1, rut_check_nsecs, rut_gen_nsecs, NULL, NULL},
	{"signal", RUT_CALL_STATEMENT, 1, 1, rut_check_signal, rut_gen_signal, NULL, NULL},
	{"record", RUT_CALL_STATEMENT, 2, 65, rut_check_record, rut_gen_record_call, NULL, NULL},
	{"snapshot", RUT_CALL_STATEMENT, 1, 1, rut_check_snapshot, rut_gen_act, NULL, NULL},
	{"stop", RUT_CALL_STATEMENT, 0, 0, rut_check_stop, rut_gen_act, NULL, NULL},
	{"join", RUT_CALL_STATEMENT, 1, 2, rut_check_join, rut_gen_join, NULL, NULL},
	{"pid", RUT_CALL_VALUE, 0, 1, rut_check_pid, rut_gen_pid, NULL, NULL},
	{"tid", RUT_CALL_VALUE, 0, 1, rut_check_pid, rut_gen_pid, NULL, NULL},
	{"ppid", RUT_CALL_VALUE, 0, 1, rut_check_task_number, rut_gen_task_number, NULL, NULL},
	{"leader_tid", RUT_CALL_VALUE, 0, 1, rut_check_task_number, rut_gen_task_number, NULL,
	 NULL},
	{"pcomm", RUT_CALL_VALUE, 0, 1, rut_check_task_text, NULL, rut_gen_task_text, NULL},
	{"leader_comm", RUT_CALL_VALUE, 0, 1, rut_check_task_text, NULL, rut_gen_task_text, NULL},
	{"override", RUT_CALL_STATEMENT, 1, 1, rut_check_override, rut_gen_override, NULL, NULL},
	{"write_user", RUT_CALL_STATEMENT | RUT_CALL_VALUE, 3, 3, rut_check_write_user,
	 rut_gen_write_user, NULL, NULL},
	{"signal_thread", RUT_CALL_STATEMENT, 1, 1, rut_check_signal, rut_gen_signal, NULL, NULL},
	{"str_concat", RUT_CALL_VALUE, 2, 2, rut_check_concat, NULL, rut_gen_concat, NULL},
	{"matches", RUT_CALL_VALUE, 2, 65, rut_check_matches, rut_gen_matches, NULL, NULL},
	{"glob", RUT_CALL_VALUE, 2, 65, rut_check_matches, rut_gen_matches, NULL, NULL},
	{"percentile", RUT_CALL_VALUE, 2, 2, rut_check_quantile, rut_gen_quantile, NULL, NULL},
	{"p50", RUT_CALL_VALUE, 1, 1, rut_check_quantile, rut_gen_quantile, NULL, NULL},
	{"p75", RUT_CALL_VALUE, 1, 1, rut_check_quantile, rut_gen_quantile, NULL, NULL},
	{"p90", RUT_CALL_VALUE, 1, 1, rut_check_quantile, rut_gen_quantile, NULL, NULL},
	{"p95", RUT_CALL_VALUE, 1, 1, rut_check_quantile, rut_gen_quantile, NULL, NULL},
	{"p99", RUT_CALL_VALUE, 1, 1, rut_check_quantile, rut_gen_quantile, NULL, NULL},
	{"p999", RUT_CALL_VALUE, 1, 1, rut_check_quantile, rut_gen_quantile, NULL, NULL},
	{"is_str", RUT_CALL_VALUE, 1, 1, rut_check_is, NULL, NULL, NULL},
	{"is_array", RUT_CALL_VALUE, 1, 1, rut_check_is, NULL, NULL, NULL},
	{"is_ptr", RUT_CALL_VALUE, 1, 1, rut_check_is, NULL, NULL, NULL},
	{"is_integer", RUT_CALL_VALUE, 1, 1, rut_check_is, NULL, NULL, NULL},
	{"is_unsigned_integer", RUT_CALL_VALUE, 1, 1, rut_check_is, NULL, NULL, NULL},
	{"is_literal", RUT_CALL_VALUE, 1, 1, rut_check_is, NULL, NULL, NULL},
	{"fail", RUT_CALL_STATEMENT, 1, 65, rut_check_fail, NULL, NULL, NULL},
	{"static_assert", RUT_CALL_STATEMENT, 2, 2, rut_check_static_assert, NULL, NULL, NULL},
	{"kfunc_exist", RUT_CALL_VALUE, 1, 1, rut_check_kfunc, NULL, NULL, NULL},
	{"kfunc_allowed", RUT_CALL_VALUE, 1, 1, rut_check_kfunc, NULL, NULL, NULL},
	{"skboutput", RUT_CALL_VALUE, 0, 9, rut_check_no_skboutput, NULL, NULL, NULL},
	{"path", RUT_CALL_VALUE, 1, 2, rut_check_path, NULL, rut_gen_path, NULL},
	{"kstack", RUT_CALL_VALUE, 0, 2, rut_check_kstack, NULL, rut_gen_stack, NULL},
	{"in", RUT_CALL_VALUE, 1, 1, rut_check_in, rut_gen_in, NULL, NULL},
	{"rstack", RUT_CALL_VALUE, 0, 1, rut_check_rstack, NULL, rut_gen_rstack, NULL},
	{"ustack", RUT_CALL_VALUE, 0, 2, rut_check_ustack, NULL, rut_gen_stack, NULL},
	{"ksym", RUT_CALL_VALUE, 1, 1, rut_check_ksym, rut_gen_first, NULL, NULL},
	{"usym", RUT_CALL_VALUE, 1, 1, rut_check_usym, NULL, rut_gen_usym, NULL},
};

const struct rut_call *rut_call_find(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return &calls[i];
	return NULL;
}

void rut_call_nearest(struct rut_nearest *near)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		rut_nearest_add(near, calls[i].name);
}
