/* SPDX-License-Identifier: MIT */
/*
 * The consumer of a script that runs. One thread: it waits for records of the ring, timers of
 * interval probes, and signals. Programs of begin, end and interval run in it, and what they print
 * is shown before anything else happens, so that print() and clear() act when they are called.
 */
#include "script/run.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "script/load.h"
#include "script/metrics.h"
#include "script/once.h"
#include "script/output.h"
#include "script/quantile.h"
#include "script/ruby.h"
#include "script/ruby_attach.h"
#include "script/ruby_probe.h"
#include "script/run_names.h"
#include "script/run_report.h"
#include "script/sequence.h"
#include "script/trace.h"

enum { TAG_RING = -1, TAG_SIGNAL = -2, TAG_PROCESS = -3, TAG_OWN_SIGNAL = -4 };
enum { ROUND_MS = 100, CHILD_ROUND_MS = 5, HITS_ROUND_MS = 10 };

/* Records of one slice of the ring; how long the records that are left at the end are printed. */
enum { SLICE_RECORDS = 1024, END_MS = 5000, FLUSH_MS = 1000, BENCH_MS = 300 };

struct runner {
	struct rut_script_program *p;
	const struct rut_script_run_opts *opts;
	struct rut_script_out *out;
	struct rut_script_symbols *symbols;
	struct rut_script_names names;
	struct rut_script_links *links;
	struct rut_script_tracer *tracer; /* of Ruby probes; NULL: there are none */
	struct rut_script_sequence order; /* with a tracer: of what is shown */
	struct ring_buffer *ring;
	uint64_t ring_bytes, consumed; /* bytes: of the whole ring; taken from it so far */
	uint32_t taken;		       /* records of this slice */
	int64_t slice_end;	       /* ms */
	int64_t discard_at;	       /* ms; from then on records are not printed; 0: never */
	uint64_t discarded;
	int64_t flush_at;  /* ms; of the trace */
	int64_t follow_at; /* ms; when processes are looked for next */
	int epoll, signals, process;
	int own_signals;    /* of self:signal probes; -1: there are none */
	int *timers;	    /* by program; -1 */
	uint64_t *counters; /* mapped */
	bool ending;
	struct rut_script_style style;
	struct rut_script_metrics *metrics;
	struct rut_script_trace *trace;
	int code;
	int rc;
	struct rut_err *err;
	struct rut_buf filled; /* an event with its percentiles */
	sigset_t old_mask;
};

static void drain(struct runner *r);

static void served(void *arg)
{
	drain(arg);
}

/* Programs that are run once, by themselves, when all is attached. */
static bool is_once(enum rut_probe_kind kind)
{
	return kind == RUT_PROBE_ITER || kind == RUT_PROBE_BENCH || kind == RUT_PROBE_TEST;
}

static int run_test(struct runner *r, const struct rut_script_prog *prog)
{
	volatile uint64_t *word = &r->counters[RUT_COUNTER_RETURN];
	int rc;

	*word = 0;
	rc = rut_script_run_prog(prog);
	if (rc)
		return rut_err_errno(r->err, -rc, "cannot run %s", prog->attach[0].name);
	drain(r);
	rut_script_out_test(r->out, prog->attach[0].event, (int64_t)*word);
	if (*word)
		r->code = 1;
	return 0;
}

static int run_once(struct runner *r)
{
	int rc = 0;

	for (size_t i = 0; i < r->p->nprogs && !rc && !r->ending; i++) {
		const struct rut_script_prog *prog = &r->p->progs[i];
		enum rut_probe_kind kind = prog->nattach ? prog->attach[0].kind : RUT_PROBE_BEGIN;
		struct rut_script_bench bench;

		if (kind == RUT_PROBE_ITER) {
			rc = rut_script_iterate(prog, served, r, r->err);
		} else if (kind == RUT_PROBE_TEST) {
			rc = run_test(r, prog);
		} else if (kind == RUT_PROBE_BENCH) {
			rc = rut_script_bench(prog, BENCH_MS, &r->counters[RUT_COUNTER_EXIT],
					      served, r, &bench, r->err);
			if (!rc)
				rut_script_out_bench(r->out, prog->attach[0].event, bench.ns,
						     bench.runs);
		}
	}
	return rc;
}

