/* SPDX-License-Identifier: MIT */
/* Functions of maps, times, processes and addresses. */
#include <asm/ptrace.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "probe/binary.h"
#include "probe/kallsyms.h"
#include "script/btf.h"
#include "script/calls.h"
#include "script/ruby_probe.h"

static const struct rut_type *nothing(void)
{
	return rut_type_simple(RUT_T_VOID);
}

/* A call that was calculated when it was compiled. */
static const struct rut_type *become(struct rut_node *n, uint64_t value)
{
	n->kind = RUT_N_INT;
	n->value = value;
	n->op = RUT_INT_UNSIGNED;
	n->type = rut_type_int(8, false);
	return n->type;
}

/* has_key(@m, key) */

const struct rut_type *rut_check_has_key(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *m = n->list;

	if (m->kind != RUT_N_MAP || (m->a && m->next))
		return rut_check_error(c, m, "has_key() takes a map and a key: has_key(@x, 1)");
	m->a = m->a ? m->a : m->next;
	m->next = NULL;
	n->list = m;
	if (!m->a)
		return rut_check_error(c, m, "has_key() takes a map and a key: has_key(@x, 1)");
	rut_check_map_name(c, m);
	if (m->index >= 0 && c->prog->maps[m->index].uses && !c->prog->maps[m->index].key)
		return rut_check_error(c, m, "%s",
				       c->src->as_bpftrace
					       ? "call to has_key() expects a map with explicit "
						 "keys (non-scalar map)"
					       : "has_key() takes a map with keys");
	return rut_check_map(c, m) ? rut_type_simple(RUT_T_BOOL) : NULL;
}

rut_vreg rut_gen_has_key(struct rut_gen *g, struct rut_node *n)
{
	rut_vreg at = rut_gen_map_lookup(g, n->list), r = rut_ir_reg(&g->ir);
	uint32_t end = rut_ir_label(&g->ir);

	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r});
	rut_ir_branch_imm(&g->ir, BPF_JEQ, at, 0, end);
	rut_ir_add(&g->ir, (struct rut_ir_insn){.op = RUT_IR_CONST, .dst = r, .imm = 1});
	rut_ir_place(&g->ir, end);
	return r;
}

/* strftime(format, time) */

const struct rut_type *rut_check_strftime(struct rut_checker *c, struct rut_node *n)
{
	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "the format of strftime() is a constant text");
	if (!rut_check_int(c, n->list->next, "the time"))
		return NULL;
	return rut_type_simple(RUT_T_TIMESTAMP);
}

/* The clock of nsecs(sw_tai) and the like; nsecs is that since the boot. */
static uint32_t clock_of(const struct rut_node *n)
{
	if (n->kind == RUT_N_CALL && !strcmp(n->text, "nsecs") && n->list)
		return !strcmp(n->list->text, "monotonic") ? RUT_SCRIPT_CLOCK_MONOTONIC
		       : !strcmp(n->list->text, "sw_tai") || !strcmp(n->list->text, "tai")
			       ? RUT_SCRIPT_CLOCK_TAI
			       : RUT_SCRIPT_CLOCK_BOOT;
	return RUT_SCRIPT_CLOCK_BOOT;
}

void rut_gen_strftime(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	rut_gen_store(g, to, 8, rut_gen_scalar(g, n->list->next));
	rut_ir_store_imm(&g->ir, 4, to.base, to.off + 8, (int32_t)clock_of(n->list->next));
	rut_ir_store_imm(&g->ir, 4, to.base, to.off + 12,
			 (int32_t)rut_program_string(g->prog, n->list->text));
}

/* nsecs(boot | monotonic | tai) */

static const struct {
	const char *name;
	int helper;
} clocks[] = {
	{"boot", BPF_FUNC_ktime_get_boot_ns},
	{"monotonic", BPF_FUNC_ktime_get_ns},
	{"sw_tai", BPF_FUNC_ktime_get_tai_ns},
	{"tai", BPF_FUNC_ktime_get_tai_ns},
};

static int clock_helper(const struct rut_node *n)
{
	if (!n)
		return BPF_FUNC_ktime_get_boot_ns;
	for (size_t i = 0; n->kind == RUT_N_NAME && i < sizeof(clocks) / sizeof(*clocks); i++)
		if (!strcmp(clocks[i].name, n->text))
			return clocks[i].helper;
	return -1;
}

