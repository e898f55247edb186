/* SPDX-License-Identifier: MIT */
/* What an explanation says: its sentence and its tree. */
#include "analysis/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/an_ruby.h"

/* Sums over the tree: what the sentence is made from. */
struct sums {
	const struct rut_explanation *x;
	const struct rut_request *r;
	int64_t whole_ns;
	/* For each place the node in which most of it is, and the call or span around that. */
	uint32_t node[RUT_PLACES], around[RUT_PLACES];
	int64_t best[RUT_PLACES];
	/* The same among those with known culprits. */
	uint32_t blamed[RUT_PLACES];
	int64_t best_blamed[RUT_PLACES];
	uint32_t repeated, repeated_by; /* the node of the most costly repetition, and its parent */
	int64_t repeated_ns;
	uint64_t loaded; /* opens of Ruby files */
	int64_t connect_ns;
	uint64_t calls; /* system calls */
};

#define REPEATS_MIN 10

/* Of a node and all below it: waits for something outside of the process. */
static int64_t waits_of(const struct rut_explanation *x, uint32_t at)
{
	const struct rut_an_node *n = &x->nodes[at];
	int64_t ns = n->own[RUT_PLACE_DISK] + n->own[RUT_PLACE_NET] + n->own[RUT_PLACE_PIPE] +
		     n->own[RUT_PLACE_CHILD];

	for (uint32_t c = n->first_child; c != RUT_NO_NODE; c = x->nodes[c].next)
		ns += waits_of(x, c);
	return ns;
}

static bool is_ruby_file(const char *name)
{
	size_t len = name ? strlen(name) : 0;

	return len > 3 && (!strcmp(name + len - 3, ".rb") || !strcmp(name + len - 3, ".so"));
}

/* Many equal spans, or calls that mostly wait, each of which is a small part: N+1. */
static void note_repetition(struct sums *s, uint32_t at, uint32_t around)
{
	const struct rut_an_node *n = &s->x->nodes[at];

	if (n->calls < REPEATS_MIN || n->total_ns <= s->repeated_ns ||
	    n->longest_ns > n->total_ns / 2)
		return;
	if (n->kind == RUT_NODE_CALL && waits_of(s->x, at) < n->total_ns / 2)
		return;
	s->repeated = at;
	s->repeated_by = around;
	s->repeated_ns = n->total_ns;
}

static void gather(struct sums *s, uint32_t at, uint32_t around)
{
	const struct rut_an_node *n = &s->x->nodes[at];
	bool code = n->kind == RUT_NODE_CALL || n->kind == RUT_NODE_SPAN;

	for (int p = 0; p < RUT_PLACES; p++) {
		if (n->n_who && n->own[p] > s->best_blamed[p]) {
			s->best_blamed[p] = n->own[p];
			s->blamed[p] = at;
		}
		if (n->own[p] <= s->best[p])
			continue;
		s->best[p] = n->own[p];
		s->node[p] = at;
		s->around[p] = code ? at : around;
	}
	if (code && at)
		note_repetition(s, at, around);
	if (n->kind == RUT_NODE_SYSCALL) {
		s->calls += n->calls;
		if (is_ruby_file(n->what) && !strncmp(n->name, "open", 4))
			s->loaded += n->calls;
	}
	for (uint32_t c = n->first_child; c != RUT_NO_NODE; c = s->x->nodes[c].next)
		gather(s, c, code ? at : around);
}

/* ---- Words ---- */

void rut_an_culprit_text(const struct rut_culprit *c, char *out, size_t size)
{
	int64_t sum = 0;
	bool done[RUT_PLACES] = {false};
	size_t n = 0;

	*out = '\0';
	for (int p = 0; p < RUT_PLACES; p++)
		sum += c->did[p];
	for (int k = 0; k < 3 && sum; k++) {
		int best = -1;

		for (int p = 0; p < RUT_PLACES; p++)
			if (!done[p] && c->did[p] * 20 >= sum &&
			    (best < 0 || c->did[p] > c->did[best]))
				best = p;
		if (best < 0 || n >= size)
			return;
		done[best] = true;
		n += (size_t)snprintf(out + n, size - n, "%s%s %.0f %%", k ? ", " : "",
				      best == RUT_PLACE_RUBY
					      ? "running"
					      : rut_an_place_text((enum rut_place)best),
				      100.0 * (double)c->did[best] / (double)sum);
	}
}

