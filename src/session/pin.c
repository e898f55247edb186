/* SPDX-License-Identifier: MIT */
#include "session/pin.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/leave.h"
#include "base/log.h"
#include "session/guest.h"
#include "session/kernel.h"
#include "session/programs.h"

#define GONE_MS 1000
/* 70 ms for each tracepoint of a guest */
#define GUEST_MS 600000

int rut_session_check_name(const char *name, struct rut_err *err)
{
	size_t n = strlen(name);

	if (n && n < RUT_SESSION_NAME_MAX && name[0] != '.' && name[0] != '-' &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n)
		return 0;
	/* No dots: the BPF file system keeps names with dots for itself. */
	return rut_err_set(err, EINVAL,
			   "'%s' cannot be a session's name: letters, digits, '_' and '-', at most "
			   "%d of them",
			   name, RUT_SESSION_NAME_MAX - 1);
}

static bool is_bpffs(void)
{
	struct statfs st;

	return !statfs(RUT_BPFFS, &st) && (unsigned long)st.f_type == BPF_FS_MAGIC;
}

static int need_bpffs(struct rut_err *err)
{
	if (!is_bpffs()) {
		if (mount("bpf", RUT_BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") <
		    0)
			return rut_err_errno(err, errno,
					     "the BPF file system is not mounted at '" RUT_BPFFS
					     "', and cannot be");
		rut_info("mounted the BPF file system at '" RUT_BPFFS "'");
	}
	if (mkdir(RUT_PIN_ROOT, 0700) < 0 && errno != EEXIST)
		return rut_err_errno(err, errno, "cannot make '" RUT_PIN_ROOT "'");
	return 0;
}

int rut_session_lock(struct rut_err *err)
{
	int rc, fd;

	/* Else the file system would be blamed, in which only root may look. */
	if (!rut_kernel_has_privilege())
		return rut_kernel_no_privilege(err);
	rc = need_bpffs(err);
	if (rc < 0)
		return rc;
	fd = open(RUT_PIN_ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX) < 0) {
		rc = rut_err_errno(err, errno, "cannot lock '" RUT_PIN_ROOT "'");
		rut_closep(&fd);
		return rc;
	}
	return fd;
}