const struct rut_type *rut_check_nsecs(struct rut_checker *c, struct rut_node *n)
{
	if (clock_helper(n->list) < 0)
		return rut_check_error(c, n->list, "the clocks are boot, monotonic and tai");
	return rut_type_int(8, false);
}

rut_vreg rut_gen_nsecs(struct rut_gen *g, struct rut_node *n)
{
	int helper = clock_helper(n->kind == RUT_N_CALL ? n->list : NULL);

	if (g->hit)
		return rut_gen_ruby_time(g, helper == BPF_FUNC_ktime_get_boot_ns);
	return rut_ir_call(&g->ir, helper, 0, NULL);
}

/* Numbers that are shown by a name */

static const struct rut_type *check_named(struct rut_checker *c, struct rut_node *n,
					  enum rut_type_kind kind)
{
	return rut_check_int(c, n->list, "the argument") ? rut_type_simple(kind) : NULL;
}

const struct rut_type *rut_check_strerror(struct rut_checker *c, struct rut_node *n)
{
	return check_named(c, n, RUT_T_STRERROR);
}

const struct rut_type *rut_check_signal_name(struct rut_checker *c, struct rut_node *n)
{
	return check_named(c, n, RUT_T_SIGNAL_NAME);
}

const struct rut_type *rut_check_syscall_name(struct rut_checker *c, struct rut_node *n)
{
	return check_named(c, n, RUT_T_SYSCALL_NAME);
}

const struct rut_type *rut_check_cgroup_path(struct rut_checker *c, struct rut_node *n)
{
	if (!rut_check_int(c, n->list, "the cgroup"))
		return NULL;
	if (n->list->next && n->list->next->kind != RUT_N_STRING)
		return rut_check_error(c, n->list->next, "a constant text is expected here");
	return rut_type_simple(RUT_T_CGROUP_PATH);
}

void rut_gen_cgroup_path(struct rut_gen *g, struct rut_node *n, struct rut_mem to)
{
	rut_gen_store(g, to, 8, rut_gen_scalar(g, n->list));
	to.off += 8;
	rut_gen_zero(g, to, 8);
	if (n->list->next)
		rut_ir_store_imm(&g->ir, 4, to.base, to.off,
				 (int32_t)rut_program_string(g->prog, n->list->next->text) + 1);
}

/* cgroupid("/sys/fs/cgroup/..."): the number of the directory. */
const struct rut_type *rut_check_cgroupid(struct rut_checker *c, struct rut_node *n)
{
	struct stat st;

	if (!rut_check_is_portable(c, n, "the number of a cgroup"))
		return NULL;
	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "cgroupid() takes a constant path");
	if (stat(n->list->text, &st))
		return rut_check_error(c, n->list, "cannot open '%s': %s", n->list->text,
				       strerror(errno));
	return become(n, st.st_ino);
}

const struct rut_type *rut_check_kaddr(struct rut_checker *c, struct rut_node *n)
{
	struct rut_kallsyms *k = NULL;
	uint64_t address = 0;

	if (!rut_check_is_portable(c, n, "an address of its kernel"))
		return NULL;
	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "kaddr() takes a constant name");
	if (!rut_kallsyms_open(&k, true))
		address = rut_kallsyms_address(k, n->list->text);
	rut_kallsyms_free(k);
	if (!address)
		return rut_check_error(c, n,
				       c->src->as_bpftrace
					       ? "Failed to resolve kernel symbol: %s"
					       : "the kernel has no symbol '%s', or hides it",
				       n->list->text);
	return become(n, address);
}

/* uaddr("symbol"): the file may be mapped anywhere, and the instruction pointer is at the probe. */
const struct rut_type *rut_check_uaddr(struct rut_checker *c, struct rut_node *n)
{
	struct rut_err err = RUT_ERR_INIT;
	uint64_t address;

	if (!rut_check_is_portable(c, n, "an address in its build of the program"))
		return NULL;
	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "uaddr() takes a constant name");
	if (c->ctx->kind != RUT_PROBE_UPROBE)
		return rut_check_error(c, n, "only uprobes have uaddr()");
	if (rut_elf_address(c->ctx->attach[0].path, n->list->text, &address, &err))
		return rut_check_error(c, n->list, "%s", err.msg);
	return rut_type_pointer(c->arena, rut_type_int(8, false), true);
}