static void put_culprit(struct rut_buf *out, const struct rut_culprit *c)
{
	rut_buf_puts(out, c->name);
	if (*c->serves)
		rut_buf_printf(out, " in `%s`", c->serves);
}

static void put_ms(struct rut_buf *out, int64_t ns)
{
	char d[32];

	rut_an_ruby_duration(d, sizeof(d), ns);
	rut_buf_puts(out, d);
}

/* "`Order#total`", "the query `SELECT ...`". */
static void put_code(struct rut_buf *out, const struct rut_an_node *n)
{
	if (n->kind == RUT_NODE_SPAN && n->text)
		rut_buf_printf(out, "`%.80s`%s", n->text, strlen(n->text) > 80 ? "..." : "");
	else if (n->name)
		rut_buf_printf(out, "`%s`", n->name);
}

/* The one that most of the wait was for. A disk serves the request itself, too. */
static const struct rut_culprit *first_culprit(const struct rut_an_node *n, enum rut_place place,
					       int64_t own_tid)
{
	bool disk = place == RUT_PLACE_DISK || place == RUT_PLACE_FAULT;

	for (uint32_t i = 0; i < n->n_who; i++)
		if (!disk || (n->who[i].tid != own_tid && n->who[i].ns * 10 >= n->own[place]))
			return &n->who[i];
	return NULL;
}

/* Its name, and whether it accounts for less than half of what is known. */
static void put_holder(struct rut_buf *out, const struct rut_an_node *n,
		       const struct rut_culprit *c)
{
	int64_t known = 0;

	for (uint32_t i = 0; i < n->n_who; i++)
		known += n->who[i].ns;
	put_culprit(out, c);
	if (c->ns * 2 < known)
		rut_buf_puts(out, " and others");
}

/* ", while burn (812) had the CPU": the thread or process that was waited for. */
static void put_who(struct rut_buf *out, enum rut_place place, const struct rut_an_node *n,
		    int64_t own_tid)
{
	const struct rut_culprit *c = first_culprit(n, place, own_tid);
	int64_t sum = 0;
	int best = RUT_PLACE_RUBY;

	if (!c || !rut_place_waits(place))
		return;
	for (int p = 0; p < RUT_PLACES; p++) {
		sum += c->did[p];
		if (c->did[p] > c->did[best])
			best = p;
	}
	switch (place) {
	case RUT_PLACE_SLEEP: /* its time was over; they belong to other waits in the same call */
		return;
	case RUT_PLACE_RUNQ:
		rut_buf_puts(out, " that ");
		put_holder(out, n, c);
		rut_buf_puts(out, " used");
		return;
	case RUT_PLACE_GVL:
		rut_buf_puts(out, " that ");
		put_holder(out, n, c);
		rut_buf_puts(out, " held");
		return;
	case RUT_PLACE_DISK:
	case RUT_PLACE_FAULT:
		rut_buf_printf(out, " that %s kept busy", c->name);
		return;
	case RUT_PLACE_STOPPED:
		rut_buf_printf(out, " by %s", c->name);
		return;
	case RUT_PLACE_LOCK:
		rut_buf_puts(out, " that ");
		put_culprit(out, c);
		rut_buf_puts(out, " released");
		break;
	case RUT_PLACE_CHILD:
		rut_buf_printf(out, ", %s", c->name);
		break;
	default:
		rut_buf_puts(out, ", which ");
		put_culprit(out, c);
		rut_buf_puts(out, " ended");
		break;
	}
	if (sum && c->did[best] * 2 >= sum)
		rut_buf_printf(out, "; it was %s meanwhile",
			       best == RUT_PLACE_RUBY ? "running"
						      : rut_an_place_text((enum rut_place)best));
	if (*c->by_name && c->longest_ns * 2 >= sum)
		rut_buf_printf(out, ", until %s woke it", c->by_name);
}