/* One key of an aggregation. */
static int print_key(struct runner *r, const struct rut_script_map *m, const void *key)
{
	size_t cpus = rut_script_cpus(), stride = (m->value_bytes + 7) & ~7u;
	_cleanup_free_ char *values = calloc(cpus, stride);
	struct rut_script_rows rows;
	int rc;

	if (!values)
		return rut_err_set(r->err, ENOMEM, "out of memory");
	/* One that is not there has zeros. */
	bpf_map_lookup_elem(m->fd, key, values);
	rut_script_rows_init(&rows, m);
	rc = rut_script_rows_add(&rows, m, key, values, cpus, stride);
	if (!rc)
		rc = rut_script_rows_sort(&rows, m, RUT_SCRIPT_BY_KEY, false);
	if (!rc)
		rut_script_out_rows(r->out, m, &rows, 0, 1);
	rut_script_rows_fini(&rows);
	return rc ? rut_err_set(r->err, ENOMEM, "out of memory") : 0;
}

static int64_t now_ms(void)
{
	return (int64_t)rut_now_ms();
}

static void take_record(struct runner *r, const struct rut_script_event *e, size_t size,
			int64_t now)
{
	const struct rut_script_action *a;

	if (size < sizeof(*e) || e->action >= r->p->nactions)
		return;
	a = &r->p->actions[e->action];
	if (!rut_script_event_is_whole(a, size)) {
		r->rc = rut_err_set(r->err, EBADMSG, "a record of the script is too short");
		return;
	}
	if (a->kind == RUT_ACTION_EXIT) {
		int64_t code = 0;

		memcpy(&code, e->data, sizeof(code));
		r->code = (int)code;
		r->ending = true;
		return;
	}
	if (r->discard_at && now >= r->discard_at && a->kind != RUT_ACTION_CLEAR &&
	    a->kind != RUT_ACTION_ZERO) {
		r->discarded++;
		return;
	}
	if (a->kind == RUT_ACTION_SNAPSHOT || a->kind == RUT_ACTION_STOP) {
		if (r->opts->act)
			r->opts->act(r->opts->act_arg,
				     a->kind == RUT_ACTION_STOP ? NULL : a->format);
		return;
	}
	e = rut_script_quantiles_fill(a, r->p->maps, e, size, &r->filled);
	if (!e) {
		r->rc = rut_err_set(r->err, ENOMEM, "out of memory");
		return;
	}
	if (r->trace)
		rut_script_trace_event(r->trace, e, a);
	if (a->kind == RUT_ACTION_PRINT_KEY) {
		r->rc = r->rc ? r->rc : print_key(r, &r->p->maps[a->map], e->data);
		return;
	}
	if (!r->rc)
		r->rc = rut_script_out_event(r->out, a, r->p->maps, r->p->nmaps, e->data,
					     size - sizeof(*e), r->err);
}

/* Every second, so that little is missing should this process be killed. */
static void flush_trace(struct runner *r)
{
	int64_t now;

	if (!r->trace)
		return;
	now = now_ms();
	if (now < r->flush_at)
		return;
	r->flush_at = now + FLUSH_MS;
	if (!r->rc)
		r->rc = rut_script_trace_flush(r->trace, r->err);
}

/* What hits have sent is shown at once, in their turn. */
static bool is_kept(struct runner *r, const struct rut_script_event *e, size_t size)
{
	if (!r->order.tracer || size < sizeof(*e) || e->action >= r->p->nactions ||
	    r->p->actions[e->action].replay)
		return false;
	return rut_script_sequence_keep(&r->order, e, size);
}

/* -EAGAIN ends the slice: libbpf has taken this record, and leaves those after it in the ring. */
static int on_record(void *arg, void *data, size_t size)
{
	struct runner *r = arg;
	int64_t now = now_ms();

	if (!is_kept(r, data, size))
		take_record(r, data, size, now);
	r->consumed += (size + BPF_RINGBUF_HDR_SZ + 7) & ~7ull;
	return ++r->taken >= SLICE_RECORDS || now >= r->slice_end ? -EAGAIN : 0;
}