static int lock_one(const char *name, int how, struct rut_err *err)
{
	_cleanup_close_ int fd = -1;
	struct stat held, named;
	char path[128];

	snprintf(path, sizeof(path), RUT_PIN_ROOT "/%s", name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? rut_err_set(err, ENOENT, "there is no session '%s'", name)
				       : rut_err_errno(err, errno, "cannot open '%s'", path);
	if (flock(fd, how) < 0 || fstat(fd, &held) < 0)
		return rut_err_errno(err, errno, "cannot lock '%s'", path);
	/* The previous holder may have removed the session; perhaps there is a new one of its name.
	 */
	if (lstat(path, &named) < 0 || named.st_ino != held.st_ino)
		return rut_err_set(err, ENOENT, "session '%s' was destroyed meanwhile", name);
	return RUT_TAKE_FD(fd);
}

int rut_session_lock_one(const char *name, struct rut_err *err)
{
	return lock_one(name, LOCK_EX, err);
}

int rut_session_try_lock(const char *name)
{
	return lock_one(name, LOCK_EX | LOCK_NB, NULL);
}

void rut_session_unlock(int fd)
{
	/* Closing alone would not do: a forked process may have it too. */
	if (fd >= 0)
		flock(fd, LOCK_UN);
	rut_closep(&fd);
}

static void pin_path(char *to, size_t size, const char *session, const char *kind, const char *name)
{
	snprintf(to, size, RUT_PIN_ROOT "/%s/%s_%s", session, kind, name);
}

/* Adds what the program of a pinned link missed. */
static void add_missed(const char *path, const char *name, void *arg)
{
	_cleanup_close_ int link = bpf_obj_get(path);
	_cleanup_close_ int prog = -1;
	struct bpf_link_info li = {0};
	struct bpf_prog_info pi = {0};
	uint32_t len = sizeof(li);
	uint64_t *sum = arg;

	if (link < 0 || bpf_obj_get_info_by_fd(link, &li, &len) < 0)
		return;
	prog = bpf_prog_get_fd_by_id(li.prog_id);
	len = sizeof(pi);
	if (prog >= 0 && !bpf_obj_get_info_by_fd(prog, &pi, &len))
		*sum += pi.recursion_misses;
}

/* Unpinned links: the kernel detaches their programs a moment later. */
struct gone {
	uint32_t *ids; /* owned */
	size_t n;
};

static void unpin_and_note(const char *path, struct gone *gone)
{
	_cleanup_close_ int fd = bpf_obj_get(path);
	struct bpf_link_info info = {0};
	uint32_t len = sizeof(info), *more;

	unlink(path);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return;
	more = reallocarray(gone->ids, gone->n + 1, sizeof(*more));
	if (!more)
		return;
	gone->ids = more;
	more[gone->n++] = info.id;
}

/*
 * What is stopped records nothing more: waits until the kernel knows the links no longer. Where we
 * may not ask (CAP_SYS_ADMIN) there is nothing to wait for.
 */
static void wait_gone(struct gone *gone)
{
	for (int ms = 0; gone->n && ms < GONE_MS; ms++) {
		int fd = bpf_link_get_fd_by_id(gone->ids[gone->n - 1]);

		if (fd < 0) {
			gone->n--;
			continue;
		}
		close(fd);
		poll(NULL, 0, 1);
	}
	/* Remove the number first, the program at once after it. */
	if (gone->ids)
		poll(NULL, 0, 2);
	free(gone->ids);
}

static int pin_link(struct rut_recorder *r, struct rut_link *l, struct rut_err *err)
{
	struct gone gone = {0};
	char path[256];
	int rc;

	if (l->pinned)
		return 0;
	pin_path(path, sizeof(path), r->conf.name, "link", l->name);
	add_missed(path, NULL, &r->meta->missed);
	/* The new program runs already, so that nothing is missed between the two. */
	unpin_and_note(path, &gone);
	rc = bpf_link__pin(l->link, path);
	wait_gone(&gone);
	if (rc < 0)
		return rut_err_errno(err, -rc, "cannot pin '%s'", path);
	l->pinned = true;
	return 0;
}

int rut_session_pin_links(struct rut_recorder *r, struct rut_err *err)
{
	for (size_t i = 0; i < r->nlinks; i++) {
		int rc = pin_link(r, &r->links[i], err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

void rut_session_dir(char *ret, size_t size, const char *name)
{
	snprintf(ret, size, RUT_PIN_ROOT "/%s", name);
}

int rut_session_pin(struct rut_recorder *r, const struct rut_guest *guest, struct rut_err *err)
{
	char path[256];
	int rc = need_bpffs(err);

	if (rc < 0)
		return rc;
	rut_session_dir(path, sizeof(path), r->conf.name);
	if (mkdir(path, 0700) < 0)
		return errno == EEXIST
			       ? rut_err_set(err, EEXIST, "a session '%s' exists", r->conf.name)
			       : rut_err_errno(err, errno, "cannot make '%s'", path);
	/* Maps last: without all of them it is not yet a session for other processes. */
	rc = guest && guest->pin ? guest->pin(guest->arg, path, r->fds[RUT_MAP_CTLS], err) : 0;
	if (!rc)
		rc = rut_session_pin_links(r, err);
	for (size_t i = 0; i < RUT_MAP_COUNT && !rc; i++) {
		pin_path(path, sizeof(path), r->conf.name, "map", rut_map_names[i]);
		if (bpf_obj_pin(r->fds[i], path) < 0)
			rc = rut_err_errno(err, errno, "cannot pin '%s'", path);
	}
	if (rc)
		rut_session_unpin(r->conf.name, NULL);
	return rc;
}

static int check_meta(struct rut_recorder *r, const char *name, struct rut_err *err)
{
	const struct rut_session_meta *m = r->meta;

	if (m->anchor.magic != RUT_META_MAGIC || m->anchor.version != RUT_META_VERSION ||
	    m->ncpus != (uint32_t)r->ncpus)
		return rut_err_set(err, EPROTO,
				   "session '%s' was made by another version of rutile: destroy it",
				   name);
	r->conf = m->conf;
	memcpy(r->uuid, m->anchor.uuid, sizeof(r->uuid));
	for (int cpu = 0; cpu < r->ncpus; cpu++) {
		struct rut_ring_ctl *ctl = (void *)((char *)r->ctls + cpu * RUT_RING_CTL_SIZE);
		size_t at = ((size_t)cpu * m->count) << m->shift;
		int rc = rut_ring_open_ctl(&r->rings[cpu], ctl, r->data + at, r->data_bytes - at,
					   err);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int rut_session_open(struct rut_recorder **ret, const char *name, struct rut_err *err)
{
	struct rut_recorder *r;
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info);
	char path[256];
	int rc = rut_session_check_name(name, err);

	if (rc < 0)
		return rc;
	r = rut_recorder_alloc();
	if (!r)
		return rut_err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < RUT_MAP_COUNT && !rc; i++) {
		pin_path(path, sizeof(path), name, "map", rut_map_names[i]);
		r->fds[i] = bpf_obj_get(path);
		if (r->fds[i] >= 0)
			continue;
		if (errno == ENOENT)
			rc = rut_err_set(err, ENOENT, "there is no session '%s'", name);
		else if (errno == EPERM || errno == EACCES)
			rc = rut_kernel_no_privilege(err);
		else
			rc = rut_err_errno(err, errno, "cannot open '%s'", path);
	}
	if (!rc && bpf_obj_get_info_by_fd(r->fds[RUT_MAP_CTLS], &info, &len) < 0)
		rc = rut_err_errno(err, errno, "cannot inspect '%s'", path);
	r->ncpus = (int)info.max_entries;
	if (!rc)
		rc = rut_recorder_map(r, err);
	if (!rc)
		rc = check_meta(r, name, err);
	if (rc) {
		rut_recorder_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

/* Calls fn for each file in a session's directory with a name that begins with `prefix`. */
static int each_pin(const char *session, const char *prefix,
		    void (*fn)(const char *path, const char *name, void *arg), void *arg)
{
	char dir[128], path[400];
	DIR *d;
	int n = 0;

	snprintf(dir, sizeof(dir), RUT_PIN_ROOT "/%s", session);
	d = opendir(dir);
	if (!d)
		return -errno;
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.' || strncmp(e->d_name, prefix, strlen(prefix)) != 0)
			continue;
		n++;
		if (!fn)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		fn(path, e->d_name + strlen(prefix), arg);
	}
	closedir(d);
	return n;
}

static void unlink_pin(const char *path, const char *name, void *arg)
{
	unlink(path);
}

/* ---- Guests ---- */

static int guest_path(char *ret, size_t size, const char *session)
{
	return snprintf(ret, size, RUT_PIN_ROOT "/%s/" RUT_GUEST_SWITCH, session);
}

bool rut_guest_hold(const char *session, bool hold)
{
	_cleanup_close_ int fd = -1;
	uint64_t *word;
	char path[256];

	guest_path(path, sizeof(path), session);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return false;
	word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (word == MAP_FAILED)
		return false;
	if (hold)
		__atomic_fetch_or(word, RUT_GUEST_HELD, __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(word, ~RUT_GUEST_HELD, __ATOMIC_SEQ_CST);
	munmap(word, sizeof(*word));
	/* Those that have read the word before have ended then: they run in RCU's readers. */
	if (hold && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		poll(NULL, 0, 20);
	return true;
}

/* A directory that has this lock as long as the kernel detaches what was left to it. */
static void guest_dir(char *ret, size_t size, const char *session)
{
	snprintf(ret, size, RUT_PIN_ROOT "/%s/detaching", session);
}

static int guest_lock(const char *session)
{
	char dir[128];
	int fd;

	guest_dir(dir, sizeof(dir), session);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return fd;
	close(fd);
	return -EAGAIN;
}

int rut_guest_wait(const char *session, struct rut_err *err)
{
	for (int ms = 0; ms < GUEST_MS; ms += 10) {
		int fd = guest_lock(session);

		if (fd >= 0)
			close(fd);
		if (fd >= 0 || fd == -ENOENT)
			return 0;
		if (fd != -EAGAIN)
			return rut_err_errno(err, -fd, "cannot lock session '%s'", session);
		poll(NULL, 0, 10);
	}
	return rut_err_set(
		err, ETIMEDOUT,
		"the kernel still detaches the programs of session '%s': try again later", session);
}

bool rut_guest_is_gone(const char *session)
{
	_cleanup_close_ int fd = guest_lock(session);
	char dir[128];

	guest_dir(dir, sizeof(dir), session);
	if (fd >= 0)
		rmdir(dir);
	return fd != -EAGAIN;
}

struct left {
	int *fds; /* owned */
	size_t n;
};

static void take_guest_link(const char *path, const char *name, void *arg)
{
	struct left *left = arg;
	int fd = bpf_obj_get(path), *more;

	more = fd < 0 ? NULL : reallocarray(left->fds, left->n + 1, sizeof(*more));
	if (!more) {
		/* It stays pinned, and is waited for, as the session's own. */
		if (fd >= 0)
			close(fd);
		return;
	}
	left->fds = more;
	left->fds[left->n++] = fd;
	unlink(path);
}

/* Another process closes them, and has the lock until then. */
static void leave_guest_links(const char *session)
{
	struct left left = {0};
	struct rlimit files;
	char dir[128];
	int lock;

	if (each_pin(session, "link_" RUT_GUEST_LINKS, NULL, NULL) < RUT_LEAVE_MIN ||
	    !rut_guest_hold(session, true))
		return;
	guest_dir(dir, sizeof(dir), session);
	mkdir(dir, 0700);
	lock = guest_lock(session);
	if (lock < 0)
		return;
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	each_pin(session, "link_" RUT_GUEST_LINKS, take_guest_link, &left);
	rut_leave_behind(left.fds, left.n, lock);
	/* Before the lock: without the other process they are detached here. */
	for (size_t i = 0; i < left.n; i++)
		close(left.fds[i]);
	close(lock);
	free(left.fds);
}

struct unpin {
	struct rut_recorder *r;
	const struct rut_selection *sel;
	struct gone gone;
};

static void unpin_link(const char *path, const char *name, void *arg)
{
	struct unpin *u = arg;

	/* Links of dynamic events have names of their own, which no program has. */
	if (u->sel && (rut_programs_wanted(u->r, u->sel, name) || strchr(name, ':')))
		return;
	add_missed(path, name, &u->r->meta->missed);
	unpin_and_note(path, &u->gone);
}

uint64_t rut_session_missed(const struct rut_recorder *r)
{
	uint64_t sum = r->meta->missed;

	each_pin(r->conf.name, "link_", add_missed, &sum);
	return sum;
}

int rut_session_unpin_links(struct rut_recorder *r, const struct rut_selection *sel)
{
	struct unpin u = {.r = r, .sel = sel};
	int n;

	if (!sel)
		leave_guest_links(r->conf.name);
	n = each_pin(r->conf.name, "link_", unpin_link, &u);
	wait_gone(&u.gone);
	return n;
}

static void note_pin(const char *path, const char *name, void *arg)
{
	unpin_and_note(path, arg);
}

void rut_session_unpin_dynamic(const struct rut_recorder *r, uint32_t id)
{
	struct gone gone = {0};
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "link_dyn:%u:", id);
	each_pin(r->conf.name, prefix, add_missed, &r->meta->missed);
	each_pin(r->conf.name, prefix, note_pin, &gone);
	wait_gone(&gone);
}

bool rut_session_has_dynamic(const struct rut_recorder *r, uint32_t id)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "link_dyn:%u:", id);
	return each_pin(r->conf.name, prefix, NULL, NULL) > 0;
}

int rut_session_count_links(const char *name)
{
	return each_pin(name, "link_", NULL, NULL);
}

int rut_session_unpin(const char *name, struct rut_err *err)
{
	struct gone gone = {0};
	char dir[128], detaching[128];

	snprintf(dir, sizeof(dir), RUT_PIN_ROOT "/%s", name);
	leave_guest_links(name);
	/* Links first: the programs stop before their maps become nameless. */
	each_pin(name, "link_", note_pin, &gone);
	wait_gone(&gone);
	each_pin(name, "", unlink_pin, NULL);
	guest_dir(detaching, sizeof(detaching), name);
	rmdir(detaching);
	if (rmdir(dir) < 0 && errno != ENOENT)
		return rut_err_errno(err, errno, "cannot remove '%s'", dir);
	return 0;
}

uint64_t rut_process_start_time(pid_t pid)
{
	_cleanup_buf_ struct rut_buf b = RUT_BUF_INIT;
	unsigned long long start = 0;
	char path[64];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (rut_buf_read_file(&b, path, 4096) < 0 || !b.data)
		return 0;
	p = strrchr(b.data, ')');
	if (!p || p[1] != ' ' || p[2] == 'Z' || p[2] == 'X')
		return 0;
	/* Field 22; the state behind the name is field 3. */
	p += 2;
	for (int i = 3; i < 22 && p; i++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : NULL;
	}
	return p && sscanf(p, "%llu", &start) == 1 ? start : 0;
}

bool rut_session_consumer_alive(const struct rut_session_meta *m)
{
	return m->consumer > 0 && m->consumer_start &&
	       rut_process_start_time(m->consumer) == m->consumer_start;
}

int rut_session_each(void (*fn)(const char *name, void *arg), void *arg, struct rut_err *err)
{
	struct dirent **list = NULL;
	int n, count = 0;

	n = scandir(RUT_PIN_ROOT, &list, NULL, alphasort);
	if (n < 0)
		return errno == ENOENT
			       ? 0
			       : rut_err_errno(err, errno, "cannot read '" RUT_PIN_ROOT "'");
	for (int i = 0; i < n; i++) {
		if (list[i]->d_name[0] != '.') {
			fn(list[i]->d_name, arg);
			count++;
		}
		free(list[i]);
	}
	free(list);
	return count;
}
