/* SPDX-License-Identifier: MIT */
#include "script/portable_insns.h"

#include <linux/bpf.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "ebpf/asm.h"
#include "script/fact.h"
#include "script/script.h"

enum { LOAD_IMM64 = BPF_LD | BPF_IMM | BPF_DW, CALL = BPF_JMP | BPF_CALL };

/* path() and the namespaces of pid are of one machine. */
static const int32_t helpers[] = {
	BPF_FUNC_map_lookup_elem,	 BPF_FUNC_map_update_elem,   BPF_FUNC_map_delete_elem,
	BPF_FUNC_map_lookup_percpu_elem, BPF_FUNC_for_each_map_elem, BPF_FUNC_loop,
	BPF_FUNC_probe_read_user,	 BPF_FUNC_probe_read_kernel, BPF_FUNC_probe_read_user_str,
	BPF_FUNC_probe_read_kernel_str,	 BPF_FUNC_ktime_get_ns,	     BPF_FUNC_ktime_get_boot_ns,
	BPF_FUNC_ktime_get_tai_ns,	 BPF_FUNC_jiffies64,	     BPF_FUNC_get_smp_processor_id,
	BPF_FUNC_get_numa_node_id,	 BPF_FUNC_get_prandom_u32,   BPF_FUNC_get_current_pid_tgid,
	BPF_FUNC_get_current_uid_gid,	 BPF_FUNC_get_current_comm,  BPF_FUNC_get_current_cgroup_id,
	BPF_FUNC_get_current_task,	 BPF_FUNC_get_stack,	     BPF_FUNC_ringbuf_reserve,
	BPF_FUNC_ringbuf_submit,
};

static const int32_t unsafe_helpers[] = {
	BPF_FUNC_send_signal,
	BPF_FUNC_send_signal_thread,
	BPF_FUNC_probe_write_user,
	BPF_FUNC_override_return,
};

static bool is_among(int32_t helper, const int32_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == helper)
			return true;
	return false;
}

static bool is_unsafe_helper(int32_t helper)
{
	return is_among(helper, unsafe_helpers, sizeof(unsafe_helpers) / sizeof(*unsafe_helpers));
}

static bool is_jump(const struct bpf_insn *i)
{
	return BPF_CLASS(i->code) == BPF_JMP || BPF_CLASS(i->code) == BPF_JMP32;
}

/* A call of another kind has a `src_reg` or another code. */
static bool is_sane_call(const struct bpf_insn *i)
{
	return i->code == CALL && !i->src_reg &&
	       (is_among(i->imm, helpers, sizeof(helpers) / sizeof(*helpers)) ||
		is_unsafe_helper(i->imm));
}

/* Does a function of a loop begin there? */
static bool is_function(const struct rut_script_prog *prog, int64_t insn)
{
	for (uint32_t i = 0; i < prog->nfunctions; i++)
		if (prog->functions[i] == insn)
			return true;
	return false;
}

/* A load of 64 bits at `at`, which has two slots. `named`: one of map_refs is at it. */
static bool is_sane_load(const struct rut_script_prog *prog, size_t at, bool named)
{
	const struct bpf_insn *i = &prog->insns[at];

	if (at + 1 == prog->ninsns || i[1].code)
		return false;
	switch (i->src_reg) {
	case 0:
		return !named;
	case BPF_PSEUDO_MAP_FD:
	case BPF_PSEUDO_MAP_VALUE:
		return named;
	case BPF_PSEUDO_FUNC:
		return !named && is_function(prog, (int64_t)at + 1 + i->imm);
	default:
		return false;
	}
}

/* The number of a fact is that of a calculation or a comparison, or the offset of a load. */
static bool has_number(const struct bpf_insn *i)
{
	uint8_t op = BPF_OP(i->code);

	switch (BPF_CLASS(i->code)) {
	case BPF_LDX:
		return true;
	case BPF_ALU:
	case BPF_ALU64:
		return BPF_SRC(i->code) == BPF_K;
	default:
		return is_jump(i) && BPF_SRC(i->code) == BPF_K && op != BPF_CALL &&
		       op != BPF_EXIT && op != BPF_JA;
	}
}

bool rut_portable_insns_are_sane(const struct rut_script_prog *prog)
{
	_cleanup_free_ bool *named = calloc(prog->ninsns + 1, sizeof(*named));
	size_t found = 0;

	if (!named)
		return false;
	for (size_t i = 0; i < prog->nmap_refs; i++) {
		found += !named[prog->map_refs[i].insn];
		named[prog->map_refs[i].insn] = true;
	}
	for (size_t i = 0; i < prog->nrelos; i++)
		if (!has_number(&prog->insns[prog->relos[i].insn]))
			return false;
	for (size_t i = 0; i < prog->ninsns; i++) {
		const struct bpf_insn *insn = &prog->insns[i];

		if (insn->code == LOAD_IMM64) {
			if (!is_sane_load(prog, i, named[i]))
				return false;
			found -= named[i++];
		} else if (is_jump(insn) && BPF_OP(insn->code) == BPF_CALL && !is_sane_call(insn)) {
			return false;
		}
	}
	/* All of map_refs were at loads. */
	return !found;
}

static bool has_unsafe_call(const struct rut_script_prog *prog)
{
	for (size_t i = 0; i < prog->ninsns; i++)
		if (prog->insns[i].code == CALL && is_unsafe_helper(prog->insns[i].imm))
			return true;
	return false;
}

bool rut_portable_is_unsafe(const struct rut_script_program *p)
{
	for (size_t i = 0; i < p->nactions; i++)
		if (p->actions[i].kind == RUT_ACTION_SYSTEM)
			return true;
	for (size_t i = 0; i < p->nprogs; i++)
		if (has_unsafe_call(&p->progs[i]))
			return true;
	return false;
}
