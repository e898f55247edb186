/* SPDX-License-Identifier: MIT */
/* Other processes as /proc shows them: here our own, of which the dynamic loader knows the truth.
 */
#include "unit.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ruby/proc.h"
#include "ruby/role.h"
#include "ruby/seccomp.h"
#include "ruby/target.h"

static void test_symbols_agree_with_dlsym(void **state)
{
	static const char *const names[] = {
		"dlopen",  "dlerror", "__errno_location", "malloc",	"wordexp",
		"rcmd_af", "fopen",   "qsort_r",	  "argp_parse", "pthread_create"};
	struct rut_target t = RUT_TARGET_INIT;
	const struct rut_mapping *libc;
	struct rut_target_symbol sym;
	void *handle = dlopen("libc.so.6", RTLD_LAZY);

	assert_int_equal(rut_target_read_maps(&t, getpid()), 0);
	assert_int_equal(rut_target_open_memory(&t), 0);
	assert_int_equal(rut_target_libc(&t, &libc), RUT_LIBC_GLIBC);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_int_equal(rut_target_find_symbol(&t, libc, names[i], &sym), 0);
		assert_ptr_equal((void *)sym.addr, dlsym(handle, names[i]));
		assert_true(sym.size > 0);
	}
	assert_int_equal(rut_target_find_symbol(&t, libc, "no_such_function", &sym), -ENOENT);
	dlclose(handle);
	rut_target_fini(&t);
}

static void test_mappings(void **state)
{
	static const char text[] =
		"00400000-00401000 r--p 00000000 fe:00 10   /opt/my ruby/bin/ruby\n"
		"00401000-00402000 r-xp 00001000 fe:00 10   /opt/my ruby/bin/ruby\n"
		"7f0000000000-7f0000001000 r--p 00000000 fe:00 11 /lib/libc.so.6 (deleted)\n"
		"7f0000001000-7f0000002000 r-xp 00001000 fe:00 11 /lib/libc.so.6 (deleted)\n"
		"7f0000002000-7f0000003000 rw-s 00000000 00:01 12 /memfd:x (deleted)\n"
		"7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0  [stack]\n"
		"broken line\n";
	struct rut_target t = RUT_TARGET_INIT;
	const struct rut_mapping *m, *libc;

	assert_int_equal(rut_target_parse_maps(&t, strdup(text)), 0);
	assert_int_equal(t.map_count, 6);
	assert_string_equal(t.maps[0].path, "/opt/my ruby/bin/ruby");
	assert_int_equal(rut_target_libc(&t, &libc), RUT_LIBC_GLIBC);
	assert_true(libc == &t.maps[2] && libc->deleted);
	assert_string_equal(rut_mapping_basename(libc), "libc.so.6");
	m = rut_target_mapping_at(&t, 0x7f0000001fff);
	assert_true(m == &t.maps[3] && m->exec && !m->write);
	assert_ptr_equal(rut_target_module_of(&t, m), libc);
	assert_null(rut_target_mapping_at(&t, 0x500000));
	assert_null(rut_target_module_of(&t, &t.maps[5]));
	assert_true(t.maps[4].shared && t.maps[4].write);
	rut_target_fini(&t);
}

static void test_status_of_ourselves(void **state)
{
	struct rut_proc_status s;

	assert_int_equal(rut_proc_status_read(&s, getpid(), 0), 0);
	assert_int_equal(s.tgid, getpid());
	assert_int_equal(s.ppid, getppid());
	assert_int_equal(s.uid, geteuid());
	assert_int_equal(s.tracer, 0);
	assert_int_equal(s.state, 'R');
	assert_int_equal(rut_proc_status_read(&s, 1 << 22, 0), -ESRCH);
}

/* A directory that is not below the root of the process, as /proc may show it. */
static void test_role_odd_dir(void **state)
{
	static const char cmdline[] = "ruby\0bin/x.rb";
	static const char *const directories[] = {"2/x", "x", "(unreachable)/srv", ""};

	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++) {
		struct rut_ruby_proc p = {0};
		struct rut_role_input in = {.user = "x",
					    .cmdline = cmdline,
					    .cmdline_bytes = sizeof(cmdline),
					    .cwd = directories[i],
					    .comm = "ruby"};

		assert_int_equal(rut_role_find(&in, &p), 0);
		assert_int_equal(p.role, RUT_ROLE_SCRIPT);
		rut_ruby_proc_fini(&p);
	}
}

static void expect_role(const char *cmdline, size_t bytes, enum rut_ruby_role role,
			const char *name, const char *root)
{
	struct rut_ruby_proc p = {0};
	struct rut_role_input in = {.user = "x",
				    .cmdline = cmdline,
				    .cmdline_bytes = bytes,
				    .cwd = "/",
				    .comm = "ruby"};

	assert_int_equal(rut_role_find(&in, &p), 0);
	assert_string_equal(rut_ruby_role_name(p.role), rut_ruby_role_name(role));
	assert_string_equal(p.name, name);
	if (root)
		assert_string_equal(p.app_root, root);
	else
		assert_null(p.app_root);
	rut_ruby_proc_fini(&p);
}

