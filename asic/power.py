"""The energy of a run of a netlist: what its nets did, priced by its library.

A change of a net charges or discharges it: half of C V², C of the pins that it drives and its wire
(`asic.netlist.wire_pf`). What happens within a cell is priced by its library's tables, at the slew
and the load that it has. The clock falls and rises once a cycle, at each flip-flop that is not
gated. Accesses of macros are priced by `asic.memories`. Left out: the buffers of the clock's tree,
and glitches.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .characters import Characters
from .gates import HIGH, LOW, GateCore, Instance, NetActivity
from .netlist import wire_pf

PARTS = ("logic", "registers", "clock", "memories")


@dataclass(frozen=True)
class Used:
    """The energy of a run.

    Parameters
    ----------
    cycles : of the run.
    units : joules of each unit by part (`PARTS`): gates and their nets, flip-flops and theirs, the
        clock, macros.
    leakage_w : watts that leak whatever happens, by unit.
    """

    cycles: int
    units: Mapping[str, Mapping[str, float]]
    leakage_w: Mapping[str, float]

    @property
    def joules(self) -> float:
        """All but what leaks."""
        return sum(sum(parts.values()) for parts in self.units.values())


class NetPrices:
    """Energies of each change of each net of a netlist, and of each cycle of each clock."""

    def __init__(self, core: GateCore):
        self.core = core
        cells = core.netlist.cells
        characters = Characters(core.library, cells)
        self._known = characters.cells
        nets = core.flat.nets
        self._capacitance = np.zeros(nets)
        self._typical = characters.typical_slew
        self._slew = np.full(nets, self._typical)
        self._volts, self._wire = cells.volts, wire_pf(cells) * 1e-12
        self._clocks = self._clock_pins()
        self._load()
        self._set_slews()

    def of(self, activity: NetActivity) -> Used:
        """The energy of a run."""
        units: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(PARTS, 0.0))
        leaks: dict[str, float] = defaultdict(float)
        half = 0.5 * self._volts ** 2
        each = {kind: self._clock_energy(kind) for kind in self._clocks}
        for cell, cycles in zip(self.core.flops, activity.clocked.tolist(), strict=True):
            units[cell.unit]["clock"] += cycles * each[cell.kind]
        gated = {cell.pins[self._clocks[cell.kind]][0]: cycles for cell, cycles in zip(
            self.core.flops, activity.clocked.tolist(), strict=True)}
        for (unit, kind), members in self._members.items():
            known = self._known[kind]
            if kind in self.core.netlist.cells.gating:
                units[unit]["clock"] += sum(self._gating_energy(
                    cell, activity.cycles, gated) for cell in members)
            leaks[unit] += known.leakage * len(members)
            part = "registers" if kind in self._clocks else "logic"
            for name, pin in known.pins.items():
                nets = np.array([cell.pins[name][0] if name in cell.pins else LOW
                                 for cell in members])
                if name == self._clocks.get(kind):
                    continue
                changes = activity.changes[nets].astype(float)
                changes[nets <= HIGH] = 0
                inside = pin.energy(self._inputs_slew(members, name), self._capacitance[nets])
                if pin.transitions:                     # an output: it charges its net
                    inside = inside + half * self._capacitance[nets]
                units[unit][part] += float(changes @ inside)
        for number, (cell, shape) in enumerate(self.core.memories):
            macro = self.core.netlist.macros.macro(shape)
            units[cell.unit]["memories"] += 1e-12 * (
                float(activity.reads[number]) * macro.read_pj
                + float(activity.writes[number]) * macro.write_pj)
            leaks[cell.unit] += 1e-3 * macro.leakage_mw
        return Used(activity.cycles, {unit: dict(parts) for unit, parts in sorted(units.items())},
                    dict(sorted(leaks.items())))

    def _clock_energy(self, kind: str) -> float:
        """The energy of a cycle of the clock of a flip-flop: its edges inside, its pin and wire."""
        pin = self._known[kind].pins[self._clocks[kind]]
        inside = float(pin.energy(np.array([self._typical]), np.zeros(1))[0])
        return 2 * inside + self._volts ** 2 * (pin.capacitance + self._wire)

    def _gating_energy(self, cell: Instance, cycles: int, gated: Mapping[int, int]) -> float:
        """The energy of a cell that gates a clock: its clock in every cycle, and inside what it
        passes on, where flip-flops have it."""
        joules, edge = 0.0, (np.array([self._typical]), np.zeros(1))
        for pin in self.core.cells[cell.kind].of("pin"):
            known = self._known[cell.kind].pins[pin.name]
            inside = 2 * float(known.energy(*edge)[0])
            if "clock_gate_clock_pin" in pin.values:
                joules += cycles * (
                    inside + self._volts ** 2 * (known.capacitance + self._wire))
            elif "clock_gate_out_pin" in pin.values:
                joules += gated.get(cell.pins[pin.name][0], 0) * inside
        return joules

    @cached_property
    def _members(self) -> dict[tuple[str, str], list[Instance]]:
        """The cells of each unit and kind."""
        members: dict[tuple[str, str], list[Instance]] = defaultdict(list)
        for cell in self.core.flat.cells:
            if cell.kind in self._known:
                members[cell.unit, cell.kind].append(cell)
        return members

    def _clock_pins(self) -> dict[str, str]:
        """The clock of each kind of flip-flop."""
        found = {}
        for kind in {cell.kind for cell in self.core.flops}:
            held = next(self.core.cells[kind].of("ff"))
            found[kind] = held.values["clocked_on"].strip("() ")
        return found

    def _load(self) -> None:
        """The capacitance of each net: the pins that it drives, and its wire."""
        for (_, kind), members in self._members.items():
            for name, pin in self._known[kind].pins.items():
                if not pin.transitions:
                    self._add(members, name, pin.capacitance)
        pin_f = self.core.netlist.macros.pin_pf * 1e-12
        for cell, _ in self.core.memories:
            for name, nets in cell.pins.items():
                if name not in ("r_data", "clk"):
                    np.add.at(self._capacitance, list(nets), pin_f + self._wire)

    def _add(self, members: list[Instance], name: str, capacitance: float) -> None:
        nets = [cell.pins[name][0] for cell in members if name in cell.pins]
        np.add.at(self._capacitance, nets, capacitance + self._wire)

    def _set_slews(self) -> None:
        """The slew of each net, as its driver gives it at its load."""
        for (_, kind), members in self._members.items():
            for name, pin in self._known[kind].pins.items():
                if pin.transitions:
                    nets = np.array([cell.pins[name][0] for cell in members if name in cell.pins])
                    if nets.size:
                        self._slew[nets] = pin.slew(np.full(len(nets), self._typical),
                                                    self._capacitance[nets])

    def _inputs_slew(self, members: list[Instance], name: str) -> np.ndarray:
        """At an output the mean slew of what enters each cell; at an input its own."""
        pins = self._known[members[0].kind].pins
        entering = [one for one, pin in pins.items() if not pin.transitions]
        names = entering if pins[name].transitions else [name]
        slews = np.zeros((len(names), len(members)))
        for row, one in zip(slews, names, strict=True):
            row[:] = self._slew[[cell.pins[one][0] if one in cell.pins else LOW
                                 for cell in members]]
        return slews.mean(axis=0)
