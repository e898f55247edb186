/* SPDX-License-Identifier: MIT */
#include "session/events.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "session/parts.h"

#define FIELD(kind, f) {RUT_FK_##kind, 0, #f},

#define FIELDS(sym, name, tp, group, fields)                                                       \
	static const struct rut_field fields_##sym[] = {fields(FIELD)};
RUT_KERNEL_EVENTS(FIELDS)
RUT_STATEDUMP_EVENTS(FIELDS)

static const struct {
	const char *name, *tracepoint, *group;
	const struct rut_field *fields;
	size_t nfields;
} table[RUT_EV_COUNT] = {
#define ROW(sym, name, tp, group, fields)                                                          \
	[RUT_EV_##sym] = {name, #tp, group, fields_##sym,                                          \
			  sizeof(fields_##sym) / sizeof(*fields_##sym)},
	RUT_KERNEL_EVENTS(ROW) RUT_STATEDUMP_EVENTS(ROW)};

static const struct {
	const char *name, *args;
} syscalls[RUT_SYSCALLS_MAX] = {
#define RUT_SYSCALL(nr, name, args) [nr] = {#name, args},
#include "session/syscalls_x86_64.h"
#undef RUT_SYSCALL
#define RUT_SYSCALL(nr, name, args) [RUT_SYSCALLS_COMPAT + (nr)] = {#name, args},
#include "session/syscalls_i386.h"
};

static bool is_compat(uint32_t nr)
{
	return nr >= RUT_SYSCALLS_COMPAT && nr != RUT_SYSCALL_ROW_OTHER;
}

/* Has this row an event of its own in the metadata? What has none is an unknown call. */
static bool has_event(uint32_t row, bool exit)
{
	return row < RUT_SYSCALLS_MAX && syscalls[row].name &&
	       (exit || syscalls[row].args[0] != '?');
}

/* The events for the rows that have none of their own. */
static bool is_unknown_call(uint32_t id)
{
	return id >= RUT_EV_SYSCALL_UNKNOWN && id <= RUT_EV_COMPAT_SYSCALL_EXIT_UNKNOWN;
}

const char rut_selection_default[] = "sched,irq,block,net,signal,syscall";

void rut_event_static(struct rut_event *ret, uint32_t id)
{
	*ret = (struct rut_event){
		.id = id,
		.name = table[id].name,
		.tracepoint = table[id].tracepoint,
		.group = table[id].group,
		.nfields = table[id].nfields,
	};
	memcpy(ret->fields, table[id].fields, ret->nfields * sizeof(*ret->fields));
	for (size_t i = 0; i < ret->nfields; i++)
		if (rut_field_kinds[ret->fields[i].kind].name)
			ret->fields[i].name = rut_field_kinds[ret->fields[i].kind].name;
}

const char *rut_syscall_name(uint32_t nr)
{
	return nr < RUT_SYSCALLS_MAX ? syscalls[nr].name : NULL;
}

/* Selection */

/* Events of our own (rutile_*) are made at a tracepoint, but are not its record. */
static bool is_of_tracepoint(uint32_t id, const char *pattern)
{
	return strncmp(table[id].name, "rutile_", 7) != 0 &&
	       !fnmatch(pattern, table[id].tracepoint, 0);
}

static bool select_event(struct rut_selection *sel, uint32_t id, const char *word, bool on)
{
	if (fnmatch(word, table[id].name, 0) != 0 && !is_of_tracepoint(id, word) &&
	    strcmp(word, table[id].group) != 0)
		return false;
	sel->events[id] = on;
	return true;
}

/*
 * The kernel makes these calls itself, in a program that is probed: they are the recorder's doing
 * more often than the program's, and are selected by their full names only.
 */
static bool is_of_probes(uint32_t nr)
{
	return !is_compat(nr) && syscalls[nr].name &&
	       (!strcmp(syscalls[nr].name, "uprobe") || !strcmp(syscalls[nr].name, "uretprobe"));
}

/*
 * "syscall:GLOB" means entry and exit, of 32-bit programs too; "syscall_entry_GLOB" and
 * "compat_syscall_entry_GLOB" one of them.
 */
static bool select_syscall(struct rut_selection *sel, uint32_t nr, const char *word, bool on)
{
	static const struct {
		const char *prefix;
		uint8_t bits;
		bool native, compat;
	} forms[] = {
		{"syscall:", RUT_SYSCALL_ENTRY | RUT_SYSCALL_EXIT, true, true},
		{"syscall_entry_", RUT_SYSCALL_ENTRY, true, false},
		{"syscall_exit_", RUT_SYSCALL_EXIT, true, false},
		{"compat_syscall_entry_", RUT_SYSCALL_ENTRY, false, true},
		{"compat_syscall_exit_", RUT_SYSCALL_EXIT, false, true},
	};
	char full[80];
	uint8_t bits = 0;

	if (!syscalls[nr].name)
		return false;
	if (on && is_of_probes(nr) && (!strcmp(word, "syscall") || strpbrk(word, "*?[")))
		return false;
	if (!strcmp(word, "syscall"))
		bits = RUT_SYSCALL_ENTRY | RUT_SYSCALL_EXIT;
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		if (is_compat(nr) ? !forms[i].compat : !forms[i].native)
			continue;
		snprintf(full, sizeof(full), "%s%s", forms[i].prefix, syscalls[nr].name);
		if (!fnmatch(word, full, 0))
			bits |= forms[i].bits;
	}
	/* The header's name too where the kernel's function has another ("stat", "newstat"). */
	if (!is_compat(nr) && !strncmp(syscalls[nr].name, "new", 3) &&
	    !strncmp(word, "syscall:", 8) && !fnmatch(word + 8, syscalls[nr].name + 3, 0))
		bits |= RUT_SYSCALL_ENTRY | RUT_SYSCALL_EXIT;
	if (on)
		sel->syscalls[nr] |= bits;
	else
		sel->syscalls[nr] &= (uint8_t)~bits;
	return bits;
}

/* Our groups are categories of the kernel's tracepoints, except one. */
static const char *category_of(uint32_t id)
{
	return strcmp(table[id].group, "mm") != 0 ? table[id].group : "kmem";
}

size_t rut_events_of_tracepoint(struct rut_buf *names, const char *prefix, const char *category,
				const char *pattern)
{
	size_t n = 0;

	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++)
		if (!strcmp(category, category_of(id)) && is_of_tracepoint(id, pattern))
			rut_buf_printf(names, "%s%s%s", n++ ? "," : "", prefix, table[id].name);
	return n;
}

