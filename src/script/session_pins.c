/* SPDX-License-Identifier: MIT */
#include "script/session_priv.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "ring/write.h"
#include "rut_config.h"
#include "script/load.h"
#include "script/portable.h"
#include "script/ruby.h"
#include "session/guest.h"

_Static_assert(RUT_COUNTER_EXIT == 0, "session/guest.h");
/* NOLINTNEXTLINE(misc-redundant-expression): of two headers */
_Static_assert(RUT_EXIT_HELD == RUT_GUEST_HELD, "session/guest.h");

/*
 * What stands beside the maps: how the script was compiled. Its parameters and its text follow, or
 * the file of a script that is compiled.
 */
struct conf {
	char version[32]; /* of rutile: another one may lay values out differently */
	char path[256], targets[512];
	int32_t pid;
	uint32_t compat, unsafe, flight, nparams, params_bytes, text_bytes;
	uint32_t portable; /* the text is a file of portable.h */
};

static const struct {
	int map;
	const char *name;
} pinned[] = {
	{RUT_MAP_COUNTERS, "counters"}, {RUT_MAP_JOURNAL, "journal"}, {RUT_MAP_STACKS, "stacks"}};

static void pin_path(char *ret, size_t size, const char *dir, const char *name)
{
	snprintf(ret, size, "%s/script_%s", dir, name);
}

static int pin(int fd, const char *dir, const char *name, struct rut_err *err)
{
	char path[512];

	pin_path(path, sizeof(path), dir, name);
	return bpf_obj_pin(fd, path) < 0 ? rut_err_errno(err, errno, "cannot pin '%s'", path) : 0;
}

/* -ENOENT: there is none of that name. */
static int unpinned(const char *dir, const char *name)
{
	char path[512];
	int fd;

	pin_path(path, sizeof(path), dir, name);
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

/* What is imported stands behind the script's own text, and is imported again. */
static uint32_t own_bytes(const struct rut_source *src)
{
	return src->nparts ? src->parts[0].begin - 1 : (uint32_t)src->len;
}

static int pin_conf(const struct rut_script_session *s, const char *dir, struct rut_err *err)
{
	const struct rut_script_opts *o = &s->p->opts;
	_cleanup_buf_ struct rut_buf value = RUT_BUF_INIT;
	_cleanup_close_ int fd = -1;
	struct conf c = {.version = RUT_VERSION,
			 .pid = o->pid,
			 .compat = o->compat,
			 .unsafe = o->unsafe,
			 .flight = o->flight,
			 .nparams = (uint32_t)o->nparams,
			 .text_bytes = own_bytes(&s->p->src),
			 .portable = s->file.len != 0};
	uint32_t key = 0;

	if (c.portable)
		c.text_bytes = (uint32_t)s->file.len;

	snprintf(c.path, sizeof(c.path), "%s", s->name);
	memcpy(c.targets, s->targets, sizeof(c.targets));
	for (size_t i = 0; i < o->nparams; i++)
		c.params_bytes += (uint32_t)strlen(o->params[i]) + 1;
	rut_buf_add(&value, &c, sizeof(c));
	rut_buf_add(&value, s->params_text, c.params_bytes);
	rut_buf_add(&value, c.portable ? s->file.data : s->p->text, c.text_bytes);
	rut_buf_putc(&value, '\0');
	if (value.failed)
		return rut_err_set(err, ENOMEM, "out of memory");
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "rut_script", 4, (uint32_t)value.len, 1, NULL);
	if (fd < 0 || bpf_map_update_elem(fd, &key, value.data, BPF_ANY))
		return rut_err_errno(err, errno, "cannot keep the text of the script");
	return pin(fd, dir, "conf", err);
}

static int pin_maps(const struct rut_script_session *s, const char *dir, struct rut_err *err)
{
	int rc = pin_conf(s, dir, err);

	for (size_t i = 0; i < sizeof(pinned) / sizeof(*pinned) && !rc; i++)
		if (s->p->fds[pinned[i].map] >= 0)
			rc = pin(s->p->fds[pinned[i].map], dir, pinned[i].name, err);
	for (size_t i = 0; i < s->p->nmaps && !rc; i++) {
		char name[32];

		snprintf(name, sizeof(name), "map%zu", i);
		rc = pin(s->p->maps[i].fd, dir, name, err);
	}
	for (size_t i = 0; i < s->p->nprogs && !rc; i++) {
		char name[32];

		snprintf(name, sizeof(name), "prog%zu", i);
		rc = pin(s->p->progs[i].fd, dir, name, err);
	}
	return rc;
}

static int attach(struct rut_script_session *s, const char *dir, struct rut_err *err)
{
	struct rut_script_links *links = NULL;
	int rc = rut_script_attach(&links, s->p, dir, err);

	rut_script_links_free(links);
	return rc;
}

