/* SPDX-License-Identifier: MIT */
#include "session/dynamic.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "bpf/probe.h"
#include "probe.skel.h"
#include "probe_filter.skel.h"
#include "probe_typed.skel.h"
#include "probe_typed_filter.skel.h"
#include "probe/arg.h"
#include "base/buf.h"
#include "probe/binary.h"
#include "probe/dwarf_args.h"
#include "probe/nop5.h"
#include "session/budget.h"
#include "session/kernel.h"
#include "session/programs.h"
#include "session/sites.h"
#include "session/tracefs.h"

/* An event in the making: what is loaded, and how it is described. */
struct building {
	struct rut_recorder *r;
	struct rut_probe_conf conf;
	struct rut_event event;
	char title[256];
	struct rut_arg_spec specs[RUT_PROBE_ARGS];
	const char *spec;	/* as the user wrote it */
	bool again;		/* described already: only attach */
	bool known;		/* the metadata has this very class already */
	struct bpf_object *obj; /* owned until it is kept */
};

static int no_memory(struct rut_err *err)
{
	return rut_err_set(err, ENOMEM, "out of memory");
}

static int too_many(size_t n, struct rut_err *err)
{
	return rut_err_set(err, E2BIG, "%zu more: a session has at most %d events added by name", n,
			   RUT_META_DYNAMIC_MAX);
}

/* What is no tracepoint of the kernel begins with one of these. */
static bool has_kind(const char *word)
{
	static const char *const kinds[] = {"usdt:", "uprobe:", "uretprobe:", "profile:", "tp:"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strncmp(word, kinds[i], strlen(kinds[i])))
			return true;
	return false;
}

int rut_dynamic_split(const char *word, struct rut_buf *names)
{
	const char *colon = strchr(word, ':'), *start = word + (*word == '!');
	char category[64];
	size_t n;

	if (!colon || !strncmp(word, "syscall:", 8) || !strncmp(word, "!syscall:", 9)) {
		rut_buf_puts(names, word);
		return names->failed ? -ENOMEM : 0;
	}
	if (has_kind(word))
		return 1;
	snprintf(category, sizeof(category), "%.*s", (int)(colon - start), start);
	n = rut_events_of_tracepoint(names, start > word ? "!" : "", category, colon + 1);
	if (names->failed)
		return -ENOMEM;
	return !n || strpbrk(colon, "*?[") != NULL;
}

const char *rut_dynamic_next_word(const char *list, char *word, size_t size)
{
	size_t n = 0;
	int depth = 0;

	list += strspn(list, ", ");
	if (!*list)
		return NULL;
	for (; *list && (depth || !strchr(", ", *list)); list++) {
		depth += *list == '(' ? 1 : *list == ')' && depth ? -1 : 0;
		if (n + 1 < size)
			word[n++] = *list;
	}
	word[n] = '\0';
	return list;
}

static int add_probe(struct rut_record_conf *conf, const char *word, struct rut_err *err)
{
	for (size_t i = 0; i < RUT_PROBES_MAX; i++) {
		if (conf->probes[i][0])
			continue;
		if (strlen(word) >= sizeof(conf->probes[i]))
			return rut_err_set(err, ENAMETOOLONG, "'%s' is too long", word);
		snprintf(conf->probes[i], sizeof(conf->probes[i]), "%s", word);
		return 0;
	}
	return rut_err_set(err, E2BIG, "more than %d probes: use globs", RUT_PROBES_MAX);
}

bool rut_dynamic_wants_stack(char *word)
{
	static const char *const ends[] = {":ruby-stack", ":ruby_stack"};
	size_t len = strlen(word);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t n = strlen(ends[i]);

		if (len > n && !strcmp(word + len - n, ends[i])) {
			word[len - n] = '\0';
			return true;
		}
	}
	return false;
}

/* Those of ours are kept by their names, those added by name as they were written. */
static int add_stack(struct rut_record_conf *conf, const char *word, const char *names, int more,
		     struct rut_err *err)
{
	size_t len = strlen(conf->rstack), room = sizeof(conf->rstack) - len;

	if ((size_t)snprintf(conf->rstack + len, room, "%s%s%s%s", len ? "," : "",
			     names ? names : "", names && more ? "," : "",
			     more ? word : "") >= room)
		return rut_err_set(err, E2BIG,
				   "too many events with ':ruby-stack': use globs, or "
				   "--context ruby_stack");
	conf->contexts |= RUT_CTX_RSTACK;
	return 0;
}

/* Without its arguments, which debug information may have added. */
bool rut_dynamic_is(const char *word, const char *spec)
{
	char plain[256];

	snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(spec, "("), spec);
	return !strcmp(word, spec) || !fnmatch(word, spec, 0) ||
	       (!strchr(word, '(') && !fnmatch(word, plain, 0));
}

static void set_bit(__u64 set[RUT_EVENT_WORDS], uint32_t id)
{
	set[id / 64 % RUT_EVENT_WORDS] |= 1ull << id % 64;
}

