/* SPDX-License-Identifier: MIT */
#include "ruby/target.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#define MAPS_MAX_BYTES (64u << 20)

void rut_target_fini(struct rut_target *t)
{
	if (t->mem_fd >= 0)
		close(t->mem_fd);
	free(t->maps_text);
	free(t->maps);
	*t = (struct rut_target)RUT_TARGET_INIT;
}

int rut_target_parse_maps(struct rut_target *t, char *text)
{
	char *line, *save = NULL;
	size_t lines = 1;

	free(t->maps);
	free(t->maps_text);
	t->maps_text = text;
	t->map_count = 0;
	for (const char *p = text; p && *p; p++)
		lines += *p == '\n';
	t->maps = text ? calloc(lines, sizeof(*t->maps)) : NULL;
	if (!t->maps)
		return -ENOMEM;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		t->map_count += rut_mapping_parse(line, &t->maps[t->map_count]);
	return 0;
}

int rut_target_read_maps(struct rut_target *t, pid_t pid)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	r = rut_buf_read_file(&text, path, MAPS_MAX_BYTES);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	t->pid = pid;
	return rut_target_parse_maps(t, rut_buf_take(&text));
}

int rut_target_open_memory(struct rut_target *t)
{
	char path[64];

	if (t->mem_fd >= 0)
		close(t->mem_fd);
	snprintf(path, sizeof(path), "/proc/%d/mem", t->pid);
	t->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (t->mem_fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return 0;
}

int rut_target_read(const struct rut_target *t, uint64_t addr, void *ret, size_t len)
{
	ssize_t n = pread(t->mem_fd, ret, len, (off_t)addr);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int rut_target_read_string(const struct rut_target *t, uint64_t addr, char *ret, size_t cap)
{
	ssize_t n = pread(t->mem_fd, ret, cap - 1, (off_t)addr);

	if (n < 0)
		return -errno;
	ret[n] = 0;
	return 0;
}

int rut_target_write(const struct rut_target *t, uint64_t addr, const void *data, size_t len)
{
	ssize_t n = pwrite(t->mem_fd, data, len, (off_t)addr);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int rut_target_open_memfd(pid_t pid, pid_t tid, int number, const char *name)
{
	_cleanup_close_ int found = -1;
	char path[80], link[80], want[80];
	struct statfs fs;
	ssize_t n;
	int fd;

	/* As a place only: opening a file of another kind for writing could do something to it. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", pid, tid, number);
	found = open(path, O_PATH | O_CLOEXEC);
	if (found < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	snprintf(want, sizeof(want), "/memfd:%s (deleted)", name);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return -errno;
	link[n] = 0;
	if (strcmp(link, want) != 0 || fstatfs(found, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return -ENOENT;
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int rut_target_open_shared(pid_t pid, int number, const char *name)
{
	int fd = rut_target_open_memfd(pid, pid, number, name), seals;

	if (fd < 0)
		return fd;
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK)) {
		close(fd);
		return -EPROTO;
	}
	return fd;
}

int rut_target_closed(pid_t pid, const char *what, struct rut_err *err)
{
	return rut_err_set(err, EPROTO,
			   "process %d closed the agent's %s: it closes descriptors that others "
			   "opened, as daemons do when they start; try again when it has done so",
			   (int)pid, what);
}

const struct rut_mapping *rut_target_mapping_at(const struct rut_target *t, uint64_t addr)
{
	size_t low = 0, high = t->map_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (addr < t->maps[mid].start)
			high = mid;
		else if (addr >= t->maps[mid].end)
			low = mid + 1;
		else
			return &t->maps[mid];
	}
	return NULL;
}

static bool same_file(const struct rut_mapping *a, const struct rut_mapping *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && !strcmp(a->path, b->path);
}

const struct rut_mapping *rut_target_module_of(const struct rut_target *t,
					       const struct rut_mapping *m)
{
	const struct rut_mapping *first = NULL;

	if (!m->inode)
		return NULL;
	for (const struct rut_mapping *i = m; i >= t->maps; i--) {
		if (!same_file(i, m))
			continue;
		first = i;
		if (i->offset == 0)
			break;
	}
	return first && first->offset == 0 ? first : NULL;
}

const char *rut_mapping_basename(const struct rut_mapping *m)
{
	const char *slash = strrchr(m->path, '/');

	return slash ? slash + 1 : m->path;
}

const struct rut_mapping *rut_target_next_module(const struct rut_target *t,
						 const struct rut_mapping *prev)
{
	for (const struct rut_mapping *m = prev ? prev + 1 : t->maps; m < t->maps + t->map_count;
	     m++) {
		/* A module has an executable mapping of the same file after its first one. */
		if (!m->inode || m->offset || m->shared || m->path[0] != '/')
			continue;
		for (const struct rut_mapping *x = m; x < t->maps + t->map_count && same_file(x, m);
		     x++)
			if (x->exec)
				return m;
	}
	return NULL;
}

enum rut_libc rut_target_libc(const struct rut_target *t, const struct rut_mapping **ret_module)
{
	bool musl = false;

	for (const struct rut_mapping *m = NULL; (m = rut_target_next_module(t, m));) {
		const char *name = rut_mapping_basename(m);

		if (!strcmp(name, "libc.so.6") || (!strncmp(name, "libc-2.", 7))) {
			*ret_module = m;
			return RUT_LIBC_GLIBC;
		}
		musl |= !strncmp(name, "ld-musl-", 8) || !strncmp(name, "libc.musl-", 10);
	}
	*ret_module = NULL;
	return musl ? RUT_LIBC_MUSL : RUT_LIBC_NONE;
}

/* --- symbols ----------------------------------------------------------------------------- */

struct dynamic {
	uint64_t bias; /* added to addresses of the file */
	uint64_t symtab, strtab, gnu_hash, hash;
	uint64_t strsz;
};

/* ld.so adds the bias to some addresses of the dynamic section in memory and not to others. */
static uint64_t dyn_address(const struct dynamic *d, uint64_t base, uint64_t value)
{
	return value >= base ? value : value + d->bias;
}

static int read_dynamic_section(const struct rut_target *t, uint64_t base, const Elf64_Phdr *ph,
				struct dynamic *d)
{
	Elf64_Dyn dyn[128];
	size_t bytes = ph->p_memsz < sizeof(dyn) ? ph->p_memsz : sizeof(dyn);

	if (rut_target_read(t, d->bias + ph->p_vaddr, dyn, bytes) < 0)
		return -ENOEXEC;
	for (size_t i = 0; i < bytes / sizeof(*dyn) && dyn[i].d_tag != DT_NULL; i++) {
		uint64_t value = dyn[i].d_un.d_ptr;

		switch (dyn[i].d_tag) {
		case DT_SYMTAB:
			d->symtab = dyn_address(d, base, value);
			break;
		case DT_STRTAB:
			d->strtab = dyn_address(d, base, value);
			break;
		case DT_STRSZ:
			d->strsz = value;
			break;
		case DT_GNU_HASH:
			d->gnu_hash = dyn_address(d, base, value);
			break;
		case DT_HASH:
			d->hash = dyn_address(d, base, value);
			break;
		default:
			break;
		}
	}
	return d->symtab && d->strtab && (d->gnu_hash || d->hash) ? 0 : -ENOEXEC;
}

static int read_dynamic(const struct rut_target *t, uint64_t base, struct dynamic *d)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph[32];
	bool have_bias = false;
	size_t count;

	*d = (struct dynamic){0};
	if (rut_target_read(t, base, &eh, sizeof(eh)) < 0 ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_phentsize != sizeof(ph[0]))
		return -ENOEXEC;
	count = eh.e_phnum < 32 ? eh.e_phnum : 32;
	if (rut_target_read(t, base + eh.e_phoff, ph, count * sizeof(ph[0])) < 0)
		return -ENOEXEC;
	for (size_t i = 0; i < count; i++)
		if (ph[i].p_type == PT_LOAD && ph[i].p_offset == 0) {
			d->bias = base - (ph[i].p_vaddr & ~4095ull);
			have_bias = true;
		}
	for (size_t i = 0; have_bias && i < count; i++)
		if (ph[i].p_type == PT_DYNAMIC)
			return read_dynamic_section(t, base, &ph[i], d);
	return -ENOEXEC;
}

static bool symbol_matches(const struct rut_target *t, const struct dynamic *d, uint32_t index,
			   const char *name, struct rut_target_symbol *ret)
{
	Elf64_Sym sym;
	char buf[128];
	size_t len = strlen(name);

	if (len >= sizeof(buf) ||
	    rut_target_read(t, d->symtab + index * sizeof(sym), &sym, sizeof(sym)) < 0 ||
	    sym.st_shndx == SHN_UNDEF || sym.st_name >= d->strsz ||
	    rut_target_read_string(t, d->strtab + sym.st_name, buf, len + 2) < 0 ||
	    strcmp(buf, name) != 0)
		return false;
	ret->addr = d->bias + sym.st_value;
	ret->size = sym.st_size;
	return true;
}

static int find_by_gnu_hash(const struct rut_target *t, const struct dynamic *d, const char *name,
			    struct rut_target_symbol *ret)
{
	struct {
		uint32_t nbuckets, symoffset, bloom_size, bloom_shift;
	} head;
	uint32_t hash = 5381, index, h;
	uint64_t buckets, chain;

	for (const char *p = name; *p; p++)
		hash = hash * 33 + (unsigned char)*p;
	if (rut_target_read(t, d->gnu_hash, &head, sizeof(head)) < 0 || !head.nbuckets)
		return -ENOEXEC;
	buckets = d->gnu_hash + sizeof(head) + head.bloom_size * 8ull;
	chain = buckets + head.nbuckets * 4ull;
	if (rut_target_read(t, buckets + hash % head.nbuckets * 4ull, &index, 4) < 0)
		return -ENOEXEC;
	if (index < head.symoffset)
		return -ENOENT;
	for (unsigned int steps = 0; steps < 4096; steps++, index++) {
		if (rut_target_read(t, chain + (index - head.symoffset) * 4ull, &h, 4) < 0)
			return -ENOEXEC;
		if ((h | 1) == (hash | 1) && symbol_matches(t, d, index, name, ret))
			return 0;
		if (h & 1)
			return -ENOENT;
	}
	return -ENOENT;
}

static int find_by_sysv_hash(const struct rut_target *t, const struct dynamic *d, const char *name,
			     struct rut_target_symbol *ret)
{
	uint32_t head[2], hash = 0, index;

	for (const char *p = name; *p; p++) {
		uint32_t g;

		hash = (hash << 4) + (unsigned char)*p;
		g = hash & 0xf0000000u;
		hash ^= g >> 24;
		hash &= ~g;
	}
	if (rut_target_read(t, d->hash, head, sizeof(head)) < 0 || !head[0])
		return -ENOEXEC;
	if (rut_target_read(t, d->hash + 8 + hash % head[0] * 4ull, &index, 4) < 0)
		return -ENOEXEC;
	for (unsigned int steps = 0; index && index < head[1] && steps < 4096; steps++) {
		if (symbol_matches(t, d, index, name, ret))
			return 0;
		if (rut_target_read(t, d->hash + 8 + (head[0] + index) * 4ull, &index, 4) < 0)
			return -ENOEXEC;
	}
	return -ENOENT;
}

int rut_target_find_symbol(const struct rut_target *t, const struct rut_mapping *module,
			   const char *name, struct rut_target_symbol *ret)
{
	struct dynamic d;
	int r = read_dynamic(t, module->start, &d);

	if (r < 0)
		return r;
	return d.gnu_hash ? find_by_gnu_hash(t, &d, name, ret)
			  : find_by_sysv_hash(t, &d, name, ret);
}

/* --- status ------------------------------------------------------------------------------ */

int rut_proc_status_read(struct rut_proc_status *ret, pid_t pid, pid_t tid)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	struct rut_proc_status s = {.seccomp = -1};
	char path[64], *line, *save = NULL;
	uint64_t pending = 0, shared = 0;
	int r;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/status", pid);
	r = rut_buf_read_file(&text, path, 1 << 16);
	if (r < 0)
		return r == -ENOENT ? -ESRCH : r;
	if (text.failed || !text.data)
		return -ENOMEM;
	for (line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *ns;

		sscanf(line, "Name: %63[^\n]", s.name);
		sscanf(line, "State: %c", &s.state);
		sscanf(line, "Tgid: %d", &s.tgid);
		sscanf(line, "PPid: %d", &s.ppid);
		sscanf(line, "TracerPid: %d", &s.tracer);
		sscanf(line, "Uid: %*u %u", &s.uid);
		sscanf(line, "Threads: %u", &s.threads);
		sscanf(line, "SigPnd: %" SCNx64, &pending);
		sscanf(line, "ShdPnd: %" SCNx64, &shared);
		sscanf(line, "SigBlk: %" SCNx64, &s.sig_blocked);
		sscanf(line, "Seccomp: %d", &s.seccomp);
		if (!strncmp(line, "NSpid:", 6)) {
			ns = strrchr(line, '\t');
			s.ns_pid = ns ? atoi(ns + 1) : 0;
		}
	}
	s.sig_pending = pending | shared;
	*ret = s;
	return 0;
}

