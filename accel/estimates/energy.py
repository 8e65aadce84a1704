"""Energy of a run: exact counts of the cycle simulator times the energies of a technology.

::

    run = measure(machine, program)                                  # no values are needed
    used = energy(AccessProfile.of(machine, program, run), machine, "45nm")
    used.joules, used.units["gemm"], used.layers[0].units["dram"]

docs/energy.md has the formulas and says what is left out.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from accel.datapath.plan import DatapathPlan, plan
from accel.estimates.operators import (all_operators, operand_bits, operators, pipeline_bits,
                                       price)
from accel.estimates.memories import buffer_copies
from accel.estimates.silicon import memory_kib
from accel.estimates.structure import CorePart, stream_parts
from accel.estimates.tables import EnergyTable
from accel.estimates.technology import DEFAULT, Technology, TechnologyError, load_technology
from accel.figures.accesses import AccessProfile
from accel.machine import isa
from accel.machine.config import AccelConfig
from accel.machine.machine import Machine
from accel.machine.structure import UnitKind

ENERGY_UNITS: tuple[str, ...] = ("dram", "inp", "wgt", "res", "par", "acc", "out", "tab", "fetch",
                                 "load", "gemm", "vector", "store", "idle")
"""What takes energy: the memory, the buffers, the units, and what every cycle takes. A machine with
more units or buffers than these has them before the last, by their names."""

PJ = 1e-12

TABLE_GATES = 4             # of two inputs, that a lookup table of four stands for

RAM_BITS = 4                # of a row of a cell of distributed RAM


@dataclass(frozen=True)
class LayerEnergy:
    """The energy of a layer in joules, whole and by unit (`energy_units`)."""

    name: str
    joules: float
    units: Mapping[str, float]


@dataclass(frozen=True)
class Energy:
    """The energy of a run in joules.

    Parameters
    ----------
    technology : its name. mhz : the clock at which it leaks.
    joules, units : the sum, and what each of `energy_units` takes of it.
    leaked : joules of the sum that leaked; None where the technology has no leakage.
    layers : the same for each layer, ``finish`` included; they add up to the whole.
    counts : what was counted (`AccessProfile`), summed over the layers.
    operations : operations of the datapaths by kind and width: ``multiply8x8``, ``add17``.
    """

    technology: str
    mhz: float
    joules: float
    leaked: float | None
    units: Mapping[str, float]
    layers: tuple[LayerEnergy, ...]
    counts: Mapping[str, int]
    operations: Mapping[str, int]

    @property
    def plain(self) -> dict[str, Any]:
        """Everything but the layers, as plain data."""
        return {"technology": self.technology, "mhz": self.mhz, "joules": self.joules,
                "leaked": self.leaked, "units": dict(self.units), "counts": dict(self.counts),
                "operations": dict(self.operations)}


def energy_units(machine: Machine) -> tuple[str, ...]:
    """All that takes energy in a machine: `ENERGY_UNITS`, and the units and buffers that it has
    besides the shipped ones."""
    structure = machine.in_roles.structure
    shared = ("shared",) if machine.config.shared_bytes else ()
    own = (*shared, *structure.buffer_names, *structure.names)
    return (*ENERGY_UNITS[:-1], *(name for name in own if name not in ENERGY_UNITS),
            ENERGY_UNITS[-1])


def energy(profile: AccessProfile, machine: Machine,
           technology: Technology | str | Path = DEFAULT) -> Energy:
    """Prices the counts of a run, or of several runs (`AccessProfile.joined`) of one machine.

    `technology` is one, or what `load_technology` takes. Raises TechnologyError for one without
    energies.
    """
    technology = technology if isinstance(technology, Technology) else load_technology(technology)
    if technology.energies is None:
        raise TechnologyError(f"Technology must have energies, not {technology.name!r}")
    machine = machine.in_roles
    mhz = technology.clock(machine).value
    watts = leakage_watts(machine, technology.energies)
    known = prices(machine, technology.energies) | {
        "cycles": ("idle", idle_pj(machine, technology.energies, mhz))}
    names = energy_units(machine)
    rows = {unit: np.zeros(len(profile.layers)) for unit in names}
    for key, values in profile.counts.items():
        unit, pj = known[key]
        rows[unit] += values * (pj * PJ)
    columns = np.stack([rows[unit] for unit in names])
    layers = tuple(LayerEnergy(name, float(column.sum()),
                               dict(zip(names, column.tolist(), strict=True)))
                   for name, column in zip(profile.layers, columns.T, strict=True))
    units = dict(zip(names, columns.sum(axis=1).tolist(), strict=True))
    totals = profile.totals()
    return Energy(technology.name, mhz, sum(units.values()),
                  None if watts is None else watts * totals["cycles"] / (mhz * 1e6), units, layers,
                  totals, _operations(machine, totals))


@cache
def prices(machine: Machine, table: EnergyTable) -> dict[str, tuple[str, float]]:
    """For each count of an `AccessProfile` that takes energy, the unit and the pJ of one; for
    cycles, that of the clock alone.
    """
    result = _moving(machine.config, table)
    result |= {key: (key.partition(".")[0], pj) for key, pj in _accesses(machine, table).items()}
    for unit, datapath in _datapaths(machine).items():
        for body in datapath.bodies:
            result[f"{unit}.{body.name}"] = unit, _element(datapath, body.name, table)
        result[f"{unit}.folds"] = unit, _fold(datapath, table)
    for unit in machine.structure.of_kind(UnitKind.STREAM):
        taken = stream_parts(machine, unit)
        for form in machine.of_unit(unit.name):
            shared = [part for name, part in taken.items() if not name.startswith(
                f"{unit.name}.component_") or name.endswith(f".component_{form.name}")]
            result[f"{unit.name}.{form.name}"] = unit.name, sum(
                _working(part, table) for part in shared)
    result["cycles"] = "idle", register_bits(machine) * table.clock_pj
    return result


@cache
def leakage_watts(machine: Machine, table: EnergyTable) -> float | None:
    """The power that leaks whatever the machine does; None where the table has no leakage."""
    if table.leakage is None:
        return None
    logic = sum(price(all_operators(one), table) for one in _datapaths(machine).values())
    logic += sum(_logic(part, table) for part in _stream_parts(machine))
    return 1e-3 * (memory_kib(machine) * table.leakage.sram_mw
                   + register_bits(machine) * table.leakage.register_nw * 1e-6
                   + logic * table.leakage.logic_uw * 1e-3)


def idle_pj(machine: Machine, table: EnergyTable, mhz: float) -> float:
    """The energy of an idle cycle: leakage, and the clock where it is not gated."""
    return ((leakage_watts(machine, table) or 0.0) * 1e6 / mhz
            + prices(machine, table)["cycles"][1])


def _moving(config: AccelConfig, table: EnergyTable) -> dict[str, tuple[str, float]]:
    """Beats on the memory port, and the registers that they and the words pass.

    A word passes the register of fetch, the queue (in, out) and its output register; a beat of
    load the beats' memory (in, out), and two registers a chunk; one of store two registers, and
    the beats' memory. Small memories count as registers.
    """
    bus, word = 8 * config.bus_bytes, 8 * isa.WORD_BYTES
    twice = 2 * bus * table.register_pj
    return {"fetch.words": ("fetch", 4 * word * table.register_pj),
            "dram.read": ("dram", bus * table.dram_pj), "dram.write": ("dram", bus * table.dram_pj),
            "dram.rows": ("dram", table.row_pj),
            **_shared(config, table),
            "load.beats": ("load", twice), "load.chunks": ("load", twice),
            "store.beats": ("store", twice), "store.chunks": ("store", twice)}


def _shared(config: AccelConfig, table: EnergyTable) -> dict[str, tuple[str, float]]:
    """A beat of the shared scratchpad, which is one memory of the bus's width."""
    if not config.shared_bytes:
        return {}
    pj = table.access_pj(config.shared_bytes, 8 * config.bus_bytes)
    return {"shared.read": ("shared", pj), "shared.write": ("shared", pj)}


