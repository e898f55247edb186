/* SPDX-License-Identifier: MIT */
#include "probe/unwind.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define HEADERS_MAX 64
#define BYTES_MAX   (256u << 20)
#define ROWS_MAX    (1u << RUT_UNWIND_BITS)
#define CIE_MAX	    512 /* bytes: it is read for each function, and has some tens */
#define STATES_MAX  16
#define PADDING	    64 /* bytes between functions that nobody runs */
#define SAME	    INT64_MAX
#define DW_RBP	    6
#define DW_RSP	    7
#define DW_RIP	    16
#define DW_EH_PCREL 0x10
#define DW_EH_DATA  0x30
#define DW_EH_OMIT  0xff

/* Bytes of the file that are being read, and where they are in memory. */
struct input {
	const unsigned char *at, *end;
	uint64_t address; /* of `at` */
	bool bad;
};

/* What a row is made of. */
struct state {
	enum rut_unwind_kind kind;
	unsigned int reg;
	int64_t cfa; /* bytes */
	int64_t bp;  /* bytes behind the CFA; SAME */
	bool bp_known;
	bool ra_known; /* the return address is where calls push it */
	bool no_caller;
};

struct cie {
	uint64_t code_align;
	int64_t data_align;
	unsigned int ra;
	unsigned char fde_encoding, lsda_encoding;
	bool augmented, signal;
	struct input code;
};

struct part {
	struct rut_unwind_table *t;
	const unsigned char *bytes; /* of the segment that has .eh_frame */
	size_t len;
	uint64_t address;
	size_t rows_cap, functions_cap;
};

/* --- numbers ------------------------------------------------------------------------------- */

static uint64_t get(struct input *in, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(in->end - in->at) < n) {
		in->bad = true;
		in->at = in->end;
		return 0;
	}
	memcpy(&v, in->at, n);
	in->at += n;
	in->address += n;
	return v;
}

static uint64_t get_leb(struct input *in, bool is_signed)
{
	uint64_t v = 0, byte;
	unsigned int shift = 0;

	do {
		byte = get(in, 1);
		if (shift < 64)
			v |= (byte & 127) << shift;
		shift += 7;
	} while (byte & 128);
	if (is_signed && shift < 64 && byte & 64)
		v |= ~0ull << shift;
	return v;
}

static uint64_t get_uleb(struct input *in)
{
	return get_leb(in, false);
}

static int64_t get_sleb(struct input *in)
{
	return (int64_t)get_leb(in, true);
}

/* An address as the tables encode it; `data`: the base of those that are relative to data. */
static uint64_t get_encoded(struct input *in, unsigned char encoding, uint64_t data)
{
	uint64_t base = 0, v;

	if ((encoding & 0x70) == DW_EH_PCREL)
		base = in->address;
	else if ((encoding & 0x70) == DW_EH_DATA)
		base = data;
	else if (encoding & 0x70)
		in->bad = true;
	switch (encoding & 15) {
	case 0: /* absptr */
	case 4:
	case 12:
		v = get(in, 8);
		break;
	case 1:
		v = get_uleb(in);
		break;
	case 9:
		v = (uint64_t)get_sleb(in);
		break;
	case 2:
		v = get(in, 2);
		break;
	case 10:
		v = (uint64_t)(int64_t)(int16_t)get(in, 2);
		break;
	case 3:
		v = get(in, 4);
		break;
	case 11:
		v = (uint64_t)(int64_t)(int32_t)get(in, 4);
		break;
	default:
		in->bad = true;
		return 0;
	}
	return base + v;
}

/* --- rows ---------------------------------------------------------------------------------- */

static bool is_words(int64_t bytes, uint64_t max)
{
	return bytes >= 0 && !(bytes & 7) && (uint64_t)bytes / 8 <= max;
}

