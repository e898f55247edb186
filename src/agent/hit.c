/* SPDX-License-Identifier: MIT */
#include "hit.h"

#include "base/glob.h"

#include "args.h"
#include "names.h"
#include "event.h"
#include "self.h"
#include "watch_read.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

/* Places of two instructions, RUT_HIT_PROBES of them. */
__asm__(".pushsection .text\n"
	".p2align 4\n"
	".globl rut_agent_sites\n"
	".hidden rut_agent_sites\n"
	".type rut_agent_sites, @function\n"
	"rut_agent_sites:\n"
	".rept 64\n"
	"nop\n"
	"ret\n"
	".endr\n"
	".size rut_agent_sites, . - rut_agent_sites\n"
	".popsection\n");

_Static_assert(RUT_HIT_PROBES == 64 && RUT_HIT_SITE_BYTES == 2, "the places above");

#define RUT_HIT_POOL 16

typedef void (*site_fn)(uint64_t session, const char *texts, uint64_t duration_ns, uint64_t line,
			uint64_t ec, uint64_t vm_stack);

struct rut_hit_probe {
	char event; /* RUT_HIT_* */
	const char *pattern;
	struct rut_watch wishes; /* one operation for each text */
	struct rut_watch_op ops[RUT_HIT_TEXTS];
	bool has_locals, deferred;
	uint64_t pid_ns, time_ns; /* deferred: of a process in these; 0: of any */
};

/* The texts of one hit. Threads hit at once: in ractors, and where they wait for the GVL. */
struct rut_hit_texts {
	char text[RUT_HIT_TEXTS][RUT_HIT_TEXT_BYTES];
	uint32_t taken, _pad;
};

#define POOL_BYTES (RUT_HIT_POOL * sizeof(struct rut_hit_texts))

static size_t rows_bytes(const struct rut_session *s)
{
	return s->table.hdr->row_cap * sizeof(struct rut_hit_row);
}

static size_t codes_bytes(const struct rut_session *s)
{
	return s->table.hdr->row_cap * sizeof(*s->hits.codes[0]);
}

/* ---- the configuration ---- */

/* The next part of a line, cut off; NULL: there is none. */
static char *next_part(char **at)
{
	char *begin = *at, *end = begin ? strchr(begin, RUT_WATCH_US) : NULL;

	*at = end ? end + 1 : NULL;
	if (end)
		*end = 0;
	return begin;
}

static uint16_t number(const char *text)
{
	unsigned n = 0;

	for (; *text >= '0' && *text <= '9' && n < 1000; text++)
		n = n * 10 + (unsigned)(*text - '0');
	return (uint16_t)n;
}

static uint64_t inode(const char **at)
{
	uint64_t n = 0;

	for (; **at >= '0' && **at <= '9'; ++*at)
		n = n * 10 + (uint64_t)(**at - '0');
	return n;
}

static void add_deferral(struct rut_hit_probe *p, const char *namespaces)
{
	p->deferred = true;
	p->pid_ns = inode(&namespaces);
	namespaces += *namespaces == '/';
	p->time_ns = inode(&namespaces);
}

static void add_wish(struct rut_hit_probe *p, const char *wish)
{
	struct rut_watch_op *op = &p->ops[p->wishes.nops];

	if (wish[0] == RUT_HIT_DEFER)
		add_deferral(p, wish + 1);
	if (wish[0] == RUT_HIT_DEFER || p->wishes.nops == RUT_HIT_TEXTS)
		return;
	*op = (struct rut_watch_op){.kind = wish[0], .text = wish + 1, .n = number(wish + 1)};
	p->has_locals |= op->kind == RUT_OP_LOCAL || op->kind == RUT_OP_POSITION;
	p->wishes.nops++;
}

static const char REQUEST_EVENTS[] = {RUT_HIT_REQUEST_BEGIN, RUT_HIT_REQUEST_END,
				      RUT_HIT_SPAN_BEGIN,    RUT_HIT_SPAN_END,
				      RUT_HIT_REQUEST_NAME,  0};

static const char METHOD_EVENTS[] = {RUT_HIT_CALL, RUT_HIT_RETURN, RUT_HIT_C_CALL, RUT_HIT_C_RETURN,
				     0};

static uint64_t event_bit(char event)
{
	return 1ull << (event & 63);
}

