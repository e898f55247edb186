/* SPDX-License-Identifier: MIT */
/*
 * What a firing does: its actions one after the other, each a process of its own that may take its
 * time; the watcher continues meanwhile.
 */
#ifndef RUT_CLI_TRIGGER_ACT_H
#define RUT_CLI_TRIGGER_ACT_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/logfile.h"
#include "fleet/fire.h"
#include "trigger/spec.h"

struct rut_trigger_act {
	const struct rut_trigger *t;   /* borrowed */
	const struct rut_logfile *log; /* borrowed */
	bool busy;
	bool failed; /* one of the actions */
	/* Of the firing: */
	char id[20];
	uint64_t ns;
	char *cause;	    /* owned */
	char dir[PATH_MAX]; /* of its snapshots; "": not made yet */
	size_t next;	    /* action */
	unsigned stage;	    /* of an action that has several */
	int pidfd;	    /* of what runs; -1: nothing */
	pid_t pid;
	uint64_t until_ns; /* waits until then, or gives up then */
	bool harmless;	   /* what runs may fail */
	bool asking;	   /* the hosts of `fleet` have been asked */
	/* With an action `fleet`; owned by the caller. */
	struct rut_fleet_fire *fleet;
};

/* Begins the actions of a firing, which `cause` explains. */
void rut_cli_trigger_act_begin(struct rut_trigger_act *a, const char *cause);

/* Continues when the action has ended, or the time has come. `busy` is false at the end. */
void rut_cli_trigger_act_step(struct rut_trigger_act *a);

/* Ends what runs. */
void rut_cli_trigger_act_end(struct rut_trigger_act *a);

#endif
