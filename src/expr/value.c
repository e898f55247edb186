/* SPDX-License-Identifier: MIT */
/* Operations on values, shared by the binder (which folds constants) and the evaluator. */
#include "expr/expr_priv.h"

#include <math.h>
#include <string.h>

static bool is_number(const struct rut_expr_val *v)
{
	return v->type == RUT_EXPR_INT || v->type == RUT_EXPR_UINT || v->type == RUT_EXPR_FLOAT;
}

static int order_f(double a, double b)
{
	return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
}

/*
 * An integer against a float, exactly: a float beyond the range of integers decides by its sign,
 * any other is compared by its floor and then its fraction.
 */
static int order_int_float(const struct rut_expr_val *a, double f)
{
	double whole;

	if (isnan(f))
		return 2;
	if (f >= 18446744073709551616.0)
		return -1;
	if (f < -9223372036854775808.0)
		return 1;
	whole = floor(f);
	if (a->type == RUT_EXPR_UINT && a->u > INT64_MAX) {
		if (whole < 9223372036854775808.0)
			return 1;
		return a->u < (uint64_t)whole ? -1 : a->u > (uint64_t)whole;
	}
	if (whole >= 9223372036854775808.0)
		return -1;
	if (a->i != (int64_t)whole)
		return a->i < (int64_t)whole ? -1 : 1;
	return f > whole ? -1 : 0;
}

static int order_int(const struct rut_expr_val *a, const struct rut_expr_val *b)
{
	bool big_a = a->type == RUT_EXPR_UINT && a->u > INT64_MAX;
	bool big_b = b->type == RUT_EXPR_UINT && b->u > INT64_MAX;

	if (big_a || big_b) {
		if (!big_b)
			return 1;
		if (!big_a)
			return -1;
		return a->u < b->u ? -1 : a->u > b->u;
	}
	return a->i < b->i ? -1 : a->i > b->i;
}

int rut_expr_compare(const struct rut_expr_val *a, const struct rut_expr_val *b)
{
	int r;

	if (a->type == RUT_EXPR_STR && b->type == RUT_EXPR_STR) {
		r = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);
		if (r)
			return r < 0 ? -1 : 1;
		return a->len < b->len ? -1 : a->len > b->len;
	}
	if (!is_number(a) || !is_number(b))
		return 2;
	if (a->type == RUT_EXPR_FLOAT && b->type == RUT_EXPR_FLOAT)
		return order_f(a->f, b->f);
	if (b->type == RUT_EXPR_FLOAT)
		return order_int_float(a, b->f);
	if (a->type == RUT_EXPR_FLOAT) {
		r = order_int_float(b, a->f);
		return r == 2 ? 2 : -r;
	}
	return order_int(a, b);
}

bool rut_expr_relation(int op, const struct rut_expr_val *a, const struct rut_expr_val *b)
{
	int r = rut_expr_compare(a, b);

	if (r == 2)
		return false;
	switch (op) {
	case OP2('=', '='):
		return r == 0;
	case '<':
		return r < 0;
	case '>':
		return r > 0;
	case OP2('<', '='):
		return r <= 0;
	default:
		return r >= 0;
	}
}

bool rut_expr_truth(const struct rut_expr_val *v)
{
	switch (v->type) {
	case RUT_EXPR_INT:
	case RUT_EXPR_UINT:
		return v->u != 0;
	case RUT_EXPR_FLOAT:
		return v->f != 0;
	default:
		return false;
	}
}

static double to_float(const struct rut_expr_val *v)
{
	return v->type == RUT_EXPR_FLOAT  ? v->f
	       : v->type == RUT_EXPR_UINT ? (double)v->u
					  : (double)v->i;
}

static struct rut_expr_val arith_float(int op, double a, double b)
{
	struct rut_expr_val v = {.type = RUT_EXPR_FLOAT};

	switch (op) {
	case '+':
		v.f = a + b;
		break;
	case '-':
		v.f = a - b;
		break;
	case '*':
		v.f = a * b;
		break;
	case '/':
		v.f = a / b;
		if (b == 0)
			v.type = RUT_EXPR_NONE;
		break;
	case '%':
		v.f = fmod(a, b);
		if (b == 0)
			v.type = RUT_EXPR_NONE;
		break;
	default: /* no bits in a float */
		v.type = RUT_EXPR_NONE;
	}
	return v;
}

/* Both are integers; big: at least one of them is beyond INT64_MAX. */
static struct rut_expr_val arith_int(int op, uint64_t a, uint64_t b, bool big)
{
	struct rut_expr_val v = {.type = big ? RUT_EXPR_UINT : RUT_EXPR_INT};
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case '+':
		v.u = a + b;
		break;
	case '-':
		v.u = a - b;
		v.type = RUT_EXPR_INT;
		break;
	case '*':
		v.u = a * b;
		break;
	case '/':
	case '%':
		if (!b) {
			v.type = RUT_EXPR_NONE;
			break;
		}
		if (big)
			v.u = op == '/' ? a / b : a % b;
		else if (sb == -1)
			v.u = op == '/' ? 0 - a : 0; /* INT64_MIN / -1 would trap */
		else
			v.i = op == '/' ? sa / sb : sa % sb;
		break;
	case '&':
		v.u = a & b;
		break;
	case '|':
		v.u = a | b;
		break;
	case '^':
		v.u = a ^ b;
		break;
	case OP2('<', '<'):
		v.u = b < 64 ? a << b : 0;
		break;
	case OP2('>', '>'):
		v.u = big ? (b < 64 ? a >> b : 0) : (uint64_t)(sa >> (b < 63 ? b : 63));
		break;
	}
	return v;
}

struct rut_expr_val rut_expr_arith(int op, const struct rut_expr_val *a,
				   const struct rut_expr_val *b)
{
	if (!is_number(a) || !is_number(b))
		return (struct rut_expr_val){.type = RUT_EXPR_NONE};
	if (a->type == RUT_EXPR_FLOAT || b->type == RUT_EXPR_FLOAT)
		return arith_float(op, to_float(a), to_float(b));
	return arith_int(op, a->u, b->u,
			 (a->type == RUT_EXPR_UINT && a->u > INT64_MAX) ||
				 (b->type == RUT_EXPR_UINT && b->u > INT64_MAX));
}
