/* SPDX-License-Identifier: MIT */
#include "session/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
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

	if (rc < 0)
		return rut_err_errno(err, -rc,
				     "cannot read '" BTF_PATH "': this kernel has no BTF "
				     "(CONFIG_DEBUG_INFO_BTF), which recording needs");
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
