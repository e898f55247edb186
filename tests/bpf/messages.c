/* SPDX-License-Identifier: MIT */
/* Sends and receives several messages a call, by 64-bit and 32-bit calls; prints what it used. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SENDMMSG = 307, RECVMMSG = 299 };
enum { SELECT_32 = 82, SOCKETCALL_32 = 102, RECVMMSG_32 = 337, SENDMMSG_32 = 345 };

struct msg32 {
	uint32_t name, namelen, iov, iovlen, control, controllen, flags, len;
};

static long call32(long nr, long b, long c, long d, long s)
{
	long r;

	asm volatile("int $0x80"
		     : "=a"(r)
		     : "a"(nr), "b"(b), "c"(c), "d"(d), "S"(s), "D"(0)
		     : "memory", "r8", "r9", "r10", "r11");
	return (int)r;
}

#define AT(p) ((uint32_t)(uintptr_t)(p))

static char *low; /* memory that 32-bit calls reach */
static struct sockaddr_in *in;
static int a;

static void send_64(int w, struct sockaddr_un *here)
{
	char data[3][8] = {"a", "bb", "ccc"}, names[3][128];
	struct mmsghdr m[3] = {0};
	struct iovec v[3];

	for (int i = 0; i < 3; i++) {
		v[i] = (struct iovec){data[i], (size_t)i + 1};
		m[i].msg_hdr = (struct msghdr){.msg_iov = &v[i],
					       .msg_iovlen = 1,
					       .msg_name = in,
					       .msg_namelen = sizeof(*in)};
	}
	syscall(SENDMMSG, a, m, 3, 0);
	for (int i = 0; i < 3; i++) {
		m[i].msg_hdr.msg_name = names[i];
		m[i].msg_hdr.msg_namelen = sizeof(names[i]);
	}
	syscall(RECVMMSG, a, m, 3, MSG_DONTWAIT, NULL);
	m[0].msg_hdr.msg_name = here;
	m[0].msg_hdr.msg_namelen = 6;
	syscall(SENDMMSG, w, m, 1, 0);
}

static void send_32(void)
{
	uint32_t *iov = (void *)(low + 600);
	struct msg32 *msgs = (void *)(low + 1024);

	iov[0] = AT(low + 2000), iov[1] = 5, iov[2] = AT(low + 2000), iov[3] = 6;
	for (int i = 0; i < 2; i++)
		msgs[i] = (struct msg32){.name = AT(in),
					 .namelen = sizeof(*in),
					 .iov = AT(iov + 2 * i),
					 .iovlen = 1};
	call32(SENDMMSG_32, a, AT(msgs), 2, 0);
	for (int i = 0; i < 2; i++)
		msgs[i].name = AT(low + 256);
	call32(RECVMMSG_32, a, AT(msgs), 2, MSG_DONTWAIT);
}

int main(void)
{
	struct sockaddr_un here = {AF_UNIX, "\0abs"};
	socklen_t len = sizeof(*in);
	uint32_t *args, *set;
	int u, w, *pair;

	low = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1,
		   0);
	in = (void *)low, args = (void *)(low + 512), set = (void *)(low + 700);
	pair = (void *)(low + 4000);
	a = socket(AF_INET, SOCK_DGRAM, 0);
	u = socket(AF_UNIX, SOCK_DGRAM, 0);
	w = socket(AF_UNIX, SOCK_DGRAM, 0);
	*in = (struct sockaddr_in){.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	bind(a, (void *)in, len);
	getsockname(a, (void *)in, &len);
	bind(u, (void *)&here, 6);
	send_64(w, &here);
	send_32();
	/* sendto, recvfrom, connect, socketpair */
	args[0] = a, args[1] = AT(low + 2000), args[2] = 7, args[4] = AT(in), args[5] = sizeof(*in);
	call32(SOCKETCALL_32, 11, AT(args), 0, 0);
	args[4] = AT(low + 256), args[5] = AT(low + 3000);
	*(uint32_t *)(low + 3000) = sizeof(*in);
	call32(SOCKETCALL_32, 12, AT(args), 0, 0);
	args[0] = a, args[1] = AT(in), args[2] = sizeof(*in);
	call32(SOCKETCALL_32, 3, AT(args), 0, 0);
	args[0] = AF_UNIX, args[1] = SOCK_STREAM, args[2] = 0, args[3] = AT(pair);
	call32(SOCKETCALL_32, 8, AT(args), 0, 0);
	call32(SOCKETCALL_32, 11, 8, 0, 0); /* no memory there */
	*set = 1u << a | 1u << u;
	args[0] = (uint32_t)u + 1, args[1] = AT(set), args[2] = 0, args[3] = 0, args[4] = 0;
	call32(SELECT_32, AT(args), 0, 0, 0);
	printf("%d %d %d %d %d\n", ntohs(in->sin_port), a, u, pair[0], pair[1]);
	return 0;
}