#define EXPECT_ROLE(cmdline, ...) expect_role(cmdline, sizeof(cmdline), __VA_ARGS__)

static void test_other_rubies(void **state)
{
	static const char server[] = "java\0-Xmx1g\0-cp\0/opt/puppetlabs/puppet-server-release.jar";
	enum rut_ruby_role role = RUT_ROLE_SCRIPT;

	assert_true(rut_role_other_ruby("/usr/bin/java", server, sizeof(server), &role));
	assert_int_equal(role, RUT_ROLE_JRUBY);
	assert_false(rut_role_other_ruby("/usr/bin/java", "java\0-jar\0x", 12, &role));
	assert_true(rut_role_other_ruby("/usr/bin/mruby", "mruby", 6, &role));
	assert_int_equal(role, RUT_ROLE_MRUBY);
	assert_true(rut_role_other_ruby("/opt/truffleruby-23/bin/ruby", "ruby", 5, &role));
	assert_int_equal(role, RUT_ROLE_TRUFFLERUBY);
	assert_false(rut_role_other_ruby("/usr/bin/ruby3.1", "ruby\0jruby.rb", 14, &role));
}

static void test_roles(void **state)
{
	EXPECT_ROLE("/usr/bin/ruby3.1\0-W0\0-I\0lib\0/srv/app/bin/serve\0-p\0", RUT_ROLE_SCRIPT,
		    "/srv/app/bin/serve -p", "/srv/app");
	EXPECT_ROLE("ruby\0-e\0loop{}\0", RUT_ROLE_SCRIPT, "-e", NULL);
	EXPECT_ROLE("ruby\0-ne\0puts\0", RUT_ROLE_SCRIPT, "-e", NULL);
	EXPECT_ROLE("ruby\0/usr/bin/rake\0db:migrate\0", RUT_ROLE_RAKE, "/usr/bin/rake db:migrate",
		    NULL);
	EXPECT_ROLE("ruby\0/usr/share/foreman-proxy/bin/smart-proxy\0", RUT_ROLE_FOREMAN_PROXY,
		    "/usr/share/foreman-proxy/bin/smart-proxy", "/usr/share/foreman-proxy");
	EXPECT_ROLE("Passenger RackApp: /usr/share/foreman (production)\0\0\0",
		    RUT_ROLE_FOREMAN_RAILS, "Passenger RackApp: /usr/share/foreman (production)",
		    "/usr/share/foreman");
	EXPECT_ROLE("puma: cluster worker 3: 77 [shop]   \0", RUT_ROLE_PUMA_WORKER,
		    "puma: cluster worker 3: 77 [shop]", NULL);
	EXPECT_ROLE("sidekiq 6.5.12 shop [0 of 5 busy]\0", RUT_ROLE_SIDEKIQ,
		    "sidekiq 6.5.12 shop [0 of 5 busy]", NULL);
	EXPECT_ROLE("thin server (0.0.0.0:3000)", RUT_ROLE_THIN, "thin server (0.0.0.0:3000)",
		    NULL);
	EXPECT_ROLE("resque-2.4.0: Waiting for *", RUT_ROLE_RESQUE, "resque-2.4.0: Waiting for *",
		    NULL);
	EXPECT_ROLE("delayed_job.3", RUT_ROLE_DELAYED_JOB, "delayed_job.3", NULL);
	EXPECT_ROLE("ruby\0/usr/bin/irb", RUT_ROLE_IRB, "/usr/bin/irb", NULL);
	EXPECT_ROLE("ruby\0/usr/bin/pry\0-r\0x", RUT_ROLE_PRY, "/usr/bin/pry -r x", NULL);
	EXPECT_ROLE("ruby\0/usr/bin/rackup\0-p\0"
		    "80",
		    RUT_ROLE_RACKUP, "/usr/bin/rackup -p 80", NULL);
	EXPECT_ROLE("ruby\0/usr/bin/falcon\0serve", RUT_ROLE_FALCON, "/usr/bin/falcon serve", NULL);
	EXPECT_ROLE("ruby\0/usr/bin/hanami\0server", RUT_ROLE_HANAMI, "/usr/bin/hanami server",
		    NULL);
	EXPECT_ROLE("ruby\0/usr/bin/good_job\0start", RUT_ROLE_GOOD_JOB, "/usr/bin/good_job start",
		    NULL);
	EXPECT_ROLE("ruby\0/usr/bin/rails\0console", RUT_ROLE_RAILS_CONSOLE,
		    "/usr/bin/rails console", NULL);
	EXPECT_ROLE("ruby\0/usr/bin/rails\0r\0X.y", RUT_ROLE_RAILS_RUNNER, "/usr/bin/rails r X.y",
		    NULL);
	EXPECT_ROLE("ruby\0/usr/bin/rails\0routes", RUT_ROLE_SCRIPT, "/usr/bin/rails routes", NULL);
	EXPECT_ROLE("ruby\0/usr/bin/thinner", RUT_ROLE_SCRIPT, "/usr/bin/thinner", NULL);
	EXPECT_ROLE("", RUT_ROLE_SCRIPT, "ruby", NULL);
	EXPECT_ROLE("ruby\0bad\033[31mname.rb\0", RUT_ROLE_SCRIPT, "bad [31mname.rb", NULL);
}

