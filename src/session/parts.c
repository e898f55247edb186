/* SPDX-License-Identifier: MIT */
/*
 * The system calls of which more than numbers, strings and addresses are recorded, and the fields
 * that this gives. Names are LTTng's where it records the same.
 */
#include "session/parts.h"

#include <string.h>

/* The arguments are counted from 0. */
#define POLL(name)                                                                                 \
	{                                                                                          \
		name, {{RUT_PART_POLL, 0, 1}},                                                     \
		{                                                                                  \
			{                                                                          \
				RUT_PART_POLLED, 0, 1                                              \
			}                                                                          \
		}                                                                                  \
	}
#define EPOLL(name)                                                                                \
	{                                                                                          \
		name, {{0}},                                                                       \
		{                                                                                  \
			{                                                                          \
				RUT_PART_EPOLL, 1, 0                                               \
			}                                                                          \
		}                                                                                  \
	}
#define RECVMMSG(name)                                                                             \
	{                                                                                          \
		name, {{0}},                                                                       \
		{                                                                                  \
			{                                                                          \
				RUT_PART_MMSG_FROM, 1, 2                                           \
			}                                                                          \
		}                                                                                  \
	}
#define SETS                                                                                       \
	{                                                                                          \
		{RUT_PART_FDSET, 1, 0}, {RUT_PART_FDSET, 2, 0},                                    \
		{                                                                                  \
			RUT_PART_FDSET, 3, 0                                                       \
		}                                                                                  \
	}
#define SELECT(name)                                                                               \
	{                                                                                          \
		name, SETS, SETS                                                                   \
	}

static const struct {
	const char *name;
	struct rut_part entry[RUT_PARTS], exit[RUT_PARTS];
} calls[] = {
	{"execve", {{RUT_PART_ARGV, 1, 0}}, {{0}}},
	{"execveat", {{RUT_PART_ARGV, 2, 0}}, {{0}}},
	POLL("poll"),
	POLL("ppoll"),
	POLL("ppoll_time64"),
	SELECT("select"),
	SELECT("_newselect"),
	SELECT("pselect6"),
	SELECT("pselect6_time64"),
	EPOLL("epoll_wait"),
	EPOLL("epoll_pwait"),
	EPOLL("epoll_pwait2"),
	{"pipe", {{0}}, {{RUT_PART_PAIR, 0, 0}}},
	{"pipe2", {{0}}, {{RUT_PART_PAIR, 0, 0}}},
	{"socketpair", {{0}}, {{RUT_PART_PAIR, 3, 0}}},
	{"sendmsg", {{RUT_PART_MSG, 1, 0}}, {{0}}},
	{"recvmsg", {{0}}, {{RUT_PART_MSG, 1, 0}, {RUT_PART_RIGHTS, 1, 0}}},
	{"sendmmsg", {{RUT_PART_MMSG_TO, 1, 2}}, {{RUT_PART_MMSG_SENT, 1, 2}}},
	RECVMMSG("recvmmsg"),
	RECVMMSG("recvmmsg_time64"),
	{"socketcall", {{RUT_PART_SOCKETCALL, 1, 0}}, {{RUT_PART_SOCKETCALL_EXIT, 1, 0}}},
};

void rut_parts_describe(struct rut_syscall_desc *d, const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		if (strcmp(name, calls[i].name) != 0)
			continue;
		/* The old select of 32-bit programs. */
		if (calls[i].entry[0].kind == RUT_PART_FDSET && d->nargs == 1)
			d->flags |= RUT_SYSCALL_INDIRECT;
		memcpy(d->entry, calls[i].entry, sizeof(d->entry));
		memcpy(d->exit, calls[i].exit, sizeof(d->exit));
		/* The strings stand for their address, by its name. */
		if (d->entry[0].kind == RUT_PART_ARGV)
			d->skip |= (uint8_t)(1 << d->entry[0].arg);
		d->slow |= d->entry[0].kind != RUT_PART_NONE;
		d->slow_exit |= d->exit[0].kind != RUT_PART_NONE;
	}
}

