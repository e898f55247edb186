/* SPDX-License-Identifier: MIT */
/*
 * A compiled script as a file, NAME.rbc, that is loaded on other machines without the script and
 * without the compiler's passes: instructions, maps, types, formats, the probes, and the facts
 * (fact.h) that the instructions contain, which are looked up again where it is loaded. The BTF of
 * the kernel is read there for fields of its structures, tracefs for those of tracepoints, the
 * symbols of programs for their functions; nothing else of the source is needed. Of its text the
 * file has the lines that messages can cite.
 *
 *	uint8_t  magic[8]      "\x7fRBC\r\n\x1a\n"
 *	uint32_t format        FORMAT of portable.c
 *	uint32_t machine       EM_X86_64 ... of the registers that programs read
 *	char     version[32]   of rutile; another one may lay values out otherwise
 *	uint64_t digest        of what follows
 *	uint64_t bytes         ... which is so long
 *
 * Then, twice, for `rutile run` and for sessions, which differ in where records go: uint64_t bytes
 * (0: there is none) and the program (portable.c), in the machine's byte order.
 */
#ifndef RUT_SCRIPT_PORTABLE_H
#define RUT_SCRIPT_PORTABLE_H

#include <stdbool.h>
#include <stddef.h>

struct rut_buf;
struct rut_err;
struct rut_script_program;

enum rut_portable_use { RUT_PORTABLE_RUN, RUT_PORTABLE_SESSION, RUT_PORTABLE_USES };

/* Does a file begin as one of these? Scripts do not. */
bool rut_portable_is(const char *data, size_t len);

/*
 * Appends the file of programs that were compiled with opts.portable, by enum rut_portable_use;
 * NULL: there is none. 0 or -ENOMEM.
 */
int rut_portable_write(struct rut_buf *out,
		       struct rut_script_program *const programs[RUT_PORTABLE_USES]);

/*
 * Compiles a script for other machines, and has the kernel verify it here: the file is appended to
 * `out`. `flight`: its session will have no process. Messages are appended to `messages`, also
 * those of why it is for sessions alone. 0, -EINVAL (see the messages), or -errno with *err.
 */
int rut_portable_compile(struct rut_buf *out, const char *name, const char *text, size_t len,
			 bool flight, struct rut_buf *messages, struct rut_err *err);

/*
 * The program of a file, as the compiler would have made it; what it takes for granted is not
 * looked up. 0, or -errno with one line: the file is damaged, of another version or machine, or has
 * no program of this use, or (-EPERM) does what needs --unsafe, and `unsafe` is not set: the file
 * itself cannot permit that. `name` is used in messages, and borrowed.
 */
int rut_portable_read(struct rut_script_program **ret, const char *name, const char *data,
		      size_t len, enum rut_portable_use use, bool unsafe, struct rut_err *err);

/* One program without the file around it, as fuzzers make them. */
int rut_portable_decode(struct rut_script_program **ret, const char *name, const void *data,
			size_t len);

/*
 * Before it is loaded: changes the instructions to the facts of this machine, and finds the probes
 * in its files and its kernel. 0, or -errno with *err or with messages in the program's source.
 */
int rut_portable_settle(struct rut_script_program *p, struct rut_err *err);

#endif
