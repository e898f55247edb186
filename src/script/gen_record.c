/* SPDX-License-Identifier: MIT */
/* Records: of the ring that a process reads, or of a session's journal. */
#include <linux/bpf.h>
#include <stddef.h>

#include "script/gen.h"
#include "script/journal.h"
#include "script/ruby_probe.h"

/* Where the parts of a slot are, seen from its record. */
enum {
	EVENT = offsetof(struct rut_script_slot, event),
	TAKEN = (int)offsetof(struct rut_script_slot, taken) - EVENT,
	NUMBER = (int)offsetof(struct rut_script_slot, number) - EVENT,
	NEXT = (int)offsetof(struct rut_script_slot, next) - EVENT,
};

/* The next slot in turn, which is ours until it is submitted; jumps to `lost` when it is taken. */
static rut_vreg take_slot(struct rut_gen *g, const struct rut_node *n, uint32_t lost)
{
	struct rut_gen_mark mark = rut_gen_mark(g);
	struct rut_mem key = rut_gen_room(g, n, 8);
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(RUT_MAP_JOURNAL), rut_gen_arg(key)};
	rut_vreg number = rut_ir_reg(&g->ir), slot = rut_ir_reg(&g->ir), taken = rut_ir_reg(&g->ir),
		 mask;

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_FETCH,
						.dst = number,
						.a = rut_gen_counter(g, RUT_COUNTER_RECORDS),
						.b = rut_ir_const(&g->ir, 1)});
	mask = rut_ir_load(&g->ir, 8, rut_gen_counter(g, RUT_COUNTER_MASK), 0);
	rut_ir_store(&g->ir, 4, key.base, key.off, rut_ir_alu(&g->ir, BPF_AND, number, mask));
	rut_ir_mov(&g->ir, slot, rut_ir_call(&g->ir, BPF_FUNC_map_lookup_elem, 2, args));
	rut_ir_branch_imm(&g->ir, BPF_JEQ, slot, 0, lost);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_XCHG,
						.dst = taken,
						.a = slot,
						.b = rut_ir_const(&g->ir, 1),
						.off = EVENT + TAKEN});
	rut_ir_branch_imm(&g->ir, BPF_JNE, taken, 0, lost);
	rut_ir_store_imm(&g->ir, 8, slot, EVENT + NUMBER, 0);
	rut_ir_store(&g->ir, 8, slot, EVENT + NEXT, rut_ir_alu_imm(&g->ir, BPF_ADD, number, 1));
	rut_gen_release(g, mark);
	return rut_ir_alu_imm(&g->ir, BPF_ADD, slot, EVENT);
}

static rut_vreg reserve(struct rut_gen *g, uint32_t size, uint32_t lost)
{
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(RUT_MAP_RING), RUT_ARG_INT(size), RUT_ARG_INT(0)};
	rut_vreg record = rut_ir_call(&g->ir, BPF_FUNC_ringbuf_reserve, 3, args);

	rut_ir_branch_imm(&g->ir, BPF_JEQ, record, 0, lost);
	return record;
}

rut_vreg rut_gen_record(struct rut_gen *g, const struct rut_node *n, int action, uint32_t none)
{
	const struct rut_script_action *a = &g->prog->actions[action];
	uint32_t data = a->args ? a->args->size : 0;
	uint32_t size = (uint32_t)sizeof(struct rut_script_event) + ((data + 7) & ~7u);
	uint32_t lost = rut_ir_label(&g->ir), good = rut_ir_label(&g->ir);
	rut_vreg record = rut_ir_reg(&g->ir);

	if (size > g->prog->record_max)
		g->prog->record_max = size;
	rut_ir_mov(&g->ir, record,
		   g->prog->opts.session ? take_slot(g, n, lost) : reserve(g, size, lost));
	rut_ir_jump(&g->ir, good);
	rut_ir_place(&g->ir, lost);
	rut_gen_count(g, n, RUT_SITE_LOST);
	rut_ir_jump(&g->ir, none);
	rut_ir_place(&g->ir, good);
	rut_ir_store(&g->ir, 8, record, 0,
		     g->hit ? rut_gen_ruby_time(g, false)
			    : rut_ir_call(&g->ir, BPF_FUNC_ktime_get_ns, 0, NULL));
	rut_ir_store_imm(&g->ir, 4, record, 8, action);
	rut_ir_store(&g->ir, 4, record, 12,
		     rut_ir_call(&g->ir, BPF_FUNC_get_smp_processor_id, 0, NULL));
	return record;
}

void rut_gen_submit(struct rut_gen *g, rut_vreg record)
{
	struct rut_ir_arg args[] = {RUT_ARG(record), RUT_ARG_INT(0)};

	if (!g->prog->opts.session) {
		rut_ir_call(&g->ir, BPF_FUNC_ringbuf_submit, 2, args);
		return;
	}
	rut_ir_store(&g->ir, 8, record, NUMBER, rut_ir_load(&g->ir, 8, record, NEXT));
	rut_ir_store_imm(&g->ir, 8, record, TAKEN, 0);
}
