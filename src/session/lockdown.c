/* SPDX-License-Identifier: MIT */
/*
 * Lockdown 'confidentiality' forbids bpf_probe_read_kernel(). libbpf concludes that the kernel is
 * older than 5.5 and replaces the calls of bpf_probe_read_user(), which are allowed, by those of
 * the old bpf_probe_read(), which are not. Handlers of our own for the sections of our programs put
 * them back just before a program is loaded: libbpf has no other place for it.
 */
#include "session/lockdown.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "session/kernel.h"

/* Our programs call neither the old ones nor, on such a kernel, the forbidden ones. */
static void restore_calls(struct bpf_program *prog)
{
	struct bpf_insn *insn = (struct bpf_insn *)(uintptr_t)bpf_program__insns(prog);

	for (size_t n = bpf_program__insn_cnt(prog); n--; insn++) {
		if (insn->code != (BPF_JMP | BPF_CALL) || insn->src_reg)
			continue;
		if (insn->imm == BPF_FUNC_probe_read)
			insn->imm = BPF_FUNC_probe_read_user;
		else if (insn->imm == BPF_FUNC_probe_read_str)
			insn->imm = BPF_FUNC_probe_read_user_str;
	}
}

static int prepare_plain(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	restore_calls(prog);
	return 0;
}

/* What libbpf's own handler of "tp_btf" does, too. */
static int prepare_tp_btf(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	const char *slash = strchr(bpf_program__section_name(prog), '/');
	int id = slash ? libbpf_find_vmlinux_btf_id(slash + 1, BPF_TRACE_RAW_TP) : -1;

	if (id < 0)
		return id;
	restore_calls(prog);
	opts->attach_btf_id = (__u32)id;
	opts->expected_attach_type = BPF_TRACE_RAW_TP;
	return 0;
}

static int attach_tp_btf(const struct bpf_program *prog, long cookie, struct bpf_link **ret)
{
	*ret = bpf_program__attach_trace(prog);
	return *ret ? 0 : -errno;
}

void rut_lockdown_prepare(void)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, tp_btf, .prog_prepare_load_fn = prepare_tp_btf,
		    .prog_attach_fn = attach_tp_btf);
	LIBBPF_OPTS(libbpf_prog_handler_opts, plain, .prog_prepare_load_fn = prepare_plain);
	static bool done;

	if (done)
		return;
	done = true;
	if (rut_kernel_has_read_helper())
		return;
	if (libbpf_register_prog_handler("tp_btf+", BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP,
					 &tp_btf) < 0 ||
	    libbpf_register_prog_handler("uprobe+", BPF_PROG_TYPE_KPROBE, 0, &plain) < 0 ||
	    libbpf_register_prog_handler("perf_event", BPF_PROG_TYPE_PERF_EVENT, 0, &plain) < 0)
		rut_debug("programs that read user memory may not load");
}