rut_vreg rut_gen_uaddr(struct rut_gen *g, struct rut_node *n)
{
	uint64_t address = 0;
	rut_vreg ip = rut_ir_load(&g->ir, 8, g->ctx_reg, offsetof(struct pt_regs, rip));

	rut_elf_address(g->ctx->attach[0].path, n->list->text, &address, NULL);
	return rut_ir_alu(&g->ir, BPF_ADD, ip,
			  rut_ir_const(&g->ir, (int64_t)(address - g->ctx->attach[0].address)));
}

/* percpu_kaddr("name"), percpu_kaddr("name", cpu) */

static uint64_t kernel_address(const char *name)
{
	struct rut_kallsyms *k = NULL;
	uint64_t address = 0;

	if (!rut_kallsyms_open(&k, true))
		address = rut_kallsyms_address(k, name);
	rut_kallsyms_free(k);
	return address;
}

const struct rut_type *rut_check_percpu_kaddr(struct rut_checker *c, struct rut_node *n)
{
	if (!rut_check_is_portable(c, n, "an address of its kernel"))
		return NULL;
	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "percpu_kaddr() takes a constant name");
	if (n->list->next && !rut_check_int(c, n->list->next, "the CPU"))
		return NULL;
	if (c->loud && (!kernel_address(n->list->text) || !kernel_address("__per_cpu_offset")))
		return rut_check_error(c, n->list, "the kernel has no symbol '%s', or hides it",
				       n->list->text);
	return rut_type_pointer(c->arena, rut_type_int(8, false), false);
}

/* Where the CPU's own area is, and where the variable is in each. */
rut_vreg rut_gen_percpu_kaddr(struct rut_gen *g, struct rut_node *n)
{
	struct rut_mem room = rut_gen_room(g, n, 8);
	rut_vreg cpu = n->list->next ? rut_gen_scalar(g, n->list->next)
				     : rut_ir_call(&g->ir, BPF_FUNC_get_smp_processor_id, 0, NULL);
	rut_vreg table = rut_ir_const(&g->ir, (int64_t)kernel_address("__per_cpu_offset"));

	table = rut_ir_alu(&g->ir, BPF_ADD, table, rut_ir_alu_imm(&g->ir, BPF_LSH, cpu, 3));
	rut_gen_read(g, n, room, (struct rut_mem){table, 0, RUT_SPACE_KERNEL}, 8);
	return rut_ir_alu(&g->ir, BPF_ADD, rut_ir_load(&g->ir, 8, room.base, room.off),
			  rut_ir_const(&g->ir, (int64_t)kernel_address(n->list->text)));
}

/* container_of(pointer, typeof(struct x), field) */
const struct rut_type *rut_check_container_of(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *type = n->list->next, *field = type->next;
	const struct rut_type *p = rut_check_expr(c, n->list), *t;
	const struct rut_type_field *f;

	if (type->kind != RUT_N_TYPE || field->kind != RUT_N_NAME)
		return rut_check_error(c, n, "as container_of($pointer, typeof(struct x), field)");
	t = rut_check_type(c, type->type_name, type);
	f = t ? rut_check_field(c, field, t, field->text) : NULL;
	if (!p || !f)
		return NULL;
	if (!rut_type_is_scalar(p))
		return rut_check_error(c, n->list, "container_of() takes a pointer");
	if (!rut_check_is_portable(c, n, t->btf_id ? "where fields of its structures are" : NULL))
		return NULL;
	field->value = f->offset;
	return rut_type_pointer(c->arena, t, p->kind == RUT_T_POINTER && p->user);
}

rut_vreg rut_gen_container_of(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_alu_imm(&g->ir, BPF_SUB, rut_gen_scalar(g, n->list),
			      (int64_t)n->list->next->next->value);
}

/* reg("ip") */

