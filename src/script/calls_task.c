/* SPDX-License-Identifier: MIT */
/* What the kernel's task_struct says of a thread, its leader and its parent. */
#include <linux/bpf.h>
#include <string.h>

#include "script/btf.h"
#include "script/calls.h"
#include "script/gen.h"

/* ppid, pcomm, leader_comm, leader_tid: of the current thread, or of a given task_struct. */
static const struct task_value {
	const char *name;
	const char *through, *field; /* of the task that `through` points to */
	uint32_t size;
} values[] = {
	{"ppid", "real_parent", "tgid", 4},
	{"pcomm", "real_parent", "comm", 16},
	{"leader_comm", "group_leader", "comm", 16},
	{"leader_tid", "group_leader", "pid", 4},
};

static const struct task_value *value_of(const struct rut_node *n)
{
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (!strcmp(values[i].name, n->text))
			return &values[i];
	return &values[0];
}

static bool check_task(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t =
		n->kind == RUT_N_CALL && n->list ? rut_check_expr(c, n->list) : NULL;

	if (n->kind != RUT_N_CALL || !n->list)
		return true;
	if (t && !rut_type_is_scalar(t))
		rut_check_error(c, n->list, "%s() takes a pointer to a task_struct", n->text);
	return t && rut_type_is_scalar(t);
}

const struct rut_type *rut_check_task_number(struct rut_checker *c, struct rut_node *n)
{
	return check_task(c, n) ? rut_type_int(4, false) : NULL;
}

const struct rut_type *rut_check_task_text(struct rut_checker *c, struct rut_node *n)
{
	return check_task(c, n) ? rut_type_string(c->arena, 16) : NULL;
}

/* The address of the field; 0: there is no BTF. */
static rut_vreg task_field(struct rut_gen *g, struct rut_node *n)
{
	const struct task_value *v = value_of(n);
	int64_t through = rut_kernel_offset(g->prog, "struct task_struct", v->through);
	int64_t field = rut_kernel_offset(g->prog, "struct task_struct", v->field);
	struct rut_mem room = rut_gen_room(g, n, 8);
	rut_vreg task;

	if (through < 0 || field < 0) {
		rut_gen_fail(g, n, "the kernel has no BTF, which %s needs", n->text);
		return rut_ir_const(&g->ir, 0);
	}
	task = n->kind == RUT_N_CALL && n->list
		       ? rut_gen_scalar(g, n->list)
		       : rut_ir_call(&g->ir, BPF_FUNC_get_current_task, 0, NULL);
	rut_gen_read(g, n, room,
		     (struct rut_mem){task, (int32_t)through, RUT_SPACE_KERNEL,
				      rut_gen_task_fact(g, n, v->through, through, 8)},
		     8);
	return rut_ir_alu_fact(&g->ir, BPF_ADD, rut_ir_load(&g->ir, 8, room.base, room.off), field,
			       rut_gen_task_fact(g, n, v->field, field, v->size));
}

rut_vreg rut_gen_task_number(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg at = task_field(g, n);
	struct rut_mem room = rut_gen_room(g, n, 8);

	rut_gen_read(g, n, room, (struct rut_mem){at, 0, RUT_SPACE_KERNEL}, 4);
	return rut_ir_load(&g->ir, 4, room.base, room.off);
}

void rut_gen_task_text(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	/* As text: kernels before 5.17 leave what was there before behind its zero. */
	rut_gen_read_text(g, n, to, 16, task_field(g, n), RUT_SPACE_KERNEL);
}
