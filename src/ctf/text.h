/* SPDX-License-Identifier: MIT */
/*
 * Events as text: babeltrace2's layout, or JSON, one line an event.
 *
 * For every class of events the constant parts of its line are put together once; an event is then
 * a few copies and numbers. What has no constant place is printed by walking its type.
 */
#ifndef RUT_CTF_TEXT_H
#define RUT_CTF_TEXT_H

#include "base/buf.h"
#include "ctf/reader.h"

enum rut_ctf_text_clock {
	RUT_CTF_CLOCK_TIME,    /* 12:34:56.123456789 */
	RUT_CTF_CLOCK_DATE,    /* 2026-11-21 12:34:56.123456789 */
	RUT_CTF_CLOCK_SECONDS, /* 1795264496.123456789 */
	RUT_CTF_CLOCK_CYCLES,  /* 00000000000000001234 */
};

/* Which names are printed before values. */
enum {
	RUT_CTF_NAME_PAYLOAD = 1,
	RUT_CTF_NAME_CONTEXT = 2,
	RUT_CTF_NAME_HEADER = 4,
	RUT_CTF_NAME_SCOPE = 8,
};

/* What is printed before the event's name. */
enum {
	RUT_CTF_SHOW_TRACE = 1,
	RUT_CTF_SHOW_HOSTNAME = 2,
	RUT_CTF_SHOW_DOMAIN = 4,
	RUT_CTF_SHOW_PROCNAME = 8,
	RUT_CTF_SHOW_VPID = 16,
	RUT_CTF_SHOW_LOGLEVEL = 32,
	RUT_CTF_SHOW_EMF = 64,
	RUT_CTF_SHOW_DEFAULT = RUT_CTF_SHOW_HOSTNAME | RUT_CTF_SHOW_PROCNAME | RUT_CTF_SHOW_VPID,
	RUT_CTF_SHOW_ALL = 127,
};

struct rut_ctf_text_opts {
	enum rut_ctf_text_clock clock;
	bool gmt;
	bool no_delta;
	bool json;
	unsigned int names; /* RUT_CTF_NAME_* */
	unsigned int show;  /* RUT_CTF_SHOW_* */
	/* Only members of this name are shown; NULL: all. Called when the printer is made. */
	bool (*field_wanted)(const char *name, void *arg);
	void *arg;
};

struct rut_ctf_text;

/* `opts` is copied. The set must outlive the printer, which belongs to one thread. */
int rut_ctf_text_new(struct rut_ctf_text **ret, const struct rut_ctf_set *set,
		     const struct rut_ctf_text_opts *opts, struct rut_err *err);
void rut_ctf_text_free(struct rut_ctf_text *t);
/* After rut_ctf_reader_poll() found something: there may be more classes and streams. */
int rut_ctf_text_grow(struct rut_ctf_text *t, struct rut_err *err);

/* Appends the line of this event, which the reader has just given. */
void rut_ctf_text_event(struct rut_ctf_text *t, const struct rut_ctf_event *ev,
			struct rut_buf *out);

/*
 * The two halves of it, for printing in several threads: what depends on the event before
 * (time and delta), and what does not, the name and the fields.
 */
struct rut_ctf_text_time {
	bool has_ts;
	int32_t cpu;
	int64_t ts_ns;
	uint64_t ts_clock;
};

void rut_ctf_text_time(struct rut_ctf_text *t, const struct rut_ctf_text_time *when,
		       struct rut_buf *out);
void rut_ctf_text_rest(struct rut_ctf_text *t, const struct rut_ctf_event *ev, struct rut_buf *out);

/* The time that the first event's delta counts from (another printer's last event). */
void rut_ctf_text_set_last(struct rut_ctf_text *t, int64_t ts_ns, uint64_t ts_clock);

#endif
