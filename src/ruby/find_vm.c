/* SPDX-License-Identifier: MIT */
#include "ruby/find_vm.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "ruby/proc.h"
#include "ruby/target.h"
#include "ruby_abi/idle.h"
#include "ruby_abi/ruby_abi.h"

#define T_MASK	 0x1f
#define T_STRING 5
#define T_ARRAY	 7

#define ID_UNIT	      512 /* symbols in an array of the table of symbols */
#define STEPS_MAX     32
#define VM_WORDS      64
#define TCB_WORDS     512
#define CLASS_WORDS   40
#define DATA_MAX      (1u << 20)
#define RELOCS_MAX    (1u << 18)
#define TLS_DTV_BYTES 16

struct vm {
	struct rut_target t;
	const struct rut_ruby_abi *abi;
	const struct rut_mapping *module;
	uint64_t base, tls_bytes, rela, rela_bytes, data, data_bytes, code, code_bytes;
};

static uint64_t word(const struct vm *v, uint64_t address)
{
	uint64_t value = 0;

	rut_target_read(&v->t, address, &value, sizeof(value));
	return value;
}

static bool is_heap(uint64_t value)
{
	return value > 4096 && !(value & 7) && value < 1ull << 47;
}

static uint64_t type_of(const struct vm *v, uint64_t value)
{
	return is_heap(value) ? word(v, value) & T_MASK : 0;
}

static uint64_t symbol(const struct vm *v, const char *name)
{
	struct rut_target_symbol s;

	return rut_target_find_symbol(&v->t, v->module, name, &s) ? 0 : s.addr;
}

/* --- the module ---------------------------------------------------------------------------- */

static void read_dynamic(struct vm *v, const Elf64_Phdr *ph)
{
	uint64_t at = v->base + ph->p_vaddr, end = at + ph->p_memsz;
	Elf64_Dyn d;

	for (; at + sizeof(d) <= end && !rut_target_read(&v->t, at, &d, sizeof(d)) && d.d_tag;
	     at += sizeof(d)) {
		/* The loader has made addresses of these; musl's does not. */
		if (d.d_tag == DT_RELA)
			v->rela = d.d_un.d_ptr < v->base ? d.d_un.d_ptr + v->base : d.d_un.d_ptr;
		if (d.d_tag == DT_RELASZ)
			v->rela_bytes = d.d_un.d_val;
	}
}

static int read_module(struct vm *v)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph[32];
	bool any = false;
	size_t n;

	if (rut_target_read(&v->t, v->module->start, &eh, sizeof(eh)) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_phentsize != sizeof(*ph))
		return -ENOEXEC;
	n = eh.e_phnum < 32 ? eh.e_phnum : 32;
	if (rut_target_read(&v->t, v->module->start + eh.e_phoff, ph, n * sizeof(*ph)))
		return -ENOEXEC;
	for (size_t i = 0; i < n && !any; i++)
		if (ph[i].p_type == PT_LOAD) {
			v->base = v->module->start - (ph[i].p_vaddr & ~0xfffull);
			any = true;
		}
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type == PT_TLS)
			v->tls_bytes = ph[i].p_memsz;
		if (ph[i].p_type == PT_DYNAMIC)
			read_dynamic(v, &ph[i]);
		if (ph[i].p_type == PT_LOAD && ph[i].p_flags & PF_X && !v->code) {
			v->code = v->base + ph[i].p_vaddr;
			v->code_bytes = ph[i].p_memsz;
		}
		if (ph[i].p_type == PT_LOAD && ph[i].p_flags & PF_W) {
			v->data = v->base + ph[i].p_vaddr;
			v->data_bytes = ph[i].p_memsz;
		}
	}
	return any ? 0 : -ENOEXEC;
}

/* --- the context of a thread --------------------------------------------------------------- */

/* The loader has written the module's number where its own variables are asked for. */
static uint32_t tls_module(const struct vm *v)
{
	Elf64_Rela r[256];

	for (uint64_t at = 0; at < v->rela_bytes && at < RELOCS_MAX * sizeof(*r); at += sizeof(r)) {
		uint64_t len = v->rela_bytes - at < sizeof(r) ? v->rela_bytes - at : sizeof(r);

		if (rut_target_read(&v->t, v->rela + at, r, len))
			return 0;
		for (size_t i = 0; i < len / sizeof(*r); i++) {
			uint64_t number;

			if (ELF64_R_TYPE(r[i].r_info) != R_X86_64_DTPMOD64)
				continue;
			number = word(v, v->base + r[i].r_offset);
			if (number && number < 4096)
				return (uint32_t)number;
		}
	}
	return 0;
}

