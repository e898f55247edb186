/* SPDX-License-Identifier: MIT */
/*
 * The syntax tree of a script. One kind of node for expressions and statements: what its members
 * hold is said at each kind. Lists are linked by `next`. Everything lives in the script's arena.
 */
#ifndef RUT_SCRIPT_AST_H
#define RUT_SCRIPT_AST_H

#include <stdbool.h>
#include <stdint.h>

#include "ctf/arena.h"
#include "script/source.h"
#include "script/type.h"

enum rut_node_kind {
	/* Expressions */
	RUT_N_INT,	/* value; op: RUT_INT_... */
	RUT_N_STRING,	/* text, len: without escapes */
	RUT_N_NAME,	/* text: a builtin, an enumerator, a name bound by a macro */
	RUT_N_PARAM,	/* value: $1 ..., 0: $# */
	RUT_N_VAR,	/* text */
	RUT_N_MAP,	/* text; a: the key or NULL (several keys: a TUPLE) */
	RUT_N_CALL,	/* text; list: arguments */
	RUT_N_UNARY,	/* op, a */
	RUT_N_BINARY,	/* op, a, b; && and || too */
	RUT_N_TERNARY,	/* a ? b : c */
	RUT_N_CAST,	/* type_name, a */
	RUT_N_TYPE,	/* type_name: typeof() as an argument */
	RUT_N_SIZEOF,	/* a, or type_name */
	RUT_N_OFFSETOF, /* type_name or a; list: names */
	RUT_N_FIELD,  /* a . text; value: the number of a tuple's field, text NULL; op: '.' or -> */
	RUT_N_INDEX,  /* a[b] */
	RUT_N_TUPLE,  /* list */
	RUT_N_RECORD, /* list, with `label`s */
	RUT_N_INCDEC, /* op, a; value 1: prefix */
	RUT_N_BLOCK,  /* list of statements; the last one may be a value */
	RUT_N_IF,     /* a, b (block), c (block, another IF or NULL); also an expression */
	/* Statements */
	RUT_N_EXPR,   /* a; op RUT_EXPR_DISCARD: _ = a */
	RUT_N_ASSIGN, /* op (0 or that of +=), a = b */
	RUT_N_LET,    /* a (VAR), type_name or NULL, b or NULL */
	RUT_N_WHILE,  /* a, b (block) */
	RUT_N_FOR,    /* a (VAR), b, c (NULL: b is a map; else a range), d (block) */
	RUT_N_UNROLL, /* a, b (block) */
	RUT_N_BREAK,
	RUT_N_CONTINUE,
	RUT_N_RETURN, /* a or NULL */
};

/* What a number is, beside as it is written (0). */
enum {
	RUT_INT_DURATION = 1,
	RUT_INT_UNSIGNED = 2,
	RUT_INT_BOOL = 3,
	RUT_INT_CALCULATED = 5,
	RUT_INT_ENUM = 6, /* `as` is its type */
};

enum { RUT_EXPR_DISCARD = 1 };

/* What stands behind the name of a type: a pointer, or an array and its number of elements. */
enum { RUT_TYPE_MODS = 8, RUT_TYPE_ELEMENTS_MAX = 1 << 20 };
#define RUT_TYPE_POINTER UINT32_MAX
#define RUT_TYPE_UNSIZED (UINT32_MAX - 1) /* []: as many as there are */

/* "struct foo *", "uint8[4]" as written. */
struct rut_type_name {
	const char *text; /* "uint8", "struct foo" */
	/* From left to right; of arrays next to each other the outermost is the first. */
	uint32_t mods[RUT_TYPE_MODS];
	unsigned nmods;
	struct rut_node *of; /* typeof(of) */
	struct rut_span span;
};

struct rut_sym;
struct rut_fn;

/* The call of a macro that something was copied from; `outer`: when that was copied, too. */
struct rut_expanded {
	struct rut_span span;
	const struct rut_expanded *outer;
};

struct rut_node {
	enum rut_node_kind kind;
	int op;
	struct rut_span span;
	const char *text;
	uint32_t len;
	uint64_t value;
	const char *label;
	struct rut_type_name *type_name;
	struct rut_node *a, *b, *c, *d;
	struct rut_node *list, *next;
	const struct rut_expanded *from; /* NULL: it stands where it is */
	const struct rut_type *as;	 /* INT, RUT_INT_ENUM: the enum */
	/* Filled in by the checker */
	const struct rut_type *type;
	struct rut_sym *sym; /* VAR: its variable */
	const void *what;    /* NAME, CALL: the entry of the table; FIELD: struct rut_type_field */
	int index;	     /* MAP: its number; CALL: of the action */
	bool warned;	     /* a statement: a warning of it was printed */
};

/* One name of a probe as written: "tracepoint:syscalls:sys_enter_*". */
struct rut_probe_spec {
	struct rut_probe_spec *next;
	struct rut_span span;
	const char *text; /* parameters replaced */
};

struct rut_probe {
	struct rut_probe *next;
	struct rut_probe_spec *specs;
	struct rut_node *predicate; /* or NULL */
	struct rut_node *body;
};

/* name = value of a config block. */
struct rut_config_entry {
	struct rut_config_entry *next;
	const char *name;
	struct rut_node *value;
	struct rut_span span;
};

/* macro name($a, @b, c) { ... }, fn name($a : int64) : int64 { ... } */
struct rut_macro {
	struct rut_macro *next;
	const char *name;
	struct rut_node *params; /* VAR, MAP and NAME */
	struct rut_node *body;
	struct rut_span span;
	bool is_fn; /* parameters are variables of its own, with type_name or not */
	struct rut_type_name *result; /* of a function; NULL: none is named */
};

/* #define NAME EXPRESSION, to the end of the line. */
struct rut_define {
	struct rut_define *next;
	const char *name;
	uint32_t pos, end; /* of the expression, in the text */
	bool open;	   /* is being read */
};

/* let @name = type(count); at the top */
struct rut_map_decl {
	struct rut_map_decl *next;
	const char *name, *type;
	struct rut_span span;
	uint64_t count;
};

/* struct, union or enum definitions, as text: the types are made by the checker. */
struct rut_def_field {
	struct rut_def_field *next;
	struct rut_type_name *type;
	const char *name; /* "": a structure without a name */
	uint32_t bits;
};

struct rut_def {
	struct rut_def *next;
	const char *name; /* "struct foo", "enum foo" */
	struct rut_def_field *fields;
	const struct rut_type *type; /* once it was made */
	bool packed;
	bool open;		 /* its values are being calculated */
	struct rut_node *values; /* enumerators: NAME with a: the value or NULL */
	struct rut_span span;
};

struct rut_ast {
	struct rut_arena arena;
	struct rut_source *src; /* borrowed */
	struct rut_probe *probes;
	struct rut_config_entry *config;
	struct rut_macro *macros;
	struct rut_define *defines;
	struct rut_def *defs;
	uint32_t prelude; /* functions of prelude.c that are called: a bit each */
	unsigned nforeach;
	unsigned nunnamed; /* structures within others */
	struct rut_map_decl *map_decls;
	const char *const *params; /* $1 ...; borrowed */
	size_t nparams;
};

/*
 * Parses src into *ret, which must be given to rut_ast_fini() in any case. -EINVAL: src has the
 * messages. -ENOMEM.
 */
int rut_parse(struct rut_ast *ret, struct rut_source *src, const char *const *params,
	      size_t nparams);
void rut_ast_fini(struct rut_ast *ast);

#endif
