/* SPDX-License-Identifier: MIT */
/* Between the files of the functions. */
#ifndef RUT_SCRIPT_CALLS_H
#define RUT_SCRIPT_CALLS_H

#include "script/gen.h"

/* Sends the values from `first` on as the record of the call's action. */
void rut_gen_send(struct rut_gen *g, struct rut_node *n, struct rut_node *first);
enum rut_space rut_call_space(const struct rut_gen *g, const struct rut_type *t);

/* calls_agg.c, calls_stack.c */
const struct rut_type *rut_check_count(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_sum(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_avg(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_stats(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_min(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_max(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_hist(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_lhist(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_tseries(struct rut_checker *c, struct rut_node *n);
void rut_update_tseries(struct rut_gen *g, struct rut_node *n, rut_vreg words);
const struct rut_type *rut_check_kstack(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_ustack(struct rut_checker *c, struct rut_node *n);
/* kstack and its like; at most `most` frames. */
const struct rut_type *rut_check_stack(struct rut_checker *c, struct rut_node *n,
				       enum rut_type_kind kind, int64_t most);
/* calls_ruby.c */
const struct rut_type *rut_check_rmethod(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_rrequest(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_rline(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_rthread(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_rstack(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_in(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_in(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_rmethod(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_rrequest(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_rline(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_rthread(struct rut_gen *g, struct rut_node *n);
void rut_gen_rstack(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
const struct rut_type *rut_check_ksym(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_usym(struct rut_checker *c, struct rut_node *n);
void rut_update_count(struct rut_gen *g, struct rut_node *n, rut_vreg at);
void rut_update_sum(struct rut_gen *g, struct rut_node *n, rut_vreg at);
void rut_update_avg(struct rut_gen *g, struct rut_node *n, rut_vreg at);
void rut_update_min(struct rut_gen *g, struct rut_node *n, rut_vreg at);
void rut_update_max(struct rut_gen *g, struct rut_node *n, rut_vreg at);
void rut_update_hist(struct rut_gen *g, struct rut_node *n, rut_vreg at);
void rut_update_lhist(struct rut_gen *g, struct rut_node *n, rut_vreg at);
void rut_gen_stack(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
void rut_gen_usym(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
rut_vreg rut_gen_first(struct rut_gen *g, struct rut_node *n);

const struct rut_type *rut_check_percpu_kaddr(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_container_of(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_percpu_kaddr(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_container_of(struct rut_gen *g, struct rut_node *n);
/* calls_task.c */
const struct rut_type *rut_check_task_number(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_task_text(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_task_number(struct rut_gen *g, struct rut_node *n);
void rut_gen_task_text(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
/* calls_debug.c */
const struct rut_type *rut_check_debugf(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_debugf(struct rut_gen *g, struct rut_node *n);
/* calls_static.c */
const struct rut_type *rut_check_getopt(struct rut_checker *c, struct rut_node *n);
/* calls_record.c */
const struct rut_type *rut_check_record(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_snapshot(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_stop(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_record_call(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_act(struct rut_gen *g, struct rut_node *n);

/* calls_text.c, calls_more.c */
const struct rut_type *rut_check_buf(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_ntop(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_pton(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_macaddr(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_bswap(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_strlen(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_strncmp(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_strcontains(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_len(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_has_key(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_strftime(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_strerror(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_signal_name(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_syscall_name(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_cgroup_path(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_cgroupid(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_kaddr(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_uaddr(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_reg(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_space(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_nsecs(struct rut_checker *c, struct rut_node *n);
/* A text, also `probe`; false: reported. */
bool rut_check_text(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_matches(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_matches(struct rut_gen *g, struct rut_node *n);
const struct rut_type *rut_check_quantile(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_quantile(struct rut_gen *g, struct rut_node *n);
bool rut_is_quantile(const struct rut_node *n);
/* Adds the keys of percentiles among the arguments to `fields`, of which `count` are in use. */
bool rut_quantile_add(struct rut_checker *c, struct rut_script_action *a, struct rut_node *first,
		      struct rut_type_field *fields, uint32_t count);
void rut_gen_quantile_keys(struct rut_gen *g, struct rut_node *first,
			   const struct rut_script_action *a, rut_vreg record, uint32_t header);
const struct rut_type *rut_check_is(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_fail(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_static_assert(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_kfunc(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_write_user(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_write_user(struct rut_gen *g, struct rut_node *n);
const struct rut_type *rut_check_concat(struct rut_checker *c, struct rut_node *n);
void rut_gen_concat(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
const struct rut_type *rut_check_signal(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_join(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_pid(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_override(struct rut_checker *c, struct rut_node *n);
rut_vreg rut_gen_override(struct rut_gen *g, struct rut_node *n);
const struct rut_type *rut_check_no_skboutput(struct rut_checker *c, struct rut_node *n);
const struct rut_type *rut_check_path(struct rut_checker *c, struct rut_node *n);
void rut_gen_path(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
void rut_gen_buf(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
void rut_gen_ntop(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
void rut_gen_pton(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
void rut_gen_macaddr(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
void rut_gen_strftime(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
void rut_gen_cgroup_path(struct rut_gen *g, struct rut_node *n, struct rut_mem to);
rut_vreg rut_gen_bswap(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_strlen(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_strncmp(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_strcontains(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_len(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_has_key(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_uaddr(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_reg(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_nsecs(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_signal(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_join(struct rut_gen *g, struct rut_node *n);
rut_vreg rut_gen_pid(struct rut_gen *g, struct rut_node *n);

#endif
