/* SPDX-License-Identifier: MIT */
/*
 * Linux 6.18 replaces a 5-byte nop, after the first hit of a probe there, by a call of a page that
 * it maps into the process, [uprobes-trampoline]. That is faster than a trap. But fork() copies the
 * call and not the page, so a child dies of SIGSEGV when it comes to the site, also after the
 * tracer has left. A probe that traps is copied correctly.
 *
 * Whether the kernel does that is tried: a child of ours has a probe at such a nop, and a child.
 *
 * The kernel tries to place the call once: when that fails it notes so in the probe (which is the
 * same for all processes and tools, one an offset of a file), and traps there as long as anybody
 * has the probe. It fails when no free page is within reach of a call, 2 GiB. So the guard is: a
 * child maps the page of the nop in the middle of 4 GiB of reserved addresses, attaches a
 * probe for itself alone, and runs the nop once. While that probe exists, the real one is attached.
 *
 * The child executes one instruction of the file, the nop. The trap flag stops it there.
 */
#include "probe/nop5.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

bool rut_nop5_is(const uint8_t *code, unsigned bytes)
{
	unsigned at = 0;

	if (bytes < 5)
		return false;
	/* Prefixes that change nothing here, then REX. */
	while (at < 4 && strchr("\x66\x2e\x36\x3e\x26\x64\x65\xf2\xf3", code[at]) && code[at])
		at++;
	if (at < 4 && (code[at] & 0xf0) == 0x40)
		at++;
	if (at == 4)
		return code[at] == 0x90;
	if (code[at] == 0x0f && code[at + 1] == 0x1f) {
		unsigned modrm, mod, size = 3;

		if (at > 2)
			return false;
		modrm = code[at + 2];
		mod = modrm >> 6;
		size += mod != 3 && (modrm & 7) == 4;
		size += mod == 1 ? 1 : mod == 2 || (!mod && (modrm & 7) == 5) ? 4 : 0;
		return at + size == 5;
	}
	/* A lea or mov that changes nothing: some kernels take them for nops. */
	if (code[at] == 0x8d || code[at] == 0x8b || code[at] == 0x89) {
		unsigned modrm = code[at + 1], mod = modrm >> 6, size = 2;

		size += mod != 3 && (modrm & 7) == 4;
		size += mod == 1 ? 1 : mod == 2 || (!mod && (modrm & 7) == 5) ? 4 : 0;
		return at + size == 5;
	}
	return false;
}

#ifdef __x86_64__

enum { TRIAL_MS = 5000, SITE_AT = 0x140 };
enum { EXIT_GOOD = 40, EXIT_PATCHED, EXIT_FAILED };

static int probe_type(void)
{
	_cleanup_file_ FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type = -1;

	return f && fscanf(f, "%d", &type) == 1 ? type : -1;
}

/* A probe that does nothing, for one process. Returns a descriptor or -errno. */
static int attach(pid_t pid, const char *path, uint64_t offset, uint64_t semaphore)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	int type = probe_type(), fd;

	if (type < 0)
		return -ENOTSUP;
	attr.type = (uint32_t)type;
	attr.config = semaphore << 32;
	attr.config1 = (uintptr_t)path;
	attr.config2 = offset;
	fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static const uint8_t *volatile site;

static void end_here(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	const uint8_t *rip = (const uint8_t *)(uintptr_t)uc->uc_mcontext.gregs[REG_RIP];

	(void)info;
	if (sig == SIGTRAP && rip == site)
		return; /* about to execute it */
	_exit(sig == SIGTRAP && rip == site + 5 && *site != 0xe8 ? EXIT_GOOD : EXIT_PATCHED);
}

/* Executes one instruction. */
__attribute__((noreturn)) static void run_site(void)
{
	struct sigaction sa = {.sa_sigaction = end_here, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGILL, &sa, NULL);
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tjmp *%0" ::"r"(site)
			 : "memory", "cc");
	_exit(EXIT_FAILED);
}

/* Maps the page of the site with no free page within reach of a call, unless `free`. */
static bool map_site(int fd, uint64_t offset, bool free)
{
	const size_t half = (2ul << 30) + (16ul << 20), page = 4096;
	char *at =
		mmap(NULL, 2 * half, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *code;

	if (at == MAP_FAILED)
		return false;
	code = mmap(at + half, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
		    (off_t)(offset & ~(page - 1)));
	if (code == MAP_FAILED)
		return false;
	if (free)
		munmap(at, half);
	site = (const uint8_t *)code + (offset & (page - 1));
	return true;
}

/* The child: maps, waits for the probe, runs `what`. */
struct trial {
	int fd;
	uint64_t offset;
	bool free;
	void (*what)(void);
};

__attribute__((noreturn)) static void be_child(const struct trial *t, int ready, int go)
{
	sigset_t none;
	char c = 0;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGALRM, SIG_DFL);
	alarm(TRIAL_MS / 1000);
	if (!map_site(t->fd, t->offset, t->free) || write(ready, &c, 1) != 1 ||
	    read(go, &c, 1) != 1)
		_exit(EXIT_FAILED);
	t->what();
	_exit(EXIT_FAILED);
}

