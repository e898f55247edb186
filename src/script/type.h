/* SPDX-License-Identifier: MIT */
/*
 * The types of script values: what the compiler computes, and the shape in which programs leave
 * values for user space, in maps and in records. The compiler makes the types, the output side
 * (format.h, output.h) reads values by them; neither knows more of the other than this header and
 * program.h.
 *
 * A value is `size` bytes in the machine's byte order, aligned to `align` within what holds it.
 * Padding is zero, so that the bytes of equal map keys are equal. By kind:
 *
 *	INT, BOOL, ENUM, POINTER   the number, of `size` bytes
 *	STRING                     `size` bytes, ended and filled up with zeros
 *	BUF                        uint32_t length, then up to size - 4 bytes
 *	ARRAY                      `count` values of `elem`, one after the other
 *	TUPLE, RECORD, STRUCT      the fields, each at its offset (and bits of it, for bit fields)
 *	KSTACK, USTACK, RSTACK     struct rut_script_stack_value
 *	KSYM                       uint64_t address
 *	USYM                       struct rut_script_usym_value
 *	TIMESTAMP                  struct rut_script_time_value
 *	INET                       struct rut_script_inet_value
 *	MAC                        6 bytes
 *	USERNAME                   uint64_t user id
 *	CGROUP_PATH                struct rut_script_cgroup_value
 *	STRERROR, SIGNAL_NAME,
 *	SYSCALL_NAME               uint64_t number
 *	PROBE                      uint64_t index of the probe
 *	RMETHOD, RLINE             uint64_t word of a Ruby frame (bpf/ruby.h); 0: none
 *	RTHREAD                    uint64_t address of the Thread object; 0: none
 *	DURATION                   int64_t nanoseconds
 *	FLOAT                      float or double
 *
 * An aggregation is the value of a map that each CPU keeps for itself, an array of 64-bit words;
 * user space merges them (merge.h). A CPU that has not updated it has zeros.
 *
 *	COUNT                      [0] how often
 *	SUM                        [0] the sum
 *	MIN, MAX                   [0] the value, [1] not 0: there is one
 *	AVG, STATS                 [0] the sum, [1] the count
 *	HIST                       rut_script_hist_words(bits) counts, see rut_script_hist_slot()
 *	LHIST                      rut_script_lhist_words(t) counts, see rut_script_lhist_slot()
 *	TSERIES                    `count` intervals of 4 words each: [0] number of the interval + 1
 *	                           (time / interval_ns + 1; 0: empty), [1] the value or sum,
 *	                           [2] the count (0: empty), [3] nanoseconds of the last update.
 *	                           An interval is kept at index (time / interval_ns) % count.
 */
#ifndef RUT_SCRIPT_TYPE_H
#define RUT_SCRIPT_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rut_type_kind {
	RUT_T_NONE, /* not known yet */
	RUT_T_VOID, /* no value: the type of a statement */
	RUT_T_INT,
	RUT_T_BOOL,
	RUT_T_ENUM,
	RUT_T_POINTER,
	RUT_T_STRING,
	RUT_T_BUF,
	RUT_T_ARRAY,
	RUT_T_TUPLE,
	RUT_T_RECORD, /* (a = 1, b = 2) */
	RUT_T_STRUCT, /* struct or union, of a script, BTF or args */
	RUT_T_KSTACK,
	RUT_T_USTACK,
	RUT_T_RSTACK,
	RUT_T_KSYM,
	RUT_T_USYM,
	RUT_T_TIMESTAMP, /* strftime() */
	RUT_T_INET,	 /* ntop() */
	RUT_T_MAC,
	RUT_T_USERNAME,
	RUT_T_CGROUP_PATH,
	RUT_T_STRERROR,
	RUT_T_SIGNAL_NAME,
	RUT_T_SYSCALL_NAME,
	RUT_T_PROBE,
	RUT_T_RMETHOD,
	RUT_T_RLINE,
	RUT_T_RTHREAD,
	RUT_T_RREQUEST,
	RUT_T_DURATION,
	RUT_T_FLOAT,
	RUT_T_COUNT, /* from here on: aggregations, values of maps only */
	RUT_T_SUM,
	RUT_T_MIN,
	RUT_T_MAX,
	RUT_T_AVG,
	RUT_T_STATS,
	RUT_T_HIST,
	RUT_T_LHIST,
	RUT_T_TSERIES,
	RUT_T_KINDS
};

/* How kstack() and ustack() are shown. */
enum rut_stack_mode {
	RUT_STACK_BPFTRACE, /* name+offset */
	RUT_STACK_PERF,	    /* address name+offset (module) */
	RUT_STACK_RAW,	    /* address */
};