def _datapaths(machine: Machine) -> dict[str, DatapathPlan]:
    """The datapath of each unit that has one, by its name."""
    return {unit.name: plan(machine, unit.name) for kind in (UnitKind.GEMM, UnitKind.VECTOR)
            for unit in machine.structure.of_kind(kind)}


def _accesses(machine: Machine, table: EnergyTable) -> dict[str, float]:
    """An access of each port of each buffer, in pJ (accel/hw/moving/scratchpad.py,
    accel/hw/compute/acc.py).

    Reading takes a row of the memories side by side, writing the part that is enabled. A bank of
    acc is a memory. What a load writes, it writes to every copy of the buffer (`buffer_copies`).
    """
    config = machine.config
    buffers, bus = config.buffers, config.bus_bytes

    def pj(buffer: str, bits: float, share: float = 1) -> float:
        return table.access_pj(buffers[buffer].size_bytes * share, bits)

    result = {f"{name}.{access}": 0.0 for name in buffers if name != "acc"
              for access in ("read", "write")}              # nothing reads the tables of some
    for copy in buffer_copies(machine):
        name, written = copy.buffer, config.written_bytes(copy.buffer)
        read = max(written, copy.seen.entry_bytes)
        if copy.like == "out":
            written, read = copy.seen.entry_bytes, max(bus, copy.seen.entry_bytes)
        if copy.like == "tab":
            read = bus
        result[f"{name}.write"] += copy.ports * pj(name, 8 * written)
        result[f"{name}.read"] = pj(name, 8 * read)
    for unit in machine.structure.users("acc"):
        geometry = config.seen(unit, "acc")
        for access in ("read", "write"):
            result[f"acc.{unit.name}_{access}"] = pj("acc", geometry.entry_bits, 1 / 2)
    return result


