/* SPDX-License-Identifier: MIT */
/*
 * A provider in the DTrace Object Format.
 *
 * A process hands such an object to the kernel (the helper ioctl of macOS, illumos and FreeBSD),
 *which reads from it where the probes are. It is a header, a table of sections, and the sections:
 *
 *	STRTAB     all names and types of arguments, ELF style: offset 0 is the empty string
 *	PROBES     one entry a probe: address, names, how many arguments, which offsets
 *	PRARGS     one byte an argument: which native argument it is; here always its own number
 *	PROFFS     one offset a probe, from its address to the instruction to replace
 *	PRENOFFS   the same for the question whether the probe is enabled
 *	PROVIDER   links to all of these, the name, and how stable the interface is
 *
 * The kernel wants offsets inside the object, entries of the sizes below, each probe with at least
 *one offset, and sections aligned as they say.
 */
#include "usdt/dof.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

enum {
	SEC_STRTAB,
	SEC_PROBES,
	SEC_PRARGS,
	SEC_PROFFS,
	SEC_PRENOFFS,
	SEC_PROVIDER,
	SEC_COUNT,
};

enum {
	TYPE_STRTAB = 8,
	TYPE_PROVIDER = 15,
	TYPE_PROBES = 16,
	TYPE_PRARGS = 17,
	TYPE_PROFFS = 18,
	TYPE_PRENOFFS = 26
};

enum { MODEL_LP64 = 2, ENCODE_LSB = 1, DIF_VERSION = 2, DIF_REGISTERS = 8, SECF_LOAD = 1 };

/* name, data: evolving (5); class: common (5) ... as dtrace(1) marks what is not promised. */
#define ATTRIBUTES (5u << 24 | 5u << 16 | 5u << 8)

struct header {
	uint8_t ident[16];
	uint32_t flags, header_size, section_size, section_count;
	uint64_t section_offset, load_size, file_size, pad;
};
_Static_assert(sizeof(struct header) == 64, "as published");

struct section {
	uint32_t type, align, flags, entry_size;
	uint64_t offset, size;
};
_Static_assert(sizeof(struct section) == 32, "as published");

struct provider {
	uint32_t strtab, probes, prargs, proffs, name;
	uint32_t provider_attr, module_attr, function_attr, name_attr, args_attr;
	uint32_t prenoffs;
};
_Static_assert(sizeof(struct provider) == 44, "as published");

struct probe {
	uint64_t address;
	uint32_t function, name, native_args, translated_args, arg_index, offset_index;
	uint8_t native_count, translated_count;
	uint16_t offset_count;
	uint32_t enabled_index;
	uint16_t enabled_count, pad1;
	uint32_t pad2;
};
_Static_assert(sizeof(struct probe) == 48, "as published");

static const char *c_type(enum rutile_usdt_type type)
{
	static const char *const names[RUTILE_USDT_TYPES] = {
		[RUTILE_USDT_U8] = "uint8_t",	[RUTILE_USDT_S8] = "int8_t",
		[RUTILE_USDT_U16] = "uint16_t", [RUTILE_USDT_S16] = "int16_t",
		[RUTILE_USDT_U32] = "uint32_t", [RUTILE_USDT_S32] = "int32_t",
		[RUTILE_USDT_U64] = "uint64_t", [RUTILE_USDT_S64] = "int64_t",
		[RUTILE_USDT_STR] = "char *",	[RUTILE_USDT_F64] = "uint64_t",
		[RUTILE_USDT_BOOL] = "uint8_t",
	};

	return (int)type > 0 && type < RUTILE_USDT_TYPES ? names[type] : NULL;
}

struct dof {
	struct rut_buf data[SEC_COUNT];
	struct section sections[SEC_COUNT];
};

static uint32_t add_string(struct dof *d, const char *s)
{
	uint32_t at = (uint32_t)d->data[SEC_STRTAB].len;

	rut_buf_add(&d->data[SEC_STRTAB], s, strlen(s) + 1);
	return at;
}

