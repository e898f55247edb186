/* SPDX-License-Identifier: MIT */
/*
 * The events that a session can record: those of the table in bpf/events.h, every system call's
 * entry and exit, and dynamic ones (tracepoints, probes) that a session adds. From here comes the
 * metadata.
 */
#ifndef RUT_SESSION_EVENTS_H
#define RUT_SESSION_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "bpf/events.h"

struct rut_err;

#define RUT_FIELD_KIND_ID(kind, form, bytes, name, tsdl) RUT_FK_##kind,
enum rut_field_kind { RUT_FIELD_KINDS(RUT_FIELD_KIND_ID) RUT_FK_COUNT };
#undef RUT_FIELD_KIND_ID

/* How a filter reads a field. */
enum rut_field_form {
	RUT_FIELD_INT,
	RUT_FIELD_UINT,
	RUT_FIELD_BIG, /* unsigned, big endian */
	RUT_FIELD_TEXT,
	RUT_FIELD_FLOAT,
	RUT_FIELD_OTHER,
};

/* By kind; see bpf/field_kinds.h. */
extern const struct rut_field_kind_desc {
	enum rut_field_form form;
	uint8_t bytes;
	const char *name, *tsdl;
} rut_field_kinds[];

struct rut_field {
	enum rut_field_kind kind;
	uint32_t count;
	const char *name; /* borrowed: static, or owned by the event's owner */
};

#define RUT_FIELDS_MAX 48

/* One kind of event. */
struct rut_event {
	uint32_t id;
	const char *name;
	const char *tracepoint;
	const char *group;
	struct rut_field fields[RUT_FIELDS_MAX];
	size_t nfields;
};

/* Fills *ret with the static event `id` (< RUT_EV_COUNT). */
void rut_event_static(struct rut_event *ret, uint32_t id);

/* A set of selected events. */
struct rut_selection {
	bool events[RUT_EV_COUNT];
	/* RUT_SYSCALL_ENTRY | RUT_SYSCALL_EXIT of each known call; for others see `events`. */
	uint8_t syscalls[RUT_SYSCALLS_MAX];
};

/*
 * Adds what `spec` names: "a,b,..." of events, globs, groups (sched irq block net mm signal timer
 * power syscall), "syscall:GLOB" (entry and exit), "all"; "!x" takes away. Returns 0, or -ENOENT
 * with the word that names nothing.
 */
int rut_selection_add(struct rut_selection *sel, const char *spec, struct rut_err *err);

/*
 * Appends the names of the events that record the kernel's tracepoints CATEGORY:PATTERN, each
 * behind `prefix`, separated by commas. Returns how many.
 */
size_t rut_events_of_tracepoint(struct rut_buf *names, const char *prefix, const char *category,
				const char *pattern);

/* What is recorded when nothing was said. */
extern const char rut_selection_default[];

struct rut_strtab;

/* Takes out what needs a tracepoint that the kernel lacks: a warning each, or -ENOENT if strict. */
int rut_selection_drop_missing(struct rut_selection *sel, const struct rut_strtab *tracepoints,
			       bool strict, struct rut_err *err);

/* Takes out everything, with one warning of the reason and all names, or -ENOENT if strict. */
int rut_selection_drop_all(struct rut_selection *sel, const char *why, bool strict,
			   struct rut_err *err);

/* Takes the system calls of `from`, known and unknown ones; NULL: none. Other events stay. */
void rut_selection_set_syscalls(struct rut_selection *sel, const struct rut_selection *from);

bool rut_selection_any_syscall(const struct rut_selection *sel);
bool rut_selection_any(const struct rut_selection *sel);

/* What is selected of a row of the kernel's table (< RUT_SYSCALL_ROWS): RUT_SYSCALL_ENTRY | _EXIT.
 */
uint8_t rut_selection_syscall(const struct rut_selection *sel, uint32_t row);

/* The layout that the programs need of a row of their table (< RUT_SYSCALL_ROWS). */
void rut_syscall_describe(struct rut_syscall_desc *ret, uint32_t row);

/* The event of a system call's entry or exit, with the names that its fields point to. */
struct rut_syscall_event {
	struct rut_event event;
	char title[80];
	char names[8][32];
};

/* False when the table does not know the call (or, at entry, its arguments). */
bool rut_event_syscall(struct rut_syscall_event *ret, uint32_t nr, bool exit);

/* The name, or NULL when the table does not know `nr`. */
const char *rut_syscall_name(uint32_t nr);

/* A context, by its index. */
struct rut_context_desc {
	const char *name;	/* of the option */
	struct rut_field field; /* how it stands in each record */
	uint32_t bytes;
	uint64_t bit; /* enum rut_context */
};
extern const struct rut_context_desc rut_contexts[RUT_CTX_COUNT];

/* Bytes of the contexts in a record. */
uint32_t rut_context_size(uint64_t contexts);

/* Names of counters, without "perf:": see session/perf.h. */
#define RUT_PERF_NAME 56

/*
 * Names of contexts, as in "pid,tid,perf:cpu:cycles" -> bits of enum rut_context, and the counters'
 * names in `perf`. 0, -EINVAL, or -E2BIG: too many counters.
 */
int rut_context_parse(const char *text, uint64_t *contexts, char perf[RUT_PERF_MAX][RUT_PERF_NAME],
		      struct rut_err *err);

/* Is this context one of the counters, and which? -1: none. */
int rut_context_perf(size_t index);

struct rut_metadata {
	uint8_t uuid[16];
	uint64_t contexts;		   /* enum rut_context */
	const char (*perf)[RUT_PERF_NAME]; /* names of the counters among them; or NULL */
	const struct rut_selection *selection;
	bool compat;		 /* the calls of 32-bit programs too, which are as many again */
	int64_t clock_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
	const char *session;
};

/* Appends the TSDL text. */
void rut_metadata_write(struct rut_buf *out, const struct rut_metadata *m);

/* Appends the descriptions of the events that are in it: rut_metadata_write() ends with them. */
void rut_metadata_write_events(struct rut_buf *out, const struct rut_metadata *m);

/* Appends the description of one event. */
void rut_metadata_event(struct rut_buf *out, const struct rut_event *e);

#endif