static uint32_t rule_of(const struct state *s, bool is_signal)
{
	int64_t bp = s->bp == SAME ? 0 : -s->bp;
	enum rut_unwind_kind kind = s->kind;

	if (is_signal)
		return RUT_UNWIND_RULE(RUT_UNWIND_SIGNAL, 0, 0);
	if (s->no_caller)
		return RUT_UNWIND_RULE(RUT_UNWIND_END, 0, 0);
	if (kind == RUT_UNWIND_SP && s->reg == DW_RBP)
		kind = RUT_UNWIND_BP;
	else if (kind == RUT_UNWIND_SP && s->reg != DW_RSP)
		kind = RUT_UNWIND_NONE;
	/* %rbp is lost, or either is elsewhere: what is outside cannot be known when it is needed.
	 */
	if (kind == RUT_UNWIND_NONE || !s->bp_known || !s->ra_known ||
	    !is_words(s->cfa, RUT_UNWIND_CFA_MAX) || !is_words(bp, RUT_UNWIND_BP_MAX))
		return RUT_UNWIND_RULE(RUT_UNWIND_NONE, 0, 0);
	return RUT_UNWIND_RULE(kind, s->cfa / 8, bp / 8);
}

static int add_row(struct part *p, uint64_t pc, uint32_t rule)
{
	struct rut_unwind_table *t = p->t;

	if (pc > UINT32_MAX)
		return -ERANGE;
	if (t->nrows == ROWS_MAX)
		return -E2BIG;
	if (t->nrows == p->rows_cap) {
		size_t cap = p->rows_cap ? 2 * p->rows_cap : 1024;
		void *more = reallocarray(t->rows, cap, sizeof(*t->rows));

		if (!more)
			return -ENOMEM;
		t->rows = more;
		p->rows_cap = cap;
	}
	t->rows[t->nrows++] = (struct rut_unwind_row){(uint32_t)pc, rule};
	return 0;
}

static int add_function(struct part *p, uint64_t start, uint64_t end)
{
	struct rut_unwind_table *t = p->t;

	if (t->nfunctions == p->functions_cap) {
		size_t cap = p->functions_cap ? 2 * p->functions_cap : 256;
		void *more = reallocarray(t->functions, cap, sizeof(*t->functions));

		if (!more)
			return -ENOMEM;
		t->functions = more;
		p->functions_cap = cap;
	}
	t->functions[t->nfunctions++] =
		(struct rut_unwind_function){(uint32_t)start, (uint32_t)end};
	return 0;
}

/* --- expressions --------------------------------------------------------------------------- */

/*
 * The few expressions that compilers and assembly write. An entry of the PLT has pushed one word
 * when it is behind its eleventh byte.
 */
static void cfa_expression(struct state *s, struct input e)
{
	static const unsigned char plt[] = {0x77, 8,	0x80, 0,    0x3f, 0x1a,
					    0x3b, 0x2a, 0x33, 0x24, 0x22};
	size_t len = (size_t)(e.end - e.at);
	unsigned int op = (unsigned int)get(&e, 1);
	int64_t at;

	s->kind = RUT_UNWIND_NONE;
	if (len == sizeof(plt) && !memcmp(e.at - 1, plt, sizeof(plt))) {
		s->kind = RUT_UNWIND_PLT;
		s->cfa = 0;
		return;
	}
	if (op != 0x70 + DW_RBP && op != 0x70 + DW_RSP)
		return;
	at = get_sleb(&e);
	if (get(&e, 1) != 0x06) /* deref */
		return;
	if (op == 0x70 + DW_RBP && e.at == e.end) {
		s->kind = RUT_UNWIND_BP_WORD;
		s->cfa = -at;
	} else if (op == 0x70 + DW_RSP && get(&e, 1) == 0x23 && get_uleb(&e) == 8 &&
		   e.at == e.end) {
		s->kind = RUT_UNWIND_SP_WORD;
		s->cfa = at;
	}
	if (e.bad)
		s->kind = RUT_UNWIND_NONE;
}

/* %rbp lies where %rbp points: what RUT_UNWIND_BP_WORD says anyway. */
static bool is_at_bp(struct input e)
{
	return e.end - e.at == 2 && e.at[0] == 0x70 + DW_RBP && !e.at[1];
}

static struct input get_block(struct input *in)
{
	uint64_t len = get_uleb(in);
	struct input block = *in;

	if (len > (uint64_t)(in->end - in->at)) {
		in->bad = true;
		len = 0;
	}
	block.end = block.at + len;
	in->at += len;
	in->address += len;
	return block;
}

/* --- programs ------------------------------------------------------------------------------ */

struct run {
	struct part *p;
	const struct cie *cie;
	struct state s, first, saved[STATES_MAX];
	size_t nsaved;
	uint64_t pc, end;
	bool rows; /* false: the part of the CIE, which has none */
	int rc;
};

