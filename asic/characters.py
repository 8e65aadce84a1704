"""Characters of cells: energies, loads and slews of their pins, from the tables of its library.

Tables are read between their points by straight lines, and beyond them as at their ends. Of several
(for edges, related pins, conditions) the mean is taken; where some hold without a condition, of
those alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .liberty import LibertyGroup
from .library import Cells

_LOAD = "total_output_net_capacitance"
_EDGES = ("rise", "fall")


@dataclass(frozen=True)
class CellTable:
    """A table over slew (s) and load (F), each of which may have one point."""

    slews: np.ndarray
    loads: np.ndarray
    values: np.ndarray

    def at(self, slew: np.ndarray, load: np.ndarray) -> np.ndarray:
        row, across = _between(self.slews, slew)
        column, along = _between(self.loads, load)
        low = (self.values[row, column] * (1 - along)
               + self.values[row, np.minimum(column + 1, len(self.loads) - 1)] * along)
        row = np.minimum(row + 1, len(self.slews) - 1)
        high = (self.values[row, column] * (1 - along)
                + self.values[row, np.minimum(column + 1, len(self.loads) - 1)] * along)
        return low * (1 - across) + high * across


def _between(points: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point below each value, and how far it is on the way to the next, from 0 to 1."""
    if len(points) == 1:
        return np.zeros(len(values), np.int64), np.zeros(len(values))
    place = np.clip(np.searchsorted(points, values, "right") - 1, 0, len(points) - 2)
    step = (values - points[place]) / (points[place + 1] - points[place])
    return place, np.clip(step, 0, 1)


@dataclass
class Pin:
    """A pin: its capacitance (F), the energy of a change (J) and, of outputs, the slew (s)."""

    capacitance: float
    energies: list[CellTable] = field(default_factory=list)
    transitions: list[CellTable] = field(default_factory=list)

    def energy(self, slew: np.ndarray, load: np.ndarray) -> np.ndarray:
        """The energy within the cell for each change, in joules."""
        return _mean(self.energies, slew, load)

    def slew(self, slew: np.ndarray, load: np.ndarray) -> np.ndarray:
        return _mean(self.transitions, slew, load)


def _mean(tables: list[CellTable], slew: np.ndarray, load: np.ndarray) -> np.ndarray:
    if not tables:
        return np.zeros(len(slew))
    return np.mean([table.at(slew, load) for table in tables], axis=0)


@dataclass
class Character:
    """A cell: its pins, and what it leaks (W)."""

    leakage: float
    pins: dict[str, Pin]


class Characters:
    """The cells of a library. `typical_slew` is its second point of slews (s)."""

    def __init__(self, library: LibertyGroup, cells: Cells):
        self._units = cells.time_unit, cells.capacitance_unit
        self._energy_unit = cells.capacitance_unit      # times 1 V squared
        self._templates = {group.name: group for group in library.groups
                           if group.kind in ("lu_table_template", "power_lut_template")}
        leakage_unit = cells.leakage_unit
        default = library.number("default_cell_leakage_power", 0.0) or 0.0
        self.cells = {cell.name: Character(
            (cell.number("cell_leakage_power", default) or 0.0) * leakage_unit,
            {pin.name: self._pin(pin) for pin in cell.of("pin")})
            for cell in library.of("cell") if cell.name in cells.gates
            or cell.name in cells.gating}
        slews = [table.slews for cell in self.cells.values() for pin in cell.pins.values()
                 for table in pin.transitions if len(table.slews) > 1]
        self.typical_slew = float(np.median([one[1] for one in slews])) if slews else 0.0

    def _pin(self, pin: LibertyGroup) -> Pin:
        capacitance = (pin.number("capacitance", 0.0) or 0.0) * self._units[1]
        energies = list(pin.of("internal_power"))
        free = [one for one in energies if "when" not in one.values]
        transitions = [one for one in pin.of("timing") if any(one.of("rise_transition"))]
        return Pin(capacitance,
                   [self._table(table, self._energy_unit) for one in free or energies
                    for table in _edges(one, "power")],
                   [self._table(table, self._units[0]) for one in transitions
                    for table in _edges(one, "transition")])

    def _table(self, group: LibertyGroup, unit: float) -> CellTable:
        template = self._templates.get(group.name)
        axes = {"slew": np.zeros(1), "load": np.zeros(1)}
        order = []
        for number in (1, 2):
            text = group.values.get(f"index_{number}") or (
                template.values.get(f"index_{number}") if template else None)
            if text is None:
                continue
            variable = template.values.get(f"variable_{number}", "") if template else ""
            axis = "load" if variable == _LOAD else "slew"
            axes[axis] = _numbers(text) * self._units[axis == "load"]
            order.append(axis)
        values = _numbers(group.values.get("values", "0")) * unit
        shape = [len(axes[axis]) for axis in order]
        if values.size != int(np.prod(shape)):
            values = np.full(shape, values.mean() if values.size else 0.0)
        values = values.reshape(shape)
        if order == ["load", "slew"]:
            values = values.T
        return CellTable(axes["slew"], axes["load"], values.reshape(len(axes["slew"]), -1))


def _edges(group: LibertyGroup, what: str) -> Iterator[LibertyGroup]:
    for edge in _EDGES:
        yield from group.of(f"{edge}_{what}")


def _numbers(text: str) -> np.ndarray:
    return np.array([float(one) for one in re.findall(r"[-+]?[\d.]+(?:[eE][-+]?\d+)?", text)])
