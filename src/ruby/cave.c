/* SPDX-License-Identifier: MIT */
/* What the stub needs to know of the target, and where it is put. */
#include "ruby/inject_internal.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/clock.h"
#include "base/err.h"
#include "ruby/native.h"

#define START_LIMIT_NS	 (500 * RUT_INJECT_MS)
#define STACK_SCAN_BYTES (256 * 1024)
#define WAIT_ROUNDS	 600 /* of about 80 us in the stub */
#define LINGER_ROUNDS	 100

/* The agent is loaded by a path in /proc: without one mounted, a chroot say, it cannot be. */
static int check_proc(struct rut_inject *in)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/root/proc/self", in->pid);
	if (lstat(path, &st) == 0 || errno != ENOENT)
		return 0;
	return rut_err_set(in->err, ENOENT,
			   "process %d has no /proc in its file system, through which the agent is "
			   "loaded: mount it there",
			   in->pid);
}

static const struct rut_mapping *find_loader(const struct rut_target *t)
{
	for (size_t i = 0; i < t->map_count; i++) {
		const char *name = rut_mapping_basename(&t->maps[i]);

		if (!strncmp(name, "ld-linux", 8) || !strncmp(name, "ld-2.", 5))
			return &t->maps[i];
	}
	return NULL;
}

/* Whether its program asks for a loader; also true while exec has not mapped a program yet. */
static bool is_dynamic(const struct rut_target *t)
{
	const struct rut_mapping *m = rut_target_next_module(t, NULL);
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (!m)
		return true;
	for (; m; m = rut_target_next_module(t, m)) {
		if (rut_target_read(t, m->start, &eh, sizeof(eh)) < 0)
			return true;
		for (uint16_t i = 0; i < eh.e_phnum && i < 32; i++)
			if (rut_target_read(t, m->start + eh.e_phoff + i * sizeof(ph), &ph,
					    sizeof(ph)) == 0 &&
			    ph.p_type == PT_INTERP)
				return true;
	}
	return false;
}

/* A program that has just been started has its loader, or nothing, before its C library. */
static enum rut_libc find_libc(struct rut_inject *in, const struct rut_mapping **ret)
{
	uint64_t since = rut_now_ns();
	enum rut_libc libc = rut_target_libc(&in->target, ret);

	while (libc == RUT_LIBC_NONE && is_dynamic(&in->target) &&
	       rut_now_ns() - since < START_LIMIT_NS &&
	       rut_target_read_maps(&in->target, in->pid) == 0) {
		rut_inject_nap_us(500);
		libc = rut_target_libc(&in->target, ret);
	}
	return libc;
}

/* It has ended, or is about to. */
static bool has_no_memory(pid_t pid)
{
	struct rut_target now = RUT_TARGET_INIT;
	bool r = rut_target_read_maps(&now, pid) < 0 || !now.map_count;

	rut_target_fini(&now);
	return r;
}

int rut_inject_find_functions(struct rut_inject *in)
{
	const struct rut_mapping *libc, *m;
	struct rut_target *t = &in->target;

	switch (find_libc(in, &libc)) {
	case RUT_LIBC_MUSL:
		return rut_err_set(
			in->err, ENOTSUP,
			"process %d uses the C library musl: only glibc can be traced by "
			"injection",
			in->pid);
	case RUT_LIBC_NONE:
		if (!t->map_count)
			return rut_inject_gone(in);
		return rut_err_set(in->err, ENOTSUP,
				   "process %d is linked statically: it has no dlopen to load the "
				   "agent with",
				   in->pid);
	case RUT_LIBC_GLIBC:
		break;
	}
	if (!rut_target_is_native(t))
		return rut_err_set(in->err, ENOTSUP, RUT_NOT_NATIVE, in->pid);
	if (check_proc(in) < 0)
		return -ENOENT;
	m = find_loader(t);
	if (m)
		rut_target_find_symbol(t, m, "_r_debug", &in->r_debug);
	if (rut_target_find_symbol(t, libc, "__errno_location", &in->errno_fn) < 0) {
		if (has_no_memory(in->pid))
			return rut_inject_gone(in);
		return rut_err_set(in->err, ENOEXEC,
				   "cannot read the symbols of '%s' in process %d", libc->path,
				   in->pid);
	}
	if (rut_target_find_symbol(t, libc, "dlopen", &in->dlopen_fn) == 0) {
		rut_target_find_symbol(t, libc, "dlerror", &in->dlerror_fn);
		return 0;
	}
	for (m = NULL; (m = rut_target_next_module(t, m));)
		if (!strncmp(rut_mapping_basename(m), "libdl", 5) &&
		    rut_target_find_symbol(t, m, "dlopen", &in->dlopen_fn) == 0) {
			rut_target_find_symbol(t, m, "dlerror", &in->dlerror_fn);
			return 0;
		}
	if (rut_target_find_symbol(t, libc, "__libc_dlopen_mode", &in->dlopen_fn) == 0) {
		in->dlopen_is_internal = true;
		return 0;
	}
	return rut_err_set(in->err, ENOTSUP, "the C library of process %d has no dlopen", in->pid);
}

