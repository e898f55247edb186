/* SPDX-License-Identifier: MIT */
#include "ruby_abi/ruby_abi.h"

#define FL_USER0 (1u << 12)
#define FL_USER1 (1u << 13)

/* What holds for each Ruby until the one in the name, and that one too ... */
#define UNTIL_2_7	.thread_ec = 32, .thread_pthread = 72
#define UNTIL_3_0	.keeps_tracepoints = true, .events_must_agree = true, .insn_info_bytes = 8
#define HOOKS_UNTIL_3_1 .reads_hooks_early = true, .hooks_running = 16, .hooks_unclean = 12
#define UNTIL_3_1	.array_embed_mask = 3, .insns_info = 120, .line_is_value = true
#define UNTIL_3_2	.promoted_mask = 0x60, .keeps_code_copies = true
#define UNTIL_3_3	.singleton_flag = FL_USER0
#define UNTIL_3_4	.data_type_first = true, .hooks_in_code = true

#define HASHES_UNTIL_3_2 .hash_table = 2, .hash_ifnone = 3

/* ... and for each since. */
#define SINCE_2_6 .target_hooks = true, .has_parameters = true
#define SINCE_2_7 SINCE_2_6, .has_definemethod = true
#define SINCE_3_0 SINCE_2_7, .has_ractors = true, .ec_is_tls = true
#define SINCE_3_1 SINCE_3_0, .insn_info_bytes = 12
#define SINCE_3_2                                                                                  \
	SINCE_3_1, .array_embed_mask = 127, .slot_sizes = true, .string_len_word = true,           \
		   .class_path_word = true
#define SINCE_3_3                                                                                  \
	SINCE_3_2, .hash_table = 3, .hash_table_inside = true, .hash_ifnone = 2,                   \
		   .promoted_mask = 0x20, .threads_move = true, .has_rescue_event = true,          \
		   .gvl_event_has_thread = true, .gc_time = RUT_GC_TIME_SPLIT
#define SINCE_3_4 SINCE_3_3, .singleton_flag = FL_USER1, .names_have_classes = true
#define SINCE_4_0 SINCE_3_4, .hooks_by_ractor = true

static const struct rut_ruby_abi rows[] = {
	{
		.version = 205,
		UNTIL_2_7,
		UNTIL_3_0,
		.array_embed_mask = 3,
		UNTIL_3_2,
		UNTIL_3_3,
		UNTIL_3_4,
		.argv0_when_ready = true,
		.trips_over_half_made = true,
	},
	{
		.version = 206,
		UNTIL_2_7,
		UNTIL_3_0,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_3,
		UNTIL_3_4,
		SINCE_2_6,
		.frame_words = 7,
		.main_is_silent = true,
		.keeps_hooks = RUT_KEEPS_HOOKS,
		HOOKS_UNTIL_3_1,
	},
	{
		.version = 207,
		HASHES_UNTIL_3_2,
		UNTIL_2_7,
		UNTIL_3_0,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_3,
		UNTIL_3_4,
		SINCE_2_7,
		.frame_words = 7,
		.walks_frames = true,
		.keeps_hooks = RUT_KEEPS_HOOKS,
		HOOKS_UNTIL_3_1,
	},
	{
		.version = 300,
		HASHES_UNTIL_3_2,
		UNTIL_3_0,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_3,
		UNTIL_3_4,
		SINCE_3_0,
		.frame_words = 7,
		.keeps_hooks = RUT_KEEPS_HOOKS_SINGLE,
		HOOKS_UNTIL_3_1,
		.ractors_crash = true,
		.jobs_on_ruby_threads = true,
	},
	{
		.version = 301,
		HASHES_UNTIL_3_2,
		UNTIL_3_1,
		UNTIL_3_2,
		UNTIL_3_3,
		UNTIL_3_4,
		SINCE_3_1,
		.frame_words = 8,
		.walks_frames = true,
		.reads_hooks_early = true,
		.hooks_running = 12,
		.hooks_unclean = 16,
		.ractors_crash = true,
		.gc_time = RUT_GC_TIME_ONE,
	},
	{
		.version = 302,
		HASHES_UNTIL_3_2,
		UNTIL_3_2,
		UNTIL_3_3,
		UNTIL_3_4,
		SINCE_3_2,
		.frame_words = 8,
		.insns_info = 112,
		.ractors_crash = true,
		.gc_time = RUT_GC_TIME_ONE,
	},
	{
		.version = 303,
		UNTIL_3_3,
		UNTIL_3_4,
		SINCE_3_3,
		.frame_words = 7,
		.walks_frames = true,
		.insns_info = 112,
	},
	{
		.version = 304,
		UNTIL_3_4,
		SINCE_3_4,
		.frame_words = 7,
		.insns_info = 112,
	},
	{
		.version = 400,
		SINCE_4_0,
		.wakes_disturb_in = "4.0.0",
	},
	/* The development version: what 4.0 has, as far as it is known. */
	{
		.version = 401,
		.unreleased = true,
		SINCE_4_0,
	},
};

#define ROWS (sizeof(rows) / sizeof(*rows))

int rut_ruby_abi_number(const char *version)
{
	if (version[0] < '0' || version[0] > '9' || version[1] != '.' || version[2] < '0' ||
	    version[2] > '9')
		return 0;
	return (version[0] - '0') * 100 + (version[2] - '0');
}

const struct rut_ruby_abi *rut_ruby_abi_get(int number)
{
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].version == number)
			return &rows[i];
	return NULL;
}

const struct rut_ruby_abi *rut_ruby_abi_oldest(void)
{
	return &rows[0];
}

const struct rut_ruby_abi *rut_ruby_abi_newest(void)
{
	const struct rut_ruby_abi *r = &rows[ROWS - 1];

	while (r > rows && r->unreleased)
		r--;
	return r;
}
