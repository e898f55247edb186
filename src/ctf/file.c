/* SPDX-License-Identifier: MIT */
#include "ctf/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	PAGE = 4096,
	CHUNK = 4096, /* slots that are allocated at once */
	MAX_CHUNKS = 1024,
	/* Mappings that are left for everything else: libraries, stacks, large blocks. */
	OTHER_MAPPINGS = 1024,
	USUAL_MAPPINGS = 65530, /* vm.max_map_count, where it cannot be read */
};

struct slot {
	_Atomic uintptr_t begin, end; /* begin 0: free */
	_Atomic bool cut;
};

/* Slots stay where they are: a handler may be looking at them. */
static struct slot *_Atomic chunks[MAX_CHUNKS];
static _Atomic int n_slots; /* those at and above were never used */
static int first_free;	    /* all below are taken */
static int n_taken;
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous;

/* NULL: its chunk is not there yet. */
static struct slot *slot_at(int i)
{
	struct slot *chunk = atomic_load(&chunks[i / CHUNK]);

	return chunk ? &chunk[i % CHUNK] : NULL;
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	int saved = errno, n = atomic_load(&n_slots);

	for (int i = 0; i < n; i++) {
		struct slot *slot = slot_at(i);
		uintptr_t begin = atomic_load(&slot->begin), end = atomic_load(&slot->end);
		uintptr_t page = addr & ~(uintptr_t)(PAGE - 1);

		if (!begin || addr < begin || addr >= end)
			continue;
		if (mmap((void *)page, end - page, PROT_READ,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			break;
		atomic_store(&slot->cut, true);
		errno = saved;
		return;
	}
	/* Not ours: the previous handler gets it when the instruction runs again. */
	sigaction(sig, &previous, NULL);
	errno = saved;
}

/* At every mapping: others may have put a handler of their own in place meanwhile. */
static void install(void)
{
	struct sigaction sa = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO}, now;

	pthread_mutex_lock(&slots_lock);
	sigaction(SIGBUS, NULL, &now);
	if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != on_sigbus) {
		previous = now;
		sigemptyset(&sa.sa_mask);
		sigaction(SIGBUS, &sa, NULL);
	}
	pthread_mutex_unlock(&slots_lock);
}

/* How many files may be mapped at once: the kernel counts a process's mappings. */
static int most_files(void)
{
	_cleanup_close_ int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	char text[32] = "";
	long most = USUAL_MAPPINGS;

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		most = strtol(text, NULL, 10);
	most -= OTHER_MAPPINGS;
	return most < 1 ? 1 : most > MAX_CHUNKS * CHUNK ? MAX_CHUNKS * CHUNK : (int)most;
}

/* Returns its number, -ENOMEM, or -EMFILE: there may be no more. */
static int take_slot_locked(const void *data, size_t size)
{
	static int most;
	uintptr_t end = ((uintptr_t)data + size + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	struct slot *slot;
	int i = first_free;

	if (!most)
		most = most_files();
	if (n_taken >= most)
		return -EMFILE;
	while ((slot = slot_at(i)) && slot->begin)
		i++;
	if (!slot) {
		slot = calloc(CHUNK, sizeof(*slot));
		if (!slot)
			return -ENOMEM;
		atomic_store(&chunks[i / CHUNK], slot); /* its first: all before are taken */
	}
	atomic_store(&slot->cut, false);
	atomic_store(&slot->end, end);
	atomic_store(&slot->begin, (uintptr_t)data);
	if (i >= n_slots)
		atomic_store(&n_slots, i + 1);
	first_free = i + 1;
	n_taken++;
	return i;
}

static int take_slot(const void *data, size_t size)
{
	int i;

	pthread_mutex_lock(&slots_lock);
	i = take_slot_locked(data, size);
	pthread_mutex_unlock(&slots_lock);
	return i;
}

static void give_slot(int i)
{
	pthread_mutex_lock(&slots_lock);
	atomic_store(&slot_at(i)->begin, 0);
	first_free = i < first_free ? i : first_free;
	n_taken--;
	pthread_mutex_unlock(&slots_lock);
}

int rut_ctf_file_map(struct rut_ctf_file *f, const char *path, bool consume, struct rut_err *err)
{
	_cleanup_close_ int fd =
		open(path, (consume ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	void *data;

	*f = (struct rut_ctf_file){.slot = -1, .consume = consume};
	if (fd < 0 || fstat(fd, &st) < 0)
		return rut_err_errno(err, errno, "cannot open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return rut_err_set(err, EINVAL, "'%s' is not a regular file", path);
	if (!st.st_size)
		return 0;
	install();
	data = mmap(NULL, (size_t)st.st_size, PROT_READ | (consume ? PROT_WRITE : 0), MAP_SHARED,
		    fd, 0);
	if (data == MAP_FAILED)
		return rut_err_errno(err, errno, "cannot map '%s'", path);
	f->slot = take_slot(data, (size_t)st.st_size);
	if (f->slot < 0) {
		int rc = f->slot;

		munmap(data, (size_t)st.st_size);
		f->slot = -1;
		return rc == -EMFILE
			       ? rut_err_set(err, EMFILE,
					     "'%s': more than %d files at once, which the "
					     "kernel's limit of mappings allows: raise it "
					     "(sysctl vm.max_map_count), or read fewer traces",
					     path, n_taken)
			       : rut_err_set(err, ENOMEM, "out of memory");
	}
	madvise(data, (size_t)st.st_size, MADV_SEQUENTIAL);
	f->cut = &slot_at(f->slot)->cut;
	f->data = data;
	f->size = (size_t)st.st_size;
	return 0;
}

void rut_ctf_file_unmap(struct rut_ctf_file *f)
{
	if (f->data) {
		give_slot(f->slot);
		munmap((void *)f->data, f->size);
	}
	*f = (struct rut_ctf_file){.slot = -1};
}

static void give_back(const struct rut_ctf_file *f, uint64_t from, uint64_t to, int advice)
{
	from = (from + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	to &= ~(uint64_t)(PAGE - 1);
	if (f->data && from < to)
		madvise((void *)(f->data + from), to - from, advice);
}

void rut_ctf_file_forget(const struct rut_ctf_file *f, uint64_t from, uint64_t to)
{
	give_back(f, from, to, MADV_DONTNEED);
}

void rut_ctf_file_consume(const struct rut_ctf_file *f, uint64_t from, uint64_t to)
{
	give_back(f, from, to, f->consume ? MADV_REMOVE : MADV_DONTNEED);
}

static bool in_memory(const struct rut_ctf_file *f, uint64_t offset)
{
	unsigned char is_there = 0;

	offset &= ~(uint64_t)(PAGE - 1);
	return !mincore((void *)(f->data + offset), 1, &is_there) && is_there & 1;
}

void rut_ctf_file_expect(const struct rut_ctf_file *f, uint64_t from, uint64_t bytes)
{
	from &= ~(uint64_t)(PAGE - 1);
	if (!f->data || from >= f->size)
		return;
	if (bytes > f->size - from)
		bytes = f->size - from;
	/* The kernel would look for each page, which takes long where all are there already. */
	if (in_memory(f, from) && in_memory(f, from + bytes / 2) && in_memory(f, from + bytes - 1))
		return;
	madvise((void *)(f->data + from), bytes, MADV_WILLNEED);
}