static void add(struct rut_event *e, enum rut_field_kind kind, uint32_t count, const char *name)
{
	if (e->nfields < RUT_FIELDS_MAX)
		e->fields[e->nfields++] = (struct rut_field){kind, count, name};
}

void rut_parts_add_sockaddr(struct rut_event *e, const char *port)
{
	add(e, RUT_FK_U16, 0, "family");
	add(e, RUT_FK_BE16, 0, port);
	add(e, RUT_FK_LEN8, 0, "v4addr");
	add(e, RUT_FK_LEN8, 0, "v6addr");
	add(e, RUT_FK_SEQ_U8, 0, "v4addr");
	add(e, RUT_FK_SEQ_BE16, 0, "v6addr");
	add(e, RUT_FK_STR, 0, "sun_path");
}

/* A sequence of which some elements may be left out. */
static void add_list(struct rut_event *e, enum rut_field_kind kind, const char *name)
{
	add(e, RUT_FK_U8, 0, "overflow");
	add(e, RUT_FK_LEN8, 0, name);
	add(e, kind, 0, name);
}

void rut_parts_add_fields(struct rut_event *e, const struct rut_part parts[RUT_PARTS],
			  const char *call, bool exit)
{
	static const char *const sets[RUT_PARTS] = {"readfds", "writefds", "exceptfds"};

	for (size_t i = 0; i < RUT_PARTS; i++) {
		switch (parts[i].kind) {
		case RUT_PART_ARGV:
			add(e, RUT_FK_LEN8, 0, "argv");
			add(e, RUT_FK_SEQ_STR, 0, "argv");
			break;
		case RUT_PART_POLL:
		case RUT_PART_POLLED:
			add(e, RUT_FK_U8, 0, "overflow");
			add(e, RUT_FK_LEN8, 0, "fds");
			add(e, RUT_FK_SEQ_POLL, 0, "fds");
			break;
		case RUT_PART_FDSET:
			add(e, RUT_FK_LEN8, 0, sets[i]);
			add(e, RUT_FK_SEQ_X8, 0, sets[i]);
			break;
		case RUT_PART_EPOLL:
			add(e, RUT_FK_U8, 0, "overflow");
			add(e, RUT_FK_LEN8, 0, "fds");
			add(e, RUT_FK_SEQ_EPOLL, 0, "fds");
			break;
		case RUT_PART_PAIR:
			add(e, RUT_FK_ARRAY_S32, 2,
			    strcmp(call, "socketpair") != 0 ? "fildes" : "usockvec");
			break;
		case RUT_PART_MSG:
			rut_parts_add_sockaddr(e, exit ? "sport" : "dport");
			break;
		case RUT_PART_MMSG_TO:
			add_list(e, RUT_FK_SEQ_NAME, "msgs");
			break;
		case RUT_PART_MMSG_SENT:
			add_list(e, RUT_FK_SEQ_U32, "msg_len");
			break;
		case RUT_PART_MMSG_FROM:
			add_list(e, RUT_FK_SEQ_MSG, "msgs");
			break;
		case RUT_PART_SOCKETCALL:
			add(e, RUT_FK_LEN8, 0, "values");
			add(e, RUT_FK_SEQ_X32, 0, "values");
			rut_parts_add_sockaddr(e, "dport");
			break;
		case RUT_PART_SOCKETCALL_EXIT:
			rut_parts_add_sockaddr(e, "sport");
			add(e, RUT_FK_LEN8, 0, "usockvec");
			add(e, RUT_FK_SEQ_S32, 0, "usockvec");
			break;
		case RUT_PART_RIGHTS:
			add(e, RUT_FK_LEN8, 0, "rights");
			add(e, RUT_FK_SEQ_S32, 0, "rights");
			break;
		default:
			break;
		}
	}
}
