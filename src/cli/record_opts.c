/* SPDX-License-Identifier: MIT */
#include "cli/record_opts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "session/dynamic.h"

static int bad_value(const struct rut_cmd *cmd, const char *what, const char *value)
{
	return rut_usage_error(cmd, "bad %s '%s'", what, value);
}

static int add_event(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	struct rut_err err = RUT_ERR_INIT;
	char *events = o->conf.events;
	size_t len = strlen(events), room = sizeof(o->conf.events) - len;

	if (rut_conf_add_events(&o->conf, value, &err) < 0)
		return rut_usage_error(cmd, "%s", err.msg);
	if ((size_t)snprintf(events + len, room, "%s%s", len ? "," : "", value) >= room)
		return rut_usage_error(cmd, "too many --event: use globs");
	o->events_given = true;
	return 0;
}

static int add_pid(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	uint64_t n;

	if (rut_parse_u64(value, &n) < 0 || !n || n > INT32_MAX)
		return bad_value(cmd, "process", value);
	if (o->npids == RUT_PIDS_MAX)
		return rut_usage_error(cmd, "more than %d --pid", RUT_PIDS_MAX);
	o->pids[o->npids++] = (pid_t)n;
	o->conf.filters |= RUT_FILTER_PID | RUT_FILTER_FOLLOW;
	return 0;
}

static int add_procname(const struct rut_cmd *cmd, struct rut_record_opts *o, const char *value)
{
	size_t len = strlen(value);

	if (!len || len > 15)
		return rut_usage_error(cmd, "a process name has 1 to 15 bytes, not '%s'", value);
	for (size_t i = 0; i < 8; i++) {
		if (o->conf.comms[i][0])
			continue;
		memcpy(o->conf.comms[i], value, len);
		o->conf.filters |= RUT_FILTER_COMM;
		return 0;
	}
	return rut_usage_error(cmd, "more than 8 --procname");
}

static int set_number(const struct rut_cmd *cmd, struct rut_record_opts *o, int id,
		      const char *value)
{
	uint64_t n;

	switch (id) {
	case RUT_OPT_BUFFER:
		return rut_parse_size(value, &o->conf.buffer_bytes) < 0
			       ? bad_value(cmd, "size", value)
			       : 0;
	case RUT_OPT_SUBBUF:
		return rut_parse_size(value, &o->conf.subbuf_bytes) < 0
			       ? bad_value(cmd, "size", value)
			       : 0;
	case RUT_OPT_SIZE:
		return rut_parse_size(value, &o->output.size_bytes) < 0 || !o->output.size_bytes
			       ? bad_value(cmd, "size", value)
			       : 0;
	case RUT_OPT_EVERY:
		return rut_parse_duration(value, &o->output.every_ns) < 0 || !o->output.every_ns
			       ? bad_value(cmd, "time", value)
			       : 0;
	default:
		if (rut_parse_u64(value, &n) < 0 || !n || n > 1000000)
			return bad_value(cmd, "number", value);
		o->output.keep = (uint32_t)n;
		return 0;
	}
}

int rut_record_option(const struct rut_cmd *cmd, struct rut_record_opts *o, int id,
		      const char *value)
{
	struct rut_err err = RUT_ERR_INIT;

	switch (id) {
	case 'e':
		return add_event(cmd, o, value);
	case 'p':
		return add_pid(cmd, o, value);
	case RUT_OPT_PROCNAME:
		return add_procname(cmd, o, value);
	case RUT_OPT_CGROUP:
		if (strlen(value) >= sizeof(o->conf.cgroup))
			return bad_value(cmd, "control group", value);
		strcpy(o->conf.cgroup, value);
		o->conf.filters |= RUT_FILTER_CGROUP;
		return 0;
	case RUT_OPT_CONTEXT:
		if (rut_context_parse(value, &o->conf.contexts, &err) < 0)
			return rut_usage_error(cmd, "%s", err.msg);
		return 0;
	case RUT_OPT_STRICT:
		o->conf.strict = true;
		return 0;
	case RUT_OPT_BUFFER:
	case RUT_OPT_SUBBUF:
	case RUT_OPT_SIZE:
	case RUT_OPT_EVERY:
	case RUT_OPT_KEEP:
		return set_number(cmd, o, id, value);
	default:
		return -ENOENT;
	}
}

void rut_record_defaults(struct rut_record_opts *o)
{
	if (o->events_given)
		return;
	rut_selection_add(&o->conf.selection, rut_selection_default, NULL);
	snprintf(o->conf.events, sizeof(o->conf.events), "%s", rut_selection_default);
}
