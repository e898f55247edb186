/* SPDX-License-Identifier: MIT */
#include "analysis/requests_json.h"

#include "analysis/explain.h"

static void put_str(struct rut_buf *out, const char *name, const char *value)
{
	rut_buf_printf(out, ", \"%s\": ", name);
	rut_an_json_str(out, value ? value : "");
}

static void put_int(struct rut_buf *out, const char *name, int64_t value)
{
	rut_buf_printf(out, ", \"%s\": %lld", name, (long long)value);
}

void rut_an_requests_json_parts(struct rut_buf *out, const char *name, const int64_t *ns)
{
	const char *comma = "";

	rut_buf_printf(out, ", \"%s\": {", name);
	for (int p = 0; p < RUT_PLACES; p++) {
		if (!ns[p])
			continue;
		rut_buf_printf(out, "%s\"%s\": %lld", comma, rut_an_place_name((enum rut_place)p),
			       (long long)ns[p]);
		comma = ", ";
	}
	rut_buf_puts(out, "}");
}

void rut_an_requests_json_layers(struct rut_buf *out, const struct rut_request_layer *layers,
				 size_t n)
{
	rut_buf_puts(out, ", \"layers\": [");
	for (size_t i = 0; i < n; i++) {
		rut_buf_puts(out, i ? ", {\"layer\": " : "{\"layer\": ");
		rut_an_json_str(out, layers[i].named_by ? layers[i].named_by->name
				     : *layers[i].name	? layers[i].name
							: "application");
		put_int(out, "spans", (int64_t)layers[i].spans);
		put_int(out, "ruby_ns", layers[i].ruby_ns);
		put_int(out, "total_ns", layers[i].total_ns);
		rut_buf_puts(out, "}");
	}
	rut_buf_puts(out, "]");
}

static void put_culprits(struct rut_buf *out, const struct rut_an_node *n)
{
	rut_buf_puts(out, ", \"for\": [");
	for (uint32_t i = 0; i < n->n_who; i++) {
		const struct rut_culprit *c = &n->who[i];

		rut_buf_puts(out, i ? ", {\"name\": " : "{\"name\": ");
		rut_an_json_str(out, c->name);
		put_int(out, "tid", c->tid);
		put_int(out, "ns", c->ns);
		if (*c->serves)
			put_str(out, "in", c->serves);
		if (c->bytes)
			put_int(out, "bytes", c->bytes);
		rut_an_requests_json_parts(out, "meanwhile", c->did);
		if (*c->by_name)
			put_str(out, "woken_by", c->by_name);
		rut_buf_puts(out, "}");
	}
	rut_buf_puts(out, "]");
}

static void put_node(struct rut_buf *out, const struct rut_explanation *x, uint32_t at)
{
	static const char *const kinds[] = {"call", "span", "syscall", "wait"};
	const struct rut_an_node *n = &x->nodes[at];
	const char *comma = "";

	rut_buf_printf(out, "{\"kind\": \"%s\"", at ? kinds[n->kind] : "request");
	if (n->kind == RUT_NODE_PLACE || n->kind == RUT_NODE_SYSCALL)
		put_str(out, "place", rut_an_place_name((enum rut_place)n->place));
	if (n->name)
		put_str(out, "name", n->name);
	if (n->what)
		put_str(out, n->kind == RUT_NODE_SPAN ? "layer" : "object", n->what);
	if (n->text)
		put_str(out, "detail", n->text);
	if (n->caller)
		put_str(out, "caller", n->caller->name);
	put_int(out, "count", (int64_t)n->calls);
	put_int(out, "ns", n->total_ns);
	put_int(out, "longest_ns", n->longest_ns);
	if (n->resends)
		put_int(out, "retransmissions", (int64_t)n->resends);
	rut_an_requests_json_parts(out, "parts", n->own);
	if (n->n_who)
		put_culprits(out, n);
	if (n->first_child != RUT_NO_NODE)
		rut_buf_puts(out, ", \"children\": [");
	for (uint32_t c = n->first_child; c != RUT_NO_NODE; c = x->nodes[c].next) {
		rut_buf_puts(out, comma);
		put_node(out, x, c);
		comma = ", ";
	}
	rut_buf_puts(out, n->first_child != RUT_NO_NODE ? "]}" : "}");
}

void rut_an_requests_json_request(struct rut_buf *out, const struct rut_request *r)
{
	const struct rut_explanation *x = r->explained;
	char name[320];

	rut_an_request_name(r, name, sizeof(name));
	rut_buf_puts(out, "{\"type\": \"request\"");
	put_str(out, "route", name);
	put_str(out, "kind", r->kind);
	put_str(out, "verb", r->verb);
	put_str(out, "path", r->path);
	put_str(out, "process", r->comm);
	put_int(out, "pid", r->pid);
	put_int(out, "tid", r->tid);
	put_int(out, "begin_ns", r->begin_ns);
	put_int(out, "duration_ns", r->end_ns - r->begin_ns);
	put_int(out, "status", r->status);
	put_str(out, "error", r->error);
	rut_buf_printf(out, ", \"running\": %s", r->running ? "true" : "false");
	put_str(out, "traceparent", r->trace);
	put_str(out, "request_id", r->request_id);
	rut_an_requests_json_parts(out, "parts", r->ns);
	rut_an_requests_json_layers(out, r->layers, r->n_layers);
	if (x) {
		put_str(out, "cause", x->cause);
		put_str(out, "explanation", x->sentence);
		rut_buf_puts(out, ", \"tree\": ");
		put_node(out, x, 0);
	}
	rut_buf_puts(out, "}\n");
}
