/* SPDX-License-Identifier: MIT */
/* The memory of a process's sites and gates, and the file that tracers read: see arena.c. */
#ifndef RUT_USDT_ARENA_H
#define RUT_USDT_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "usdt/object.h"

struct rut_usdt_arena;

/* Sites of one arena. */
enum { RUT_USDT_ARENA_SITES = 65536 };

/* All of these: under the lock of provider.c. */

/* The arena that new sites come from, made if there is none: 0 or -errno. */
int rut_usdt_arena_get(struct rut_usdt_arena **ret);

/* Reserves a site. Returns 0 or -errno; -ENOTSUP where memory cannot be mapped for execution. */
int rut_usdt_arena_take(struct rut_usdt_arena **ret, uint32_t *ret_site);

/* The probe that had the site is freed. No thread may be at the site. */
void rut_usdt_arena_give(struct rut_usdt_arena *a, uint32_t site);

/* Describes the probe at a site, unless that was done: 0 or -errno; -ENOSPC: take another site. */
int rut_usdt_arena_show(struct rut_usdt_arena *a, uint32_t site, const char *provider,
			const struct rut_usdt_desc *desc);

/*
 * Marks a site for removal of its description; rut_usdt_arena_sweep() removes those that are
 * marked, if this process made the arena. Children that share it keep their probes, and their
 * tracers.
 */
void rut_usdt_arena_hide(struct rut_usdt_arena *a, uint32_t site);
void rut_usdt_arena_sweep(void);

void *rut_usdt_arena_site(const struct rut_usdt_arena *a, uint32_t site);
volatile uint32_t *rut_usdt_arena_gate(const struct rut_usdt_arena *a, uint32_t site);

/* The descriptor of the file; -1: the process has none any more. */
int rut_usdt_arena_fd(const struct rut_usdt_arena *a);

/* The path of the file for other processes: 0 or -ENAMETOOLONG. */
int rut_usdt_arena_path(const struct rut_usdt_arena *a, char *buf, size_t len);

/* All arenas, the oldest first; NULL ends. */
struct rut_usdt_arena *rut_usdt_arena_next(const struct rut_usdt_arena *a);

/* In the child of a fork. Returns false when an arena could not be made safe: fire nothing then. */
bool rut_usdt_arena_child(void);

#endif
