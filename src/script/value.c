/* SPDX-License-Identifier: MIT */
#include "script/value.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "output/text.h"

#define STACK_MAX 127

int64_t rut_script_value_int(const struct rut_type *t, const void *v)
{
	union {
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
	} n = {0};

	memcpy(&n, v, t->size <= sizeof(n) ? t->size : sizeof(n));
	switch (t->size) {
	case 1:
		return t->is_signed ? (int8_t)n.u8 : n.u8;
	case 2:
		return t->is_signed ? (int16_t)n.u16 : n.u16;
	case 4:
		return t->is_signed ? (int32_t)n.u32 : (int64_t)n.u32;
	default:
		return (int64_t)n.u64;
	}
}

static uint64_t load_u64(const void *v)
{
	uint64_t n;

	memcpy(&n, v, sizeof(n));
	return n;
}

void rut_script_json_string(struct rut_buf *out, const char *text, size_t len)
{
	rut_buf_putc(out, '"');
	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t n = rut_text_decode(text + i, len - i, &cp);

		if (cp == UINT32_MAX)
			rut_buf_puts(out, "\xef\xbf\xbd");
		else if (cp == '"' || cp == '\\')
			rut_buf_printf(out, "\\%c", (int)cp);
		else if (cp == '\n')
			rut_buf_puts(out, "\\n");
		else if (cp == '\r')
			rut_buf_puts(out, "\\r");
		else if (cp == '\t')
			rut_buf_puts(out, "\\t");
		else if (cp < 0x20)
			rut_buf_printf(out, "\\u%04x", (unsigned)cp);
		else
			rut_buf_add(out, text + i, n);
		i += n;
	}
	rut_buf_putc(out, '"');
}