void rut_user_name(uid_t uid, char *ret, size_t cap)
{
	struct passwd pw, *found = NULL;
	char buf[4096];

	if (!getpwuid_r(uid, &pw, buf, sizeof(buf), &found) && found)
		snprintf(ret, cap, "%s", found->pw_name);
	else
		snprintf(ret, cap, "%u", uid);
}

/* --- may it be traced? ------------------------------------------------------------------- */

bool rut_have_cap_sys_ptrace(void)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	uint64_t caps = 0;
	const char *line;

	if (rut_buf_read_file(&text, "/proc/self/status", 1 << 16) < 0 || !text.data)
		return false;
	line = strstr(text.data, "CapEff:");
	return line && sscanf(line, "CapEff: %" SCNx64, &caps) == 1 &&
	       caps & 1ull << CAP_SYS_PTRACE;
}

int rut_yama_scope(void)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	if (rut_buf_read_file(&text, "/proc/sys/kernel/yama/ptrace_scope", 64) < 0 || !text.data)
		return -1;
	return atoi(text.data);
}

int rut_target_explain_eperm(pid_t pid, struct rut_err *err)
{
	struct rut_proc_status s;
	int yama = rut_yama_scope(), r = rut_proc_status_read(&s, pid, 0);
	bool cap = rut_have_cap_sys_ptrace();
	char owner[64], me[64];

	if (r < 0)
		return rut_err_set(err, ESRCH, "process %d has ended meanwhile", pid);
	rut_user_name(s.uid, owner, sizeof(owner));
	rut_user_name(geteuid(), me, sizeof(me));
	if (yama == 3)
		return rut_err_set(
			err, EPERM,
			"process %d cannot be traced: kernel.yama.ptrace_scope is 3, which "
			"forbids it to everybody until the next boot; preload the agent "
			"instead (see rutile(1))",
			pid);
	if (s.uid != geteuid() && !cap)
		return rut_err_set(
			err, EPERM,
			"process %d belongs to user '%s' and you are '%s': run rutile as "
			"root (CAP_SYS_PTRACE) or as '%s'",
			pid, owner, me, owner);
	if (yama >= 1 && !cap)
		return rut_err_set(
			err, EPERM,
			"process %d cannot be traced: kernel.yama.ptrace_scope is %d: run "
			"rutile as root%s",
			pid, yama,
			yama == 1 ? ", or set it to 0, or preload the agent (see rutile(1))"
				  : " (CAP_SYS_PTRACE)");
	if (!cap)
		return rut_err_set(
			err, EPERM,
			"process %d cannot be traced by '%s': it has changed its user or "
			"holds more privileges: run rutile as root (CAP_SYS_PTRACE)",
			pid, me);
	return rut_err_set(err, EPERM,
			   "process %d cannot be traced: the kernel refuses it (another user "
			   "namespace, a seccomp filter or a security module): run rutile as root "
			   "of the host, or preload the agent (see rutile(1))",
			   pid);
}