static void set_register(struct run *r, uint64_t reg, int64_t offset, bool known)
{
	if (reg == DW_RBP) {
		r->s.bp = offset;
		r->s.bp_known = known;
	} else if (reg == r->cie->ra) {
		r->s.ra_known = known && offset == -8;
		r->s.no_caller = false;
	}
}

static void restore(struct run *r, uint64_t reg)
{
	if (reg == DW_RBP) {
		r->s.bp = r->first.bp;
		r->s.bp_known = r->first.bp_known;
	} else if (reg == r->cie->ra) {
		r->s.ra_known = r->first.ra_known;
		r->s.no_caller = r->first.no_caller;
	}
}

static void advance(struct run *r, uint64_t delta)
{
	if (!r->rows || r->rc || !delta)
		return;
	r->rc = add_row(r->p, r->pc, rule_of(&r->s, r->cie->signal));
	r->pc += delta * r->cie->code_align;
	if (r->pc > r->end)
		r->rc = -EBADMSG;
}

static void def_cfa(struct run *r, uint64_t reg, int64_t offset)
{
	r->s.kind = RUT_UNWIND_SP;
	r->s.reg = (unsigned int)reg;
	r->s.cfa = offset;
}

/* Those that say where a register is. */
static bool run_register(struct run *r, unsigned int op, struct input *in)
{
	int64_t align = r->cie->data_align;
	struct input block;
	uint64_t reg;

	if ((op < 0x05 || op > 0x09) && op != 0x10 && op != 0x11 && op != 0x14 && op != 0x15 &&
	    op != 0x16 && op != 0x2f)
		return false;
	reg = get_uleb(in);
	switch (op) {
	case 0x05: /* offset_extended */
		set_register(r, reg, (int64_t)get_uleb(in) * align, true);
		break;
	case 0x11: /* offset_extended_sf */
		set_register(r, reg, get_sleb(in) * align, true);
		break;
	case 0x2f: /* GNU_negative_offset_extended */
		set_register(r, reg, -(int64_t)get_uleb(in) * align, true);
		break;
	case 0x06: /* restore_extended */
		restore(r, reg);
		break;
	case 0x07: /* undefined */
		set_register(r, reg, SAME, false);
		r->s.no_caller |= reg == r->cie->ra;
		break;
	case 0x08: /* same_value */
		set_register(r, reg, SAME, true);
		break;
	case 0x10: /* expression */
		block = get_block(in);
		set_register(r, reg, SAME, is_at_bp(block));
		break;
	case 0x16: /* val_expression */
		get_block(in);
		set_register(r, reg, SAME, false);
		break;
	default: /* register, val_offset, val_offset_sf */
		get_uleb(in);
		set_register(r, reg, SAME, false);
	}
	return true;
}

static void run_cfa(struct run *r, unsigned int op, struct input *in)
{
	uint64_t reg;

	switch (op) {
	case 0x0c: /* def_cfa */
		reg = get_uleb(in);
		def_cfa(r, reg, (int64_t)get_uleb(in));
		break;
	case 0x12: /* def_cfa_sf */
		reg = get_uleb(in);
		def_cfa(r, reg, get_sleb(in) * r->cie->data_align);
		break;
	case 0x0d: /* def_cfa_register */
		def_cfa(r, get_uleb(in), r->s.cfa);
		break;
	case 0x0e: /* def_cfa_offset */
		r->s.cfa = (int64_t)get_uleb(in);
		break;
	case 0x13: /* def_cfa_offset_sf */
		r->s.cfa = get_sleb(in) * r->cie->data_align;
		break;
	case 0x0f: /* def_cfa_expression */
		cfa_expression(&r->s, get_block(in));
		break;
	default:
		r->rc = -EBADMSG; /* an operation that nobody knows: its operands neither */
	}
}