/* When the script begins, and how many slots its journal has: its programs read that. */
static int set_counters(const struct rut_script_session *s, struct rut_err *err)
{
	const struct rut_script_program *p = s->p;
	_cleanup_free_ uint64_t *words = calloc(1, rut_script_counter_bytes(p));
	uint32_t key = 0;

	if (!words)
		return rut_err_set(err, ENOMEM, "out of memory");
	words[RUT_COUNTER_BEGIN] = rut_ring_clock();
	if (p->record_max)
		words[RUT_COUNTER_MASK] = rut_script_journal_slots(p->record_max) - 1;
	return bpf_map_update_elem(p->fds[RUT_MAP_COUNTERS], &key, words, BPF_ANY)
		       ? rut_err_errno(err, errno, "cannot set the script's counters")
		       : 0;
}

int rut_script_session_run_kind(struct rut_script_session *s, enum rut_probe_kind kind,
				struct rut_err *err)
{
	for (size_t i = 0; i < s->p->nprogs; i++) {
		const struct rut_script_prog *prog = &s->p->progs[i];
		int rc = 0;

		if (prog->nattach && prog->attach[0].kind == kind)
			rc = rut_script_run_prog(prog);
		if (rc)
			return rut_err_errno(err, -rc, "cannot run %s", prog->attach[0].name);
	}
	return 0;
}

/* The programs that freeze the session's rings. */
static int load_freezing(struct rut_script_session *s, int rings, struct rut_err *err)
{
	int rc;

	s->p->fds[RUT_MAP_RINGS] = fcntl(rings, F_DUPFD_CLOEXEC, 0);
	if (s->p->fds[RUT_MAP_RINGS] < 0)
		return rut_err_errno(err, errno, "cannot use the session's rings");
	rc = rut_script_load(s->p, err);
	if (rc == -EINVAL && !err->code && s->p->src.messages.len)
		rut_err_set(err, EINVAL, "%.*s", (int)strcspn(s->p->src.messages.data, "\n"),
			    s->p->src.messages.data);
	return rc;
}

static int pin_all(void *arg, const char *dir, int rings, struct rut_err *err)
{
	struct rut_script_session *s = arg;
	int rc = s->p->freezes ? load_freezing(s, rings, err) : 0;

	if (!rc)
		rc = pin_maps(s, dir, err);
	if (!rc && s->p->ruby)
		rc = rut_script_ruby_pin(s->p->ruby, dir, err);
	if (!rc)
		rc = set_counters(s, err);
	if (!rc)
		rc = rut_script_session_run_kind(s, RUT_PROBE_BEGIN, err);
	if (!rc)
		rc = attach(s, dir, err);
	return rc ? rc : rut_script_session_rubies_begin(s, err);
}

static int resume(void *arg, const char *dir, struct rut_err *err)
{
	int rc = attach(arg, dir, err);

	if (!rc)
		rut_guest_hold(strrchr(dir, '/') + 1, false);
	return rc;
}

struct rut_guest rut_script_session_guest(struct rut_script_session *s)
{
	return (struct rut_guest){.pin = pin_all, .resume = resume, .arg = s};
}

int rut_script_session_reopen(struct rut_script_session *s, const char *dir, struct rut_err *err)
{
	int rc = s->file.len ? rut_portable_settle(s->p, err) : 0;

	if (rc)
		return rc == -EINVAL && !err->code
			       ? rut_err_set(err, EINVAL, "%.*s",
					     (int)strcspn(s->p->src.messages.data, "\n"),
					     s->p->src.messages.data)
			       : rc;
	for (size_t i = 0; i < s->p->nprogs; i++) {
		char name[32];

		snprintf(name, sizeof(name), "prog%zu", i);
		s->p->progs[i].fd = unpinned(dir, name);
		if (s->p->progs[i].fd < 0)
			return rut_err_errno(err, -s->p->progs[i].fd,
					     "cannot open a program of the script");
	}
	return 0;
}

/* ---- Finding it again ---- */

static int read_conf(const char *dir, struct rut_buf *ret)
{
	_cleanup_close_ int fd = unpinned(dir, "conf");
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info), key = 0;
	int rc;

	if (fd < 0)
		return fd;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	rc = rut_buf_reserve(ret, info.value_size);
	if (rc)
		return rc;
	if (info.value_size < sizeof(struct conf) || bpf_map_lookup_elem(fd, &key, ret->data))
		return -EPROTO;
	ret->len = info.value_size;
	return 0;
}

/* As many strings as it says, one behind the other. */
static bool has_params(const struct conf *c)
{
	const char *params = (const char *)(c + 1);
	uint32_t strings = 0;

	for (uint32_t i = 0; i < c->params_bytes; i++)
		strings += !params[i];
	return strings == c->nparams && (!c->params_bytes || !params[c->params_bytes - 1]);
}

static bool is_whole(const struct rut_buf *b)
{
	const struct conf *c = (const void *)b->data;
	uint64_t bytes = sizeof(*c) + (uint64_t)c->params_bytes + c->text_bytes + 1;

	return !strncmp(c->version, RUT_VERSION, sizeof(c->version)) && bytes <= b->len &&
	       !c->path[sizeof(c->path) - 1] && !b->data[bytes - 1] && has_params(c);
}