static int add_probe(struct dof *d, const struct rut_usdt_dof_probe *p, uint32_t i)
{
	struct probe entry = {
		.address = p->address,
		.function = add_string(d, p->function),
		.name = add_string(d, p->desc.name),
		.arg_index = (uint32_t)d->data[SEC_PRARGS].len,
		.offset_index = i,
		.native_count = (uint8_t)p->desc.n_types,
		.translated_count = (uint8_t)p->desc.n_types,
		.offset_count = 1,
		.enabled_index = i,
		.enabled_count = 1,
	};

	if (p->desc.n_types > RUTILE_USDT_MAX_ARGS)
		return -EINVAL;
	/* Types follow one another; native and translated ones are the same. */
	entry.native_args = entry.translated_args = (uint32_t)d->data[SEC_STRTAB].len;
	if (!p->desc.n_types)
		entry.native_args = entry.translated_args = 0;
	for (unsigned k = 0; k < p->desc.n_types; k++) {
		const char *type = c_type(p->desc.types[k]);

		if (!type)
			return -EINVAL;
		add_string(d, type);
		rut_buf_putc(&d->data[SEC_PRARGS], (char)k);
	}
	rut_buf_add(&d->data[SEC_PROBES], &entry, sizeof(entry));
	rut_buf_add(&d->data[SEC_PROFFS], &p->site_offset, sizeof(p->site_offset));
	rut_buf_add(&d->data[SEC_PRENOFFS], &p->enabled_offset, sizeof(p->enabled_offset));
	return 0;
}

static void add_provider(struct dof *d, const char *name)
{
	struct provider p = {
		.strtab = SEC_STRTAB,
		.probes = SEC_PROBES,
		.prargs = SEC_PRARGS,
		.proffs = SEC_PROFFS,
		.name = add_string(d, name),
		.provider_attr = ATTRIBUTES,
		.module_attr = ATTRIBUTES,
		.function_attr = ATTRIBUTES,
		.name_attr = ATTRIBUTES,
		.args_attr = ATTRIBUTES,
		.prenoffs = SEC_PRENOFFS,
	};

	rut_buf_add(&d->data[SEC_PROVIDER], &p, sizeof(p));
}

static void describe(struct dof *d, unsigned sec, uint32_t type, uint32_t align, uint32_t entry)
{
	d->sections[sec] = (struct section){
		.type = type,
		.align = align,
		.flags = SECF_LOAD,
		.entry_size = entry,
		.size = d->data[sec].len,
	};
}

static void describe_all(struct dof *d)
{
	/* The kernel takes no empty table, and probes without arguments leave one. */
	if (!d->data[SEC_PRARGS].len)
		rut_buf_putc(&d->data[SEC_PRARGS], 0);
	describe(d, SEC_STRTAB, TYPE_STRTAB, 1, 0);
	describe(d, SEC_PROBES, TYPE_PROBES, 8, sizeof(struct probe));
	describe(d, SEC_PRARGS, TYPE_PRARGS, 1, 1);
	describe(d, SEC_PROFFS, TYPE_PROFFS, 4, 4);
	describe(d, SEC_PRENOFFS, TYPE_PRENOFFS, 4, 4);
	describe(d, SEC_PROVIDER, TYPE_PROVIDER, 4, 0);
}

static int assemble(struct dof *d, unsigned version, struct rut_buf *out)
{
	struct header h = {
		.ident = {0x7f, 'D', 'O', 'F', MODEL_LP64, ENCODE_LSB, (uint8_t)version,
			  DIF_VERSION, DIF_REGISTERS, DIF_REGISTERS},
		.header_size = sizeof(h),
		.section_size = sizeof(struct section),
		.section_count = SEC_COUNT,
		.section_offset = sizeof(h),
	};
	uint64_t at = sizeof(h) + sizeof(d->sections);

	for (unsigned i = 0; i < SEC_COUNT; i++) {
		at = (at + d->sections[i].align - 1) / d->sections[i].align * d->sections[i].align;
		d->sections[i].offset = at;
		at += d->sections[i].size;
	}
	h.load_size = h.file_size = at;
	rut_buf_add(out, &h, sizeof(h));
	rut_buf_add(out, d->sections, sizeof(d->sections));
	for (unsigned i = 0; i < SEC_COUNT; i++) {
		while (out->len < d->sections[i].offset && !out->failed)
			rut_buf_putc(out, 0);
		rut_buf_add(out, d->data[i].data, d->data[i].len);
		if (d->data[i].failed)
			return -ENOMEM;
	}
	return out->failed ? -ENOMEM : 0;
}

int rut_usdt_dof_build(unsigned version, const char *provider,
		       const struct rut_usdt_dof_probe *probes, size_t n, struct rut_buf *out)
{
	struct dof d = {0};
	int rc = n && !out->len ? 0 : -EINVAL;

	add_string(&d, "");
	for (size_t i = 0; i < n && !rc; i++)
		rc = add_probe(&d, &probes[i], (uint32_t)i);
	if (!rc) {
		add_provider(&d, provider);
		describe_all(&d);
		rc = assemble(&d, version, out);
	}
	for (unsigned i = 0; i < SEC_COUNT; i++)
		rut_buf_fini(&d.data[i]);
	return rc;
}
