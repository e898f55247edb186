/* SPDX-License-Identifier: MIT */
/* The builtin variables: a table of their types and code. */
#include <asm/ptrace.h>
#include <linux/bpf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "script/calls.h"
#include "script/ruby_probe.h"
#include "script/tracefs.h"
#include "script/user.h"

static const struct rut_type *is_u64(struct rut_checker *c, struct rut_node *n)
{
	return rut_type_int(8, false);
}

static const struct rut_type *is_u32(struct rut_checker *c, struct rut_node *n)
{
	return rut_type_int(4, false);
}

static rut_vreg call0(struct rut_gen *g, int helper)
{
	return rut_ir_call(&g->ir, helper, 0, NULL);
}

static rut_vreg gen_gid(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_alu_imm(&g->ir, BPF_RSH, call0(g, BPF_FUNC_get_current_uid_gid), 32);
}

static rut_vreg gen_uid(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_ext(&g->ir, call0(g, BPF_FUNC_get_current_uid_gid), 4, false);
}

static rut_vreg gen_cpu(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_ext(&g->ir, call0(g, BPF_FUNC_get_smp_processor_id), 4, false);
}

static rut_vreg gen_numaid(struct rut_gen *g, struct rut_node *n)
{
	return call0(g, BPF_FUNC_get_numa_node_id);
}

static rut_vreg gen_rand(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_ext(&g->ir, call0(g, BPF_FUNC_get_prandom_u32), 4, false);
}

static rut_vreg gen_cgroup(struct rut_gen *g, struct rut_node *n)
{
	return call0(g, BPF_FUNC_get_current_cgroup_id);
}

static rut_vreg gen_ncpus(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg v = rut_ir_const(&g->ir, rut_program_ncpus());

	rut_ir_at(&g->ir, rut_ir_count(&g->ir) - 1)->fact = rut_gen_cpus_fact(g);
	return v;
}

static rut_vreg gen_jiffies(struct rut_gen *g, struct rut_node *n)
{
	return call0(g, BPF_FUNC_jiffies64);
}

/* The time since the script began: the consumer writes its begin behind the exit word. */
static const struct rut_type *is_elapsed(struct rut_checker *c, struct rut_node *n)
{
	return c->ctx->ruby ? rut_check_ruby_elapsed(c, n) : rut_type_int(8, false);
}

static rut_vreg gen_elapsed(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg begin;

	if (g->ctx->ruby)
		return rut_gen_ruby_elapsed(g);
	begin = rut_ir_load(&g->ir, 8, rut_gen_begin_time(g), 0);
	return rut_ir_alu(&g->ir, BPF_SUB, call0(g, BPF_FUNC_ktime_get_ns), begin);
}

static const struct rut_type *is_comm(struct rut_checker *c, struct rut_node *n)
{
	if (c->ctx->replay && !rut_check_ruby_comm(c, n))
		return NULL;
	return rut_type_string(c->arena, 16);
}

static void gen_comm(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	struct rut_ir_arg args[] = {rut_gen_arg(to), RUT_ARG_INT(16)};

	if (g->hit) {
		rut_gen_ruby_comm(g, n, to);
		return;
	}
	/* Some kernels (6.1) write nothing behind its zero: equal names were different keys. */
	rut_gen_zero(g, to, 16);
	rut_ir_call(&g->ir, BPF_FUNC_get_current_comm, 2, args);
}

static const struct rut_type *is_args(struct rut_checker *c, struct rut_node *n)
{
	c->uses_args = true;
	if (c->ctx->ruby)
		return rut_check_error(c, n, "of args one is a value: args[0], args.id");
	if (!c->ctx->args)
		return rut_check_error(c, n, "the probe '%s' has no arguments by name",
				       c->ctx->spec->text);
	return c->ctx->args;
}

static void gen_args(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	rut_gen_read(g, n, to, (struct rut_mem){g->ctx_reg, 0, RUT_SPACE_CTX}, n->type->size);
}