bool rut_dynamic_stacks(const struct rut_record_conf *conf, uint32_t id, const char *spec,
			__u64 ret[RUT_EVENT_WORDS])
{
	struct rut_selection sel = {0};
	const char *list = conf->rstack;
	char word[512];

	memset(ret, 0, RUT_EVENT_WORDS * sizeof(*ret));
	if (!*list || conf->rstack_all || !(conf->contexts & RUT_CTX_RSTACK))
		return false;
	while ((list = rut_dynamic_next_word(list, word, sizeof(word)))) {
		if (has_kind(word) || (strchr(word, ':') && strncmp(word, "syscall:", 8) != 0)) {
			if (spec && rut_dynamic_is(word, spec))
				set_bit(ret, id);
		} else {
			rut_selection_add(&sel, word, NULL);
		}
	}
	for (uint32_t i = 0; i < RUT_EV_COUNT; i++)
		if (sel.events[i])
			set_bit(ret, i);
	for (uint32_t nr = 0; nr < RUT_SYSCALLS_MAX; nr++) {
		if (sel.syscalls[nr] & RUT_SYSCALL_ENTRY)
			set_bit(ret, RUT_ID_SYSCALL_ENTRY + nr);
		if (sel.syscalls[nr] & RUT_SYSCALL_EXIT)
			set_bit(ret, RUT_ID_SYSCALL_EXIT + nr);
	}
	return true;
}

int rut_conf_add_events(struct rut_record_conf *conf, const char *list, struct rut_err *err)
{
	char word[512];
	int rc = 0;

	while (!rc && (list = rut_dynamic_next_word(list, word, sizeof(word)))) {
		_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;
		bool stack = rut_dynamic_wants_stack(word);
		int more = rut_dynamic_split(word, &names);

		if (more < 0)
			return no_memory(err);
		if (stack)
			rc = add_stack(conf, word, names.data, more, err);
		if (names.len && !rc)
			rc = rut_selection_add(&conf->selection, names.data, err);
		if (more && !rc)
			rc = add_probe(conf, word, err);
	}
	return rc;
}

/* The object's bytes; with a filter a copy of the other object, into which the filter is put. */
static const void *object_bytes(struct building *b, size_t *ret_size, struct rut_filter *filter,
				void **ret_copy, struct rut_err *err)
{
	struct rut_recorder *r = b->r;
	bool typed = r->conf.contexts & RUT_CTX_TYPED;
	const void *data;

	if (!r->conf.filter[0])
		return typed ? rut_probe_typed_bpf__elf_bytes(ret_size)
			     : rut_probe_bpf__elf_bytes(ret_size);
	data = typed ? rut_probe_typed_filter_bpf__elf_bytes(ret_size)
		     : rut_probe_filter_bpf__elf_bytes(ret_size);
	*ret_copy = malloc(*ret_size);
	if (!*ret_copy) {
		no_memory(err);
		return NULL;
	}
	memcpy(*ret_copy, data, *ret_size);
	b->event.name = b->title;
	if (rut_filter_compile_event(filter, r->conf.filter, &b->event, r->conf.contexts,
				     &r->filter_names, err) < 0 ||
	    rut_filter_patch(filter, *ret_copy, *ret_size, err) < 0)
		return NULL;
	return *ret_copy;
}

/* Where the shared metadata describes an event of that name, or NULL. */
static const char *find_class(const struct rut_session_meta *m, const char *name, uint32_t *ret_id)
{
	const char *text = (const char *)m + RUT_META_DYNAMIC_OFFSET, *at;
	char head[300];
	int len = snprintf(head, sizeof(head), "event {\n\tname = \"%s\";\n\tid = ", name);

	at = memmem(text, m->dynamic_len, head, (size_t)len);
	if (at)
		*ret_id = (uint32_t)strtoul(at + len, NULL, 10);
	return at;
}

/* The words of the event of that id, or NULL when it is not recorded now. */
static const char *active_spec(const struct rut_session_meta *m, uint32_t id)
{
	for (uint32_t i = 0; i < m->ndynamic; i++)
		if (m->dynamic[i].id == id)
			return m->dynamic[i].spec;
	return NULL;
}

/*
 * No two classes have one name, or no reader could tell their events apart. What was removed and
 * comes again is the class that it was; something else of that name gets a number behind it.
 */
static int settle_name(struct building *b, struct rut_err *err)
{
	const struct rut_session_meta *m = b->r->meta;
	const char *end = (const char *)m + RUT_META_DYNAMIC_OFFSET + m->dynamic_len;
	char plain[sizeof(b->title)];

	snprintf(plain, sizeof(plain), "%s", b->title);
	for (unsigned int n = 2; !b->again; n++) {
		_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
		uint32_t id = 0;
		const char *at = find_class(m, b->title, &id);
		const char *spec = at ? active_spec(m, id) : NULL;

		if (!at)
			return 0;
		if (spec && !strcmp(spec, b->spec))
			return rut_err_set(err, EEXIST, "'%s' is recorded already", b->spec);
		b->event.id = id;
		b->event.name = b->title;
		rut_metadata_event(&text, &b->event);
		if (text.failed)
			return no_memory(err);
		if (!spec && text.len <= (size_t)(end - at) && !memcmp(at, text.data, text.len)) {
			b->conf.id = id;
			b->known = true;
			return 0;
		}
		snprintf(b->title, sizeof(b->title), "%.240s#%u", plain, n);
	}
	return 0;
}