/*
 * Shows some records: probes may send faster than records are printed, and signals and timers must
 * not wait until the ring is empty. True: there may be more.
 */
static bool drain_slice(struct runner *r)
{
	int rc = 0;

	r->taken = 0;
	r->slice_end = now_ms() + ROUND_MS;
	if (r->ring)
		rc = ring_buffer__consume(r->ring);
	fflush(r->opts->out);
	flush_trace(r);
	return rc == -EAGAIN;
}

static bool is_interrupted(const struct runner *r)
{
	struct pollfd p = {.fd = r->signals, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* Takes what was in the ring at the call: no more than the ring holds. A signal ends it. */
static void drain_ring(struct runner *r)
{
	uint64_t until = r->consumed + r->ring_bytes;

	while (drain_slice(r) && r->consumed < until && (r->ending || !is_interrupted(r)))
		;
}

/* Shows what is in the ring, and before it what happened before. */
static void drain(struct runner *r)
{
	int rc;

	if (!r->order.tracer) {
		drain_ring(r);
		return;
	}
	rc = rut_script_sequence_round(&r->order, true, r->err);
	if (rc < 0 && !r->rc)
		r->rc = rc;
	fflush(r->opts->out);
}

static void order_show(void *arg, const struct rut_script_event *e, size_t size)
{
	take_record(arg, e, size, now_ms());
}

/* All of it: what hits send must not fill it. */
static void order_read(void *arg)
{
	struct runner *r = arg;
	uint64_t until = r->consumed + r->ring_bytes;

	while (drain_slice(r) && r->consumed < until)
		;
}

static void order_begin(struct runner *r)
{
	if (!r->tracer || !rut_script_tracer_prints(r->tracer))
		return;
	r->order = (struct rut_script_sequence){.tracer = r->tracer,
						.room_bytes = (uint32_t)r->ring_bytes / 2,
						.show = order_show,
						.read = order_read,
						.arg = r};
}

/* Empties the ring when probes have been stopped: what end prints needs the space. */
static void drain_rest(struct runner *r)
{
	r->discard_at = now_ms() + END_MS;
	do
		drain_slice(r);
	while (r->taken && now_ms() < r->discard_at + END_MS);
	if (r->order.tracer)
		drain(r);
	r->discard_at = 0;
}

static size_t counter_bytes(const struct rut_script_program *p)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = rut_script_counter_bytes(p);

	return (bytes + page - 1) / page * page;
}

/* The counters are mapped: what programs add to them meanwhile must not be overwritten. */
static int map_counters(struct runner *r)
{
	void *map = mmap(NULL, counter_bytes(r->p), PROT_READ | PROT_WRITE, MAP_SHARED,
			 r->p->fds[RUT_MAP_COUNTERS], 0);

	if (map == MAP_FAILED)
		return rut_err_errno(r->err, errno, "cannot map the counters");
	r->counters = map;
	r->counters[RUT_COUNTER_BEGIN] = rut_now_ns();
	return 0;
}

/* exit() is in the ring, but that may have been full. */
static void check_exit_word(struct runner *r)
{
	uint64_t word = *(volatile uint64_t *)&r->counters[RUT_COUNTER_EXIT];

	if (word && !r->ending) {
		r->code = (int)(word - 1);
		r->ending = true;
	}
}

static int run_kind(struct runner *r, enum rut_probe_kind kind)
{
	for (size_t i = 0; i < r->p->nprogs; i++) {
		const struct rut_script_prog *prog = &r->p->progs[i];
		int rc;

		if (!prog->nattach || prog->attach[0].kind != kind)
			continue;
		rc = rut_script_run_prog(prog);
		if (rc)
			return rut_err_errno(r->err, -rc, "cannot run %s", prog->attach[0].name);
		drain(r);
	}
	return 0;
}

static bool is_begin(const struct rut_script_prog *prog)
{
	return prog->nattach && prog->attach[0].kind == RUT_PROBE_BEGIN;
}

/* Before what reads maps: probes that are deferred count what was hit up to now. */
static int take_hits(struct runner *r)
{
	if (r->order.tracer) {
		int n = rut_script_sequence_round(&r->order, false, r->err);

		return n < 0 ? n : 0;
	}
	return r->tracer ? rut_script_tracer_take(r->tracer, r->err) : 0;
}

/* First probes count, then the message says so: never the other way round. */
static void release(struct runner *r)
{
	volatile uint64_t *word = &r->counters[RUT_COUNTER_EXIT];

	/* What was hit up to here does not count. */
	r->rc = r->rc ? r->rc : take_hits(r);
	if (*word == RUT_EXIT_HELD)
		*word = 0;
	if (!r->opts->quiet)
		rut_script_out_attached(r->out, rut_script_links_count(r->links));
	/* The test suite of bpftrace waits for this line. */
	if (r->p->opts.as_bpftrace && getenv("__BPFTRACE_NOTIFY_PROBES_ATTACHED"))
		fputs("__BPFTRACE_NOTIFY_PROBES_ATTACHED\n", r->opts->out);
	fflush(r->opts->out);
}

/* What the last begin printed is shown behind "Attached". */
static int run_begins(struct runner *r)
{
	const struct rut_script_prog *last = NULL;
	int rc;

	for (size_t i = 0; i < r->p->nprogs; i++)
		if (is_begin(&r->p->progs[i]))
			last = &r->p->progs[i];
	if (!last)
		release(r);
	for (const struct rut_script_prog *prog = r->p->progs; last && prog <= last; prog++) {
		if (!is_begin(prog))
			continue;
		rc = rut_script_run_prog(prog);
		if (rc)
			return rut_err_errno(r->err, -rc, "cannot run %s", prog->attach[0].name);
		if (prog == last)
			release(r);
		drain(r);
	}
	return 0;
}

static int watch(struct runner *r, int fd, int64_t tag)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uint64_t)tag};

	return epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &ev)
		       ? rut_err_errno(r->err, errno, "cannot wait for events")
		       : 0;
}