static const struct {
	const char *name;
	int off;
} registers[] = {
	{"r15", offsetof(struct pt_regs, r15)}, {"r14", offsetof(struct pt_regs, r14)},
	{"r13", offsetof(struct pt_regs, r13)}, {"r12", offsetof(struct pt_regs, r12)},
	{"bp", offsetof(struct pt_regs, rbp)},	{"bx", offsetof(struct pt_regs, rbx)},
	{"r11", offsetof(struct pt_regs, r11)}, {"r10", offsetof(struct pt_regs, r10)},
	{"r9", offsetof(struct pt_regs, r9)},	{"r8", offsetof(struct pt_regs, r8)},
	{"ax", offsetof(struct pt_regs, rax)},	{"cx", offsetof(struct pt_regs, rcx)},
	{"dx", offsetof(struct pt_regs, rdx)},	{"si", offsetof(struct pt_regs, rsi)},
	{"di", offsetof(struct pt_regs, rdi)},	{"ip", offsetof(struct pt_regs, rip)},
	{"cs", offsetof(struct pt_regs, cs)},	{"flags", offsetof(struct pt_regs, eflags)},
	{"sp", offsetof(struct pt_regs, rsp)},	{"ss", offsetof(struct pt_regs, ss)},
};

static int register_offset(const char *name)
{
	for (size_t i = 0; i < sizeof(registers) / sizeof(*registers); i++)
		if (!strcmp(registers[i].name, name))
			return registers[i].off;
	return -1;
}

const struct rut_type *rut_check_reg(struct rut_checker *c, struct rut_node *n)
{
	struct rut_nearest near = {n->list->text, n->list->text ? strlen(n->list->text) : 0, "", 0};

	if (n->list->kind != RUT_N_STRING)
		return rut_check_error(c, n->list, "reg() takes a constant name: reg(\"ip\")");
	if (c->ctx->prog_type != BPF_PROG_TYPE_KPROBE &&
	    c->ctx->prog_type != BPF_PROG_TYPE_PERF_EVENT)
		return rut_check_error(c, n, "the probe '%s' has no registers", c->ctx->spec->text);
	if (register_offset(n->list->text) >= 0)
		return rut_type_int(8, false);
	rut_check_error(c, n->list, "there is no register '%s'", n->list->text);
	for (size_t i = 0; i < sizeof(registers) / sizeof(*registers); i++)
		rut_nearest_add(&near, registers[i].name);
	if (c->loud && near.name[0])
		rut_source_hint(c->src, "did you mean '%s'?", near.name);
	return NULL;
}

rut_vreg rut_gen_reg(struct rut_gen *g, struct rut_node *n)
{
	return rut_ir_load(&g->ir, 8, g->ctx_reg, register_offset(n->list->text));
}

/* kptr(p), uptr(p): which memory a pointer is of. */
const struct rut_type *rut_check_space(struct rut_checker *c, struct rut_node *n)
{
	const struct rut_type *t = rut_check_expr(c, n->list);
	bool user = n->text[0] == 'u';

	if (!t)
		return NULL;
	if (!rut_type_is_scalar(t))
		return rut_check_error(c, n->list, "%s() takes a pointer", n->text);
	return rut_type_pointer(c->arena, t->kind == RUT_T_POINTER ? t->elem : NULL, user);
}

/* signal("KILL"), signal(9) */

static const struct {
	const char *name;
	int number;
} signals[] = {
	{"HUP", SIGHUP},     {"INT", SIGINT},	    {"QUIT", SIGQUIT}, {"ILL", SIGILL},
	{"TRAP", SIGTRAP},   {"ABRT", SIGABRT},	    {"BUS", SIGBUS},   {"FPE", SIGFPE},
	{"KILL", SIGKILL},   {"USR1", SIGUSR1},	    {"SEGV", SIGSEGV}, {"USR2", SIGUSR2},
	{"PIPE", SIGPIPE},   {"ALRM", SIGALRM},	    {"TERM", SIGTERM}, {"CHLD", SIGCHLD},
	{"CONT", SIGCONT},   {"STOP", SIGSTOP},	    {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN},
	{"TTOU", SIGTTOU},   {"URG", SIGURG},	    {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},
	{"WINCH", SIGWINCH}, {"IO", SIGIO},	    {"PWR", SIGPWR},   {"SYS", SIGSYS},
	{"PROF", SIGPROF},   {"VTALRM", SIGVTALRM},
};

int rut_script_signal_number(const char *name)
{
	if (!strncmp(name, "SIG", 3))
		name += 3;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!strcmp(signals[i].name, name))
			return signals[i].number;
	return -1;
}