int rut_proc_status_settled(struct rut_proc_status *ret, struct rut_proc_status *ret_tracer,
			    pid_t pid)
{
	const struct timespec nap = {.tv_nsec = 200000};

	for (int tries = 0;; tries++) {
		int r = rut_proc_status_read(ret, pid, 0);

		if (r == 0 && ret->tracer && rut_proc_status_read(ret_tracer, ret->tracer, 0) < 0)
			ret->tracer = 0; /* it has ended */
		if (r < 0 || !ret->tracer || ret_tracer->tgid != ret->ppid || tries == 100)
			return r;
		nanosleep(&nap, NULL);
	}
}

static int check_state(const struct rut_proc_status *s, const struct rut_proc_status *tracer,
		       pid_t pid, struct rut_err *err)
{
	switch (s->state) {
	case 'Z':
	case 'X':
		return rut_err_set(err, ESRCH,
				   "process %d has ended and is a zombie: its parent %d has not "
				   "collected it",
				   pid, s->ppid);
	case 'T':
		return rut_err_set(err, EBUSY,
				   "process %d is stopped: continue it first (kill -CONT %d)", pid,
				   pid);
	default:
		break;
	}
	if (!s->tracer || !strcmp(tracer->name, RUT_INJECT_THREAD_NAME))
		return 0;
	return rut_err_set(err, EALREADY,
			   "process %d is already traced by process %d (%s): only one debugger can "
			   "be attached at a time",
			   pid, s->tracer, tracer->name);
}