static void test_names_that_match(void **state)
{
	assert_true(rut_role_name_matches("/srv/app/job.rb --now", "job"));
	assert_true(rut_role_name_matches("/srv/app/job.rb --now", "job.rb"));
	assert_true(rut_role_name_matches("/srv/app/job.rb --now", "/srv/app/job.rb"));
	assert_true(rut_role_name_matches("puma 5.6.5 (tcp://[::1]:80) [shop]", "shop"));
	assert_false(rut_role_name_matches("/srv/app/job.rb --now", "jo"));
	assert_false(rut_role_name_matches("puma 5.6.5 (tcp://[::1]:80) [shop]", "sho"));
	assert_false(rut_role_name_matches("x", ""));
}

/* The kernel is asked what the filter does: it kills, refuses or allows getppid. */
static void expect_filter(struct sock_filter *f, unsigned short count, uint32_t want)
{
	struct sock_fprog prog = {count, f};
	struct seccomp_data data = {.nr = SYS_getppid, .arch = 0xc000003e};
	int status;
	pid_t pid;

	assert_int_equal(rut_seccomp_run(f, count, &data), want);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
			_exit(99);
		errno = 0;
		_exit(syscall(SYS_getppid) < 0 ? errno : 0);
	}
	waitpid(pid, &status, 0);
	if (want == SECCOMP_RET_KILL_PROCESS)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	else
		assert_int_equal(WEXITSTATUS(status), want & SECCOMP_RET_DATA & 0xff);
}

static void test_seccomp_agrees_with_the_kernel(void **state)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xc000003e, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_STMT(BPF_ST, 3),
		BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, SYS_getppid - 7),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 7, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 7, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 55),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	expect_filter(f, 11, SECCOMP_RET_ERRNO | 55);
	f[9].k = SECCOMP_RET_KILL_PROCESS;
	expect_filter(f, 11, SECCOMP_RET_KILL_PROCESS);
	f[6].k++;
	expect_filter(f, 11, SECCOMP_RET_ALLOW);
}

/* Attaches to `pid` and detaches, again and again. */
static void attach_and_detach(pid_t pid)
{
	for (;;) {
		if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
			continue;
		ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
		waitpid(pid, NULL, __WALL);
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
	}
}

/* The kernel's own word for a process that a tracer leaves is its parent: 6 of 10,000 times. */
static void test_parents_do_not_trace(void **state)
{
	struct rut_proc_status s, tracer;
	pid_t pid = fork(), other;
	int starved = 0;

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	other = fork();
	if (!other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		attach_and_detach(pid);
	}
	for (int i = 0; i < 10000; i++) {
		const uint64_t begin_ns = rut_now_ns();

		assert_int_equal(rut_proc_status_settled(&s, &tracer, pid), 0);
		assert_int_equal(s.ppid, getpid());
		if (!s.tracer || s.tracer == other)
			continue;
		/* It looks for 20 ms, in which the tracer may get no CPU on a busy machine. */
		assert_int_equal(s.tracer, getpid());
		assert_true(rut_now_ns() - begin_ns >= 20000000);
		assert_true(++starved <= 3);
	}
	kill(other, SIGKILL);
	kill(pid, SIGKILL);
	waitpid(other, NULL, 0);
	waitpid(pid, NULL, 0);
}

static bool is_listed(pid_t pid)
{
	struct rut_ruby_procs ps;
	bool found = false;

	assert_int_equal(rut_ruby_procs_list(&ps, NULL), 0);
	for (size_t i = 0; i < ps.count; i++)
		found |= ps.procs[i].pid == pid;
	rut_ruby_procs_fini(&ps);
	return found;
}

/* What was no Ruby is not inspected again, until it executes another program. */
static void test_a_shell_becomes_ruby(void **state)
{
	int in[2], out[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		execl("/bin/sh", "sh", "-c",
		      "echo; read go; exec ruby --disable-gems -e '$stdout.syswrite(1); sleep'",
		      NULL);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &byte, 1), 1);
	for (int i = 0; i < 3; i++)
		assert_false(is_listed(pid));
	assert_int_equal(write(in[1], "\n", 1), 1);
	assert_int_equal(read(out[0], &byte, 1), 1);
	assert_true(is_listed(pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(is_listed(pid));
	close(in[0]);
	close(in[1]);
	close(out[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_role_odd_dir),
		cmocka_unit_test(test_symbols_agree_with_dlsym),
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_status_of_ourselves),
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_other_rubies),
		cmocka_unit_test(test_names_that_match),
		cmocka_unit_test(test_seccomp_agrees_with_the_kernel),
		cmocka_unit_test(test_parents_do_not_trace),
		cmocka_unit_test(test_a_shell_becomes_ruby),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
