/* SPDX-License-Identifier: MIT */
#include "cli/trigger_source.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/ruby_opts.h"
#include "cli/ruby_target.h"

int rut_cli_trigger_targets(const struct rut_trigger_when *w, struct rut_targets *ret,
			    struct rut_err *err)
{
	_cleanup_free_ char *words = strdup(w->events);
	struct rut_ruby_opts o = {0};
	char *rest = words;
	int rc = words ? 0 : -ENOMEM;

	for (char *word; !rc && (word = strsep(&rest, " \t"));)
		if (*word)
			rc = rut_cli_words_add(&o.targets, word);
	rc = rc ? rut_err_set(err, ENOMEM, "out of memory") : rut_cli_targets_find(ret, &o, err);
	rut_cli_ruby_opts_fini(&o);
	return rc;
}

int rut_cli_trigger_source_open(struct rut_trigger_source **ret, const struct rut_cmd *cmd,
				const struct rut_trigger_when *w, struct rut_err *err)
{
	*ret = NULL;
	switch (w->kind) {
	case RUT_TRIGGER_FIRED:
	case RUT_TRIGGER_EVERY:
	case RUT_TRIGGER_AT:
		return 0;
	case RUT_TRIGGER_EVENT:
	case RUT_TRIGGER_RATE:
	case RUT_TRIGGER_SLOW:
	case RUT_TRIGGER_PERIOD:
		return rut_cli_trigger_events_open(ret, cmd, w, err);
	case RUT_TRIGGER_REQUEST:
	case RUT_TRIGGER_METHOD:
		return rut_cli_trigger_ruby_open(ret, cmd, w, err);
	case RUT_TRIGGER_RUNQUEUE:
	case RUT_TRIGGER_KILLED:
	case RUT_TRIGGER_SCRIPT:
		return rut_cli_trigger_script_open(ret, cmd, w, err);
	case RUT_TRIGGER_GVL:
		return rut_cli_trigger_gvl_open(ret, cmd, w, err);
	case RUT_TRIGGER_LOG:
		return rut_cli_trigger_log_open(ret, cmd, w, err);
	}
	return 0;
}
