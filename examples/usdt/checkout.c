/* SPDX-License-Identifier: MIT */
/*
 * Static tracepoints in a C program, declared while it runs:
 *
 *	cc -o checkout checkout.c $(pkg-config --cflags --libs rutile-usdt)
 *	rutile record -e 'ruby_static:checkout' -- ./checkout 1000
 *	bpftrace -p PID -e 'usdt::checkout:paid { printf("%d %s\n", arg0, str(arg1)); }'
 */
#include <rutile/usdt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rutile_usdt_probe *paid;

static int declare(void)
{
	const enum rutile_usdt_type types[] = {RUTILE_USDT_S64, RUTILE_USDT_STR, RUTILE_USDT_F64};
	const char *const names[] = {"order", "currency", "total"};
	struct rutile_usdt_provider *provider;
	int rc = rutile_usdt_provider_new("checkout", &provider);

	if (!rc)
		rc = rutile_usdt_probe_add(provider, "paid", types, 3, &paid);
	if (!rc)
		rc = rutile_usdt_probe_name_args(paid, names);
	if (!rc)
		rc = rutile_usdt_provider_load(provider);
	/* Lets `rutile tracepoints` and `rutile record` in. */
	if (!rc)
		rc = rutile_usdt_control_start(NULL, NULL);
	return rc;
}

static void pay(int64_t order)
{
	double total = (double)order * 1.5;

	if (rutile_usdt_enabled(paid))
		rutile_usdt_fire(paid, (const uint64_t[]){(uint64_t)order, (uintptr_t) "EUR",
							  rutile_usdt_f64(total)});
}

int main(int argc, char **argv)
{
	int rc = declare();

	/* Where tracing is not possible the program works as well; the probes stay off. */
	if (rc)
		fprintf(stderr, "no tracepoints: %s\n", strerror(-rc));
	for (int64_t order = 1; order <= (argc > 1 ? atoi(argv[1]) : 100); order++) {
		pay(order);
		usleep(1000);
	}
	return 0;
}
