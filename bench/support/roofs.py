"""What keeps the array of a machine from the bound that padding leaves: its buses, layer by layer.

A layer takes at least its products, and a cycle for each beat of the bus that load fills or store
empties, whichever are most. No layer is helped by its neighbours, so the sum over all layers is no
bound; a network that comes near it has no better mapping, layer by layer, on this bus.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from accel.figures.layers import LayerRow, layer_rows
from accel.figures.traffic import dram_bytes, shared_bytes
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind
from accel.mapping.compiled import CompiledSegment
from accel.sim.timed import cycle


@dataclass(frozen=True, slots=True)
class Roof:
    """A row of a report, the cycles of its products, and those of the busiest of products, load's
    beats and store's."""

    row: LayerRow
    products: int
    cycles: int


def roofs(machine: Machine, segment: CompiledSegment) -> list[Roof]:
    """The layers of a compiled network, with time alone simulated."""
    run = cycle.simulate(machine, segment.program, values=False)
    rows = layer_rows(machine, segment.program, segment.work, run)[:len(segment.work)]
    products = [sum(layer.products for layer in group) for group in segment.work]
    return [Roof(row, count, max(count, *beats)) for row, count, beats in zip(
        rows, products, zip(*_beats(machine, segment), strict=True), strict=True)]


def _beats(machine: Machine, segment: CompiledSegment) -> Iterator[list[int]]:
    """Beats of the bus that load moves for each layer, then those of store."""
    program, bus = segment.program, machine.config.bus_bytes
    moved = dram_bytes(machine, program) + shared_bytes(machine, program)
    ends = [end for _, end in program.layers]
    for kind in (UnitKind.LOAD, UnitKind.STORE):
        names = {unit.name for unit in machine.structure.of_kind(kind)}
        codes = [code for code, unit in machine.units.items() if unit in names]
        own = np.where(np.isin(program.words[:, 0], codes), moved, 0)
        sums = np.diff(np.append(0, np.cumsum(own))[[0, *ends]])
        yield (-(-sums // bus)).tolist()