struct rut_type;

struct rut_type_field {
	const char *name; /* NULL: of a tuple, or an unnamed struct or union within one */
	const struct rut_type *type;
	uint32_t offset;   /* bytes */
	uint8_t bit_shift; /* of a bit field: how far right, after a load of type->size bytes */
	uint8_t bits;	   /* 0: not a bit field */
};

struct rut_type_enumerator {
	const char *name;
	int64_t value;
};

/* Types do not change once made, and live as long as the program they belong to. */
struct rut_type {
	enum rut_type_kind kind;
	uint32_t size;
	uint32_t align;
	/* INT, ENUM; of SUM, MIN, MAX, AVG, STATS, TSERIES: the values are signed. */
	bool is_signed;
	bool is_union; /* STRUCT */
	bool user;     /* POINTER: of user space rather than the kernel */
	/* STRUCT, ENUM: with "struct ", "union " or "enum " */
	const char *name;
	const struct rut_type *elem;   /* ARRAY: element, POINTER: what it points to or NULL */
	uint32_t count;		       /* ARRAY: elements; TSERIES: intervals */
	uint32_t nfields;	       /* TUPLE, RECORD, STRUCT */
	struct rut_type_field *fields; /* nfields of them */
	uint32_t nenumerators;	       /* ENUM */
	const struct rut_type_enumerator *enumerators;
	uint32_t bits;		/* HIST */
	int64_t min, max, step; /* LHIST */
	uint64_t interval_ns;	/* TSERIES */
	enum rut_type_kind agg; /* TSERIES: SUM, MIN, MAX, AVG; NONE: the last value */
	enum rut_stack_mode stack_mode;
	uint32_t stack_limit; /* frames; 0: as many as there are */
	uint32_t btf_id;
};

struct rut_script_stack_value {
	uint64_t id;	 /* key of the table of stacks; 0: none */
	uint32_t tgid;	 /* USTACK: the process of the addresses */
	uint32_t frames; /* how many were read */
};

struct rut_script_usym_value {
	uint64_t address;
	uint32_t tgid;
	uint32_t probe; /* index of the probe: names its binary once the process has exited */
};

enum rut_script_clock {
	RUT_SCRIPT_CLOCK_BOOT,
	RUT_SCRIPT_CLOCK_MONOTONIC,
	RUT_SCRIPT_CLOCK_TAI,
};

struct rut_script_time_value {
	uint64_t ns;
	uint32_t clock;	 /* enum rut_script_clock */
	uint32_t format; /* index into the program's strings */
};

struct rut_script_inet_value {
	uint32_t family;     /* AF_INET, AF_INET6 */
	uint8_t address[16]; /* in network order */
};

struct rut_script_cgroup_value {
	uint64_t id;
	uint64_t filter; /* index into the program's strings + 1; 0: none */
};

static inline bool rut_type_is_agg(const struct rut_type *t)
{
	return t->kind >= RUT_T_COUNT;
}

/* Not an aggregation, or one that is a number when it is read. */
static inline bool rut_type_has_number(const struct rut_type *t)
{
	return t->kind < RUT_T_STATS;
}

/*
 * The slot of hist() with 2^bits slots to each power of two (bits 0 to 5): 0 for what is negative,
 * then 0 ... 2^bits - 1 each on its own, and so on. The compiler emits the same computation.
 */
static inline uint32_t rut_script_hist_slot(int64_t v, unsigned bits)
{
	if (v < 0)
		return 0;
	if (v < 1ll << bits)
		return (uint32_t)v + 1;
	unsigned top = 63 - (unsigned)__builtin_clzll((uint64_t)v);
	return ((top - bits + 1) << bits) +
	       (uint32_t)((uint64_t)v >> (top - bits) & ((1u << bits) - 1)) + 1;
}

static inline uint32_t rut_script_hist_words(unsigned bits)
{
	return ((64 - bits) << bits) + 1;
}

/*
 * The slot of lhist(): 0 below min, the last one from max on, and from where the last whole step
 * ends when max is not a multiple of steps away.
 */
static inline uint32_t rut_script_lhist_slot(int64_t v, int64_t min, int64_t max, int64_t step)
{
	if (v < min)
		return 0;
	return (uint32_t)(((v >= max ? max : v) - min) / step) + 1;
}

static inline uint32_t rut_script_lhist_words(const struct rut_type *t)
{
	return (uint32_t)((t->max - t->min) / t->step) + 2;
}

/* Words of one interval of a tseries(). */
#define RUT_SCRIPT_TSERIES_WORDS 4

#endif