static bool has_size(int fd, uint32_t key, uint32_t value)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);

	return !bpf_obj_get_info_by_fd(fd, &info, &len) && info.value_size == value &&
	       (!key || info.key_size == key);
}

/* The pinned maps in place of those that a load would make. They must be what was compiled. */
static int adopt(struct rut_script_program *p, const char *dir)
{
	for (size_t i = 0; i < sizeof(pinned) / sizeof(*pinned); i++)
		p->fds[pinned[i].map] = unpinned(dir, pinned[i].name);
	if (!has_size(p->fds[RUT_MAP_COUNTERS], 0, (uint32_t)rut_script_counter_bytes(p)) ||
	    (p->record_max &&
	     !has_size(p->fds[RUT_MAP_JOURNAL], 0, rut_script_journal_slot_bytes(p->record_max))))
		return -EPROTO;
	for (size_t i = 0; i < p->nmaps; i++) {
		struct rut_script_map *m = &p->maps[i];
		char name[32];

		snprintf(name, sizeof(name), "map%zu", i);
		m->fd = unpinned(dir, name);
		if (m->fd < 0 || !has_size(m->fd, m->key_bytes, m->value_bytes))
			return -EPROTO;
	}
	return 0;
}

static int open_script(struct rut_script_session *s, const struct rut_buf *b, const char *dir,
		       struct rut_err *err)
{
	const struct conf *c = (const void *)b->data;
	const char *params = (const char *)(c + 1), *text = params + c->params_bytes;
	_cleanup_free_ const char **list = calloc((size_t)c->nparams + 1, sizeof(*list));
	struct rut_script_opts opts = {.pid = c->pid,
				       .compat = c->compat,
				       .unsafe = c->unsafe,
				       .flight = c->flight,
				       .params = list,
				       .nparams = c->nparams};
	int rc;

	if (!list)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < c->nparams; i++, params += strlen(params) + 1)
		list[i] = params;
	snprintf(s->name, sizeof(s->name), "%s", c->path);
	rc = rut_script_session_compile(s, text, c->text_bytes, &opts, err);
	if (rc == -EINVAL && !err->code)
		return rut_err_set(err, EINVAL,
				   "the script '%s' of the session no longer compiles: %.*s",
				   c->path, (int)strcspn(s->p->src.messages.data, "\n"),
				   s->p->src.messages.data);
	if (!rc && adopt(s->p, dir))
		rc = rut_err_set(err, EPROTO,
				 "the maps of the session are not those of its script '%s': "
				 "the kernel's types, or a file that it probes, have changed",
				 c->path);
	if (!rc && s->p->needs_ruby)
		rc = rut_script_ruby_open(&s->p->ruby, dir, err);
	return rc ? rc : rut_script_session_prepare(s, err);
}

int rut_script_session_open(struct rut_script_session **ret, const char *dir, struct rut_err *err)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	struct rut_script_session *s;
	int rc = read_conf(dir, &b);

	if (rc == -ENOENT)
		return rut_err_set(err, ENOENT, "the session has no script");
	if (rc)
		return rut_err_errno(err, -rc, "cannot read the script of the session");
	if (!is_whole(&b))
		return rut_err_set(err, EPROTO,
				   "the session's script was started by another version of rutile");
	s = rut_script_session_make("");
	if (!s)
		return rut_err_set(err, ENOMEM, "out of memory");
	rc = open_script(s, &b, dir, err);
	if (rc) {
		rut_script_session_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

int rut_script_session_status(struct rut_script_session_status *ret, const char *dir)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT, words = RUT_BUF_INIT;
	_cleanup_close_ int fd = unpinned(dir, "counters");
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info), key = 0;
	int rc = read_conf(dir, &b);

	*ret = (struct rut_script_session_status){0};
	if (rc || fd < 0)
		return rc ? rc : fd;
	if (!is_whole(&b) || bpf_obj_get_info_by_fd(fd, &info, &len) ||
	    info.value_size < RUT_COUNTER_SITES * sizeof(uint64_t) ||
	    rut_buf_reserve(&words, info.value_size) || bpf_map_lookup_elem(fd, &key, words.data))
		return -EPROTO;
	snprintf(ret->path, sizeof(ret->path), "%s", ((const struct conf *)(void *)b.data)->path);
	memcpy(ret->targets, ((const struct conf *)(void *)b.data)->targets, sizeof(ret->targets));
	ret->targets[sizeof(ret->targets) - 1] = '\0';
	ret->printed = ((const uint64_t *)(void *)words.data)[RUT_COUNTER_RECORDS];
	ret->ended = ((const uint64_t *)(void *)words.data)[RUT_COUNTER_EXIT] & ~RUT_GUEST_HELD;
	return 0;
}
