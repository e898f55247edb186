/* SPDX-License-Identifier: MIT */
/* Inside the recorder of static tracepoints: one process (tap_process.c) and all (tap.c). */
#ifndef RUT_USDT_TAP_PROCESS_H
#define RUT_USDT_TAP_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/read.h"
#include "usdt/remote.h"

/* What all processes of a recording share. */
struct rut_usdt_recording {
	const char *const *globs; /* borrowed */
	size_t nglobs;
	char *dir;	/* owned; NULL: not open */
	uint64_t token; /* of this recorder, never 0 */
	char notify[RUT_USDT_NOTIFY_MAX + 1];
	char joined[RUT_USDT_GLOBS_MAX + 1]; /* the globs; "": too long */
	size_t processes;		     /* ever */
	uint64_t lost, bytes, packets;
};

struct rut_usdt_tap {
	struct rut_usdt_remote remote;
	unsigned seat;	      /* RUT_USDT_SEATS: none */
	struct rut_ring ring; /* ctl NULL: not there yet */
	size_t map_bytes;
	int dir_fd, stream_fd; /* -1: not open */
	uint64_t pos, end;     /* in the ring, in the file */
	uint32_t *described;   /* owned; by slot: serial of the probe; 0: none */
	uint32_t news;	       /* of the page, when its probes were described */
	bool fresh;	       /* they never were */
	bool gone, refused;
};

/* Takes over *remote. NULL: out of memory. */
struct rut_usdt_tap *rut_usdt_tap_new(struct rut_usdt_remote *remote);

/* Uses a ring that the process sent, of the seat `seat`; `fd` stays the caller's. 0 or -errno. */
int rut_usdt_tap_announced(struct rut_usdt_tap *tap, unsigned seat, int fd);

/* Describes and asks for the tracepoints that are wanted and were not seen yet. 0 or -errno. */
int rut_usdt_tap_describe(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap);

/* Moves finished packets into the file. Returns their number or -errno. */
int64_t rut_usdt_tap_drain(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap);

/* Whether the process exited, executed another program, or gave the seat to another tool. */
bool rut_usdt_tap_is_over(const struct rut_usdt_recording *rec, const struct rut_usdt_tap *tap);

/* The next packets go into another directory, rec->dir. */
void rut_usdt_tap_close_files(struct rut_usdt_tap *tap);

/* Gives the seat back, writes what is left in the ring, and frees. */
void rut_usdt_tap_end(struct rut_usdt_recording *rec, struct rut_usdt_tap *tap);

#endif
