/* SPDX-License-Identifier: MIT */
/*
 * Maps in programs. No update is lost: what many CPUs change is added to atomically, in a value
 * that is there before, made of zeros when it is not; two CPUs that make it at once both find the
 * one that was made. A map that is full is counted, at the statement.
 */
#include <linux/bpf.h>

#include "script/gen.h"

static struct rut_script_map *map_of(const struct rut_gen *g, const struct rut_node *n)
{
	return &g->prog->maps[n->index];
}

static int number(const struct rut_node *n)
{
	return RUT_MAP_USER + n->index;
}

struct rut_ir_arg rut_gen_map_key(struct rut_gen *g, struct rut_node *map)
{
	const struct rut_script_map *m = map_of(g, map);
	struct rut_mem room;

	if (!m->key) {
		room = rut_gen_room(g, map, 8);
		rut_gen_zero(g, room, 8);
		return rut_gen_arg(room);
	}
	if (!rut_type_is_scalar(m->key) && rut_type_same_layout(m->key, map->a->type))
		return rut_gen_arg(rut_gen_mem(g, map->a));
	room = rut_gen_room(g, map, m->key->size);
	rut_gen_into(g, map->a, m->key, room);
	return rut_gen_arg(room);
}

static rut_vreg lookup(struct rut_gen *g, const struct rut_node *n, struct rut_ir_arg key)
{
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(number(n)), key};

	return rut_ir_call(&g->ir, BPF_FUNC_map_lookup_elem, 2, args);
}

rut_vreg rut_gen_map_lookup(struct rut_gen *g, struct rut_node *map)
{
	return lookup(g, map, rut_gen_map_key(g, map));
}

/* The value of a new entry: on the stack, or a map's that is never written. */
static struct rut_mem zero_value(struct rut_gen *g, const struct rut_node *n, uint32_t size)
{
	struct rut_mem m = {0, 0, RUT_SPACE_BPF};

	size = (size + 7) & ~7u;
	if (size <= 32) {
		m = rut_gen_room(g, n, size);
		rut_gen_zero(g, m, size);
		return m;
	}
	if (size > g->prog->zeros_bytes)
		g->prog->zeros_bytes = size;
	m.base = rut_ir_reg(&g->ir);
	rut_ir_add(&g->ir,
		   (struct rut_ir_insn){.op = RUT_IR_VALUE, .dst = m.base, .imm = RUT_MAP_ZEROS});
	return m;
}

/* The value of a map without key, of this CPU if each has one. */
static rut_vreg array_value(struct rut_gen *g, struct rut_node *map, uint32_t none)
{
	const struct rut_script_map *m = map_of(g, map);
	rut_vreg v = rut_ir_reg(&g->ir);

	if (!m->per_cpu) {
		rut_ir_add(&g->ir,
			   (struct rut_ir_insn){.op = RUT_IR_VALUE, .dst = v, .imm = number(map)});
		return v;
	}
	rut_ir_mov(&g->ir, v, lookup(g, map, rut_gen_map_key(g, map)));
	rut_ir_branch_imm(&g->ir, BPF_JEQ, v, 0, none);
	return v;
}

rut_vreg rut_gen_map_value(struct rut_gen *g, struct rut_node *map, uint32_t none)
{
	const struct rut_script_map *m = map_of(g, map);
	struct rut_ir_arg key;
	rut_vreg v = rut_ir_reg(&g->ir);
	uint32_t found = rut_ir_label(&g->ir);
	struct rut_mem zeros;

	if (m->is_array) {
		v = array_value(g, map, none);
		rut_ir_store_imm(&g->ir, 8, v, (int32_t)m->set_at, 1);
		return v;
	}
	key = rut_gen_map_key(g, map);
	rut_ir_mov(&g->ir, v, lookup(g, map, key));
	rut_ir_branch_imm(&g->ir, BPF_JNE, v, 0, found);
	zeros = zero_value(g, map, m->value->size);
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(number(map)), key, rut_gen_arg(zeros),
				    RUT_ARG_INT(BPF_NOEXIST)};
	rut_ir_call(&g->ir, BPF_FUNC_map_update_elem, 4, args);
	rut_ir_mov(&g->ir, v, lookup(g, map, key));
	rut_ir_branch_imm(&g->ir, BPF_JNE, v, 0, found);
	rut_gen_count(g, map, RUT_SITE_MAP);
	rut_ir_jump(&g->ir, none);
	rut_ir_place(&g->ir, found);
	return v;
}

