/* SPDX-License-Identifier: MIT */
#include "cli/trace_open.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ctf/when.h"

void rut_cli_trace_args_fini(struct rut_trace_args *a)
{
	free(a->paths);
	a->paths = NULL;
	a->n_paths = 0;
}

static int add_path(struct rut_trace_args *a, const char *path)
{
	const char **grown = realloc(a->paths, (a->n_paths + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	grown[a->n_paths++] = path;
	a->paths = grown;
	return 0;
}

int rut_cli_trace_args_parse(struct rut_trace_args *a, const struct rut_cmd *cmd, int argc,
			     char **argv, int (*take)(void *arg, int id, const char *value),
			     void *arg)
{
	struct rut_args args;
	int id, rc;

	rut_cli_args_init(&args, cmd, argc, argv);
	while ((id = rut_cli_args_next(&args)) != RUT_ARGS_END) {
		switch (id) {
		case RUT_ARGS_BAD:
			return RUT_EXIT_USAGE;
		case RUT_ARGS_HELP:
			return RUT_EXIT_OK;
		case RUT_ARGS_DASHES:
			break;
		case RUT_ARGS_POSITIONAL:
			if (add_path(a, args.value) < 0)
				return rut_cli_usage_error(cmd, "out of memory");
			break;
		case RUT_TRACE_OPT_BEGIN:
			a->begin = args.value;
			break;
		case RUT_TRACE_OPT_END:
			a->end = args.value;
			break;
		case RUT_TRACE_OPT_GMT:
			a->gmt = true;
			break;
		default:
			if ((rc = take(arg, id, args.value)))
				return rc;
		}
	}
	return a->n_paths ? -1
			  : rut_cli_usage_error(cmd, "which trace? Give the path of its directory");
}

int rut_cli_trace_range(const struct rut_trace_args *a, struct rut_ctf_set *set,
			struct rut_ctf_reader_opts *ret, struct rut_err *err)
{
	int64_t day = 0, last;
	int rc;

	if ((a->begin && rut_ctf_when_needs_day(a->begin)) ||
	    (a->end && rut_ctf_when_needs_day(a->end)))
		rut_ctf_set_range(set, &day, &last);
	if (a->begin) {
		if ((rc = rut_ctf_parse_when(a->begin, a->gmt, day, &ret->begin_ns, err)) < 0)
			return rc;
		ret->has_begin = true;
	}
	if (a->end) {
		if ((rc = rut_ctf_parse_when(a->end, a->gmt, day, &ret->end_ns, err)) < 0)
			return rc;
		ret->has_end = true;
	}
	if (ret->has_begin && ret->has_end && ret->begin_ns > ret->end_ns)
		return rut_err_set(err, EINVAL, "the end '%s' is before the beginning '%s'", a->end,
				   a->begin);
	return 0;
}

void rut_cli_trace_warn_skipped(const struct rut_ctf_counts *counts)
{
	char text[160];

	rut_ctf_skipped_text(counts, text, sizeof(text));
	if (text[0])
		rut_warn("%s", text);
}

int rut_cli_write_out(struct rut_buf *b)
{
	size_t done = 0;

	if (b->failed)
		return -ENOMEM;
	while (done < b->len) {
		ssize_t n = write(STDOUT_FILENO, b->data + done, b->len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	rut_buf_clear(b);
	return 0;
}
