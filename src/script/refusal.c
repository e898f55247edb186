/* SPDX-License-Identifier: MIT */
#include "script/refusal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { LOG_LINES = 60 };

/* "12: (b7) r1 = 0": an instruction; its number, or SIZE_MAX. */
static size_t insn_of(const char *line)
{
	char *end;
	unsigned long v = strtoul(line, &end, 10);

	return end != line && end[0] == ':' && end[1] == ' ' && end[2] == '(' ? v : SIZE_MAX;
}

/*
 * What is found before paths are walked has no instruction, but names it: "back-edge from insn 7".
 * The line of the sums, "processed 0 insns ... max_states_per_insn 0", names none.
 */
static size_t named_insn(const char *line)
{
	const char *at = strstr(line, "insn ");
	unsigned v;

	if (!at || at >= strchrnul(line, '\n') || !strncmp(line, "processed ", 10))
		return SIZE_MAX;
	return (at == line || at[-1] == ' ') && sscanf(at + 5, "%u", &v) == 1 ? v : SIZE_MAX;
}

size_t rut_script_refused_insn(const char *log, size_t limit)
{
	size_t walked = SIZE_MAX, named = SIZE_MAX;

	for (const char *line = log; line && *line;) {
		size_t insn = insn_of(line);

		/* Those behind are of functions that it calls: the call is what counts. */
		if (insn < limit)
			walked = insn;
		else if (insn == SIZE_MAX && named_insn(line) < limit)
			named = named_insn(line);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return walked != SIZE_MAX ? walked : named;
}

static bool is_reason(const char *line)
{
	static const char *const others[] = {
		";",	       "processed ", "from ",	 "mark_precise", "verification time",
		"stack depth", "arg#",	     "func#",	 "caller:",	 "callee:",
		"returning ",  "to caller",  "caution:", "last_idx ",	 "regs=",
		"parent ",     "max_states", "frame",
	};

	if (!*line || insn_of(line) != SIZE_MAX || *line == ' ')
		return false;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (!strncmp(line, others[i], strlen(others[i])))
			return false;
	return strstr(line, ": (") == NULL && strstr(line, ": R") == NULL;
}

void rut_script_refusal_reason(char *log, char *ret, size_t size)
{
	char *save = NULL;

	*ret = '\0';
	for (char *line = strtok_r(log, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (is_reason(line))
			snprintf(ret, size, "%s", line);
}

/* The end of what the verifier wrote. */
static void show_log(struct rut_source *s, const char *log)
{
	const char *from = log + strlen(log);

	for (int lines = 0; from > log && lines <= LOG_LINES; from--)
		lines += from[-1] == '\n';
	if (from > log)
		from++; /* the line before is cut off */
	rut_buf_printf(&s->messages, "the kernel's log:\n%s%s", from > log ? "...\n" : "", from);
}

/* Programs of other kinds were loaded before: it is the kind that is not permitted. */
static int refuse_kind(struct rut_script_program *p, const struct rut_script_prog *prog)
{
	rut_source_error(&p->src, prog->span,
			 "this kernel permits no programs at its functions: it is locked "
			 "down, or was built without CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS");
	rut_source_hint(&p->src, "use a tracepoint or rawtracepoint: rutile run -l 'tracepoint:*'");
	return -EINVAL;
}

/* What to do about the limits that a script can reach. */
static void advise(struct rut_script_program *p, const char *why)
{
	if (strstr(why, "too large") || strstr(why, "too complex"))
		rut_source_hint(&p->src, "the kernel follows every path through the probe: use "
					 "fewer conditions, or a loop for what is repeated");
}

int rut_script_refuse(struct rut_script_program *p, const struct rut_script_prog *prog, int rc,
		      char *log, struct rut_err *err)
{
	size_t insn = rut_script_refused_insn(log, prog->ninsns);
	struct rut_span at = prog->span;
	_cleanup_free_ char *whole = NULL;
	char why[256];

	if ((rc == -EPERM || rc == -ENOTSUP || rc == -524) &&
	    (prog->expected == BPF_TRACE_FENTRY || prog->expected == BPF_TRACE_FEXIT))
		return refuse_kind(p, prog);
	if (rc == -EPERM)
		return rut_err_set(err, EPERM,
				   "the kernel permits no eBPF programs to this process");
	/* Before the log is cut into lines. */
	if (p->opts.verbose)
		whole = strdup(log);
	rut_script_refusal_reason(log, why, sizeof(why));
	if (insn < prog->ninsns)
		at = (struct rut_span){prog->places[insn], 1};
	rut_source_error(&p->src, at, "the kernel refuses this: %s", *why ? why : strerror(-rc));
	advise(p, why);
	if (whole)
		show_log(&p->src, whole);
	return -EINVAL;
}