const struct rut_type *rut_check_signal(struct rut_checker *c, struct rut_node *n)
{
	int64_t number = 1;

	if (!c->prog->opts.unsafe)
		return rut_check_error(c, n, "signal() acts on other processes: it needs --unsafe");
	if (c->ctx->kind == RUT_PROBE_BEGIN || c->ctx->kind == RUT_PROBE_END ||
	    c->ctx->kind == RUT_PROBE_INTERVAL)
		return rut_check_error(c, n, "signal() would go to rutile itself in '%s'",
				       c->ctx->spec->text);
	if (n->list->kind == RUT_N_STRING) {
		if (rut_script_signal_number(n->list->text) < 0)
			return rut_check_error(c, n->list, "there is no signal '%s'",
					       n->list->text);
		return nothing();
	}
	if (!rut_check_int(c, n->list, "the signal"))
		return NULL;
	if (rut_literal_int(n->list, &number) && (number < 1 || number > 64))
		return rut_check_error(c, n->list, "signals are 1 to 64");
	return nothing();
}

rut_vreg rut_gen_signal(struct rut_gen *g, struct rut_node *n)
{
	struct rut_ir_arg arg = n->list->kind == RUT_N_STRING
					? RUT_ARG_INT(rut_script_signal_number(n->list->text))
					: RUT_ARG(rut_gen_scalar(g, n->list));

	rut_ir_call(&g->ir,
		    !strcmp(n->text, "signal_thread") ? BPF_FUNC_send_signal_thread
						      : BPF_FUNC_send_signal,
		    1, &arg);
	return 0;
}

/* pid, tid: numbers in the namespace of rutile; pid(init): in the first one. */

static const char *namespace_of(const struct rut_node *n)
{
	return n->kind == RUT_N_CALL && n->list ? n->list->text : "curr_ns";
}

const struct rut_type *rut_check_pid(struct rut_checker *c, struct rut_node *n)
{
	if (n->list && (n->list->kind != RUT_N_NAME || (strcmp(n->list->text, "init") != 0 &&
							strcmp(n->list->text, "curr_ns") != 0)))
		return rut_check_error(c, n->list, "the namespaces are curr_ns and init");
	return rut_type_int(4, false);
}

enum { FIRST_PID_NAMESPACE = 0xeffffffc }; /* PROC_PID_INIT_INO of the kernel */

rut_vreg rut_gen_pid(struct rut_gen *g, struct rut_node *n)
{
	bool is_pid = n->text[strlen(n->text) - 3] == 'p';
	struct rut_mem room;
	struct stat st;
	rut_vreg v;

	if (g->hit)
		return rut_gen_ruby_id(g, is_pid);
	if (g->prog->opts.portable || !strcmp(namespace_of(n), "init") ||
	    stat("/proc/self/ns/pid", &st) || st.st_ino == FIRST_PID_NAMESPACE) {
		v = rut_ir_call(&g->ir, BPF_FUNC_get_current_pid_tgid, 0, NULL);
		return is_pid ? rut_ir_alu_imm(&g->ir, BPF_RSH, v, 32)
			      : rut_ir_ext(&g->ir, v, 4, false);
	}
	room = rut_gen_room(g, n, 8);
	/* A process that the namespace does not have is 0. */
	rut_gen_zero(g, room, 8);
	struct rut_ir_arg args[] = {RUT_ARG_INT((int64_t)st.st_dev),
				    RUT_ARG_INT((int64_t)st.st_ino), rut_gen_arg(room),
				    RUT_ARG_INT(8)};
	rut_ir_call(&g->ir, BPF_FUNC_get_ns_current_pid_tgid, 4, args);
	return rut_ir_load(&g->ir, 4, room.base, room.off + (is_pid ? 4 : 0));
}

/* Functions that change what the kernel does, or cannot be called here. */

const struct rut_type *rut_check_no_skboutput(struct rut_checker *c, struct rut_node *n)
{
	return rut_check_error(
		c, n,
		"skboutput() is not there: packets are recorded by 'tcpdump -w', and "
		"printf(\"%%r\", buf(args.skb->data, 64)) shows bytes of one");
}

/* join(argv), join(argv, delimiter): texts of an array that ends with a null pointer. */

enum { JOIN_TEXTS = 16, JOIN_BYTES = 1024 };

