/* SPDX-License-Identifier: MIT */
#include "session/programs.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "bpf/known.h"
#include "kernel.skel.h"
#include "kernel_filter.skel.h"
#include "ring/write.h"
#include "session/dynamic.h"
#include "session/filter.h"
#include "session/kernel.h"
#include "session/unwind.h"
#include "session/lockdown.h"
#include "session/processes.h"

#define VERIFIER_LOG_BYTES  (1u << 16)
#define VERIFIER_LOG_ERRORS 4 /* errors and statistics; each instruction would overflow it */

__attribute__((format(printf, 2, 0))) static int to_debug(enum libbpf_print_level level,
							  const char *fmt, va_list ap)
{
	char line[512];

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	rut_debug("%s", line);
	return 0;
}

void rut_programs_quiet(void)
{
	libbpf_set_print(to_debug);
	rut_lockdown_prepare();
}

static int load_error(int rc, struct rut_err *err)
{
	/* EACCES is the verifier's. */
	if (rc == -EPERM)
		return rut_kernel_no_privilege(err);
	return rut_err_errno(err, -rc, "the kernel refuses the programs");
}

/* Puts the session's maps into an object, and its constants into the read-only data. */
int rut_programs_prepare(const struct rut_recorder *r, struct bpf_object *obj,
			 struct rut_bpf_conf *conf, struct rut_err *err)
{
	for (size_t i = 0; i < RUT_MAP_COUNT; i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(obj, rut_map_names[i]);
		int rc = map ? bpf_map__reuse_fd(map, r->fds[i]) : 0;

		if (rc < 0)
			return rut_err_errno(err, -rc, "cannot share the map '%s'",
					     rut_map_names[i]);
	}
	*conf = (struct rut_bpf_conf){
		.mask = r->rings[0].subbuf_size - 1,
		.shift = r->rings[0].shift,
		.count_mask = r->rings[0].count - 1,
		.overwrite = r->conf.mode == RUT_RING_OVERWRITE,
		.contexts = r->conf.contexts,
		.context_size = rut_context_size(r->conf.contexts),
		.filters = r->conf.filters,
		.budget_ppm = r->conf.budget_ppm,
		.stack_mask = (uint32_t)r->nsets - 1,
		.str_max = r->conf.string_bytes ? r->conf.string_bytes : RUT_STR_DEFAULT,
		.include_self = r->conf.include_self,
		.lean_stacks = r->conf.lean_stacks,
		.code_mask = (uint32_t)r->ncodes - 1,
		.cache_mask = (r->ncodes > 1 ? RUT_CACHE_ENTRIES : 1) - 1,
		.unwind_mask = rut_unwind_wanted(r) ? RUT_UNWIND_CACHE - 1 : 0,
		.known_mask = r->nsets > 1 ? RUT_KNOWN_ENTRIES - 1 : 0,
		.known_kernel = r->conf.contexts & RUT_CTX_KSTACK && rut_kernel_has_read_helper(),
		.load = rut_ring_clock(),
		.fsbase_at = r->ncodes > 1 ? rut_kernel_fsbase() : 0,
		.read_kernel = rut_kernel_read_means(),
		.perf_cpus = (uint32_t)r->ncpus,
		.preempt_at = r->conf.contexts & (RUT_CTX_PREEMPTIBLE | RUT_CTX_INTERRUPTIBLE)
				      ? rut_kernel_preempt_at()
				      : 0,
		.no_fork = !r->meta->active.events[RUT_EV_SCHED_FORK],
		.no_exec = !r->meta->active.events[RUT_EV_SCHED_EXEC],
		.no_free = !r->meta->active.events[RUT_EV_SCHED_FREE],
		.no_issue = !r->meta->active.events[RUT_EV_BLOCK_RQ_ISSUE],
		.no_dirtied = !r->meta->active.events[RUT_EV_BLOCK_DIRTIED],
		.no_state = !r->meta->active.events[RUT_EV_SOCK_STATE],
		.no_connect = !r->meta->active.events[RUT_EV_TCP_CONNECT],
		.keep_gone = rut_recorder_keeps_gone(r),
	};
	conf->rstack_some = rut_dynamic_stacks(&r->conf, 0, NULL, conf->rstack_events);
	/* Two strings of that length, with their headers, in whole blocks. */
	conf->tail_max = conf->str_max <= RUT_STR_DEFAULT ? RUT_TAIL_DEFAULT
							  : (2 * conf->str_max + 319) / 64 * 64;
	if (conf->tail_max < RUT_TAIL_DEFAULT)
		conf->tail_max = RUT_TAIL_DEFAULT;
	memcpy(conf->uuid, r->uuid, sizeof(conf->uuid));
	return 0;
}

