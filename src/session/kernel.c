/* SPDX-License-Identifier: MIT */
#include "session/kernel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#define BTF_PATH "/sys/kernel/btf/vmlinux"
#define BTF_MAX	 (64u << 20)

int rut_kernel_tracepoints(struct rut_strtab *ret, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	static const char prefix[] = "btf_trace_";
	const struct btf_header *h;
	const char *s, *end;
	int rc = rut_buf_read_file(&b, BTF_PATH, BTF_MAX);

	if (rc == -ENOENT || (!rc && !b.len))
		return rut_err_set(err, ENOENT, "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
	if (rc < 0)
		return rut_err_errno(err, -rc, "cannot read '" BTF_PATH "'");
	h = (const void *)b.data;
	if (b.len < sizeof(*h) || h->magic != BTF_MAGIC || h->hdr_len > b.len ||
	    h->str_off > b.len - h->hdr_len || h->str_len > b.len - h->hdr_len - h->str_off)
		return rut_err_set(err, EPROTO, "'" BTF_PATH "' is damaged");
	/* A walk over the strings is ten times quicker than parsing all types. */
	s = b.data + h->hdr_len + h->str_off;
	end = s + h->str_len;
	while (s < end) {
		const char *nul = memchr(s, 0, (size_t)(end - s));

		if (!nul)
			break;
		if (nul - s > (long)sizeof(prefix) - 1 && !memcmp(s, prefix, sizeof(prefix) - 1)) {
			size_t skip = sizeof(prefix) - 1;

			if (rut_strtab_intern(ret, s + skip, (size_t)(nul - s) - skip) < 0)
				return rut_err_set(err, ENOMEM, "out of memory");
		}
		s = nul + 1;
	}
	return 0;
}

uint64_t rut_kernel_symbol(const char *name)
{
	_cleanup_file_ FILE *f = fopen("/proc/kallsyms", "re");
	char line[512], *end;

	/* "ffffffff9d8a1000 D vmemmap_base" and, of a module, its name behind. */
	while (f && fgets(line, sizeof(line), f)) {
		uint64_t address = strtoull(line, &end, 16);
		size_t len;

		if (end == line || strlen(end) < 3)
			continue;
		end += 3;
		len = strcspn(end, "\t\n");
		if (len == strlen(name) && !memcmp(end, name, len))
			return address;
	}
	return 0;
}

uint64_t rut_kernel_memory_end(void)
{
	_cleanup_file_ FILE *f = fopen("/proc/iomem", "re");
	char line[256];
	uint64_t last = 0;

	/* "100000000-23fffffff : System RAM", indented within a host bridge. */
	while (f && fgets(line, sizeof(line), f)) {
		const char *name = strstr(line, " : ");
		char *dash;
		uint64_t end;

		strtoull(line, &dash, 16);
		if (!name || *dash != '-' ||
		    (!strstr(name, "System RAM") && !strstr(name, "Persistent Memory") &&
		     !strstr(name, "CXL")))
			continue;
		end = strtoull(dash + 1, NULL, 16);
		last = end > last ? end : last;
	}
	return last ? last + 1 : 0;
}

bool rut_kernel_is_confidential(void)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	return rut_buf_read_file(&b, "/sys/kernel/security/lockdown", 4096) >= 0 && b.data &&
	       strstr(b.data, "[confidentiality]");
}

bool rut_kernel_has_read_helper(void)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 1, .src_reg = 10},
		/* BPF_ADD and BPF_K are 0 */
		{.code = BPF_ALU64, .dst_reg = 1, .imm = -8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 8},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_probe_read_kernel},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	_cleanup_close_ int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "rutile", "GPL", insns,
					       sizeof(insns) / sizeof(*insns), NULL);

	return fd >= 0;
}

enum rut_read_kernel rut_kernel_read_means(void)
{
	static const char cast[] = "\0bpf_rdonly_cast";
	static enum rut_read_kernel means = RUT_READ_NONE;
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;

	if (means != RUT_READ_NONE)
		return means;
	if (rut_buf_read_file(&b, BTF_PATH, BTF_MAX) >= 0 && b.data &&
	    memmem(b.data, b.len, cast, sizeof(cast)))
		means = RUT_READ_CAST;
	else if (rut_kernel_has_read_helper())
		means = RUT_READ_HELPER;
	return means;
}

/* True when the effective set of this process lacks all of `caps`. */
static bool lacks(uint64_t effective, const unsigned int *caps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (effective >> caps[i] & 1)
			return false;
	return true;
}

