/* SPDX-License-Identifier: MIT */
/* The statedump of the machine: CPUs, network interfaces, modules of the kernel. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/events.h"
#include "session/statedump_internal.h"

#if defined(__x86_64__)
#define ARCHITECTURE "x86"
#else
#define ARCHITECTURE "unknown"
#endif

struct cpu {
	struct rut_ev_SD_CPU rec;
	char vendor[64], model_name[128];
};

static void take_text(char *to, size_t size, const char *value)
{
	snprintf(to, size, "%.*s", (int)strcspn(value, "\n"), value);
}

static void take_line(struct cpu *c, const char *line, const char *value)
{
	if (!strncmp(line, "processor\t", 10))
		c->rec.cpu_id = (uint16_t)atoi(value);
	else if (!strncmp(line, "vendor_id\t", 10))
		take_text(c->vendor, sizeof(c->vendor), value);
	else if (!strncmp(line, "cpu family\t", 11))
		c->rec.family = (uint8_t)atoi(value);
	else if (!strncmp(line, "model\t", 6))
		c->rec.model = (uint8_t)atoi(value);
	else if (!strncmp(line, "model name\t", 11))
		take_text(c->model_name, sizeof(c->model_name), value);
	else if (!strncmp(line, "physical id\t", 12))
		c->rec.physical_id = (uint16_t)atoi(value);
	else if (!strncmp(line, "core id\t", 8))
		c->rec.core_id = (uint16_t)atoi(value);
	else if (!strncmp(line, "cpu cores\t", 10))
		c->rec.cores = (uint16_t)atoi(value);
}

static void dump_cpus(struct rut_statedump *s)
{
	_cleanup_file_ FILE *f = fopen("/proc/cpuinfo", "re");
	struct cpu c = {.vendor = "unknown", .model_name = "unknown"};
	char line[4096];

	while (f && fgets(line, sizeof(line), f)) {
		const char *value = strchr(line, ':');

		if (line[0] == '\n')
			RUT_STATEDUMP_EMIT(s, SD_CPU, &c.rec, ARCHITECTURE, c.vendor, c.model_name);
		else if (value)
			take_line(&c, line, value + 1 + strspn(value + 1, " "));
	}
}

/* One record an IPv4 address of an interface that is up, and one an interface that is down. */
static void dump_interfaces(struct rut_statedump *s)
{
	struct ifaddrs *list = NULL;

	if (getifaddrs(&list) < 0)
		return;
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		struct rut_ev_SD_INTERFACE rec = {0};
		bool up = i->ifa_flags & IFF_UP;
		int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

		if (up ? family != AF_INET : family != AF_PACKET)
			continue;
		if (up)
			rec.address_ipv4 = ((const struct sockaddr_in *)(const void *)i->ifa_addr)
						   ->sin_addr.s_addr;
		/* The name of an address may have a label behind a colon. */
		i->ifa_name[strcspn(i->ifa_name, ":")] = '\0';
		RUT_STATEDUMP_EMIT(s, SD_INTERFACE, &rec, i->ifa_name);
	}
	freeifaddrs(list);
}

/* "NAME SIZE COUNT USERS STATE 0xADDRESS" */
static void dump_modules(struct rut_statedump *s)
{
	_cleanup_file_ FILE *f = fopen("/proc/modules", "re");
	char line[4096], name[64];
	unsigned long long size, address;

	while (f && fgets(line, sizeof(line), f)) {
		struct rut_ev_SD_MODULE rec;

		if (sscanf(line, "%63s %llu %*s %*s %*s %llx", name, &size, &address) != 3)
			continue;
		rec.size = size;
		rec.address = address;
		RUT_STATEDUMP_EMIT(s, SD_MODULE, &rec, name);
	}
}

void rut_statedump_machine(struct rut_statedump *s)
{
	dump_cpus(s);
	dump_interfaces(s);
	dump_modules(s);
}
