/* SPDX-License-Identifier: MIT */
/*
 * Frames are followed outwards. Whether code is the application's, and its row, are remembered by
 * its address for as long as that holds (life.h), because most frames are those of the framework,
 * again and again.
 */
#include "request_caller.h"

#include "names.h"
#include "record.h"

#include <string.h>

#define SLOTS	   4096u /* a power of two */
#define FRAMES_MAX 400

/* The first words of an execution context (vm_core.h): its stack, and the words of that. */
#define EC_STACK 0
#define EC_WORDS 1

struct rut_request_frame {
	VALUE iseq;
	struct rut_life life;
	bool app;
	uint32_t row; /* RUT_RECORD_NO_CALLER: not looked up yet */
};

static bool is_app(const struct rut_session *s, VALUE iseq)
{
	struct rut_agent_path path = {.len = {0}};

	path.s[0] = rut_agent_str(rb.rb_profile_frame_path(iseq), &path.len[0]);
	path.s[1] = rut_agent_str(rb.rb_profile_frame_absolute_path(iseq), &path.len[1]);
	if (!path.len[0] || path.s[0][0] == '<')
		return false;
	/* A script does not know where the application is, but where gems and Ruby's own files are.
	 */
	if (s->mode == RUT_AGENT_SCRIPT)
		return !strstr(path.s[0], "/gems/") && !strstr(path.s[0], "/lib/ruby/");
	return rut_agent_filter_app(&s->filter, &path);
}

static struct rut_request_frame *slot_of(const struct rut_session *s, VALUE iseq)
{
	uint32_t i = (uint32_t)(iseq * 0x9e3779b97f4a7c15ull >> 32) & (SLOTS - 1);
	struct rut_request_frame *f = &s->requests.frames[i];

	if (RUT_LIKELY(f->iseq == iseq && rut_life_holds(f->life)))
		return f;
	*f = (struct rut_request_frame){iseq, rut_agent_life_of(iseq, 0), is_app(s, iseq),
					RUT_RECORD_NO_CALLER};
	return f;
}

/* By its method; code outside of methods by its label. */
static uint32_t row_of(struct rut_session *s, void *ec, const VALUE *cfp)
{
	struct rut_agent_rows *t = &s->table;
	VALUE iseq = cfp[RUT_FRAME_ISEQ], owner, mid;
	bool singleton = false;
	char class[256] = "";
	const char *method, *path;
	const struct rut_agent_row *row;
	size_t len, path_len;

	if (rut_agent_frame_owner(ec, cfp, &owner, &mid)) {
		rut_agent_class_name(owner, class, sizeof(class), &singleton);
		method = rb.rb_id2name(rb.rb_sym2id(mid));
		len = method ? strlen(method) : 0;
	} else {
		method = rut_agent_str(rb.rb_profile_frame_label(iseq), &len);
	}
	path = rut_agent_str(rb.rb_profile_frame_path(iseq), &path_len);
	row = rut_agent_table_row(t, rut_agent_table_str(t, path, path_len),
				  (uint32_t)rut_fix2long(rb.rb_profile_frame_first_lineno(iseq)),
				  *class ? rut_agent_table_str(t, class, strlen(class)) : 0,
				  len ? rut_agent_table_str(t, method, len) : 0,
				  singleton ? RUT_ROW_SINGLETON : 0);
	return row ? (uint32_t)(row - t->rows) : RUT_RECORD_NO_CALLER;
}

uint32_t rut_agent_request_caller(struct rut_session *s, const struct rut_trace_arg *ta)
{
	const VALUE *ec = ta->ec, *cfp = ta->cfp;
	const VALUE *end = (const VALUE *)ec[EC_STACK] + ec[EC_WORDS];
	size_t words = rb.abi->frame_words;

	if (!words || (!s->filter.has_paths && s->mode != RUT_AGENT_SCRIPT) ||
	    cfp < (const VALUE *)ec[EC_STACK] || cfp >= end)
		return RUT_RECORD_NO_CALLER;
	if (!s->requests.frames)
		s->requests.frames = rut_agent_map(SLOTS * sizeof(*s->requests.frames));
	if (!s->requests.frames)
		return RUT_RECORD_NO_CALLER;
	rut_lives_sync();
	for (int i = 0; i < FRAMES_MAX && (cfp += words) + words <= end; i++) {
		VALUE iseq = cfp[RUT_FRAME_ISEQ];
		struct rut_request_frame *f;

		if (!iseq || *(const VALUE *)cfp[RUT_FRAME_EP] & RUT_FRAME_C ||
		    rut_imemo(iseq) != RUT_IMEMO_ISEQ)
			continue;
		f = slot_of(s, iseq);
		if (!f->app)
			continue;
		if (f->row == RUT_RECORD_NO_CALLER)
			f->row = row_of(s, ta->ec, cfp);
		return f->row;
	}
	return RUT_RECORD_NO_CALLER;
}

void rut_agent_request_caller_fini(struct rut_session *s)
{
	if (s->requests.frames)
		rut_agent_unmap(s->requests.frames, SLOTS * sizeof(*s->requests.frames));
	s->requests.frames = NULL;
}
