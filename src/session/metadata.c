/* SPDX-License-Identifier: MIT */
/*
 * The metadata of a kernel trace, in the CTF 1.8 text form that every reader knows. The environment
 * is LTTng's (lttng-modules' layout of events): Trace Compass and lttng-analyses choose by it how
 * to read the events.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "ring/tsdl.h"
#include "rut_config.h"
#include "session/events.h"
#include "session/perf.h"

static const char types[] = RUT_TSDL_INTEGERS
	"typealias integer { size = 8; align = 8; signed = false; base = 16; } := xint8_t;\n"
	"typealias integer { size = 16; align = 8; signed = false; base = 16; } := xint16_t;\n"
	"typealias integer { size = 32; align = 8; signed = false; base = 16; } := xint32_t;\n"
	"typealias integer { size = 64; align = 8; signed = false; base = 16; } := xint64_t;\n"
	"typealias integer { size = 32; align = 8; signed = false; base = 8; } := oint32_t;\n"
	"typealias integer { size = 16; align = 8; signed = false; byte_order = be; } := "
	"be16_t;\n"
	"typealias integer { size = 32; align = 8; signed = false; base = 16; byte_order = be; } "
	":= xbe32_t;\n"
	"typealias integer { size = 16; align = 8; signed = false; base = 16; byte_order = be; } "
	":= xbe16_t;\n"
	"typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := float32_t;\n"
	"typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := float64_t;\n"
	"typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := "
	"text_t;\n\n";

/* A socket address, as struct rut_sockaddr and what follows it. */
#define NAME_OF(port)                                                                              \
	"uint16_t _family; be16_t _" port "; uint8_t __v4addr_length; uint8_t __v6addr_length; "   \
	"uint8_t _v4addr[ __v4addr_length ]; be16_t _v6addr[ __v6addr_length ]; string "           \
	"_sun_path; "

/* LTTng's layout of packet headers: their bytes are copied into the record. */
#define BE(size, base, name)                                                                       \
	"integer { size = " #size "; align = 8; signed = false; byte_order = be; base = " #base    \
	"; } _" name "; "
#define BE_BITS(size, base, name)                                                                  \
	"integer { size = " #size "; align = 1; signed = false; byte_order = be; base = " #base    \
	"; } _" name "; "
#define PROTOCOL(name)                                                                             \
	"enum : uint8_t { \"unknown\" = 0 ... 0, \"icmp\" = 1, \"unknown\" = 2 ... 5, "            \
	"\"tcp\" = 6, \"unknown\" = 7 ... 16, \"udp\" = 17, \"unknown\" = 18 ... 255 } _" name     \
	"; "
#define TRANSPORT                                                                                  \
	"enum : uint8_t { \"unknown\" = 0, \"tcp\" = 1, \"udp\" = 2, \"icmp\" = 3 } "              \
	"_transport_header_type; variant <_transport_header_type> { struct { } unknown; "          \
	"struct { " BE(16, 10, "source_port") BE(16, 10, "dest_port") BE(32, 10, "seq") BE(        \
		32, 10, "ack_seq") BE_BITS(4, 10, "data_offset") BE_BITS(3, 10, "reserved")        \
		BE_BITS(9, 16, "flags") BE(16, 10, "window_size") BE(16, 16, "checksum")           \
			BE(16, 10,                                                                 \
			   "urg_ptr") "} tcp; "                                                    \
				      "struct { " BE(16, 10, "source_port") BE(                    \
					      16, 10, "dest_port") BE(16, 10, "len")               \
					      BE(16, 10,                                           \
						 "check") "} udp; "                                \
							  "struct { uint8_t _type; uint8_t "       \
							  "_code; " BE(16, 10, "checksum") BE(     \
								  32, 10,                          \
								  "gateway") "} icmp; } "          \
									     "_transport_header; "
#define IPV4                                                                                       \
	"struct { " BE_BITS(4, 10, "version") BE_BITS(4, 10, "ihl") "uint8_t _tos; " BE(16, 10,    \
											"tot_len") \
		BE(16, 16, "id") BE(16, 10, "frag_off") "uint8_t _ttl; " PROTOCOL("protocol")      \
			BE(16, 16, "checksum") "uint8_t _saddr[4]; uint8_t _daddr[4]; " TRANSPORT  \
					       "} ipv4; "
#define IPV6                                                                                       \
	"struct { " BE_BITS(4, 10, "version")                                                      \
		BE_BITS(4, 10, "prio") "xint8_t _flow_lbl[3]; " BE(16, 10, "payload_len")          \
			PROTOCOL("nexthdr") "uint8_t _hop_limit; "                                 \
					    "xbe16_t _saddr[8]; xbe16_t _daddr[8]; " TRANSPORT     \
					    "} ipv6; "