static int reap(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

/*
 * Runs a child with a probe at the site. Returns how it exited, or -errno when the probe is
 * refused; with `ret_probe` the probe stays.
 */
static int try(const struct trial *t, const char *path, uint64_t semaphore, int *ret_probe)
{
	int ready[2], go[2], probe = -EIO, status;
	pid_t pid;
	char c = 0;

	if (pipe2(ready, O_CLOEXEC))
		return -errno;
	if (pipe2(go, O_CLOEXEC)) {
		close(ready[0]);
		close(ready[1]);
		return -EMFILE;
	}
	pid = fork();
	if (!pid)
		be_child(t, ready[1], go[0]);
	close(ready[1]);
	close(go[0]);
	if (pid > 0 && read(ready[0], &c, 1) == 1)
		probe = attach(pid, path, t->offset, semaphore);
	if (probe >= 0 && write(go[1], &c, 1) != 1) {
		close(probe);
		probe = -EIO;
	}
	close(ready[0]);
	close(go[1]);
	status = pid > 0 ? reap(pid) : EXIT_FAILED;
	if (probe >= 0 && ret_probe)
		*ret_probe = probe;
	else if (probe >= 0)
		close(probe);
	return probe < 0 ? probe : status;
}

static void call_site(void)
{
	((void (*)(void))(uintptr_t)site)();
}

static void on_crash(int sig)
{
	(void)sig;
	_exit(EXIT_PATCHED);
}

/* Hits the probe, and has a child that comes there too. The code is ours: a nop and a return. */
static void hit_and_fork(void)
{
	pid_t pid;

	signal(SIGSEGV, on_crash);
	for (int i = 0; i < 3; i++)
		call_site();
	pid = fork();
	if (!pid) {
		call_site();
		_exit(EXIT_GOOD);
	}
	_exit(pid < 0 ? EXIT_FAILED : reap(pid));
}

static int code_file(void)
{
	static const uint8_t code[] = {0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3};
	int fd = memfd_create("rutile-nop5", MFD_CLOEXEC | 0x10 /* MFD_EXEC */);

	if (fd < 0)
		fd = memfd_create("rutile-nop5", MFD_CLOEXEC);
	if (fd >= 0 &&
	    (ftruncate(fd, 4096) || pwrite(fd, code, sizeof(code), SITE_AT) != sizeof(code))) {
		close(fd);
		return -1;
	}
	return fd;
}

static enum rut_nop5 examine(void)
{
	_cleanup_close_ int fd = code_file(), guard = -1;
	struct trial plain = {fd, SITE_AT, true, hit_and_fork};
	struct trial guarded = {fd, SITE_AT, false, run_site};
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	rc = fd < 0 ? -1 : try(&plain, path, 0, NULL);
	if (rc == EXIT_GOOD)
		return RUT_NOP5_SAFE;
	if (rc != EXIT_PATCHED)
		return RUT_NOP5_UNKNOWN;
	if (try(&guarded, path, 0, &guard) != EXIT_GOOD || try(&plain, path, 0, NULL) != EXIT_GOOD)
		return RUT_NOP5_FATAL;
	return RUT_NOP5_GUARDED;
}

enum rut_nop5 rut_nop5_kernel(void)
{
	static enum rut_nop5 found;
	static bool examined;

	if (!examined)
		found = examine();
	examined = true;
	return found;
}

/* Sites of librutile-usdt, which restores them in each child by itself. */
static bool heals_itself(const char *path)
{
	static const char want[] = "/memfd:rutile-usdt ";
	char link[64];
	ssize_t n = readlink(path, link, sizeof(link) - 1);

	return n >= (ssize_t)sizeof(want) - 1 && !memcmp(link, want, sizeof(want) - 1);
}

int rut_nop5_guard(const char *path, uint64_t offset, uint64_t semaphore, int *ret_fd,
		   struct rut_err *err)
{
	_cleanup_close_ int fd = rut_file_open_regular(path);
	struct trial t = {fd, offset, false, run_site};
	uint8_t code[5] = {0};

	*ret_fd = -1;
	/* The kernel leaves a nop alone that crosses pages. What it cannot read it will refuse. */
	if (fd < 0 || pread(fd, code, sizeof(code), (off_t)offset) != sizeof(code) ||
	    !rut_nop5_is(code, sizeof(code)) || (offset & 4095) > 4096 - 5 || heals_itself(path))
		return 0;
	switch (rut_nop5_kernel()) {
	case RUT_NOP5_SAFE:
	case RUT_NOP5_UNKNOWN:
		return 0;
	case RUT_NOP5_GUARDED:
		if (try(&t, path, semaphore, ret_fd) == EXIT_GOOD)
			return 0;
		rut_closep(ret_fd);
		*ret_fd = -1;
		break;
	case RUT_NOP5_FATAL:
		break;
	}
	return rut_err_set(
		err, ENOTSUP,
		"a probe on the 5-byte nop at 0x%llx of '%s' would kill children of the "
		"processes that it hits, by a fault of this kernel (see 'rutile doctor')",
		(unsigned long long)offset, path);
}

#else /* only x86-64 kernels replace nops by calls */

enum rut_nop5 rut_nop5_kernel(void)
{
	return RUT_NOP5_SAFE;
}

int rut_nop5_guard(const char *path, uint64_t offset, uint64_t semaphore, int *ret_fd,
		   struct rut_err *err)
{
	(void)path, (void)offset, (void)semaphore, (void)err;
	*ret_fd = -1;
	return 0;
}

#endif
