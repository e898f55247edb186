/* SPDX-License-Identifier: MIT */
/*
 * librutile-usdt: static tracepoints (USDT) created while a program runs.
 *
 * A program names a provider, adds probes with typed arguments, and loads the provider. From then
 * on bpftrace, bcc, perf, SystemTap and rutile find the probes in the process as if they had been
 * compiled in with <sys/sdt.h>. gdb lists them when it is given the ELF file, of which
 * rutile_usdt_provider_path() returns the path. An untraced probe costs one load:
 *
 *	struct rutile_usdt_provider *p;
 *	struct rutile_usdt_probe *paid;
 *	const enum rutile_usdt_type types[] = {RUTILE_USDT_S64, RUTILE_USDT_STR};
 *
 *	rutile_usdt_provider_new("checkout", &p);
 *	rutile_usdt_probe_add(p, "paid", types, 2, &paid);
 *	rutile_usdt_provider_load(p);
 *	...
 *	if (rutile_usdt_enabled(paid))
 *		rutile_usdt_fire(paid, (const uint64_t[]){order_id, (uintptr_t)currency});
 *
 * Every function returns 0 or -errno unless it says otherwise, and may be called from any thread.
 * Nothing is written to a file system. Children made by fork() have the probes too, each process
 * with its own semaphores, so that a tracer may take one worker or all of them.
 *
 * Where the system cannot do it (no memfd, execution of memfds forbidden, other systems than
 * Linux), loading fails with -ENOTSUP, -EACCES or -EPERM and the probes stay silently off.
 */
#ifndef RUTILE_USDT_H
#define RUTILE_USDT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUTILE_USDT_API __attribute__((visibility("default")))

enum {
	RUTILE_USDT_MAX_ARGS = 12,	 /* more than that no tracer reads */
	RUTILE_USDT_NAME_MAX = 255,	 /* bytes of a provider's or probe's name */
	RUTILE_USDT_ARG_NAMES_MAX = 255, /* bytes of all argument names, with commas between them */
};

/* How a tracer reads the 64-bit word of an argument. */
enum rutile_usdt_type {
	RUTILE_USDT_U8 = 1,
	RUTILE_USDT_S8,
	RUTILE_USDT_U16,
	RUTILE_USDT_S16,
	RUTILE_USDT_U32,
	RUTILE_USDT_S32,
	RUTILE_USDT_U64,
	RUTILE_USDT_S64,
	RUTILE_USDT_STR,  /* the address of a NUL-terminated string, or 0 */
	RUTILE_USDT_F64,  /* the bits of a double (rutile_usdt_f64()); tracers see an unsigned word
			   */
	RUTILE_USDT_BOOL, /* 0 or 1 */
	RUTILE_USDT_TYPES /* their number + 1 */
};

struct rutile_usdt_provider; /* opaque */

/* What the inline function below needs; the rest of a probe is private. */
struct rutile_usdt_probe {
	/* Low half: the kernel's count of tracers. High half: another consumer wants the event. */
	const volatile uint32_t *gate;
};

/*
 * A name has 1 to RUTILE_USDT_NAME_MAX printable ASCII characters, no blank, no ':': -EINVAL
 * otherwise. The caller owns *ret and frees it with rutile_usdt_provider_free().
 */
RUTILE_USDT_API int rutile_usdt_provider_new(const char *name, struct rutile_usdt_provider **ret);

/*
 * Unloads the probes and frees provider and probes; takes NULL. Waits for threads that are inside
 * rutile_usdt_fire(); none may call it with a probe of this provider afterwards.
 */
RUTILE_USDT_API void rutile_usdt_provider_free(struct rutile_usdt_provider *p);

RUTILE_USDT_API const char *rutile_usdt_provider_name(const struct rutile_usdt_provider *p);

/*
 * Adds a probe, which is off until the provider is loaded (again). It lives as long as its
 * provider. -EEXIST: the name is taken; -E2BIG: too many arguments; -EINVAL: a bad name or type.
 */
RUTILE_USDT_API int rutile_usdt_probe_add(struct rutile_usdt_provider *p, const char *name,
					  const enum rutile_usdt_type *types, unsigned n,
					  struct rutile_usdt_probe **ret);

/*
 * The same for code that is loaded again. The same declaration returns the probe that there is;
 * another one replaces it: the old probe stays a valid object until the provider is freed, and is
 * never seen again.
 */
RUTILE_USDT_API int rutile_usdt_probe_declare(struct rutile_usdt_provider *p, const char *name,
					      const enum rutile_usdt_type *types, unsigned n,
					      struct rutile_usdt_probe **ret);

/*
 * Names the arguments, for recordings of `rutile record`; other tools know them by number. `names`
 * has as many C identifiers as the probe has arguments; NULL removes them. -EINVAL: one is no
 * identifier, occurs twice, or they are longer than RUTILE_USDT_ARG_NAMES_MAX.
 */
RUTILE_USDT_API int rutile_usdt_probe_name_args(struct rutile_usdt_probe *probe,
						const char *const *names);

/*
 * A probe of that name; NULL: there is none. ret_types and ret_n, where not NULL, receive how it
 * was declared; the types belong to the probe.
 */
