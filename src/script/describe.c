/* SPDX-License-Identifier: MIT */
#include "script/describe.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "script/ruby.h"

/* Bytes of a line that are kept, and the largest column that a record holds. */
enum { LINE_MAX_BYTES = 240, COLUMN_MAX = 1023, LINE_SHIFT = 10 };

struct line {
	uint32_t begin;	 /* in the text */
	uint32_t number; /* in its file, from 1 */
	uint32_t file;	 /* its name, in the strings of the BTF */
	uint32_t text;	 /* the same; 0: no instruction is of it */
};

struct rut_script_description {
	struct btf *btf;    /* owned; in the kernel */
	struct line *lines; /* owned; of the whole text, in order */
	size_t nlines;
	uint32_t script, loop;		 /* types of functions */
	uint32_t ours;			 /* name of the file of functions that are linked */
	struct bpf_func_info *functions; /* owned; of the last program */
	struct bpf_line_info *records;	 /* owned; of the last program */
};

void rut_script_description_free(struct rut_script_description *d)
{
	if (!d)
		return;
	btf__free(d->btf);
	free(d->lines);
	free(d->functions);
	free(d->records);
	free(d);
}

/* Where each line of the text begins. */
static int find_lines(struct rut_script_description *d, const struct rut_source *s)
{
	size_t n = 1;

	for (size_t i = 0; i < s->whole; i++)
		n += s->text[i] == '\n';
	d->lines = calloc(n, sizeof(*d->lines));
	if (!d->lines)
		return -ENOMEM;
	d->lines[d->nlines++] = (struct line){.begin = 0, .number = 1};
	for (uint32_t i = 0; i < s->whole; i++) {
		const struct line *before = &d->lines[d->nlines - 1];
		uint32_t number = before->number + 1;

		if (s->text[i] != '\n')
			continue;
		/* Each file that is imported counts its own. */
		for (unsigned k = 0; k < s->nparts; k++)
			if (s->parts[k].begin == i + 1)
				number = 1;
		d->lines[d->nlines++] = (struct line){.begin = i + 1, .number = number};
	}
	return 0;
}

static struct line *line_of(const struct rut_script_description *d, uint32_t pos)
{
	size_t low = 0, high = d->nlines;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (d->lines[middle].begin <= pos)
			low = middle;
		else
			high = middle;
	}
	return &d->lines[low];
}

/* A line without the space around it; what does not print is a space. */
static int add_line(struct rut_script_description *d, const struct rut_source *s, struct line *l)
{
	char text[LINE_MAX_BYTES + 1] = "";
	uint32_t at = l->begin;
	size_t n = 0;
	int rc;

	while (at < s->whole && (s->text[at] == ' ' || s->text[at] == '\t'))
		at++;
	while (at < s->whole && s->text[at] != '\n' && n < LINE_MAX_BYTES)
		text[n++] = s->text[at++];
	while (n && (unsigned char)text[n - 1] <= ' ')
		n--;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ')
			text[i] = ' ';
	text[n] = '\0';
	rc = btf__add_str(d->btf, n ? text : " ");
	if (rc < 0)
		return rc;
	l->text = (uint32_t)rc;
	rc = btf__add_str(d->btf, rut_source_name(s, l->begin));
	if (rc < 0)
		return rc;
	l->file = (uint32_t)rc;
	return 0;
}

/* The text of each line that an instruction is of. */
static int add_lines(struct rut_script_description *d, const struct rut_script_program *p)
{
	int rc = find_lines(d, &p->src);

	for (size_t i = 0; i < p->nprogs && !rc; i++) {
		const struct rut_script_prog *prog = &p->progs[i];
		uint32_t last = UINT32_MAX;

		for (size_t k = 0; k < prog->ninsns && !rc; k++) {
			struct line *l;

			if (prog->places[k] == last)
				continue;
			last = prog->places[k];
			l = line_of(d, last);
			if (!l->text)
				rc = add_line(d, &p->src, l);
		}
	}
	return rc;
}

static int add_functions(struct rut_script_description *d)
{
	int word = btf__add_int(d->btf, "long", 8, BTF_INT_SIGNED);
	int proto = btf__add_func_proto(d->btf, word), rc;

	rc = btf__add_func_param(d->btf, "ctx", word);
	if (word < 0 || proto < 0 || rc)
		return -ENOMEM;
	rc = btf__add_func(d->btf, "script", BTF_FUNC_GLOBAL, proto);
	if (rc < 0)
		return rc;
	d->script = (uint32_t)rc;
	proto = btf__add_func_proto(d->btf, word);
	for (int i = 0; i < 4; i++)
		if (btf__add_func_param(d->btf, "arg", word))
			return -ENOMEM;
	rc = btf__add_func(d->btf, "loop", BTF_FUNC_STATIC, proto);
	if (rc < 0)
		return rc;
	d->loop = (uint32_t)rc;
	rc = btf__add_str(d->btf, "rutile");
	d->ours = rc < 0 ? 0 : (uint32_t)rc;
	return rc < 0 ? rc : 0;
}