/* By which the object of an event is found again. */
static void object_name(char ret[24], uint32_t id)
{
	snprintf(ret, 24, "rutile_%u", id);
}

/* Loads the object with one of its programs. */
static int load(struct building *b, const char *program, struct bpf_program **ret,
		struct rut_err *err)
{
	char name[24];
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = name);
	struct rut_bpf_conf *conf;
	uint32_t *in_program;
	void *probe_conf;
	struct bpf_program *prog;
	struct bpf_map *map;
	_cleanup_(rut_filter_fini)
	struct rut_filter filter = {0};
	_cleanup_free_ void *copy = NULL;
	size_t size = 0;
	const void *data;
	int rc = settle_name(b, err);

	if (rc)
		return rc;
	data = object_bytes(b, &size, &filter, &copy, err);
	if (!data)
		return -err->code;
	object_name(name, b->conf.id);
	b->obj = bpf_object__open_mem(data, size, &opts);
	if (!b->obj)
		return rut_err_errno(err, errno, "cannot open the programs");
	bpf_object__for_each_program(prog, b->obj)
	{
		bool wanted = !strcmp(bpf_program__name(prog), program);

		bpf_program__set_autoload(prog, wanted);
		/* Where it is attached is said by the caller. */
		bpf_program__set_autoattach(prog, false);
		if (wanted)
			*ret = prog;
	}
	conf = rut_programs_constant(b->obj, "conf");
	probe_conf = rut_programs_constant(b->obj, "probe_conf");
	if (!conf || !probe_conf)
		return rut_err_set(err, EPROTO, "the programs have no constants");
	rc = rut_programs_prepare(b->r, b->obj, conf, err);
	if (rc)
		return rc;
	memcpy(probe_conf, &b->conf, sizeof(b->conf));
	conf->rstack_some =
		rut_dynamic_stacks(&b->r->conf, b->conf.id, b->spec, conf->rstack_events);
	in_program = rut_programs_constant(b->obj, "rut_in_program");
	if (in_program)
		*in_program = !strcmp(program, "on_probe");
	map = bpf_object__find_map_by_name(b->obj, "sites");
	if (strcmp(program, "on_probe") != 0)
		bpf_map__set_max_entries(map, 1);
	rc = bpf_object__load(b->obj);
	if (rc < 0)
		return rc == -EPERM
			       ? rut_kernel_no_privilege(err)
			       : rut_err_errno(err, -rc, "the kernel refuses the program of '%s'",
					       b->title);
	return rut_programs_fill_classes(b->obj, &filter, err);
}

/* Describes the event in the shared metadata, and remembers how to attach it again. */
static int describe(struct building *b, struct rut_err *err)
{
	struct rut_session_meta *m = b->r->meta;
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (b->again)
		return 0;
	b->event.id = b->conf.id;
	b->event.name = b->title;
	if (!b->known)
		rut_metadata_event(&text, &b->event);
	if (text.failed)
		return no_memory(err);
	if (strlen(b->spec) >= sizeof(m->dynamic->spec))
		return rut_err_set(err, ENAMETOOLONG, "'%s' is too long", b->spec);
	if (m->dynamic_len + text.len > RUT_META_PAGES_OFFSET - RUT_META_DYNAMIC_OFFSET ||
	    m->ndynamic == RUT_META_DYNAMIC_MAX)
		return too_many(1, err);
	if (text.len)
		memcpy((char *)m + RUT_META_DYNAMIC_OFFSET + m->dynamic_len, text.data, text.len);
	m->dynamic_len += (uint32_t)text.len;
	m->dynamic[m->ndynamic].id = b->conf.id;
	snprintf(m->dynamic[m->ndynamic].spec, sizeof(m->dynamic->spec), "%s", b->spec);
	m->ndynamic++;
	rut_budget_name(b->r, b->conf.id, b->title, b->spec);
	return 0;
}

static int keep_link(struct building *b, struct bpf_link *link, size_t i, struct rut_err *err)
{
	char name[64];

	snprintf(name, sizeof(name), "dyn:%u:%zu", b->conf.id, i);
	if (rut_programs_keep_link(b->r, link, name) == 0)
		return 0;
	bpf_link__destroy(link);
	return no_memory(err);
}

/* What was attached to some of its places would record; nor must a later start try it again. */
static void undo(struct building *b)
{
	struct rut_session_meta *m = b->r->meta;
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "dyn:%u:", b->conf.id);
	rut_programs_drop_links(b->r, prefix);
	for (uint32_t i = 0; i < m->ndynamic && !b->again; i++)
		if (m->dynamic[i].id == b->conf.id)
			m->dynamic[i].id = 0;
}

