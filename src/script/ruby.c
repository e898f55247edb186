/* SPDX-License-Identifier: MIT */
#include "script/ruby.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/callstack.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/proc.h"
#include "bpf/events.h"
#include "bpf/ruby.h"
#include "bpf/script_ruby.h"
#include "ruby/find_vm.h"
#include "script/load.h"
#include "script_ruby.skel.h"

enum { WAITING_MAX = 1024, TRIES_MAX = 10, FIRST_MS = 50, DEPTH_MAX = 64 };

/*
 * A process that was found, or begins: it is inspected again after 50, 100, 200 ... ms, while it is
 * starting, and its libruby may be mapped in part only.
 */
struct waiting {
	uint32_t pid, tries;
	uint64_t at_ms;
};

struct rut_script_ruby {
	struct rut_script_ruby_bpf *bpf;
	struct rut_link_text text;
	size_t entries[RUT_RUBY_FUNCTIONS]; /* index into text.functions */
	struct rut_code_set *codes;	    /* mapped */
	struct rut_stack_set *stacks;
	size_t ncodes, nstacks;
	int requests_fd; /* names of requests; of `bpf`, or owned */
	bool any;	 /* inspect processes that are found */
	struct waiting waiting[WAITING_MAX];
	size_t nwaiting;
	struct bpf_link **links; /* owned: of `requested`, one for each file */
	size_t nlinks;
};

static const char *const entry_names[RUT_RUBY_FUNCTIONS] = {
	[RUT_RUBY_HERE] = "rut_script_here",
	[RUT_RUBY_STACK] = "rut_script_rstack",
	[RUT_RUBY_IN] = "rut_script_in",
};

/* Text of the object */

/*
 * libbpf is about to load `functions`, with all that it calls, relocated: that is kept, and an
 * empty program is loaded instead.
 */
static int take_text(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
				     {.code = BPF_JMP | BPF_EXIT}};
	struct rut_script_ruby *r = (struct rut_script_ruby *)cookie;
	const struct bpf_func_info *info = opts->func_info;
	size_t n = bpf_program__insn_cnt(prog);

	if (!info || opts->func_info_rec_size != sizeof(*info))
		return -ENOTSUP;
	r->text.insns = malloc(n * sizeof(*r->text.insns));
	r->text.functions = calloc(opts->func_info_cnt, sizeof(*info));
	if (!r->text.insns || !r->text.functions)
		return -ENOMEM;
	memcpy(r->text.insns, bpf_program__insns(prog), n * sizeof(*r->text.insns));
	memcpy(r->text.functions, info, opts->func_info_cnt * sizeof(*info));
	r->text.ninsns = n;
	r->text.nfunctions = opts->func_info_cnt;
	opts->func_info_cnt = 0;
	opts->line_info_cnt = 0;
	return bpf_program__set_insns(prog, nothing, 2);
}

const struct btf *rut_script_ruby_types(const struct rut_script_ruby *r)
{
	return bpf_object__btf(r->bpf->obj);
}

static const char *function_name(const struct rut_script_ruby *r, size_t i)
{
	const struct btf *btf = rut_script_ruby_types(r);
	const struct btf_type *t = btf__type_by_id(btf, r->text.functions[i].type_id);

	return t ? btf__name_by_offset(btf, t->name_off) : "";
}

static int find_entries(struct rut_script_ruby *r, struct rut_err *err)
{
	for (size_t e = 0; e < RUT_RUBY_FUNCTIONS; e++) {
		while (r->entries[e] < r->text.nfunctions &&
		       strcmp(function_name(r, r->entries[e]), entry_names[e]) != 0)
			r->entries[e]++;
		if (r->entries[e] == r->text.nfunctions)
			return rut_err_set(err, ENOTSUP,
					   "the kernel cannot link the programs that "
					   "read Ruby frames");
	}
	return 0;
}

int rut_script_ruby_link(struct rut_linked *ret, const struct rut_script_ruby *r,
			 const struct rut_script_prog *prog, struct rut_err *err)
{
	return rut_link(ret, &r->text, r->entries, prog->insns, prog->ninsns, err);
}

