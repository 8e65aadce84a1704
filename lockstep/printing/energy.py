"""A run in a technology: its clock and energy, in the figures and as a table in the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from accel.estimates.energy import energy
from accel.estimates.technology import Technology
from accel.figures.accesses import AccessProfile
from accel.machine.config import BUFFERS
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.machine.status import Run
from lockstep.printing.table import show_table
from lockstep.printing.lines import say

_COLUMNS = {"dram": ("dram",), "buffers": BUFFERS, "gemm": ("gemm",), "vector": ("vector",),
            "moves": ("fetch", "load", "store"), "idle": ("idle",)}
"""What the columns of the terminal's table add up."""

_UNITS = (("J", 1.0), ("mJ", 1e-3), ("uJ", 1e-6), ("nJ", 1e-9))


def add_technology(figures: dict[str, Any], recordings: Sequence[tuple[AccelProgram, Run]],
                   machine: Machine, technology: Technology) -> None:
    """Adds ``technology`` to the figures of a run, and ``energy`` to them and to each of their
    layers, in joules, where the technology has energies. Times are at its clock from then on.
    """
    clock = technology.clock(machine)
    figures["technology"] = technology.plain | {
        "mhz": clock.value, "mhz_low": clock.low, "mhz_high": clock.high}
    figures["seconds"] = figures["cycles"] / (clock.value * 1e6)
    if technology.energies is None:
        return
    profile = AccessProfile.joined([AccessProfile.of(machine, program, run)
                                    for program, run in recordings])
    used = energy(profile, machine, technology)
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
    show_table(f"energy in {unit}, in {used['technology']}",
               ["layer", "operator", "energy", *_COLUMNS], rows, left=2)
    macs = figures["macs"]
    each = f", {used['joules'] / macs * 1e12:.2f} pJ a product" if macs else ""
    say(f"{used['joules'] / scale:,.1f} {unit}{each}, "
        f"{used['joules'] / figures['seconds'] * 1e3:,.2f} mW at {used['mhz']:g} MHz")


def _cells(used: Mapping[str, Any], scale: float) -> list[str]:
    parts = [sum(used["units"][unit] for unit in units) for units in _COLUMNS.values()]
    return [f"{joules / scale:,.1f}" for joules in (used["joules"], *parts)]