int rut_target_check(struct rut_target *t, pid_t pid, struct rut_err *err)
{
	struct rut_proc_status s, tracer;
	const struct rut_mapping *m;
	unsigned char ident[EI_NIDENT];
	int r = pid > 0 ? rut_proc_status_settled(&s, &tracer, pid) : -ESRCH;

	if (r == -ESRCH)
		return rut_err_set(err, ESRCH, "no process with PID %d", pid);
	if (r < 0)
		return rut_err_errno(err, -r, "cannot read /proc/%d/status", pid);
	if (s.tgid != pid)
		return rut_err_set(err, ESRCH, "%d is a thread of process %d: name the process",
				   pid, s.tgid);
	r = check_state(&s, &tracer, pid, err);
	if (r < 0)
		return r;
	r = rut_target_read_maps(t, pid);
	if (r == 0)
		r = rut_target_open_memory(t);
	if (r == -EACCES || r == -EPERM)
		return rut_target_explain_eperm(pid, err);
	if (r == -ESRCH)
		return rut_err_set(err, ESRCH, "process %d has ended meanwhile", pid);
	if (r < 0)
		return rut_err_errno(err, -r, "cannot look into process %d", pid);
	if (!t->map_count)
		return rut_err_set(err, ENOEXEC, "process %d is a kernel thread or is ending", pid);
	m = rut_target_next_module(t, NULL);
	if (m && rut_target_read(t, m->start, ident, sizeof(ident)) == 0 &&
	    ident[EI_CLASS] == ELFCLASS32)
		return rut_err_set(err, ENOEXEC,
				   "process %d is a 32-bit program: only 64-bit "
				   "programs can be traced",
				   pid);
	return 0;
}