static int select_word(struct rut_selection *sel, const char *word, struct rut_err *err)
{
	bool on = word[0] != '!', found = false;
	const char *name = on ? word : word + 1;
	const char *glob = !strcmp(name, "all")	       ? "*"
			   : !strcmp(name, "syscalls") ? "syscall"
						       : name;

	for (uint32_t id = 0; id < RUT_EV_SD_START; id++)
		found |= select_event(sel, id, glob, on);
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++)
		found |= select_syscall(sel, nr, glob[0] == '*' && !glob[1] ? "syscall" : glob, on);
	if (!found)
		return rut_err_set(err, ENOENT,
				   "no event is called '%s': 'rutile probes' lists them", name);
	return 0;
}

int rut_selection_add(struct rut_selection *sel, const char *spec, struct rut_err *err)
{
	_cleanup_free_ char *copy = strdup(spec);
	char *save = NULL;

	if (!copy)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (char *w = strtok_r(copy, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		int r = select_word(sel, w, err);

		if (r < 0)
			return r;
	}
	return 0;
}

uint8_t rut_selection_syscall(const struct rut_selection *sel, uint32_t row)
{
	uint32_t entry = is_compat(row) ? RUT_EV_COMPAT_SYSCALL_UNKNOWN : RUT_EV_SYSCALL_UNKNOWN;
	uint32_t exit =
		is_compat(row) ? RUT_EV_COMPAT_SYSCALL_EXIT_UNKNOWN : RUT_EV_SYSCALL_EXIT_UNKNOWN;
	uint8_t bits = row < RUT_SYSCALLS_MAX ? sel->syscalls[row] : 0;

	/* By its own name or as one of those that have none. */
	if (!has_event(row, false) && sel->events[entry])
		bits |= RUT_SYSCALL_ENTRY;
	if (!has_event(row, true) && sel->events[exit])
		bits |= RUT_SYSCALL_EXIT;
	return bits;
}

bool rut_selection_any_syscall(const struct rut_selection *sel)
{
	for (uint32_t i = 0; i < RUT_SYSCALL_ROWS; i++)
		if (rut_selection_syscall(sel, i))
			return true;
	return false;
}

void rut_selection_set_syscalls(struct rut_selection *sel, const struct rut_selection *from)
{
	static const struct rut_selection none;

	if (!from)
		from = &none;
	memcpy(sel->syscalls, from->syscalls, sizeof(sel->syscalls));
	for (uint32_t id = RUT_EV_SYSCALL_UNKNOWN; is_unknown_call(id); id++)
		sel->events[id] = from->events[id];
}

bool rut_selection_any(const struct rut_selection *sel)
{
	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++)
		if (sel->events[id])
			return true;
	return rut_selection_any_syscall(sel);
}

