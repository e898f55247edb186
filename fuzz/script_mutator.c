/* SPDX-License-Identifier: MIT */
/*
 * Mutations of scripts that keep them scripts: bytes that libFuzzer changes at random hardly ever
 * parse. A script is cut into its tokens; tokens, groups in brackets and statements are removed,
 * repeated, exchanged, moved into others and wrapped, and replaced by others of their kind, of the
 * same script, of another one, or of the lists below. One in eight is left to libFuzzer.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "script/lex.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t an, const uint8_t *b, size_t bn,
				 uint8_t *out, size_t max, unsigned seed);

enum { PIECES_MAX = 4096 };

struct piece {
	const char *text; /* with the space before it; borrowed */
	uint32_t len;
	enum rut_token_kind kind;
	int op;
};

struct script {
	char *text; /* owned */
	struct piece pieces[PIECES_MAX];
	size_t n;
};

struct range {
	size_t from, to; /* to: behind the last */
};

static uint64_t state;

static size_t pick(size_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return n ? state % n : 0;
}

/* ---- What is put in ---- */

static const char *const names[] = {
	" pid",	    " tid",	" comm",     " nsecs",	      " cpu",	      " args",
	" retval",  " curtask", " probe",    " ustack",	      " kstack",      " elapsed",
	" rand",    " cgroup",	" str",	     " buf",	      " count",	      " sum",
	" avg",	    " hist",	" lhist",    " min",	      " max",	      " stats",
	" tseries", " delete",	" clear",    " print",	      " zero",	      " len",
	" has_key", " ntop",	" strftime", " kaddr",	      " reg",	      " printf",
	" join",    " sizeof",	" offsetof", " strncmp",      " strcontains", " glob",
	" matches", " p99",	" exit",     " if",	      " else",	      " while",
	" for",	    " unroll",	" let",	     " break",	      " continue",    " return",
	" macro",   " fn",	" struct",   " true",	      " false",	      " int8",
	" uint16",  " int32",	" uint64",   " string",	      " bool",	      " task_struct",
	" begin",   " end",	" interval", " record",	      " import",      " config",
	" foreach", " in",	" limit",    " syscall_name", " signal_name",
};
static const char *const numbers[] = {
	" 0",
	" 1",
	" 2",
	" 7",
	" 8",
	" 63",
	" 64",
	" 255",
	" 256",
	" 65535",
	" 0x7fffffff",
	" 0x80000000",
	" 4294967296",
	" 0x7fffffffffffffff",
	" 0xffffffffffffffff",
	" 1000000",
	" 5s",
	" 100ms",
	" 1e3",
	" 9223372036854775808",
	" -1",
};
static const char *const strings[] = {
	" \"\"",	 " \"a\"",	   " \"%d\"",
	" \"%s %d\\n\"", " \"%-8lld|%x\"", " \"[a-c]*\"",
	" \"text\\0\"",	 " \"%r\"",	   " \"a much longer text than the others\"",
};
static const char *const operators[] = {
	"+",  "-",   "*",  "/",	 "%",  "&",  "|",  "^",	 "~",  "!", "<",
	">",  "==",  "!=", "<=", ">=", "<<", ">>", "&&", "||", "=", "+=",
	"-=", "<<=", "++", "--", ".",  "->", ",",  ";",	 ":",  "?", "..",
};
static const char *const statements[] = {
	" @ = count();",
	" @a[pid, comm] = sum(1);",
	" @b[(1, \"x\")]++;",
	" $x = (uint8)5;",
	" $s = \"text\";",
	" $t = (1, (2, \"x\"));",
	" $r = (a = 1, b = \"two\");",
	" @h = hist(nsecs);",
	" @l = lhist(pid, 0, 100, 10);",
	" printf(\"%d %s\\n\", pid, comm);",
	" print((1, 2));",
	" delete(@a, (1, \"x\"));",
	" if (pid > 5) { @c++; } else { @d--; }",
	" while ($x < 5) { $x++; if ($x == 3) { break; } }",
	" for ($i : 0..5) { @e[$i] = $i; continue; }",
	" for ($kv : @a) { print($kv.0); }",
	" unroll(3) { @f++; }",
	" let $y : uint64 = 3;",
	" $p = &$x; *$p;",
	" @s[comm] = str(kptr(0), 8);",
	" $c = { let $z = 2; $z * 2 };",
	" @ts = tseries(1, 1s, 5);",
	" $task = (struct task_struct *)curtask; @pid = $task.pid;",
	" if (glob(comm, \"a*\", \"b?\")) { exit(); }",
	" return;",
};
static const char *const around[][2] = {
	{" if (1) {", " }"},	{" while (0) {", " }"}, {" for ($i : 0..3) {", " }"},
	{" unroll(2) {", " }"}, {" { ", " }"},		{" for ($kv : @a) {", " }"},
};
static const char *const before[] = {
	" (int8)",   " -",	     " !",	 " ~",
	" (uint64)", " str(",	     " sum(",	 " (1, ",
	" *",	     " &",	     " sizeof(", " hist(",
	" @a[",	     " (string[4])", " (",	 " (struct task_struct *)"};

