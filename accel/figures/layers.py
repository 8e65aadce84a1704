"""Rows of a report: what each layer of a program did in a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from accel.figures.attribution import activities, layer_ends
from accel.figures.bounds import group_cycles
from accel.figures.traffic import dram_bytes
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import STALLS, Run
from accel.machine.work import Work

__all__ = ["bound_of", "layer_rows"]

Activities = Mapping[str, Mapping[str, int]]
"""Unit to activity to cycles."""


def bound_of(row: Mapping[str, Any]) -> str:
    """The bound of a layer of `layer_rows` with activities.

    It is the unit that carries the layer, where that is busy for longer than it waits for anything;
    else what it waits for longest (one of `STALLS`); "" where no unit carries the layer.
    """
    carrier = row["carrier"]
    if not carrier or not row["busy"]:
        return ""
    waits = row["stalls"][carrier]
    longest = max(waits, key=waits.__getitem__)
    return longest if waits[longest] > row["busy"][carrier] else carrier


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def layer_rows(machine: Machine, program: AccelProgram, work: Sequence[Sequence[Work]],
               run: Run) -> list[dict[str, Any]]:
    """A row for each group of layers computed at the same time, and one for the rest."""
    moved = dram_bytes(machine, program)
    *intervals, rest = _intervals(program, run)
    rows, begin, before = [], 0, None
    for group, (name, end), interval in zip(work, program.layers, intervals, strict=True):
        again, before = group[0].node is before, group[0].node
        moves = sum(layer.input_bytes + layer.other_bytes for layer in group)
        moves -= group[0].input_bytes if again else 0       # another part of the node before
        ideal = max(sum(layer.products for layer in group), -(-moves // machine.config.bus_bytes))
        rows.append(_row(machine, name, " + ".join(layer.node.op for layer in group), *interval,
                         ideal_cycles=ideal, macs=sum(layer.macs for layer in group),
                         dram_bytes=int(moved[begin:end].sum()),
                         bound_cycles=group_cycles(machine, group),
                         bound_bytes=sum(layer.bound.dram_bytes for layer in group
                                         if layer.bound),
                         carrier=_carrier(machine, program.words[begin:end])))
        begin = end
    if run.retire.size:
        rows.append(_row(machine, "finish", "fetch", *rest, dram_bytes=program.words.size))
    return rows


def _intervals(program: AccelProgram, run: Run) -> list[tuple[int, Activities]]:
    """The length of each layer's interval and of the rest, and the units' activities there."""
    if not run.retire.size:             # values alone, or a board, which counts cycles only
        return [(0, {})] * (len(program.layers) + 1)
    ends = [*layer_ends(program, run), run.cycles]
    did = activities(run.timeline, ends) if run.timeline else [{}] * len(ends)
    return list(zip(np.diff(ends, prepend=0).tolist(), did, strict=True))


def _row(machine: Machine, name: str, op: str, cycles: int, did: Activities, *,
         ideal_cycles: int = 0, macs: int = 0, dram_bytes: int = 0, bound_cycles: int = 0,
         bound_bytes: int = 0, carrier: str = "") -> dict[str, Any]:
    return {
        "name": name, "op": op, "cycles": cycles, "ideal_cycles": ideal_cycles, "macs": macs,
        "utilization": _ratio(macs, cycles * machine.config.macs_per_cycle),
        "dram_bytes": dram_bytes, "bound_cycles": bound_cycles, "bound_bytes": bound_bytes,
        "carrier": carrier,
        "busy": {unit: activity["busy"] for unit, activity in did.items()},
        "stalls": {unit: {cause: activity[cause] for cause in STALLS}
                   for unit, activity in did.items()}}


def _carrier(machine: Machine, words: np.ndarray) -> str:
    """The unit that explains the time of a layer: the first of these that it needs."""
    needed = {machine.units[opcode] for opcode in set(words[:, 0].tolist())}
    return next((unit for unit in ("gemm", "vector", "load", "store") if unit in needed), "")
