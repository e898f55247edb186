/* SPDX-License-Identifier: MIT */
#include "script/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static bool is_call(const struct bpf_insn *i)
{
	return i->code == (BPF_JMP | BPF_CALL) && i->src_reg == BPF_PSEUDO_CALL;
}

void rut_link_text_fini(struct rut_link_text *t)
{
	free(t->insns);
	free(t->functions);
}

void rut_linked_fini(struct rut_linked *l)
{
	free(l->insns);
	free(l->functions);
}

bool rut_link_wanted(const struct bpf_insn *insns, size_t ninsns)
{
	for (size_t i = 0; i < ninsns; i++)
		if (is_call(&insns[i]))
			return true;
	return false;
}

static size_t begin_of(const struct rut_link_text *t, size_t function)
{
	return t->functions[function].insn_off;
}

static size_t end_of(const struct rut_link_text *t, size_t function)
{
	return function + 1 < t->nfunctions ? t->functions[function + 1].insn_off : t->ninsns;
}

/* The function that begins at this instruction. */
static size_t function_at(const struct rut_link_text *t, size_t insn)
{
	size_t f = 0;

	while (f + 1 < t->nfunctions && begin_of(t, f) < insn)
		f++;
	return f;
}

static size_t callee(const struct rut_link_text *t, size_t insn)
{
	return function_at(t, (size_t)((int64_t)insn + 1 + t->insns[insn].imm));
}

/* Marks what the functions that are marked call, until nothing is new. */
static void reach(const struct rut_link_text *t, bool *wanted)
{
	bool more = true;

	while (more) {
		more = false;
		for (size_t f = 0; f < t->nfunctions; f++) {
			for (size_t i = begin_of(t, f); wanted[f] && i < end_of(t, f); i++) {
				if (!is_call(&t->insns[i]) || wanted[callee(t, i)])
					continue;
				wanted[callee(t, i)] = true;
				more = true;
			}
		}
	}
}

static void copy_functions(struct rut_linked *l, const struct rut_link_text *t, const bool *wanted,
			   size_t *places)
{
	for (size_t f = 0; f < t->nfunctions; f++) {
		size_t n = end_of(t, f) - begin_of(t, f);

		if (!wanted[f])
			continue;
		places[f] = l->ninsns;
		memcpy(l->insns + l->ninsns, t->insns + begin_of(t, f), n * sizeof(*l->insns));
		l->functions[l->nfunctions] = t->functions[f];
		l->functions[l->nfunctions++].insn_off = (uint32_t)l->ninsns;
		l->ninsns += n;
	}
	/* Their calls of each other. */
	for (size_t f = 0; f < t->nfunctions; f++) {
		for (size_t i = begin_of(t, f); wanted[f] && i < end_of(t, f); i++) {
			size_t at = places[f] + i - begin_of(t, f);

			if (is_call(&t->insns[i]))
				l->insns[at].imm = (int32_t)(places[callee(t, i)] - at - 1);
		}
	}
}

int rut_link(struct rut_linked *ret, const struct rut_link_text *t, const size_t *entries,
	     const struct bpf_insn *insns, size_t ninsns, struct rut_err *err)
{
	bool *wanted = calloc(t->nfunctions, sizeof(*wanted));
	size_t *places = calloc(t->nfunctions, sizeof(*places));

	*ret = (struct rut_linked){
		.insns = malloc((ninsns + t->ninsns) * sizeof(*ret->insns)),
		.functions = calloc(t->nfunctions, sizeof(*ret->functions)),
		.ninsns = ninsns,
	};
	if (!wanted || !places || !ret->insns || !ret->functions) {
		free(wanted);
		free(places);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	memcpy(ret->insns, insns, ninsns * sizeof(*insns));
	for (size_t i = 0; i < ninsns; i++)
		if (is_call(&insns[i]))
			wanted[entries[insns[i].imm]] = true;
	reach(t, wanted);
	copy_functions(ret, t, wanted, places);
	for (size_t i = 0; i < ninsns; i++)
		if (is_call(&insns[i]))
			ret->insns[i].imm = (int32_t)(places[entries[insns[i].imm]] - i - 1);
	free(wanted);
	free(places);
	return 0;
}