static void run_other(struct run *r, unsigned int op, struct input *in)
{
	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x01: { /* set_loc */
		uint64_t to = get_encoded(in, r->cie->fde_encoding, 0);

		advance(r, to > r->pc ? (to - r->pc) / r->cie->code_align : 0);
		break;
	}
	case 0x02: /* advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		advance(r, get(in, 1u << (op - 2)));
		break;
	case 0x0a: /* remember_state */
		if (r->nsaved < STATES_MAX)
			r->saved[r->nsaved++] = r->s;
		else
			r->rc = -EBADMSG;
		break;
	case 0x0b: /* restore_state */
		if (r->nsaved)
			r->s = r->saved[--r->nsaved];
		else
			r->rc = -EBADMSG;
		break;
	case 0x2e: /* GNU_args_size */
		get_uleb(in);
		break;
	default:
		run_cfa(r, op, in);
	}
}

static void run_program(struct run *r, struct input in)
{
	while (in.at < in.end && !r->rc) {
		unsigned int op = (unsigned int)get(&in, 1);

		switch (op >> 6) {
		case 1:
			advance(r, op & 63);
			break;
		case 2:
			set_register(r, op & 63, (int64_t)get_uleb(&in) * r->cie->data_align, true);
			break;
		case 3:
			restore(r, op & 63);
			break;
		default:
			if (!run_register(r, op, &in))
				run_other(r, op, &in);
		}
	}
	if (in.bad && !r->rc)
		r->rc = -EBADMSG;
}

/* --- entries ------------------------------------------------------------------------------- */

static int read_cie(struct cie *c, struct input in)
{
	const char *augmentation;
	uint64_t version = get(&in, 1);

	*c = (struct cie){.fde_encoding = 0, .lsda_encoding = DW_EH_OMIT};
	augmentation = (const char *)in.at;
	if ((version != 1 && version != 3) || !memchr(in.at, 0, (size_t)(in.end - in.at)))
		return -EBADMSG;
	get(&in, 1); /* in the loop below, unless it is empty */
	for (const char *a = augmentation; *a; a++)
		get(&in, 1);
	c->code_align = get_uleb(&in);
	c->data_align = get_sleb(&in);
	c->ra = (unsigned int)(version == 1 ? get(&in, 1) : get_uleb(&in));
	if (*augmentation == 'z') {
		uint64_t len = get_uleb(&in);
		struct input data = in;

		if (len > (uint64_t)(in.end - in.at))
			return -EBADMSG;
		data.end = data.at + len;
		in.at += len;
		in.address += len;
		c->augmented = true;
		for (const char *a = augmentation + 1; *a; a++) {
			if (*a == 'R')
				c->fde_encoding = (unsigned char)get(&data, 1);
			else if (*a == 'L')
				c->lsda_encoding = (unsigned char)get(&data, 1);
			else if (*a == 'P')
				get_encoded(&data, (unsigned char)get(&data, 1) & 0x7f, 0);
			else if (*a == 'S')
				c->signal = true;
			else
				break;
		}
	} else if (*augmentation) {
		return -EBADMSG;
	}
	c->code = in;
	return in.bad || c->ra != DW_RIP || !c->code_align ? -EBADMSG : 0;
}

/* The rows of one function. What is wrong in it costs this function only. */
static int read_fde(struct part *p, const struct cie *c, struct input in)
{
	size_t rows = p->t->nrows;
	struct run r = {
		.p = p,
		.cie = c,
		.s = {.kind = RUT_UNWIND_NONE, .bp = SAME, .bp_known = true},
	};
	uint64_t len;

	r.pc = get_encoded(&in, c->fde_encoding, 0);
	len = get_encoded(&in, c->fde_encoding & 15, 0);
	if (c->augmented) {
		uint64_t more = get_uleb(&in);

		if (more > (uint64_t)(in.end - in.at))
			return 0;
		in.at += more;
		in.address += more;
	}
	r.end = r.pc + len;
	if (in.bad || !len || r.end < r.pc || r.end > UINT32_MAX)
		return 0;
	run_program(&r, c->code);
	r.first = r.s;
	r.rows = true;
	len = r.pc;
	run_program(&r, in);
	if (!r.rc)
		r.rc = add_row(p, r.pc, rule_of(&r.s, c->signal));
	if (r.rc == -ENOMEM || r.rc == -E2BIG)
		return r.rc;
	if (r.rc) {
		p->t->nrows = rows;
		r.rc = add_row(p, len, RUT_UNWIND_RULE(RUT_UNWIND_NONE, 0, 0));
		if (r.rc)
			return r.rc;
	}
	return add_function(p, len, r.end);
}