#define COUNT(list) (sizeof(list) / sizeof(*(list)))

static struct piece of(const char *text)
{
	return (struct piece){text, (uint32_t)strlen(text), RUT_TOK_NAME, 0};
}

/* Another of its kind, of the lists. */
static struct piece another(const struct piece *p)
{
	static const char *const maps[] = {" @", " @a", " @b", " @h", " @new"};
	static const char *const variables[] = {" $x", " $y", " $s", " $t", " $i", " $kv"};

	switch (p->kind) {
	case RUT_TOK_INT:
	case RUT_TOK_PARAM:
		return of(numbers[pick(COUNT(numbers))]);
	case RUT_TOK_STRING:
		return of(strings[pick(COUNT(strings))]);
	case RUT_TOK_MAP:
		return of(maps[pick(COUNT(maps))]);
	case RUT_TOK_VAR:
		return of(variables[pick(COUNT(variables))]);
	case RUT_TOK_OP:
		return of(operators[pick(COUNT(operators))]);
	default:
		return of(names[pick(COUNT(names))]);
	}
}

/* ---- A script as a list of pieces ---- */

static void cut(struct script *s, const uint8_t *data, size_t size)
{
	struct rut_source src;
	struct rut_lexer lexer = {.src = &src};
	uint32_t at = 0;

	s->n = 0;
	s->text = malloc(size + 1);
	if (!s->text)
		return;
	memcpy(s->text, data, size);
	s->text[size] = '\0';
	size = strlen(s->text);
	rut_source_init(&src, "", s->text, size);
	while (s->n < PIECES_MAX / 2 && at < size) {
		struct rut_token t;
		uint32_t end;

		rut_lex_next(&lexer, &t);
		end = lexer.pos > at ? lexer.pos : at + 1;
		if (end > size)
			end = (uint32_t)size;
		s->pieces[s->n++] = (struct piece){s->text + at, end - at, t.kind, t.op};
		lexer.pos = at = end;
	}
	rut_source_fini(&src);
}

static size_t glue(const struct script *s, uint8_t *out, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n && n + s->pieces[i].len <= max; i++) {
		memcpy(out + n, s->pieces[i].text, s->pieces[i].len);
		n += s->pieces[i].len;
	}
	return n;
}

static void erase(struct script *s, struct range r)
{
	memmove(s->pieces + r.from, s->pieces + r.to, (s->n - r.to) * sizeof(*s->pieces));
	s->n -= r.to - r.from;
}

static void insert(struct script *s, size_t at, const struct piece *pieces, size_t n)
{
	struct piece copy[64];

	if (s->n + n > PIECES_MAX || n > COUNT(copy))
		return;
	memcpy(copy, pieces, n * sizeof(*copy));
	memmove(s->pieces + at + n, s->pieces + at, (s->n - at) * sizeof(*s->pieces));
	memcpy(s->pieces + at, copy, n * sizeof(*copy));
	s->n += n;
}

static void insert_text(struct script *s, size_t at, const char *text)
{
	struct piece p = of(text);

	insert(s, at, &p, 1);
}

static bool is_op(const struct piece *p, const char *ops)
{
	return p->kind == RUT_TOK_OP && p->op > 0 && p->op < 128 && strchr(ops, p->op);
}

/* The group that the bracket at `at` opens; empty: it opens none. */
static struct range group_at(const struct script *s, size_t at)
{
	int depth = 0;

	for (size_t i = at; i < s->n; i++) {
		if (is_op(&s->pieces[i], "([{"))
			depth++;
		else if (is_op(&s->pieces[i], ")]}"))
			depth--;
		if (!depth)
			return (struct range){at, i == at ? at : i + 1};
	}
	return (struct range){at, at};
}

/* A group of the bracket; any when it is 0. Empty: there is none. */
static struct range some_group(const struct script *s, int bracket)
{
	size_t begin = pick(s->n);

	for (size_t k = 0; k < s->n; k++) {
		size_t i = (begin + k) % s->n;
		struct range r;

		if (!is_op(&s->pieces[i], "([{") || (bracket && s->pieces[i].op != bracket))
			continue;
		r = group_at(s, i);
		if (r.to > r.from)
			return r;
	}
	return (struct range){0, 0};
}

/* Where a statement may begin: behind '{', ';' or '}'. */
static size_t some_begin(const struct script *s)
{
	size_t begin = pick(s->n);

	for (size_t k = 0; k < s->n; k++) {
		size_t i = (begin + k) % s->n;

		if (is_op(&s->pieces[i], "{;}"))
			return i + 1;
	}
	return s->n;
}

/* A statement: up to its ';', or to the end of the block behind it. */
static struct range some_statement(const struct script *s)
{
	size_t from = some_begin(s), to = from;

	while (to < s->n && !is_op(&s->pieces[to], ";}")) {
		struct range group = group_at(s, to);

		if (is_op(&s->pieces[to], "{") && group.to > to)
			return (struct range){from, group.to};
		to = group.to > to ? group.to : to + 1;
	}
	return (struct range){from, to < s->n && is_op(&s->pieces[to], ";") ? to + 1 : to};
}

