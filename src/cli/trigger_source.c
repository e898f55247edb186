/* SPDX-License-Identifier: MIT */
#include "cli/trigger_source.h"

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