/* Where an address lies in the segment's bytes, up to the segment's end. */
static bool input_at(const struct part *p, uint64_t address, struct input *ret)
{
	if (address < p->address || address - p->address >= p->len)
		return false;
	*ret = (struct input){p->bytes + (address - p->address), p->bytes + p->len, address, false};
	return true;
}

/* Entries follow each other up to one of length 0. */
static int read_frames(struct part *p, uint64_t address)
{
	struct cie cie = {0};
	uint64_t cie_at = 0;
	struct input in;
	int rc = 0;

	if (!input_at(p, address, &in))
		return -EBADMSG;
	while (!rc && in.end - in.at >= 8) {
		uint64_t len = get(&in, 4), id_at, id;
		struct input entry = in;

		/* Nobody writes the 64-bit form. */
		if (!len || len == 0xffffffff || len > (uint64_t)(in.end - in.at) || len < 4)
			break;
		entry.end = entry.at + len;
		id_at = entry.address;
		id = get(&entry, 4);
		if (id) {
			struct input of;

			if (id_at - id != cie_at) {
				uint64_t size;

				cie_at = 0;
				if (input_at(p, id_at - id, &of)) {
					size = get(&of, 4);
					get(&of, 4);
					if (size >= 4 && size - 4 <= CIE_MAX &&
					    size - 4 <= (uint64_t)(of.end - of.at)) {
						of.end = of.at + (size - 4);
						if (!read_cie(&cie, of))
							cie_at = id_at - id;
					}
				}
			}
			if (cie_at)
				rc = read_fde(p, &cie, entry);
		}
		in.at += len;
		in.address += len;
	}
	return rc;
}

/* --- files --------------------------------------------------------------------------------- */

static int by_pc(const void *a, const void *b)
{
	const struct rut_unwind_row *x = a, *y = b;

	return (x->pc > y->pc) - (x->pc < y->pc);
}

static int by_start(const void *a, const void *b)
{
	const struct rut_unwind_function *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* Sorts; behind a function that no other follows nothing is known; equal neighbours are one row. */
static int finish(struct part *p)
{
	struct rut_unwind_table *t = p->t;
	size_t n = 0;
	int rc = 0;

	if (!t->nfunctions)
		return -ENODATA;
	qsort(t->functions, t->nfunctions, sizeof(*t->functions), by_start);
	for (size_t i = 0; i < t->nfunctions && !rc; i++)
		if (i + 1 == t->nfunctions ||
		    t->functions[i + 1].start >= t->functions[i].end + PADDING)
			rc = add_row(p, t->functions[i].end,
				     RUT_UNWIND_RULE(RUT_UNWIND_NONE, 0, 0));
	if (rc)
		return rc;
	qsort(t->rows, t->nrows, sizeof(*t->rows), by_pc);
	for (size_t i = 0; i < t->nrows; i++) {
		/* Of two for one address the last: a row that is known, not the gap. */
		if (n && t->rows[n - 1].pc == t->rows[i].pc) {
			if (RUT_UNWIND_KIND(t->rows[i].rule))
				t->rows[n - 1] = t->rows[i];
		} else if (!n || t->rows[n - 1].rule != t->rows[i].rule) {
			t->rows[n++] = t->rows[i];
		}
	}
	t->nrows = n;
	return 0;
}

/* .eh_frame_hdr says where .eh_frame is; they are in one segment. */
static int read_tables(struct part *p, uint64_t header)
{
	struct input in;
	uint64_t version, encoding, frames;
	int rc;

	if (!input_at(p, header, &in))
		return -EBADMSG;
	version = get(&in, 1);
	encoding = get(&in, 1);
	get(&in, 2);
	frames = get_encoded(&in, (unsigned char)encoding, header);
	if (version != 1 || encoding == DW_EH_OMIT || in.bad)
		return -EBADMSG;
	rc = read_frames(p, frames);
	return rc ? rc : finish(p);
}

static int check_header(const Elf64_Ehdr *h)
{
	return !memcmp(h->e_ident, ELFMAG, SELFMAG) && h->e_ident[EI_CLASS] == ELFCLASS64 &&
			       h->e_machine == EM_X86_64 && h->e_phentsize == sizeof(Elf64_Phdr) &&
			       h->e_phnum && h->e_phnum <= HEADERS_MAX
		       ? 0
		       : -ENOEXEC;
}

/* The segments of code; *tables: the one that has the tables at *header. */
static int read_segments(struct rut_unwind_table *t, const Elf64_Phdr *ph, size_t n,
			 const Elf64_Phdr **tables, uint64_t *header)
{
	*tables = NULL;
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type == PT_GNU_EH_FRAME)
			*header = ph[i].p_vaddr;
		if (ph[i].p_type == PT_LOAD && ph[i].p_flags & PF_X && t->nsegments < 8)
			t->segments[t->nsegments++] = (struct rut_unwind_segment){
				ph[i].p_offset, ph[i].p_filesz, ph[i].p_vaddr};
	}
	for (size_t i = 0; i < n; i++)
		if (ph[i].p_type == PT_LOAD && *header && *header >= ph[i].p_vaddr &&
		    *header - ph[i].p_vaddr < ph[i].p_filesz)
			*tables = &ph[i];
	return *tables ? 0 : -ENODATA;
}

