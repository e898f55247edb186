/* SPDX-License-Identifier: MIT */
/*
 * blocked CALL: blocks in one system call, once, and prints "RESULT ERRNO MILLISECONDS EXTRA".
 * Says "ready" before. The test compares an untouched run with one that was injected into.
 * `blocked eintr` reads again and again and prints a line each time it got EINTR, or "before" when
 * a signal came before the call. `blocked beside [sigtimedwait]` blocks in a timed recv, again and
 * again, beside a thread in poll, until there is a file `enough`; so does `blocked storm`, in which
 * handlers run all the time, for at most so many seconds. `blocked short` makes short waits of all
 * kinds until then, and prints a line for each that returned EINTR or ended early.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char extra[64];
static volatile sig_atomic_t handled;
static int pipe_fds[2];
static char path[64];

static void on_signal(int sig)
{
	(void)sig;
	handled++;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* After `ms`, in a child: a byte into the pipe. */
static void later_write(unsigned int ms)
{
	if (fork() == 0) {
		usleep(ms * 1000);
		_exit(write(pipe_fds[1], "x", 1) != 1);
	}
}

static void handler(int sig, int flags)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = flags};

	sigaction(sig, &sa, NULL);
}

/* After `ms`: SIGALRM, with an empty handler. */
static void later_signal(unsigned int ms, int flags)
{
	struct itimerval it = {.it_value = {ms / 1000, ms % 1000 * 1000}};

	handler(SIGALRM, flags);
	setitimer(ITIMER_REAL, &it, NULL);
}

static long call_accept(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(path, sizeof(path), "blocked.%d", getpid());
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 1) < 0)
		return -2;
	if (fork() == 0) {
		usleep(1000000);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		_exit(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0);
	}
	fd = accept(fd, NULL, NULL);
	unlink(path);
	return fd >= 0 ? 0 : -1;
}

static long epoll(int timeout_ms)
{
	struct epoll_event ev = {.events = EPOLLIN}, got;
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, pipe_fds[0], &ev);
	return epoll_wait(fd, &got, 1, timeout_ms);
}

static long epoll_pwait2_ms(int timeout_ms)
{
	struct timespec ts = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	struct epoll_event got;
	int fd = epoll_create1(0);
	long r = syscall(SYS_epoll_pwait2, fd, &got, 1, &ts, NULL, 0);

	close(fd);
	return r;
}

static long call_epoll_pwait2(void)
{
	return epoll_pwait2_ms(1000);
}

/* Of a semaphore that stays 0. */
static long semtimedop_ms(int timeout_ms)
{
	struct timespec ts = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	struct sembuf take = {.sem_op = -1};
	int id = semget(IPC_PRIVATE, 1, 0600);
	long r = semtimedop(id, &take, 1, &ts);
	int error = errno;

	semctl(id, 0, IPC_RMID);
	errno = error;
	return r;
}

static long call_semtimedop(void)
{
	return semtimedop_ms(1000);
}

static long call_msgrcv(void)
{
	struct {
		long type;
		char text[8];
	} message = {.type = 1};
	int id = msgget(IPC_PRIVATE, 0600);
	long r;

	if (fork() == 0) {
		usleep(1000000);
		_exit(msgsnd(id, &message, 1, 0) != 0);
	}
	r = msgrcv(id, &message, sizeof(message.text), 0, 0);
	msgctl(id, IPC_RMID, NULL);
	return r;
}

static long io_getevents_ms(int timeout_ms)
{
	struct timespec ts = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	aio_context_t context = 0;
	struct io_event event;
	long r;

	if (syscall(SYS_io_setup, 1, &context) < 0)
		return -2;
	r = syscall(SYS_io_getevents, context, 1, 1, &event, &ts);
	syscall(SYS_io_destroy, context);
	return r;
}

static long call_io_getevents(void)
{
	return io_getevents_ms(1000);
}

static long call_epoll(void)
{
	later_write(1000);
	return epoll(-1);
}