static void put_resends(struct rut_buf *out, uint64_t n)
{
	if (n)
		rut_buf_printf(out, "; %llu lost segment%s of TCP %s sent again meanwhile",
			       (unsigned long long)n, n == 1 ? "" : "s", n == 1 ? "was" : "were");
}

/* `what`: the file or peer of `n`'s call. Returns it where the text does not have it yet. */
static const char *put_place_of(struct rut_buf *out, enum rut_place p, const struct rut_an_node *n,
				const char *what, bool ruby)
{
	bool file_lock = n->name && strcmp(n->name, "futex") != 0;

	switch (p) {
	case RUT_PLACE_RUBY:
		rut_buf_printf(out, " were spent running%s", ruby ? " Ruby" : "");
		break;
	case RUT_PLACE_SYSTEM:
		rut_buf_printf(out, " were spent in the kernel, most of it in %s()",
			       n->name ? n->name : "system calls");
		break;
	case RUT_PLACE_GC:
		rut_buf_puts(out, " were spent collecting garbage");
		break;
	case RUT_PLACE_IRQ:
		rut_buf_puts(out, " went to interrupts of its CPU");
		break;
	case RUT_PLACE_GVL:
		rut_buf_puts(out, " went by waiting for the GVL");
		break;
	case RUT_PLACE_RUNQ:
		rut_buf_puts(out, " went by waiting for a CPU");
		break;
	case RUT_PLACE_THROTTLED:
		rut_buf_puts(out,
			     " went by because it was kept from running while its CPU was idle "
			     "(the CPU limit of a control group?)");
		break;
	case RUT_PLACE_DISK:
		rut_buf_printf(out, " went by waiting for a disk in %s()", n->name ? n->name : "?");
		break;
	case RUT_PLACE_NET:
		rut_buf_printf(out, " went by waiting for %s in %s()", what ? what : "a peer",
			       n->name ? n->name : "?");
		return NULL;
	case RUT_PLACE_LOCK:
		rut_buf_printf(out, " went by waiting for a lock%s%s",
			       what && file_lock ? " on " : "", what && file_lock ? what : "");
		return NULL;
	case RUT_PLACE_STOPPED:
		rut_buf_puts(out, " went by because it was stopped");
		break;
	case RUT_PLACE_OTHER:
		if (n->name)
			rut_buf_printf(out, " went by waiting in %s()", n->name);
		else
			rut_buf_puts(out, " went by blocked (the trace lacks the system call)");
		break;
	case RUT_PLACE_UNKNOWN:
		rut_buf_puts(out, " are not known from the trace");
		break;
	default:
		rut_buf_printf(out, " went by %s", rut_an_place_text(p));
		break;
	}
	return what;
}

static void put_place(struct rut_buf *out, const struct sums *s, enum rut_place p)
{
	const struct rut_an_node *n = &s->x->nodes[s->node[p]];
	const struct rut_an_node *code = &s->x->nodes[s->around[p]];
	const char *what = n->kind == RUT_NODE_SYSCALL ? n->what : NULL;

	put_ms(out, s->r->ns[p]);
	what = put_place_of(out, p, n, what, s->x->ruby);
	if (what)
		rut_buf_printf(out, " of %.120s", what);
	/* Whoever ended a small part of these waits did not cause the rest. */
	if (p == RUT_PLACE_RUNQ || s->best_blamed[p] * 4 >= s->best[p])
		put_who(out, p, &s->x->nodes[s->blamed[p]], s->r->tid);
	if (p == RUT_PLACE_NET)
		put_resends(out, n->resends);
	if (s->around[p] && p != RUT_PLACE_RUNQ && p != RUT_PLACE_STOPPED && p != RUT_PLACE_IRQ &&
	    p != RUT_PLACE_THROTTLED) {
		rut_buf_puts(out, ", in ");
		put_code(out, code);
	}
}

/* ---- The sentence ---- */

static int largest(const struct rut_request *r, const bool *done)
{
	int best = -1;

	for (int p = 0; p < RUT_PLACES; p++)
		if (!done[p] && r->ns[p] > 0 && (best < 0 || r->ns[p] > r->ns[best]))
			best = p;
	return best;
}

