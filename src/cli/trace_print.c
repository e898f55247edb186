/* SPDX-License-Identifier: MIT */
#include "cli/trace_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "output/jsonl.h"
#include "output/text.h"

enum { DURATION_WIDTH = 10 };

void rut_cli_trace_print_init(struct rut_trace_print *tp, const struct rut_trace_style *style)
{
	*tp = (struct rut_trace_print){.style = *style, .second = -1};
}

void rut_cli_trace_print_fini(struct rut_trace_print *tp)
{
	rut_buf_fini(&tp->out);
	rut_buf_fini(&tp->pending.name);
	rut_map_fini(&tp->bases);
}

static void add_name(struct rut_buf *b, const struct rut_ruby_event *ev, bool qualified)
{
	if (ev->class_name) {
		rut_text_add(b, ev->class_name);
		rut_buf_putc(b, qualified && !ev->singleton ? '#' : '.');
	}
	rut_text_add(b, ev->method_name ? ev->method_name : "?");
}

static void add_args(struct rut_trace_print *tp, struct rut_buf *b, const struct rut_ruby_event *ev)
{
	if (!tp->style.args || !ev->args)
		return;
	rut_buf_putc(b, '(');
	rut_text_add(b, ev->args);
	rut_buf_putc(b, ')');
}

static void add_place(struct rut_buf *b, const struct rut_ruby_event *ev)
{
	if (!ev->path)
		return;
	rut_buf_puts(b, " (");
	rut_text_add(b, ev->path);
	rut_buf_printf(b, ":%" PRIu32 ")", ev->line);
}

static void add_clock(struct rut_trace_print *tp, uint64_t time_ns)
{
	uint64_t ns = time_ns + (uint64_t)tp->style.clock_offset_ns;
	time_t second = (time_t)(ns / 1000000000);

	if (second != tp->second) {
		struct tm tm;

		localtime_r(&second, &tm);
		strftime(tp->clock, sizeof(tp->clock), "%H:%M:%S", &tm);
		tp->second = second;
	}
	rut_buf_puts(&tp->out, tp->clock);
	rut_buf_putc(&tp->out, '.');
	rut_text_number(&tp->out, ns % 1000000000 / 1000, 6);
	rut_buf_putc(&tp->out, ' ');
}

/* What --time and --thread put before a line. */
static void add_prefix(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	if (tp->style.time)
		add_clock(tp, ev->time_ns);
	if (tp->style.thread) {
		rut_text_number(&tp->out, (uint64_t)ev->pid, 1);
		rut_buf_putc(&tp->out, '/');
		rut_text_number(&tp->out, (uint64_t)ev->tid, 1);
		rut_buf_putc(&tp->out, ' ');
	}
}

static void add_exception(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	rut_buf_puts(&tp->out, "EXCEPTION ");
	rut_text_add(&tp->out, ev->class_name ? ev->class_name : "?");
	add_place(&tp->out, ev);
	rut_buf_putc(&tp->out, '\n');
}

static void add_lost(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	rut_buf_printf(&tp->out, "LOST %" PRIu64 " events of process %d\n", ev->lost, ev->pid);
}

static void add_duration(struct rut_buf *b, uint64_t ns)
{
	char buf[RUT_TEXT_DURATION_SIZE];

	rut_buf_putc(b, ' ');
	rut_buf_puts(b, rut_text_duration(buf, ns));
}

static void add_callers(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	for (size_t i = 0; i < ev->caller_count; i++) {
		rut_buf_printf(&tp->out, "%*s from ", DURATION_WIDTH, "");
		add_name(&tp->out, &ev->callers[i], true);
		add_place(&tp->out, &ev->callers[i]);
		rut_buf_putc(&tp->out, '\n');
	}
}

static void add_value(const struct rut_trace_print *tp, struct rut_buf *b,
		      const struct rut_ruby_event *ev)
{
	if (!tp->style.returns || !ev->value)
		return;
	rut_buf_puts(b, " = ");
	rut_text_add(b, ev->value);
}

static void print_plain(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	if (ev->type == RUT_RUBY_EVENT_RETURN && !tp->style.returns)
		return;
	add_prefix(tp, ev);
	switch (ev->type) {
	case RUT_RUBY_EVENT_CALL:
		add_name(&tp->out, ev, tp->style.returns);
		add_args(tp, &tp->out, ev);
		break;
	case RUT_RUBY_EVENT_RETURN:
		rut_buf_puts(&tp->out, "RETURN ");
		add_name(&tp->out, ev, true);
		add_value(tp, &tp->out, ev);
		if (ev->duration_ns)
			add_duration(&tp->out, ev->duration_ns);
		break;
	case RUT_RUBY_EVENT_RAISE:
		add_exception(tp, ev);
		add_callers(tp, ev);
		return;
	default:
		add_lost(tp, ev);
		return;
	}
	rut_buf_putc(&tp->out, '\n');
	add_callers(tp, ev);
}

/*
 * The tree: the duration, then the name, indented by depth. A call that calls nothing traced is one
 * line; others are opened and closed with braces, as uftrace and the kernel's function graph do.
 */