static long call_epoll_timeout(void)
{
	return epoll(1000);
}

static long call_select(void)
{
	struct timeval tv = {1, 0};
	fd_set set;
	long r;

	FD_ZERO(&set);
	FD_SET(pipe_fds[0], &set);
	r = select(pipe_fds[0] + 1, &set, NULL, NULL, &tv);
	snprintf(extra, sizeof(extra), "left=%ld", (long)tv.tv_sec);
	return r;
}

static long call_nanosleep(void)
{
	struct timespec ts = {1, 0};

	return nanosleep(&ts, NULL);
}

static long call_nanosleep_remaining(void)
{
	struct timespec ts = {3, 0}, left = {0, 0};
	long r;

	later_signal(1000, 0);
	r = nanosleep(&ts, &left);
	/* 3 s less the one second that the signal took: 1.9 or a little more */
	snprintf(extra, sizeof(extra), "left=%ld",
		 (left.tv_sec * 1000 + left.tv_nsec / 1000000 + 400) / 1000);
	return r;
}

static long call_pselect(void)
{
	struct timespec ts = {1, 0};

	return pselect(0, NULL, NULL, NULL, &ts, NULL);
}

static long call_clock_nanosleep_relative(void)
{
	struct timespec ts = {1, 0};

	return clock_nanosleep(CLOCK_BOOTTIME, 0, &ts, NULL);
}

static long call_futex_absolute(void)
{
	struct timespec ts;
	uint32_t word = 0;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec++;
	return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &ts, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}

static long call_clock_nanosleep(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec++;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
}

static long call_futex(void)
{
	struct timespec ts = {1, 0};
	uint32_t word = 0;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0);
}

static long call_condition(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec++;
	pthread_mutex_lock(&mutex);
	return pthread_cond_timedwait(&cond, &mutex, &ts);
}

static long call_read(void)
{
	char c;

	handler(SIGUSR1, 0);
	later_write(1000);
	return read(pipe_fds[0], &c, 1);
}

static long call_read_signal(void)
{
	char c;

	later_signal(1000, 0);
	return read(pipe_fds[0], &c, 1);
}

static long call_read_signal_restart(void)
{
	char c;
	long r;

	later_signal(500, SA_RESTART);
	later_write(1000);
	r = read(pipe_fds[0], &c, 1);
	snprintf(extra, sizeof(extra), "handled=%d", handled);
	return r;
}

static long call_poll(void)
{
	struct pollfd p = {.fd = pipe_fds[0], .events = POLLIN};

	return poll(&p, 1, 1000);
}

/* SIGALRM is blocked outside the call and let in by it. */
static long call_ppoll_mask(void)
{
	struct pollfd p = {.fd = pipe_fds[0], .events = POLLIN};
	struct timespec ts = {5, 0};
	sigset_t set, old;
	long r;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, &old);
	later_signal(1000, 0);
	r = ppoll(&p, 1, &ts, &old);
	sigprocmask(SIG_BLOCK, NULL, &set);
	snprintf(extra, sizeof(extra), "handled=%d blocked=%d", handled,
		 sigismember(&set, SIGALRM));
	return r;
}

static long call_recv_timeout(void)
{
	struct timeval tv = {1, 0};
	int fds[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return -2;
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return recv(fds[0], &c, 1, 0);
}

static void *wait_for_ever(void *arg)
{
	struct pollfd p = {.fd = pipe_fds[0], .events = POLLIN};

	poll(&p, 1, -1);
	return arg;
}

/* The main thread in one of the calls that must restart when disturbed, another in poll. */
static int beside_another(long (*call)(void))
{
	pthread_t thread;

	pthread_create(&thread, NULL, wait_for_ever, NULL);
	for (int i = 0; i < 300 && access("enough", F_OK); i++) {
		long r = call();

		printf("%ld %d\n", r, errno);
	}
	return 0;
}

static long call_wait(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		usleep(1000000);
		_exit(7);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WEXITSTATUS(status);
}

static long call_pause(void)
{
	later_signal(1000, SA_RESTART);
	return pause();
}

static long call_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	later_signal(1000, 0);
	return sigsuspend(&none);
}

