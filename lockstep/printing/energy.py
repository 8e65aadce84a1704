"""Energy of a run, for ``run --energy``: in the figures, and as a table in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from accel.estimates.energy import energy
from accel.estimates.tables import EnergyTable
from accel.figures.accesses import AccessProfile
from accel.machine.config import BUFFERS
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from lockstep.printing.table import show_table
from lockstep.printing.lines import say

__all__ = ["add_energy", "show_energy"]

_COLUMNS = {"dram": ("dram",), "buffers": BUFFERS, "gemm": ("gemm",), "vector": ("vector",),
            "moves": ("fetch", "load", "store"), "idle": ("idle",)}
"""What the columns of the terminal's table add up."""

_UNITS = (("J", 1.0), ("mJ", 1e-3), ("uJ", 1e-6), ("nJ", 1e-9))


def add_energy(figures: dict[str, Any], recordings: Sequence[tuple[AccelProgram, Run]],
               machine: Machine, table: EnergyTable) -> None:
    """Adds ``energy`` to the figures of a run and to each of their layers, in joules."""
    profile = AccessProfile.joined([AccessProfile.of(machine, program, run)
                                    for program, run in recordings])
    used = energy(profile, machine, table)
    figures["energy"] = used.plain
    for row, layer in zip(figures["layers"], used.layers, strict=True):
        row["energy"] = {"joules": layer.joules, "units": dict(layer.units)}


def show_energy(figures: Mapping[str, Any]) -> None:
    """Prints the energy of each layer, and the whole."""
    used = figures["energy"]
    unit, scale = next((one for one in _UNITS if used["joules"] >= 1000 * one[1]), _UNITS[-1])
    rows = [[layer["name"], layer["op"], *_cells(layer["energy"], scale)]
            for layer in figures["layers"]]
    rows.append(["all", "", *_cells(used, scale)])
    show_table(f"energy in {unit}, by the table {used['table']}",
               ["layer", "operator", "energy", *_COLUMNS], rows, left=2)
    macs = figures["macs"]
    each = f", {used['joules'] / macs * 1e12:.2f} pJ a product" if macs else ""
    say(f"{used['joules'] / scale:,.1f} {unit}{each}, "
        f"{used['joules'] / figures['seconds'] * 1e3:,.2f} mW at the machine's clock")


def _cells(used: Mapping[str, Any], scale: float) -> list[str]:
    parts = [sum(used["units"][unit] for unit in units) for units in _COLUMNS.values()]
    return [f"{joules / scale:,.1f}" for joules in (used["joules"], *parts)]
