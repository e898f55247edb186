/* SPDX-License-Identifier: MIT */
/*
 * Where an argument is when its function is entered is not always what its location says: without
 * optimization that is a place on the stack which the function fills first. So a register or a
 * place in the caller's frame is taken from the location, and everything else from the calling
 * convention, where that is known: an argument that optimization has removed, or a small
 * structure by value, leaves the registers of those behind it unknown.
 */
#include "probe/dwarf_args.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "bpf/probe.h"
#include "probe/debug.h"

struct rut_dwarf {
	Dwarf *dw; /* owned */
	int fd;
};

static Dwarf *begin(const char *path, int *ret_fd)
{
	int fd = rut_file_open_regular(path);
	Dwarf *dw = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
	Dwarf_Off next;
	size_t header;

	/* A stripped file may have tables of unwinding, and nothing else. */
	if (dw && dwarf_nextcu(dw, 0, &next, &header, NULL, NULL, NULL) == 0) {
		*ret_fd = fd;
		return dw;
	}
	if (dw)
		dwarf_end(dw);
	if (fd >= 0)
		close(fd);
	return NULL;
}

struct rut_dwarf *rut_dwarf_open(const char *path)
{
	struct rut_dwarf *d = calloc(1, sizeof(*d));
	char root[64], separate[1024];

	if (!d)
		return NULL;
	d->dw = begin(path, &d->fd);
	rut_debug_root(path, root, sizeof(root));
	if (!d->dw && !rut_debug_find(root, path, separate, sizeof(separate)))
		d->dw = begin(separate, &d->fd);
	if (d->dw)
		return d;
	free(d);
	return NULL;
}

void rut_dwarf_close(struct rut_dwarf *d)
{
	if (!d)
		return;
	dwarf_end(d->dw);
	close(d->fd);
	free(d);
}

/* Not every compiler writes the index of addresses. */
static bool find_unit(Dwarf *dw, Dwarf_Addr address, Dwarf_Die *ret)
{
	Dwarf_Off at = 0, next;
	size_t header;

	if (dwarf_addrdie(dw, address, ret))
		return true;
	for (; dwarf_nextcu(dw, at, &next, &header, NULL, NULL, NULL) == 0; at = next)
		if (dwarf_offdie(dw, at + header, ret) && dwarf_haspc(ret, address) > 0)
			return true;
	return false;
}

struct wanted {
	Dwarf_Addr address;
	Dwarf_Die die;
	bool found;
};

static int is_wanted(Dwarf_Die *die, void *arg)
{
	struct wanted *w = arg;
	Dwarf_Addr entry;

	if (dwarf_entrypc(die, &entry) != 0 || entry != w->address)
		return DWARF_CB_OK;
	w->die = *die;
	w->found = true;
	return DWARF_CB_ABORT;
}

static bool find_function(Dwarf *dw, Dwarf_Addr address, Dwarf_Die *ret)
{
	struct wanted w = {.address = address};
	Dwarf_Die unit;

	if (!find_unit(dw, address, &unit))
		return false;
	dwarf_getfuncs(&unit, is_wanted, &w, 0);
	*ret = w.die;
	return w.found;
}

enum kind {
	KIND_VOID,
	KIND_NUMBER, /* in a general register */
	KIND_FLOAT,
	KIND_MEMORY, /* by value, too large for registers */
	KIND_OTHER,
};

struct type {
	enum kind kind;
	size_t bytes;
	const char *name; /* of probe/arg.h; NULL: none */
};

static const char *number_name(size_t bytes, char sign)
{
	static const char *const names[][4] = {{"u8", "u16", "u32", "u64"},
					       {"s8", "s16", "s32", "s64"},
					       {"x8", "x16", "x32", "x64"}};
	int row = sign == 'u' ? 0 : sign == 's' ? 1 : 2;

	return bytes == 1   ? names[row][0]
	       : bytes == 2 ? names[row][1]
	       : bytes == 4 ? names[row][2]
	       : bytes == 8 ? names[row][3]
			    : NULL;
}