/* Through memory: what the verifier knows to be a map allows no arithmetic. */
rut_vreg rut_gen_map_address(struct rut_gen *g, struct rut_node *map)
{
	struct rut_mem room = rut_gen_room(g, map, 8), copy = rut_gen_room(g, map, 8);
	struct rut_mem from = {rut_gen_pointer(g, room), 0, RUT_SPACE_KERNEL};
	rut_vreg at = rut_ir_reg(&g->ir);

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_MAP, .dst = at, .imm = number(map)});
	rut_ir_store(&g->ir, 8, room.base, room.off, at);
	rut_gen_read(g, map, copy, from, 8);
	return rut_ir_load(&g->ir, 8, copy.base, copy.off);
}

/* One word of a CPU's value into the sum or extreme over all. */
static void merge_word(struct rut_gen *g, const struct rut_type *t, rut_vreg at, rut_vreg result,
		       rut_vreg seen)
{
	rut_vreg v = rut_ir_load(&g->ir, 8, at, 0);
	uint32_t end = rut_ir_label(&g->ir), take = rut_ir_label(&g->ir);
	uint8_t keeps = t->kind == RUT_T_MAX ? t->is_signed ? BPF_JSGE : BPF_JGE
			: t->is_signed	     ? BPF_JSLE
					     : BPF_JLE;

	if (t->kind != RUT_T_MIN && t->kind != RUT_T_MAX) {
		rut_ir_mov(&g->ir, result, rut_ir_alu(&g->ir, BPF_ADD, result, v));
		if (t->kind == RUT_T_AVG || t->kind == RUT_T_STATS)
			rut_ir_mov(
				&g->ir, seen,
				rut_ir_alu(&g->ir, BPF_ADD, seen, rut_ir_load(&g->ir, 8, at, 8)));
		return;
	}
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rut_ir_load(&g->ir, 8, at, 8), 0, end);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, seen, 0, take);
	rut_ir_branch(&g->ir, keeps, result, v, end);
	rut_ir_place(&g->ir, take);
	rut_ir_mov(&g->ir, result, v);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = seen, .imm = 1});
	rut_ir_place(&g->ir, end);
}

/* A loop over the CPUs, of which the verifier knows the number. */
static rut_vreg merged(struct rut_gen *g, const struct rut_script_map *m, int map,
		       struct rut_ir_arg key, rut_vreg *ret_count)
{
	rut_vreg cpu = rut_ir_reg(&g->ir), result = rut_ir_reg(&g->ir), seen = rut_ir_reg(&g->ir);
	uint32_t head = rut_ir_label(&g->ir), next = rut_ir_label(&g->ir),
		 end = rut_ir_label(&g->ir);
	rut_vreg at;

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = cpu});
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = result});
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = seen});
	rut_ir_place(&g->ir, head);
	rut_ir_branch_imm(&g->ir, BPF_JGE, cpu, rut_program_ncpus(), end);
	rut_ir_at(&g->ir, rut_ir_count(&g->ir) - 1)->fact = rut_gen_cpus_fact(g);
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(map), key, RUT_ARG(cpu)};
	at = rut_ir_call(&g->ir, BPF_FUNC_map_lookup_percpu_elem, 3, args);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, at, 0, next);
	merge_word(g, m->value, at, result, seen);
	rut_ir_place(&g->ir, next);
	rut_ir_add(&g->ir,
		   (struct rut_ir_insn){
			   .op = RUT_IR_ALU, .sub = BPF_ADD, .dst = cpu, .a = cpu, .imm = 1});
	rut_ir_jump(&g->ir, head);
	rut_ir_place(&g->ir, end);
	if (ret_count)
		*ret_count = seen;
	else if (m->value->kind == RUT_T_AVG)
		return m->value->is_signed ? rut_gen_signed_division(g, result, seen)
					   : rut_ir_alu(&g->ir, BPF_DIV, result, seen);
	return result;
}

rut_vreg rut_gen_merged(struct rut_gen *g, const struct rut_node *n, const struct rut_script_map *m,
			int map, struct rut_ir_arg key)
{
	return merged(g, m, map, key, NULL);
}

void rut_gen_map_sums(struct rut_gen *g, struct rut_node *map, rut_vreg ret[2])
{
	ret[0] = merged(g, map_of(g, map), number(map), rut_gen_map_key(g, map), &ret[1]);
}

static rut_vreg get_merged(struct rut_gen *g, struct rut_node *n)
{
	return rut_gen_merged(g, n, map_of(g, n), number(n), rut_gen_map_key(g, n));
}