/* "`Order#total` called `SELECT ...` 312 times (1.9 ms each, 600 ms in all)" */
static void put_repetition(struct rut_buf *out, const struct sums *s)
{
	const struct rut_an_node *n = &s->x->nodes[s->repeated];
	const struct rut_an_node *by = &s->x->nodes[s->repeated_by];

	if (n->caller)
		rut_buf_printf(out, "`%s`", n->caller->name);
	else if (s->repeated_by)
		put_code(out, by);
	else
		rut_buf_puts(out, "it");
	rut_buf_puts(out, n->kind == RUT_NODE_SPAN ? " asked for " : " called ");
	put_code(out, n);
	rut_buf_printf(out, " %llu times (", (unsigned long long)n->calls);
	put_ms(out, n->total_ns / (int64_t)n->calls);
	rut_buf_puts(out, " each, ");
	put_ms(out, n->total_ns);
	rut_buf_puts(out, " in all)");
}

static const char *special_cause(const struct sums *s, int p, struct rut_buf *out)
{
	const struct rut_request *r = s->r;

	if (s->repeated_ns * 10 >= s->whole_ns * 4) {
		put_repetition(out, s);
		return "n+1";
	}
	/* An exception costs microseconds: some 20 with a deep backtrace. */
	if (p == RUT_PLACE_RUBY && r->raised >= 1000 &&
	    (int64_t)r->raised * 20000 >= r->ns[RUT_PLACE_RUBY]) {
		rut_buf_printf(out, "it raised %llu exceptions", (unsigned long long)r->raised);
		if (r->raise_site)
			rut_buf_printf(out, ", most of them %s at %s:%u", r->raise_site->name,
				       r->raise_site->path, r->raise_site->line);
		rut_buf_puts(out, "; ");
		return "exceptions";
	}
	if (s->loaded >= 20 &&
	    (p == RUT_PLACE_RUBY || p == RUT_PLACE_SYSTEM || p == RUT_PLACE_DISK)) {
		rut_buf_printf(out, "it loaded code (%llu files); ", (unsigned long long)s->loaded);
		return "loading";
	}
	return NULL;
}

void rut_an_explain_sentence(struct rut_explanation *x, const struct rut_request *r)
{
	_cleanup_buf_ struct rut_buf out = RUT_BUF_INIT;
	struct sums s = {.x = x, .r = r, .whole_ns = r->end_ns - r->begin_ns};
	bool done[RUT_PLACES] = {false};
	int first = largest(r, done), second;

	gather(&s, 0, 0);
	rut_buf_puts(&out, r->running ? "This request has taken " : "This request took ");
	put_ms(&out, s.whole_ns);
	if (first < 0) {
		x->cause = "unknown";
	} else {
		rut_buf_puts(&out, " because ");
		x->cause = special_cause(&s, first, &out);
		if (x->cause && !strcmp(x->cause, "n+1") && rut_place_waits((enum rut_place)first))
			rut_buf_puts(&out, "; ");
		if (!x->cause || strcmp(x->cause, "n+1") != 0 ||
		    rut_place_waits((enum rut_place)first))
			put_place(&out, &s, (enum rut_place)first);
		if (!x->cause)
			x->cause = rut_an_place_name((enum rut_place)first);
		done[first] = true;
		second = largest(r, done);
		if (second >= 0 && r->ns[second] * 5 >= s.whole_ns) {
			rut_buf_puts(&out, ", and ");
			put_place(&out, &s, (enum rut_place)second);
		}
	}
	rut_buf_puts(&out, ".");
	x->sentence = out.failed ? NULL : strdup(out.data);
}

/* ---- The tree ---- */

#define SHOWN_DEPTH 24
#define SHOWN_MAX   48 /* children of one node */

struct child {
	uint32_t node;
	int64_t ns;
};

static int by_ns(const void *a, const void *b)
{
	int64_t x = ((const struct child *)a)->ns, y = ((const struct child *)b)->ns;

	return x > y ? -1 : x < y;
}

