/* SPDX-License-Identifier: MIT */
#include "session/building.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "probe.skel.h"
#include "probe_filter.skel.h"
#include "probe_typed.skel.h"
#include "probe_typed_filter.skel.h"
#include "session/budget.h"
#include "session/dynamic.h"
#include "session/kernel.h"
#include "session/programs.h"

int rut_building_too_many(size_t n, struct rut_err *err)
{
	return rut_err_set(err, E2BIG, "%zu more: a session has at most %d events added by name", n,
			   RUT_META_DYNAMIC_MAX);
}

/* The object's bytes; with a filter a copy of the other object, into which the filter is put. */
static const void *object_bytes(struct rut_building *b, size_t *ret_size, struct rut_filter *filter,
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
		rut_err_set(err, ENOMEM, "out of memory");
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
 * No two classes have the same name, or no reader could distinguish their events. What was removed
 * and comes again is the class that it was; something else of that name gets a number behind it.
 */
static int settle_name(struct rut_building *b, struct rut_err *err)
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
			return rut_err_set(err, ENOMEM, "out of memory");
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
void rut_building_object_name(char ret[24], uint32_t id)
{
	snprintf(ret, 24, "rutile_%u", id);
}

/* Loads the object with one of its programs. */
int rut_building_load(struct rut_building *b, const char *program, struct bpf_program **ret,
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
	rut_building_object_name(name, b->conf.id);
	b->obj = bpf_object__open_mem(data, size, &opts);
	if (!b->obj)
		return rut_err_errno(err, errno, "cannot open the programs");
	bpf_object__for_each_program(prog, b->obj)
	{
		bool wanted = !strcmp(bpf_program__name(prog), program);

		bpf_program__set_autoload(prog, wanted);
		/* The caller reports where it is attached. */
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
int rut_building_describe(struct rut_building *b, struct rut_err *err)
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
		return rut_err_set(err, ENOMEM, "out of memory");
	if (strlen(b->spec) >= sizeof(m->dynamic->spec))
		return rut_err_set(err, ENAMETOOLONG, "'%s' is too long", b->spec);
	if (m->dynamic_len + text.len > RUT_META_PAGES_OFFSET - RUT_META_DYNAMIC_OFFSET ||
	    m->ndynamic == RUT_META_DYNAMIC_MAX)
		return rut_building_too_many(1, err);
	if (text.len)
		memcpy((char *)m + RUT_META_DYNAMIC_OFFSET + m->dynamic_len, text.data, text.len);
	m->dynamic_len += (uint32_t)text.len;
	m->dynamic[m->ndynamic].id = b->conf.id;
	snprintf(m->dynamic[m->ndynamic].spec, sizeof(m->dynamic->spec), "%s", b->spec);
	m->ndynamic++;
	rut_budget_name(b->r, b->conf.id, b->title, b->spec);
	return 0;
}

int rut_building_keep_link(struct rut_building *b, struct bpf_link *link, size_t i,
			   struct rut_err *err)
{
	char name[64];

	snprintf(name, sizeof(name), "dyn:%u:%zu", b->conf.id, i);
	if (rut_programs_keep_link(b->r, link, name) == 0)
		return 0;
	bpf_link__destroy(link);
	return rut_err_set(err, ENOMEM, "out of memory");
}

/* What was attached to some of its places would record; nor must a later start try it again. */
static void undo(struct rut_building *b)
{
	struct rut_session_meta *m = b->r->meta;
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "dyn:%u:", b->conf.id);
	rut_programs_drop_links(b->r, prefix);
	for (uint32_t i = 0; i < m->ndynamic && !b->again; i++)
		if (m->dynamic[i].id == b->conf.id)
			m->dynamic[i].id = 0;
}

int rut_building_finish(struct rut_building *b, int rc)
{
	if (!rc && rut_programs_keep(b->r, b->obj) == 0)
		return 0;
	undo(b);
	bpf_object__close(b->obj);
	return rc ? rc : -ENOMEM;
}

void rut_building_add_field(struct rut_building *b, enum rut_field_kind kind, uint32_t count,
			    const char *name)
{
	if (b->event.nfields < RUT_FIELDS_MAX)
		b->event.fields[b->event.nfields++] = (struct rut_field){kind, count, name};
}

void rut_building_begin(struct rut_building *b, struct rut_recorder *r, const char *spec,
			uint32_t id)
{
	*b = (struct rut_building){.r = r, .spec = spec, .again = id != 0};
	b->conf.id = id ? id : r->meta->next_dynamic++;
}
