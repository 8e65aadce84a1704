"""Rows of a report: what each layer of a program did in a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from accel.figures.attribution import activities, layer_ends
from accel.figures.bounds import group_cycles
from accel.figures.traffic import dram_bytes
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from accel.machine.structure import UnitKind
from accel.figures.work import Work

Activities = Mapping[str, Mapping[str, int]]
"""Unit to activity to cycles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """The figures of a layer, or of layers computed at the same time, in a run.

    `plain` is the row as reports have it in JSON: its keys are the fields.

    Parameters
    ----------
    name, op : of the layer; of several those of the first node, and all operators.
    cycles : the interval of the layer. ideal_cycles, bound_cycles : the least by work and bytes,
        and whatever the tiling; 0 where they are not known.
    macs : useful products; utilization : their share of what the array could do. array_bound : the
        most that it may be, as blocks are padded; 0 where there are no products.
    dram_bytes : that load and store move; bound_bytes : the least, whatever the tiling.
    carrier : the unit that explains the time; "" where there is none.
    busy, stalls : cycles of each unit, of stalls for each cause; empty without a timeline.
    moved : bytes of each unit that moves some, where they are counted; not in `plain`.
    """

    name: str
    op: str
    cycles: int = 0
    ideal_cycles: int = 0
    macs: int = 0
    utilization: float = 0.0
    array_bound: float = 0.0
    dram_bytes: int = 0
    bound_cycles: int = 0
    bound_bytes: int = 0
    carrier: str = ""
    busy: Mapping[str, int] = field(default_factory=dict)
    stalls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    moved: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "LayerRow":
        """The row of a report's JSON; further keys do not matter."""
        return cls(**{name: plain[name] for name in _NAMES if name in plain})

    @property
    def plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _NAMES}

    @property
    def longest_wait(self) -> tuple[str, int]:
        """The cause that the carrier waits for longest, and its cycles; "" and 0 for none."""
        waits = self.stalls.get(self.carrier, {})
        cause = max(waits, key=waits.__getitem__, default="")
        return (cause, waits[cause]) if cause and waits[cause] else ("", 0)

    @property
    def bound(self) -> str:
        """The bound of a layer with activities.

        It is the unit that carries the layer, where that is busy for longer than it waits for
        anything; else what it waits for longest (one of `STALLS`); "" where no unit carries it.
        """
        if not self.carrier or not self.busy:
            return ""
        cause, cycles = self.longest_wait
        return cause if cycles > self.busy[self.carrier] else self.carrier


_NAMES = tuple(one.name for one in fields(LayerRow) if one.name != "moved")


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def layer_rows(machine: Machine, program: AccelProgram, work: Sequence[Sequence[Work]],
               run: Run) -> list[LayerRow]:
    """A row for each group of layers computed at the same time, and one for the rest."""
    moved, config = dram_bytes(machine, program), machine.config
    # Reads beside writes, where they are of different memories.
    bytes_a_cycle = config.bus_bytes * (2 if config.shared_bytes or config.channels > 1 else 1)
    *intervals, rest = _intervals(program, run)
    rows, begin, before = [], 0, None
    for group, (name, end), interval in zip(work, program.layers, intervals, strict=True):
        again, before = group[0].node is before, group[0].node
        moves = sum(layer.input_bytes + layer.other_bytes for layer in group)
        moves -= group[0].input_bytes if again else 0       # another part of the node before
        products = sum(layer.products for layer in group)
        ideal = max(products, -(-moves // bytes_a_cycle))
        rows.append(_row(machine, name, " + ".join(layer.node.op for layer in group), *interval,
                         ideal_cycles=ideal, macs=sum(layer.macs for layer in group),
                         products=products, dram_bytes=int(moved[begin:end].sum()),
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
         ideal_cycles: int = 0, macs: int = 0, products: int = 0, dram_bytes: int = 0,
         bound_cycles: int = 0, bound_bytes: int = 0, carrier: str = "") -> LayerRow:
    array = machine.config.macs_per_cycle
    return LayerRow(
        name=name, op=op, cycles=cycles, ideal_cycles=ideal_cycles, macs=macs,
        utilization=_ratio(macs, cycles * array),
        array_bound=min(1.0, _ratio(macs, products * array)), dram_bytes=dram_bytes,
        bound_cycles=bound_cycles, bound_bytes=bound_bytes, carrier=carrier,
        busy={unit: activity["busy"] for unit, activity in did.items()},
        stalls={unit: {cause: cycles for cause, cycles in activity.items() if cause != "busy"}
                for unit, activity in did.items()})


def _carrier(machine: Machine, words: np.ndarray) -> str:
    """The unit that explains the time of a layer: the first of these that it needs."""
    needed = {machine.units[opcode] for opcode in set(words[:, 0].tolist())}
    order = (UnitKind.GEMM, UnitKind.VECTOR, UnitKind.STREAM, UnitKind.LOAD, UnitKind.STORE)
    return next((unit.name for kind in order for unit in machine.structure.of_kind(kind)
                 if unit.name in needed), "")
