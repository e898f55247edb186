/* SPDX-License-Identifier: MIT */
#include "session/kernel_names.h"

#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "probe/kallsyms.h"

#define KEPT_NS	     60000000000ull
#define AGAIN_NS     1000000000ull
#define MODULES_NS   10000000ull /* between looks at the modules */
#define MODULES_MAX  (1u << 20)
#define FUNCTION_MAX (64u << 10) /* bytes */

/* Which modules there are, and where: not who uses them. */
static uint64_t sum_of_modules(void)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	uint64_t sum = 0;

	if (rut_buf_read_file(&b, "/proc/modules", MODULES_MAX))
		return 0;
	/* "NAME SIZE USERS USED_BY STATE ADDRESS" */
	for (const char *line = b.data, *end; line && *line; line = end ? end + 1 : NULL) {
		char name[64] = "", address[32] = "";

		end = strchr(line, '\n');
		if (sscanf(line, "%63s %*s %*s %*s %*s %31s", name, address) == 2)
			sum = rut_hash_u64(sum ^ rut_hash_bytes(name, strlen(name))) ^
			      rut_hash_bytes(address, strlen(address));
	}
	return sum;
}

static void read_names(struct rut_kernel_names *n, uint64_t now_ns)
{
	rut_kernel_names_fini(n);
	n->tried_ns = n->modules_ns = now_ns;
	/* Before the names: what comes meanwhile is seen as new. */
	n->modules = sum_of_modules();
	while (!bpf_prog_get_next_id(n->newest, &n->newest))
		;
	if (rut_kallsyms_open(&n->syms, false) < 0)
		n->syms = NULL;
	if (!n->syms)
		return;
	n->begin = rut_kallsyms_address(n->syms, "_stext");
	n->end = rut_kallsyms_address(n->syms, "_etext");
}

/* Have modules or eBPF programs come since the names were read? A new program has a new number. */
static bool is_outdated(struct rut_kernel_names *n, uint64_t now_ns)
{
	uint32_t next;

	if (!n->outdated && now_ns - n->modules_ns >= MODULES_NS) {
		n->modules_ns = now_ns;
		n->outdated = sum_of_modules() != n->modules;
	}
	if (!n->outdated)
		n->outdated = !bpf_prog_get_next_id(n->newest, &next);
	return n->outdated;
}

const char *rut_kernel_names_find(struct rut_kernel_names *n, uint64_t address, uint64_t now_ns)
{
	const char *name;
	uint64_t distance;
	bool moves;

	if (!n->tried_ns)
		read_names(n, now_ns);
	if (!n->syms)
		return "?";
	moves = address < n->begin || address >= n->end;
	if (moves && is_outdated(n, now_ns)) {
		if (now_ns - n->tried_ns < AGAIN_NS)
			return "?";
		read_names(n, now_ns);
		if (!n->syms)
			return "?";
	}
	name = rut_kallsyms_find(n->syms, address, &distance);
	return name && !(moves && distance >= FUNCTION_MAX) ? name : "?";
}

void rut_kernel_names_age(struct rut_kernel_names *n, uint64_t now_ns)
{
	if (n->tried_ns && now_ns - n->tried_ns >= KEPT_NS)
		rut_kernel_names_fini(n);
}

void rut_kernel_names_fini(struct rut_kernel_names *n)
{
	rut_kallsyms_free(n->syms);
	*n = (struct rut_kernel_names){0};
}