/* What the table of kinds leaves to this file. */
#define NET_HEADER "variant <_network_header_type> { struct { } unknown; " IPV4 IPV6 "} _%s;"
#define SEQ_NAME   "struct { " NAME_OF("dport") "} _%s[ __%s_length ];"
#define SEQ_MSG	   "struct { uint32_t _msg_len; " NAME_OF("sport") "} _%s[ __%s_length ];"

#define KIND(kind, form, bytes, name, tsdl) [RUT_FK_##kind] = {RUT_FIELD_##form, bytes, name, tsdl},
const struct rut_field_kind_desc rut_field_kinds[] = {RUT_FIELD_KINDS(KIND)};

static void write_field(struct rut_buf *out, const struct rut_field *f)
{
	const char *form = rut_field_kinds[f->kind].tsdl;

	/* No printf with a format from a table: the two or three places are filled in by hand. */
	rut_buf_puts(out, "\t\t");
	for (const char *p = form; *p; p++) {
		if (p[0] == '%' && p[1] == 's') {
			rut_buf_puts(out, f->name);
			p++;
		} else if (p[0] == '%' && p[1] == 'u') {
			rut_buf_printf(out, "%u", f->count);
			p++;
		} else {
			rut_buf_putc(out, *p);
		}
	}
	rut_buf_putc(out, '\n');
}

/* Quotes and backslashes cannot stand in a TSDL string unescaped; control characters never. */
static void write_string(struct rut_buf *out, const char *value)
{
	rut_buf_putc(out, '"');
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			rut_buf_putc(out, '\\');
		rut_buf_putc(out, (unsigned char)*value < ' ' ? ' ' : *value);
	}
	rut_buf_puts(out, "\";\n");
}

/* Names of probes come from untrusted files. */
void rut_metadata_event(struct rut_buf *out, const struct rut_event *e)
{
	rut_buf_puts(out, "event {\n\tname = ");
	write_string(out, e->name);
	rut_buf_printf(out, "\tid = %u;\n\tstream_id = 0;\n", e->id);
	rut_buf_puts(out, "\tfields := struct {\n");
	for (size_t i = 0; i < e->nfields; i++)
		write_field(out, &e->fields[i]);
	rut_buf_puts(out, "\t};\n};\n\n");
}

static void write_env(struct rut_buf *out, const char *key, const char *value)
{
	rut_buf_printf(out, "\t%s = ", key);
	write_string(out, value);
}

static void write_environment(struct rut_buf *out, const struct rut_metadata *m)
{
	struct utsname u;

	uname(&u);
	rut_buf_puts(out, "env {\n");
	write_env(out, "hostname", u.nodename);
	write_env(out, "domain", "kernel");
	write_env(out, "sysname", u.sysname);
	write_env(out, "kernel_release", u.release);
	write_env(out, "kernel_version", u.version);
	write_env(out, "tracer_name", "lttng-modules");
	rut_buf_puts(out, "\ttracer_major = 2;\n\ttracer_minor = 13;\n\ttracer_patchlevel = 0;\n");
	write_env(out, "architecture_bit_width", sizeof(long) == 8 ? "64" : "32");
	write_env(out, "trace_name", m->session);
	write_env(out, "product", "rutile " RUT_VERSION);
	rut_buf_puts(out, "};\n\n");
}

static void write_context(struct rut_buf *out, const struct rut_metadata *m, size_t i)
{
	_cleanup_buf_ struct rut_buf name = RUT_BUF_INIT;
	struct rut_field f = rut_contexts[i].field;
	int counter = rut_context_perf(i);

	if (counter >= 0 && m->perf) {
		rut_perf_field(&name, m->perf[counter]);
		f.name = name.data ? name.data : f.name;
	}
	write_field(out, &f);
}

static void write_stream(struct rut_buf *out, const struct rut_metadata *m)
{
	rut_buf_puts(out, RUT_TSDL_PACKETS("_reserved", "0"));
	if (m->contexts) {
		rut_buf_puts(out, "\tevent.context := struct {\n");
		for (size_t i = 0; i < RUT_CTX_COUNT; i++)
			if (m->contexts & rut_contexts[i].bit)
				write_context(out, m, i);
		rut_buf_puts(out, "\t};\n");
	}
	rut_buf_puts(out, "};\n\n");
}

void rut_metadata_write(struct rut_buf *out, const struct rut_metadata *m)
{
	rut_buf_puts(out, "/* CTF 1.8 */\n\n");
	rut_buf_puts(out, types);
	rut_tsdl_trace(out, m->uuid);
	write_environment(out, m);
	rut_buf_printf(out,
		       "clock {\n\tname = \"monotonic\";\n\tdescription = \"Monotonic Clock\";\n"
		       /* Else babeltrace 1 may refuse several Ruby processes beside it. */
		       "\tabsolute = TRUE;\n"
		       "\tfreq = 1000000000;\n\toffset = %lld;\n};\n\n",
		       (long long)m->clock_offset_ns);
	write_stream(out, m);
	rut_metadata_write_events(out, m);
}
