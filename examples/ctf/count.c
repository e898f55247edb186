/* SPDX-License-Identifier: MIT */
/* Counts the events of traces by name.  cc count.c $(pkg-config --cflags --libs rutile-ctf) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rutile/ctf.h>

int main(int argc, char **argv)
{
	struct rutile_ctf *trace;
	const struct rutile_ctf_event *ev;
	struct rutile_ctf_counts counts;
	uint64_t *seen;
	char error[256];

	if (rutile_ctf_open(&trace, (const char *const *)argv + 1, (size_t)argc - 1, error,
			    sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	seen = calloc(rutile_ctf_class_count(trace) + 1, sizeof(*seen));
	if (!seen)
		return 1;
	while ((ev = rutile_ctf_next(trace)))
		seen[rutile_ctf_class_number(rutile_ctf_event_class(ev))]++;
	for (size_t i = 0; i < rutile_ctf_class_count(trace); i++)
		if (seen[i])
			printf("%10" PRIu64 " %s\n", seen[i],
			       rutile_ctf_class_name(rutile_ctf_class(trace, i)));
	rutile_ctf_counts(trace, &counts);
	if (counts.discarded)
		printf("%10" PRIu64 " discarded\n", counts.discarded);
	free(seen);
	rutile_ctf_free(trace);
	return 0;
}
