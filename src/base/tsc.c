/* SPDX-License-Identifier: MIT */
#include "tsc.h"

#include <cpuid.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/*
 * It is when the processor says that it runs at one rate in every state (CPUID 0x80000007), and
 * the kernel itself takes the time from it, or from a clock of the hypervisor that is built on it.
 */
bool rut_tsc_is_clock(void)
{
	char buf[32] = "";
	unsigned a, b, c, d;
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	if (fd >= 0) {
		n = read(fd, buf, sizeof(buf) - 1);
		close(fd);
	}
	return n > 0 && __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1 &&
	       (!strncmp(buf, "tsc", 3) || !strncmp(buf, "kvm-clock", 9) ||
		!strncmp(buf, "hyperv", 6));
}
