/* SPDX-License-Identifier: MIT */
/*
 * Declaring probes: names, types, and what happens when one is declared again.
 *
 * A provider finds its probes by a hash table of names, so declaring one costs the same however
 * many there are. A probe that is declared again with other types is replaced: the old one keeps
 * its memory until the provider is freed, because the application may hold its pointer.
 */
#include "usdt/provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"

bool rut_usdt_name_is_valid(const char *name)
{
	size_t len = strlen(name);

	if (!len || len > RUTILE_USDT_NAME_MAX)
		return false;
	for (const char *c = name; *c; c++)
		if (*c <= ' ' || *c > '~' || *c == ':')
			return false;
	return true;
}

static bool types_are_valid(const enum rutile_usdt_type *types, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if ((int)types[i] <= 0 || types[i] >= RUTILE_USDT_TYPES)
			return false;
	return true;
}

/* The index of a name's entry, or of the free entry where it belongs. The table has room. */
static size_t name_entry(const struct rutile_usdt_provider *p, const char *name)
{
	size_t i = rut_hash_bytes(name, strlen(name)) & p->names_mask;

	while (p->names[i] && strcmp(p->probes[p->names[i] - 1]->name, name) != 0)
		i = (i + 1) & p->names_mask;
	return i;
}

static struct rut_usdt_probe *find_probe(const struct rutile_usdt_provider *p, const char *name)
{
	size_t found = p->names ? p->names[name_entry(p, name)] : 0;

	return found ? p->probes[found - 1] : NULL;
}

struct rutile_usdt_probe *rutile_usdt_probe_find(const struct rutile_usdt_provider *p,
						 const char *name,
						 const enum rutile_usdt_type **ret_types,
						 unsigned *ret_n)
{
	struct rut_usdt_probe *probe;

	rut_usdt_lock();
	probe = find_probe(p, name);
	rut_usdt_unlock();
	if (!probe)
		return NULL;
	if (ret_types)
		*ret_types = probe->types;
	if (ret_n)
		*ret_n = probe->n_types;
	return &probe->pub;
}

/* Room for one more probe and its name, at most half of the table in use. */
static int grow(struct rutile_usdt_provider *p)
{
	size_t cap = p->names ? p->names_mask + 1 : 8;
	struct rut_usdt_probe **more;
	uint32_t *names;

	if (p->names && p->n_probes < cap / 2)
		return 0;
	cap *= p->names ? 2 : 1;
	more = realloc(p->probes, cap / 2 * sizeof(*more));
	if (!more)
		return -ENOMEM;
	p->probes = more;
	names = calloc(cap, sizeof(*names));
	if (!names)
		return -ENOMEM;
	free(p->names);
	p->names = names;
	p->names_mask = cap - 1;
	for (size_t i = 0; i < p->n_probes; i++)
		p->names[name_entry(p, p->probes[i]->name)] = (uint32_t)i + 1;
	return 0;
}

void rut_usdt_probe_free(struct rut_usdt_probe *probe)
{
	free(probe->arg_names);
	free(probe->name);
	free(probe);
}

static int new_probe(struct rutile_usdt_provider *p, const char *name,
		     const enum rutile_usdt_type *types, unsigned n, struct rut_usdt_probe **ret)
{
	struct rut_usdt_probe *probe;

	if (n > RUTILE_USDT_MAX_ARGS)
		return -E2BIG;
	if (!rut_usdt_name_is_valid(name) || !types_are_valid(types, n))
		return -EINVAL;
	probe = calloc(1, sizeof(*probe));
	if (!probe)
		return -ENOMEM;
	probe->name = strdup(name);
	if (!probe->name) {
		free(probe);
		return -ENOMEM;
	}
	probe->pub.gate = &rut_usdt_closed_gate;
	probe->provider = p;
	probe->n_types = n;
	if (n)
		memcpy(probe->types, types, n * sizeof(*types));
	probe->on = true;
	probe->counts = probe->own_counts;
	probe->slot_index = -1;
	*ret = probe;
	return 0;
}

static bool is_declared_as(const struct rut_usdt_probe *probe, const enum rutile_usdt_type *types,
			   unsigned n)
{
	return probe->n_types == n && (!n || !memcmp(probe->types, types, n * sizeof(*types)));
}