static struct range some_part(const struct script *s)
{
	size_t i = pick(s->n);

	switch (pick(3)) {
	case 0:
		return some_group(s, 0);
	case 1:
		return some_statement(s);
	default:
		return (struct range){i, i + 1};
	}
}

/* ---- Mutations ---- */

static void move(struct script *s, struct range r, size_t to, bool keep)
{
	struct piece copy[64];
	size_t n = r.to - r.from;

	if (!n || n > COUNT(copy))
		return;
	memcpy(copy, s->pieces + r.from, n * sizeof(*copy));
	if (!keep && (to <= r.from || to >= r.to)) {
		erase(s, r);
		to = to >= r.to ? to - n : to;
	}
	insert(s, to, copy, n);
}

/* Tokens of one kind change their places. */
static void swap_tokens(struct script *s)
{
	size_t a = pick(s->n), begin = pick(s->n);

	for (size_t k = 0; k < s->n; k++) {
		size_t b = (begin + k) % s->n;
		struct piece was = s->pieces[a];

		if (b == a || s->pieces[b].kind != was.kind)
			continue;
		s->pieces[a] = s->pieces[b];
		s->pieces[b] = was;
		return;
	}
}

/* One group becomes a copy of another with the same bracket, of `from`, which may be the same. */
static void copy_group(struct script *s, const struct script *from)
{
	struct range at = some_group(s, 0), other;

	if (at.to == at.from)
		return;
	other = some_group(from, s->pieces[at.from].op);
	if (other.to - other.from > 64)
		return;
	if (from != s) {
		erase(s, at);
		insert(s, at.from, from->pieces + other.from, other.to - other.from);
	} else if (other.to <= at.from || other.from >= at.to) {
		struct piece copy[64];
		size_t n = other.to - other.from;

		memcpy(copy, s->pieces + other.from, n * sizeof(*copy));
		erase(s, at);
		insert(s, at.from, copy, n);
	}
}

static void wrap(struct script *s)
{
	struct range r = some_statement(s);
	size_t kind = pick(COUNT(around));

	insert_text(s, r.to, around[kind][1]);
	insert_text(s, r.from, around[kind][0]);
}

/* An operator, a cast or a call around a value. */
static void wrap_value(struct script *s)
{
	size_t at = pick(s->n);
	const char *text = before[pick(COUNT(before))], open = text[strlen(text) - 1];
	struct range group = at + 1 < s->n && is_op(&s->pieces[at + 1], "([")
				     ? group_at(s, at + 1)
				     : (struct range){at, at + 1};
	size_t end = group.to > at ? group.to : at + 1;

	if (text[1] == '(' && open == ' ')
		insert_text(s, end, ")");
	else if (open == '(')
		insert_text(s, end, ")");
	else if (open == '[')
		insert_text(s, end, "]");
	insert_text(s, at, text);
}

static void mutate(struct script *s)
{
	size_t at = pick(s->n);

	switch (pick(11)) {
	case 0:
		erase(s, some_part(s));
		break;
	case 1:
		move(s, some_statement(s), some_begin(s), true);
		break;
	case 2:
		move(s, some_statement(s), some_begin(s), false);
		break;
	case 3:
		swap_tokens(s);
		break;
	case 4:
	case 5:
		s->pieces[at] = another(&s->pieces[at]);
		break;
	case 6:
		copy_group(s, s);
		break;
	case 7:
		wrap(s);
		break;
	case 8:
		wrap_value(s);
		break;
	case 9:
		insert_text(s, some_begin(s), statements[pick(COUNT(statements))]);
		break;
	default:
		move(s, some_part(s), at, true);
		break;
	}
}

static void seed_with(unsigned seed)
{
	state = 0x9e3779b97f4a7c15ull * (seed + 1ull) | 1;
	pick(1);
	pick(1);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	static struct script s;

	seed_with(seed);
	if (!pick(8))
		return LLVMFuzzerMutate(data, size, max);
	cut(&s, data, size);
	for (size_t i = 1 + pick(4); i && s.n; i--)
		mutate(&s);
	if (!s.n)
		insert_text(&s, 0, "begin { @ = count(); }");
	size = glue(&s, data, max);
	free(s.text);
	return size;
}

/* Statements and groups of the one in the other. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t an, const uint8_t *b, size_t bn,
				 uint8_t *out, size_t max, unsigned seed)
{
	static struct script s, other;
	size_t size;

	seed_with(seed);
	cut(&s, a, an);
	cut(&other, b, bn);
	for (size_t i = 1 + pick(3); i && s.n && other.n; i--) {
		struct range r = some_statement(&other);

		if (pick(2))
			copy_group(&s, &other);
		else
			insert(&s, some_begin(&s), other.pieces + r.from, r.to - r.from);
	}
	size = glue(&s, out, max);
	free(s.text);
	free(other.text);
	return size;
}
