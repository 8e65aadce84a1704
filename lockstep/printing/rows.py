"""Tables as data: each row a mapping of plain values, as CSV in a file and as TSV for pipes.

They have every column and every row, whole names and bare numbers: what tables for people leave
out.
"""

import argparse
import csv
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compiler.files import write_text

Row = Mapping[str, Any]


def put_rows(args: argparse.Namespace, rows: Sequence[Row]) -> None:
    """Writes the rows where the options ask for it."""
    if args.csv:
        write_text(args.csv, _text(rows, ","))
    if args.tsv:
        sys.stdout.write(_text(rows, "\t"))


def _text(rows: Sequence[Row], delimiter: str) -> str:
    """The rows with their headings; a row leaves empty what it lacks."""
    headings = dict.fromkeys(name for row in rows for name in row)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(headings), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values of nested mappings, by their keys with points between them."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def layer_rows(figures: Mapping[str, Any]) -> list[Row]:
    """A row for each layer of a report."""
    return [dict(flat(layer)) for layer in figures["layers"]]


def point_rows(answer: Mapping[str, Any]) -> list[Row]:
    """A row for each machine of an exploration: its label, its fields that are varied, each
    objective with both ends of its interval, what the host has, and the figures of each network.
    """
    return [dict(_point(answer, point)) for point in answer["points"]]


def _point(answer: Mapping[str, Any], point: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from (("machine", point["label"]), ("hash", point["hash"]), ("front", point["front"]),
                ("effort", point["effort"]))
    for axis in answer["axes"]:
        yield axis["name"], point["choices"].get(axis["name"]) or _unvaried(answer, axis["name"])
    for one in answer["objectives"]:
        value, low, high, extrapolated = point["values"][one["name"]]
        name = one["title"]
        yield from ((name, value), (f"{name} low", low), (f"{name} high", high),
                    (f"{name} extrapolated", extrapolated))
    yield from ((name.replace("_", " "), point[name]) for name in ("host_layers", "host_share",
                                                                 "other_division"))
    for network, figures in point["networks"].items():
        yield from ((f"{network} {name}", value) for name, value in _single(figures))
    yield from ((f"bound by {bound}", share) for bound, share in point["bounds"].items())


def _unvaried(answer: Mapping[str, Any], name: str) -> str:
    """The option of a field that changes nothing in the base, where one of them does not."""
    alone = next((axis["options"] for axis in answer["sensitivity"] if axis["axis"] == name), ())
    same = (option["option"] for option in alone if option.get("point") == 0)
    return next(same, "without" if name.startswith("+") else "base")


def _single(figures: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The figures that are one number."""
    return ((name, value) for name, value in figures.items()
            if not isinstance(value, Mapping | list | tuple))


def diff_rows(figures: Mapping[str, Any], hardware: Sequence[tuple[str, Any, Any]]) -> list[Row]:
    """A row for each figure of two machines, `a` and `b`: of their hardware, and of each network
    the units and the layers.
    """
    cells = [("", "hardware", *row) for row in hardware]
    for network, sides in figures["networks"].items():
        cells += [(network, what, *row) for what, table in _network(sides)
                  for row in _paired(*table)]
    return [dict(zip(("network", "what", "name", "a", "b"), cell)) for cell in cells]


def _network(sides: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    yield "network", [dict(_single(side)) for side in sides]
    yield "host", [dict(_single(side["beside"])) for side in sides]
    for what, key in (("busy cycles", "busy"), ("joules", "joules")):
        yield what, [side[key] for side in sides]
    for what, place in (("cycles", 1), ("bytes", 2), ("bound by", 3)):
        yield f"layer: {what}", [{row[0]: row[place] for row in side["rows"]} for side in sides]


def _paired(here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    yield from ((name, here.get(name), there.get(name)) for name in {**here, **there})