static int finish(struct building *b, int rc)
{
	if (!rc && rut_programs_keep(b->r, b->obj) == 0)
		return 0;
	undo(b);
	bpf_object__close(b->obj);
	return rc ? rc : -ENOMEM;
}

static void add_field(struct building *b, enum rut_field_kind kind, uint32_t count,
		      const char *name)
{
	if (b->event.nfields < RUT_FIELDS_MAX)
		b->event.fields[b->event.nfields++] = (struct rut_field){kind, count, name};
}

static void begin(struct building *b, struct rut_recorder *r, const char *spec, uint32_t id)
{
	*b = (struct building){.r = r, .spec = spec, .again = id != 0};
	b->conf.id = id ? id : r->meta->next_dynamic++;
}

/* What the user says of the arguments. `args` is the text behind the parenthesis, or NULL. */
static int name_arguments(struct building *b, const char *args, uint32_t *count,
			  struct rut_err *err)
{
	int n = rut_arg_specs_parse(args, b->specs, err);

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		if (b->specs[i].type == RUT_TYPE_STR)
			b->conf.strings |= 1u << i;
	if ((uint32_t)n > *count)
		*count = (uint32_t)n;
	return 0;
}

/* A number without a type has eight bytes, whatever was read of it. */
static enum rut_field_kind kind_of(const struct rut_arg_spec *spec, const struct rut_probe_arg *a)
{
	static const enum rut_field_kind kinds[] = {
		[RUT_TYPE_U8] = RUT_FK_U8,   [RUT_TYPE_U16] = RUT_FK_U16,
		[RUT_TYPE_U32] = RUT_FK_U32, [RUT_TYPE_U64] = RUT_FK_U64,
		[RUT_TYPE_S8] = RUT_FK_S8,   [RUT_TYPE_S16] = RUT_FK_S16,
		[RUT_TYPE_S32] = RUT_FK_S32, [RUT_TYPE_S64] = RUT_FK_S64,
		[RUT_TYPE_X8] = RUT_FK_X8,   [RUT_TYPE_X16] = RUT_FK_X16,
		[RUT_TYPE_X32] = RUT_FK_X32, [RUT_TYPE_X64] = RUT_FK_X64,
		[RUT_TYPE_F32] = RUT_FK_F32, [RUT_TYPE_F64] = RUT_FK_F64,
	};

	if (spec->type != RUT_TYPE_NONE)
		return kinds[spec->type];
	if (a->form == RUT_ARG_FLOAT)
		return a->bytes == 4 ? RUT_FK_F32 : RUT_FK_F64;
	return a->form == RUT_ARG_SIGNED ? RUT_FK_S64 : RUT_FK_U64;
}

static uint8_t size_of(const struct rut_arg_spec *spec, const struct rut_probe_arg *a)
{
	if (spec->type != RUT_TYPE_NONE)
		return (uint8_t)rut_arg_type_bytes(spec->type);
	return a->form == RUT_ARG_FLOAT ? a->bytes : 8;
}

/* The payload: numbers first, then strings. */
static void describe_arguments(struct building *b, const struct rut_probe_arg *args)
{
	for (uint32_t i = 0; i < b->conf.nargs; i++) {
		if (!b->specs[i].name[0])
			snprintf(b->specs[i].name, sizeof(b->specs[i].name), "arg%u", i);
		b->conf.size[i] = size_of(&b->specs[i], &args[i]);
	}
	for (uint32_t i = 0; i < b->conf.nargs; i++)
		if (!(b->conf.strings >> i & 1))
			add_field(b, kind_of(&b->specs[i], &args[i]), 0, b->specs[i].name);
	for (uint32_t i = 0; i < b->conf.nargs; i++)
		if (b->conf.strings >> i & 1)
			add_field(b, RUT_FK_STR, 0, b->specs[i].name);
}

static int attach_sites(struct building *b, const struct rut_site *sites,
			const struct rut_probe_site *args, size_t n, int pid, bool ret,
			struct rut_err *err)
{
	struct bpf_program *prog = NULL;
	int rc = load(b, "on_probe", &prog, err);
	int fd = rc ? -1 : bpf_object__find_map_fd_by_name(b->obj, "sites");

	for (size_t i = 0; i < n && !rc; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = i,
			    .ref_ctr_offset = sites[i].semaphore, .retprobe = ret);
		_cleanup_close_ int guard = -1;
		uint32_t key = (uint32_t)i;
		struct bpf_link *link;