static int load_bpf(struct rut_script_ruby *r, const struct rut_script_program *p,
		    struct rut_err *err)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .cookie = (long)r,
		    .prog_prepare_load_fn = take_text);
	int handler = libbpf_register_prog_handler("rut.functions", BPF_PROG_TYPE_RAW_TRACEPOINT, 0,
						   &opts);
	struct rut_bpf_conf *conf;
	int rc = handler < 0 ? handler : -ENOMEM;

	if (handler >= 0)
		r->bpf = rut_script_ruby_bpf__open();
	if (r->bpf) {
		conf = (struct rut_bpf_conf *)&r->bpf->rodata->conf;
		conf->overwrite = 1;
		conf->stack_mask = (uint32_t)r->nstacks - 1;
		conf->code_mask = (uint32_t)r->ncodes - 1;
		conf->cache_mask = RUT_CACHE_ENTRIES - 1;
		memcpy(conf->uuid, "scripts", 8);
		r->bpf->rodata->request_session = p->ruby_session;
		r->bpf->rodata->within_on = rut_script_follows(p);
		bpf_program__set_autoload(r->bpf->progs.placed, rut_script_follows(p));
		bpf_program__set_autoload(r->bpf->progs.exited, rut_script_follows(p));
		if (!rut_script_follows(p)) {
			bpf_map__set_max_entries(r->bpf->maps.within_slots, 1);
			bpf_map__set_max_entries(r->bpf->maps.within_threads, 1);
			bpf_map__set_max_entries(r->bpf->maps.within_ready, 1);
		}
		bpf_program__set_autoload(r->bpf->progs.requested, p->needs_requests);
		if (!p->needs_requests)
			bpf_map__set_max_entries(r->bpf->maps.requests, 1);
		bpf_map__set_max_entries(r->bpf->maps.ctls, (uint32_t)rut_script_cpus());
		bpf_map__set_max_entries(r->bpf->maps.stacks, (uint32_t)r->nstacks);
		bpf_map__set_max_entries(r->bpf->maps.codes, (uint32_t)r->ncodes);
		bpf_map__set_max_entries(r->bpf->maps.frame_cache, RUT_CACHE_ENTRIES);
		rc = rut_script_ruby_bpf__load(r->bpf);
	}
	if (handler >= 0)
		libbpf_unregister_prog_handler(handler);
	if (rc)
		return rut_err_errno(err, -rc, "cannot load the programs that read Ruby frames");
	return find_entries(r, err);
}

/* "Order#total", "Order.find", "total"; the checker has checked them. */
static struct rut_script_method parse_method(const char *name)
{
	const char *at = strrchr(name, '#');
	struct rut_script_method m = {.used = 1};

	if (!at)
		at = strrchr(name, '.');
	m.any_class = !at;
	m.singleton = at && *at == '.';
	strncpy(m.label, at ? at + 1 : name, sizeof(m.label) - 1);
	if (at)
		memcpy(m.class_name, name, (size_t)(at - name));
	return m;
}

static int put_methods(const struct rut_script_ruby *r, const struct rut_script_program *p,
		       struct rut_err *err)
{
	for (uint32_t i = 0; i < p->nmethods; i++) {
		struct rut_script_method m = parse_method(p->methods[i]);
		int rc = bpf_map_update_elem(bpf_map__fd(r->bpf->maps.methods), &i, &m, BPF_ANY);

		if (rc)
			return rut_err_errno(err, -rc, "cannot name the method '%s'",
					     p->methods[i]);
	}
	return 0;
}

