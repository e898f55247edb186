/* SPDX-License-Identifier: MIT */
/*
 * The types of script values: what the compiler computes, and the shape in which programs leave
 * values for user space, in maps and in records. The compiler makes the types, the output side
 * (out.h, format.h) reads values by them; neither knows more of the other than this header.
 *
 * A value is `size` bytes in the machine's byte order, aligned to `align` within what holds it.
 * Padding is zero, so that the bytes of equal map keys are equal. By kind:
 *
 *	INT, BOOL, ENUM, POINTER   the number, of `size` bytes
 *	STRING                     `size` bytes, ended and filled up with zeros
 *	BUFFER                     uint32_t length, then up to size - 4 bytes
 *	ARRAY                      `count` values of `of`, one after the other
 *	TUPLE, RECORD, STRUCT      the members, each at its offset (and bits of it, for bit fields)
 *	KSTACK, USTACK             struct rut_script_stack_value
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
 *	DURATION                   int64_t nanoseconds
 *
 * An aggregation is the value of a map that each CPU keeps for itself, an array of 64-bit words;
 * user space merges them (merge.h). A CPU that has not updated it has zeros.
 *
 *	COUNT                      [0] how often
 *	SUM                        [0] the sum
 *	MIN, MAX                   [0] the value, [1] not 0: there is one
 *	AVG                        [0] the sum, [1] the count
 *	STATS                      [0] the sum, [1] the count
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

enum rut_script_kind {
	RUT_SCRIPT_NONE, /* no value: the type of a statement */
	RUT_SCRIPT_INT,
	RUT_SCRIPT_BOOL,
	RUT_SCRIPT_ENUM,
	RUT_SCRIPT_POINTER,
	RUT_SCRIPT_STRING,
	RUT_SCRIPT_BUFFER,
	RUT_SCRIPT_ARRAY,
	RUT_SCRIPT_TUPLE,
	RUT_SCRIPT_RECORD, /* (a = 1, b = 2) */
	RUT_SCRIPT_STRUCT, /* struct or union, of a script, BTF or args */
	RUT_SCRIPT_KSTACK,
	RUT_SCRIPT_USTACK,
	RUT_SCRIPT_KSYM,
	RUT_SCRIPT_USYM,
	RUT_SCRIPT_TIMESTAMP, /* strftime() */
	RUT_SCRIPT_INET,      /* ntop() */
	RUT_SCRIPT_MAC,
	RUT_SCRIPT_USERNAME,
	RUT_SCRIPT_CGROUP_PATH,
	RUT_SCRIPT_STRERROR,
	RUT_SCRIPT_SIGNAL_NAME,
	RUT_SCRIPT_SYSCALL_NAME,
	RUT_SCRIPT_PROBE,
	RUT_SCRIPT_DURATION,
	RUT_SCRIPT_COUNT, /* from here on: aggregations, values of maps only */
	RUT_SCRIPT_SUM,
	RUT_SCRIPT_MIN,
	RUT_SCRIPT_MAX,
	RUT_SCRIPT_AVG,
	RUT_SCRIPT_STATS,
	RUT_SCRIPT_HIST,
	RUT_SCRIPT_LHIST,
	RUT_SCRIPT_TSERIES,
	RUT_SCRIPT_KINDS
};

/* How kstack() and ustack() are shown. */
enum rut_script_stack_mode {
	RUT_SCRIPT_STACK_BPFTRACE, /* name+offset */
	RUT_SCRIPT_STACK_PERF,	   /* address name+offset (module) */
	RUT_SCRIPT_STACK_RAW,	   /* address */
};

struct rut_script_type;

struct rut_script_member {
	const char *name; /* NULL: of a tuple, or an unnamed struct or union within one */
	const struct rut_script_type *type;
	uint32_t offset;   /* bytes */
	uint8_t bit_shift; /* of a bit field: how far right, after a load of type->size bytes */
	uint8_t bits;	   /* 0: not a bit field */
};

struct rut_script_enumerator {
	const char *name;
	int64_t value;
};

/*
 * Types do not change once made, and live as long as the program they belong to.
 */
struct rut_script_type {
	enum rut_script_kind kind;
	uint32_t size;
	uint32_t align;
	/* INT, ENUM; of SUM, MIN, MAX, AVG, STATS, TSERIES: the values are signed. */
	bool is_signed;
	bool is_union;			  /* STRUCT */
	bool user;			  /* POINTER, of user space rather than the kernel */
	const char *name;		  /* STRUCT, ENUM: with "struct ", "union " or "enum " */
	const struct rut_script_type *of; /* ARRAY: element, POINTER: what it points to or NULL */
	/* ARRAY: elements; TUPLE, RECORD, STRUCT: members; ENUM: enumerators; TSERIES: intervals */
	uint32_t count;
	const struct rut_script_member *members;
	const struct rut_script_enumerator *enumerators;
	/* HIST: bits; LHIST: min, max, step; TSERIES: interval_ns, and COUNT ... AVG in `agg`, as
	 * tseries() without an aggregation (the last value) has NONE */
	uint32_t bits;
	int64_t min, max, step;
	uint64_t interval_ns;
	enum rut_script_kind agg;
	/* KSTACK, USTACK */
	enum rut_script_stack_mode stack_mode;
	uint32_t stack_limit;
};

struct rut_script_stack_value {
	uint64_t id;	 /* key of the table of stacks; 0: none */
	uint32_t tgid;	 /* USTACK: whose addresses these are */
	uint32_t frames; /* how many were read; len() */
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

static inline bool rut_script_is_agg(const struct rut_script_type *t)
{
	return t->kind >= RUT_SCRIPT_COUNT;
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

/* The slot of lhist(): 0 below min, the last one from max on. */
static inline uint32_t rut_script_lhist_slot(int64_t v, int64_t min, int64_t max, int64_t step)
{
	if (v < min)
		return 0;
	uint32_t slots = (uint32_t)((max - min + step - 1) / step);
	return v >= max ? slots + 1 : (uint32_t)((v - min) / step) + 1;
}

static inline uint32_t rut_script_lhist_words(const struct rut_script_type *t)
{
	return (uint32_t)((t->max - t->min + t->step - 1) / t->step) + 2;
}

/* Words of one interval of a tseries(). */
#define RUT_SCRIPT_TSERIES_WORDS 4

#endif