		if (bpf_map_update_elem(fd, &key, &args[i], BPF_ANY) < 0)
			rc = rut_err_errno(err, errno, "cannot describe the arguments");
		if (!rc)
			rc = i ? 0 : describe(b, err);
		if (rc)
			break;
		if (b->r->load_only)
			continue;
		rc = rut_nop5_guard(sites[i].path, sites[i].offset, sites[i].semaphore, &guard,
				    err);
		if (rc)
			break;
		link = bpf_program__attach_uprobe_opts(prog, pid > 0 ? pid : -1, sites[i].path,
						       sites[i].offset, &opts);
		if (!link)
			rc = rut_err_errno(err, errno, "cannot attach to '%s' at 0x%llx",
					   sites[i].path, (unsigned long long)sites[i].offset);
		else
			rc = keep_link(b, link, i, err);
	}
	return finish(b, rc);
}

/* "usdt:A:B:C(...)" -> its parts; at most `max`, the last one up to the parenthesis. */
static int split(char *text, char *parts[], int max)
{
	char *paren = strchr(text, '(');
	int n = 0;

	if (paren)
		*paren = '\0';
	while (n < max) {
		char *colon = n < max - 1 ? strchr(text, ':') : NULL;

		parts[n++] = text;
		if (!colon)
			break;
		*colon = '\0';
		text = colon + 1;
	}
	parts[n] = paren ? paren + 1 : NULL;
	return n;
}

/* Symbols in a probe's arguments: how far they are from its instruction. */
struct symbols {
	const char *path;
	uint64_t address;
};

static int resolve(const char *symbol, size_t len, int64_t *ret_distance, void *arg)
{
	const struct symbols *s = arg;
	struct rut_err ignored = RUT_ERR_INIT;
	char name[256];
	uint64_t address;
	int rc;

	if (len >= sizeof(name))
		return -ENAMETOOLONG;
	snprintf(name, sizeof(name), "%.*s", (int)len, symbol);
	rc = rut_elf_address(s->path, name, &address, &ignored);
	*ret_distance = (int64_t)(address - s->address);
	return rc;
}

/* The arguments of each site, and how many there are at most. */
static int parse_arguments(const struct rut_site *sites, size_t n, struct rut_probe_site *ret,
			   uint32_t *ret_count, struct rut_err *err)
{
	*ret_count = 0;
	for (size_t i = 0; i < n; i++) {
		struct symbols at = {sites[i].path, sites[i].address};
		int count = rut_arg_parse_at(sites[i].args, ret[i].args, resolve, &at, err);

		if (count < 0)
			return count;
		if ((uint32_t)count > *ret_count)
			*ret_count = (uint32_t)count;
	}
	return 0;
}

/* What the user wrote: its parts, and whether it is a pattern of several probes. */
struct words {
	char *text; /* owned; the parts point into it */
	char *parts[5];
	const char *arguments; /* behind the parenthesis, or NULL */
	bool glob;
	/* Of functions: */
	struct rut_dwarf *dwarf;  /* of the file that was looked at last; owned, or NULL */
	char looked_at[512];	  /* that file */
	struct rut_buf described; /* arguments by debug information */
};

#define SPEC_MAX 1024

/* The words that mean one probe alone, up to its arguments: with them it is added again. */
static size_t write_spec(char ret[SPEC_MAX], const struct words *w, const struct rut_site *site)
{
	const char *offset = w->parts[3];

	if (site->provider[0])
		return (size_t)snprintf(ret, SPEC_MAX, "usdt:%s:%s:%s", w->parts[1], site->provider,
					site->name);
	return (size_t)snprintf(ret, SPEC_MAX, "%s:%s:%s%s%s", w->parts[0], w->parts[1], site->name,
				offset ? "+" : "", offset ? offset : "");
}

static void add_arguments(char spec[SPEC_MAX], const struct words *w)
{
	size_t len = strlen(spec);

	if (w->arguments)
		snprintf(spec + len, SPEC_MAX - len, "(%s", w->arguments);
}

/* The note says where an argument is; the user may say how to read it, not what else to read. */
static int type_arguments(const struct building *b, struct rut_probe_site *args, size_t n,
			  struct rut_err *err)
{
	for (uint32_t i = 0; i < b->conf.nargs; i++) {
		const struct rut_arg_spec *s = &b->specs[i];

		if (s->operand[0])
			return rut_err_set(err, EINVAL,
					   "'%s=%s': a static probe says where its arguments are",
					   s->name, s->operand);
		for (size_t k = 0; k < n; k++)
			if (args[k].args[i].kind != RUT_ARG_MISSING)
				rut_arg_set_type(&args[k].args[i], s->type);
	}
	return 0;
}

static int add_usdt_probe(struct rut_recorder *r, struct words *w, const struct rut_site *sites,
			  size_t n, uint32_t id, struct rut_err *err)
{
	_cleanup_free_ struct rut_probe_site *args = calloc(n, sizeof(*args));
	struct building b;
	char spec[SPEC_MAX];
	uint32_t found = 0;
	int rc;

	if (!args)
		return no_memory(err);
	write_spec(spec, w, sites);
	add_arguments(spec, w);
	begin(&b, r, spec, id);
	snprintf(b.title, sizeof(b.title), "%s:%s", sites->provider, sites->name);
	rc = parse_arguments(sites, n, args, &found, err);
	if (!rc)
		rc = name_arguments(&b, w->arguments, &b.conf.nargs, err);
	if (rc)
		return rc;
	if (b.conf.nargs > found && !w->glob)
		return rut_err_set(err, EINVAL, "'%s' has only %u arguments", b.title, found);
	b.conf.nargs = found;
	b.conf.strings &= (1u << found) - 1;
	rc = type_arguments(&b, args, n, err);
	if (rc)
		return rc;
	describe_arguments(&b, args->args);
	return attach_sites(&b, sites, args, n, rut_sites_pid(w->parts[1]), false, err);
}

