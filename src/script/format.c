/* SPDX-License-Identifier: MIT */
#include "script/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "script/gfp.h"
#include "script/hist.h"
#include "script/value.h"

#define WIDTH_MAX 4096

/* A piece of text, or a conversion. */
struct piece {
	size_t at, len;	 /* in the format's text */
	char conversion; /* 0: text; 'r' of %r, 'R' of %rx, 'H' of %rh, 'G' of %gr */
	bool minus, plus, space, alternate, zero;
	unsigned width;
	int precision;	/* -1: none */
	unsigned bytes; /* of the number: 1, 2, 4, 8 */
};

struct rut_script_format {
	char *text;		     /* owned */
	const struct rut_type *args; /* borrowed */
	struct piece *pieces;	     /* owned */
	size_t count, conversions;
};

void rut_script_format_free(struct rut_script_format *f)
{
	if (!f)
		return;
	free(f->text);
	free(f->pieces);
	free(f);
}

RUT_DEFINE_CLEANUP(struct rut_script_format *, rut_script_format_free);

static bool set_flag(struct piece *p, char c)
{
	switch (c) {
	case '-':
		return p->minus = true;
	case '+':
		return p->plus = true;
	case ' ':
		return p->space = true;
	case '#':
		return p->alternate = true;
	case '0':
		return p->zero = true;
	default:
		return false;
	}
}

static unsigned parse_number(const char **s)
{
	unsigned n = 0;

	for (; **s >= '0' && **s <= '9'; (*s)++)
		if (n <= WIDTH_MAX)
			n = n * 10 + (unsigned)(**s - '0');
	return n > WIDTH_MAX ? WIDTH_MAX : n;
}

static unsigned parse_length(const char **s)
{
	static const struct {
		char text[3];
		unsigned bytes;
	} lengths[] = {{"hh", 1}, {"h", 2}, {"ll", 8}, {"l", 8}, {"j", 8}, {"z", 8}, {"t", 8}};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t n = strlen(lengths[i].text);

		if (!strncmp(*s, lengths[i].text, n)) {
			*s += n;
			return lengths[i].bytes;
		}
	}
	return 4;
}

/* The conversion behind a '%' at *s; false: it is none, and nothing was taken. */
static bool parse_conversion(const char **s, struct piece *p)
{
	const char *at = *s + 1;

	*p = (struct piece){.precision = -1};
	while (set_flag(p, *at))
		at++;
	p->width = parse_number(&at);
	if (*at == '.') {
		at++;
		p->precision = (int)parse_number(&at);
	}
	p->bytes = parse_length(&at);
	if (!*at || !strchr("diuxXocpsrgfe", *at))
		return false;
	p->conversion = *at++;
	if (p->conversion == 'r' && (*at == 'x' || *at == 'h'))
		p->conversion = *at++ == 'x' ? 'R' : 'H';
	else if (p->conversion == 'g' && *at == 'r') {
		p->conversion = 'G';
		at++;
	}
	*s = at;
	return true;
}

bool rut_script_format_wants_real(const char *format, size_t arg)
{
	struct piece p;

	for (const char *s = format; *s;) {
		if (*s != '%' || s[1] == '%') {
			s += *s == '%' ? 2 : 1;
			continue;
		}
		if (!parse_conversion(&s, &p))
			return false;
		if (!arg--)
			return p.conversion == 'f' || p.conversion == 'e' || p.conversion == 'g';
	}
	return false;
}

static int add_piece(struct rut_script_format *f, const struct piece *p)
{
	struct piece *last = f->count ? &f->pieces[f->count - 1] : NULL;
	struct piece *more;

	if (!p->conversion && !p->len)
		return 0;
	if (!p->conversion && last && !last->conversion && last->at + last->len == p->at) {
		last->len += p->len;
		return 0;
	}
	if (!(f->count & (f->count - 1))) {
		size_t cap = f->count ? f->count * 2 : 1;

		more = reallocarray(f->pieces, cap, sizeof(*more));
		if (!more)
			return -ENOMEM;
		f->pieces = more;
	}
	f->pieces[f->count++] = *p;
	return 0;
}

