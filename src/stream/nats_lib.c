/* SPDX-License-Identifier: MIT */
#include "stream/nats_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/err.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)
/* Structures differ between minor versions, and so does the name of the library. */
#define LIBRARY "libnats.so." STRING(NATS_VERSION_MAJOR) "." STRING(NATS_VERSION_MINOR)

struct rut_nats_lib rut_nats;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static int load(struct rut_err *err)
{
	static const char *const names[] = {
#define NAME(name) #name,
		RUT_NATS_FUNCTIONS(NAME)
#undef NAME
	};
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	struct sigaction pipe;
	natsStatus st;

	_Static_assert(sizeof(rut_nats) == sizeof(names) / sizeof(names[0]) * sizeof(void *),
		       "a pointer a name");
	if (!lib)
		return rut_err_set(err, ELIBACC,
				   "nats:// needs " LIBRARY " (Debian: libnats" STRING(
					   NATS_VERSION_MAJOR) "." STRING(NATS_VERSION_MINOR) ")");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *fn = dlsym(lib, names[i]);

		if (!fn)
			return rut_err_set(err, ELIBACC, LIBRARY " has no function '%s'", names[i]);
		memcpy((char *)&rut_nats + i * sizeof(fn), &fn, sizeof(fn));
	}
	/* It ignores SIGPIPE, which programs that we start would inherit. */
	sigaction(SIGPIPE, NULL, &pipe);
	st = rut_nats.nats_Open(-1);
	sigaction(SIGPIPE, &pipe, NULL);
	return st == NATS_OK ? 0
			     : rut_err_set(err, EIO, "cannot start libnats: %s",
					   rut_nats.natsStatus_GetText(st));
}

int rut_nats_load(struct rut_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!loaded) {
		rc = load(err);
		loaded = !rc;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}
