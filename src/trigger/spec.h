/* SPDX-License-Identifier: MIT */
/*
 * What a trigger is: when it fires, what it does then, and how often at most.
 *
 *	fired                              an outside program says so
 *	event NAMES [if FILTER]            one of these events is recorded
 *	rate NAMES [if FILTER] > N per TIME
 *	slow NAMES > TIME                  a system call lasts longer; seen while it still lasts
 *	period FILE [NAME] > TIME          a period of a file lasts longer; likewise
 *	period DEFINITION > TIME           one that is defined here
 *	request TARGET > TIME              a request lasts longer; likewise
 *	slow, period, request ... pN per TIME
 *	                                   the percentile of those that ended in this time is larger
 *	method TARGET NAME > TIME          a call of a Ruby method has lasted longer
 *	gvl TARGET > TIME                  a thread waits longer for Ruby's lock; likewise
 *	runqueue > TIME                    a thread that could run waits longer; likewise
 *	killed [GLOB]                      a process of this name dies by a signal
 *	script SCRIPT                      it prints a line
 *	log FILE matches REGEX [> NUMBER]  a line is written that matches; its first group is larger
 *	every TIME
 *	at HH:MM[,HH:MM...]                each day, by the local time
 *
 * A description is text, in a command line as in a file of lines "NAME = VALUE".
 */
#ifndef RUT_TRIGGER_SPEC_H
#define RUT_TRIGGER_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum {
	RUT_TRIGGER_NAME_MAX = 63,
	RUT_TRIGGER_TEXT_MAX = 1023,
	RUT_TRIGGER_ACTIONS = 8,
	RUT_TRIGGER_WORDS = 64,
};

enum rut_trigger_kind {
	RUT_TRIGGER_FIRED,
	RUT_TRIGGER_EVENT,
	RUT_TRIGGER_RATE,
	RUT_TRIGGER_SLOW,
	RUT_TRIGGER_REQUEST,
	RUT_TRIGGER_METHOD,
	RUT_TRIGGER_RUNQUEUE,
	RUT_TRIGGER_KILLED,
	RUT_TRIGGER_SCRIPT,
	RUT_TRIGGER_LOG,
	RUT_TRIGGER_EVERY,
	RUT_TRIGGER_PERIOD,
	RUT_TRIGGER_AT,
	RUT_TRIGGER_GVL,
};

struct rut_trigger_when {
	enum rut_trigger_kind kind;
	/* As `record --event` takes them; the calls, target, glob, script, file, definition or
	 * times of the others. */
	char events[RUT_TRIGGER_TEXT_MAX + 1];
	char filter[RUT_TRIGGER_TEXT_MAX +
		    1];	    /* "": none; the method, regular expression or period */
	uint64_t count;	    /* of RATE: fires when there are more within the window */
	uint64_t ns;	    /* the window of RATE, the interval of EVERY, the limit of the others */
	double percent;	    /* of SLOW, PERIOD, REQUEST: pN; 0: each by itself */
	uint64_t window_ns; /* of pN */
	double limit;	    /* of LOG */
	bool has_limit;
};

enum rut_trigger_verb {
	RUT_TRIGGER_SNAPSHOT, /* of session words[1] */
	RUT_TRIGGER_RUTILE,   /* rotate, start or stop: a command line of rutile */
	RUT_TRIGGER_DETAIL,   /* words: session, -e or --ruby, what; for `ns` */
	RUT_TRIGGER_EXEC,     /* a program with its arguments */
	RUT_TRIGGER_STACKS,   /* of target words[1], or of the process in the cause */
	RUT_TRIGGER_PUBLISH,  /* to words[1] */
	RUT_TRIGGER_FLEET,    /* hosts words[1]: the rest is a snapshot's command line */
};

struct rut_trigger_action {
	enum rut_trigger_verb verb;
	char text[RUT_TRIGGER_TEXT_MAX + 1];	  /* the words, each ended by NUL */
	const char *words[RUT_TRIGGER_WORDS + 1]; /* into text; ends with NULL */
	size_t nwords;
	uint64_t ns;
};

struct rut_trigger {
	char name[RUT_TRIGGER_NAME_MAX + 1];
	char when_text[RUT_TRIGGER_TEXT_MAX + 1];
	char do_text[RUT_TRIGGER_ACTIONS][RUT_TRIGGER_TEXT_MAX + 1];
	struct rut_trigger_when when;
	struct rut_trigger_action actions[RUT_TRIGGER_ACTIONS];
	size_t nactions;
	uint64_t burst, interval_ns; /* so many firings within this time */
	uint64_t cooldown_ns;	     /* after the actions of a firing have ended */
	char dir[1024];		     /* of snapshots, absolute */
	uint64_t disk_bytes;	     /* of all its snapshots; 0: no limit */
	bool refuse;		     /* at the limit: no new ones, instead of removing old ones */
	char fleet[256];	     /* file with the server of FLEET; "": the usual one */
	char group[64];		     /* users who may fire it besides its owner; "": none */
};

/* The defaults: fired, at most once in ten seconds, snapshots in the current directory. */
void rut_trigger_init(struct rut_trigger *t);

/* 1 to 63 letters, digits, '-', '_' and '.', the first no '.'. */
bool rut_trigger_name_ok(const char *name);

/*
 * Sets what `key` (when, do, burst, cooldown, output, disk, disk-full, group, fleet) says; `do`
 * adds an action. Returns 0 or -EINVAL with a message that names what is wrong.
 */
int rut_trigger_set(struct rut_trigger *t, const char *key, const char *value, struct rut_err *err);

/*
 * The first of the times of an AT after `now` (time of day, local). Returns it; 0: `when` has none.
 */
int64_t rut_trigger_next_at(const struct rut_trigger_when *w, int64_t now);

/* Lines "NAME = VALUE"; '#' begins a comment. -EINVAL: the message names the line. */
int rut_trigger_read(struct rut_trigger *t, FILE *f, struct rut_err *err);
void rut_trigger_write(const struct rut_trigger *t, FILE *f);

#endif