static const struct rut_type *is_curtask(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *task = rut_check_named_type(c, "struct task_struct");

	return task ? rut_type_pointer(c->arena, task, false) : rut_type_int(8, false);
}

static rut_vreg gen_curtask(struct rut_gen *g, struct rut_node *n)
{
	return call0(g, BPF_FUNC_get_current_task);
}

static const struct rut_type *is_ctx(struct rut_checker *c, struct rut_node *n)
{
	if (c->ctx->context)
		return rut_type_pointer(c->arena, c->ctx->context, false);
	return rut_type_pointer(c->arena, NULL, false);
}

static rut_vreg gen_ctx(struct rut_gen *g, struct rut_node *n)
{
	return g->ctx_reg;
}

/* fentry and fexit: the context is the function's arguments, behind them its result. */
static bool is_trampoline(const struct rut_probe_ctx *ctx)
{
	return ctx->kind == RUT_PROBE_FENTRY || ctx->kind == RUT_PROBE_FEXIT;
}

/* arg0 ... : of raw tracepoints the words of the context, of functions the registers. */
static const struct rut_type *is_arg(struct rut_checker *c, struct rut_node *n)
{
	int i = atoi(n->text + 3);

	if (c->ctx->kind == RUT_PROBE_RAWTRACEPOINT || is_trampoline(c->ctx))
		return rut_type_int(8, false);
	if (c->ctx->kind == RUT_PROBE_USDT)
		return rut_check_usdt_arg(c, n, i);
	if ((c->ctx->kind == RUT_PROBE_UPROBE || c->ctx->kind == RUT_PROBE_KPROBE) && i < 6)
		return rut_type_int(8, false);
	return rut_check_error(c, n, "the probe '%s' has no %s", c->ctx->spec->text, n->text);
}

/* A word of the context as a number: what the verifier takes for a pointer allows less. */
static rut_vreg context_word(struct rut_gen *g, struct rut_node *n, int32_t off)
{
	struct rut_mem room = rut_gen_room(g, n, 8);

	rut_gen_read(g, n, room, (struct rut_mem){g->ctx_reg, off, RUT_SPACE_KERNEL}, 8);
	return rut_ir_load(&g->ir, 8, room.base, room.off);
}

static rut_vreg gen_arg(struct rut_gen *g, struct rut_node *n)
{
	int i = atoi(n->text + 3);

	if (is_trampoline(g->ctx))
		return context_word(g, n, 8 * i);
	if (g->ctx->kind == RUT_PROBE_RAWTRACEPOINT)
		return rut_ir_load(&g->ir, 8, g->ctx_reg, 8 * i);
	if (g->ctx->kind == RUT_PROBE_USDT)
		return rut_gen_usdt_arg(g, n, i);
	return rut_gen_call_arg(g, i);
}

/* Only static tracepoints have others than integers. */
static void gen_float_arg(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	rut_gen_usdt_float(g, n, atoi(n->text + 3), to);
}

static const struct rut_type *is_retval(struct rut_checker *c, struct rut_node *n)
{
	if (c->ctx->ruby)
		return rut_check_ruby_text(c, n);
	if (c->ctx->kind == RUT_PROBE_FEXIT) {
		c->uses_args = true;
		return c->ctx->retval
			       ? c->ctx->retval
			       : rut_check_error(c, n, "'%s' returns nothing", c->ctx->function);
	}
	if (c->ctx->kind != RUT_PROBE_URETPROBE && c->ctx->kind != RUT_PROBE_KRETPROBE)
		return rut_check_error(c, n, "only probes of returns have retval");
	return rut_type_int(8, false);
}

static rut_vreg gen_retval(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg v;

	if (g->ctx->kind != RUT_PROBE_FEXIT)
		return rut_gen_call_arg(g, -1);
	/* Behind the arguments. */
	v = context_word(g, n, (int32_t)g->ctx->args->size);
	return n->type->size < 8 ? rut_ir_ext(&g->ir, v, n->type->size, n->type->is_signed) : v;
}

