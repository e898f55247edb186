/* SPDX-License-Identifier: MIT */
/*
 * What the compiler makes of a script: maps, programs, the probes that they are for, and the
 * actions that programs ask user space to take. Loading (load.h) and output (output.h) read it.
 */
#ifndef RUT_SCRIPT_PROGRAM_H
#define RUT_SCRIPT_PROGRAM_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "script/type.h"

/* What a program leaves in the ring: this header, then data laid out as action->args. */
struct rut_script_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint32_t action;  /* index into the program's actions */
	uint32_t cpu;
	uint8_t data[];
};

enum rut_script_action_kind {
	RUT_ACTION_PRINTF,
	RUT_ACTION_ERRORF,
	RUT_ACTION_WARNF,
	RUT_ACTION_PRINT_MAP,
	RUT_ACTION_PRINT_VALUE, /* args: TUPLE of one; @m[k]: of the key, then the value */
	RUT_ACTION_PRINT_KEY,	/* args: TUPLE of a key, of an aggregation; the consumer's */
	RUT_ACTION_CLEAR,
	RUT_ACTION_ZERO,
	RUT_ACTION_TIME, /* format: of strftime */
	RUT_ACTION_EXIT, /* args: the exit code */
	RUT_ACTION_CAT,
	RUT_ACTION_SYSTEM,
	RUT_ACTION_RECORD,   /* an event of a trace alone; format: as of a printf() with names */
	RUT_ACTION_SNAPSHOT, /* of the session beside; format: its name */
	RUT_ACTION_STOP,     /* the session beside */
	RUT_ACTION_JOIN, /* args: ARRAY of STRING, the empty ones left out; format: the delimiter */
};

/* p99(@x[key]) among the arguments of an action; the keys are behind those. */
struct rut_script_quantile {
	uint32_t field, map, permille;
};

struct rut_script_action {
	enum rut_script_action_kind kind;
	const char *format;		  /* borrowed from the program; NULL: none */
	const struct rut_type *args;	  /* TUPLE; NULL: none */
	struct rut_script_format *parsed; /* of `format`; owned by the program */
	int map;			  /* index of the map; -1: none */
	int64_t top, div;		  /* print(@m, top, div); 0: not given */
	const char *source;		  /* the file: "stdin"; NULL: the script itself */
	uint32_t line, column;		  /* where it stands in it, from 1 */
	uint32_t end_column;
	uint32_t pos;				     /* ... in bytes */
	const struct rut_script_quantile *quantiles; /* in the arena */
	uint32_t nquantiles;
	const char *expanded; /* ERRORF, WARNF: the calls of macros that it is in, as lines; NULL */
	int order;	      /* print(@m, top, div, "-key"): enum rut_script_print_order */
	bool replay;	      /* of a program that takes hits from memory (defer.h) */
};

/* Has a record of `size` bytes what the action reads? A program of a file may have left less. */
static inline bool rut_script_event_is_whole(const struct rut_script_action *a, size_t size)
{
	return size >= sizeof(struct rut_script_event) &&
	       (!a->args || a->kind == RUT_ACTION_PRINT_MAP ||
		size - sizeof(struct rut_script_event) >= a->args->size);
}

/* Of print(): as bpftrace, which shows the largest values last; or as the script says. */
enum rut_script_print_order {
	RUT_SCRIPT_PRINT_PLAIN,
	RUT_SCRIPT_PRINT_VALUE_UP,
	RUT_SCRIPT_PRINT_VALUE_DOWN,
	RUT_SCRIPT_PRINT_KEY_UP,
	RUT_SCRIPT_PRINT_KEY_DOWN,
};

struct rut_script_map {
	const char *name;	    /* "@x" */
	const struct rut_type *key; /* NULL: one value without a key; several keys: a TUPLE */
	const struct rut_type *value;
	bool per_cpu;  /* each CPU has its own value: merged when read */
	unsigned uses; /* 0: the key is not known yet */
	bool is_lru;   /* the keys used longest ago make room for new ones */
	bool is_array; /* BPF array of one entry, for those without key */
	/* Without key: the word of the value that is not 0 once it was assigned to; 0: there is
	 * none. */
	uint32_t set_at;
	uint32_t max_entries;
	uint32_t key_bytes, value_bytes; /* of the BPF map */
	int fd;				 /* -1: not loaded */
	uint32_t line, column;		 /* of its first use */
};

#endif
