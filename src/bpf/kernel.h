/* SPDX-License-Identifier: MIT */
/*
 * What the programs read of the kernel's structures: only the fields used, with relocations, so
 * that the running kernel's BTF says where they are.
 */
#ifndef RUT_BPF_KERNEL_H
#define RUT_BPF_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
#if defined(__TARGET_ARCH_x86)
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
#endif
};

struct thread_info {
	__u32 status;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
	unsigned int level;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[32];
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	struct pid *pids[4];
};

typedef struct {
	unsigned int val;
} kuid_t;

typedef struct {
	unsigned int val;
} kgid_t;

struct uid_gid_extent {
	__u32 first;
	__u32 lower_first;
	__u32 count;
};

struct uid_gid_map {
	struct uid_gid_extent extent[5];
	__u32 nr_extents;
	struct uid_gid_extent *reverse;
};

struct user_namespace {
	struct uid_gid_map uid_map;
	struct uid_gid_map gid_map;
	struct ns_common ns;
};

struct cred {
	kuid_t uid, suid, euid;
	kgid_t gid, sgid, egid;
	struct user_namespace *user_ns;
};

struct uts_namespace {
	struct ns_common ns;
};

struct ipc_namespace {
	struct ns_common ns;
};

struct mnt_namespace {
	struct ns_common ns;
};

struct net {
	struct ns_common ns;
};

struct time_namespace {
	struct ns_common ns;
};

struct cgroup_namespace {
	struct ns_common ns;
};

struct nsproxy {
	struct uts_namespace *uts_ns;
	struct ipc_namespace *ipc_ns;
	struct mnt_namespace *mnt_ns;
	struct net *net_ns;
	struct time_namespace *time_ns;
	struct cgroup_namespace *cgroup_ns;
};

struct thread_struct {
	unsigned long fsbase; /* x86 */
};

struct rq;

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct task_struct {
	struct sched_entity se;
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int prio;
	int static_prio;
	int pid;
	int tgid;
	int exit_state;
	char comm[16];
	__u64 start_boottime;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct pid *thread_pid;
	struct signal_struct *signal;
	const struct cred *cred;
	struct nsproxy *nsproxy;
	struct thread_struct thread;
};

struct linux_binprm {
	unsigned long exec; /* the address of the path on the stack of the new program */
};

struct irqaction {
	const char *name;
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct block_device {
	unsigned int bd_dev;
};

struct bvec_iter {
	__u64 bi_sector;
	unsigned int bi_size;
};

struct bio_vec;

struct bio {
	struct bio *bi_next;
	struct bio_vec *bi_io_vec;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
};

struct page {
	unsigned long compound_head;
};

struct bio_vec {
	struct page *bv_page;
};

struct inode;

struct address_space {
	struct inode *host;
};

struct folio {
	struct address_space *mapping;
	unsigned long index;
};

struct hlist_head {
	void *first;
};

struct inode {
	unsigned long i_ino;
	struct hlist_head i_dentry;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
	union {
		struct hlist_head d_alias; /* a node of such a list */
	} d_u;
};

struct request {
	struct bio *bio;
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	__u64 __sector;
};

struct net_device {
	char name[16];
};

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	__u16 protocol; /* big endian */
	__u16 transport_header;
	__u16 network_header;
	unsigned int tail;
	unsigned char *head;
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport; /* big endian */
	__u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	int sk_err;
	__u16 sk_protocol;
};

struct inet_sock {
	__u16 inet_sport; /* big endian */
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
};

struct kernel_siginfo {
	int si_signo;
	int si_errno;
	int si_code;
};

struct sigaction {
	void *sa_handler;
	unsigned long sa_flags;
};

struct k_sigaction {
	struct sigaction sa;
};

struct timerqueue_node {
	__s64 expires;
};

struct hrtimer {
	struct timerqueue_node node;
	__s64 _softexpires;
	void *function;
};

#pragma clang attribute pop

#endif
