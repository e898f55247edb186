/* SPDX-License-Identifier: MIT */
#include "session/words.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGQUIT};

static struct {
	const struct rut_recorder *r;
	unsigned char *at; /* description, control pages, rings, stacks, as they lie in the maps */
	size_t bytes;
	unsigned char stack[64 << 10];
} words;

/* What is used of the table: pages of the copy that are not written cost nothing. */
static void copy_stacks(const struct rut_recorder *r, struct rut_stack_set *to)
{
	for (size_t i = 0; i < r->nsets; i++) {
		const struct rut_stack_set *set = &r->stacks[i];

		for (size_t way = 0; way < RUT_STACK_WAYS; way++) {
			uint32_t count = set->count[way];

			if (set->id[way] < RUT_STACK_MIN || count > RUT_STACK_DEPTH)
				continue;
			to[i].id[way] = set->id[way];
			to[i].used_ns[way] = set->used_ns[way];
			to[i].count[way] = count;
			memcpy(to[i].address[way], set->address[way], count * sizeof(uint64_t));
		}
	}
}

/* Nothing but copies: this runs in a signal handler of a program that is broken. */
static void copy_session(const struct rut_recorder *r)
{
	unsigned char *to = words.at;
	const unsigned char *meta = (const unsigned char *)r->meta;

	memcpy(to + sizeof(struct rut_anchor), meta + sizeof(struct rut_anchor),
	       sizeof(struct rut_session_meta) - sizeof(struct rut_anchor));
	memcpy(to + RUT_META_TEXT_OFFSET, meta + RUT_META_TEXT_OFFSET, r->meta->text_len);
	memcpy(to + RUT_META_DYNAMIC_OFFSET, meta + RUT_META_DYNAMIC_OFFSET, r->meta->dynamic_len);
	to += RUT_META_PAGES_OFFSET;
	memcpy(to, r->ctls, r->ctls_bytes);
	to += r->ctls_bytes;
	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		const struct rut_ring *ring = &r->rings[cpu];
		uint64_t mask = ring->subbuf_size - 1, end = (ring->ctl->pos + mask) & ~mask;
		uint64_t size = (uint64_t)ring->count << ring->shift;
		uint64_t pos = end > size ? end - size : 0;
		size_t at = (size_t)(ring->data - r->data);

		if (ring->mode == RUT_RING_DISCARD && ring->ctl->consumed > pos)
			pos = ring->ctl->consumed;
		for (; pos < end; pos += ring->subbuf_size)
			memcpy(to + at + (pos & (size - 1)), ring->data + (pos & (size - 1)),
			       ring->subbuf_size);
	}
	copy_stacks(r, (struct rut_stack_set *)(to + r->data_bytes));
	/* Last: a reader that finds the anchor must find the rest. */
	memcpy(words.at, meta, sizeof(struct rut_anchor));
}

static void on_fatal(int sig)
{
	const struct rut_recorder *r = words.r;

	words.r = NULL;
	if (r)
		copy_session(r);
	/* The handler is removed (SA_RESETHAND): this ends the process, with a core where one is
	 * wanted. */
	raise(sig);
}

void rut_words_arm(const struct rut_recorder *r)
{
	struct sigaction sa = {.sa_handler = on_fatal,
			       .sa_flags = SA_RESETHAND | SA_NODEFER | SA_ONSTACK};
	stack_t stack = {.ss_sp = words.stack, .ss_size = sizeof(words.stack)};

	words.bytes = RUT_META_PAGES_OFFSET + r->ctls_bytes + r->data_bytes +
		      r->nsets * sizeof(*r->stacks);
	words.at = mmap(NULL, words.bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (words.at == MAP_FAILED) {
		words.at = NULL;
		return;
	}
	madvise(words.at, words.bytes, MADV_NOHUGEPAGE);
	words.r = r;
	sigaltstack(&stack, NULL);
	for (size_t i = 0; i < sizeof(fatal) / sizeof(*fatal); i++) {
		struct sigaction old;

		/* A sanitizer, or a verb that uses SIGQUIT, has its own idea. */
		if (!sigaction(fatal[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(fatal[i], &sa, NULL);
	}
}

void rut_words_disarm(void)
{
	words.r = NULL;
	if (words.at)
		munmap(words.at, words.bytes);
	words.at = NULL;
}