static void gen_retval_into(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	if (g->ctx->ruby)
		rut_gen_ruby_text(g, n, to);
	else
		rut_gen_store(g, to, 8, gen_retval(g, n));
}

static const struct rut_type *is_func(struct rut_checker *c, struct rut_node *n)
{
	if (!c->ctx->function)
		return rut_check_error(c, n, "only probes of functions have func");
	c->uses_args = true;
	return rut_type_string(c->arena, (uint32_t)strlen(c->ctx->function) + 1);
}

static void gen_func(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	struct rut_node text = *n;

	text.kind = RUT_N_STRING;
	text.text = g->ctx->function;
	text.len = (uint32_t)strlen(text.text);
	rut_gen_into(g, &text, n->type, to);
}

static const struct rut_type *is_probe(struct rut_checker *c, struct rut_node *n)
{
	c->uses_args = true;
	return rut_type_simple(RUT_T_PROBE);
}

static rut_vreg gen_probe(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_const(&g->ir, g->ctx->probe_index);
}

static const struct rut_type *is_username(struct rut_checker *c, struct rut_node *n)
{
	return rut_type_simple(RUT_T_USERNAME);
}

/* cpid: the process of -c, 0 without. */
static rut_vreg gen_cpid(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_const(&g->ir, g->prog->opts.child ? g->prog->opts.pid : 0);
}

static const struct rut_type *is_bool(struct rut_checker *c, struct rut_node *n)
{
	return rut_type_simple(RUT_T_BOOL);
}

static rut_vreg gen_has_cpid(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_const(&g->ir, g->prog->opts.child);
}

static const struct rut_type *is_probetype(struct rut_checker *c, struct rut_node *n)
{
	n->kind = RUT_N_STRING;
	n->text = c->ctx->kind == RUT_PROBE_BEGIN || c->ctx->kind == RUT_PROBE_END
			  ? "special"
			  : rut_probe_kind_name(c->ctx->kind);
	n->len = (uint32_t)strlen(n->text);
	return rut_type_string(c->arena, n->len + 1);
}

static const struct rut_type *is_default_length(struct rut_checker *c, struct rut_node *n)
{
	n->kind = RUT_N_INT;
	n->op = RUT_INT_UNSIGNED;
	n->value = c->prog->set.max_strlen;
	return rut_type_int(8, false);
}

/* usermode: did the event happen while the CPU ran in user space? */
static const struct rut_type *is_usermode(struct rut_checker *c, struct rut_node *n)
{
	return rut_type_int(1, false);
}

static rut_vreg gen_usermode(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg cs;

	/* begin and end run in rutile's own process. */
	if (rut_probe_is_user(g->ctx->kind) || g->ctx->kind == RUT_PROBE_BEGIN ||
	    g->ctx->kind == RUT_PROBE_END)
		return rut_ir_const(&g->ir, 1);
	if (g->ctx->prog_type != BPF_PROG_TYPE_PERF_EVENT)
		return rut_ir_const(&g->ir, 0);
	/* The selector of the code has the privilege level: 3 in user space. */
	cs = rut_ir_load(&g->ir, 8, g->ctx_reg, offsetof(struct pt_regs, cs));
	return rut_ir_alu_imm(&g->ir, BPF_RSH, rut_ir_alu_imm(&g->ir, BPF_AND, cs, 2), 1);
}