rut_vreg rut_gen_map_get(struct rut_gen *g, struct rut_node *n)
{
	const struct rut_script_map *m = map_of(g, n);
	rut_vreg at, v = rut_ir_reg(&g->ir);
	uint32_t end = rut_ir_label(&g->ir);
	struct rut_mem from;

	if (rut_type_is_agg(m->value))
		return get_merged(g, n);
	if (m->is_array) {
		at = array_value(g, n, end);
		from = (struct rut_mem){at, 0, RUT_SPACE_BPF};
		return rut_gen_load(g, m->value, from, n);
	}
	at = rut_gen_map_lookup(g, n);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = v});
	rut_ir_branch_imm(&g->ir, BPF_JEQ, at, 0, end);
	from = (struct rut_mem){at, 0, RUT_SPACE_BPF};
	rut_ir_mov(&g->ir, v, rut_gen_load(g, m->value, from, n));
	rut_ir_place(&g->ir, end);
	return v;
}

void rut_gen_map_get_into(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	const struct rut_script_map *m = map_of(g, n);
	uint32_t none = rut_ir_label(&g->ir), end = rut_ir_label(&g->ir);
	rut_vreg at = m->is_array ? array_value(g, n, none) : rut_gen_map_lookup(g, n);

	if (!m->is_array)
		rut_ir_branch_imm(&g->ir, BPF_JEQ, at, 0, none);
	rut_gen_copy(g, to, (struct rut_mem){at, 0, RUT_SPACE_BPF}, m->value->size);
	rut_ir_jump(&g->ir, end);
	rut_ir_place(&g->ir, none);
	rut_gen_zero(g, to, m->value->size);
	rut_ir_place(&g->ir, end);
}

static void gen_aggregate(struct rut_gen *g, struct rut_node *map, struct rut_node *value)
{
	const struct rut_call *call = value->what;
	uint32_t none = rut_ir_label(&g->ir);

	call->update(g, value, rut_gen_map_value(g, map, none));
	rut_ir_place(&g->ir, none);
}

void rut_gen_map_set(struct rut_gen *g, struct rut_node *map, struct rut_node *value)
{
	const struct rut_script_map *m = map_of(g, map);
	struct rut_mem room;
	uint32_t good = rut_ir_label(&g->ir);
	rut_vreg rc;

	if (rut_type_is_agg(m->value)) {
		gen_aggregate(g, map, value);
		return;
	}
	if (m->is_array && rut_type_is_scalar(m->value)) {
		rut_vreg v = rut_gen_scalar(g, value);

		rut_ir_store(&g->ir, m->value->size, rut_gen_map_value(g, map, good), 0, v);
		rut_ir_place(&g->ir, good);
		return;
	}
	if (!rut_type_is_scalar(m->value) && rut_type_same_layout(value->type, m->value)) {
		room = rut_gen_mem(g, value);
	} else {
		room = rut_gen_room(g, map, m->value->size);
		rut_gen_into(g, value, m->value, room);
	}
	if (m->is_array) {
		struct rut_mem to = {array_value(g, map, good), 0, RUT_SPACE_BPF};

		rut_gen_copy(g, to, room, m->value->size);
		rut_ir_store_imm(&g->ir, 8, to.base, (int32_t)m->set_at, 1);
		rut_ir_place(&g->ir, good);
		return;
	}
	struct rut_ir_arg args[] = {RUT_ARG_MAPNO(number(map)), rut_gen_map_key(g, map),
				    rut_gen_arg(room), RUT_ARG_INT(BPF_ANY)};
	rc = rut_ir_call(&g->ir, BPF_FUNC_map_update_elem, 4, args);
	rut_ir_branch_imm(&g->ir, BPF_JEQ, rc, 0, good);
	rut_gen_count(g, map, RUT_SITE_MAP);
	rut_ir_place(&g->ir, good);
}

rut_vreg rut_gen_map_add(struct rut_gen *g, struct rut_node *map, rut_vreg by, bool wanted)
{
	uint32_t none = rut_ir_label(&g->ir);
	rut_vreg at, old = 0;

	if (wanted) {
		old = rut_ir_reg(&g->ir);
		rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = old});
	}
	at = rut_gen_map_value(g, map, none);
	if (wanted)
		rut_ir_add(&g->ir,
			   (struct rut_ir_insn){.op = RUT_IR_FETCH, .dst = old, .a = at, .b = by});
	else
		rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_ADD, .a = at, .b = by});
	rut_ir_place(&g->ir, none);
	return old;
}