static void tree_margin(struct rut_trace_print *tp, const char *duration, uint32_t depth)
{
	for (size_t n = strlen(duration); n < DURATION_WIDTH; n++)
		rut_buf_putc(&tp->out, ' ');
	rut_buf_puts(&tp->out, duration);
	rut_buf_putc(&tp->out, ' ');
	for (uint32_t i = 0; i < depth && i < 256; i++)
		rut_buf_puts(&tp->out, "  ");
}

/* Prints a line when another thread or fiber than the last one continues. */
static void tree_switch(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	if (tp->any && ev->pid == tp->last_pid && ev->tid == tp->last_tid &&
	    ev->fiber == tp->last_fiber)
		return;
	if (!tp->style.thread) {
		rut_buf_printf(&tp->out, "-- process %d, thread %d", ev->pid, ev->tid);
		if (ev->fiber)
			rut_buf_printf(&tp->out, ", fiber %" PRIu32, ev->fiber);
		rut_buf_putc(&tp->out, '\n');
	}
	tp->any = true;
	tp->last_pid = ev->pid;
	tp->last_tid = ev->tid;
	tp->last_fiber = ev->fiber;
}

static bool is_pending(const struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	const struct rut_trace_pending *p = &tp->pending;

	return p->valid && p->pid == ev->pid && p->tid == ev->tid && p->fiber == ev->fiber &&
	       p->depth == ev->depth;
}

void rut_cli_trace_print_flush(struct rut_trace_print *tp)
{
	if (!tp->pending.valid)
		return;
	tp->pending.valid = false;
	tree_margin(tp, "", tp->pending.depth);
	rut_buf_puts(&tp->out, tp->pending.name.data ? tp->pending.name.data : "?");
	rut_buf_puts(&tp->out, " {\n");
}

void rut_cli_trace_print_left_out(struct rut_trace_print *tp, uint32_t depth, uint64_t calls)
{
	if (tp->style.json)
		return;
	rut_cli_trace_print_flush(tp);
	tree_margin(tp, "", depth);
	rut_buf_printf(&tp->out, "(%" PRIu64 " more call%s)\n", calls, calls == 1 ? "" : "s");
}

static void tree_call(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	rut_cli_trace_print_flush(tp);
	tree_switch(tp, ev);
	add_prefix(tp, ev);
	tp->pending.valid = true;
	tp->pending.pid = ev->pid;
	tp->pending.tid = ev->tid;
	tp->pending.fiber = ev->fiber;
	tp->pending.depth = ev->depth;
	rut_buf_clear(&tp->pending.name);
	add_name(&tp->pending.name, ev, true);
	add_args(tp, &tp->pending.name, ev);
}

static void tree_return(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	char buf[RUT_TEXT_DURATION_SIZE] = "";

	if (ev->duration_ns)
		rut_text_duration(buf, ev->duration_ns);
	if (is_pending(tp, ev)) {
		tp->pending.valid = false;
		tree_margin(tp, buf, ev->depth);
		rut_buf_puts(&tp->out, tp->pending.name.data ? tp->pending.name.data : "?");
		add_value(tp, &tp->out, ev);
		rut_buf_putc(&tp->out, '\n');
		return;
	}
	rut_cli_trace_print_flush(tp);
	tree_switch(tp, ev);
	add_prefix(tp, ev);
	tree_margin(tp, buf, ev->depth);
	rut_buf_puts(&tp->out, "} ");
	add_name(&tp->out, ev, true);
	add_value(tp, &tp->out, ev);
	rut_buf_putc(&tp->out, '\n');
}

/* Below --inside, the depth from there: what is above it is not shown, and its indentation says
 * nothing. */
static uint32_t shown_depth(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	uint64_t fiber = (uint64_t)(uint32_t)ev->pid << 32 | ev->fiber;
	uintptr_t base = (uintptr_t)rut_map_get(&tp->bases, fiber);

	if (!tp->style.inside)
		return ev->depth;
	if (ev->type == RUT_RUBY_EVENT_CALL && (!base || ev->depth + 1 < base)) {
		base = (uintptr_t)ev->depth + 1;
		rut_map_put(&tp->bases, fiber, (void *)base);
	}
	if (ev->type == RUT_RUBY_EVENT_RETURN && ev->depth + 1 == base)
		rut_map_remove(&tp->bases, fiber);
	return base && ev->depth + 1 >= base ? ev->depth + 1 - (uint32_t)base : 0;
}

static void print_tree(struct rut_trace_print *tp, const struct rut_ruby_event *seen)
{
	struct rut_ruby_event shifted = *seen;
	const struct rut_ruby_event *ev = &shifted;

	if (ev->type == RUT_RUBY_EVENT_CALL || ev->type == RUT_RUBY_EVENT_RETURN ||
	    ev->type == RUT_RUBY_EVENT_RAISE)
		shifted.depth = shown_depth(tp, seen);
	switch (ev->type) {
	case RUT_RUBY_EVENT_CALL:
		tree_call(tp, ev);
		break;
	case RUT_RUBY_EVENT_RETURN:
		tree_return(tp, ev);
		break;
	case RUT_RUBY_EVENT_RAISE:
		rut_cli_trace_print_flush(tp);
		tree_switch(tp, ev);
		add_prefix(tp, ev);
		tree_margin(tp, "", ev->depth);
		add_exception(tp, ev);
		break;
	default:
		rut_cli_trace_print_flush(tp);
		add_lost(tp, ev);
		break;
	}
}