static int split(struct rut_script_format *f)
{
	const char *s = f->text;
	struct piece p;
	int rc = 0;

	while (*s && !rc) {
		const char *begin = s;
		size_t percents = strspn(s, "%");

		if (*s == '%' && parse_conversion(&s, &p)) {
			p.at = (size_t)(begin - f->text);
			p.len = (size_t)(s - begin);
			f->conversions++;
		} else {
			/* "%%" is one '%', and one that begins no conversion is itself. */
			s += percents ? 1 : strcspn(s, "%");
			p = (struct piece){.at = (size_t)(begin - f->text),
					   .len = (size_t)(s - begin)};
			if (percents > 1)
				s++;
			else if (percents && s[strspn(s, "-+ #0123456789.")] == '%')
				s += strspn(s, "-+ #0123456789.") + 1;
		}
		rc = add_piece(f, &p);
	}
	return rc;
}

static bool is_number(const struct rut_type *t)
{
	switch (t->kind) {
	case RUT_T_INT:
	case RUT_T_BOOL:
	case RUT_T_ENUM:
	case RUT_T_POINTER:
	case RUT_T_COUNT:
	case RUT_T_SUM:
	case RUT_T_MIN:
	case RUT_T_MAX:
	case RUT_T_AVG:
	case RUT_T_STATS:
	case RUT_T_KSYM:
	case RUT_T_USYM:
	case RUT_T_DURATION:
	case RUT_T_USERNAME:
	case RUT_T_STRERROR:
	case RUT_T_SIGNAL_NAME:
	case RUT_T_SYSCALL_NAME:
	case RUT_T_PROBE:
		return true;
	default:
		return false;
	}
}

static const char *what(const struct rut_type *t)
{
	if (is_number(t))
		return "a number";
	switch (t->kind) {
	case RUT_T_FLOAT:
		return "a number with decimals: %f, %e or %g does, and (int64) makes an integer";
	case RUT_T_STRING:
		return "a string";
	case RUT_T_BUF:
		return "a buffer";
	case RUT_T_TUPLE:
		return "a tuple";
	case RUT_T_RECORD:
	case RUT_T_STRUCT:
		return "a record";
	case RUT_T_ARRAY:
		return "an array";
	case RUT_T_KSTACK:
	case RUT_T_USTACK:
	case RUT_T_RSTACK:
		return "a stack";
	case RUT_T_HIST:
	case RUT_T_LHIST:
	case RUT_T_TSERIES:
		return "a histogram";
	default:
		return "a value of this type";
	}
}

static int check(const struct rut_script_format *f, const struct piece *p, const struct rut_type *t,
		 struct rut_err *err)
{
	bool fits;

	if (p->conversion == 's')
		fits = !rut_type_is_agg(t) || is_number(t);
	else if (strchr("rRH", p->conversion))
		fits = t->kind == RUT_T_BUF || t->kind == RUT_T_STRING || t->kind == RUT_T_MAC ||
		       (t->kind == RUT_T_ARRAY && t->elem->kind == RUT_T_INT);
	else
		fits = is_number(t) || (t->kind == RUT_T_FLOAT && strchr("feg", p->conversion));
	if (fits)
		return 0;
	return rut_err_set(err, EINVAL, "'%.*s' does not take %s", (int)p->len, f->text + p->at,
			   what(t));
}

int rut_script_format_parse(struct rut_script_format **ret, const char *text,
			    const struct rut_type *args, size_t *ret_at, struct rut_err *err)
{
	_cleanup_(rut_script_format_freep)
	struct rut_script_format *f = calloc(1, sizeof(*f));
	size_t given = args ? args->nfields : 0;
	size_t arg = 0;

	if (ret_at)
		*ret_at = 0;
	if (!f || !(f->text = strdup(text)) || split(f))
		return rut_err_set(err, ENOMEM, "out of memory");
	f->args = args;
	if (f->conversions != given)
		return rut_err_set(
			err, EINVAL, "%s arguments for the format (%zu given, %zu expected)",
			given < f->conversions ? "not enough" : "too many", given, f->conversions);
	for (size_t i = 0; i < f->count; i++) {
		int rc = f->pieces[i].conversion
				 ? check(f, &f->pieces[i], args->fields[arg++].type, err)
				 : 0;

		if (rc && ret_at)
			*ret_at = f->pieces[i].at;
		if (rc)
			return rc;
	}
	*ret = RUT_TAKE(f);
	return 0;
}

static bool is_word(char c)
{
	return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9');
}

/* The word that ends with '=' at the end of a piece of text; a quote may follow: name='%s'. */
static struct rut_script_format_name name_before(const char *text, const struct piece *p)
{
	size_t end = p->at + p->len, at;