static bool is_syscall_program(const char *name)
{
	return !strcmp(name, "sys_enter") || !strcmp(name, "sys_exit");
}

static bool follows_forks(const char *name)
{
	return !strcmp(name, "sched_process_fork") || !strcmp(name, "sched_process_free");
}

/* One program notes changed pages, the program of the requests reports them. */
static bool is_recorded_by(const struct rut_event *e, const char *program)
{
	return !strcmp(e->tracepoint, program) ||
	       (e->id == RUT_EV_BLOCK_DIRTIED && !strcmp(program, "block_rq_issue"));
}

bool rut_programs_wanted(const struct rut_recorder *r, const struct rut_selection *sel,
			 const char *program)
{
	struct rut_event e;

	if (is_syscall_program(program))
		return rut_selection_any_syscall(sel);
	if (r->conf.filters & RUT_FILTER_FOLLOW && follows_forks(program))
		return true;
	if ((r->conf.contexts & RUT_CTX_RSTACK || rut_unwind_wanted(r)) &&
	    (!strcmp(program, "sched_process_fork") || !strcmp(program, "sched_process_exec") ||
	     !strcmp(program, "sched_process_free")))
		return true;
	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		rut_event_static(&e, id);
		if (sel->events[id] && is_recorded_by(&e, program))
			return true;
	}
	return false;
}

bool rut_programs_shared(const struct rut_recorder *r, const struct rut_selection *sel, uint32_t id)
{
	struct rut_event e;

	rut_event_static(&e, id);
	/* Of these, one program notes the pages, and the other one reports them. */
	return rut_programs_wanted(r, sel, e.tracepoint) ||
	       (id == RUT_EV_BLOCK_DIRTIED && rut_programs_wanted(r, sel, "block_rq_issue"));
}

int rut_programs_set_syscalls(const struct rut_recorder *r, const struct rut_selection *sel,
			      struct rut_err *err)
{
	for (uint32_t nr = 0; nr < RUT_SYSCALL_ROWS; nr++) {
		struct rut_syscall_desc d;
		int rc;

		rut_syscall_describe(&d, nr);
		d.flags |= rut_selection_syscall(sel, nr);
		rc = bpf_map_update_elem(r->fds[RUT_MAP_SYSCALLS], &nr, &d, BPF_ANY);
		if (rc < 0)
			return rut_err_errno(err, -rc, "cannot fill the table of system calls");
	}
	return 0;
}

