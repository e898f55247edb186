#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks results against what LAMI 1.0 specifies.

    lami.py META RESULTS [--report]

META is what --metadata prints; with --report it is a directory of these, and RESULTS is what report --mi
prints, with the results of several analyses by their titles. Prints how many tables and rows there were.
"""

import json
import os
import sys

NUMBER, TEXT = (int, float), (str,)
# Class of a cell: its members and their types. None: may be missing.
CELLS = {
    "number": {"value": NUMBER}, "ratio": {"value": NUMBER}, "string": {"value": TEXT}, "bool": {"value": (bool,)},
    "timestamp": {"value": (int,)}, "duration": {"value": NUMBER}, "size": {"value": (int,)}, "unknown": {},
    "time-range": {"begin": (dict,), "end": (dict,)}, "syscall": {"name": TEXT},
    "process": {"name": (str, None), "pid": (int, None), "tid": (int, None)}, "path": {"path": TEXT},
    "fd": {"fd": (int,)}, "irq": {"hard": (bool,), "nr": (int,), "name": (str, None)}, "cpu": {"id": (int,)},
    "disk": {"name": TEXT}, "part": {"name": TEXT}, "netif": {"name": TEXT},
}
# What a column's class may hold besides cells of its own name.
COLUMNS = {"int": {"number"}, "float": {"number"}, "mixed": set(CELLS)}
UNCERTAIN = {"number", "ratio", "timestamp", "duration", "size"}


def is_a(value, types):
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, tuple(t for t in types if t))


def check_cell(cell, column, where):
    if cell is None:
        return
    if not isinstance(cell, dict):
        assert isinstance(cell, (bool, int, float, str)), where
        return
    kind = cell["class"]
    assert kind in CELLS, where
    if column is not None and kind != "unknown":
        assert kind in COLUMNS.get(column, {column}), where
    members = CELLS[kind]
    extra = {"low", "high"} if kind in UNCERTAIN else set()
    assert set(cell) <= set(members) | {"class"} | extra, where
    for name, types in members.items():
        if name in cell and cell[name] is not None:
            assert is_a(cell[name], types), (name, where)
        elif name not in cell:
            assert None in types, (name, where)
    assert kind != "process" or "pid" in cell or "tid" in cell or cell.get("name"), where
    if kind == "time-range":
        for end in "begin", "end":
            check_cell(cell[end], "timestamp", where)
        assert cell["begin"]["value"] <= cell["end"]["value"], where


def check_metadata(meta):
    assert meta["mi-version"] == {"major": 1, "minor": 0}, meta["mi-version"]
    assert {"major", "minor", "patch"} <= set(meta["version"]), meta["version"]
    assert isinstance(meta["title"], str) and meta["title"]
    for key, kind in ("description", str), ("url", str):
        assert isinstance(meta.get(key, ""), kind), key
    for key in "authors", "tags":
        assert all(isinstance(x, str) for x in meta.get(key, [])), key
    assert meta["table-classes"]
    for name, cls in meta["table-classes"].items():
        check_class(meta["table-classes"], cls, name)


def check_class(declared, cls, where):
    """Checks a class and returns its columns."""
    if isinstance(cls, str):
        assert cls in declared, f"{cls} is not declared"
        return check_class(declared, declared[cls], cls)
    assert set(cls) <= {"title", "column-descriptions", "inherit"}, (where, cls)
    assert isinstance(cls.get("title", ""), str), where
    if "column-descriptions" not in cls:
        return check_class(declared, cls["inherit"], where)
    assert "inherit" not in cls or cls["inherit"] in declared, where
    for column in cls["column-descriptions"]:
        assert set(column) <= {"title", "class", "unit"} and isinstance(column["title"], str), (where, column)
        assert column.get("class", "mixed") in set(CELLS) | set(COLUMNS), (where, column)
    return cls["column-descriptions"]


def check_results(meta, out):
    rows = 0
    check_metadata(meta)
    assert set(out) == {"results"}, list(out)
    for table in out["results"]:
        assert set(table) == {"class", "time-range", "data"}, list(table)
        columns = check_class(meta["table-classes"], table["class"], meta["title"])
        check_cell(table["time-range"], "time-range", table["class"])
        for row in table["data"]:
            assert len(row) == len(columns), (table["class"], row)
            for cell, column in zip(row, columns):
                check_cell(cell, column.get("class", "mixed"), (table["class"], column, cell))
        rows += len(table["data"])
    return len(out["results"]), rows


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def main():
    meta, out = sys.argv[1], load(sys.argv[2])
    if sys.argv[3:] != ["--report"]:
        print(*check_results(load(meta), out))
        return
    by_title = {m["title"]: m for m in (load(os.path.join(meta, n)) for n in os.listdir(meta))}
    for title, results in out["reports"].items():
        print(title, *check_results(by_title[title], results))


main()
