/* SPDX-License-Identifier: MIT */
#include "script/kernel_has.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <string.h>
#include <unistd.h>

#include "script/probes.h"
#include "script/tracefs.h"

static bool yes(void)
{
	return true;
}

static bool no(void)
{
	return false;
}

static bool has_helper(enum bpf_prog_type type, enum bpf_func_id id)
{
	return libbpf_probe_bpf_helper(type, id, NULL) == 1;
}

static bool has_btf(void)
{
	return !access("/sys/kernel/btf/vmlinux", R_OK);
}

static bool has_tracefs(void)
{
	return rut_script_tracefs() != NULL;
}

/* Programs at functions need ftrace's direct calls, which are asked for by name. */
static bool has_trampolines(void)
{
	return libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_TRACING, NULL) == 1 &&
	       !access("/sys/kernel/tracing/available_filter_functions", F_OK);
}

static bool has_signal(void)
{
	return has_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_send_signal);
}

static bool has_loops(void)
{
	return has_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_loop);
}

static bool has_read(void)
{
	return has_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_probe_read_kernel);
}

static bool has_boot_clock(void)
{
	return has_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_ktime_get_boot_ns);
}

static bool has_tai_clock(void)
{
	return has_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_ktime_get_tai_ns);
}

static bool has_jiffies(void)
{
	return has_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_jiffies64);
}

static bool has_percpu_lookup(void)
{
	return has_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_map_lookup_percpu_elem);
}

static const struct rut_script_feature features[] = {
	{"btf", has_btf},
	{"tracefs", has_tracefs},
	{"tracepoint", yes},
	{"kprobe", rut_probe_has_kprobes},
	{"kprobe_multi", no},
	{"kprobe_session", no},
	{"uprobe_multi", no},
	{"fentry", has_trampolines},
	{"iter", has_btf},
	{"probe_read_kernel", has_read},
	{"send_signal", has_signal},
	{"bpf_loop", has_loops},
	{"get_boot_ns", has_boot_clock},
	{"get_tai_ns", has_tai_clock},
	{"jiffies64", has_jiffies},
	{"lookup_percpu_elem", has_percpu_lookup},
};

size_t rut_script_features(const struct rut_script_feature **ret)
{
	*ret = features;
	return sizeof(features) / sizeof(*features);
}

bool rut_script_kernel_has(const char *name)
{
	for (size_t i = 0; i < sizeof(features) / sizeof(*features); i++)
		if (!strcmp(features[i].name, name))
			return features[i].has();
	return false;
}