static int find_tls(struct vm *v, struct rut_ruby_vm *p, struct rut_err *err)
{
	uint64_t at = symbol(v, "ruby_current_ec");
	const struct rut_mapping *first = rut_target_next_module(&v->t, NULL);

	p->tls = RUT_RUBY_TLS_DTV;
	/* musl's table has plain addresses. */
	p->tls_entry = rut_target_libc(&v->t, &first) == RUT_LIBC_MUSL ? 8 : TLS_DTV_BYTES;
	p->tls_module = tls_module(v);
	if (!p->tls_module && v->module == rut_target_next_module(&v->t, NULL))
		p->tls_module = 1; /* an executable is always the first */
	if (!p->tls_module || !v->tls_bytes)
		return rut_err_set(err, EAGAIN,
				   "process %d: the thread-local variables of its libruby were not "
				   "found",
				   v->t.pid);
	p->tls_offset = at > v->base && at - v->base < v->tls_bytes ? (uint32_t)(at - v->base)
								    : RUT_RUBY_UNKNOWN;
	p->tls_words = (uint32_t)(v->tls_bytes / 8);
	return 0;
}

/*
 * Before Ruby 3.0 a thread has its rb_thread_t among its thread-specific data, which lie in its
 * control block. The key has no symbol; the VM knows a thread, and a thread its control block.
 */
static int find_thread(struct vm *v, struct rut_ruby_vm *p, struct rut_err *err)
{
	uint64_t vm = word(v, symbol(v, "ruby_current_vm_ptr")), words[VM_WORDS], th[16], block;

	if (!vm || rut_target_read(&v->t, vm, words, sizeof(words)))
		return -EAGAIN;
	for (size_t i = 0; i < VM_WORDS; i++) {
		/* rb_thread_t: two words of a list, its object, the VM. */
		if (!is_heap(words[i]) || rut_target_read(&v->t, words[i], th, sizeof(th)) ||
		    th[3] != vm ||
		    word(v, th[v->abi->thread_pthread / 8]) != th[v->abi->thread_pthread / 8])
			continue;
		block = th[v->abi->thread_pthread / 8];
		for (uint32_t at = 0; at < TCB_WORDS * 8; at += 8)
			if (word(v, block + at) == words[i]) {
				p->tls = RUT_RUBY_TLS_THREAD;
				p->tls_offset = at;
				p->thread_ec = v->abi->thread_ec;
				return 0;
			}
	}
	return rut_err_set(err, EAGAIN, "process %d: its Ruby threads were not found", v->t.pid);
}

/* --- the count of collections -------------------------------------------------------------- */

