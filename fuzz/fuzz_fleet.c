/* SPDX-License-Identifier: MIT */
/*
 * What comes over the network to a host of a fleet, and to the asking side: the input is a request,
 * an answer, a key and a file of rules. What the rules of a fixed file allow must be a verb that
 * they name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fleet/rules.h"
#include "fleet/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char rules[] = "allow = status **\nallow = snapshot web -o /srv/*\n";
	struct rut_err err = RUT_ERR_INIT;
	struct rut_fleet_request r;
	struct rut_fleet_answer a;
	struct rut_fleet_rules f;
	char host[RUT_FLEET_NAME];
	char *text = malloc(size + 1);

	if (!text || rut_fleet_rules_parse(&f, "f", rules, NULL))
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	if (!rut_fleet_request_get(data, size, &r)) {
		rut_fleet_is_among(r.hosts, "web1.example");
		const bool allowed = rut_fleet_rules_allow(&f, r.words, r.n_words);

		for (size_t i = 1; allowed && i < r.n_words; i++)
			if (!strcmp(r.words[0], "status") &&
			    (r.words[i][0] == '-' || strchr(r.words[i], '/')))
				abort();
		if (allowed && strcmp(r.words[0], "status") != 0 &&
		    (r.n_words != 4 || strncmp(r.words[3], "/srv/", 5) != 0 ||
		     strchr(r.words[3] + 5, '/')))
			abort();
	}
	rut_fleet_rules_fini(&f);
	if (!rut_fleet_answer_get(data, size, &a) && !a.host[0])
		abort();
	rut_fleet_is_reply(text);
	rut_fleet_key_get(text, host, sizeof(host));
	if (!rut_fleet_rules_parse(&f, "f", text, &err))
		rut_fleet_rules_fini(&f);
	free(text);
	return 0;
}