static const struct rut_builtin builtins[] = {
	{"pid", is_u32, rut_gen_pid, NULL},
	{"tid", is_u32, rut_gen_pid, NULL},
	{"ppid", rut_check_task_number, rut_gen_task_number, NULL},
	{"uid", is_u32, gen_uid, NULL},
	{"gid", is_u32, gen_gid, NULL},
	{"nsecs", is_u64, rut_gen_nsecs, NULL},
	{"elapsed", is_elapsed, gen_elapsed, NULL},
	{"cpu", is_u32, gen_cpu, NULL},
	{"ncpus", is_u64, gen_ncpus, NULL},
	{"numaid", is_u32, gen_numaid, NULL},
	{"rand", is_u32, gen_rand, NULL},
	{"cgroup", is_u64, gen_cgroup, NULL},
	{"jiffies", is_u64, gen_jiffies, NULL},
	{"comm", is_comm, NULL, gen_comm},
	{"username", is_username, gen_uid, NULL},
	{"kstack", rut_check_kstack, NULL, rut_gen_stack},
	{"ustack", rut_check_ustack, NULL, rut_gen_stack},
	{"rmethod", rut_check_rmethod, rut_gen_rmethod, NULL},
	{"rrequest", rut_check_rrequest, rut_gen_rrequest, NULL},
	{"rline", rut_check_rline, rut_gen_rline, NULL},
	{"rthread", rut_check_rthread, rut_gen_rthread, NULL},
	{"rstack", rut_check_rstack, NULL, rut_gen_rstack},
	{"curtask", is_curtask, gen_curtask, NULL},
	{"ctx", is_ctx, gen_ctx, NULL},
	{"arg0", is_arg, gen_arg, gen_float_arg},
	{"arg1", is_arg, gen_arg, gen_float_arg},
	{"arg2", is_arg, gen_arg, gen_float_arg},
	{"arg3", is_arg, gen_arg, gen_float_arg},
	{"arg4", is_arg, gen_arg, gen_float_arg},
	{"arg5", is_arg, gen_arg, gen_float_arg},
	{"arg6", is_arg, gen_arg, gen_float_arg},
	{"arg7", is_arg, gen_arg, gen_float_arg},
	{"arg8", is_arg, gen_arg, gen_float_arg},
	{"arg9", is_arg, gen_arg, gen_float_arg},
	{"arg10", is_arg, gen_arg, gen_float_arg},
	{"arg11", is_arg, gen_arg, gen_float_arg},
	{"retval", is_retval, gen_retval, gen_retval_into},
	{"method", rut_check_ruby_text, NULL, rut_gen_ruby_text},
	{"class", rut_check_ruby_text, NULL, rut_gen_ruby_text},
	{"path", rut_check_ruby_text, NULL, rut_gen_ruby_text},
	{"line", rut_check_ruby_line, rut_gen_ruby_line, NULL},
	{"self", rut_check_ruby_self, NULL, NULL},
	{"func", is_func, NULL, gen_func},
	{"args", is_args, NULL, gen_args},
	{"probe", is_probe, gen_probe, NULL},
	{"probetype", is_probetype, NULL, NULL},
	{"cpid", is_u32, gen_cpid, NULL},
	{"has_cpid", is_bool, gen_has_cpid, NULL},
	{"usermode", is_usermode, gen_usermode, NULL},
	{"default_str_length", is_default_length, NULL, NULL},
	{"pcomm", rut_check_task_text, NULL, rut_gen_task_text},
	{"leader_comm", rut_check_task_text, NULL, rut_gen_task_text},
	{"leader_tid", rut_check_task_number, rut_gen_task_number, NULL},
};

const struct rut_builtin *rut_builtin_find(const char *name)
{
	/* As bpftrace's own macros call them. */
	if (!strncmp(name, "__builtin_", 10))
		name += 10;
	for (size_t i = 0; i < sizeof(builtins) / sizeof(*builtins); i++)
		if (!strcmp(builtins[i].name, name))
			return &builtins[i];
	return NULL;
}

void rut_builtin_nearest(struct rut_nearest *near)
{
	for (size_t i = 0; i < sizeof(builtins) / sizeof(*builtins); i++)
		rut_nearest_add(near, builtins[i].name);
}