static void print_slow(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	char buf[RUT_TEXT_DURATION_SIZE];

	if (ev->type != RUT_RUBY_EVENT_SLOW)
		return;
	add_prefix(tp, ev);
	rut_buf_printf(&tp->out, "%*s ", DURATION_WIDTH, rut_text_duration(buf, ev->duration_ns));
	add_name(&tp->out, ev, true);
	add_args(tp, &tp->out, ev);
	add_place(&tp->out, ev);
	rut_buf_putc(&tp->out, '\n');
	add_callers(tp, ev);
}

static void json_place(struct rut_buf *out, const struct rut_ruby_event *ev)
{
	rut_jsonl_str(out, "file", ev->path);
	rut_jsonl_u64(out, "line", ev->line);
	rut_jsonl_str(out, "class", ev->class_name);
	if (ev->method_name)
		rut_jsonl_join(out, "method", ev->class_name, ev->singleton ? '.' : '#',
			       ev->method_name);
}

static void print_json(struct rut_trace_print *tp, const struct rut_ruby_event *ev)
{
	static const char *const types[] = {
		[RUT_RUBY_EVENT_CALL] = "call",	  [RUT_RUBY_EVENT_RETURN] = "return",
		[RUT_RUBY_EVENT_RAISE] = "raise", [RUT_RUBY_EVENT_SLOW] = "slow",
		[RUT_RUBY_EVENT_LOST] = "lost",	  [RUT_RUBY_EVENT_START] = "start",
		[RUT_RUBY_EVENT_EXIT] = "exit",
	};
	struct rut_buf *out = &tp->out;
	bool place = ev->type < RUT_RUBY_EVENT_LOST;

	rut_jsonl_begin(out);
	rut_jsonl_str(out, "event", types[ev->type]);
	rut_jsonl_u64(out, "time_ns", ev->time_ns + (uint64_t)tp->style.clock_offset_ns);
	rut_jsonl_u64(out, "pid", (uint64_t)ev->pid);
	if (place) {
		rut_jsonl_u64(out, "tid", (uint64_t)ev->tid);
		rut_jsonl_u64(out, "fiber", ev->fiber);
		rut_jsonl_u64(out, "depth", ev->depth);
		json_place(out, ev);
	}
	if (ev->args)
		rut_jsonl_str(out, "args", ev->args);
	if (ev->value)
		rut_jsonl_str(out, "value", ev->value);
	if (ev->type == RUT_RUBY_EVENT_RETURN || ev->type == RUT_RUBY_EVENT_SLOW)
		rut_jsonl_u64(out, "duration_ns", ev->duration_ns);
	if (ev->type == RUT_RUBY_EVENT_LOST)
		rut_jsonl_u64(out, "lost", ev->lost);
	if (ev->type == RUT_RUBY_EVENT_SLOW || ev->caller_count) {
		rut_jsonl_array_open(out, "callers");
		for (size_t i = 0; i < ev->caller_count; i++) {
			rut_jsonl_begin(out);
			json_place(out, &ev->callers[i]);
			rut_jsonl_close(out);
		}
		rut_jsonl_array_close(out);
	}
	rut_jsonl_end(out);
}

void rut_cli_trace_print_event(const struct rut_ruby_event *ev, void *arg)
{
	struct rut_trace_print *tp = arg;

	if (ev->type == RUT_RUBY_EVENT_LOST)
		tp->lost += ev->lost;
	tp->events += ev->type != RUT_RUBY_EVENT_START && ev->type != RUT_RUBY_EVENT_EXIT;
	if (tp->style.json) {
		print_json(tp, ev);
		return;
	}
	if (ev->type == RUT_RUBY_EVENT_START || ev->type == RUT_RUBY_EVENT_EXIT)
		return;
	if (ev->type == RUT_RUBY_EVENT_LOST && !tp->style.tree)
		add_lost(tp, ev);
	else if (tp->style.slow)
		print_slow(tp, ev);
	else if (tp->style.tree)
		print_tree(tp, ev);
	else
		print_plain(tp, ev);
}

static void print_date(struct rut_trace_print *tp, const char *what, time_t when)
{
	char date[32];
	struct tm tm;

	if (tp->style.json)
		return;
	localtime_r(&when, &tm);
	strftime(date, sizeof(date), "%a %b %e %H:%M:%S %Y", &tm);
	rut_buf_printf(&tp->out, "Tracing %s at %s\n", what, date);
}

void rut_cli_trace_print_started(struct rut_trace_print *tp, time_t when)
{
	print_date(tp, "started", when);
}

void rut_cli_trace_print_ended(struct rut_trace_print *tp, time_t when)
{
	rut_cli_trace_print_flush(tp);
	print_date(tp, "ended", when);
}
