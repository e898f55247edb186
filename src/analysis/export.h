/* SPDX-License-Identifier: MIT */
/*
 * Result tables for databases of metrics. Each number of a row is a value named by its class and
 * column; what else the row has (process, path, disk ...) labels it.
 */
#ifndef RUT_ANALYSIS_EXPORT_H
#define RUT_ANALYSIS_EXPORT_H

#include "analysis/lami.h"

enum rut_export_format {
	RUT_EXPORT_OPENMETRICS, /* gauges of the newest interval; the caller adds the last line */
	RUT_EXPORT_CLICKHOUSE,	/* JSONEachRow: a line a row of a table */
	RUT_EXPORT_OTLP,	/* an ExportMetricsServiceRequest as JSON: gauges */
};

/* Appends the tables of one analysis, whose name and this machine's are labels. */
void rut_an_export(enum rut_export_format format, const struct rut_results *r, const char *analysis,
		   const char *host, struct rut_buf *out);

#endif
