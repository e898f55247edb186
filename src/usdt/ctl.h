/* SPDX-License-Identifier: MIT */
/*
 * The control page of a process that uses librutile-usdt: how it looks to the outside.
 *
 * One sealed memfd a process, named RUT_USDT_CTL_NAME and found by that name in /proc/PID/fd. It
 * holds a header, a table of slots, one a probe, and the slots' texts. The process fills the slots;
 * a tool writes only `want` and `ring` of slots, `request`, and the seat that it has. Both sides
 * treat what the other wrote as untrusted: the process knows its probes by slot number and reads
 * nothing else back, the tool copies what it shows.
 *
 * To switch probes a tool stores into `want` of their slots, adds 1 to `request` and wakes it as a
 * futex; each time a wish was carried out the process sets `want` to 0, adds 1 to `done` and wakes
 * that.
 *
 * To get events without the kernel a tool takes a seat, of which there are several, so that several
 * tools can record at once: it swaps its token (not 0) into `token`, says in `globs` which probes
 * are meant and in `notify` where new processes are announced, sets `want` and adds 1 to `request`.
 * When `made_for` is the token, `fd` is the memfd of a ring (of src/ring, control page first) or
 * -errno. The tool describes the probes that there are and sets its bit in `ring` of their slots;
 * for probes that are declared later the process does so itself, before their first event, and
 * counts that in `news`. A record is the header word with the slot's number as ID, the thread as 32
 * and the CPU as 16 bits, then the arguments: integers and floats by their size, strings with their
 * NUL. The ring is removed when `want` is 0 again, or when `beat` stops: the tool died. After the
 * first, the tool clears `token`.
 *
 * A child made by fork() has a page of its own. It takes over the seats of its parent's page that
 * have `notify`, makes its rings before it runs anything else, and sends an announcement with the
 * descriptors of page and ring to that abstract socket. A process with an environment that has
 * RUT_USDT_RECORD_ENV takes seat 0 in the same way when it starts.
 *
 * In a core of the process ring and slots are enough for a trace (recover.c): so the ring notes its
 * clocks, and a slot with events that may be in it is not given to another probe while there are
 * others.
 */
#ifndef RUT_USDT_CTL_H
#define RUT_USDT_CTL_H

#include <stdint.h>

#include "rutile/usdt.h"

#define RUT_USDT_CTL_NAME  "rutile-usdt-ctl"
#define RUT_USDT_RING_NAME "rutile-usdt-ring"
#define RUT_USDT_CTL_MAGIC 0x3254445355545552ull /* "RUTUSDT2" */

/* "TOKEN:SOCKET:GLOBS": in hexadecimal, an abstract name, patterns separated by newlines. */
#define RUT_USDT_RECORD_ENV "RUTILE_USDT_RECORD"

/* A slot's number is the event's ID in the ring, which has 16 bits. */
enum { RUT_USDT_CTL_SLOTS = 65535, RUT_USDT_CTL_HEADER_BYTES = 3 * 4096 };
enum { RUT_USDT_SEATS = 8, RUT_USDT_NOTIFY_MAX = 63, RUT_USDT_GLOBS_MAX = 879 };
enum { RUT_USDT_TEXT_BYTES = 24 << 20 };
#define RUT_USDT_NO_RING INT32_MIN

/* Of the ring: 64 KiB each, 4 MiB in all. */
enum { RUT_USDT_RING_SHIFT = 16, RUT_USDT_RING_SUBBUFS = 64, RUT_USDT_RING_LEASE_S = 10 };
/* Beside it, for readers of a core: `_user` of its control page. */
#define RUT_USDT_RING_MAGIC 0x474e495254445355ull /* "USDTRING" */

struct rut_usdt_ring_user {
	uint64_t magic;
	uint64_t mono_ns, real_ns; /* CLOCK_MONOTONIC and CLOCK_REALTIME when it was made */
};

/* Longer strings are cut in the ring, and counted. */
enum { RUT_USDT_RING_STR_MAX = 4095 };

enum { RUT_USDT_SLOT_FREE = 0, RUT_USDT_SLOT_USED = 1 };
enum { RUT_USDT_WANT_NOTHING = 0, RUT_USDT_WANT_ON = 1, RUT_USDT_WANT_OFF = 2 };
enum { RUT_USDT_SLOT_ON = 1, RUT_USDT_SLOT_DEFERRED = 2, RUT_USDT_SLOT_LOADED = 4 };

/* A slot's text: provider, name, and the names of the arguments separated by commas; each ends with
 * a NUL. */
enum { RUT_USDT_TEXT_MAX = 2 * (RUTILE_USDT_NAME_MAX + 1) + RUTILE_USDT_ARG_NAMES_MAX + 1 };

struct rut_usdt_slot {
	uint32_t state; /* stored last, with release */
	uint32_t flags;
	uint32_t want;
	uint32_t n_types;
	uint8_t types[RUTILE_USDT_MAX_ARGS]; /* enum rutile_usdt_type */
	uint32_t serial;		     /* differs for each probe that ever used the slot */
	uint64_t gate;			     /* address in the process; 0: not loaded */
	int32_t fd;			     /* of the object that has it; -1: none */
	uint32_t ring;			     /* bit N: the tool of seat N wants its events */
	uint64_t counts[RUTILE_USDT_COUNTS];
	uint32_t text, text_bytes; /* offset in, and bytes of, the texts */
};
_Static_assert(sizeof(struct rut_usdt_slot) == 56 + 8 * RUTILE_USDT_COUNTS, "no padding");

struct rut_usdt_seat {
	uint64_t token;	   /* of the tool; 0: free */
	uint64_t made_for; /* of the process: the token that `fd` answers */
	uint32_t want;	   /* of the tool: the ring shall be there */
	uint32_t beat;	   /* of the tool: changes at least every RUT_USDT_RING_LEASE_S seconds */
	int32_t fd;	   /* of the process: its memfd, RUT_USDT_NO_RING or -errno */
	uint32_t reserved[13];
	char notify[RUT_USDT_NOTIFY_MAX + 1];
	char globs[RUT_USDT_GLOBS_MAX + 1]; /* separated by newlines */
};
_Static_assert(sizeof(struct rut_usdt_seat) == 1024, "no padding");

struct rut_usdt_ctl {
	uint64_t magic;
	uint32_t slot_bytes;
	uint32_t n_slots; /* slots from here on were never used */
	int32_t pid;
	uint32_t request; /* futex; the tool adds 1 */
	uint32_t done;	  /* futex; the process adds 1 */
	uint32_t news;	  /* the process set a bit in `ring` of a slot */
	uint64_t text_used;
	uint8_t reserved[RUT_USDT_CTL_HEADER_BYTES - 40 - RUT_USDT_SEATS * 1024];
	struct rut_usdt_seat seats[RUT_USDT_SEATS];
	struct rut_usdt_slot slots[RUT_USDT_CTL_SLOTS];
	char texts[RUT_USDT_TEXT_BYTES];
};

/* What a process sends to `notify`, with the descriptors of its page and of its ring. */
struct rut_usdt_announcement {
	uint64_t magic; /* RUT_USDT_CTL_MAGIC */
	uint64_t token;
	uint32_t seat;
	uint32_t reserved;
};

#endif