/* Puts a new probe in the place of the one of that name, which is never seen again. */
static void replace(struct rutile_usdt_provider *p, struct rut_usdt_probe *old,
		    struct rut_usdt_probe *probe)
{
	size_t i = p->names[name_entry(p, old->name)] - 1;

	rut_usdt_probe_retire(old);
	rut_usdt_ctl_remove(old);
	old->replaced = p->replaced;
	p->replaced = old;
	p->probes[i] = probe;
	if (p->n_loaded > i)
		p->n_loaded = i;
	rut_usdt_ctl_add(probe);
}

/* Under the lock. */
static int add_probe(struct rutile_usdt_provider *p, struct rut_usdt_probe *probe)
{
	int rc = grow(p);

	if (rc)
		return rc;
	p->probes[p->n_probes++] = probe;
	p->names[name_entry(p, probe->name)] = (uint32_t)p->n_probes;
	rut_usdt_ctl_add(probe);
	return 0;
}

int rutile_usdt_probe_add(struct rutile_usdt_provider *p, const char *name,
			  const enum rutile_usdt_type *types, unsigned n,
			  struct rutile_usdt_probe **ret)
{
	struct rut_usdt_probe *probe = NULL;
	int rc = new_probe(p, name, types, n, &probe);

	if (rc)
		return rc;
	rut_usdt_lock();
	rc = find_probe(p, name) ? -EEXIST : add_probe(p, probe);
	rut_usdt_unlock();
	if (rc)
		rut_usdt_probe_free(probe);
	else
		*ret = &probe->pub;
	return rc;
}

int rutile_usdt_probe_declare(struct rutile_usdt_provider *p, const char *name,
			      const enum rutile_usdt_type *types, unsigned n,
			      struct rutile_usdt_probe **ret)
{
	struct rut_usdt_probe *probe = NULL, *old;
	int rc = new_probe(p, name, types, n, &probe);

	if (rc)
		return rc;
	rut_usdt_lock();
	old = find_probe(p, name);
	if (!old)
		rc = add_probe(p, probe);
	else if (!is_declared_as(old, types, n))
		replace(p, old, probe);
	else
		*ret = &old->pub;
	if (!rc && (!old || !is_declared_as(old, types, n)))
		*ret = &RUT_TAKE(probe)->pub;
	rut_usdt_unlock();
	if (probe)
		rut_usdt_probe_free(probe);
	return rc;
}

static bool is_identifier(const char *name, size_t len)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";

	if (!len || !memchr(first, *name, sizeof(first) - 1))
		return false;
	for (size_t i = 1; i < len; i++)
		if (!memchr(first, name[i], sizeof(first) - 1) && (name[i] < '0' || name[i] > '9'))
			return false;
	return true;
}

/* The names with commas between them, in memory of their own; NULL: they cannot be used. */
static char *join_names(const struct rut_usdt_probe *probe, const char *const *names)
{
	char *text = calloc(1, RUTILE_USDT_ARG_NAMES_MAX + 1);
	size_t at = 0;

	for (unsigned i = 0; i < probe->n_types && text; i++) {
		const char *name = names[i] ? names[i] : "";
		size_t len = strlen(name);
		bool good =
			is_identifier(name, len) && at + len + (i > 0) <= RUTILE_USDT_ARG_NAMES_MAX;

		for (unsigned k = 0; k < i && good; k++)
			good = strcmp(name, names[k]) != 0;
		if (!good) {
			free(text);
			return NULL;
		}
		if (i)
			text[at++] = ',';
		/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): calloc() did */
		memcpy(text + at, name, len);
		at += len;
	}
	return text;
}

int rutile_usdt_probe_name_args(struct rutile_usdt_probe *pub, const char *const *names)
{
	struct rut_usdt_probe *probe = (struct rut_usdt_probe *)pub;
	char *text = names ? join_names(probe, names) : NULL, *old;

	if (names && !text)
		return -EINVAL;
	rut_usdt_lock();
	old = probe->arg_names;
	probe->arg_names = text;
	rut_usdt_ctl_rename(probe);
	rut_usdt_unlock();
	free(old);
	return 0;
}