/* "EVENT PATTERN" and wishes, with RUT_WATCH_US behind each part but the last. */
static int add_probe(struct rut_session *s, const char *line)
{
	size_t len = strlen(line) + 1;
	struct rut_hit_probe *p = rut_agent_session_alloc(s, sizeof(*p));
	char *copy = len < RUT_ARENA / 2 ? rut_agent_session_alloc(s, len) : NULL, *wish;

	if (!p || !copy)
		return -ENOMEM;
	memcpy(copy, line, len);
	*p = (struct rut_hit_probe){.event = copy[0], .pattern = copy + 1};
	p->wishes.ops = p->ops;
	p->wishes.parameters = true;
	next_part(&copy);
	while ((wish = next_part(&copy)))
		add_wish(p, wish);
	if (p->has_locals) {
		s->hits.codes[s->hits.count] = rut_agent_map(codes_bytes(s));
		if (!s->hits.codes[s->hits.count])
			return -ENOMEM;
	}
	s->trace.tracks |= p->event == RUT_HIT_RETURN || p->event == RUT_HIT_C_RETURN;
	s->hits.requests |= strchr(REQUEST_EVENTS, p->event) != NULL;
	s->hits.methods |= strchr(METHOD_EVENTS, p->event) != NULL;
	s->hits.events |= event_bit(p->event);
	s->hits.probes[s->hits.count++] = p;
	return 0;
}

/*
 * Hits of which probes may be written down here? Elsewhere the numbers are not the kernel's. The
 * namespaces are the tracer's, the same in all probes that have them: one of them is asked about.
 */
static void find_deferred(struct rut_session *s)
{
	bool asked = false, here = false;

	s->hits.deferred = 0;
	for (unsigned i = 0; i < s->hits.count; i++) {
		const struct rut_hit_probe *p = s->hits.probes[i];

		if (!p->deferred)
			continue;
		if (p->pid_ns && !asked) {
			here = rut_agent_self_is_in(p->pid_ns, p->time_ns);
			asked = true;
		}
		if (!p->pid_ns || here)
			s->hits.deferred |= 1ull << i;
	}
}

int rut_agent_hits_init(struct rut_session *s)
{
	int r = 0;

	s->hits.rows = rut_agent_map(rows_bytes(s));
	s->hits.texts = rut_agent_map(POOL_BYTES);
	if (!s->hits.rows || !s->hits.texts)
		return -ENOMEM;
	for (const char *c = s->slot->config; *c && !r; c += strlen(c) + 1)
		if (*c == RUT_FILTER_PROBE && s->hits.count < RUT_HIT_PROBES)
			r = add_probe(s, c + 1);
	find_deferred(s);
	return r;
}

void rut_agent_hits_forked(struct rut_session *s)
{
	for (unsigned i = 0; s->hits.texts && i < RUT_HIT_POOL; i++)
		if (s->hits.texts[i].taken)
			s->hits.texts[i].taken = 0;
	find_deferred(s);
}

void rut_agent_hits_fini(struct rut_session *s)
{
	if (s->hits.rows)
		rut_agent_unmap(s->hits.rows, rows_bytes(s));
	s->hits.rows = NULL;
	if (s->hits.texts)
		rut_agent_unmap(s->hits.texts, POOL_BYTES);
	s->hits.texts = NULL;
	for (unsigned i = 0; i < RUT_HIT_PROBES; i++)
		if (s->hits.codes[i])
			rut_agent_unmap(s->hits.codes[i], codes_bytes(s));
	memset(s->hits.codes, 0, sizeof(s->hits.codes));
}

void rut_agent_hits_learn(struct rut_session *s, const struct rut_agent_row *row,
			  const char *class_name, bool singleton, const char *method)
{
	struct rut_hit_row *hits = &s->hits.rows[row - s->table.rows];
	bool c = row->flags & RUT_ROW_C;
	char call = c ? RUT_HIT_C_CALL : RUT_HIT_CALL, ret = c ? RUT_HIT_C_RETURN : RUT_HIT_RETURN;

	for (unsigned i = 0; i < s->hits.count; i++) {
		const struct rut_hit_probe *p = s->hits.probes[i];
		uint64_t bit = 1ull << i;

		if ((p->event != call && p->event != ret) ||
		    !rut_agent_filter_inside(p->pattern, class_name, singleton, method))
			continue;
		*(p->event == call ? &hits->calls : &hits->returns) |= bit;
	}
}

/* ---- other events ---- */

bool rut_agent_hits_want(const struct rut_session *s, char event)
{
	return s->hits.events & event_bit(event);
}

