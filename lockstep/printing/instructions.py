"""Cells of tables: what each instruction did in networks, or why it did nothing."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lockstep.printing.lines import shortened
from runtime.instructions import spent

NAMED = 3               # layers in a cell

HEADINGS = ["instruction", "unit", "executed", "by which layers, or why by none"]
WORDS = ["instruction", "unit", "by which layers, or why by none"]


def instruction_cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Cells under `HEADINGS`, from the rows of `runtime.instructions.instruction_rows`."""
    return [[row["name"], row["unit"], f"{row['executed']:,}", _told(row)] for row in rows]


def _told(row: Mapping[str, Any]) -> str:
    if row["reason"]:
        return row["reason"] + spent(row)
    names = [shortened(name) for name in row["layers"]]
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def side_by_side(networks: Mapping[str, Sequence[Mapping[str, Any]]]
                 ) -> Iterator[list[str]]:
    """For each network and instruction what it did on each machine."""
    for network, sides in networks.items():
        here, there = ({row["name"]: row for row in side["instructions"]} for side in sides)
        for name in {**here, **there}:
            yield [network, name, *(_count(side[name]) if name in side else "absent"
                                    for side in (here, there))]


def _count(row: Mapping[str, Any]) -> str:
    return f"{row['executed']:,} times" if row["executed"] else row["reason"] + spent(row)


def own_instructions(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each instruction of one's own in an exploration: on how many `machines` it is, by how
    many some network has it `executed`, and if by not all of them, the first reason: a `row` of
    the first network, and the `label` of the machine.
    """
    found: dict[str, dict[str, Any]] = {}
    for point in answer["points"]:
        networks = [network["instructions"] for network in point["networks"].values()]
        for row in networks[0]:
            one = found.setdefault(row["name"], {"name": row["name"], "machines": 0, "executed": 0,
                                                 "row": None, "label": ""})
            ran = any(other["executed"] for rows in networks for other in rows
                      if other["name"] == row["name"])
            one["machines"] += 1
            one["executed"] += ran
            if not ran and one["row"] is None:
                one |= {"row": row, "label": point["label"]}
    return [*found.values()]


OWN_HEADINGS = ["instruction", "machines that have it", "where it is executed", "else why not"]


def own_cells(answer: Mapping[str, Any]) -> list[list[str]]:
    """Cells under `OWN_HEADINGS`."""
    return [[one["name"], f"{one['machines']:,}", f"{one['executed']:,}",
             f"{one['row']['reason']}{spent(one['row'])} ({one['label']})" if one["row"] else "-"]
            for one in own_instructions(answer)]
