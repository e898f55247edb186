/* SPDX-License-Identifier: MIT */
/* Inside the compiler: the checker, the tables of builtins and functions, the generator. */
#ifndef RUT_SCRIPT_CHECK_H
#define RUT_SCRIPT_CHECK_H

#include "base/err.h"
#include "script/ir.h"
#include "script/script.h"
#include "script/types.h"

enum { RUT_FIELD_DATA_LOC = 255 }; /* in rut_type_field.bits: where a string of a record is */

/* What a body is compiled for. */
struct rut_probe_ctx {
	enum rut_probe_kind kind;
	uint32_t prog_type;
	const struct rut_type *args; /* STRUCT; NULL: there are none */
	bool args_in_ctx;	     /* they are read from the program's context */
	struct rut_script_attach *attach;
	size_t nattach;
	const struct rut_probe_spec *spec;
	uint32_t probe_index;		  /* of `probes` */
	const char *function;		  /* of functions: its name; NULL */
	const struct rut_usdt_args *usdt; /* USDT */
	uint32_t expected, btf_id;	  /* as in struct rut_script_prog */
	const struct rut_type *retval;	  /* FEXIT; NULL: of no type that is known */
	const struct rut_type *context;	  /* ITER: the structure of ctx */
	struct rut_ruby_probe_ctx *ruby;  /* RUBY */
	bool replay;			  /* RUBY: the program takes hits from memory (defer.h) */
};

/* A variable. */
struct rut_sym {
	struct rut_sym *next;
	const char *name;
	const struct rut_type *type; /* NULL: not known yet */
	bool closed, declared;
	bool aimed;	     /* a declared pointer: it is known whether it is of user space */
	const char *keys_of; /* of a loop over this map, the values of which are not numbers */
	unsigned epoch;
	/* Of the generator */
	rut_vreg reg;  /* scalars */
	rut_vreg base; /* others: where they are */
	int32_t off;
	bool placed;
	int32_t begin_off; /* of a range: where its begin is in the frame */
};

struct rut_checker {
	struct rut_script_program *prog;
	struct rut_arena *arena;
	struct rut_source *src;
	const struct rut_probe_ctx *ctx;
	struct rut_sym *syms;
	bool loud;   /* the last pass: messages are kept */
	bool failed; /* an error was reported */
	unsigned learnt, epoch, loops, depth;
	bool is_statement;		     /* the call that is checked stands alone */
	const struct rut_node *assigned_map; /* ... or is assigned to this map */
	const struct rut_node *shown;	     /* an argument of printf() and its like */
	bool uses_args;			     /* the body depends on which event it is */
};

