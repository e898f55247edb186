/* SPDX-License-Identifier: MIT */
#include "ruby/record_meta.h"

#include <stdbool.h>
#include <string.h>

#include "agent/abi.h"
#include "agent/record.h"
#include "base/buf.h"
#include "ring/ring.h"
#include "ring/tsdl.h"
#include "ruby/record.h"
#include "ruby/record_grow.h"
#include "ruby/tracer.h"

#define NAME_ID	     1
#define ALLOCATED_ID 2

/* Which event classes are described: those of a generation, with its enumerations. */
struct classes {
	struct rut_buf *b;
	uint32_t generation;
	bool several; /* also those of events with several names */
};

/* The type of a method in the fields of a later generation: of one name, or of several at once. */
static void put_fields(const struct classes *c, const char *fields, bool several)
{
	static const char type[] = "method_t";

	for (const char *at; c->generation && (at = strstr(fields, type));
	     fields = at + sizeof(type) - 1) {
		rut_buf_add(c->b, fields, (size_t)(at - fields));
		rut_buf_printf(c->b, "method%s_%u_t", several ? "s" : "", c->generation);
	}
	rut_buf_puts(c->b, fields);
}

static void describe(const struct classes *c, unsigned id, const char *name, const char *fields,
		     bool several)
{
	/* The others have no names. */
	if (c->generation && (!strstr(fields, "method_t") || (several && !c->several)))
		return;
	rut_buf_printf(c->b,
		       "event {\n\tname = \"ruby:%s\";\n\tid = %u;\n\tstream_id = %d;\n"
		       "\tfields := struct {\n",
		       name, id + c->generation * RUT_RECORD_IDS, RUT_RECORD_STREAM);
	put_fields(c, fields, several);
	rut_buf_puts(c->b, "\t};\n};\n\n");
}

static void event(const struct classes *c, unsigned id, const char *name, const char *fields)
{
	describe(c, id, name, fields, false);
}

/* An event with several names, which may be of several generations. */
static void event_of_names(const struct classes *c, unsigned id, const char *name,
			   const char *fields)
{
	describe(c, id, name, fields, true);
}

#define METHOD "\t\tmethod_t _method;\n"
#define SITE   "\t\tmethod_t _class;\n"
#define TID    "\t\tuint32_t _tid;\n"
#define GC                                                                                         \
	"\t\tuint32_t _count;\n\t\tuint64_t _live_slots;\n\t\tgc_major_t _major;\n\t\tgc_by_t "    \
	"_by;\n"

#define TEXT(name) "\t\tstring _" name ";\n"
#define REQUEST	   "\t\tuint64_t _id;\n\t\tmethod_t _kind;\n" METHOD
#define SPAN	   "\t\tmethod_t _layer;\n" METHOD
#define DEPTH	   "\t\tuint16_t _depth;\n"

static void events(const struct classes *c)
{
	event(c, RUT_RECORD_SWITCH, "switch", TID "\t\tuint32_t _fiber;\n");
	event(c, RUT_RECORD_CALL, "call", METHOD);
	event(c, RUT_RECORD_RETURN, "return", METHOD);
	event(c, RUT_RECORD_C_CALL, "c_call", METHOD);
	event(c, RUT_RECORD_C_RETURN, "c_return", METHOD);
	event(c, RUT_RECORD_LINE, "line", METHOD "\t\tuint32_t _line;\n");
	event(c, RUT_RECORD_RAISE, "raise", SITE);
	event(c, RUT_RECORD_RESCUE, "rescue", SITE);
	event(c, RUT_RECORD_ALLOC, "alloc", SITE "\t\tuint32_t _bytes;\n");
	event(c, RUT_RECORD_SLOW_CALL, "slow_call", METHOD "\t\tuint64_t _ago;\n");
	event_of_names(c, RUT_RECORD_ALLOC_SAMPLE, "alloc_sample",
		       SITE
		       "\t\tuint32_t _bytes;\n\t\tuint32_t _weight;\n"
		       "\t\tuint32_t __stack_length;\n\t\tmethod_t _stack[ __stack_length ];\n");
	event(c, RUT_RECORD_GC_START, "gc_start", GC);
	event(c, RUT_RECORD_GC_MARK_END, "gc_mark_end", "");
	event(c, RUT_RECORD_GC_SWEEP_END, "gc_sweep_end", GC);
	event(c, RUT_RECORD_GC_ENTER, "gc_enter", "");
	event(c, RUT_RECORD_GC_EXIT, "gc_exit", "");
	event(c, RUT_RECORD_THREAD_START, "thread_start", TID);
	event(c, RUT_RECORD_THREAD_EXIT, "thread_exit", TID);
	event(c, RUT_RECORD_GVL_WAIT, "gvl_wait", TID);
	event(c, RUT_RECORD_GVL_HAVE, "gvl_have", TID);
	event(c, RUT_RECORD_GVL_RELEASE, "gvl_release", TID);
	event_of_names(c, RUT_RECORD_REQUEST_BEGIN, "request_begin",
		       REQUEST TEXT("verb") TEXT("path") TEXT("traceparent") TEXT("x_request_id"));
	event_of_names(c, RUT_RECORD_REQUEST_END, "request_end",
		       REQUEST "\t\tuint16_t _status;\n\t\tint64_t _bytes;\n" TEXT("verb")
			       TEXT("path") TEXT("route") TEXT("traceparent") TEXT("x_request_id")
				       TEXT("error"));
	event_of_names(c, RUT_RECORD_SPAN_BEGIN, "span_begin",
		       SPAN "\t\tmethod_t _caller;\n" DEPTH TEXT("detail"));
	event_of_names(c, RUT_RECORD_SPAN_END, "span_end", SPAN DEPTH TEXT("detail") TEXT("error"));
}