static bool peel(Dwarf_Die *die)
{
	return dwarf_peel_type(die, die) == 0;
}

static bool type_of(Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute a;

	return dwarf_attr_integrate(die, DW_AT_type, &a) && dwarf_formref_die(&a, ret) && peel(ret);
}

static bool is_text(Dwarf_Die *pointer)
{
	Dwarf_Attribute a;
	Dwarf_Word encoding;
	Dwarf_Die to;

	return type_of(pointer, &to) && dwarf_tag(&to) == DW_TAG_base_type &&
	       dwarf_bytesize(&to) == 1 && dwarf_attr(&to, DW_AT_encoding, &a) &&
	       dwarf_formudata(&a, &encoding) == 0 && encoding == DW_ATE_signed_char;
}

static struct type describe_base(Dwarf_Die *die, size_t bytes)
{
	Dwarf_Attribute a;
	Dwarf_Word encoding;

	if (!dwarf_attr(die, DW_AT_encoding, &a) || dwarf_formudata(&a, &encoding) != 0)
		return (struct type){KIND_OTHER, bytes, NULL};
	switch (encoding) {
	case DW_ATE_float:
		if (bytes == 4 || bytes == 8)
			return (struct type){KIND_FLOAT, bytes, bytes == 4 ? "f32" : "f64"};
		return (struct type){KIND_OTHER, bytes, NULL};
	case DW_ATE_signed:
	case DW_ATE_signed_char:
		return (struct type){bytes <= 8 ? KIND_NUMBER : KIND_OTHER, bytes,
				     number_name(bytes, 's')};
	case DW_ATE_unsigned:
	case DW_ATE_unsigned_char:
	case DW_ATE_boolean:
	case DW_ATE_UTF:
		return (struct type){bytes <= 8 ? KIND_NUMBER : KIND_OTHER, bytes,
				     number_name(bytes, 'u')};
	default:
		return (struct type){KIND_OTHER, bytes, NULL};
	}
}

/* What the type of an argument, a variable or a function's result is in a register. */
static struct type describe_type(Dwarf_Die *of)
{
	Dwarf_Word bytes = 0;
	Dwarf_Attribute a;
	Dwarf_Die die;

	if (!dwarf_attr_integrate(of, DW_AT_type, &a))
		return (struct type){KIND_VOID, 0, NULL};
	if (!type_of(of, &die))
		return (struct type){KIND_OTHER, 0, NULL};
	dwarf_aggregate_size(&die, &bytes);
	switch (dwarf_tag(&die)) {
	case DW_TAG_pointer_type:
		return (struct type){KIND_NUMBER, 8, is_text(&die) ? "str" : "x64"};
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		return (struct type){KIND_NUMBER, 8, "x64"};
	case DW_TAG_enumeration_type:
		return (struct type){KIND_NUMBER, bytes, number_name(bytes, 's')};
	case DW_TAG_base_type:
		return describe_base(&die, bytes);
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
		return (struct type){bytes > 16 ? KIND_MEMORY : KIND_OTHER, bytes, NULL};
	default:
		return (struct type){KIND_OTHER, bytes, NULL};
	}
}

#if defined(__x86_64__)
#define REGISTERS 16
#define FLOATS	  8
static const char *const registers[REGISTERS] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi",
						 "rbp", "rsp", "r8",  "r9",  "r10", "r11",
						 "r12", "r13", "r14", "r15"};