/* Reports when loud; returns NULL. */
const struct rut_type *rut_check_error(struct rut_checker *c, const struct rut_node *n,
				       const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The type of an expression, or NULL: an error, or (quiet) not known yet. */
const struct rut_type *rut_check_expr(struct rut_checker *c, struct rut_node *n);
/* The same, which must be an integer. */
const struct rut_type *rut_check_int(struct rut_checker *c, struct rut_node *n, const char *what);
void rut_check_block(struct rut_checker *c, struct rut_node *block);
/* The value of a block: that of its last statement. */
const struct rut_type *rut_check_block_value(struct rut_checker *c, struct rut_node *block);
struct rut_sym *rut_check_find_var(struct rut_checker *c, const char *name);
/* A new variable, hiding others of its name, until rut_check_close() with the syms before it. */
struct rut_sym *rut_check_new_var(struct rut_checker *c, struct rut_node *n);
void rut_check_close(struct rut_checker *c, const struct rut_sym *outer);
/* The type of a name; NULL: reported at n. */
const struct rut_type *rut_check_type(struct rut_checker *c, const struct rut_type_name *name,
				      const struct rut_node *n);
/* The field of a structure, also in unnamed ones within; NULL: reported at n. */
const struct rut_type_field *rut_check_field(struct rut_checker *c, const struct rut_node *n,
					     const struct rut_type *t, const char *name);
const struct rut_type_field *rut_check_find_field(struct rut_script_program *p,
						  const struct rut_type *t, const char *name,
						  struct rut_nearest *near, uint32_t *base);
const struct rut_type *rut_check_field_of(struct rut_checker *c, struct rut_node *n);
/* The type of a part of something (n); its pointers are of the memory that they were read from.
 */
const struct rut_type *rut_check_part(struct rut_checker *c, const struct rut_node *n,
				      const struct rut_type *t);
/* 10 of "SIGUSR1", "USR1"; -1: there is none. */
int rut_script_signal_number(const char *name);
/* "tracepoint" of RUT_PROBE_TRACEPOINT */
const char *rut_probe_kind_name(enum rut_probe_kind kind);
/* enum bpf_prog_type of its programs. */
uint32_t rut_probe_prog_type(enum rut_probe_kind kind);
/* Programs of these run in user space. */
static inline bool rut_probe_is_user(enum rut_probe_kind kind)
{
	return kind == RUT_PROBE_UPROBE || kind == RUT_PROBE_URETPROBE || kind == RUT_PROBE_USDT;
}
/* "struct foo", "foo_t": of the script or of the kernel; NULL: there is none. */
const struct rut_type *rut_check_named_type(struct rut_checker *c, const char *name);
/* A macro of a header, as AF_INET. */
bool rut_constant_find(const char *name, int64_t *ret);
/* The enum that has an enumerator of that name; NULL: none has. */
const struct rut_type *rut_check_enumerator(struct rut_checker *c, const char *name, int64_t *ret);
/* Reads the fields of a structure of the kernel, which are not read before they are needed. */
void rut_check_complete(struct rut_script_program *p, const struct rut_type *t);
const struct rut_type *rut_type_word(const char *name);
void rut_check_for_map(struct rut_checker *c, struct rut_node *n);
/* A whole probe. */
void rut_check_probe(struct rut_checker *c, struct rut_probe *p);

/* gen_fact.c: what a script for other machines takes for granted (fact.h). */
/* False: reported, `what` is a thing of this machine alone; NULL: it is not. */
bool rut_check_is_portable(struct rut_checker *c, const struct rut_node *n, const char *what);
void rut_check_enum_fact(struct rut_checker *c, const struct rut_node *n, int64_t value);
/* The size of a kernel structure, or of arrays of some, is part of the code. */
void rut_check_size_fact(struct rut_script_program *p, const struct rut_node *n,
			 const struct rut_type *t);

/* check_map.c: the map of a node, its key checked and joined. NULL: failed. */
struct rut_script_map *rut_check_map(struct rut_checker *c, struct rut_node *n);
/* The number of the map that is named without key; -1 in n->index: there is none. */
void rut_check_map_name(struct rut_checker *c, struct rut_node *n);
/* Joins a type into the value of the map. */
const struct rut_type *rut_check_map_value(struct rut_checker *c, struct rut_node *map,
					   const struct rut_type *t, const struct rut_node *at);
/* Does the map, which was checked, hold pointers? They count in what they point to. */
bool rut_check_map_pointer(struct rut_checker *c, struct rut_node *map);
bool rut_is_literal(const struct rut_node *n);
/* The smallest type with a sign that holds the literal. */
const struct rut_type *rut_type_literal(const struct rut_node *n);
/* A literal number; false: it is none. */
bool rut_literal_int(const struct rut_node *n, int64_t *ret);

/* Where generated values are. */
enum rut_space { RUT_SPACE_BPF, RUT_SPACE_KERNEL, RUT_SPACE_USER, RUT_SPACE_CTX };

struct rut_mem {
	rut_vreg base;
	int32_t off;
	enum rut_space space;
	uint32_t fact; /* CTX: what `off` is of, from 1; 0 */
};

struct rut_loop {
	struct rut_loop *outer;
	uint32_t next, end; /* labels */
};

struct rut_gen {
	struct rut_script_program *prog;
	const struct rut_probe_ctx *ctx;
	struct rut_ir ir;
	rut_vreg ctx_reg, scratch;
	rut_vreg home;		  /* in functions of loops: the probe's frame; 0: in the probe */
	rut_vreg hit;		  /* in a replaying program: the address of the hit; 0 */
	bool has_loops;		  /* variables are in memory */
	struct rut_buf functions; /* struct rut_ir, of loops */
	uint32_t nfunctions, all_functions; /* those that are called; all */
	int32_t frame;			    /* bytes in use */
	uint32_t scratch_used;		    /* bytes in use */
	uint32_t scratch_max;
	uint32_t exit, lost; /* labels */
	struct rut_loop *loop;
	struct rut_sym *syms;
	struct rut_err *err;
	int rc;
};

/* A failure that no script should see: messages name the position. */
void rut_gen_fail(struct rut_gen *g, const struct rut_node *n, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Room for `size` bytes until rut_gen_release(). */
struct rut_mem rut_gen_room(struct rut_gen *g, const struct rut_node *n, uint32_t size);
struct rut_gen_mark {
	int32_t frame;
	uint32_t scratch;
};
struct rut_gen_mark rut_gen_mark(const struct rut_gen *g);
void rut_gen_release(struct rut_gen *g, struct rut_gen_mark m);

rut_vreg rut_gen_scalar(struct rut_gen *g, struct rut_node *n);
/* Puts the value at `to` (of BPF's own memory), as type `as`. */
void rut_gen_into(struct rut_gen *g, struct rut_node *n, const struct rut_type *as,
		  struct rut_mem to);
/* Where the value is: of BPF's own memory, where it is read only. */
struct rut_mem rut_gen_mem(struct rut_gen *g, struct rut_node *n);
/* Where the lvalue is, in whatever memory: fields, what pointers point to. */
struct rut_mem rut_gen_address(struct rut_gen *g, struct rut_node *n);
/* Jumps to `no` when it is not true. */
void rut_gen_unless(struct rut_gen *g, struct rut_node *n, uint32_t no);
void rut_gen_block(struct rut_gen *g, struct rut_node *block);
void rut_gen_zero(struct rut_gen *g, struct rut_mem at, uint32_t size);
void rut_gen_copy(struct rut_gen *g, struct rut_mem to, struct rut_mem from, uint32_t size);
void rut_gen_store(struct rut_gen *g, struct rut_mem to, unsigned size, rut_vreg v);
rut_vreg rut_gen_load(struct rut_gen *g, const struct rut_type *t, struct rut_mem from,
		      const struct rut_node *n);
rut_vreg rut_gen_pointer(struct rut_gen *g, struct rut_mem at);
struct rut_ir_arg rut_gen_arg(struct rut_mem at);
/* Reads `size` bytes of any memory; failures are counted, and zeros. */
void rut_gen_read(struct rut_gen *g, const struct rut_node *n, struct rut_mem to,
		  struct rut_mem from, uint32_t size);
/* Counts a failure at the node. */
void rut_gen_count(struct rut_gen *g, const struct rut_node *n, enum rut_site_kind kind);

/* gen_map.c */
/* The sum and the count of an average, over all CPUs. */
void rut_gen_map_sums(struct rut_gen *g, struct rut_node *map, rut_vreg ret[2]);
rut_vreg rut_gen_map_get(struct rut_gen *g, struct rut_node *n); /* scalars */
void rut_gen_map_get_into(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
void rut_gen_map_set(struct rut_gen *g, struct rut_node *map, struct rut_node *value);
/* += of an integer; returns the value before it. */
rut_vreg rut_gen_map_add(struct rut_gen *g, struct rut_node *map, rut_vreg by, bool wanted);
/* The address of the value, which is made of zeros when missing; jumps to `none` when it cannot. */
rut_vreg rut_gen_map_value(struct rut_gen *g, struct rut_node *map, uint32_t none);
/* The same; 0 in the register when there is none and it is not to be made. */
rut_vreg rut_gen_map_lookup(struct rut_gen *g, struct rut_node *map);
struct rut_ir_arg rut_gen_map_key(struct rut_gen *g, struct rut_node *map);

/* A record of the ring with the action's number and room for its arguments; 0: `none` is jumped to.
 */
rut_vreg rut_gen_record(struct rut_gen *g, const struct rut_node *n, int action, uint32_t none);
void rut_gen_submit(struct rut_gen *g, rut_vreg record);

/* builtins.c */
struct rut_builtin {
	const char *name;
	const struct rut_type *(*check)(struct rut_checker *c, struct rut_node *n);
	rut_vreg (*scalar)(struct rut_gen *g, struct rut_node *n);
	void (*into)(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
};
const struct rut_builtin *rut_builtin_find(const char *name);
void rut_builtin_nearest(struct rut_nearest *near);

/* calls.c */
enum rut_call_use {
	RUT_CALL_VALUE = 1,	/* in expressions */
	RUT_CALL_STATEMENT = 2, /* alone */
	RUT_CALL_ASSIGN = 4,	/* @m = f(): an aggregation */
};
struct rut_call {
	const char *name;
	unsigned use;
	unsigned min, max; /* arguments */
	const struct rut_type *(*check)(struct rut_checker *c, struct rut_node *n);
	rut_vreg (*scalar)(struct rut_gen *g, struct rut_node *n); /* statements too */
	void (*into)(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
	/* The aggregation: `at` is the address of its words on this CPU. */
	void (*update)(struct rut_gen *g, struct rut_node *n, rut_vreg at);
};
const struct rut_call *rut_call_find(const char *name);
void rut_call_nearest(struct rut_nearest *near);

/* The script knows this option. */
void rut_program_option(struct rut_script_program *p, const char *name, const char *about);
/* A new action; its number. */
int rut_program_action(struct rut_script_program *p, const struct rut_script_action *a,
		       const struct rut_node *n);
uint32_t rut_program_site(struct rut_script_program *p, enum rut_site_kind kind,
			  struct rut_span span);
int64_t rut_program_ncpus(void);
uint32_t rut_program_string(struct rut_script_program *p, const char *s);

/* probes.c: what a probe's name means. *ret: arena; one for each program to make. 0 or -EINVAL. */
int rut_probe_resolve(struct rut_script_program *p, const struct rut_probe_spec *spec, bool split,
		      struct rut_probe_ctx **ret, size_t *ret_n);
bool rut_probe_needs_event(const struct rut_probe *p);

/* tracefs.c: the arguments of a tracepoint. NULL: see *err. */
const struct rut_type *rut_tracepoint_args(struct rut_script_program *p, const char *group,
					   const char *event, struct rut_err *err);
int rut_tracepoint_match(const char *group, const char *event,
			 int (*fn)(const char *group, const char *event, void *arg), void *arg);

#endif