static int start_timer(struct runner *r, size_t i)
{
	uint64_t ns = r->p->progs[i].attach[0].period_ns;
	struct itimerspec t = {
		.it_interval = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)},
	};

	t.it_value = t.it_interval;
	r->timers[i] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (r->timers[i] < 0 || timerfd_settime(r->timers[i], 0, &t, NULL))
		return rut_err_errno(r->err, errno, "cannot make a timer");
	return watch(r, r->timers[i], (int64_t)i);
}

static int start_timers(struct runner *r)
{
	int rc = 0;

	for (size_t i = 0; i < r->p->nprogs && !rc; i++)
		if (r->p->progs[i].nattach && r->p->progs[i].attach[0].kind == RUT_PROBE_INTERVAL)
			rc = start_timer(r, i);
	return rc;
}

static int prepare(struct runner *r)
{
	struct rut_script_out_config config = {
		.out = r->opts->out,
		.err = r->opts->err,
		.json = r->opts->json,
		.no_warnings = r->opts->no_warnings,
		.unsafe = r->opts->unsafe,
		.source = r->p->src.name,
		.cat_bytes = r->p->set.max_cat_bytes,
		.style = {.compat = r->p->opts.compat,
			  .max_strlen = r->p->set.max_strlen,
			  .trailer = r->p->set.trailer,
			  .names = &r->names},
	};
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	sigset_t mask;
	int rc;

	if (rut_script_symbols_new(&r->symbols))
		return rut_err_set(r->err, ENOMEM, "out of memory");
	rut_run_names_init(&r->names, r->p, r->symbols);
	r->style = config.style;
	if (r->opts->trace) {
		rc = rut_script_trace_open(&r->trace, r->opts->trace, r->p, &r->style, NULL,
					   r->err);
		if (rc)
			return rc;
		config.tap = rut_script_trace_tap(r->trace);
	}
	if (rut_script_out_new(&r->out, &config))
		return rut_err_set(r->err, ENOMEM, "out of memory");
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigprocmask(SIG_BLOCK, &mask, &r->old_mask);
	r->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	r->timers = malloc((r->p->nprogs + 1) * sizeof(*r->timers));
	if (!r->timers || r->epoll < 0 || r->signals < 0)
		return rut_err_set(r->err, ENOMEM, "cannot prepare to wait for events");
	memset(r->timers, -1, (r->p->nprogs + 1) * sizeof(*r->timers));
	rc = watch(r, r->signals, TAG_SIGNAL);
	if (!rc && r->p->fds[RUT_MAP_RING] >= 0) {
		r->ring = ring_buffer__new(r->p->fds[RUT_MAP_RING], on_record, r, NULL);
		if (!r->ring)
			return rut_err_errno(r->err, errno, "cannot map the ring");
		if (bpf_obj_get_info_by_fd(r->p->fds[RUT_MAP_RING], &info, &len))
			return rut_err_errno(r->err, errno, "cannot query the ring");
		r->ring_bytes = info.max_entries;
		rc = watch(r, ring_buffer__epoll_fd(r->ring), TAG_RING);
	}
	return rc;
}