int rut_unwind_read_image(struct rut_unwind_table *t, const void *image, size_t bytes)
{
	Elf64_Ehdr h;
	Elf64_Phdr ph[HEADERS_MAX];
	const Elf64_Phdr *tables;
	struct part p = {.t = t};
	uint64_t header = 0;
	int rc;

	*t = (struct rut_unwind_table){0};
	if (bytes < sizeof(h))
		return -ENOEXEC;
	memcpy(&h, image, sizeof(h));
	rc = check_header(&h);
	if (rc || h.e_phoff > bytes || h.e_phnum * sizeof(*ph) > bytes - h.e_phoff)
		return -ENOEXEC;
	memcpy(ph, (const char *)image + h.e_phoff, h.e_phnum * sizeof(*ph));
	rc = read_segments(t, ph, h.e_phnum, &tables, &header);
	if (rc)
		return rc;
	if (tables->p_offset > bytes || tables->p_filesz > bytes - tables->p_offset)
		return -EBADMSG;
	p.bytes = (const unsigned char *)image + tables->p_offset;
	p.len = tables->p_filesz;
	p.address = tables->p_vaddr;
	return read_tables(&p, header);
}

static int read_at(int fd, void *to, size_t len, uint64_t at)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pread(fd, (char *)to + done, len - done, (off_t)(at + done));

		if (n <= 0)
			return n < 0 ? -errno : -ENOEXEC;
		done += (size_t)n;
	}
	return 0;
}

int rut_unwind_read(struct rut_unwind_table *t, int fd)
{
	_cleanup_free_ unsigned char *bytes = NULL;
	Elf64_Ehdr h;
	Elf64_Phdr ph[HEADERS_MAX];
	const Elf64_Phdr *tables;
	struct part p = {.t = t};
	uint64_t header = 0;
	struct stat st;
	int rc;

	*t = (struct rut_unwind_table){0};
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOEXEC;
	rc = read_at(fd, &h, sizeof(h), 0);
	if (!rc)
		rc = check_header(&h);
	if (!rc)
		rc = read_at(fd, ph, h.e_phnum * sizeof(*ph), h.e_phoff);
	if (!rc)
		rc = read_segments(t, ph, h.e_phnum, &tables, &header);
	if (rc)
		return rc;
	if (tables->p_filesz > BYTES_MAX || tables->p_filesz > (uint64_t)st.st_size)
		return -E2BIG;
	bytes = malloc(tables->p_filesz);
	if (!bytes)
		return -ENOMEM;
	rc = read_at(fd, bytes, tables->p_filesz, tables->p_offset);
	p.bytes = bytes;
	p.len = tables->p_filesz;
	p.address = tables->p_vaddr;
	return rc ? rc : read_tables(&p, header);
}

void rut_unwind_fini(struct rut_unwind_table *t)
{
	free(t->rows);
	free(t->functions);
	*t = (struct rut_unwind_table){0};
}

const struct rut_unwind_function *rut_unwind_function_at(const struct rut_unwind_table *t,
							 uint64_t address)
{
	size_t lo = 0, hi = t->nfunctions;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->functions[mid].start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && address < t->functions[lo - 1].end ? &t->functions[lo - 1] : NULL;
}