static long call_sigtimedwait(void)
{
	struct timespec ts = {1, 0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return sigtimedwait(&set, NULL, &ts);
}

static long call_flock(void)
{
	int fd, ready[2];
	char c;

	snprintf(path, sizeof(path), "blocked.%d", getpid());
	if (pipe(ready) < 0)
		return -2;
	if (fork() == 0) {
		fd = open(path, O_CREAT | O_RDWR, 0600);
		flock(fd, LOCK_EX);
		c = (char)write(ready[1], "x", 1);
		usleep(1000000);
		_exit(0);
	}
	c = (char)read(ready[0], &c, 1);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	unlink(path);
	return flock(fd, LOCK_EX);
}

static const struct {
	const char *name;
	long (*fn)(void);
} calls[] = {
	{"accept", call_accept},
	{"epoll", call_epoll},
	{"epoll_timeout", call_epoll_timeout},
	{"select", call_select},
	{"nanosleep", call_nanosleep},
	{"nanosleep_remaining", call_nanosleep_remaining},
	{"clock_nanosleep", call_clock_nanosleep},
	{"futex", call_futex},
	{"condition", call_condition},
	{"read", call_read},
	{"read_signal", call_read_signal},
	{"read_signal_restart", call_read_signal_restart},
	{"poll", call_poll},
	{"ppoll_mask", call_ppoll_mask},
	{"recv_timeout", call_recv_timeout},
	{"wait", call_wait},
	{"pause", call_pause},
	{"sigsuspend", call_sigsuspend},
	{"sigtimedwait", call_sigtimedwait},
	{"flock", call_flock},
	{"epoll_pwait2", call_epoll_pwait2},
	{"semtimedop", call_semtimedop},
	{"msgrcv", call_msgrcv},
	{"io_getevents", call_io_getevents},
	{"pselect", call_pselect},
	{"clock_nanosleep_relative", call_clock_nanosleep_relative},
	{"futex_absolute", call_futex_absolute},
};

static long sigtimedwait_ms(int timeout_ms)
{
	struct timespec ts = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &ts);
}

static long poll_ms(int timeout_ms)
{
	return poll(NULL, 0, timeout_ms);
}

static long recv_ms(int timeout_ms)
{
	struct timeval tv = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
	int fds[2], error;
	char c;
	long r;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
		return -2;
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	r = recv(fds[0], &c, 1, 0);
	error = errno;
	close(fds[0]);
	close(fds[1]);
	errno = error;
	return r;
}

static long epoll_ms(int timeout_ms)
{
	struct epoll_event got;
	int fd = epoll_create1(0);
	long r = epoll_wait(fd, &got, 1, timeout_ms);

	close(fd);
	return r;
}

/* The limit of SO_RCVTIMEO is in ticks, and a tick that has begun counts. */
#define TICK_NS 10000000

/*
 * Short waits of 1 to 40 ms: they end while they are inspected, and begin while they are stopped.
 */
static int short_waits(void)
{
	static long (*const waits[])(int) = {epoll_ms,	      epoll_pwait2_ms, semtimedop_ms,
					     io_getevents_ms, sigtimedwait_ms, poll_ms,
					     recv_ms};
	sigset_t set;
	size_t n = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (; n < 100000 && access("enough", F_OK); n++) {
		size_t which = n % (sizeof(waits) / sizeof(*waits));
		int timeout_ms = 1 + (int)(n % 40);
		uint64_t since = now_ns();
		long r = waits[which](timeout_ms);
		int error = r < 0 ? errno : 0;
		uint64_t ns = now_ns() - since;

		if (error == EINTR || r > 0 ||
		    ns + (waits[which] == recv_ms ? TICK_NS : 0) < (uint64_t)timeout_ms * 1000000)
			printf("wait %zu of %d ms: %ld %d after %d us\n", which, timeout_ms, r,
			       error, (int)(ns / 1000));
	}
	printf("waits %zu\n", n);
	return 0;
}