static void *map_table(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Processes */

static int look(const struct rut_script_ruby *r, int32_t pid, struct rut_err *err)
{
	struct rut_ruby_vm vm;
	int rc = rut_ruby_vm_find(&vm, pid, err);

	if (rc)
		return rc;
	vm.generation = rut_hash_u64((uint64_t)pid ^ rut_proc_start(pid) << 24) | 1;
	rc = bpf_map_update_elem(bpf_map__fd(r->bpf->maps.rubies), &pid, &vm, BPF_ANY);
	__atomic_fetch_add(&r->bpf->data->ruby_version, 1, __ATOMIC_RELEASE);
	return rc;
}

static void await(struct rut_script_ruby *r, uint32_t pid)
{
	for (size_t i = 0; i < r->nwaiting; i++)
		if (r->waiting[i].pid == pid)
			return;
	if (r->nwaiting < WAITING_MAX)
		r->waiting[r->nwaiting++] = (struct waiting){.pid = pid};
}

void rut_script_ruby_meet(struct rut_script_ruby *r, int32_t pid)
{
	struct rut_err why = RUT_ERR_INIT;
	struct rut_ruby_vm vm;

	/* The child of a fork is known, and its requests by its generation. */
	if (!bpf_map_lookup_elem(bpf_map__fd(r->bpf->maps.rubies), &pid, &vm))
		return;
	if (look(r, pid, &why))
		await(r, (uint32_t)pid);
}

static bool descends_from(int32_t pid, int32_t ancestor)
{
	for (int i = 0; pid > 1 && pid != ancestor && i < DEPTH_MAX; i++)
		pid = rut_proc_parent(pid);
	return pid == ancestor;
}

/* Inspects all processes; or those that `ancestor` has forked. */
static void scan(struct rut_script_ruby *r, int32_t ancestor)
{
	struct rut_err why = RUT_ERR_INIT;
	DIR *d = opendir("/proc");

	for (struct dirent *e; d && (e = readdir(d));) {
		int32_t pid = isdigit((unsigned char)e->d_name[0]) ? atoi(e->d_name) : 0;

		if (pid <= 0 || pid == getpid() || pid == ancestor ||
		    (ancestor && !descends_from(pid, ancestor)))
			continue;
		if (look(r, pid, &why) == -EAGAIN)
			await(r, (uint32_t)pid);
	}
	if (d)
		closedir(d);
}

/* Those that the programs have found since the last round. */
static void collect(struct rut_script_ruby *r)
{
	int fd = bpf_map__fd(r->bpf->maps.asked);
	uint32_t key, next, state, seen = RUT_ASKED_SEEN;

	for (uint32_t *at = NULL; !bpf_map_get_next_key(fd, at, &next); at = &key) {
		key = next;
		if (bpf_map_lookup_elem(fd, &key, &state) || state != RUT_ASKED_NEW)
			continue;
		/* It stays new until there is room. */
		if (r->nwaiting == WAITING_MAX)
			break;
		bpf_map_update_elem(fd, &key, &seen, BPF_EXIST);
		await(r, key);
	}
}

static bool is_alive(uint32_t pid)
{
	return !kill((pid_t)pid, 0) || errno == EPERM;
}

void rut_script_ruby_round(struct rut_script_ruby *r)
{
	uint64_t now = rut_now_ms();
	size_t n = 0;

	if (r->any)
		collect(r);
	for (size_t i = 0; i < r->nwaiting; i++) {
		struct waiting *w = &r->waiting[i];
		struct rut_err why = RUT_ERR_INIT;

		if (now >= w->at_ms) {
			if (!look(r, (int32_t)w->pid, &why) || !is_alive(w->pid) ||
			    w->tries == TRIES_MAX)
				continue;
			w->at_ms = now + (FIRST_MS << w->tries++);
		}
		r->waiting[n++] = *w;
	}
	r->nwaiting = n;
}

int rut_script_ruby_new(struct rut_script_ruby **ret, const struct rut_script_program *p,
			struct rut_err *err)
{
	struct rut_script_ruby *r = calloc(1, sizeof(*r));
	int rc;

	*ret = r;
	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	r->requests_fd = -1;
	r->ncodes = RUT_CODE_SETS;
	r->nstacks = p->needs_rstacks ? RUT_STACK_SETS : 1;
	/* The process of -c is not yet what it will be. */
	r->any = !p->opts.pid || p->opts.child;
	rc = load_bpf(r, p, err);
	if (!rc)
		rc = put_methods(r, p, err);
	if (rc)
		return rc;
	r->codes = map_table(bpf_map__fd(r->bpf->maps.codes), r->ncodes * sizeof(*r->codes));
	r->stacks = map_table(bpf_map__fd(r->bpf->maps.stacks), r->nstacks * sizeof(*r->stacks));
	r->requests_fd = bpf_map__fd(r->bpf->maps.request_names);
	if (!r->codes || !r->stacks)
		return rut_err_set(err, ENOMEM, "cannot map the names of Ruby frames");
	rc = rut_script_ruby_bpf__attach(r->bpf);
	if (rc)
		return rut_err_errno(err, -rc, "cannot follow the start and end of processes");
	if (r->any) {
		scan(r, 0);
		return 0;
	}
	rc = look(r, p->opts.pid, err);
	if (rc == -EAGAIN) {
		await(r, (uint32_t)p->opts.pid);
		return 0;
	}
	/* From here on children are known from their fork on. */
	if (!rc)
		scan(r, p->opts.pid);
	return rc;
}

void rut_script_ruby_free(struct rut_script_ruby *r)
{
	if (!r)
		return;
	if (r->codes)
		munmap(r->codes, r->ncodes * sizeof(*r->codes));
	if (r->stacks)
		munmap(r->stacks, r->nstacks * sizeof(*r->stacks));
	for (size_t i = 0; i < r->nlinks; i++)
		bpf_link__destroy(r->links[i]);
	free(r->links);
	if (!r->bpf && r->requests_fd >= 0)
		close(r->requests_fd);
	rut_script_ruby_bpf__destroy(r->bpf);
	rut_link_text_fini(&r->text);
	free(r);
}

/* The maps with names, as they are pinned in sessions. */
static const char *const pins[] = {"codes", "rstacks", "requests"};

static void pin_path(char *ret, size_t size, const char *dir, size_t i)
{
	snprintf(ret, size, "%s/script_%s", dir, pins[i]);
}

int rut_script_ruby_pin(const struct rut_script_ruby *r, const char *dir, struct rut_err *err)
{
	const int fds[] = {bpf_map__fd(r->bpf->maps.codes), bpf_map__fd(r->bpf->maps.stacks),
			   r->requests_fd};
	char path[512];

	for (size_t i = 0; i < sizeof(pins) / sizeof(*pins); i++) {
		pin_path(path, sizeof(path), dir, i);
		if (bpf_obj_pin(fds[i], path) < 0)
			return rut_err_errno(err, errno, "cannot pin '%s'", path);
	}
	return 0;
}

/* *ret: mapped, `*ret_n` entries of `bytes`. */
static int open_table(const char *dir, size_t i, size_t bytes, void **ret, size_t *ret_n)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	_cleanup_close_ int fd = -1;
	char path[512];

	pin_path(path, sizeof(path), dir, i);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return -errno;
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.value_size != bytes ||
	    !info.max_entries)
		return -EPROTO;
	*ret = map_table(fd, info.max_entries * bytes);
	*ret_n = info.max_entries;
	return *ret ? 0 : -ENOMEM;
}

