"""The linear model of area: coefficients by group of parts, fitted to synthesized machines.

Every part's LUTs (without distributed RAM) and registers are a sum of its features
(`accel.estimates.structure`), each times a coefficient of the part's group. Multipliers, block RAMs
and distributed RAM are counted, not fitted; what synthesis made of them gives their error, too.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil

import numpy as np

from accel.estimates import netlists
from accel.estimates.fitting import fitted, quantile, rounded
from accel.estimates.gates import fit_gates
from accel.estimates.runs import DATA, Synthesis
from accel.estimates.structure import CorePart, parts, unit_of

COEFFICIENTS = DATA / "area.toml"

FIGURES = ("luts", "registers", "multipliers", "block_rams", "distributed")

RAM_LUTS = 6                # that a cell of distributed RAM takes, as fpga.building.flow counts

EXPECTED = {"carry": 1.1, "updated": 1.0, "compress": 2.2, "compare": 1.0, "choice": 0.9,
            "gather": 0.8, "shift": 2.0, "logic": 0.5, "soft": 1.0}
"""LUTs of a bit of an operator, as an ECP5 has it: a bit of a carry chain is one, a multiplexer of
four values two."""

CORE_LUTS = 15_000          # of a core, by which errors of units alone count

_SHARED = ("datapath", "issue", "hazards")

_Coefficients = Mapping[str, Mapping[str, float]]


def group_of(name: str, part: CorePart) -> str:
    """The group of parts that share coefficients."""
    name = part.like or name
    if name == netlists.NETLIST:
        return name
    unit, _, inner = name.partition(".")
    if "carry" in part.features:        # gemm.update is a datapath where acc holds floats
        return "datapath"
    if inner in _SHARED:
        return inner
    if unit.startswith("queue_"):
        return "queue"
    return "buffer" if unit in ("inp", "wgt", "res", "par") else name


@dataclass(frozen=True)
class AreaModel:
    """Coefficients, and how far off they were.

    Parameters
    ----------
    luts, registers : coefficient by feature, by group.
    errors : half the interval of each figure, relative to it, by ``total`` or unit.
    largest : the greatest LUTs and registers of the machines of the fit, as estimated.
    gates : NAND2 equivalents of a ``lut``, a ``register`` and a bit of a ``product``.
    """

    luts: _Coefficients
    registers: _Coefficients
    errors: Mapping[str, Mapping[str, float]]
    largest: Mapping[str, float]
    gates: Mapping[str, float]

    def logic(self, name: str, part: CorePart) -> float:
        """LUTs of a part without distributed RAM. Raises KeyError for a part that no run has."""
        return _sum(self.luts[group_of(name, part)], part.features)

    def figures(self, name: str, part: CorePart) -> dict[str, float]:
        """The figures of a part, by the names of `FIGURES`."""
        group = group_of(name, part)
        return {"luts": self.logic(name, part) + RAM_LUTS * part.distributed,
                "registers": _sum(self.registers[group], part.kept),
                "multipliers": part.multipliers, "block_rams": part.block_rams,
                "distributed": part.distributed}

    def by_unit(self, found: Mapping[str, CorePart]) -> dict[str, dict[str, float]]:
        """The figures of each unit."""
        units: dict[str, dict[str, float]] = {}
        for name, part in found.items():
            unit = units.setdefault(unit_of(name), dict.fromkeys(FIGURES, 0.0))
            for figure, value in self.figures(name, part).items():
                unit[figure] += value
        return units

    def gates_by_unit(self, found: Mapping[str, CorePart]) -> dict[str, float]:
        """NAND2 equivalents of each unit."""
        units: dict[str, float] = {}
        for name, part in found.items():
            amounts = {"lut": self.logic(name, part), "product": part.products,
                       "register": self.figures(name, part)["registers"]}
            units[unit_of(name)] = units.get(unit_of(name), 0.0) + _sum(self.gates, amounts)
        return units

    def to_toml(self) -> str:
        """The text that `read` reads."""
        tables = {f"{kind}.{_key(group)}": row for kind in ("luts", "registers", "errors")
                  for group, row in getattr(self, kind).items()} | {
                      "largest": self.largest, "gates": self.gates}
        return "\n".join(f"[{name}]\n" + "".join(f"{_key(key)} = {value!r}\n"
                                                 for key, value in row.items())
                         for name, row in tables.items())


@cache
def read() -> AreaModel:
    """The stored coefficients. Parts that are counted in a netlist take what was counted."""
    stored = tomllib.loads(COEFFICIENTS.read_text())
    stored["luts"][netlists.NETLIST] = {"luts": 1.0}
    stored["registers"][netlists.NETLIST] = {"bits": 1.0}
    stored["errors"][netlists.NETLIST] = {
        figure: netlists.ERRORS.get(figure, 0.0) for figure in (*FIGURES, "gates")}
    return AreaModel(**stored)


def measured(run: Synthesis) -> dict[str, dict[str, float]]:
    """The synthesized figures of each unit, by yosys."""
    units: dict[str, dict[str, float]] = {}
    for part, cells in run.parts.items():
        unit = units.setdefault(unit_of(part), dict.fromkeys(FIGURES, 0.0))
        for figure, value in _figures(cells).items():
            unit[figure] += value
    return units


def _figures(cells: Mapping[str, int]) -> dict[str, float]:
    rams = cells.get("TRELLIS_DPR16X4", 0)
    return {"luts": _logic(cells) + RAM_LUTS * rams, "registers": cells.get("TRELLIS_FF", 0),
            "multipliers": cells.get("MULT18X18D", 0), "block_rams": cells.get("DP16KD", 0),
            "distributed": rams}


def _logic(cells: Mapping[str, int]) -> int:
    return cells.get("LUT4", 0) + 2 * cells.get("CCU2C", 0)


def fit(runs: Sequence[Synthesis]) -> AreaModel:
    """Fits the coefficients to all runs, and the errors to each core by the fit to the others."""
    found = [parts(run.spec.machine) for run in runs]
    cores = [number for number, run in enumerate(runs) if not run.unit]
    errors: dict[str, dict[str, list[float]]] = {}
    for number in cores:
        others = [at for at, run in enumerate(runs) if run.hash != runs[number].hash]
        model = solved([runs[at] for at in others], [found[at] for at in others])
        estimated, real = model.by_unit(found[number]), measured(runs[number])
        for unit in ("total", *estimated):
            for figure in FIGURES:
                a, b = (of_unit(units, unit, figure) for units in (estimated, real))
                errors.setdefault(unit, {}).setdefault(figure, []).append(
                    abs(a - b) / max(a, 1))
    gates, off = fit_gates()
    whole = solved(runs, found)
    estimates = [whole.by_unit(found[number]) for number in cores]
    return replace(
        whole, gates=gates,
        errors={unit: {figure: rounded(quantile(values)) for figure, values in row.items()}
                | {"gates": off["total" if unit == "total" else "unit"]}
                for unit, row in errors.items()},
        largest={figure: float(ceil(max(of_unit(units, "total", figure) for units in estimates)))
                 for figure in ("luts", "registers")})


def of_unit(units: Mapping[str, Mapping[str, float]], unit: str, figure: str) -> float:
    """A figure of a unit, or of all: ``total``."""
    if unit == "total":
        return sum(row[figure] for row in units.values())
    return units[unit][figure] if unit in units else 0.0


def solved(runs: Sequence[Synthesis], found: Sequence[Mapping[str, CorePart]]) -> AreaModel:
    """Coefficients alone, from the parts of each run's machine."""
    samples: dict[str, list[tuple[CorePart, Mapping[str, int], float]]] = {}
    for run, machine in zip(runs, found, strict=True):
        total = sum(map(_logic, run.parts.values())) if not run.unit else CORE_LUTS
        for name, part in machine.items():
            if run.unit and unit_of(name) != run.unit:
                continue
            samples.setdefault(group_of(name, part), []).append(
                (part, run.parts.get(name, {}), 1 / total))
    luts = {group: _solved([(part.features, _logic(cells), weight) for part, cells, weight in rows],
                           EXPECTED if group == "datapath" else {})
            for group, rows in sorted(samples.items())}
    registers = {group: _solved([(part.kept, cells.get("TRELLIS_FF", 0), weight)
                                 for part, cells, weight in rows], {})
                 for group, rows in sorted(samples.items())}
    return AreaModel(luts, registers, {}, {}, {})


def _solved(samples: Sequence[tuple[Mapping[str, float], int, float]],
            expected: Mapping[str, float]) -> dict[str, float]:
    """Coefficients by features and cells, each with its weight. What is expected of a coefficient
    counts like one more sample of nothing but its feature."""
    names = sorted({name for features, _, _ in samples for name, amount in features.items()
                    if amount})
    rows = np.array([[features.get(name, 0.0) * weight for name in names]
                     for features, _, weight in samples])
    values = np.array([value * weight for _, value, weight in samples])
    if not names:
        return {}
    sizes = np.sqrt((rows**2).mean(axis=0))
    known = [place for place, name in enumerate(names) if name in expected]
    rows = np.vstack((rows, np.diag(sizes)[known]))
    values = np.append(values, [sizes[place] * expected[names[place]] for place in known])
    return {name: rounded(value)
            for name, value in zip(names, fitted(rows, values), strict=True) if value > 0}


def _sum(coefficients: Mapping[str, float], features: Mapping[str, float]) -> float:
    return sum(coefficients.get(name, 0.0) * amount for name, amount in features.items())


def _key(name: str) -> str:
    return f'"{name}"' if "." in name else name