/*
 * Arguments that the user did not name are those of the debug information, if there is any. They
 * become part of the words by which the event is added again: that information may change.
 */
static bool describe_function(struct words *w, const struct rut_site *site, bool ret)
{
	char spec[SPEC_MAX];
	size_t len = write_spec(spec, w, site) + 2;

	/* Not at the entry the registers hold something else. */
	if (w->parts[3] || len >= sizeof(((struct rut_session_meta *)0)->dynamic->spec))
		return false;
	if (strcmp(w->looked_at, site->path) != 0) {
		rut_dwarf_close(w->dwarf);
		w->dwarf = rut_dwarf_open(site->path);
		snprintf(w->looked_at, sizeof(w->looked_at), "%s", site->path);
	}
	rut_buf_clear(&w->described);
	if (!w->dwarf ||
	    rut_dwarf_arguments(w->dwarf, site->address, ret,
				sizeof(((struct rut_session_meta *)0)->dynamic->spec) - len - 1,
				&w->described) < 0)
		return false;
	rut_buf_putc(&w->described, ')');
	return !w->described.failed;
}

static int add_function(struct rut_recorder *r, struct words *w, const struct rut_site *sites,
			size_t n, uint32_t id, struct rut_err *err)
{
	_cleanup_free_ struct rut_probe_site *args = calloc(n, sizeof(*args));
	_cleanup_free_ struct rut_site *moved = calloc(n, sizeof(*moved));
	bool ret = !strcmp(w->parts[0], "uretprobe"), described;
	struct building b;
	char spec[SPEC_MAX];
	int rc;

	if (!args || !moved)
		return no_memory(err);
	described = !w->arguments && describe_function(w, sites, ret);
	if (described)
		w->arguments = w->described.data;
	write_spec(spec, w, sites);
	add_arguments(spec, w);
	begin(&b, r, spec, id);
	snprintf(b.title, sizeof(b.title), "%s:%s%s%s", w->parts[0], sites->name,
		 w->parts[3] ? "+" : "", w->parts[3] ? w->parts[3] : "");
	rc = name_arguments(&b, w->arguments, &b.conf.nargs, err);
	if (described)
		w->arguments = NULL;
	if (rc)
		return rc;
	if (ret && !b.conf.nargs && !described) {
		strcpy(b.specs[0].name, "ret");
		b.conf.nargs = 1;
	}
	for (uint32_t i = 0; i < b.conf.nargs; i++) {
		if (ret && i && !b.specs[i].operand[0])
			return rut_err_set(err, EINVAL, "'%s': a function has one result",
					   b.specs[i].name);
		rc = rut_arg_of_spec(&b.specs[i], ret ? -1 : (int)i, &args->args[i], err);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < n; i++) {
		args[i] = args[0];
		moved[i] = sites[i];
		moved[i].offset += w->parts[3] ? strtoull(w->parts[3], NULL, 0) : 0;
	}
	describe_arguments(&b, args->args);
	return attach_sites(&b, moved, args, n, rut_sites_pid(w->parts[1]), ret, err);
}

typedef int (*add_probe_fn)(struct rut_recorder *r, struct words *w, const struct rut_site *sites,
			    size_t n, uint32_t id, struct rut_err *err);

/* Is this event recorded already? A pattern does not add it again. */
static bool is_recorded(const struct rut_recorder *r, const struct words *w,
			const struct rut_site *site)
{
	const struct rut_session_meta *m = r->meta;
	char spec[SPEC_MAX];
	size_t len = write_spec(spec, w, site);

	for (uint32_t i = 0; i < m->ndynamic; i++)
		if (m->dynamic[i].id && !strncmp(m->dynamic[i].spec, spec, len) &&
		    (!m->dynamic[i].spec[len] || m->dynamic[i].spec[len] == '('))
			return true;
	return false;
}

/*
 * Adds an event for each probe that was found. Of a pattern, a probe that cannot be recorded is
 * named, and the others are.
 */
