/* SPDX-License-Identifier: MIT */
/* The tool's side of a control page (ctl.h): listing and switching another process's probes. */
#ifndef RUT_USDT_REMOTE_H
#define RUT_USDT_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "usdt/ctl.h"

struct rut_err;

struct rut_usdt_remote {
	pid_t pid;
	uint64_t ino; /* of the page's memfd */
	/* owned; shared with a process that may write anything into it */
	struct rut_usdt_ctl *page;
};

/* One probe, copied and checked. */
struct rut_usdt_info {
	unsigned slot;
	uint32_t serial;
	char provider[RUTILE_USDT_NAME_MAX + 1];
	char name[RUTILE_USDT_NAME_MAX + 1];
	char arg_names[RUTILE_USDT_ARG_NAMES_MAX + 1]; /* with commas between them; "": none */
	enum rutile_usdt_type types[RUTILE_USDT_MAX_ARGS];
	unsigned n_types;
	bool loaded, on, deferred;
	int tracers;   /* of the kernel; -1: not known */
	uint64_t gate; /* address in the process; 0: not loaded */
	int fd;	       /* /proc/PID/fd/FD is the file that tracers open; -1: none */
	uint64_t counts[RUTILE_USDT_COUNTS];
};

/*
 * Opens the control page of a process. -ENOENT: it has none; -EACCES, -EPERM: it belongs to another
 * user; -ESRCH: there is no such process; -EPROTO: another version of the page.
 */
int rut_usdt_remote_open(struct rut_usdt_remote *ret, pid_t pid, struct rut_err *err);
/* The same with a descriptor of the page, which stays the caller's. */
int rut_usdt_remote_map(struct rut_usdt_remote *ret, pid_t pid, int fd, struct rut_err *err);
void rut_usdt_remote_fini(struct rut_usdt_remote *r);

/* What a slot of a page holds or held, copied and checked. */
void rut_usdt_info_of(const struct rut_usdt_ctl *page, unsigned i, struct rut_usdt_info *ret);

/* All probes in order of declaration; the caller frees *ret. */
int rut_usdt_remote_list(const struct rut_usdt_remote *r, struct rut_usdt_info **ret,
			 size_t *ret_count);

/* Asks for one probe to be switched; rut_usdt_remote_commit() sends what was asked. */
void rut_usdt_remote_ask(struct rut_usdt_remote *r, const struct rut_usdt_info *probe, bool on);

/*
 * Wakes the process and waits until it has done everything. -ETIMEDOUT: it did not within the time;
 * the wishes stay and are fulfilled as soon as it can. -ESRCH: it ended.
 */
int rut_usdt_remote_commit(struct rut_usdt_remote *r, unsigned timeout_ms);

/* Memory that its process cannot cut off while it is mapped here. */
bool rut_usdt_is_sealed(int fd);

/* "int64", "string" ...; "?" for what this version does not know. */
const char *rut_usdt_type_name(enum rutile_usdt_type type);

#endif