static int watch_process(struct runner *r)
{
	int32_t pid = r->opts->child ? r->opts->child : r->opts->watch;

	if (!pid)
		return 0;
	r->process = (int)syscall(SYS_pidfd_open, pid, 0);
	if (r->process < 0)
		return rut_err_errno(r->err, errno, "cannot watch process %d", pid);
	return watch(r, r->process, TAG_PROCESS);
}

static int on_timer(struct runner *r, size_t i)
{
	uint64_t times;
	int rc;

	if (read(r->timers[i], &times, sizeof(times)) != (ssize_t)sizeof(times))
		return 0;
	rc = take_hits(r);
	if (rc)
		return rc;
	rc = rut_script_run_prog(&r->p->progs[i]);
	if (rc)
		return rut_err_errno(r->err, -rc, "cannot run %s", r->p->progs[i].attach[0].name);
	drain(r);
	return 0;
}

static bool is_signal(const struct rut_script_prog *prog)
{
	return prog->nattach && prog->attach[0].kind == RUT_PROBE_SIGNAL;
}

static int on_own_signal(struct runner *r)
{
	struct signalfd_siginfo info;
	int rc = 0;

	if (read(r->own_signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	rc = take_hits(r);
	for (size_t i = 0; i < r->p->nprogs && !rc; i++) {
		if (!is_signal(&r->p->progs[i]) ||
		    r->p->progs[i].attach[0].config != info.ssi_signo)
			continue;
		rc = rut_script_run_prog(&r->p->progs[i]);
		drain(r);
	}
	return rc && !r->err->code ? rut_err_errno(r->err, -rc, "cannot run a probe of a signal")
				   : rc;
}

static int watch_own_signals(struct runner *r)
{
	sigset_t mask;
	bool any = false;

	sigemptyset(&mask);
	for (size_t i = 0; i < r->p->nprogs; i++) {
		if (!is_signal(&r->p->progs[i]))
			continue;
		sigaddset(&mask, (int)r->p->progs[i].attach[0].config);
		any = true;
	}
	if (!any)
		return 0;
	/* fini() restores the mask. */
	sigprocmask(SIG_BLOCK, &mask, NULL);
	r->own_signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (r->own_signals < 0)
		return rut_err_errno(r->err, errno, "cannot wait for signals");
	return watch(r, r->own_signals, TAG_OWN_SIGNAL);
}

/* Runs the hits up to now. Returns how many processes there are, or -errno. */
static int hits_round(struct runner *r, bool all)
{
	return r->order.tracer ? rut_script_sequence_round(&r->order, all, r->err)
			       : rut_script_tracer_round(r->tracer, r->err);
}

/* When the last process has ended, so has the script. */
static int follow_rubies(struct runner *r)
{
	int n;

	/* Rings of hits are read more often than processes are looked for. */
	if (now_ms() < r->follow_at && !r->opts->child)
		return take_hits(r);
	r->follow_at = now_ms() + ROUND_MS;
	n = hits_round(r, false);
	/* A command need not be a Ruby yet. */
	if (!n && !r->opts->child && rut_script_needs_agent(r->p))
		r->ending = true;
	return n < 0 ? n : 0;
}

/* A Ruby that the command starts waits until it is found. */
static int round_ms(const struct runner *r)
{
	if (r->tracer && r->opts->child)
		return CHILD_ROUND_MS;
	return r->tracer && rut_script_tracer_defers(r->tracer) ? HITS_ROUND_MS : ROUND_MS;
}

static int wait_once(struct runner *r)
{
	struct epoll_event ev[16];
	int n = epoll_wait(r->epoll, ev, 16, round_ms(r)), rc = 0;

	if (n < 0 && errno != EINTR)
		return rut_err_errno(r->err, errno, "cannot wait for events");
	for (int i = 0; i < n && !rc && !r->ending; i++) {
		int64_t tag = (int64_t)ev[i].data.u64;

		if (tag == TAG_SIGNAL || tag == TAG_PROCESS)
			r->ending = true;
		else if (tag == TAG_RING)
			drain_slice(r);
		else if (tag == TAG_OWN_SIGNAL)
			rc = on_own_signal(r);
		else
			rc = on_timer(r, (size_t)tag);
	}
	check_exit_word(r);
	flush_trace(r);
	if (r->p->ruby)
		rut_script_ruby_round(r->p->ruby);
	if (r->tracer)
		rc = rc ? rc : follow_rubies(r);
	if (r->opts->round && !r->ending && r->opts->round(r->opts->round_arg, r->p, &r->style))
		r->ending = true;
	return rc ? rc : r->rc;
}

static int end(struct runner *r)
{
	int rc;

	/* Those of processes that have just begun or ended, too. */
	if (r->tracer && rut_script_tracer_defers(r->tracer) && !r->rc) {
		rc = hits_round(r, true);
		r->rc = rc < 0 ? rc : 0;
	}
	/* Programs stop by this word. To detach them takes the kernel long: it is done last,
	 * by another process. */
	if (!r->counters[RUT_COUNTER_EXIT])
		*(volatile uint64_t *)&r->counters[RUT_COUNTER_EXIT] = 1;
	drain_rest(r);
	rc = run_kind(r, RUT_PROBE_END);
	/* The last values are those that end left. */
	rut_script_metrics_stop(r->metrics);
	r->metrics = NULL;
	if (!rc)
		rc = r->rc;
	if (r->trace)
		rut_script_trace_at(r->trace, 0);
	if (!rc)
		rc = rut_script_out_end(r->out, r->p->maps,
					r->p->set.print_maps_on_exit ? r->p->nmaps : 0, r->err);
	fflush(r->opts->out);
	if (!rc)
		rc = rut_script_trace_close(r->trace, 0,
					    rut_run_lost(r->p, r->counters, r->discarded), r->err);
	else
		rut_script_trace_close(r->trace, 0, rut_run_lost(r->p, r->counters, r->discarded),
				       NULL);
	r->trace = NULL;
	rut_run_report(r->p, r->opts, r->counters, r->discarded);
	return rc;
}

/* Those that came are not delivered again when they are no longer blocked. */
static void drop_signals(int fd)
{
	struct signalfd_siginfo info;

	if (fd < 0)
		return;
	while (read(fd, &info, sizeof(info)) > 0)
		;
	close(fd);
}

static void fini(struct runner *r)
{
	rut_script_metrics_stop(r->metrics);
	rut_script_sequence_fini(&r->order);
	rut_script_tracer_free(r->tracer);
	/* After an error, too. */
	if (r->counters && !r->counters[RUT_COUNTER_EXIT])
		*(volatile uint64_t *)&r->counters[RUT_COUNTER_EXIT] = 1;
	rut_script_links_leave(r->links);
	rut_script_trace_close(r->trace, 0, 0, NULL);
	for (size_t i = 0; r->timers && i < r->p->nprogs; i++)
		if (r->timers[i] >= 0)
			close(r->timers[i]);
	free(r->timers);
	ring_buffer__free(r->ring);
	if (r->counters)
		munmap(r->counters, counter_bytes(r->p));
	rut_script_out_free(r->out);
	rut_buf_fini(&r->filled);
	rut_script_symbols_free(r->symbols);
	if (r->epoll >= 0)
		close(r->epoll);
	if (r->process >= 0)
		close(r->process);
	drop_signals(r->own_signals);
	drop_signals(r->signals);
	if (r->signals >= 0)
		sigprocmask(SIG_SETMASK, &r->old_mask, NULL);
}

/* Without a probe that can fire later the script has ended when its begin probes have run. */
static bool has_later(const struct runner *r)
{
	for (size_t i = 0; i < r->p->nprogs; i++) {
		const struct rut_script_prog *prog = &r->p->progs[i];

		if (prog->nattach && prog->attach[0].kind != RUT_PROBE_BEGIN &&
		    prog->attach[0].kind != RUT_PROBE_END && !is_once(prog->attach[0].kind))
			return true;
	}
	return r->opts->child || r->opts->watch;
}

static int attach(struct runner *r)
{
	struct rut_script_tracer_opts opts = {
		.stop_fd = r->signals,
		.warnings = r->opts->no_warnings ? NULL : r->opts->err,
		.near = r->opts->near,
	};
	int rc = rut_script_attach(&r->links, r->p, NULL, r->err);

	if (rc || !rut_script_has_agent(r->p))
		return rc;
	rc = rut_script_tracer_new(&r->tracer, r->p, r->links, &opts, r->err);
	if (!rc || rc == -EINTR || rut_script_needs_agent(r->p))
		return rc;
	/* in() reads stacks, as of all processes that have no agent. */
	if (r->opts->verbose)
		fprintf(r->opts->err, "in() reads stacks, without the agent: %s\n", r->err->msg);
	rut_script_tracer_free(r->tracer);
	r->tracer = NULL;
	*r->err = (struct rut_err)RUT_ERR_INIT;
	return 0;
}

/* The command waits for the length of what is added to its environment, and for that. */
static int start_child(struct runner *r)
{
	_cleanup_buf_ struct rut_buf message = RUT_BUF_INIT;
	uint32_t len = 0;
	int rc = 0;

	rut_buf_add(&message, &len, sizeof(len));
	if (r->tracer)
		rc = rut_script_tracer_vars(r->tracer, &message);
	if (rc || message.failed)
		return rut_err_set(r->err, ENOMEM, "out of memory");
	len = (uint32_t)(message.len - sizeof(len));
	memcpy(message.data, &len, sizeof(len));
	rc = rut_file_write(r->opts->child_go, message.data, message.len);
	return rc ? rut_err_errno(r->err, -rc, "cannot start the command") : 0;
}

static int start(struct runner *r)
{
	int rc = prepare(r);

	/* Threads that are made from here on have the mask; and a signal may come at any time. */
	if (!rc)
		rc = watch_own_signals(r);
	if (!rc && r->opts->metrics)
		rc = rut_script_metrics_start(&r->metrics, r->opts->metrics, &r->style, r->p->maps,
					      r->p->nmaps, r->err);
	if (!rc)
		rc = map_counters(r);
	/* What is attached does nothing before begin has ended (gen_probe.c). */
	if (!rc) {
		r->counters[RUT_COUNTER_EXIT] = RUT_EXIT_HELD;
		rc = attach(r);
	}
	if (!rc)
		order_begin(r);
	if (!rc)
		rc = run_begins(r);
	if (rc || r->ending)
		return rc;
	rc = run_once(r);
	if (!rc)
		rc = start_timers(r);
	if (!rc)
		rc = watch_process(r);
	if (!rc && r->opts->child_go >= 0)
		rc = start_child(r);
	if (!rc && !has_later(r))
		r->ending = true;
	return rc;
}

int rut_script_run(struct rut_script_program *p, const struct rut_script_run_opts *opts,
		   int *ret_code, struct rut_err *err)
{
	struct runner r = {.p = p,
			   .opts = opts,
			   .epoll = -1,
			   .signals = -1,
			   .own_signals = -1,
			   .process = -1,
			   .err = err};
	int rc = start(&r);

	while (!rc && !r.ending)
		rc = wait_once(&r);
	if (!rc)
		rc = end(&r);
	fini(&r);
	*ret_code = r.code;
	return rc;
}
