// SPDX-License-Identifier: GPL-2.0
/* Iterators for the statedump: what the kernel knows of processes that /proc does not show. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "bpf/statedump.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	int pid;
	int tgid;
};

struct file {
	unsigned int f_mode;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};
#pragma clang attribute pop

/* As in /proc/PID/fd: the files of the first thread, which all others of the process share. */
SEC("iter/task_file")
int open_files(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct rut_open_file out;

	if (!task || !file || task->pid != task->tgid)
		return 0;
	out = (struct rut_open_file){task->tgid, ctx->fd, file->f_mode};
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}