static int add_each(struct rut_recorder *r, struct words *w, const struct rut_sites *s, uint32_t id,
		    add_probe_fn fn, struct rut_err *err)
{
	size_t probes = rut_sites_probes(s), added = 0;
	int rc = 0;

	if (!id && probes > RUT_META_DYNAMIC_MAX - r->meta->ndynamic)
		return too_many(probes, err);
	for (size_t i = 0, end; i < s->count; i = end) {
		struct rut_err why = RUT_ERR_INIT;

		end = rut_sites_end(s, i);
		if (w->glob && is_recorded(r, w, &s->list[i])) {
			added++;
			continue;
		}
		rc = fn(r, w, &s->list[i], end - i, id, &why);
		added += rc == 0;
		if (!rc)
			continue;
		if (!w->glob || r->conf.strict || rc == -ENOMEM || rc == -EPERM)
			return rut_err_set(err, why.code, "%s", why.msg);
		rut_warn("'%s' is not recorded: %s", s->list[i].name, why.msg);
		rut_err_set(err, why.code, "%s", why.msg);
	}
	return added ? 0 : rc;
}

static void words_fini(struct words *w)
{
	rut_dwarf_close(w->dwarf);
	rut_buf_fini(&w->described);
	free(w->text);
}

static int add_usdt(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	_cleanup_(words_fini)
	struct words w = {.text = strdup(spec)};
	_cleanup_(rut_sites_fini)
	struct rut_sites sites = {0};
	int rc;

	if (!w.text)
		return no_memory(err);
	if (split(w.text, w.parts, 4) != 4)
		return rut_err_set(err, EINVAL, "'%s' should be usdt:BINARY:PROVIDER:NAME", spec);
	w.arguments = w.parts[4];
	w.glob = strpbrk(w.parts[2], "*?[") || strpbrk(w.parts[3], "*?[");
	rc = rut_sites_usdt(&sites, w.parts[1], w.parts[2], w.parts[3], err);
	return rc ? rc : add_each(r, &w, &sites, id, add_usdt_probe, err);
}

static int add_uprobe(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	_cleanup_(words_fini)
	struct words w = {.text = strdup(spec)};
	_cleanup_(rut_sites_fini)
	struct rut_sites sites = {0};
	int rc;

	if (!w.text)
		return no_memory(err);
	if (split(w.text, w.parts, 3) != 3)
		return rut_err_set(err, EINVAL, "'%s' should be %s:BINARY:SYMBOL", spec,
				   !strncmp(spec, "uret", 4) ? "uretprobe" : "uprobe");
	w.arguments = w.parts[3];
	w.parts[3] = strchr(w.parts[2], '+');
	if (w.parts[3])
		*w.parts[3]++ = '\0';
	w.glob = strpbrk(w.parts[2], "*?[");
	rc = rut_sites_functions(&sites, w.parts[1], w.parts[2], err);
	return rc ? rc : add_each(r, &w, &sites, id, add_function, err);
}

static int add_tracepoint(struct rut_recorder *r, const char *spec, const char *category,
			  const char *name, uint32_t id, struct rut_err *err)
{
	struct rut_tracefs_format format;
	struct bpf_program *prog = NULL;
	struct bpf_link *link;
	struct building b;
	int rc = rut_tracefs_read(category, name, &format, err);

	if (rc)
		return rc;
	begin(&b, r, spec, id);
	snprintf(b.title, sizeof(b.title), "%s:%s", category, name);
	format.conf.id = b.conf.id;
	b.conf = format.conf;
	memcpy(b.event.fields, format.fields, format.nfields * sizeof(*format.fields));
	b.event.nfields = format.nfields;
	rc = load(&b, "on_tracepoint", &prog, err);
	if (!rc)
		rc = describe(&b, err);
	if (!rc && !r->load_only) {
		link = bpf_program__attach_tracepoint(prog, category, name);
		rc = link ? keep_link(&b, link, 0, err)
			  : rut_err_errno(err, errno, "cannot attach to '%s:%s'", category, name);
	}
	return finish(&b, rc);
}

static int add_tracepoints(struct rut_recorder *r, const char *spec, uint32_t id,
			   struct rut_err *err)
{
	bool raw = !strncmp(spec, "tp:", 3);
	_cleanup_free_ char *copy = strdup(raw ? spec + 3 : spec);
	struct rut_strtab names = {0};
	char *colon;
	int rc;

	if (!copy)
		return no_memory(err);
	colon = strchr(copy, ':');
	if (!colon)
		return rut_err_set(err, EINVAL, "'%s' should be tp:CATEGORY:NAME", spec);
	*colon = '\0';
	rc = rut_tracefs_find(copy, colon + 1, &names, err);
	for (size_t i = 0; i < names.count && !rc; i++) {
		_cleanup_buf_ struct rut_buf ours = RUT_BUF_INIT;
		char one[256];

		/* Those that are events of ours were selected as such. */
		if (!raw && !id && rut_events_of_tracepoint(&ours, "", copy, names.strs[i].data))
			continue;
		snprintf(one, sizeof(one), "%s%s:%s", raw ? "tp:" : "", copy, names.strs[i].data);
		rc = add_tracepoint(r, one, copy, names.strs[i].data, id, err);
	}
	rut_strtab_fini(&names);
	return rc;
}