int rut_programs_keep(struct rut_recorder *r, struct bpf_object *obj)
{
	struct bpf_object **more = reallocarray(r->objects, r->nobjects + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	r->objects = more;
	r->objects[r->nobjects++] = obj;
	return 0;
}

int rut_programs_keep_link(struct rut_recorder *r, struct bpf_link *link, const char *name)
{
	struct rut_link *more = reallocarray(r->links, r->nlinks + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	r->links = more;
	more[r->nlinks] = (struct rut_link){.link = link};
	snprintf(more[r->nlinks].name, sizeof(more->name), "%s", name);
	r->nlinks++;
	return 0;
}

void rut_programs_drop_links(struct rut_recorder *r, const char *prefix)
{
	size_t n = 0;

	for (size_t i = 0; i < r->nlinks; i++) {
		if (strncmp(r->links[i].name, prefix, strlen(prefix)) != 0)
			r->links[n++] = r->links[i];
		else
			bpf_link__destroy(r->links[i].link);
	}
	r->nlinks = n;
}

/*
 * The skeletons are only containers of the objects' bytes: the objects are ours. With a filter it
 * is the other object, into a copy of which the filter is put; *ret_copy is freed after the load.
 */
static struct bpf_object *open_kernel_object(struct rut_recorder *r, struct rut_filter *filter,
					     void **ret_copy, struct rut_err *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "rutile");
	struct bpf_object *obj;
	const void *data;
	size_t size;

	data = rut_kernel_bpf__elf_bytes(&size);
	if (r->conf.filter[0]) {
		data = rut_kernel_filter_bpf__elf_bytes(&size);
		*ret_copy = malloc(size);
		if (!*ret_copy) {
			rut_err_set(err, ENOMEM, "out of memory");
			return NULL;
		}
		memcpy(*ret_copy, data, size);
		data = *ret_copy;
		if (rut_filter_compile(filter, r->conf.filter, &r->conf.selection, r->conf.contexts,
				       &r->filter_names, err) < 0 ||
		    rut_filter_patch(filter, *ret_copy, size, err) < 0)
			return NULL;
	}
	obj = bpf_object__open_mem(data, size, &opts);
	if (!obj)
		rut_err_errno(err, errno, "cannot open the programs");
	return obj;
}

int rut_programs_fill_classes(struct bpf_object *obj, const struct rut_filter *f,
			      struct rut_err *err)
{
	int fd = bpf_object__find_map_fd_by_name(obj, "classes");

	for (uint32_t id = 0; f->insns && id < RUT_ID_DYNAMIC; id++)
		if (f->classes[id] && bpf_map_update_elem(fd, &id, &f->classes[id], BPF_ANY) < 0)
			return rut_err_errno(err, errno, "cannot set the filter");
	return 0;
}

void *rut_programs_constant(struct bpf_object *obj, const char *name)
{
	struct btf *btf = bpf_object__btf(obj);
	struct bpf_map *map;
	size_t size;

	bpf_object__for_each_map(map, obj)
	{
		const char *section = bpf_map__name(map);
		size_t len = strlen(section);
		const struct btf_type *t;
		const struct btf_var_secinfo *v;

		if (len < 7 || strcmp(section + len - 7, ".rodata") != 0)
			continue;
		t = btf__type_by_id(btf, bpf_map__btf_value_type_id(map));
		v = t && btf_is_datasec(t) ? btf_var_secinfos(t) : NULL;
		for (int i = 0; v && i < btf_vlen(t); i++) {
			const struct btf_type *var = btf__type_by_id(btf, v[i].type);
			char *base = (char *)(uintptr_t)bpf_map__initial_value(map, &size);

			if (!strcmp(btf__name_by_offset(btf, var->name_off), name))
				return base + v[i].offset;
		}
	}
	return NULL;
}

/*
 * Kernels without CONFIG_KALLSYMS_ALL do not list vmemmap_base. x86-64 puts the array of struct
 * page, 64 bytes each, at a multiple of 1 GiB: with less than 64 GiB of memory a page's address
 * modulo 1 GiB is its place there.
 */
static uint64_t vmemmap_mask(void)
{
	const uint64_t size = 1ull << 30;
	uint64_t end = rut_kernel_memory_end();

	return end && end / 4096 * 64 <= size ? size - 1 : 0;
}

/* What programs of this selection want to know besides the session's constants. */
static void set_addresses(struct bpf_object *obj, const struct rut_selection *sel)
{
	uint64_t *vmemmap = rut_programs_constant(obj, "vmemmap_base_at");
	uint64_t *mask = rut_programs_constant(obj, "vmemmap_mask");
	static bool warned;

	if (!vmemmap || !mask ||
	    (!sel->events[RUT_EV_PAGE_ALLOC] && !sel->events[RUT_EV_PAGE_FREE]))
		return;
	*vmemmap = rut_kernel_symbol("vmemmap_base");
	if (*vmemmap && rut_kernel_read_means() != RUT_READ_NONE)
		return;
	*mask = vmemmap_mask();
	if (!*mask && !warned)
		rut_warn("'pfn' of kmem_mm_page_alloc and kmem_mm_page_free is 0: the kernel does "
			 "not "
			 "report where its pages are (vmemmap_base)");
	warned = true;
}

static int load_object(struct rut_recorder *r, struct bpf_object *obj,
		       const struct rut_selection *sel, const struct rut_filter *filter,
		       struct rut_err *err)
{
	struct rut_bpf_conf *conf = rut_programs_constant(obj, "conf");
	struct bpf_program *prog;
	int rc;

	rc = conf ? rut_programs_prepare(r, obj, conf, err)
		  : rut_err_set(err, EPROTO, "the programs have no constants");
	bpf_object__for_each_program(prog, obj) bpf_program__set_autoload(
		prog, rut_programs_wanted(r, sel, bpf_program__name(prog)));
	if (!rc) {
		set_addresses(obj, sel);
		rc = bpf_object__load(obj);
		rc = rc < 0 ? load_error(rc, err) : rut_programs_fill_classes(obj, filter, err);
	}
	return rc ? rc : rut_programs_keep(r, obj);
}

static int load_all(struct rut_recorder *r, const struct rut_selection *sel, struct rut_err *err)
{
	_cleanup_(rut_filter_fini)
	struct rut_filter filter = {0};
	_cleanup_free_ void *copy = NULL;
	struct bpf_object *obj;
	int rc;

	/* Even an object without programs would need the kernel's types. */
	if (!rut_selection_any(sel) && !(r->conf.filters & RUT_FILTER_FOLLOW) &&
	    !(r->conf.contexts & RUT_CTX_RSTACK) && !rut_unwind_wanted(r))
		return 0;
	obj = open_kernel_object(r, &filter, &copy, err);
	if (!obj)
		return -err->code;
	rc = load_object(r, obj, sel, &filter, err);
	if (rc)
		bpf_object__close(obj);
	return rc;
}

/* What the verifier says: the last line of its log that is not about its own work. */
static void find_reason(const char *log, int rc, char *ret, size_t size)
{
	const char *line = log, *found = NULL;
	size_t len = 0;

	for (; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		if (*line == '\n' || !strncmp(line, "processed ", 10) ||
		    !strncmp(line, "verification time", 17) || !strncmp(line, "stack depth", 11))
			continue;
		found = line;
		len = strcspn(line, "\n");
	}
	if (found && rc != -E2BIG && rut_kernel_read_means() == RUT_READ_NONE &&
	    rut_kernel_is_confidential())
		snprintf(ret, size, "lockdown 'confidentiality' forbids it to read kernel memory");
	else if (found)
		snprintf(ret, size, "%s (%.*s)", strerror(-rc), (int)len, found);
	else
		snprintf(ret, size, "%s", strerror(-rc));
}

/* Loads one program for a moment. 0, or -errno and the reason. */
static int try_program(struct rut_recorder *r, const struct rut_selection *sel, const char *name,
		       char *ret_why, size_t size)
{
	_cleanup_(rut_filter_fini)
	struct rut_filter filter = {0};
	_cleanup_free_ void *copy = NULL;
	_cleanup_free_ char *log = calloc(1, VERIFIER_LOG_BYTES);
	struct bpf_object *obj;
	struct bpf_program *prog;
	struct bpf_program *chosen;
	int rc;

	obj = log ? open_kernel_object(r, &filter, &copy, NULL) : NULL;
	if (!obj)
		return -ENOMEM;
	chosen = bpf_object__find_program_by_name(obj, name);
	rc = rut_programs_prepare(r, obj, rut_programs_constant(obj, "conf"), NULL);
	bpf_object__for_each_program(prog, obj) bpf_program__set_autoload(prog, prog == chosen);
	bpf_program__set_log_buf(chosen, log, VERIFIER_LOG_BYTES);
	bpf_program__set_log_level(chosen, VERIFIER_LOG_ERRORS);
	set_addresses(obj, sel);
	if (!rc)
		rc = bpf_object__load(obj);
	bpf_object__close(obj);
	if (rc < 0)
		find_reason(log, rc, ret_why, size);
	return rc;
}

/* Takes the events of a program out of a selection; their names are added to `names`. */
static void deselect(struct rut_selection *sel, const char *program, struct rut_buf *names)
{
	struct rut_event e;

	if (is_syscall_program(program)) {
		if (names && rut_selection_any_syscall(sel))
			rut_buf_puts(names, "syscall");
		rut_selection_set_syscalls(sel, NULL);
		return;
	}
	for (uint32_t id = 0; id < RUT_EV_SYSCALL_UNKNOWN; id++) {
		rut_event_static(&e, id);
		if (!sel->events[id] || !is_recorded_by(&e, program))
			continue;
		if (names)
			rut_buf_printf(names, "%s%s", names->len ? ", " : "", e.name);
		sel->events[id] = false;
	}
}

/* Leaves out what a refused program would record. */
static int leave_out(struct rut_recorder *r, struct rut_selection *sel, const char *program,
		     const char *why, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf names = RUT_BUF_INIT;

	deselect(sel, program, &names);
	if (r->conf.strict && names.len)
		return rut_err_set(err, EINVAL,
				   "'%s' cannot be recorded: the kernel refuses its program: %s",
				   names.data, why);
	deselect(&r->conf.selection, program, NULL);
	deselect(&r->meta->active, program, NULL);
	deselect(&r->meta->conf.selection, program, NULL);
	if (names.len)
		rut_warn("'%s' is not recorded: the kernel refuses its program: %s", names.data,
			 why);
	if (r->conf.filters & RUT_FILTER_FOLLOW && follows_forks(program)) {
		rut_warn("children of what is recorded are not recorded: the kernel refuses the "
			 "program '%s': %s",
			 program, why);
		r->conf.filters &= ~(uint32_t)RUT_FILTER_FOLLOW;
	}
	return 0;
}

/* Tries each program by itself. Returns how many are left out, or -errno. */
static int leave_refused_out(struct rut_recorder *r, struct rut_selection *sel, struct rut_err *err)
{
	_cleanup_(rut_filter_fini)
	struct rut_filter filter = {0};
	_cleanup_free_ void *copy = NULL;
	struct bpf_object *obj = open_kernel_object(r, &filter, &copy, err);
	struct bpf_program *prog;
	int rc = 0, n = 0;

	if (!obj)
		return -err->code;
	bpf_object__for_each_program(prog, obj)
	{
		const char *name = bpf_program__name(prog);
		char why[400];

		if (rc || !rut_programs_wanted(r, sel, name) ||
		    !try_program(r, sel, name, why, sizeof(why)))
			continue;
		rc = leave_out(r, sel, name, why, err);
		n++;
	}
	bpf_object__close(obj);
	return rc ? rc : n;
}

int rut_programs_load(struct rut_recorder *r, struct rut_selection *sel, struct rut_err *err)
{
	struct rut_err first = RUT_ERR_INIT;
	int rc = load_all(r, sel, &first);

	/* Privileges and memory lack for all of them. */
	if (rc && rc != -EPERM && rc != -ENOMEM) {
		int n = leave_refused_out(r, sel, err);

		if (n < 0)
			return n;
		if (n > 0)
			rc = load_all(r, sel, &first);
	}
	if (rc)
		return rut_err_set(err, first.code, "%s", first.msg);
	return rut_programs_set_syscalls(r, &r->conf.selection, err);
}

static struct rut_link *find_link(const struct rut_recorder *r, const char *name)
{
	for (size_t i = 0; i < r->nlinks; i++)
		if (!strcmp(r->links[i].name, name))
			return &r->links[i];
	return NULL;
}

/* What is pinned stays attached. */
static void close_link(const struct rut_link *l)
{
	int fd = bpf_link__fd(l->link);

	if (!l->pinned) {
		bpf_link__destroy(l->link);
		return;
	}
	/* The library would switch off a clock that must continue without us; so the descriptors,
	 * which would outlive a `stop`, are ours to close. */
	bpf_link__disconnect(l->link);
	bpf_link__destroy(l->link);
	close(fd);
	if (l->clock_fd > 0)
		close(l->clock_fd);
}

/* The program of a newer object replaces that of an older one. */
static int attach_one(struct rut_recorder *r, size_t object, struct bpf_program *prog,
		      struct rut_err *err)
{
	const char *name = bpf_program__name(prog);
	struct rut_link *old = find_link(r, name);
	struct bpf_link *link;

	if (!bpf_program__autoload(prog) || !bpf_program__autoattach(prog) ||
	    (old && old->object >= object))
		return 0;
	link = bpf_program__attach(prog);
	if (!link)
		return rut_err_errno(err, errno, "cannot attach to '%s'", name);
	if (old) {
		close_link(old);
		old->link = link;
		old->pinned = false;
	} else if (rut_programs_keep_link(r, link, name) < 0) {
		bpf_link__destroy(link);
		return rut_err_set(err, ENOMEM, "out of memory");
	}
	find_link(r, name)->object = object;
	return 0;
}

int rut_programs_attach(struct rut_recorder *r, struct rut_err *err)
{
	/* What is attached again, while the rest goes on, knows them. */
	if (!r->meta->running)
		rut_processes_scan(r);
	for (size_t i = r->nobjects; i-- > 0;) {
		struct bpf_program *prog;

		bpf_object__for_each_program(prog, r->objects[i])
		{
			int rc = attach_one(r, i, prog, err);

			if (rc < 0) {
				rut_programs_detach(r);
				return rc;
			}
		}
	}
	r->meta->running = 1;
	/* Those that were forked before the programs could see it. */
	rut_processes_scan(r);
	return 0;
}

void rut_programs_detach_unwanted(struct rut_recorder *r, const struct rut_selection *sel)
{
	size_t n = 0;

	for (size_t i = 0; i < r->nlinks; i++) {
		/* Links of events added by name have a ':' in theirs, which no program has. */
		if (strchr(r->links[i].name, ':') || rut_programs_wanted(r, sel, r->links[i].name))
			r->links[n++] = r->links[i];
		else
			bpf_link__destroy(r->links[i].link);
	}
	r->nlinks = n;
}

void rut_programs_detach(struct rut_recorder *r)
{
	for (size_t i = 0; i < r->nlinks; i++)
		close_link(&r->links[i]);
	free(r->links);
	r->links = NULL;
	r->nlinks = 0;
}

uint64_t rut_programs_missed(const struct rut_recorder *r)
{
	uint64_t missed = 0;

	for (size_t i = 0; i < r->nobjects; i++) {
		struct bpf_program *prog;

		bpf_object__for_each_program(prog, r->objects[i])
		{
			struct bpf_prog_info info = {0};
			uint32_t len = sizeof(info);

			if (bpf_program__fd(prog) >= 0 &&
			    !bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len))
				missed += info.recursion_misses;
		}
	}
	return missed;
}

void rut_programs_free(struct rut_recorder *r)
{
	rut_programs_detach(r);
	for (size_t i = 0; i < r->nobjects; i++)
		bpf_object__close(r->objects[i]);
	free(r->objects);
	r->objects = NULL;
	r->nobjects = 0;
}