def _element(datapath: DatapathPlan, body: str, table: EnergyTable) -> float:
    """An element of a body: its operators, its pipeline registers, and those in which its value
    meets acc; of vector also the registers of its operands."""
    bits = _meeting_bits(datapath)
    if datapath.unit == "vector":
        bits += operand_bits(datapath, body)
    return (price(operators(datapath, body), table) + bits * table.register_pj
            + sum(datapath.registers()) * table.write_pj
            + pipeline_bits(datapath, body) * table.switch_pj)


def _lanes(datapath: DatapathPlan) -> int:
    return int(np.prod(datapath.shape))


def _meeting_bits(datapath: DatapathPlan) -> int:
    """Bits of the registers between a value and acc: the destination's, and the result."""
    if datapath.meeting:
        return sum(datapath.meeting.registers())
    return 2 * _lanes(datapath) * datapath.value_bits


def _fold(datapath: DatapathPlan, table: EnergyTable) -> float:
    """The combination of a value with its destination."""
    if not datapath.meeting:
        return _lanes(datapath) * table.add.at(datapath.value_bits)
    updates = [body.name for body in datapath.meeting.bodies if body.name != "assign"]
    return max(price(operators(datapath.meeting, update), table) for update in updates)


def _stream_parts(machine: Machine) -> list[CorePart]:
    """The parts of all stream units."""
    return [part for unit in machine.structure.of_kind(UnitKind.STREAM)
            for part in stream_parts(machine, unit).values()]


def _logic(part: CorePart, table: EnergyTable) -> float:
    """The logic and the products of a part of a stream unit, each used once: `TABLE_GATES` for a
    lookup table, and products as one square one."""
    return (part.features["luts"] * TABLE_GATES * table.logic_pj
            + (table.multiply.at(sqrt(part.products)) if part.products else 0.0))


def _working(part: CorePart, table: EnergyTable) -> float:
    """A cycle of a part of a stream unit that works: its logic, its registers, and those of
    distributed RAM of which a row is read or written."""
    bits = part.kept["bits"] + RAM_BITS * part.distributed
    return _logic(part, table) + bits * table.register_pj


def register_bits(machine: Machine) -> int:
    """Bits of registers of the datapaths and of stream units, and those that stand for the queues.
    """
    bits = sum(sum(datapath.registers()) + _meeting_bits(datapath)
               for datapath in _datapaths(machine).values())
    bits += sum(round(part.kept["bits"]) for part in _stream_parts(machine))
    return bits + len(machine.structure.units) * 8 * isa.WORD_BYTES * machine.config.queue_depth


def _operations(machine: Machine, totals: Mapping[str, int]) -> dict[str, int]:
    """Operations by kind and width, from the iterations of the bodies."""
    result: Counter[str] = Counter()
    for unit, datapath in _datapaths(machine).items():
        for body in datapath.bodies:
            if elements := totals.get(f"{unit}.{body.name}", 0):
                for (kind, a, b), count in operators(datapath, body.name).items():
                    result[f"{kind}{a}x{b}" if b else f"{kind}{a}"] += count * elements
        if not datapath.meeting and (folds := totals.get(f"{unit}.folds", 0)):
            result[f"add{datapath.value_bits}"] += folds * _lanes(datapath)
    return dict(sorted(result.items()))
