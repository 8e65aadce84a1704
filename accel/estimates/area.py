"""The area of a machine's core in well under a second, without synthesis.

Every part's LUTs and registers are sums of amounts that follow from the machine's plan and
structure (`accel.estimates.structure`), with coefficients fitted to runs of yosys
(`accel.estimates.model`); multipliers and memories are counted. Instructions of one's own are
included, since they are operators of the plan.
"""

from dataclasses import dataclass

from accel.estimates.estimate import Estimate
from accel.estimates.model import FIGURES, AreaModel, read
from accel.estimates.netlists import NETLIST
from accel.estimates.structure import parts, unit_of
from accel.machine.machine import Machine


@dataclass(frozen=True, slots=True)
class Area:
    """The area of a core on an ECP5, and in gates.

    Parameters
    ----------
    luts, registers, multipliers, block_rams : cells as the FPGA's flow counts them
        (`fpga.building.flow.taken`): LUTs include carries and distributed RAM.
    distributed : cells of distributed RAM, of 16 rows of four bits.
    gates : NAND2 equivalents of logic and registers, without memories.
    units : each of these figures by name, by unit.
    """

    luts: Estimate
    registers: Estimate
    multipliers: Estimate
    block_rams: Estimate
    distributed: Estimate
    gates: Estimate
    units: dict[str, dict[str, Estimate]]


def area(machine: Machine) -> Area:
    """Estimates the area of a machine's core.

    An interval is as wide as errors were on machines left out of the fit in turn; of units that
    are counted in their netlists, as wide as errors were on others. A machine of more LUTs or
    registers than the largest of the fit is marked as extrapolated.

    Raises `accel.datapath.plan.PlanError` for a machine that no datapath can be built for.
    """
    model, found = read(), parts(machine)
    units = model.by_unit(found)
    like = {unit_of(name): unit_of(part.like or name) for name, part in found.items()}
    gates = model.gates_by_unit(found)
    rows = {unit: row | {"gates": gates[unit]} for unit, row in units.items()}
    total = {figure: sum(row[figure] for row in rows.values()) for figure in (*FIGURES, "gates")}
    beyond = any(total[figure] > most for figure, most in model.largest.items())
    each = {unit: {figure: _estimate(value, _error(model, like[unit], figure) * max(value, 1),
                                     beyond) for figure, value in row.items()}
            for unit, row in rows.items()}
    counted = [unit for unit, name in like.items() if name == NETLIST]
    whole = {}
    for figure, value in total.items():
        apart = sum(rows[unit][figure] for unit in counted)
        error = (_error(model, "total", figure) * max(value - apart, 1)
                 + _error(model, NETLIST, figure) * apart)
        whole[figure] = _estimate(value, error, beyond)
    return Area(**whole, units=each)


def _error(model: AreaModel, unit: str, figure: str) -> float:
    """The relative error of a unit; one that the fit had nothing of has that of the whole."""
    return model.errors.get(unit, model.errors["total"])[figure]


def _estimate(value: float, error: float, beyond: bool) -> Estimate:
    return Estimate(round(value), max(round(value - error), 0), round(value + error), beyond)