int rut_script_ruby_open(struct rut_script_ruby **ret, const char *dir, struct rut_err *err)
{
	struct rut_script_ruby *r = calloc(1, sizeof(*r));
	char path[512];
	int rc;

	*ret = r;
	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	pin_path(path, sizeof(path), dir, 2);
	r->requests_fd = bpf_obj_get(path);
	rc = r->requests_fd < 0 ? -errno : 0;
	if (!rc)
		rc = open_table(dir, 0, sizeof(*r->codes), (void **)&r->codes, &r->ncodes);
	if (!rc)
		rc = open_table(dir, 1, sizeof(*r->stacks), (void **)&r->stacks, &r->nstacks);
	return rc ? rut_err_errno(err, -rc, "cannot open the names of Ruby of the session") : 0;
}

static int attach_place(struct rut_script_ruby *r, struct bpf_program *prog, const char *path,
			uint64_t offset, struct rut_err *err)
{
	struct bpf_link **links = realloc(r->links, (r->nlinks + 1) * sizeof(*links));

	if (!links)
		return rut_err_set(err, ENOMEM, "out of memory");
	r->links = links;
	links[r->nlinks] = bpf_program__attach_uprobe(prog, false, -1, path, offset);
	if (!links[r->nlinks])
		return rut_err_errno(err, errno, "cannot attach to the agent's file");
	r->nlinks++;
	return 0;
}

int rut_script_ruby_attach_requests(struct rut_script_ruby *r, const char *path, uint64_t offset,
				    struct rut_err *err)
{
	return attach_place(r, r->bpf->progs.requested, path, offset, err);
}

int rut_script_ruby_attach_within(struct rut_script_ruby *r, const char *path, uint64_t offset,
				  struct rut_err *err)
{
	return attach_place(r, r->bpf->progs.placed, path, offset, err);
}

int rut_script_ruby_within(const struct rut_script_ruby *r)
{
	return bpf_map__fd(r->bpf->maps.within_slots);
}

