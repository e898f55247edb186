/* SPDX-License-Identifier: MIT */
/*
 * The statedump of interrupts. The thread of a threaded handler is found by its name, which the
 * kernel makes of the number and the action: "irq/24-eth0", "irq/24-s-eth0" of a secondary one.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "session/events.h"
#include "session/statedump_internal.h"

#define COMM_CUT 15 /* bytes of a name before Linux 5.17 */

struct irq_thread {
	int tid;
	uint32_t irq;
	char action[64];
};

struct irq_threads {
	struct irq_thread *list; /* owned */
	size_t count;
};

static void threads_fini(struct irq_threads *t)
{
	free(t->list);
}

static void note_thread(struct irq_threads *t, int tid, char *comm)
{
	struct irq_thread *more;
	char *action;
	unsigned long irq;

	comm[strcspn(comm, "\n")] = '\0';
	if (strncmp(comm, "irq/", 4) != 0)
		return;
	irq = strtoul(comm + 4, &action, 10);
	if (action == comm + 4 || *action++ != '-')
		return;
	more = reallocarray(t->list, t->count + 1, sizeof(*more));
	if (!more)
		return;
	t->list = more;
	more[t->count] = (struct irq_thread){.tid = tid, .irq = (uint32_t)irq};
	snprintf(more[t->count++].action, sizeof(more->action), "%s", action);
}

/* Only kernel threads have no command line; a program of such a name has one. */
static bool has_command_line(int proc, const char *pid)
{
	char path[64], text[8];

	snprintf(path, sizeof(path), "%.20s/cmdline", pid);
	return rut_statedump_read(proc, path, text, sizeof(text)) != 0;
}

static void find_threads(struct irq_threads *t)
{
	DIR *d = opendir("/proc");

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		char path[64], comm[80];

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%.20s/comm", e->d_name);
		if (rut_statedump_read(dirfd(d), path, comm, sizeof(comm)) > 4 &&
		    !strncmp(comm, "irq/", 4) && !has_command_line(dirfd(d), e->d_name))
			note_thread(t, atoi(e->d_name), comm);
	}
	closedir(d);
}

static bool runs(const struct irq_thread *t, const char *action)
{
	char head[32];
	size_t cut;

	if (!strcmp(t->action, action))
		return true;
	cut = (size_t)snprintf(head, sizeof(head), "irq/%u-", t->irq);
	return cut < COMM_CUT && strlen(t->action) == COMM_CUT - cut &&
	       !strncmp(t->action, action, COMM_CUT - cut);
}

/* The thread of an action, as LTTng has it; 0: its handler runs in the interrupt. */
static int thread_of(const struct irq_threads *t, uint32_t irq, const char *action)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->list[i].irq == irq && runs(&t->list[i], action))
			return t->list[i].tid;
	return 0;
}

static void dump_irq(struct rut_statedump *s, const struct irq_threads *t, int dir,
		     const char *name)
{
	struct rut_ev_SD_INTERRUPT rec = {.irq = (uint32_t)atoi(name)};
	char path[64], chip[64], actions[256];
	char *save = NULL;

	snprintf(path, sizeof(path), "%.20s/actions", name);
	if (rut_statedump_read(dir, path, actions, sizeof(actions)) <= 0 || actions[0] == '\n')
		return;
	snprintf(path, sizeof(path), "%.20s/chip_name", name);
	if (rut_statedump_read(dir, path, chip, sizeof(chip)) < 0)
		chip[0] = '\0';
	chip[strcspn(chip, "\n")] = '\0';
	for (char *a = strtok_r(actions, ",\n", &save); a; a = strtok_r(NULL, ",\n", &save)) {
		rec.tid = thread_of(t, rec.irq, a);
		RUT_STATEDUMP_EMIT(s, SD_INTERRUPT, &rec, chip, a);
	}
}

void rut_statedump_interrupts(struct rut_statedump *s)
{
	_cleanup_(threads_fini)
	struct irq_threads threads = {0};
	DIR *d = opendir("/sys/kernel/irq");

	if (!d)
		return;
	find_threads(&threads);
	for (struct dirent *e; (e = readdir(d));)
		if (isdigit((unsigned char)e->d_name[0]))
			dump_irq(s, &threads, dirfd(d), e->d_name);
	closedir(d);
}