static void print_node(const struct rut_an_node *n, int depth, struct rut_buf *out)
{
	char d[32], each[32], did[160];

	rut_an_ruby_duration(d, sizeof(d), n->total_ns);
	rut_buf_printf(out, "  %9s  %*s", d, depth * 2, "");
	if (n->calls > 1) {
		rut_an_ruby_duration(each, sizeof(each), n->total_ns / (int64_t)n->calls);
		rut_buf_printf(out, "%llu x ", (unsigned long long)n->calls);
	}
	if (n->kind == RUT_NODE_PLACE)
		rut_buf_puts(out, rut_an_place_text((enum rut_place)n->place));
	else if (n->kind == RUT_NODE_SYSCALL)
		rut_buf_printf(out, "%s()%s%.160s", n->name, n->what ? " " : "",
			       n->what ? n->what : "");
	else if (n->kind == RUT_NODE_SPAN)
		rut_buf_printf(out, "%s: %s", n->what,
			       n->text && *n->text ? n->text
			       : n->name	   ? n->name
						   : "?");
	else
		rut_buf_puts(out, n->name ? n->name : "?");
	if (n->kind == RUT_NODE_SYSCALL && n->place != RUT_PLACE_SYSTEM)
		rut_buf_printf(out, ", %s", rut_an_place_text((enum rut_place)n->place));
	if (n->calls > 1)
		rut_buf_printf(out, ", %s each", each);
	if (n->caller)
		rut_buf_printf(out, "  (from %s)", n->caller->name);
	put_resends(out, n->resends);
	rut_buf_puts(out, "\n");
	for (uint32_t i = 0; i < n->n_who; i++) {
		const struct rut_culprit *c = &n->who[i];

		if (c->ns * 20 < n->total_ns)
			continue;
		rut_an_ruby_duration(d, sizeof(d), c->ns);
		rut_buf_printf(out, "  %9s  %*s<- ", "", depth * 2, "");
		put_culprit(out, c);
		rut_buf_printf(out, ", %s", d);
		if (c->bytes)
			rut_buf_printf(out, ", %lld KiB%s%s", (long long)(c->bytes >> 10),
				       c->did_what ? " on " : "", c->did_what ? c->did_what : "");
		rut_an_culprit_text(c, did, sizeof(did));
		if (*did)
			rut_buf_printf(out, ": %s", did);
		if (c->longest_ns && c->did_what)
			rut_buf_printf(out, " (%s)", c->did_what);
		if (c->longest_ns && *c->by_name)
			rut_buf_printf(out, ", until %s woke it", c->by_name);
		rut_buf_puts(out, "\n");
	}
}

/* The most costly first; what is below 1 % of the whole is left out. */
static void print_children(const struct rut_explanation *x, uint32_t at, int depth,
			   struct rut_buf *out)
{
	const struct rut_an_node *n = &x->nodes[at];
	int64_t whole_ns = x->nodes[0].total_ns, ruby_ns = n->own[RUT_PLACE_RUBY];
	struct child children[SHOWN_MAX] = {{0}};
	size_t count = 0;
	char d[32];

	for (uint32_t c = n->first_child; c != RUT_NO_NODE && count < SHOWN_MAX;
	     c = x->nodes[c].next)
		if (x->nodes[c].total_ns * 100 >= whole_ns)
			children[count++] = (struct child){c, x->nodes[c].total_ns};
	qsort(children, count, sizeof(*children), by_ns);
	for (size_t i = 0; i < count; i++) {
		print_node(&x->nodes[children[i].node], depth, out);
		if (depth < SHOWN_DEPTH)
			print_children(x, children[i].node, depth + 1, out);
	}
	if (count && ruby_ns * 100 >= whole_ns) {
		rut_an_ruby_duration(d, sizeof(d), ruby_ns);
		rut_buf_printf(out, "  %9s  %*srunning%s\n", d, depth * 2, "",
			       x->ruby ? " Ruby" : "");
	}
}

void rut_an_explain_print(const struct rut_explanation *x, struct rut_buf *out)
{
	print_children(x, 0, 0, out);
	if (x->lost)
		rut_buf_printf(out, "  (%llu more events are not in this tree)\n",
			       (unsigned long long)x->lost);
	if (x->short_history)
		rut_buf_puts(out, "  (it began before what is known of other threads)\n");
}
