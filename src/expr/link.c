/* SPDX-License-Identifier: MIT */
/* References to the events that began periods: from names to slots. And printing. */
#include "expr/expr_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void rut_expr_layout_fini(struct rut_expr_layout *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->slots[i].path);
	free(l->slots);
	*l = (struct rut_expr_layout){0};
}

static bool same_ref(const struct rut_expr_ref *a, const struct rut_expr_ref *b)
{
	return a->what == b->what && a->scope == b->scope &&
	       (a->what != REF_FIELD || !strcmp(a->path, b->path));
}

static int find_slot(struct rut_expr_layout *l, const struct rut_expr_ref *ref, uint16_t *ret)
{
	struct rut_expr_slot *slots;

	for (size_t i = 0; i < l->count; i++) {
		if (same_ref(&l->slots[i].ref, ref)) {
			*ret = (uint16_t)i;
			return 0;
		}
	}
	if (l->count >= 1000)
		return -E2BIG;
	slots = realloc(l->slots, (l->count + 1) * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	l->slots = slots;
	slots[l->count] = (struct rut_expr_slot){.ref = *ref};
	if (ref->path) {
		slots[l->count].path = strdup(ref->path);
		if (!slots[l->count].path)
			return -ENOMEM;
		slots[l->count].ref.path = slots[l->count].path;
	}
	*ret = (uint16_t)l->count++;
	return 0;
}

int rut_expr_link(struct rut_expr *e, struct rut_expr_layout *const *layouts, size_t depth,
		  bool at_begin, size_t *ret_column, struct rut_err *err)
{
	for (uint32_t i = 1; i < e->count; i++) {
		struct rut_expr_node *n = &e->nodes[i];

		if (n->kind != NODE_REF || n->ref.depth < 0)
			continue;
		if (ret_column)
			*ret_column = n->column;
		if (n->ref.depth > 0 && (size_t)n->ref.depth >= depth)
			return rut_err_set(
				err, EINVAL, "column %u: cannot refer to a parent: %s", n->column,
				depth <= 1 ? "the period has none" : "the period has fewer");
		if (n->ref.depth == 0 && at_begin) {
			n->ref.depth = -1;
			continue;
		}
		/* At the begin there is no frame of one's own yet: the parent's is the first. */
		if (find_slot(layouts[n->ref.depth], &n->ref, &n->ref.slot))
			return rut_err_set(err, E2BIG, "column %u: too many references", n->column);
		if (at_begin)
			n->ref.depth--;
	}
	return 0;
}

/* ---- Printing ---- */

static void print_string(const struct rut_expr_val *v, bool raw, struct rut_buf *out)
{
	rut_buf_putc(out, '"');
	for (uint32_t i = 0; i < v->len; i++) {
		if (v->s[i] == '"' || (v->s[i] == '\\' && !raw))
			rut_buf_putc(out, '\\');
		/* In a regular expression a backslash may precede the line break. */
		if (v->s[i] == '\n' && !raw)
			rut_buf_puts(out, "\\n");
		else
			rut_buf_putc(out, v->s[i]);
	}
	rut_buf_putc(out, '"');
}

static void print_const(const struct rut_expr_val *v, struct rut_buf *out)
{
	char num[40];

	switch (v->type) {
	case RUT_EXPR_INT:
		rut_buf_printf(out, "%lld", (long long)v->i);
		break;
	case RUT_EXPR_UINT:
		rut_buf_printf(out, "%llu", (unsigned long long)v->u);
		break;
	case RUT_EXPR_FLOAT:
		snprintf(num, sizeof(num), "%.17g", v->f);
		rut_buf_puts(out, num);
		if (!strpbrk(num, ".en"))
			rut_buf_puts(out, ".0");
		break;
	case RUT_EXPR_STR:
		print_string(v, false, out);
		break;
	}
}

static void print_ref(const struct rut_expr_ref *ref, struct rut_buf *out)
{
	static const char *const scopes[] = {
		[RUT_EXPR_AUTO] = "",
		[RUT_EXPR_PAYLOAD] = "$payload.",
		[RUT_EXPR_CTX] = "$ctx.",
		[RUT_EXPR_STREAM_CTX] = "$stream_ctx.",
		[RUT_EXPR_HEADER] = "$header.",
		[RUT_EXPR_PKT_CTX] = "$pkt_ctx.",
		[RUT_EXPR_PKT_HEADER] = "$pkt_header.",
	};

	for (int i = 0; i < ref->depth; i++)
		rut_buf_puts(out, "$parent.");
	if (ref->depth >= 0)
		rut_buf_puts(out, "$begin.");
	rut_buf_puts(out, "$evt.");
	if (ref->what == REF_FIELD)
		rut_buf_printf(out, "%s%s", scopes[ref->scope], ref->path);
	else
		rut_buf_puts(out, ref->what == REF_NAME ? "$name" : "$timestamp");
}

static void print_op(int op, struct rut_buf *out)
{
	rut_buf_putc(out, ' ');
	if (op >> 8)
		rut_buf_putc(out, (char)(op >> 8));
	rut_buf_putc(out, (char)op);
	rut_buf_putc(out, ' ');
}

static void print_node(const struct rut_expr *e, uint32_t node, struct rut_buf *out)
{
	const struct rut_expr_node *n = &e->nodes[node];
	struct rut_expr_val text;

	switch (n->kind) {
	case NODE_CONST:
		print_const(&n->val, out);
		return;
	case NODE_REF:
		print_ref(&n->ref, out);
		return;
	case NODE_NOT:
		/* Arithmetic and comparisons bind tighter than a "!": parentheses around both. */
		rut_buf_puts(out, "(!(");
		print_node(e, n->left, out);
		rut_buf_puts(out, "))");
		return;
	case NODE_NEG:
	case NODE_BITNOT:
		rut_buf_puts(out, n->kind == NODE_NEG ? "-(" : "~(");
		print_node(e, n->left, out);
		rut_buf_putc(out, ')');
		return;
	case NODE_IN:
		rut_buf_putc(out, '(');
		print_node(e, n->left, out);
		rut_buf_puts(out, " in [");
		for (uint32_t i = n->right; i; i = e->nodes[i].right) {
			print_node(e, e->nodes[i].left, out);
			if (e->nodes[i].right)
				rut_buf_puts(out, ", ");
		}
		rut_buf_puts(out, "])");
		return;
	}
	rut_buf_putc(out, '(');
	print_node(e, n->left, out);
	switch (n->kind) {
	case NODE_GLOB:
		print_op(OP2('=', '*'), out);
		print_string(&n->val, false, out);
		break;
	case NODE_REGEX:
		print_op(OP2('=', '~'), out);
		text.s = rut_expr_regex_text(n->regex);
		text.len = (uint32_t)strlen(text.s);
		print_string(&text, true, out);
		break;
	default:
		print_op(n->kind == NODE_AND  ? OP2('&', '&')
			 : n->kind == NODE_OR ? OP2('|', '|')
					      : n->op,
			 out);
		print_node(e, n->right, out);
	}
	rut_buf_putc(out, ')');
}

void rut_expr_print(const struct rut_expr *e, struct rut_buf *out)
{
	print_node(e, e->root, out);
}