/* The syscalls' tracepoints go with CONFIG_FTRACE_SYSCALLS. */
static int drop_syscalls(struct rut_selection *sel, bool strict, struct rut_err *err)
{
	if (strict)
		return rut_err_set(err, ENOENT, "this kernel has no tracepoints of system calls");
	rut_warn("'syscall' is not recorded: this kernel has no tracepoints of system calls");
	rut_selection_set_syscalls(sel, NULL);
	return 0;
}

int rut_selection_drop_missing(struct rut_selection *sel, const struct rut_strtab *tracepoints,
			       bool strict, struct rut_err *err)
{
	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		const char *tp = table[id].tracepoint;

		if (!sel->events[id] || rut_strtab_find(tracepoints, tp, strlen(tp)) >= 0)
			continue;
		if (strict)
			return rut_err_set(err, ENOENT,
					   "this kernel has no tracepoint '%s' for '%s'", tp,
					   table[id].name);
		rut_warn("'%s' is not recorded: this kernel has no tracepoint '%s'", table[id].name,
			 tp);
		sel->events[id] = false;
	}
	if (rut_selection_any_syscall(sel) && (rut_strtab_find(tracepoints, "sys_enter", 9) < 0 ||
					       rut_strtab_find(tracepoints, "sys_exit", 8) < 0))
		return drop_syscalls(sel, strict, err);
	return 0;
}

int rut_selection_drop_all(struct rut_selection *sel, const char *why, bool strict,
			   struct rut_err *err)
{
	char names[400] = "";
	size_t len = 0, more = 0;

	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		if (!sel->events[id])
			continue;
		if (len + strlen(table[id].name) + 40 < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
						len ? ", " : "", table[id].name);
		else
			more++;
	}
	if (rut_selection_any_syscall(sel) && len + 12 < sizeof(names))
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%ssyscall",
					len ? ", " : "");
	if (!len)
		return 0;
	if (more)
		snprintf(names + len, sizeof(names) - len, " and %zu more", more);
	if (strict)
		return rut_err_set(err, ENOENT, "%s: '%s' cannot be recorded", why, names);
	rut_warn("%s: '%s' %s not recorded", why, names, strchr(names, ',') ? "are" : "is");
	memset(sel->events, 0, RUT_EV_SYSCALL_UNKNOWN * sizeof(*sel->events));
	rut_selection_set_syscalls(sel, NULL);
	return 0;
}

/* System calls */

/* Walks "i fd,x buf": the kind letter, and the name in `name`. Returns the rest or NULL. */
static const char *next_arg(const char *args, char *kind, char name[32])
{
	size_t len;

	if (!*args || *args == '?')
		return NULL;
	*kind = args[0];
	args += 2;
	len = strcspn(args, ",");
	snprintf(name, 32, "%.*s", (int)len, args);
	args += len;
	return *args ? args + 1 : args;
}

void rut_syscall_describe(struct rut_syscall_desc *ret, uint32_t nr)
{
	const char *args = has_event(nr, false) ? syscalls[nr].args : NULL;
	struct rut_syscall_desc d = {0};
	char kind, name[32];
	int nstr = 0;

	if (has_event(nr, true))
		d.exit_id = (uint16_t)(RUT_ID_SYSCALL_EXIT + nr);
	if (args) {
		d.entry_id = (uint16_t)(RUT_ID_SYSCALL_ENTRY + nr);
		for (; (args = next_arg(args, &kind, name)); d.nargs++) {
			uint8_t bit = (uint8_t)(1 << d.nargs);

			if (kind == 'i' || kind == 'u' || is_compat(nr))
				d.narrow |= bit;
			if (kind == 'i' || kind == 'l')
				d.negative |= bit;
			if (kind == 's' && nstr < 3)
				d.str[nstr++] = (uint8_t)(d.nargs + 1);
			if (kind == 'a')
				d.sock = (uint8_t)(d.nargs + 1);
			if (kind == 'A')
				d.peer = (uint8_t)(d.nargs + 1);
			if (kind == 's' || kind == 'a')
				d.skip |= bit;
		}
		d.slow = d.skip != 0 || is_compat(nr);
		d.slow_exit = d.peer != 0;
		if (!strncmp(syscalls[nr].name, "execve", 6))
			d.flags |= RUT_SYSCALL_EXEC;
		if (is_of_probes(nr))
			d.flags |= RUT_SYSCALL_NUMBERLESS;
		rut_parts_describe(&d, syscalls[nr].name);
	}
	d.slow_exit |= is_compat(nr);
	*ret = d;
}