const struct rut_type *rut_check_join(struct rut_checker *c, struct rut_node *n)
{
	struct rut_script_action action = {.kind = RUT_ACTION_JOIN, .map = -1, .format = " "};
	const struct rut_type *t = rut_check_expr(c, n->list);
	struct rut_type_field field = {0};

	if (!t)
		return NULL;
	if (!rut_type_is_scalar(t))
		return rut_check_error(c, n->list, "join() takes a pointer to pointers");
	if (n->list->next && n->list->next->kind != RUT_N_STRING)
		return rut_check_error(c, n->list->next, "the delimiter is a constant text");
	if (!c->loud)
		return nothing();
	if (n->list->next)
		action.format = n->list->next->text;
	field.type = rut_type_array(c->arena, rut_type_string(c->arena, JOIN_BYTES), JOIN_TEXTS);
	action.args = rut_type_tuple(c->arena, RUT_T_TUPLE, &field, 1);
	n->index = rut_program_action(c->prog, &action, n);
	return nothing();
}

rut_vreg rut_gen_join(struct rut_gen *g, struct rut_node *n)
{
	int32_t header = (int32_t)sizeof(struct rut_script_event);
	enum rut_space space = rut_call_space(g, n->list->type);
	rut_vreg record, argv = rut_gen_scalar(g, n->list), p;
	uint32_t end = rut_ir_label(&g->ir), submit = rut_ir_label(&g->ir);
	struct rut_mem room = rut_gen_room(g, n, 8);

	record = rut_gen_record(g, n, n->index, end);
	for (int i = 0; i < JOIN_TEXTS; i++)
		rut_ir_store_imm(&g->ir, 8, record, header + i * JOIN_BYTES, 0);
	for (int i = 0; i < JOIN_TEXTS; i++) {
		struct rut_ir_arg args[] = {{RUT_IR_ARG_REG, record, header + i * JOIN_BYTES},
					    RUT_ARG_INT(JOIN_BYTES),
					    RUT_ARG_INT(0)};

		rut_gen_read(g, n, room, (struct rut_mem){argv, 8 * i, space}, 8);
		p = rut_ir_load(&g->ir, 8, room.base, room.off);
		rut_ir_branch_imm(&g->ir, BPF_JEQ, p, 0, submit);
		args[2] = RUT_ARG(p);
		rut_ir_call(&g->ir,
			    space == RUT_SPACE_USER ? BPF_FUNC_probe_read_user_str
						    : BPF_FUNC_probe_read_kernel_str,
			    3, args);
	}
	rut_ir_place(&g->ir, submit);
	rut_gen_submit(g, record);
	rut_ir_place(&g->ir, end);
	return 0;
}

/* len(@m), len(stack), len(text): how many. */

const struct rut_type *rut_check_len(struct rut_checker *c, struct rut_node *n)
{
	struct rut_node *a = n->list;
	const struct rut_type *t;
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (a->kind == RUT_N_MAP && !a->a) {
		rut_check_map_name(c, a);
		if (a->index < 0 || !c->prog->maps[a->index].value)
			return rut_check_error(c, a, "nothing is ever assigned to %s", a->text);
		if (!c->prog->maps[a->index].key)
			return rut_check_error(c, a,
					       "call to len() expects a map with explicit keys "
					       "(non-scalar map): %s has none",
					       a->text);
		return rut_type_int(8, true);
	}
	t = rut_check_expr(c, a);
	if (!t)
		return NULL;
	if (t->kind == RUT_T_STRING)
		return rut_check_strlen(c, n);
	if (t->kind == RUT_T_KSTACK || t->kind == RUT_T_USTACK)
		return rut_type_int(8, false);
	if (t->kind == RUT_T_ARRAY)
		return become(n, t->count);
	return rut_check_error(c, a, "len() takes a map, a stack or a string, not %s",
			       rut_type_text(t, &text));
}

rut_vreg rut_gen_len(struct rut_gen *g, struct rut_node *n)
{
	struct rut_node *a = n->list;
	struct rut_mem m;

	if (a->kind == RUT_N_MAP && !a->a)
		return rut_gen_map_len(g, n);
	if (a->type->kind == RUT_T_STRING)
		return rut_gen_strlen(g, n);
	m = rut_gen_mem(g, a);
	return rut_ir_load(&g->ir, 4, m.base, m.off + 12);
}