/* Names */

void rut_script_ruby_request(const struct rut_script_ruby *r, uint64_t number, struct rut_buf *out)
{
	char name[RUT_SCRIPT_REQUEST_NAME] = "";

	if (bpf_map_lookup_elem(r->requests_fd, &number, name))
		rut_buf_puts(out, "(other)");
	name[sizeof(name) - 1] = '\0';
	rut_buf_puts(out, name);
}

/* A copy of the names of this code, if they have its hash. */
static bool find_code(const struct rut_script_ruby *r, uint64_t id, struct rut_code *ret)
{
	const struct rut_code_set *set = &r->codes[id & (r->ncodes - 1)];
	uint64_t seed;

	memcpy(&seed, "scripts", sizeof(seed));
	for (size_t way = 0; way < RUT_CODE_WAYS; way++) {
		uint64_t hash = __atomic_load_n(&set->id[way], __ATOMIC_ACQUIRE);

		if (hash < RUT_STACK_MIN || RUT_FRAME_ID(hash) != id)
			continue;
		memcpy(ret, &set->code[way], sizeof(*ret));
		if (rut_code_hash(ret, seed) != hash)
			continue;
		ret->path[sizeof(ret->path) - 1] = '\0';
		ret->label[sizeof(ret->label) - 1] = '\0';
		ret->class_name[sizeof(ret->class_name) - 1] = '\0';
		return true;
	}
	return false;
}

static void put_method(const struct rut_code *c, struct rut_buf *out)
{
	rut_an_ruby_frame_name(out,
			       (struct rut_ruby_label){c->label, strlen(c->label), c->class_name,
						       strlen(c->class_name), c->singleton});
}

void rut_script_ruby_frame(const struct rut_script_ruby *r, uint64_t word, bool line,
			   struct rut_buf *out)
{
	struct rut_code c;

	if (!find_code(r, rut_frame_code(word), &c))
		rut_buf_puts(out, "(unknown)");
	else if (line)
		rut_buf_printf(out, "%s:%u", c.path, rut_frame_line(word));
	else
		put_method(&c, out);
}

/* A copy of the words of a stack, or a part of one; 0: it is not there. */
static size_t find_stack(const struct rut_script_ruby *r, uint64_t id,
			 uint64_t words[RUT_STACK_DEPTH])
{
	const struct rut_stack_set *set = &r->stacks[id >> 32 & (r->nstacks - 1)];
	uint64_t hash;

	memcpy(&hash, "scripts", sizeof(hash));
	for (size_t way = 0; way < RUT_STACK_WAYS; way++) {
		size_t n = set->count[way];

		if (__atomic_load_n(&set->id[way], __ATOMIC_ACQUIRE) != id || n > RUT_STACK_DEPTH)
			continue;
		memcpy(words, set->address[way], n * sizeof(*words));
		for (size_t i = 0; i < n; i++)
			hash = rut_stack_hash_step(hash, words[i]);
		return rut_stack_hash_end(hash) == id ? n : 0;
	}
	return 0;
}

static void put_frame(const struct rut_script_ruby *r, uint64_t word, unsigned indent,
		      struct rut_buf *out)
{
	struct rut_code c;

	rut_buf_printf(out, "%*s", (int)indent, "");
	if (!find_code(r, rut_frame_code(word), &c)) {
		rut_buf_puts(out, "(unknown)\n");
		return;
	}
	put_method(&c, out);
	if (c.kind == RUT_CODE_RUBY)
		rut_buf_printf(out, " (%s:%u)", c.path, rut_frame_line(word));
	rut_buf_putc(out, '\n');
}

void rut_script_ruby_stack(const struct rut_script_ruby *r, uint64_t id, uint32_t limit,
			   unsigned indent, struct rut_buf *out)
{
	uint64_t words[RUT_STACK_DEPTH];
	uint32_t shown = 0;

	while (id >= RUT_STACK_MIN && shown < limit) {
		size_t n = find_stack(r, id, words);

		if (!n) {
			rut_buf_printf(out, "%*s(unknown)\n", (int)indent, "");
			return;
		}
		/* The first word is the part outside of this one. */
		for (size_t i = n; i-- > 1 && shown < limit; shown++)
			put_frame(r, words[i], indent, out);
		id = words[0];
	}
}