uint64_t rut_agent_hits_of(const struct rut_session *s, char event, const char *class_name)
{
	uint64_t ret = 0;

	if (!rut_agent_hits_want(s, event))
		return 0;
	for (unsigned i = 0; i < s->hits.count; i++) {
		const struct rut_hit_probe *p = s->hits.probes[i];

		if (p->event == event &&
		    (!class_name || !*p->pattern || rut_glob_string(p->pattern, class_name)))
			ret |= 1ull << i;
	}
	return ret;
}

/* ---- texts ---- */

static void put(char *to, const char *text, size_t len)
{
	if (len > RUT_HIT_TEXT_BYTES - 1)
		len = RUT_HIT_TEXT_BYTES - 1;
	memcpy(to, text, len);
	to[len] = 0;
}

static void put_name(const struct rut_session *s, char *to, uint32_t str)
{
	const char *name = str ? rut_agent_table_get(&s->table, str) : NULL;

	put(to, name ? name : "", name ? strlen(name) : 0);
}

/* Texts and numbers as they are; of other values what rut_agent_args_format_value() makes of them.
 */
static void put_value(struct rut_session *s, char *to, VALUE v)
{
	if (rut_agent_watch_text(to, RUT_HIT_TEXT_BYTES, v))
		return;
	__atomic_fetch_add(&s->busy, 1, __ATOMIC_RELAXED);
	rut_agent_args_format_value(v, to, RUT_HIT_TEXT_BYTES);
	__atomic_fetch_sub(&s->busy, 1, __ATOMIC_RELAXED);
}

static void put_class(char *to, VALUE v)
{
	bool singleton;

	rut_agent_class_name(rb.rb_obj_class(v), to, RUT_HIT_TEXT_BYTES, &singleton);
}

struct hit {
	const struct rut_trace_arg *ta; /* NULL: it is not known */
	const struct rut_agent_row *row;
	uint64_t duration_ns;
	const VALUE *value;
	const struct rut_hit_facts *facts; /* NULL: of a method */
};

static void put_text(char *to, const char *text)
{
	if (text)
		put(to, text, strlen(text));
}

static void put_fact(char *to, char kind, const struct hit *hit)
{
	const union rut_hit_fact *f;

	if (!hit->facts || kind < 'A' || kind > 'Z')
		return;
	f = &hit->facts->of[kind - 'A'];
	if (strchr(RUT_HIT_NUMBERS, kind))
		memcpy(to, &f->number, sizeof(f->number));
	else
		put_text(to, f->text);
}

static void fill(struct rut_session *s, unsigned probe, const struct hit *hit,
		 char texts[][RUT_HIT_TEXT_BYTES])
{
	struct rut_hit_probe *p = s->hits.probes[probe];
	struct rut_watch_code **codes = s->hits.codes[probe];
	const struct rut_watch_code *code = NULL;

	/* The frame that is there at a call of a C method is its caller's. */
	if (codes && hit->ta && !(hit->row->flags & RUT_ROW_C))
		code = rut_agent_watch_code(s, &p->wishes, &codes[hit->row - s->table.rows],
					    hit->ta);
	for (unsigned i = 0; i < p->wishes.nops; i++) {
		VALUE v;

		texts[i][0] = 0;
		switch (p->ops[i].kind) {
		case RUT_HIT_METHOD:
			if (hit->row)
				put_name(s, texts[i], hit->row->method);
			break;
		case RUT_HIT_CLASS:
			if (hit->row)
				put_name(s, texts[i], hit->row->class_name);
			else
				put_text(texts[i], hit->facts->class_name);
			break;
		case RUT_HIT_PATH:
			if (hit->row)
				put_name(s, texts[i], hit->row->path);
			else
				put_text(texts[i], hit->facts->path);
			break;
		case RUT_HIT_SELF_CLASS:
			if (hit->ta)
				put_class(texts[i], hit->ta->self);
			break;
		case RUT_HIT_VALUE:
			if (hit->value)
				put_value(s, texts[i], *hit->value);
			break;
		case RUT_HIT_COMM:
			/* Asked each time: another thread or process may have changed it. */
			if (s->hits.deferred & 1ull << probe)
				prctl(PR_GET_NAME, texts[i]);
			break;
		case RUT_HIT_ARG:
		case RUT_HIT_POSITION:
			if (hit->ta && rut_agent_watch_local(code, i, hit->ta, &v))
				put_value(s, texts[i], v);
			break;
		default:
			put_fact(texts[i], p->ops[i].kind, hit);
			break;
		}
	}
}

