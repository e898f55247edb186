/* SPDX-License-Identifier: MIT */
#include "usdt/metadata.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "ring/tsdl.h"
#include "usdt/remote.h"
#include "usdt/tap.h"

static const char metadata_types[] =
	"/* CTF 1.8 */\n\n" RUT_TSDL_INTEGERS
	"typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := float64_t;\n\n";

void rut_usdt_metadata_head(struct rut_buf *b, const uint8_t uuid[16], pid_t pid,
			    int64_t clock_offset_ns)
{
	rut_buf_puts(b, metadata_types);
	rut_tsdl_trace(b, uuid);
	rut_buf_printf(
		b, "env {\n\tdomain = \"ust\";\n\ttracer_name = \"rutile\";\n\tvpid = %d;\n};\n\n",
		pid);
	rut_buf_printf(b,
		       "clock {\n\tname = \"monotonic\";\n\tfreq = 1000000000;\n\tabsolute = "
		       "TRUE;\n\toffset = %lld;\n"
		       "};\n\n",
		       (long long)clock_offset_ns);
	rut_buf_puts(b, RUT_TSDL_PACKETS("_pid", "0") "\tevent.context := struct {\n"
						      "\t\tuint32_t _vtid;\n"
						      "\t\tuint16_t _cpu;\n"
						      "\t};\n"
						      "};\n\n");
}

/* Names come from another process: what would end the string, or the line, is replaced. */
static void write_name(struct rut_buf *b, const char *name)
{
	for (; *name; name++)
		rut_buf_putc(b, *name == '"' || *name == '\\' || (unsigned char)*name < ' '
					? '_'
					: *name);
}

static bool is_identifier(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '_')
			return false;
	return len > 0;
}

/* The i-th of the names, if it is one and no other argument's; its length in *ret_len, 0: none. */
static const char *argument_name(const struct rut_usdt_info *p, unsigned i, size_t *ret_len)
{
	const char *names[RUTILE_USDT_MAX_ARGS] = {NULL}, *at = p->arg_names;
	size_t lens[RUTILE_USDT_MAX_ARGS] = {0};

	*ret_len = 0;
	for (unsigned k = 0; k < p->n_types; k++) {
		names[k] = at;
		lens[k] = strcspn(at, ",");
		at += lens[k] + (at[lens[k]] == ',');
		if (!is_identifier(names[k], lens[k]))
			return NULL;
	}
	for (unsigned k = 0; k < p->n_types; k++)
		if (k != i && lens[k] == lens[i] && !memcmp(names[k], names[i], lens[i]))
			return NULL;
	*ret_len = lens[i];
	return names[i];
}

void rut_usdt_metadata_event(struct rut_buf *b, const struct rut_usdt_info *p)
{
	static const char *const types[RUTILE_USDT_TYPES] = {
		[RUTILE_USDT_U8] = "uint8_t",	[RUTILE_USDT_S8] = "int8_t",
		[RUTILE_USDT_U16] = "uint16_t", [RUTILE_USDT_S16] = "int16_t",
		[RUTILE_USDT_U32] = "uint32_t", [RUTILE_USDT_S32] = "int32_t",
		[RUTILE_USDT_U64] = "uint64_t", [RUTILE_USDT_S64] = "int64_t",
		[RUTILE_USDT_STR] = "string",	[RUTILE_USDT_F64] = "float64_t",
		[RUTILE_USDT_BOOL] = "uint8_t",
	};

	rut_buf_puts(b, "event {\n\tname = \"" RUT_USDT_EVENT_PREFIX);
	write_name(b, p->provider);
	rut_buf_putc(b, ':');
	write_name(b, p->name);
	rut_buf_printf(b, "\";\n\tid = %u;\n\tstream_id = 0;\n\tfields := struct {\n", p->slot);
	for (unsigned i = 0; i < p->n_types; i++) {
		size_t len;
		const char *name = argument_name(p, i, &len);

		if (len)
			rut_buf_printf(b, "\t\t%s _%.*s;\n", types[p->types[i]], (int)len, name);
		else
			rut_buf_printf(b, "\t\t%s _arg%u;\n", types[p->types[i]], i);
	}
	rut_buf_puts(b, "\t};\n};\n\n");
}

bool rut_usdt_metadata_knows(const struct rut_usdt_info *p)
{
	for (unsigned i = 0; i < p->n_types; i++)
		if ((int)p->types[i] <= 0 || p->types[i] >= RUTILE_USDT_TYPES)
			return false;
	return true;
}
