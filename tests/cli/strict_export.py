#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the files openmetrics, otlp and clickhouse as strictly as their receivers do: OpenMetrics by Prometheus's own parser, OTLP by the
fields of its messages (opentelemetry-proto, JSON), ClickHouse's JSONEachRow by its columns. All three have as many values.

    strict_export.py ANALYSIS HOST"""
import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

analysis, host = sys.argv[1:]


def keys(value, required, optional=()):
    """An object with these fields and no other."""
    assert isinstance(value, dict) and set(required) <= set(value) <= set(required) | set(optional), value
    return value


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def openmetrics():
    # A document for each report; each ends with its own mark.
    samples = 0
    for document in open("openmetrics").read().split("# EOF\n"):
        for family in text_string_to_metric_families(document + "# EOF\n") if document else ():
            assert family.type == "gauge", family
            for sample in family.samples:
                assert sample.labels["host"] == host and sample.timestamp is not None, sample
                samples += 1
    return samples


def attribute(value):
    keys(value, ["key", "value"])
    kinds = {"stringValue": str, "intValue": str, "doubleValue": (int, float), "boolValue": bool}
    ((kind, content),) = keys(value["value"], [], kinds).items()
    assert isinstance(value["key"], str) and value["key"] and isinstance(content, kinds[kind]), value
    return value["key"], content


def otlp_points(metric, seen):
    """Adds its points, which no metric of the scope may have twice: of one name, with the same labels and time."""
    before = len(seen)
    for point in keys(metric["gauge"], ["dataPoints"])["dataPoints"]:
        keys(point, ["attributes", "timeUnixNano", "asDouble"], ["startTimeUnixNano"])
        # 64-bit numbers are strings in proto3's JSON.
        end, begin = point["timeUnixNano"], point.get("startTimeUnixNano", "0")
        assert isinstance(end, str) and isinstance(begin, str) and 0 <= int(begin) <= int(end) < 2**64, point
        assert number(point["asDouble"]), point
        labels = [attribute(a) for a in point["attributes"]]
        assert len({k for k, _ in labels}) == len(labels), labels
        series = (metric["name"], tuple(sorted(labels)), end)
        assert series not in seen, series
        seen.add(series)
    return len(seen) - before


def otlp():
    points = 0
    for line in open("otlp"):
        for resource in keys(json.loads(line), ["resourceMetrics"])["resourceMetrics"]:
            keys(resource, ["resource", "scopeMetrics"], ["schemaUrl"])
            assert [attribute(a) for a in keys(resource["resource"], ["attributes"])["attributes"]] == [("host.name", host)]
            for scope in resource["scopeMetrics"]:
                keys(scope, ["scope", "metrics"], ["schemaUrl"])
                keys(scope["scope"], ["name"], ["version", "attributes"])
                # One name has one unit; its points may be in several messages.
                identities = {(m["name"], m["unit"]) for m in scope["metrics"]}
                assert all(name for name, _ in identities) and len({name for name, _ in identities}) == len(identities)
                seen = set()
                for metric in scope["metrics"]:
                    keys(metric, ["name", "unit", "gauge"], ["description"])
                    assert isinstance(metric["unit"], str)
                    points += otlp_points(metric, seen)
    return points


def clickhouse():
    values = 0
    for line in open("clickhouse"):
        row = json.loads(line)
        assert isinstance(row["begin_ns"], int) and isinstance(row["end_ns"], int), row
        assert 0 < row["begin_ns"] < row["end_ns"] < 2**63, row
        assert row["host"] == host and row["analysis"] == analysis, row
        assert all(number(v) for v in row["values"].values()), row
        values += len(row["values"])
    return values


counts = openmetrics(), otlp(), clickhouse()
print(analysis, *counts)
assert counts[0] == counts[1] == counts[2] > 0, counts