static bool has_functions(const struct rut_script_program *p)
{
	for (size_t i = 0; i < p->nprogs; i++)
		if (p->progs[i].nfunctions)
			return true;
	return p->ruby != NULL;
}

static int build(struct rut_script_description *d, const struct rut_script_program *p)
{
	int rc = 0;

	d->btf = btf__new_empty();
	if (libbpf_get_error(d->btf)) {
		d->btf = NULL;
		return -ENOMEM;
	}
	/* First, so that their numbers stay. */
	if (p->ruby)
		rc = btf__add_btf(d->btf, rut_script_ruby_types(p->ruby));
	if (rc >= 0)
		rc = add_functions(d);
	if (!rc)
		rc = add_lines(d, p);
	return rc;
}

int rut_script_describe(struct rut_script_description **ret, const struct rut_script_program *p,
			struct rut_err *err)
{
	struct rut_script_description *d = calloc(1, sizeof(*d));
	int rc;

	*ret = d;
	if (!d)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = build(d, p);
	if (rc)
		return rut_err_errno(err, -rc, "cannot describe the functions of programs");
	rc = btf__load_into_kernel(d->btf);
	/* Helpers that call functions want to know them, and so do calls of linked ones. */
	if (rc && has_functions(p))
		return rut_err_errno(err, -rc, "the kernel takes no description of functions");
	if (rc) {
		rut_script_description_free(d);
		*ret = NULL;
	}
	return 0;
}

static struct bpf_line_info record_of(const struct rut_script_description *d, size_t insn,
				      uint32_t pos)
{
	const struct line *l = line_of(d, pos);
	uint32_t column = pos - l->begin + 1;

	return (struct bpf_line_info){
		.insn_off = (uint32_t)insn,
		.file_name_off = l->file,
		.line_off = l->text,
		.line_col = l->number << LINE_SHIFT | (column < COLUMN_MAX ? column : COLUMN_MAX),
	};
}

/* Does one of the program's own functions begin there? They are in order. */
static bool begins_function(const struct rut_script_prog *prog, size_t insn, uint32_t *next)
{
	if (*next == prog->nfunctions || prog->functions[*next] != insn)
		return false;
	++*next;
	return true;
}

/* A record wherever another place of the script begins, and for each function. */
static uint32_t record_lines(struct rut_script_description *d, const struct rut_script_prog *prog,
			     const struct rut_linked *linked)
{
	struct bpf_line_info *records = d->records;
	uint32_t n = 0, next = 0;

	for (size_t i = 0; i < prog->ninsns; i++) {
		bool begins = begins_function(prog, i, &next);

		if (!i || begins || prog->places[i] != prog->places[i - 1])
			records[n++] = record_of(d, i, prog->places[i]);
		/* The second half of a number of 64 bits is no instruction. */
		if (prog->insns[i].code == (BPF_LD | BPF_IMM | BPF_DW))
			i++;
	}
	for (size_t i = 0; i < linked->nfunctions; i++) {
		const struct btf_type *t = btf__type_by_id(d->btf, linked->functions[i].type_id);

		records[n++] = (struct bpf_line_info){
			.insn_off = linked->functions[i].insn_off,
			.file_name_off = d->ours,
			.line_off = t ? t->name_off : d->ours,
			.line_col = 1 << LINE_SHIFT | 1,
		};
	}
	return n;
}

int rut_script_description_apply(struct rut_script_description *d,
				 const struct rut_script_prog *prog,
				 const struct rut_linked *linked, struct bpf_prog_load_opts *opts)
{
	size_t n = prog->nfunctions + 1;

	free(d->functions);
	free(d->records);
	d->functions = calloc(n + linked->nfunctions, sizeof(*d->functions));
	d->records = calloc(prog->ninsns + linked->nfunctions, sizeof(*d->records));
	if (!d->functions || !d->records)
		return -ENOMEM;
	d->functions[0].type_id = d->script;
	for (uint32_t i = 0; i < prog->nfunctions; i++)
		d->functions[i + 1] = (struct bpf_func_info){prog->functions[i], d->loop};
	if (linked->nfunctions)
		memcpy(d->functions + n, linked->functions,
		       linked->nfunctions * sizeof(*d->functions));
	opts->prog_btf_fd = (uint32_t)btf__fd(d->btf);
	opts->func_info = d->functions;
	opts->func_info_cnt = (uint32_t)(n + linked->nfunctions);
	opts->func_info_rec_size = sizeof(*d->functions);
	opts->line_info = d->records;
	opts->line_info_cnt = record_lines(d, prog, linked);
	opts->line_info_rec_size = sizeof(*d->records);
	return 0;
}