/* In ascending order: readers find labels faster. No row has the last number. */
static void labels_of(struct rut_buf *b, const struct rut_buf *labels, size_t done)
{
	rut_buf_puts(b, "typealias enum : uint32_t {");
	if (labels->len > done + 1)
		rut_buf_add(b, labels->data + done + 1, labels->len - done - 1);
	rut_buf_printf(b, "%s\n\t\"?\" = 4294967295\n}", labels->len > done + 1 ? "," : "");
}

static void enumerations(struct rut_buf *b, const struct rut_buf *labels)
{
	unsigned n = 0;

	labels_of(b, labels, 0);
	rut_buf_puts(b, " := method_t;\n\ntypealias enum : uint8_t { minor");
#define F(name) rut_buf_puts(b, ", " #name);
	RUT_RECORD_GC_MAJORS(F)
#undef F
	rut_buf_puts(b, " } := gc_major_t;\n\ntypealias enum : uint8_t { unknown = 0");
#define F(name) rut_buf_printf(b, ", " #name " = %u", ++n);
	RUT_RECORD_GC_BYS(F)
#undef F
	rut_buf_puts(b, " } := gc_by_t;\n\n");
}

void rut_record_metadata(struct rut_buf *b, const struct rut_record_about *about,
			 const struct rut_buf *labels)
{
	rut_buf_puts(b, "/* CTF 1.8 */\n\n" RUT_TSDL_INTEGERS "\n");
	rut_tsdl_trace(b, about->uuid);
	rut_buf_printf(b,
		       "env {\n\tdomain = \"ruby\";\n\ttracer_name = \"rutile\";\n\tvpid = %d;\n"
		       "\truby_version = \"%s\";\n};\n\n",
		       (int)about->pid, about->ruby_version);
	rut_buf_printf(b,
		       "clock {\n\tname = \"monotonic\";\n\tfreq = 1000000000;\n\tabsolute = "
		       "TRUE;\n\toffset = %lld;\n};\n\n",
		       (long long)about->clock_offset_ns);
	rut_buf_puts(b, RUT_TSDL_PACKETS("_pid", "1") "};\n\n");
	rut_buf_printf(b,
		       "stream {\n\tid = %d;\n\tevent.header := struct event_header;\n"
		       "\tpacket.context := struct packet_context;\n};\n\n",
		       RUT_RECORD_NAMES_STREAM);
	enumerations(b, labels);
	events(&(struct classes){.b = b});
	rut_buf_printf(b,
		       "event {\n\tname = \"ruby:method\";\n\tid = %d;\n\tstream_id = %d;\n"
		       "\tfields := struct {\n\t\tuint32_t _id;\n\t\tuint32_t _line;\n"
		       "\t\tuint8_t _singleton;\n\t\tuint8_t _native;\n\t\tstring _class;\n"
		       "\t\tstring _method;\n\t\tstring _path;\n\t};\n};\n",
		       NAME_ID, RUT_RECORD_NAMES_STREAM);
	rut_buf_printf(b,
		       "\nevent {\n\tname = \"ruby:allocated\";\n\tid = %d;\n\tstream_id = %d;\n"
		       "\tfields := struct {\n\t\tuint64_t _objects;\n\t\tuint64_t _bytes;\n"
		       "\t\tuint64_t _internal;\n\t};\n};\n\n",
		       ALLOCATED_ID, RUT_RECORD_NAMES_STREAM);
}

void rut_record_metadata_more(struct rut_buf *b, uint32_t generation, const struct rut_buf *labels,
			      size_t done, bool several)
{
	labels_of(b, labels, done);
	rut_buf_printf(b, " := method_%u_t;\n\n", generation);
	if (several) {
		labels_of(b, labels, 0);
		rut_buf_printf(b, " := methods_%u_t;\n\n", generation);
	}
	events(&(struct classes){b, generation, several});
}

/* Names are another process's: what would end the string, or the line, is replaced. */
static void put_name(struct rut_buf *b, const char *name)
{
	for (; name && *name; name++)
		rut_buf_putc(b, *name == '"' || *name == '\\' || (unsigned char)*name < ' ' ||
						*name == 0x7f
					? '_'
					: *name);
}

void rut_record_label(struct rut_buf *labels, uint32_t number, const struct rut_ruby_row *row)
{
	rut_buf_puts(labels, ",\n\t\"");
	put_name(labels, row->class_name);
	if (row->method_name) {
		if (row->class_name)
			rut_buf_putc(labels, row->singleton ? '.' : '#');
		put_name(labels, row->method_name);
	}
	rut_buf_printf(labels, "\" = %u", number);
}

static void put_string(struct rut_buf *b, const char *s)
{
	rut_buf_add(b, s ? s : "", s ? strlen(s) + 1 : 1);
}

void rut_record_name(struct rut_buf *b, uint64_t ns, uint32_t number,
		     const struct rut_ruby_row *row, uint32_t flags)
{
	uint64_t header = RUT_RECORD_HEADER(NAME_ID, ns);

	rut_buf_add(b, &header, sizeof(header));
	rut_buf_add(b, &number, sizeof(number));
	rut_buf_add(b, &row->line, sizeof(row->line));
	rut_buf_putc(b, row->singleton);
	rut_buf_putc(b, flags & RUT_ROW_C ? 1 : 0);
	put_string(b, row->class_name);
	put_string(b, row->method_name);
	put_string(b, row->path);
}

void rut_record_allocated(struct rut_buf *b, uint64_t ns, const struct rut_record_allocs *allocs)
{
	uint64_t header = RUT_RECORD_HEADER(ALLOCATED_ID, ns);

	rut_buf_add(b, &header, sizeof(header));
	rut_buf_add(b, allocs, sizeof(*allocs));
}
