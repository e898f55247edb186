/* SPDX-License-Identifier: MIT */
/* The builtin variables: a table of their types and code. */
#include <linux/bpf.h>
#include <string.h>

#include "script/calls.h"
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

static rut_vreg gen_pid(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_alu_imm(&g->ir, BPF_RSH, call0(g, BPF_FUNC_get_current_pid_tgid), 32);
}

static rut_vreg gen_tid(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_ext(&g->ir, call0(g, BPF_FUNC_get_current_pid_tgid), 4, false);
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
	return rut_ir_const(&g->ir, rut_program_ncpus());
}

static rut_vreg gen_jiffies(struct rut_gen *g, struct rut_node *n)
{
	return call0(g, BPF_FUNC_jiffies64);
}

/* The time since the script began: the consumer writes its begin behind the exit word. */
static rut_vreg gen_elapsed(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg begin = rut_ir_load(&g->ir, 8, rut_gen_begin_time(g), 0);

	return rut_ir_alu(&g->ir, BPF_SUB, call0(g, BPF_FUNC_ktime_get_ns), begin);
}

static const struct rut_type *is_comm(struct rut_checker *c, struct rut_node *n)
{
	return rut_type_string(c->arena, 16);
}

static void gen_comm(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	struct rut_ir_arg args[] = {rut_gen_arg(to), RUT_ARG_INT(16)};

	rut_ir_call(&g->ir, BPF_FUNC_get_current_comm, 2, args);
}

static const struct rut_type *is_args(struct rut_checker *c, struct rut_node *n)
{
	c->uses_args = true;
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
	const struct rut_type *task = rut_kernel_type(c->prog, "struct task_struct");

	return task ? rut_type_pointer(c->arena, task, false) : rut_type_int(8, false);
}

static rut_vreg gen_curtask(struct rut_gen *g, struct rut_node *n)
{
	return call0(g, BPF_FUNC_get_current_task);
}

static const struct rut_type *is_ctx(struct rut_checker *c, struct rut_node *n)
{
	return rut_type_pointer(c->arena, NULL, false);
}

static rut_vreg gen_ctx(struct rut_gen *g, struct rut_node *n)
{
	return g->ctx_reg;
}

/* arg0 ... : of raw tracepoints the words of the context, of functions the registers. */
static const struct rut_type *is_arg(struct rut_checker *c, struct rut_node *n)
{
	int i = n->text[3] - '0';

	if (c->ctx->kind == RUT_PROBE_RAWTRACEPOINT)
		return rut_type_int(8, false);
	if (c->ctx->kind == RUT_PROBE_USDT)
		return rut_check_usdt_arg(c, n, i);
	if (c->ctx->kind == RUT_PROBE_UPROBE && i < 6)
		return rut_type_int(8, false);
	return rut_check_error(c, n, "the probe '%s' has no %s", c->ctx->spec->text, n->text);
}

static rut_vreg gen_arg(struct rut_gen *g, struct rut_node *n)
{
	int i = n->text[3] - '0';

	if (g->ctx->kind == RUT_PROBE_RAWTRACEPOINT)
		return rut_ir_load(&g->ir, 8, g->ctx_reg, 8 * i);
	if (g->ctx->kind == RUT_PROBE_USDT)
		return rut_gen_usdt_arg(g, n, i);
	return rut_gen_call_arg(g, i);
}

static const struct rut_type *is_retval(struct rut_checker *c, struct rut_node *n)
{
	if (c->ctx->kind != RUT_PROBE_URETPROBE)
		return rut_check_error(c, n, "only probes of returns have retval");
	return rut_type_int(8, false);
}

static rut_vreg gen_retval(struct rut_gen *g, struct rut_node *n)
{
	return rut_gen_call_arg(g, -1);
}

static const struct rut_type *is_func(struct rut_checker *c, struct rut_node *n)
{
	if (c->ctx->kind != RUT_PROBE_UPROBE && c->ctx->kind != RUT_PROBE_URETPROBE)
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

static const struct rut_builtin builtins[] = {
	{"pid", is_u32, gen_pid, NULL},
	{"tid", is_u32, gen_tid, NULL},
	{"ppid", is_u32, rut_gen_ppid, NULL},
	{"uid", is_u32, gen_uid, NULL},
	{"gid", is_u32, gen_gid, NULL},
	{"nsecs", is_u64, rut_gen_nsecs, NULL},
	{"elapsed", is_u64, gen_elapsed, NULL},
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
	{"rline", rut_check_rline, rut_gen_rline, NULL},
	{"rthread", rut_check_rthread, rut_gen_rthread, NULL},
	{"rstack", rut_check_rstack, NULL, rut_gen_rstack},
	{"curtask", is_curtask, gen_curtask, NULL},
	{"ctx", is_ctx, gen_ctx, NULL},
	{"arg0", is_arg, gen_arg, NULL},
	{"arg1", is_arg, gen_arg, NULL},
	{"arg2", is_arg, gen_arg, NULL},
	{"arg3", is_arg, gen_arg, NULL},
	{"arg4", is_arg, gen_arg, NULL},
	{"arg5", is_arg, gen_arg, NULL},
	{"arg6", is_arg, gen_arg, NULL},
	{"arg7", is_arg, gen_arg, NULL},
	{"arg8", is_arg, gen_arg, NULL},
	{"arg9", is_arg, gen_arg, NULL},
	{"retval", is_retval, gen_retval, NULL},
	{"func", is_func, NULL, gen_func},
	{"args", is_args, NULL, gen_args},
	{"probe", is_probe, gen_probe, NULL},
};

const struct rut_builtin *rut_builtin_find(const char *name)
{
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