/* The times that strftime() gives in one call; %f is not one of its conversions. */
static void add_time(const char *format, const struct tm *tm, struct rut_buf *out)
{
	char text[512];

	/* The format is the script's, which strftime() cannot be harmed by. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	if (*format)
		rut_buf_add(out, text, strftime(text, sizeof(text), format, tm));
#pragma GCC diagnostic pop
}

void rut_script_time_text(const char *format, uint64_t wall_ns, struct rut_buf *out)
{
	_cleanup_buf_ struct rut_buf part = RUT_BUF_INIT;
	time_t seconds = (time_t)(wall_ns / 1000000000);
	struct tm tm;

	localtime_r(&seconds, &tm);
	for (const char *p = format; *p; p++) {
		if (p[0] == '%' && p[1] == 'f') {
			rut_buf_printf(&part, "%06u", (unsigned)(wall_ns % 1000000000 / 1000));
			p++;
		} else {
			rut_buf_putc(&part, *p);
			if (p[0] == '%' && p[1])
				rut_buf_putc(&part, *++p);
		}
	}
	if (part.data)
		add_time(part.data, &tm, out);
}

void rut_script_bytes_text(const uint8_t *data, size_t len, char variant, struct rut_buf *out)
{
	for (size_t i = 0; i < len; i++) {
		if (variant == 'h')
			rut_buf_printf(out, i ? " %02x" : "%02x", data[i]);
		else if (variant != 'x' && data[i] >= 32 && data[i] <= 126)
			rut_buf_putc(out, (char)data[i]);
		else
			rut_buf_printf(out, "\\x%02x", data[i]);
	}
}

static void enum_text(const struct rut_type *t, const void *v, struct rut_buf *out)
{
	int64_t n = rut_script_value_int(t, v);

	for (uint32_t i = 0; i < t->nenumerators; i++)
		if (t->enumerators[i].value == n) {
			rut_buf_puts(out, t->enumerators[i].name);
			return;
		}
	if (t->is_signed)
		rut_buf_printf(out, "%" PRId64, n);
	else
		rut_buf_printf(out, "%" PRIu64, (uint64_t)n);
}

static void int_text(const struct rut_type *t, const void *v, struct rut_buf *out)
{
	int64_t n = rut_script_value_int(t, v);

	if (t->is_signed)
		rut_buf_printf(out, "%" PRId64, n);
	else
		rut_buf_printf(out, "%" PRIu64, (uint64_t)n);
}

static void string_text(const struct rut_script_style *s, const struct rut_type *t, const char *v,
			struct rut_buf *out)
{
	size_t len = strnlen(v, t->size);

	rut_buf_add(out, v, len);
	if (s->max_strlen && len >= s->max_strlen && s->trailer)
		rut_buf_puts(out, s->trailer);
}

static void frame_text(const struct rut_script_style *s, const struct rut_type *t,
		       const struct rut_script_usym_value *at, unsigned indent, struct rut_buf *out)
{
	const struct rut_script_names *names = s->names;
	bool user = t->kind == RUT_T_USTACK;

	if (t->stack_mode == RUT_STACK_RAW) {
		rut_buf_printf(out, "%" PRIx64 "\n", at->address);
		return;
	}
	if (t->stack_mode == RUT_STACK_PERF)
		rut_buf_printf(out, "\t%" PRIx64 " ", at->address);
	else
		rut_buf_printf(out, "%*s", (int)indent, "");
	if (user && names && names->usym)
		names->usym(names->symbols, at, true, out);
	else if (!user && names && names->ksym)
		names->ksym(names->symbols, at->address, true, out);
	else
		rut_buf_printf(out, "0x%" PRIx64, at->address);
	if (t->stack_mode == RUT_STACK_PERF && user) {
		rut_buf_puts(out, " (");
		if (names && names->module)
			names->module(names->symbols, at, out);
		else
			rut_buf_puts(out, "[unknown]");
		rut_buf_putc(out, ')');
	}
	rut_buf_putc(out, '\n');
}

static void stack_text(const struct rut_script_style *s, const struct rut_type *t, const void *v,
		       enum rut_script_place place, struct rut_buf *out)
{
	const struct rut_script_names *names = s->names;
	unsigned indent = place == RUT_SCRIPT_IN_KEY && s->compat == 17 ? 4 : 8;
	struct rut_script_stack_value stack;
	uint64_t ips[STACK_MAX];
	size_t n = 0;

	memcpy(&stack, v, sizeof(stack));
	rut_buf_putc(out, '\n');
	if (t->kind == RUT_T_RSTACK) {
		if (names && names->ruby_stack)
			names->ruby_stack(names->arg, t, &stack, indent, out);
		return;
	}
	if (names && names->stack)
		n = names->stack(names->arg, t, &stack, ips, STACK_MAX);
	if (t->stack_limit && n > t->stack_limit)
		n = t->stack_limit;
	for (size_t i = 0; i < n; i++)
		frame_text(s, t, &(struct rut_script_usym_value){ips[i], stack.tgid, UINT32_MAX},
			   indent, out);
}

static void time_text(const struct rut_script_style *s, const void *v, struct rut_buf *out)
{
	const struct rut_script_names *names = s->names;
	struct rut_script_time_value time;
	const char *format = NULL;
	uint64_t wall;

	memcpy(&time, v, sizeof(time));
	if (names && names->string)
		format = names->string(names->arg, time.format);
	wall = names && names->wall_ns ? names->wall_ns(names->symbols, time.clock, time.ns)
				       : time.ns;
	if (format)
		rut_script_time_text(format, wall, out);
}

static void inet_text(const void *v, struct rut_buf *out)
{
	struct rut_script_inet_value inet;
	char text[INET6_ADDRSTRLEN];

	memcpy(&inet, v, sizeof(inet));
	if ((inet.family == AF_INET || inet.family == AF_INET6) &&
	    inet_ntop((int)inet.family, inet.address, text, sizeof(text)))
		rut_buf_puts(out, text);
	else
		rut_buf_printf(out, "(unknown address family %u)", inet.family);
}

static void usym_text(const struct rut_script_style *s, const void *v, struct rut_buf *out)
{
	const struct rut_script_names *names = s->names;
	struct rut_script_usym_value usym;

	memcpy(&usym, v, sizeof(usym));
	if (names && names->usym)
		names->usym(names->symbols, &usym, false, out);
	else
		rut_buf_printf(out, "0x%" PRIx64, usym.address);
}

static void cgroup_text(const struct rut_script_style *s, const void *v, struct rut_buf *out)
{
	const struct rut_script_names *names = s->names;
	struct rut_script_cgroup_value c;
	const char *filter = NULL;

	memcpy(&c, v, sizeof(c));
	if (c.filter && names && names->string)
		filter = names->string(names->arg, (uint32_t)(c.filter - 1));
	if (names && names->cgroup_path)
		names->cgroup_path(names->symbols, c.id, filter, out);
	else
		rut_buf_printf(out, "%" PRIu64, c.id);
}

static void duration_text(const void *v, struct rut_buf *out)
{
	char text[RUT_TEXT_DURATION_SIZE];
	int64_t ns = (int64_t)load_u64(v);

	if (ns < 0)
		rut_buf_putc(out, '-');
	rut_buf_puts(out, rut_text_duration(text, ns < 0 ? -(uint64_t)ns : (uint64_t)ns));
}

/* What is a number in the program and a name for people. */
static void named_text(const struct rut_script_style *s, const struct rut_type *t, const void *v,
		       struct rut_buf *out)
{
	const struct rut_script_names *names = s->names;
	uint64_t n = load_u64(v);
	const char *text = NULL;

	if (t->kind == RUT_T_STRERROR) {
		text = n < 4096 ? strerror((int)n) : NULL;
	} else if (t->kind == RUT_T_SIGNAL_NAME) {
		text = n && n < 65 ? sigdescr_np((int)n) : n ? "N/A" : "Unknown signal 0";
	} else if (t->kind == RUT_T_PROBE) {
		text = names && names->probe ? names->probe(names->arg, n) : NULL;
	} else if (t->kind == RUT_T_RMETHOD || t->kind == RUT_T_RLINE) {
		if (n && names && names->ruby_frame)
			names->ruby_frame(names->arg, n, t->kind == RUT_T_RLINE, out);
		return;
	} else if (t->kind == RUT_T_RREQUEST) {
		if (n && names && names->ruby_request)
			names->ruby_request(names->arg, n, out);
		return;
	} else if (t->kind == RUT_T_RTHREAD) {
		if (n)
			rut_buf_printf(out, "#<Thread:0x%016" PRIx64 ">", n);
		return;
	} else if (t->kind == RUT_T_USERNAME && names && names->username) {
		names->username(names->symbols, n, out);
		return;
	} else if (t->kind == RUT_T_SYSCALL_NAME && names && names->syscall_name) {
		names->syscall_name(names->symbols, n, out);
		return;
	} else if (t->kind == RUT_T_KSYM) {
		if (names && names->ksym)
			names->ksym(names->symbols, n, false, out);
		else
			rut_buf_printf(out, "0x%" PRIx64, n);
		return;
	}
	if (text)
		rut_buf_puts(out, text);
	else
		rut_buf_printf(out, "%" PRIu64, n);
}

/* A bit field is shown as the number it is. */
static const void *field_value(const struct rut_type_field *f, const void *v, uint64_t *room)
{
	const char *at = (const char *)v + f->offset;
	int64_t n;

	if (!f->bits)
		return at;
	n = rut_script_value_int(f->type, at) >> f->bit_shift;
	if (f->bits < 64)
		n &= (int64_t)((1ull << f->bits) - 1);
	if (f->type->is_signed && f->bits < 64)
		n = (int64_t)((uint64_t)n << (64 - f->bits)) >> (64 - f->bits);
	*room = (uint64_t)n;
	return room;
}

static void fields_text(const struct rut_script_style *s, const struct rut_type *t, const void *v,
			enum rut_script_place place, struct rut_buf *out)
{
	bool tuple = t->kind == RUT_T_TUPLE;
	uint64_t room;

	rut_buf_puts(out, tuple ? "(" : "{ ");
	for (uint32_t i = 0; i < t->nfields; i++) {
		const struct rut_type_field *f = &t->fields[i];

		if (i)
			rut_buf_puts(out, ", ");
		if (!tuple)
			rut_buf_printf(out, ".%s = ", f->name ? f->name : "");
		rut_script_value_text(s, f->type, field_value(f, v, &room), place, out);
	}
	rut_buf_puts(out, tuple ? ")" : " }");
}

static void array_text(const struct rut_script_style *s, const struct rut_type *t, const char *v,
		       enum rut_script_place place, struct rut_buf *out)
{
	rut_buf_putc(out, '[');
	for (uint32_t i = 0; i < t->count; i++) {
		if (i)
			rut_buf_putc(out, ',');
		rut_script_value_text(s, t->elem, v + (size_t)i * t->elem->size, place, out);
	}
	rut_buf_putc(out, ']');
}

static void buf_text(const struct rut_type *t, const char *v, struct rut_buf *out)
{
	uint32_t len;

	memcpy(&len, v, sizeof(len));
	if (len > t->size - sizeof(len))
		len = t->size - (uint32_t)sizeof(len);
	rut_script_bytes_text((const uint8_t *)v + sizeof(len), len, 0, out);
}

/* What is printed by its name or in a notation of its own: symbols, times, addresses. */
static void named_value_text(const struct rut_script_style *s, const struct rut_type *t,
			     const void *v, struct rut_buf *out)
{
	const uint8_t *bytes = v;

	switch (t->kind) {
	case RUT_T_USYM:
		usym_text(s, v, out);
		break;
	case RUT_T_TIMESTAMP:
		time_text(s, v, out);
		break;
	case RUT_T_INET:
		inet_text(v, out);
		break;
	case RUT_T_MAC:
		rut_buf_printf(out, "%02X:%02X:%02X:%02X:%02X:%02X", bytes[0], bytes[1], bytes[2],
			       bytes[3], bytes[4], bytes[5]);
		break;
	case RUT_T_CGROUP_PATH:
		cgroup_text(s, v, out);
		break;
	case RUT_T_DURATION:
		duration_text(v, out);
		break;
	case RUT_T_KSYM:
	case RUT_T_USERNAME:
	case RUT_T_STRERROR:
	case RUT_T_SIGNAL_NAME:
	case RUT_T_SYSCALL_NAME:
	case RUT_T_PROBE:
	case RUT_T_RMETHOD:
	case RUT_T_RLINE:
	case RUT_T_RTHREAD:
	case RUT_T_RREQUEST:
		named_text(s, t, v, out);
		break;
	default:
		break;
	}
}

double rut_script_value_real(const struct rut_type *t, const void *v)
{
	double wide;
	float narrow;

	if (t->size == sizeof(wide)) {
		memcpy(&wide, v, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, v, sizeof(narrow));
	return (double)narrow;
}

/* As few digits as give the same number again. */
static void float_text(const struct rut_type *t, const void *v, struct rut_buf *out)
{
	double real = rut_script_value_real(t, v);
	int digits = t->size == 4 ? 6 : 15, most = t->size == 4 ? 9 : 17;
	char text[40];

	if (isnan(real)) {
		rut_buf_puts(out, "nan");
		return;
	}
	for (;; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, real);
		if (digits >= most ||
		    (t->size == 4 ? strtof(text, NULL) == (float)real : strtod(text, NULL) == real))
			break;
	}
	rut_buf_puts(out, text);
}

void rut_script_value_text(const struct rut_script_style *s, const struct rut_type *t,
			   const void *v, enum rut_script_place place, struct rut_buf *out)
{
	switch (t->kind) {
	case RUT_T_INT:
		int_text(t, v, out);
		break;
	case RUT_T_FLOAT:
		float_text(t, v, out);
		break;
	case RUT_T_BOOL:
		rut_buf_puts(out, rut_script_value_int(t, v) ? "true" : "false");
		break;
	case RUT_T_ENUM:
		enum_text(t, v, out);
		break;
	case RUT_T_POINTER:
		rut_buf_printf(out, "0x%" PRIx64, (uint64_t)rut_script_value_int(t, v));
		break;
	case RUT_T_STRING:
		string_text(s, t, v, out);
		break;
	case RUT_T_BUF:
		buf_text(t, v, out);
		break;
	case RUT_T_ARRAY:
		array_text(s, t, v, place, out);
		break;
	case RUT_T_TUPLE:
	case RUT_T_RECORD:
	case RUT_T_STRUCT:
		fields_text(s, t, v, place, out);
		break;
	case RUT_T_KSTACK:
	case RUT_T_USTACK:
	case RUT_T_RSTACK:
		stack_text(s, t, v, place, out);
		break;
	default:
		named_value_text(s, t, v, out);
		break;
	}
}

static void fields_json(const struct rut_script_style *s, const struct rut_type *t, const void *v,
			struct rut_buf *out)
{
	bool tuple = t->kind == RUT_T_TUPLE;
	uint64_t room;

	rut_buf_putc(out, tuple ? '[' : '{');
	for (uint32_t i = 0; i < t->nfields; i++) {
		const struct rut_type_field *f = &t->fields[i];

		if (i)
			rut_buf_puts(out, tuple ? "," : ", ");
		if (!tuple) {
			rut_script_json_string(out, f->name ? f->name : "",
					       f->name ? strlen(f->name) : 0);
			rut_buf_puts(out, ": ");
		}
		rut_script_value_json(s, f->type, field_value(f, v, &room), out);
	}
	rut_buf_putc(out, tuple ? ']' : '}');
}

void rut_script_value_json(const struct rut_script_style *s, const struct rut_type *t,
			   const void *v, struct rut_buf *out)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	const char *bytes = v;

	switch (t->kind) {
	case RUT_T_INT:
	case RUT_T_BOOL:
		rut_script_value_text(s, t, v, RUT_SCRIPT_IN_VALUE, out);
		break;
	case RUT_T_FLOAT: /* JSON has no words for the others */
		if (isfinite(rut_script_value_real(t, v)))
			float_text(t, v, out);
		else
			rut_buf_puts(out, "null");
		break;
	case RUT_T_ENUM: /* a number, which programs that read it have always got */
	case RUT_T_POINTER:
		int_text(t, v, out);
		break;
	case RUT_T_DURATION:
		rut_buf_printf(out, "%" PRId64, (int64_t)load_u64(v));
		break;
	case RUT_T_ARRAY:
		rut_buf_putc(out, '[');
		for (uint32_t i = 0; i < t->count; i++) {
			if (i)
				rut_buf_putc(out, ',');
			rut_script_value_json(s, t->elem, bytes + (size_t)i * t->elem->size, out);
		}
		rut_buf_putc(out, ']');
		break;
	case RUT_T_TUPLE:
	case RUT_T_RECORD:
	case RUT_T_STRUCT:
		fields_json(s, t, v, out);
		break;
	case RUT_T_NONE:
	case RUT_T_VOID:
		rut_buf_puts(out, "null");
		break;
	default:
		rut_script_value_text(s, t, v, RUT_SCRIPT_IN_VALUE, &text);
		rut_script_json_string(out, text.data ? text.data : "", text.len);
	}
}

static void add_key(const struct rut_script_style *s, const struct rut_type *t, const void *v,
		    const char *between, struct rut_buf *out)
{
	if (t->kind != RUT_T_TUPLE) {
		rut_script_value_text(s, t, v, RUT_SCRIPT_IN_KEY, out);
		return;
	}
	for (uint32_t i = 0; i < t->nfields; i++) {
		if (i)
			rut_buf_puts(out, between);
		rut_script_value_text(s, t->fields[i].type, (const char *)v + t->fields[i].offset,
				      RUT_SCRIPT_IN_KEY, out);
	}
}

void rut_script_key_text(const struct rut_script_style *s, const struct rut_type *t, const void *v,
			 struct rut_buf *out)
{
	add_key(s, t, v, ", ", out);
}

void rut_script_key_json(const struct rut_script_style *s, const struct rut_type *t, const void *v,
			 struct rut_buf *out)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;

	add_key(s, t, v, ",", &text);
	rut_script_json_string(out, text.data ? text.data : "", text.len);
}
