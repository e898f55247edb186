/* SPDX-License-Identifier: MIT */
/* The metadata of a trace of static tracepoints: one process; its slots are the events' ids. */
#ifndef RUT_USDT_METADATA_H
#define RUT_USDT_METADATA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct rut_buf;
struct rut_usdt_info;

/* `clock_offset_ns`: CLOCK_REALTIME - CLOCK_MONOTONIC. */
void rut_usdt_metadata_head(struct rut_buf *b, const uint8_t uuid[16], pid_t pid,
			    int64_t clock_offset_ns);

/* One event with known types. */
void rut_usdt_metadata_event(struct rut_buf *b, const struct rut_usdt_info *p);
bool rut_usdt_metadata_knows(const struct rut_usdt_info *p);

#endif