static void add_field(struct rut_event *e, enum rut_field_kind kind, const char *name)
{
	if (e->nfields < RUT_FIELDS_MAX)
		e->fields[e->nfields++] = (struct rut_field){kind, 0, name};
}

static enum rut_field_kind kind_of(char letter)
{
	switch (letter) {
	case 'i':
	case 'l':
		return RUT_FK_S64;
	case 'x':
	case 'A':
		return RUT_FK_X64;
	default:
		return RUT_FK_U64;
	}
}

static void describe_entry(struct rut_syscall_event *c, uint32_t nr)
{
	const char *args = syscalls[nr].args;
	char kind, kinds[8] = {0};
	struct rut_syscall_desc d;
	bool sock = false;
	int n = 0;

	for (; n < 8 && (args = next_arg(args, &kind, c->names[n])); n++)
		kinds[n] = kind;
	rut_syscall_describe(&d, nr);
	for (int i = 0; i < n; i++)
		if (!(d.skip >> i & 1)) {
			add_field(&c->event, kind_of(kinds[i]), c->names[i]);
			/* 32 bits in 64: for filters, which know then that there is no sign bit. */
			c->event.fields[c->event.nfields - 1].count =
				kinds[i] == 'u' || is_compat(nr) ? 4 : 0;
		}
	for (int i = 0; i < n; i++) {
		if (kinds[i] == 's')
			add_field(&c->event, RUT_FK_STR, c->names[i]);
		sock |= kinds[i] == 'a';
	}
	if (sock)
		rut_parts_add_sockaddr(&c->event, "dport");
	rut_parts_add_fields(&c->event, d.entry, syscalls[nr].name, false);
}

static void describe_exit(struct rut_syscall_event *c, uint32_t nr)
{
	struct rut_syscall_desc d;

	add_field(&c->event, RUT_FK_S64, "ret");
	rut_syscall_describe(&d, nr);
	if (d.peer)
		rut_parts_add_sockaddr(&c->event, "sport");
	rut_parts_add_fields(&c->event, d.exit, syscalls[nr].name, true);
}

bool rut_event_syscall(struct rut_syscall_event *ret, uint32_t nr, bool exit)
{
	if (!has_event(nr, exit))
		return false;
	snprintf(ret->title, sizeof(ret->title), "%ssyscall_%s_%s", is_compat(nr) ? "compat_" : "",
		 exit ? "exit" : "entry", syscalls[nr].name);
	ret->event = (struct rut_event){
		.id = (exit ? RUT_ID_SYSCALL_EXIT : RUT_ID_SYSCALL_ENTRY) + nr,
		.name = ret->title,
	};
	if (exit)
		describe_exit(ret, nr);
	else
		describe_entry(ret, nr);
	return true;
}

static void write_syscalls(struct rut_buf *out, const struct rut_selection *sel, bool compat)
{
	const uint32_t end = compat ? RUT_SYSCALLS_MAX : RUT_SYSCALLS_COMPAT;
	struct rut_syscall_event call;

	for (uint32_t nr = 0; nr < end; nr++) {
		if (sel->syscalls[nr] & RUT_SYSCALL_ENTRY && rut_event_syscall(&call, nr, false))
			rut_metadata_event(out, &call.event);
		if (sel->syscalls[nr] & RUT_SYSCALL_EXIT && rut_event_syscall(&call, nr, true))
			rut_metadata_event(out, &call.event);
	}
}

/* Which static events the metadata describes: the selected ones, and what comes with them. */
static bool described(const struct rut_metadata *m, uint32_t id)
{
	const struct rut_selection *sel = m->selection;
	bool compat =
		id == RUT_EV_COMPAT_SYSCALL_UNKNOWN || id == RUT_EV_COMPAT_SYSCALL_EXIT_UNKNOWN;

	if (id >= RUT_EV_SD_START)
		return true;
	if (is_unknown_call(id))
		return (m->compat || !compat) && rut_selection_any_syscall(sel);
	return sel->events[id];
}

void rut_metadata_write_events(struct rut_buf *out, const struct rut_metadata *m)
{
	struct rut_event e;

	for (uint32_t id = 0; id < RUT_EV_COUNT; id++) {
		if (!described(m, id))
			continue;
		rut_event_static(&e, id);
		rut_metadata_event(out, &e);
	}
	write_syscalls(out, m->selection, m->compat);
}