/* What of the two is missing; false: that cannot be found out. */
static bool find_missing(bool *ret_bpf, bool *ret_perfmon)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	const char *line = NULL;
	unsigned long long caps = 0;

	if (rut_buf_read_file(&b, "/proc/self/status", 1 << 16) >= 0 && b.data)
		line = strstr(b.data, "\nCapEff:");
	if (!line || sscanf(line, "\nCapEff: %llx", &caps) != 1)
		return false;
	/* CAP_SYS_ADMIN contains both. */
	*ret_bpf = lacks(caps, (unsigned int[]){CAP_BPF, CAP_SYS_ADMIN}, 2);
	*ret_perfmon = lacks(caps, (unsigned int[]){CAP_PERFMON, CAP_SYS_ADMIN}, 2);
	return true;
}

bool rut_kernel_has_privilege(void)
{
	bool bpf = false, perfmon = false;

	return !find_missing(&bpf, &perfmon) || (!bpf && !perfmon);
}

int rut_kernel_no_privilege(struct rut_err *err)
{
	bool bpf = false, perfmon = false;

	if (!find_missing(&bpf, &perfmon))
		return rut_err_set(err, EPERM,
				   "the kernel refuses: run as root, or with the capabilities "
				   "CAP_BPF and CAP_PERFMON");
	if (!bpf && !perfmon)
		return rut_err_set(
			err, EPERM,
			"the kernel refuses, though no capability is missing: by lockdown "
			"or a seccomp filter; 'rutile doctor' looks closer");
	return rut_err_set(err, EPERM, "the capabilit%s %s%s%s %s missing: run as root, or add %s",
			   bpf && perfmon ? "ies" : "y", bpf ? "CAP_BPF" : "",
			   bpf && perfmon ? " and " : "", perfmon ? "CAP_PERFMON" : "",
			   bpf && perfmon ? "are" : "is", bpf && perfmon ? "them" : "it");
}

/* Offset of a member in bytes, and its type; false: the structure has none of that name. */
static bool find_member(const struct btf *btf, uint32_t id, const char *name, uint32_t *ret_at,
			uint32_t *ret_type)
{
	const struct btf_type *t = btf__type_by_id(btf, id);

	for (int i = 0; t && btf_is_struct(t) && i < btf_vlen(t); i++) {
		const struct btf_member *m = &btf_members(t)[i];

		if (strcmp(btf__name_by_offset(btf, m->name_off), name) != 0)
			continue;
		*ret_at += btf_member_bit_offset(t, (uint32_t)i) / 8;
		*ret_type = m->type;
		return true;
	}
	return false;
}

uint32_t rut_kernel_fsbase(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	uint32_t at = 0, type;
	int id = btf ? btf__find_by_name_kind(btf, "task_struct", BTF_KIND_STRUCT) : -1;

	if (id < 0 || !find_member(btf, (uint32_t)id, "thread", &at, &type) ||
	    !find_member(btf, type, "fsbase", &at, &type))
		at = 0;
	btf__free(btf);
	return at;
}

/* Where a variable of each CPU is among them. */
static bool find_percpu(const struct btf *btf, const char *name, int64_t *ret_at,
			uint32_t *ret_type)
{
	int id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *section = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	const struct btf_var_secinfo *v = section ? btf_var_secinfos(section) : NULL;

	for (int i = 0; v && i < btf_vlen(section); i++) {
		const struct btf_type *var = btf__type_by_id(btf, v[i].type);

		if (strcmp(btf__name_by_offset(btf, var->name_off), name) != 0)
			continue;
		*ret_at = v[i].offset;
		*ret_type = var->type;
		return true;
	}
	return false;
}

int64_t rut_kernel_preempt_at(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int64_t rq = 0, count = 0;
	uint32_t type = 0, at = 0, ignored;
	int id = btf ? btf__find_by_name_kind(btf, "cfs_rq", BTF_KIND_STRUCT) : -1;
	bool found = id > 0 && find_member(btf, (uint32_t)id, "rq", &at, &ignored) &&
		     find_percpu(btf, "runqueues", &rq, &ignored);

	at = 0;
	/* Linux 6.2 to 6.14 have it in a structure. */
	if (found && !find_percpu(btf, "__preempt_count", &count, &type))
		found = find_percpu(btf, "pcpu_hot", &count, &type) &&
			find_member(btf, type, "preempt_count", &at, &ignored);
	btf__free(btf);
	return found ? count + at - rq : 0;
}
