/* SPDX-License-Identifier: MIT */
/*
 * When a trace directory of a collector is complete. Messages come in any order: what it consists
 * of may be known (the hidden file .list, lines "PART/STREAM BYTES") before the last packet is
 * there. The list becomes .complete when all of it is.
 */
#ifndef RUT_STREAM_NATS_COMPLETE_H
#define RUT_STREAM_NATS_COMPLETE_H

#include <stddef.h>

/*
 * Notes the list of the trace directory `dir`, which the caller has locked. Returns 1 when the
 * directory is complete, 0, or -errno.
 */
int rut_nats_list(int dir, const void *text, size_t len);

/* The same of a directory whose list may be noted. */
int rut_nats_complete(int dir);

/* Likewise of the directory with the part `part`, which got something. It is locked here. */
int rut_nats_part_completes(int part);

#endif