bool rut_inject_loader_is_idle(const struct rut_inject *in)
{
	/* struct r_debug of <link.h>; before it is filled in, the loader has not begun. */
	struct {
		uint64_t version, map, brk;
		int state;
	} d;

	return !in->r_debug.addr ||
	       (rut_target_read(&in->target, in->r_debug.addr, &d, sizeof(d)) == 0 && d.map &&
		d.state == 0 /* RT_CONSISTENT */);
}

static bool fits(const struct rut_inject *in, uint64_t addr, uint64_t bytes)
{
	const struct rut_mapping *m = rut_target_mapping_at(&in->target, addr);

	return m && m->exec && bytes >= in->code_bytes + 16 &&
	       ((addr + 15) & ~15ull) + in->code_bytes <= m->end;
}

/*
 * Functions of glibc that nothing calls: the first serves glibc's own test suite only, the others
 * are interfaces of the last century. All are larger than the stub.
 */
int rut_inject_find_cave(struct rut_inject *in)
{
	static const char *const names[] = {
		"__libc_ifunc_impl_list", "rcmd_af", "wordexp", "argp_parse", "getdate_r",
		"clnt_broadcast"};
	static const uint64_t magic = RUT_STUB_MAGIC;
	struct rut_target_symbol sym;
	const struct rut_mapping *libc;

	rut_target_libc(&in->target, &libc);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !in->cave; i++)
		if (rut_target_find_symbol(&in->target, libc, names[i], &sym) == 0 &&
		    fits(in, sym.addr, sym.size))
			in->cave = (sym.addr + 15) & ~15ull;
	if (!in->cave)
		return rut_err_set(in->err, ENOTSUP,
				   "no room for the stub in the C library of process %d", in->pid);
	if (rut_target_read(&in->target, in->cave, in->original, in->code_bytes) < 0)
		return rut_inject_gone(in);
	/* Anywhere: another version may have left it. */
	in->cave_dirty = memmem(in->original, in->code_bytes, &magic, sizeof(magic)) != NULL;
	return 0;
}

#if defined(__x86_64__)
/* What the kernel lets programs save, and its size. */
static void set_vector_params(struct rut_stub_params *p)
{
	unsigned int a, b, c, d, lo, hi;

	p->xsave_bytes = RUT_INJECT_PAGE;
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) ||
	    !__get_cpuid_count(0xd, 0, &a, &b, &c, &d))
		return;
	__asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	p->xsave_mask = (uint64_t)hi << 32 | lo;
	p->xsave_bytes = (b + RUT_INJECT_PAGE - 1) & ~(RUT_INJECT_PAGE - 1);
}
#endif

void rut_inject_prepare(struct rut_inject *in)
{
	struct rut_stub_params *p;

	in->code_bytes = rut_stub_offset(__stop_rut_stub);
	memcpy(in->code, __start_rut_stub, in->code_bytes);
	p = (struct rut_stub_params *)(in->code + rut_stub_offset(rut_stub_params_at));
	in->params = p;
	p->magic = RUT_STUB_MAGIC;
	set_vector_params(p);
	p->region_offset = (in->image_bytes + RUT_INJECT_PAGE - 1) & ~(RUT_INJECT_PAGE - 1);
	p->region_bytes = RUT_STUB_STATUS_BYTES + p->xsave_bytes + RUT_STUB_STACK_BYTES;
	p->wait_rounds = WAIT_ROUNDS;
	p->linger_rounds = LINGER_ROUNDS;
	snprintf(p->name, sizeof(p->name), "rutile-agent");
}

void rut_inject_set_functions(struct rut_inject *in)
{
	struct rut_stub_params *p = in->params;

	p->dlopen_fn = in->dlopen_fn.addr;
	p->dlerror_fn = in->dlerror_fn.addr;
	p->errno_fn = in->errno_fn.addr;
	/* RTLD_NOW; __RTLD_DLOPEN for the internal function */
	p->dlopen_mode = 2u | (in->dlopen_is_internal ? 0x80000000u : 0);
}

bool rut_inject_in_cave(const struct rut_inject *in, uint64_t pc)
{
	return pc >= in->cave && pc < in->cave + in->code_bytes;
}

bool rut_inject_in_stub(struct rut_inject *in, uint64_t pc, uint64_t sp)
{
	struct rut_target *t = &in->target;
	const struct rut_mapping *stack = rut_target_mapping_at(t, sp);
	uint64_t *words;
	size_t count;
	bool found = false;

	if (rut_inject_in_cave(in, pc))
		return true;
	if (!stack && rut_target_read_maps(t, in->pid) == 0)
		stack = rut_target_mapping_at(t, sp);
	if (!stack)
		return true;
	sp = (sp + 7) & ~7ull;
	count = (stack->end - sp < STACK_SCAN_BYTES ? stack->end - sp : STACK_SCAN_BYTES) / 8;
	words = malloc(count * 8 + 8);
	if (!words || rut_target_read(t, sp, words, count * 8) < 0) {
		free(words);
		return true;
	}
	for (size_t i = 0; i < count && !found; i++)
		found = rut_inject_in_cave(in, words[i]);
	free(words);
	return found;
}
