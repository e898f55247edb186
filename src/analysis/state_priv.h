/* SPDX-License-Identifier: MIT */
/* What the files of the state model share. */
#ifndef RUT_ANALYSIS_STATE_PRIV_H
#define RUT_ANALYSIS_STATE_PRIV_H

#include "analysis/state.h"

/* A handler by the name of its event. */
struct rut_state_def {
	const char *name;
	rut_state_fn fn;
	const char *fields[RUT_STATE_FIELDS];
	uint32_t serves; /* the hooks that it can matter to; 0: all */
};

/* System calls know threads, descriptors and requests. */
#define RUT_STATE_SERVES_IO                                                                        \
	(RUT_HOOK_BIT(RUT_HOOK_IO_EXIT) | RUT_HOOK_BIT(RUT_HOOK_FD_CREATE) |                       \
	 RUT_HOOK_BIT(RUT_HOOK_FD_CLOSE) | RUT_HOOK_BIT(RUT_HOOK_FD_UPDATE) |                      \
	 RUT_HOOK_BIT(RUT_HOOK_PARENT) | RUT_HOOK_BIT(RUT_HOOK_NET))

/* Each ends with a NULL name. */
extern const struct rut_state_def rut_an_state_sched_defs[];
extern const struct rut_state_def rut_an_state_irq_defs[];
extern const struct rut_state_def rut_an_state_block_defs[];
extern const struct rut_state_def rut_an_state_dump_defs[];
extern const struct rut_state_def rut_an_state_ruby_defs[];
extern const struct rut_state_def rut_an_state_wake_defs[];

#define RUT_STATE_RUBY                                                                             \
	(RUT_HOOK_BIT(RUT_HOOK_RUBY_CALL) | RUT_HOOK_BIT(RUT_HOOK_RUBY_BEGIN) |                    \
	 RUT_HOOK_BIT(RUT_HOOK_RUBY_EVENT) | RUT_HOOK_BIT(RUT_HOOK_RUBY_FIBER) |                   \
	 RUT_HOOK_BIT(RUT_HOOK_RUBY_REQUEST) | RUT_HOOK_BIT(RUT_HOOK_RUBY_SPAN))

/* state_ruby.c: a CPU switches from one thread to another. */
void rut_an_state_ruby_switch(struct rut_state *st, int64_t ts_ns, int64_t prev_tid,
			      int64_t next_tid);
void rut_an_state_ruby_fini(struct rut_ruby *m);

void rut_an_state_sys_entry(struct rut_state *st, const struct rut_ctf_event *ev,
			    const struct rut_state_class *c);
/* A string of the call that runs, which could not be read when it began. */
void rut_an_state_sys_string(struct rut_state *st, const struct rut_ctf_event *ev,
			     const struct rut_state_class *c);
void rut_an_state_sys_exit(struct rut_state *st, const struct rut_ctf_event *ev,
			   const struct rut_state_class *c);

/* How a system call does I/O (by its name), and the fields with its values. */
uint8_t rut_an_state_io_kind(const char *name);
const char *const *rut_an_state_io_fields(uint8_t kind);
const char *const *rut_an_state_io_exit_fields(void);
void rut_an_state_io_entry(struct rut_state *st, const struct rut_ctf_event *ev,
			   const struct rut_state_class *c, struct rut_thread *t);
void rut_an_state_io_exit(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c, struct rut_thread *t, int64_t ret);
void rut_an_state_net_xmit(struct rut_state *st, const struct rut_ctf_event *ev,
			   const struct rut_state_class *c);

/* state_fd.c: the row of a call that makes or ends descriptors; 0: it does not. */
uint8_t rut_an_state_fd_call(const char *name);
/* What kind of descriptor a statedump names so. */
enum rut_fd_type rut_an_state_fd_type_of(const char *filename);
void rut_an_state_fd_bind(const struct rut_ctf_event_class *cls, uint8_t call,
			  struct rut_ctf_ref f[RUT_STATE_FD_FIELDS]);
void rut_an_state_fd_entry(const struct rut_ctf_event *ev, const struct rut_state_class *c,
			   struct rut_thread *t);
void rut_an_state_fd_exit(struct rut_state *st, const struct rut_ctf_event *ev,
			  const struct rut_state_class *c, struct rut_thread *t, int64_t ret);

/* state_wake.c: enum rut_wait_kind of a call. */
uint8_t rut_an_state_wait_kind(const char *name);
void rut_an_state_context_enter(struct rut_cpu *cpu, enum rut_context_kind kind, int64_t nr,
				const char *name);
void rut_an_state_context_leave(struct rut_cpu *cpu, enum rut_context_kind kind);
/* The thread is woken on the current CPU: finds out why. */
void rut_an_state_wake(struct rut_state *st, struct rut_thread *t, int64_t ts_ns);

/* The fields of exits from system calls, in order of rut_an_state_io_exit_fields(). */
enum rut_state_exit_field {
	RUT_STATE_EXIT_RET,
	RUT_STATE_EXIT_FAMILY,
	RUT_STATE_EXIT_ADDR,
	RUT_STATE_EXIT_PORT,
	RUT_STATE_EXIT_FILDES,
	RUT_STATE_EXIT_USOCKVEC,
	RUT_STATE_EXIT_RIGHTS,
};