/* The bytes of a text in a record; at the call of put_hit() with where it is to be. */
static uint32_t text_bytes(const struct rut_hit_probe *p, unsigned i, const char *text)
{
	return strchr(RUT_HIT_NUMBERS, p->ops[i].kind) ? sizeof(uint64_t)
						       : (uint32_t)strlen(text) + 1;
}

/*
 * The hit as a record, for the tracer to run the program with. False: the ring is full, or there is
 * none; then the kernel is told of the hit as of those of other probes, so that none is lost.
 */
static bool put_hit(struct rut_session *s, unsigned i, const struct hit *hit, uint64_t line,
		    char texts[][RUT_HIT_TEXT_BYTES])
{
	const struct rut_hit_probe *p = s->hits.probes[i];
	uint32_t bytes[RUT_HIT_TEXTS], size = sizeof(struct rut_event_hit), at = 0;
	struct rut_event_hit *e;
	uint64_t ns, pos;

	if (!(s->hits.deferred & 1ull << i) || !s->events.ring.ctl)
		return false;
	for (unsigned t = 0; t < p->wishes.nops; t++) {
		bytes[t] = text_bytes(p, t, texts[t]);
		size += bytes[t];
	}
	e = rut_ring_reserve(&s->events.ring, size, rut_ring_clock, &ns, &pos);
	if (!e)
		return false;
	e->c = (struct rut_event_common){.header = RUT_RECORD_HEADER(RUT_EVENT_ID_HIT, ns),
					 .row = i,
					 .tid = rut_agent_self_tid()};
	e->duration_ns = hit->duration_ns;
	e->line = line;
	e->text_bytes = size - (uint32_t)sizeof(*e);
	for (unsigned t = 0; t < p->wishes.nops; t++) {
		memcpy(e->texts + at, texts[t], bytes[t]);
		at += bytes[t];
	}
	rut_ring_commit(&s->events.ring, pos, size);
	return true;
}

static void run_with(struct rut_session *s, unsigned i, const struct hit *hit,
		     char texts[][RUT_HIT_TEXT_BYTES])
{
	site_fn site = (site_fn)(uintptr_t)(rut_agent_sites + (size_t)i * RUT_HIT_SITE_BYTES);
	const struct rut_hit_facts *f = hit->facts;
	uint64_t line = hit->row ? hit->row->line : 0;

	if (!hit->row && f)
		line = f->line;
	fill(s, i, hit, texts);
	if (put_hit(s, i, hit, line, texts))
		return;
	site(s->slot->session_id, texts[0], hit->duration_ns, line, f ? f->ec : 0,
	     f ? f->vm_stack : 0);
}

static __attribute__((noinline)) void run_on_stack(struct rut_session *s, unsigned i,
						   const struct hit *hit)
{
	char texts[RUT_HIT_TEXTS][RUT_HIT_TEXT_BYTES];

	run_with(s, i, hit, texts);
}

/* The 4 KB of a hit are on the stack only where all others are in use. */
static void run_site(struct rut_session *s, unsigned i, const struct hit *hit)
{
	for (unsigned k = 0; k < RUT_HIT_POOL; k++) {
		struct rut_hit_texts *t = &s->hits.texts[k];

		if (__atomic_exchange_n(&t->taken, 1, __ATOMIC_ACQUIRE))
			continue;
		run_with(s, i, hit, t->text);
		__atomic_store_n(&t->taken, 0, __ATOMIC_RELEASE);
		return;
	}
	run_on_stack(s, i, hit);
}

static void run_sites(struct rut_session *s, uint64_t probes, const struct hit *hit)
{
	for (; probes; probes &= probes - 1)
		run_site(s, (unsigned)__builtin_ctzll(probes), hit);
}

void rut_agent_hit_call(struct rut_session *s, const struct rut_trace_arg *ta,
			const struct rut_variant *v)
{
	struct hit hit = {.ta = ta, .row = v->row};

	run_sites(s, s->hits.rows[v->row - s->table.rows].calls, &hit);
}

void rut_agent_hit_return(struct rut_session *s, const struct rut_trace_arg *ta,
			  const struct rut_variant *v, uint64_t duration_ns, const VALUE *value)
{
	struct hit hit = {.ta = ta, .row = v->row, .duration_ns = duration_ns, .value = value};

	run_sites(s, s->hits.rows[v->row - s->table.rows].returns, &hit);
}

void rut_agent_hit_event(struct rut_session *s, uint64_t probes, const struct rut_hit_facts *f)
{
	struct hit hit = {.row = f->row, .duration_ns = f->duration_ns, .facts = f};

	run_sites(s, probes, &hit);
}