static int32_t imm32(const unsigned char *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/*
 * The agent's counter.c from outside: rb_gc_count() is nothing but loads, the last one from where
 * the count is. 0: it is something else. -1ull: a pointer on the way is not set yet.
 */
static uint64_t find_gc_count(const struct vm *v)
{
	uint64_t pc = symbol(v, "rb_gc_count"), rax = 0, at = 0;
	bool known = false;

	for (int i = 0; pc && i < STEPS_MAX; i++) {
		unsigned char p[16];
		int len = 0;
		bool load = false;

		if (rut_target_read(&v->t, pc, p, sizeof(p)))
			return 0;
		if (p[0] == 0xc3)
			return at;
		if (rut_idle_bytes(p)) {
			pc += (uint64_t)rut_idle_bytes(p);
			continue;
		}
		if (p[0] == 0xe9) {
			pc += 5 + (uint64_t)(int64_t)imm32(p + 1);
			continue;
		}
		if (p[0] != 0x48 || (p[1] != 0x8b && p[1] != 0x8d))
			return 0;
		if (p[2] == 0x05) {
			at = pc + 7 + (uint64_t)(int64_t)imm32(p + 3);
			len = 7;
			load = p[1] == 0x8b;
			if (!load)
				rax = at;
		} else if (known && p[1] == 0x8b && (p[2] == 0 || p[2] == 0x40 || p[2] == 0x80)) {
			len = p[2] == 0 ? 3 : p[2] == 0x40 ? 4 : 7;
			at = rax + (uint64_t)(len == 3	 ? 0
					      : len == 4 ? (int64_t)(int8_t)p[3]
							 : imm32(p + 3));
			load = true;
		} else {
			return 0;
		}
		known = true;
		if (load) {
			if (at < 4096)
				return -1ull;
			rax = word(v, at);
		}
		pc += (uint64_t)len;
	}
	return 0;
}

/* --- the table of symbols ------------------------------------------------------------------ */

/* An array of arrays of names and symbols. */
static bool is_ids(const struct vm *v, uint64_t value)
{
	uint64_t head[5], first, unit[5], names[2 * 8];

	if (type_of(v, value) != T_ARRAY || rut_target_read(&v->t, value, head, sizeof(head)))
		return false;
	first = head[0] >> 13 & 1 ? head[2] : word(v, head[4]);
	if (type_of(v, first) != T_ARRAY || rut_target_read(&v->t, first, unit, sizeof(unit)) ||
	    unit[2] > 2 * ID_UNIT || unit[2] < 32 || unit[0] >> 13 & 1)
		return false;
	/* The symbols of '!' and its like are the first. */
	if (rut_target_read(&v->t, unit[4] + 33 * 16, names, 16))
		return false;
	return type_of(v, names[0]) == T_STRING;
}

static uint64_t find_ids(const struct vm *v)
{
	uint64_t chunk[512];

	for (uint64_t at = 0; at < v->data_bytes && at < DATA_MAX; at += sizeof(chunk)) {
		uint64_t len =
			v->data_bytes - at < sizeof(chunk) ? v->data_bytes - at : sizeof(chunk);

		if (rut_target_read(&v->t, v->data + at, chunk, len & ~7ull))
			continue;
		for (size_t i = 0; i < len / 8; i++)
			if (is_heap(chunk[i]) && is_ids(v, chunk[i]))
				return v->data + at + i * 8;
	}
	return 0;
}

/* --- names of classes ---------------------------------------------------------------------- */

static bool is_text(const struct vm *v, uint64_t value, const char *text)
{
	size_t len = strlen(text);
	uint64_t head[3], from = value + (v->abi->string_len_word ? 24 : 16), has;
	char got[32];

	if (type_of(v, value) != T_STRING || rut_target_read(&v->t, value, head, sizeof(head)))
		return false;
	has = head[0] >> 13 & 1 || v->abi->string_len_word ? head[2] : head[0] >> 14 & 31;
	if (head[0] >> 13 & 1)
		from = word(v, value + 24);
	return has == len && !rut_target_read(&v->t, from, got, len) && !memcmp(got, text, len);
}

static void find_class_path(const struct vm *v, struct rut_ruby_vm *p)
{
	uint64_t object = word(v, symbol(v, "rb_cObject")), head[3], entry[3];

	if (!is_heap(object))
		return;
	if (v->abi->class_path_word) {
		/* Its class is a slot of at least 160 bytes. */
		for (uint32_t i = 2; i < CLASS_WORDS / 2; i++)
			if (is_text(v, word(v, object + i * 8), "Object")) {
				p->class_kind = RUT_RUBY_CLASS_WORD;
				p->class_at = i * 8;
				return;
			}
		return;
	}
	object = word(v, word(v, object + 24) + 8);
	if (!is_heap(object) || rut_target_read(&v->t, object + 32, head, sizeof(head)))
		return;
	for (uint64_t i = head[0]; i < head[1] && i < head[0] + 64; i++) {
		if (rut_target_read(&v->t, head[2] + i * 24, entry, sizeof(entry)))
			return;
		if (is_text(v, entry[2], "Object")) {
			p->class_kind = RUT_RUBY_CLASS_TABLE;
			p->class_id = entry[1];
			return;
		}
	}
}

/* --- the interpreter's loop ---------------------------------------------------------------- */

#define LOOP_TABLE_MIN 150	  /* instructions; each has a traced form, too */
#define LOOP_SPAN_MIN  (1u << 15) /* bytes of the function */
#define LOOP_SPAN_MAX  (1u << 18)

/* The longest list of addresses of which none is further from another than that: one of them; 0. */
static uint64_t find_list(const struct vm *v, uint64_t span)
{
	uint64_t chunk[512], low = 0, high = 0, run = 0, best = LOOP_TABLE_MIN, ret = 0;

	for (uint64_t at = 0; at < v->data_bytes && at < DATA_MAX; at += sizeof(chunk)) {
		uint64_t len =
			v->data_bytes - at < sizeof(chunk) ? v->data_bytes - at : sizeof(chunk);

		if (rut_target_read(&v->t, v->data + at, chunk, len & ~7ull))
			continue;
		for (size_t i = 0; i < len / 8; i++) {
			uint64_t w = chunk[i];

			if (w < v->code || w >= v->code + v->code_bytes) {
				run = 0;
				continue;
			}
			if (!run || w + span < high || w > low + span) {
				run = 0;
				low = high = w;
			}
			low = w < low ? w : low;
			high = w > high ? w : high;
			if (++run > best) {
				best = run;
				ret = w;
			}
		}
	}
	return ret;
}

/*
 * The function that runs Ruby's instructions has a table of the addresses in it where each begins:
 * the longest list of addresses near each other. That of regular expressions is the second. Other
 * tables of functions may lie beside it, which are further apart: so the nearest first.
 */
static uint64_t find_loop(const struct vm *v)
{
	uint64_t ret = 0;

	for (uint64_t span = LOOP_SPAN_MIN; !ret && span <= LOOP_SPAN_MAX; span *= 2)
		ret = find_list(v, span);
	return ret;
}

/* --- all of it ----------------------------------------------------------------------------- */

static const struct rut_mapping *find_module(struct rut_target *t, char *version, size_t cap)
{
	const struct rut_mapping *first = rut_target_next_module(t, NULL);
	struct rut_target_symbol s;

	for (const struct rut_mapping *m = NULL; (m = rut_target_next_module(t, m));) {
		if (m != first && strncmp(rut_mapping_basename(m), "libruby", 7) != 0)
			continue;
		if (!rut_target_find_symbol(t, m, "ruby_version", &s) &&
		    !rut_target_read_string(t, s.addr, version, cap))
			return m;
	}
	return NULL;
}

static int find(struct vm *v, struct rut_ruby_vm *p, pid_t pid, struct rut_err *err)
{
	char version[16] = "";
	uint64_t gc;
	int rc;

	rc = rut_target_read_maps(&v->t, pid);
	if (!rc)
		rc = rut_target_open_memory(&v->t);
	if (rc)
		return rut_err_errno(err, -rc, "cannot read the memory of process %d", pid);
	v->module = find_module(&v->t, version, sizeof(version));
	if (!v->module || read_module(v))
		return rut_err_set(err, ENOEXEC, "process %d is not Ruby", pid);
	v->abi = rut_ruby_abi_get(rut_ruby_abi_number(version));
	if (!v->abi || !v->abi->insns_info)
		return rut_err_set(err, ENOTSUP,
				   "process %d runs Ruby %s: the layout of its frames is not known",
				   pid, version);
	rc = v->abi->ec_is_tls ? find_tls(v, p, err) : find_thread(v, p, err);
	if (rc)
		return rc;
	gc = find_gc_count(v);
	if (gc == -1ull)
		return -EAGAIN;
	p->gc_count = gc;
	p->ids = find_ids(v);
	/* The VM makes its classes after its symbols. */
	find_class_path(v, p);
	if (!p->ids || !p->class_kind)
		return -EAGAIN;
	p->loop = find_loop(v);
	p->frame_bytes = v->abi->frame_words * 8;
	p->insns_info = v->abi->insns_info;
	p->insn_bytes = v->abi->insn_info_bytes;
	p->line_value = v->abi->line_is_value;
	p->string_len = v->abi->string_len_word;
	p->singleton = v->abi->singleton_flag;
	return 0;
}

int rut_ruby_vm_find(struct rut_ruby_vm *ret, pid_t pid, struct rut_err *err)
{
	struct vm v = {.t = RUT_TARGET_INIT};
	struct rut_ruby_vm p = {0};
	int rc = find(&v, &p, pid, err);

	rut_target_fini(&v.t);
	if (!rc)
		*ret = p;
	return rc;
}