RUTILE_USDT_API struct rutile_usdt_probe *rutile_usdt_probe_find(
	const struct rutile_usdt_provider *p, const char *name,
	const enum rutile_usdt_type **ret_types, unsigned *ret_n);

/*
 * Makes all probes that were added so far visible to tracers; call it again after adding more. The
 * cost is that of the new probes. No probe ever moves, so tracers stay attached. All providers of a
 * process share one descriptor and one ELF file; a forked child that adds probes of its own has a
 * second one.
 */
RUTILE_USDT_API int rutile_usdt_provider_load(struct rutile_usdt_provider *p);

/*
 * Takes all probes away again. Threads may fire meanwhile: nothing happens then. The probes come
 * back where they were, so that loading and unloading in turn does not grow the process.
 */
RUTILE_USDT_API void rutile_usdt_provider_unload(struct rutile_usdt_provider *p);

RUTILE_USDT_API bool rutile_usdt_provider_loaded(const struct rutile_usdt_provider *p);

/*
 * The path under which other processes open the i-th ELF file that has probes of the provider:
 * "/proc/PID/fd/N", with the PID of the calling process (also in a forked child), or a path in
 * /proc/PID/map_files where the process has no descriptor of it. Files count from 0; there is more
 * than one when probes were added after fork(). -ENOENT: there is none.
 */
RUTILE_USDT_API int rutile_usdt_provider_path(const struct rutile_usdt_provider *p, unsigned i,
					      char *buf, size_t len);

/* Switches one probe off and on again; tracers stay attached and see nothing while it is off. */
RUTILE_USDT_API void rutile_usdt_probe_set(struct rutile_usdt_probe *probe, bool on);
RUTILE_USDT_API bool rutile_usdt_probe_is_on(const struct rutile_usdt_probe *probe);

/* What is counted of each probe, in a way that `rutile tracepoints` shows. */
enum rutile_usdt_count {
	RUTILE_USDT_FIRED,     /* calls of rutile_usdt_fire() that were traced */
	RUTILE_USDT_MISMATCH,  /* noted by a binding: wrong number or type of arguments */
	RUTILE_USDT_SATURATED, /* noted by a binding: a value that did not fit */
	RUTILE_USDT_TRUNCATED, /* noted by a binding: a string that was cut */
	RUTILE_USDT_COUNTS
};

RUTILE_USDT_API uint64_t rutile_usdt_probe_count(const struct rutile_usdt_probe *probe,
						 enum rutile_usdt_count what);
RUTILE_USDT_API void rutile_usdt_probe_note(struct rutile_usdt_probe *probe,
					    enum rutile_usdt_count what);

/* True while the probe is traced: prepare the arguments only then. Never blocks. */
static inline bool rutile_usdt_enabled(const struct rutile_usdt_probe *probe)
{
	const volatile uint32_t *gate = __atomic_load_n(&probe->gate, __ATOMIC_RELAXED);

	return __builtin_expect(__atomic_load_n(gate, __ATOMIC_RELAXED) != 0, 0);
}

/* Fires; `args` holds as many words as the probe has arguments (NULL when it has none). */
RUTILE_USDT_API void rutile_usdt_fire(struct rutile_usdt_probe *probe, const uint64_t *args);

/*
 * As rutile_usdt_fire(), for begin and end of an interval. Returns the time of the event in
 * nanoseconds of CLOCK_MONOTONIC: the one in the recording of `rutile record` where there is one,
 * so that it costs no second reading of the clock; otherwise the present time. `duration`, where
 * not NULL, is one of args and receives the time since `start_ns`, which such a call returned at
 * the begin.
 */
RUTILE_USDT_API uint64_t rutile_usdt_fire_timed(struct rutile_usdt_probe *probe,
						const uint64_t *args, uint64_t start_ns,
						uint64_t *duration);

static inline uint64_t rutile_usdt_f64(double d)
{
	union {
		double d;
		uint64_t u;
	} v = {d};

	return v.u;
}

/*
 * The control page: opens this process to `rutile tracepoints PID`, which lists its probes and
 * switches them from outside. The page is a sealed memfd of mode 0600 that is reached through
 * /proc/PID/fd only, so the kernel checks the permission: the same user or root. A thread of the
 * library waits for commands (it sleeps in the kernel, with all signals blocked); forked children
 * get a page and a thread of their own.
 *
 * `wake`, when not NULL, is called from that thread after probes that asked for it (see
 * rutile_usdt_probe_defer()) were switched: a language binding then does its part on a thread of
 * its own. Calling this again only replaces `wake`.
 */
RUTILE_USDT_API int rutile_usdt_control_start(void (*wake)(void *arg), void *arg);
RUTILE_USDT_API void rutile_usdt_control_stop(void);

/*
 * A deferred probe is not switched by the control thread: the wish is noted, `wake` called, and the
 * binding asks with rutile_usdt_probe_wanted() and answers with rutile_usdt_probe_set().
 */
RUTILE_USDT_API void rutile_usdt_probe_defer(struct rutile_usdt_probe *probe, bool deferred);
/* 1: shall be on, 0: shall be off, -1: nothing was asked since the last rutile_usdt_probe_set(). */
RUTILE_USDT_API int rutile_usdt_probe_wanted(const struct rutile_usdt_probe *probe);

#ifdef __cplusplus
}
#endif

#endif
