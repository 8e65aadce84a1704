"""The area of a machine's core in well under a second, without synthesis.

Every part's LUTs and registers are sums of amounts that follow from the machine's plan and
structure (`accel.estimates.structure`), with coefficients fitted to runs of yosys
(`accel.estimates.model`); multipliers and memories are counted. Instructions of one's own are
included, since they are operators of the plan.
"""

from dataclasses import dataclass

from accel.estimates.estimate import Estimate
from accel.estimates.model import FIGURES, AreaModel, read
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

    An interval is as wide as errors were on machines left out of the fit in turn. A machine of more
    LUTs or registers than the largest of the fit is marked as extrapolated.

    Raises `accel.datapath.plan.PlanError` for a machine that no datapath can be built for.
    """
    model, found = read(), parts(machine)
    units = model.by_unit(found)
    like = {unit_of(name): unit_of(part.like or name) for name, part in found.items()}
    total = {figure: sum(unit[figure] for unit in units.values()) for figure in FIGURES}
    beyond = any(total[figure] > most for figure, most in model.largest.items())
    gates = model.gates_by_unit(found)
    return Area(
        **{figure: _estimate(model, "total", figure, value, beyond)
           for figure, value in total.items()},
        gates=_estimate(model, "total", "gates", sum(gates.values()), beyond),
        units={unit: {figure: _estimate(model, like[unit], figure, value, beyond)
                      for figure, value in (row | {"gates": gates[unit]}).items()}
               for unit, row in units.items()})


def _estimate(model: AreaModel, unit: str, figure: str, value: float, beyond: bool) -> Estimate:
    """A unit that the fit had nothing of has the error of the whole."""
    error = model.errors.get(unit, model.errors["total"])[figure] * max(value, 1)
    return Estimate(round(value), max(round(value - error), 0), round(value + error), beyond)