	if (end > p->at && (text[end - 1] == '"' || text[end - 1] == '\''))
		end--;
	if (end == p->at || text[end - 1] != '=')
		return (struct rut_script_format_name){0};
	at = --end;
	while (at > p->at && is_word(text[at - 1]))
		at--;
	/* What begins with a digit is a number, not a name. */
	if (at < end && text[at] >= '0' && text[at] <= '9')
		at = end;
	return (struct rut_script_format_name){.len = end - at, .at = at};
}

size_t rut_script_format_names(const struct rut_script_format *f,
			       struct rut_script_format_name *ret, size_t max, size_t *ret_title)
{
	size_t named = 0, arg = 0;

	for (size_t i = 0; i < f->count && arg < max; i++) {
		if (!f->pieces[i].conversion)
			continue;
		ret[arg] = i && !f->pieces[i - 1].conversion
				   ? name_before(f->text, &f->pieces[i - 1])
				   : (struct rut_script_format_name){0};
		if (ret[arg].len && !named++ && ret_title)
			*ret_title = arg ? 0 : ret[arg].at;
		arg++;
	}
	return named;
}

/* Text padded to the width. */
static void add_padded(const struct piece *p, const char *text, size_t len, struct rut_buf *out)
{
	size_t pad = p->width > len ? p->width - len : 0;

	if (!p->minus)
		rut_buf_printf(out, "%*s", (int)pad, "");
	rut_buf_add(out, text, len);
	if (p->minus)
		rut_buf_printf(out, "%*s", (int)pad, "");
}

static int64_t cut(int64_t v, unsigned bytes, bool is_signed)
{
	unsigned drop = 64 - 8 * bytes;

	return is_signed ? (int64_t)((uint64_t)v << drop) >> drop
			 : (int64_t)((uint64_t)v << drop >> drop);
}

/* "%d" with all that stands in it: sign or prefix, zeros to the precision or width, digits. */
static void add_number(const struct piece *p, int64_t v, struct rut_buf *out)
{
	bool is_signed = p->conversion == 'd' || p->conversion == 'i';
	unsigned bytes = p->conversion == 'p' ? 8 : p->bytes;
	const char *prefix = "";
	char digits[32], text[2 * WIDTH_MAX + 64];
	size_t zeros = 0, n, used;

	v = cut(v, bytes, is_signed);
	if (is_signed)
		prefix = v < 0 ? "-" : p->plus ? "+" : p->space ? " " : "";
	else if ((p->conversion == 'p' || (p->alternate && p->conversion == 'x')) && v)
		prefix = "0x";
	else if (p->alternate && p->conversion == 'X' && v)
		prefix = "0X";
	n = (size_t)snprintf(digits, sizeof(digits),
			     p->conversion == 'o'		 ? "%" PRIo64
			     : p->conversion == 'X'		 ? "%" PRIX64
			     : is_signed || p->conversion == 'u' ? "%" PRIu64
								 : "%" PRIx64,
			     is_signed && v < 0 ? -(uint64_t)v : (uint64_t)v);
	if (p->precision >= 0 && (size_t)p->precision > n)
		zeros = (size_t)p->precision - n;
	else if (p->precision < 0 && p->zero && !p->minus && p->width > n + strlen(prefix))
		zeros = p->width - n - strlen(prefix);
	if (p->alternate && p->conversion == 'o' && !zeros && digits[0] != '0')
		zeros = 1;
	used = (size_t)snprintf(text, sizeof(text), "%s", prefix);
	memset(text + used, '0', zeros);
	memcpy(text + used + zeros, digits, n);
	add_padded(p, text, used + zeros + n, out);
}

static int64_t number_of(const struct rut_type *t, const void *v)
{
	uint64_t word[2] = {0};
	uint32_t small;

	switch (t->kind) {
	case RUT_T_AVG:
	case RUT_T_STATS:
		memcpy(word, v, sizeof(word));
		return rut_script_average(t, word);
	case RUT_T_INT:
	case RUT_T_BOOL:
	case RUT_T_ENUM:
	case RUT_T_POINTER:
		return rut_script_value_int(t, v);
	default:
		if (t->size == sizeof(small)) {
			memcpy(&small, v, sizeof(small));
			return small;
		}
		memcpy(word, v, sizeof(word[0]));
		return (int64_t)word[0];
	}
}

