/* SPDX-License-Identifier: MIT */
/*
 * Calls by the line that calls. Ruby is asked for the frames of the thread at each call, which
 * costs more than counting does; so this is an option.
 */
#include "callers.h"

#define FRAMES 16 /* to walk: those of C methods have no line */

static uint32_t intern(struct rut_session *s, VALUE str)
{
	size_t len;
	const char *text = rut_agent_str(str, &len);

	return len ? rut_agent_table_str(&s->table, text, len) : 0;
}

void rut_agent_callers_count(struct rut_session *s, const struct rut_variant *v)
{
	VALUE frames[FRAMES];
	int lines[FRAMES], n = rb.rb_profile_frames(0, FRAMES, frames, lines);
	uint32_t path = 0, line = 0;
	struct rut_agent_row *row;

	for (int i = 1; i < n && !path; i++) {
		if (lines[i] <= 0)
			continue;
		path = intern(s, rb.rb_profile_frame_path(frames[i]));
		line = path ? (uint32_t)lines[i] : 0;
	}
	if (!path)
		path = rut_agent_table_str(&s->table, "(native)", 8);
	row = rut_agent_table_row(&s->table, path, line, v->row->class_name, v->row->method,
				  v->row->flags & RUT_ROW_SINGLETON);
	if (row)
		rut_add(&row->calls, 1);
}