/* One clock a CPU; it counts time, so it works where there is no performance counter. */
static int open_clock(int cpu, unsigned int hz)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = hz,
		.freq = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int add_profile(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	unsigned long hz = strtoul(spec + 8, NULL, 10);
	struct bpf_program *prog = NULL;
	struct building b;
	int rc;

	if (!hz || hz > 10000)
		return rut_err_set(err, EINVAL, "'%s': 1 to 10000 samples a second", spec);
	if (r->nsets < RUT_STACK_SETS)
		return rut_err_set(
			err, ENOTSUP,
			"session '%s' was started without room for stacks: start one with "
			"--profile, or --context ustack or kstack",
			r->conf.name);
	for (uint32_t i = 0; !id && i < r->meta->ndynamic; i++)
		if (r->meta->dynamic[i].id && !strncmp(r->meta->dynamic[i].spec, "profile:", 8))
			return rut_err_set(err, EEXIST, "session '%s' takes samples already: '%s'",
					   r->conf.name, r->meta->dynamic[i].spec);
	begin(&b, r, spec, id);
	strcpy(b.title, "rutile_sample");
	add_field(&b, RUT_FK_S32, 0, "pid");
	add_field(&b, RUT_FK_S32, 0, "tid");
	add_field(&b, RUT_FK_TEXT16, 0, "procname");
	add_field(&b, RUT_FK_X64, 0, "ustack_id");
	add_field(&b, RUT_FK_X64, 0, "kstack_id");
	rc = load(&b, "on_sample", &prog, err);
	if (!rc)
		rc = describe(&b, err);
	for (int cpu = 0; cpu < r->ncpus && !rc && !r->load_only; cpu++) {
		int fd = open_clock(cpu, (unsigned int)hz);
		struct bpf_link *link;

		if (fd < 0 && errno == ENODEV)
			continue; /* offline */
		if (fd < 0)
			rc = rut_err_errno(err, errno, "cannot sample CPU %d", cpu);
		if (rc)
			break;
		link = bpf_program__attach_perf_event(prog, fd);
		rc = link ? keep_link(&b, link, (size_t)cpu, err)
			  : rut_err_errno(err, errno, "cannot sample CPU %d", cpu);
		if (!link)
			close(fd);
		else if (!rc)
			r->links[r->nlinks - 1].clock_fd = fd;
	}
	return finish(&b, rc);
}

static int add(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	if (!strncmp(spec, "usdt:", 5))
		return add_usdt(r, spec, id, err);
	if (!strncmp(spec, "uprobe:", 7) || !strncmp(spec, "uretprobe:", 10))
		return add_uprobe(r, spec, id, err);
	if (!strncmp(spec, "profile:", 8))
		return add_profile(r, spec, id, err);
	return add_tracepoints(r, spec, id, err);
}

int rut_dynamic_add(struct rut_recorder *r, const char *spec, struct rut_err *err)
{
	return add(r, spec, 0, err);
}

/* What this machine lacks is named, and the rest goes on. */
static int add_or_warn(struct rut_recorder *r, const char *spec, uint32_t id, struct rut_err *err)
{
	struct rut_err why = RUT_ERR_INIT;
	int rc = add(r, spec, id, &why);

	if (rc >= 0)
		return 0;
	if (rc == -ENOMEM || rc == -EPERM || r->conf.strict)
		return rut_err_set(err, why.code, "%s", why.msg);
	rut_warn("'%s' is not recorded: %s", spec, why.msg);
	return 1;
}

int rut_dynamic_try(struct rut_recorder *r, const char *spec, struct rut_err *err)
{
	int rc = add_or_warn(r, spec, 0, err);

	return rc < 0 ? rc : 0;
}

int rut_dynamic_resume(struct rut_recorder *r, struct rut_err *err)
{
	for (uint32_t i = 0; i < r->meta->ndynamic; i++) {
		int rc;

		if (!r->meta->dynamic[i].id)
			continue; /* removed */
		rc = add_or_warn(r, r->meta->dynamic[i].spec, r->meta->dynamic[i].id, err);
		if (rc < 0)
			return rc;
		if (rc)
			r->meta->dynamic[i].id = 0;
	}
	return 0;
}

void rut_dynamic_detach(struct rut_recorder *r, uint32_t id)
{
	char prefix[32], name[24];
	size_t n = 0;

	snprintf(prefix, sizeof(prefix), "dyn:%u:", id);
	rut_programs_drop_links(r, prefix);
	object_name(name, id);
	for (size_t i = 0; i < r->nobjects; i++) {
		if (strcmp(bpf_object__name(r->objects[i]), name) != 0)
			r->objects[n++] = r->objects[i];
		else
			bpf_object__close(r->objects[i]);
	}
	r->nobjects = n;
}

int rut_dynamic_attach(struct rut_recorder *r, uint32_t id, struct rut_err *err)
{
	for (uint32_t i = 0; i < r->meta->ndynamic; i++)
		if (r->meta->dynamic[i].id == id) {
			int rc = add_or_warn(r, r->meta->dynamic[i].spec, id, err);

			return rc < 0 ? rc : 0;
		}
	return 0;
}