struct rut_cpu *rut_an_state_add_cpu(struct rut_state *st, int cpu);
/* Never NULL. */
static inline struct rut_cpu *rut_an_state_get_cpu(struct rut_state *st, int cpu)
{
	if (__builtin_expect((size_t)cpu < st->n_cpus && st->cpus[cpu].seen, 1))
		return &st->cpus[cpu];
	return rut_an_state_add_cpu(st, cpu);
}

/* Interns the name in a field, and keeps it for rut_an_state_name() unless `kept` is NULL. */
const char *rut_an_state_name_slow(struct rut_state *st, const struct rut_ctf_event *ev,
				   const struct rut_ctf_ref *ref, struct rut_state_name *kept);

/* The name in a field, interned. Names of threads are 16 bytes, of which there are few. */
static inline const char *rut_an_state_name(struct rut_state *st, const struct rut_ctf_event *ev,
					    const struct rut_ctf_ref *ref)
{
	const struct rut_ctf_type *t = ref->type;
	struct rut_state_name *n;
	uint64_t raw[2];

	if (__builtin_expect(ref->load != RUT_CTF_LOAD_BYTES || t->kind != RUT_CTF_KIND_ARRAY ||
				     t->count != sizeof(raw) || t->char_bytes != 1,
			     0))
		return rut_an_state_name_slow(st, ev, ref, NULL);
	memcpy(raw, rut_ctf_ref_ptr(ev, ref), sizeof(raw));
	n = &st->names[(raw[0] * 0x9e3779b97f4a7c15ull + raw[1] * 0xbf58476d1ce4e5b9ull) >> 56 &
		       (RUT_STATE_NAMES - 1)];
	if (__builtin_expect(n->name && n->raw[0] == raw[0] && n->raw[1] == raw[1], 1))
		return n->name;
	return rut_an_state_name_slow(st, ev, ref, n);
}
void rut_an_state_free_fds(struct rut_thread *t);
struct rut_fd *rut_an_state_add_fd(struct rut_state *st, struct rut_thread *t, int64_t fd);
/* All of a process's descriptors in the order they came. Free the array; NULL: none, or no memory.
 */
struct rut_fd **rut_an_state_fds(const struct rut_thread *t, size_t *ret_n);
/*
 * A new descriptor that a system call made, for the caller to describe before it calls
 * rut_an_state_notify_opened().
 */
struct rut_fd *rut_an_state_open_fd(struct rut_state *st, const struct rut_ctf_event *ev,
				    struct rut_thread *leader, int64_t fd);
void rut_an_state_notify_opened(struct rut_state *st, const struct rut_ctf_event *ev,
				struct rut_thread *leader, int64_t fd);
/* Reports it, and removes it. */
void rut_an_state_close_fd(struct rut_state *st, const struct rut_ctf_event *ev,
			   struct rut_thread *leader, int64_t fd, int64_t ts_ns);
void rut_an_state_remove_fd(struct rut_state *st, struct rut_thread *t, int64_t fd);
void rut_an_state_set_comm(struct rut_state *st, struct rut_thread *t, const char *s, size_t len);
/* It has ended: it is freed when RUT_STATE_DEAD others have. */
void rut_an_state_thread_ended(struct rut_state *st, struct rut_thread *t);
/* It lives, although it has ended: another thread has taken its TID by an exec. */
void rut_an_state_thread_revived(struct rut_state *st, struct rut_thread *t);
/* A new object for the tid, in place of the one that may be there. */
struct rut_thread *rut_an_state_thread_replace(struct rut_state *st, int64_t tid);
const char *rut_an_state_str(struct rut_state *st, const struct rut_ctf_event *ev,
			     const struct rut_ctf_ref *ref);

static inline void rut_state_notify(struct rut_state *st, enum rut_hook hook, const void *data)
{
	const struct rut_hook_list *l = &st->hooks[hook];

	/* Which files are open is bookkeeping, not counting. */
	if (st->muted && hook != RUT_HOOK_FD_CREATE && hook != RUT_HOOK_FD_CLOSE &&
	    hook != RUT_HOOK_FD_UPDATE && hook != RUT_HOOK_PARENT && hook != RUT_HOOK_DISK)
		return;
	for (size_t i = 0; i < l->n; i++)
		l->subs[i].fn(l->subs[i].arg, data);
}

/* `name` is interned. The idle threads have one TID and a name for each CPU. */
static inline void rut_an_state_rename(struct rut_state *st, struct rut_thread *t, const char *name)
{
	struct rut_hook_thread h = {0, st->cpu, t};

	if (__builtin_expect(t->comm == name, 1))
		return;
	t->comm = name;
	if (t->tid && st->hooks[RUT_HOOK_NAME].n)
		rut_state_notify(st, RUT_HOOK_NAME, &h);
}

void rut_an_state_notify_fd(struct rut_state *st, enum rut_hook hook,
			    const struct rut_ctf_event *ev, struct rut_thread *parent, int64_t fd,
			    int64_t ts_ns);

struct rut_remap {
	uint64_t sector, old_sector;
	int64_t dev, old_dev;
	struct rut_remap *next;
};

/* A table of open files (LTTng 2.12 on): its process, and what was seen of it before that is known.
 */
struct rut_file_table {
	int64_t *pids;
	size_t n_pids;
	struct rut_fd *fds;
	size_t n_fds;
};

#endif