static const char *const in_order[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9"};
#define NORDER 6

/* How far the calling convention has got. */
struct convention {
	unsigned int numbers, floats;
	size_t stack; /* bytes */
	bool lost;    /* the location of the next is not known */
};

enum place { PLACE_NONE, PLACE_REGISTER, PLACE_STACK, PLACE_UNSEEN, PLACE_UNKNOWN };

struct operand {
	enum place place;
	const char *name;
	size_t offset; /* from the stack pointer at the entry */
};

static struct operand by_location(Dwarf_Die *die, Dwarf_Addr address)
{
	Dwarf_Attribute a;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr_integrate(die, DW_AT_location, &a) ||
	    dwarf_getlocation_addr(&a, address, &ops, &n, 1) != 1 || !n)
		return (struct operand){.place = PLACE_NONE};
	if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom < DW_OP_reg0 + REGISTERS)
		return (struct operand){PLACE_REGISTER, registers[ops[0].atom - DW_OP_reg0], 0};
	if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31)
		return (struct operand){.place = PLACE_UNSEEN};
	/* The frame's base is the caller's stack pointer before the call. */
	if (n == 1 && ops[0].atom == DW_OP_fbreg && (int64_t)ops[0].number >= 0)
		return (struct operand){PLACE_STACK, NULL, 8 + ops[0].number};
	return (struct operand){.place = PLACE_UNKNOWN};
}

static struct operand by_convention(struct convention *c, const struct type *t)
{
	struct operand o = {.place = PLACE_UNSEEN};

	if (t->kind == KIND_OTHER || t->kind == KIND_VOID)
		c->lost = true;
	if (c->lost)
		return o;
	if (t->kind == KIND_NUMBER && c->numbers < NORDER)
		return (struct operand){PLACE_REGISTER, in_order[c->numbers++], 0};
	if (t->kind == KIND_FLOAT && c->floats < FLOATS) {
		c->floats++;
		return o;
	}
	o = (struct operand){PLACE_STACK, NULL, 8 + c->stack};
	c->stack += (t->bytes + 7) / 8 * 8;
	return o;
}

static bool is_name(const char *name)
{
	return name && *name && strlen(name) < 48 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
		       strlen(name);
}

static bool append(struct rut_buf *out, const char *name, const struct operand *o,
		   const struct type *t, size_t room)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (!t->name || !is_name(name))
		return false;
	if (o->place == PLACE_REGISTER && t->kind == KIND_NUMBER)
		rut_buf_printf(&text, "%s=%%%s:%s", name, o->name, t->name);
	else if (o->place == PLACE_STACK)
		rut_buf_printf(&text, "%s=@%zu(%%rsp):%s", name, o->offset, t->name);
	if (text.failed || !text.len || out->len + text.len + 1 > room)
		return false;
	rut_buf_printf(out, "%s%s", out->len ? "," : "", text.data);
	return true;
}

static int add_arguments(Dwarf_Die *function, Dwarf_Addr address, size_t room, struct rut_buf *out)
{
	struct type result = describe_type(function);
	/* A large result is stored where the first argument says. */
	struct convention c = {.numbers = result.kind == KIND_MEMORY};
	Dwarf_Die die;
	int n = 0;

	if (dwarf_child(function, &die) != 0)
		return 0;
	do {
		struct operand o, usual;
		struct type t;

		if (dwarf_tag(&die) != DW_TAG_formal_parameter)
			continue;
		t = describe_type(&die);
		o = by_location(&die, address);
		usual = by_convention(&c, &t);
		if (o.place == PLACE_NONE)
			c.lost = true; /* removed, and the others may be elsewhere */
		if (o.place == PLACE_UNKNOWN)
			o = usual;
		if (n < RUT_PROBE_ARGS)
			n += append(out, dwarf_diename(&die), &o, &t, room);
	} while (dwarf_siblingof(&die, &die) == 0);
	return n;
}

int rut_dwarf_arguments(struct rut_dwarf *d, uint64_t address, bool ret, size_t room,
			struct rut_buf *out)
{
	Dwarf_Die function;
	struct type t;

	if (!find_function(d->dw, address, &function))
		return -ENOENT;
	if (!ret)
		return add_arguments(&function, address, room, out);
	t = describe_type(&function);
	if (t.kind != KIND_NUMBER || !t.name)
		return 0;
	rut_buf_printf(out, "ret:%s", t.name);
	return 1;
}
#else
int rut_dwarf_arguments(struct rut_dwarf *d, uint64_t address, bool ret, size_t room,
			struct rut_buf *out)
{
	return -ENOENT;
}
#endif
