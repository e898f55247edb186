/* SPDX-License-Identifier: MIT */
#include "agent/ruby_abi.h"

/* What has been so in each Ruby until then. */
#define UNTIL_3_1 .array_embed_mask = 3
#define UNTIL_3_2 .promoted_mask = 0x60, .keeps_code_copies = true
#define UNTIL_3_4 .data_type_first = true, .hooks_in_code = true
#define UNTIL_3_0 .keeps_tracepoints = true, .events_must_agree = true

/* ... and since. */
#define SINCE_2_6 .target_hooks = true, .has_parameters = true
#define SINCE_2_7 SINCE_2_6, .has_definemethod = true
#define SINCE_3_0 SINCE_2_7, .has_ractors = true
#define SINCE_3_2 SINCE_3_0, .array_embed_mask = 127, .slot_sizes = true
#define SINCE_3_3                                                                                  \
	SINCE_3_2, .promoted_mask = 0x20, .threads_move = true, .has_rescue_event = true,          \
		   .gvl_event_has_thread = true

static const struct rut_abi rows[] = {
	{
		.version = 205,
		UNTIL_3_0,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_4,
		.argv0_when_ready = true,
		.trips_over_half_made = true,
	},
	{
		.version = 206,
		UNTIL_3_0,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_4,
		SINCE_2_6,
		.main_is_silent = true,
		.keeps_hooks = RUT_KEEPS_HOOKS,
	},
	{
		.version = 207,
		UNTIL_3_0,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_4,
		SINCE_2_7,
		.frame_words = 7,
		.keeps_hooks = RUT_KEEPS_HOOKS,
	},
	{
		.version = 300,
		UNTIL_3_0,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_4,
		SINCE_3_0,
		.keeps_hooks = RUT_KEEPS_HOOKS_SINGLE,
		.ractors_crash = true,
		.jobs_on_ruby_threads = true,
	},
	{
		.version = 301,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_4,
		SINCE_3_0,
		.frame_words = 8,
		.ractors_crash = true,
		.gc_time_known = true,
	},
	{
		.version = 302,
		UNTIL_3_2,
		UNTIL_3_4,
		SINCE_3_2,
		.ractors_crash = true,
		.gc_time_known = true,
	},
	{
		.version = 303,
		UNTIL_3_4,
		SINCE_3_3,
		.frame_words = 7,
	},
	{
		.version = 304,
		.names_have_classes = true,
		UNTIL_3_4,
		SINCE_3_3,
	},
	{
		.version = 400,
		.names_have_classes = true,
		SINCE_3_3,
		.hooks_by_ractor = true,
	},
};

#define ROWS (sizeof(rows) / sizeof(*rows))

const struct rut_abi *rut_abi_of(int version)
{
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].version == version)
			return &rows[i];
	return NULL;
}

const struct rut_abi *rut_abi_oldest(void)
{
	return &rows[0];
}

const struct rut_abi *rut_abi_newest(void)
{
	return &rows[ROWS - 1];
}
