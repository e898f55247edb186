/* SPDX-License-Identifier: MIT */
/* For test_sanitizers.rb: three threads fire while everything about their probes changes. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "rutile/usdt.h"

enum { PROBES = 4, THREADS = 3, ROUNDS = 400 };

static struct rutile_usdt_probe *probes[PROBES];
static int stop;

static void *fire(void *arg)
{
	for (uint64_t n = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
		struct rutile_usdt_probe *probe = probes[n % PROBES];

		if (rutile_usdt_enabled(probe))
			rutile_usdt_fire(probe, (uint64_t[]){n, (uintptr_t) "text"});
		else
			usleep(50);
		rutile_usdt_probe_note(probe, RUTILE_USDT_SATURATED);
		rutile_usdt_probe_count(probe, RUTILE_USDT_FIRED);
	}
	return arg;
}

static void change(struct rutile_usdt_provider *p, int i)
{
	const enum rutile_usdt_type types[] = {RUTILE_USDT_S64, RUTILE_USDT_STR};
	struct rutile_usdt_probe *more;
	char name[32];

	snprintf(name, sizeof(name), "more%d", i % 100);
	rutile_usdt_probe_declare(p, name, types, (unsigned)(i / 100 % 3), &more);
	rutile_usdt_provider_load(p);
	usleep(5000);
	rutile_usdt_probe_set(probes[i % PROBES], i & PROBES);
	if (i % 50 == 49) {
		rutile_usdt_provider_unload(p);
		rutile_usdt_provider_load(p);
	}
	if (i % 90 == 89) {
		rutile_usdt_control_stop();
		rutile_usdt_control_start(NULL, NULL);
	}
}

int main(void)
{
	const enum rutile_usdt_type types[] = {RUTILE_USDT_S64, RUTILE_USDT_STR};
	struct rutile_usdt_provider *p;
	pthread_t threads[THREADS];
	char name[32];

	rutile_usdt_control_start(NULL, NULL);
	rutile_usdt_provider_new("race", &p);
	for (int i = 0; i < PROBES; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		rutile_usdt_probe_add(p, name, types, 2, &probes[i]);
	}
	rutile_usdt_provider_load(p);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, fire, NULL);
	printf("%d\n", getpid());
	fflush(stdout);
	for (int i = 0; i < ROUNDS; i++)
		change(p, i);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	rutile_usdt_provider_free(p);
	rutile_usdt_control_stop();
	return 0;
}