/*
 * A call that is about to be done again, by the kernel or by us, is at its instruction for a
 * moment, and a signal that comes just then came before the call: no EINTR, with any program.
 */
static void on_signal_in_read(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *uc = context;
	const unsigned char *pc;

	(void)sig;
	(void)info;
	memcpy(&pc, &uc->uc_mcontext.gregs[REG_RIP], sizeof(pc));
	if (pc[0] == 0x0f && pc[1] == 0x05)
		if (write(1, "before\n", 7) != 7)
			abort();
	handled++;
}

/* Every signal must end a read with EINTR, exactly once. */
static _Noreturn void count_eintr(void)
{
	struct sigaction sa = {.sa_sigaction = on_signal_in_read, .sa_flags = SA_SIGINFO};
	char c;

	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0;; i++) {
		long r = read(pipe_fds[0], &c, 1);

		printf("%d %ld %d %d\n", i, r, r < 0 ? errno : 0, handled);
		fflush(stdout);
	}
}

/* Handlers run all the time, on top of whatever is there. */
static int timer_storm(int seconds)
{
	struct itimerval it = {.it_interval = {0, 150}, .it_value = {0, 150}};
	uint64_t end = now_ns() + (uint64_t)seconds * 1000000000u;
	volatile uint64_t sum = 0;

	handler(SIGALRM, SA_RESTART);
	setitimer(ITIMER_REAL, &it, NULL);
	while (now_ns() < end && (handled < 1000 || access("enough", F_OK))) {
		struct timespec ts = {0, 300000};

		for (int i = 0; i < 100000; i++)
			sum += (uint64_t)i * sum + 1;
		nanosleep(&ts, NULL);
		if (fork() == 0)
			_exit(0);
		while (wait(NULL) > 0)
			;
	}
	printf("handled %d\n", handled);
	return handled < 1000;
}

static void *return_address;

static void on_signal_spin(int sig)
{
	static volatile uint64_t rounds;

	(void)sig;
	return_address = __builtin_return_address(0);
	while (handled && rounds < 1ull << 34)
		rounds++;
}

/* Runs in its own code, in a handler or with the return address of an old one on its stack. */
static int spin(bool in_handler)
{
	void *volatile words[16];
	volatile uint64_t rounds = 0;
	uint64_t end = now_ns() + 20000000000u;

	signal(SIGUSR1, on_signal_spin);
	handled = in_handler;
	raise(SIGUSR1);
	for (size_t i = 0; i < 16; i++)
		words[i] = return_address;
	while (words[rounds++ % 16])
		if (rounds % 100000000 == 0 && now_ns() > end)
			break;
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 1)
		for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
			puts(calls[i].name);
	if (argc == 1)
		return 0;
	if (pipe(pipe_fds) < 0)
		return 2;
	printf("ready\n");
	fflush(stdout);
	if (!strcmp(argv[1], "beside"))
		return beside_another(argc > 2 ? call_sigtimedwait : call_recv_timeout);
	if (!strcmp(argv[1], "eintr"))
		count_eintr();
	if (!strcmp(argv[1], "short"))
		return short_waits();
	if (!strcmp(argv[1], "spin"))
		return spin(argc > 2);
	if (!strcmp(argv[1], "storm"))
		return timer_storm(argc > 2 ? atoi(argv[2]) : 3);
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(argv[1], calls[i].name)) {
			uint64_t since = now_ns();
			long r;

			errno = 0;
			r = calls[i].fn();
			printf("%ld %d %d %s\n", r, errno, (int)((now_ns() - since) / 1000000),
			       extra);
			return 0;
		}
	return 2;
}