static double real_of(const struct rut_type *t, const void *v)
{
	int64_t word[2];
	double sum;

	if (t->kind == RUT_T_FLOAT)
		return rut_script_value_real(t, v);
	if (t->kind == RUT_T_AVG || t->kind == RUT_T_STATS) {
		memcpy(word, v, sizeof(word));
		sum = t->is_signed ? (double)word[0] : (double)(uint64_t)word[0];
		return word[1] ? sum / (double)word[1] : 0;
	}
	word[0] = number_of(t, v);
	return t->is_signed || t->kind == RUT_T_DURATION ? (double)word[0]
							 : (double)(uint64_t)word[0];
}

static void add_real(const struct piece *p, double v, struct rut_buf *out)
{
	char sign = v < 0 ? '-' : p->plus ? '+' : p->space ? ' ' : 0;
	char text[WIDTH_MAX + 512], digits[WIDTH_MAX + 400];
	int precision = p->precision < 0 ? 6 : p->precision > 100 ? 100 : p->precision;
	size_t n, zeros = 0, used = 0;

	if (v < 0)
		v = -v;
	n = (size_t)snprintf(digits, sizeof(digits),
			     p->conversion == 'f'   ? "%.*f"
			     : p->conversion == 'e' ? "%.*e"
						    : "%.*g",
			     precision, v);
	if (p->zero && !p->minus && p->width > n + (sign != 0))
		zeros = p->width - n - (sign != 0);
	if (sign)
		text[used++] = sign;
	memset(text + used, '0', zeros);
	memcpy(text + used + zeros, digits, n);
	add_padded(p, text, used + zeros + n, out);
}

static void add_bytes(const struct piece *p, const struct rut_type *t, const uint8_t *v,
		      struct rut_buf *out)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	uint32_t len = t->size;

	if (t->kind == RUT_T_BUF) {
		memcpy(&len, v, sizeof(len));
		v += sizeof(len);
		if (len > t->size - sizeof(len))
			len = t->size - (uint32_t)sizeof(len);
	} else if (t->kind == RUT_T_STRING) {
		len = (uint32_t)strnlen((const char *)v, t->size);
	}
	rut_script_bytes_text(v, len,
			      p->conversion == 'R'   ? 'x'
			      : p->conversion == 'H' ? 'h'
						     : 0,
			      &text);
	add_padded(p, text.data ? text.data : "", text.len, out);
}

static void add_value(const struct piece *p, const struct rut_script_style *s,
		      const struct rut_type *t, const void *v, struct rut_buf *out)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	size_t len;

	if (rut_type_is_agg(t))
		rut_buf_printf(&text, t->is_signed ? "%" PRId64 : "%" PRIu64, number_of(t, v));
	else
		rut_script_value_text(s, t, v, RUT_SCRIPT_IN_PRINTF, &text);
	len = text.len;
	if (p->precision >= 0 && len > (size_t)p->precision)
		len = (size_t)p->precision;
	add_padded(p, text.data ? text.data : "", len, out);
}

static void add_conversion(const struct piece *p, const struct rut_script_style *s,
			   const struct rut_type *t, const void *v, struct rut_buf *out)
{
	_cleanup_buf_ struct rut_buf text = RUT_BUF_INIT;
	char c;

	switch (p->conversion) {
	case 's':
		add_value(p, s, t, v, out);
		break;
	case 'c':
		c = (char)number_of(t, v);
		add_padded(p, &c, 1, out);
		break;
	case 'r':
	case 'R':
	case 'H':
		add_bytes(p, t, v, out);
		break;
	case 'G':
		rut_script_gfp_text((uint64_t)number_of(t, v), &text);
		add_padded(p, text.data ? text.data : "", text.len, out);
		break;
	case 'f':
	case 'e':
	case 'g':
		add_real(p, real_of(t, v), out);
		break;
	default:
		add_number(p, number_of(t, v), out);
	}
}

void rut_script_format_text(const struct rut_script_format *f, const struct rut_script_style *s,
			    const void *data, struct rut_buf *out)
{
	size_t arg = 0;

	for (size_t i = 0; i < f->count; i++) {
		const struct piece *p = &f->pieces[i];
		const struct rut_type_field *field;

		if (!p->conversion) {
			rut_buf_add(out, f->text + p->at, p->len);
			continue;
		}
		field = &f->args->fields[arg++];
		add_conversion(p, s, field->type, (const char *)data + field->offset, out);
	}
}
