/* SPDX-License-Identifier: MIT */
/* Between the files of the generator. */
#ifndef RUT_SCRIPT_GEN_H
#define RUT_SCRIPT_GEN_H

#include "script/check.h"

/* How many bytes (at most 8) can be moved between these offsets at once. */
unsigned rut_gen_step(int32_t a, int32_t b, uint32_t left);
/* Room that is not in the frame. */
struct rut_mem rut_gen_scratch_room(struct rut_gen *g, const struct rut_node *n, uint32_t size);
/* gen_fact.c: where the field n is, in code that is loaded on other machines. */
struct rut_mem rut_gen_portable_field(struct rut_gen *g, struct rut_node *n);
/* A field of task_struct; 0: it is not loaded on other machines. */
uint32_t rut_gen_task_fact(struct rut_gen *g, const struct rut_node *n, const char *field,
			   int64_t offset, uint32_t size);
/* The number of CPUs. */
uint32_t rut_gen_cpus_fact(struct rut_gen *g);
/* gen_float.c: the integer part of a number with decimals */
rut_vreg rut_gen_float_to_int(struct rut_gen *g, struct rut_node *n);
/* gen_loop.c */
bool rut_gen_has_loops(const struct rut_node *n);
struct rut_mem rut_gen_home(const struct rut_gen *g, int32_t off);
/* Begins the frame of a probe with loops: RUT_HOME_BYTES of it. */
enum { RUT_HOME_BYTES = 24 };
void rut_gen_home_init(struct rut_gen *g);
void rut_gen_while(struct rut_gen *g, struct rut_node *n);
void rut_gen_for(struct rut_gen *g, struct rut_node *n);
void rut_gen_for_map(struct rut_gen *g, struct rut_node *n);
/* The body for each hit of an array: a program that is run with its address and length. */
void rut_gen_replay(struct rut_gen *g, struct rut_probe *probe);
/* The address of the map itself, as a number. */
rut_vreg rut_gen_map_address(struct rut_gen *g, struct rut_node *map);
rut_vreg rut_gen_map_len(struct rut_gen *g, struct rut_node *n);
struct rut_mem rut_gen_var_mem(const struct rut_gen *g, const struct rut_sym *s);
rut_vreg rut_gen_var_get(struct rut_gen *g, const struct rut_sym *s);
void rut_gen_var_set(struct rut_gen *g, const struct rut_sym *s, rut_vreg v);
/* What is added to a pointer: it counts in elements. */
rut_vreg rut_gen_scaled(struct rut_gen *g, rut_vreg v, const struct rut_type *pointer);
rut_vreg rut_gen_signed_division(struct rut_gen *g, rut_vreg a, rut_vreg b);
/* The value of an aggregation over all CPUs, as one number. */
rut_vreg rut_gen_merged(struct rut_gen *g, const struct rut_node *n, const struct rut_script_map *m,
			int map, struct rut_ir_arg key);
/* An expression for what it does. */
void rut_gen_statement_value(struct rut_gen *g, struct rut_node *n);
/* The statements of a list before `end`. */
void rut_gen_statements(struct rut_gen *g, struct rut_node *first, const struct rut_node *end);
/* The address of a word of the counters: RUT_COUNTER_EXIT and its like. */
rut_vreg rut_gen_counter(struct rut_gen *g, uint32_t word);
/* The address of the word that holds the time at which the script began. */
rut_vreg rut_gen_begin_time(struct rut_gen *g);
rut_vreg rut_gen_exit_word(struct rut_gen *g);
void rut_gen_set_exit(struct rut_gen *g, rut_vreg code);
/* Reads a string of at most size bytes with its zero; the rest is filled with zeros. */
void rut_gen_read_text(struct rut_gen *g, const struct rut_node *n, struct rut_mem to,
		       uint32_t size, rut_vreg from, enum rut_space space);

/* Compiles a probe, which was checked for ctx, to instructions: a new entry of progs. */
int rut_gen_probe(struct rut_script_program *p, const struct rut_probe_ctx *ctx,
		  struct rut_probe *probe, struct rut_sym *syms, struct rut_err *err);

#endif
