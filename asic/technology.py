"""A technology file fitted to a netlist and a run of it (`accel.estimates.technology_files`).

Area, clock, leakage and memories are the netlist's own. Energies of operations and of registers
have the shape of the default technology, an addition of 8 bits beside a product of 32, and two
factors, with which the energies of units come nearest to those of the netlist: one for the
operations, one for registers that are written. What flip-flops take in every cycle is a figure of
its own. The memory outside the chip is the default technology's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.estimates.area import area
from accel.estimates.energy import energy, register_bits
from accel.estimates.memories import memory_shapes
from accel.estimates.silicon import memory_kib
from accel.estimates.tables import EnergyTable, Leakage, PowerLaw
from accel.estimates.technology import DEFAULT, Technology, load_technology
from accel.figures.accesses import AccessProfile
from accel.machine.machine import Machine

from .memories import MacroShape
from .netlist import MappedCore
from .power import Used
from .timing import SlowestPath

SIZES = (512, 2048, 8192, 32768)
"""Bytes of the memories whose accesses of 64 bits the file lists."""

OUTSIDE = "dram"

LEAST = 1e-6
"""A factor that stands for none, since energies of a technology are above zero."""


@dataclass(frozen=True)
class Fitted:
    """A technology's text, and how far its energies are from the netlist's.

    `errors`: relative, by group of units, and of the whole, on the runs of the fit.
    """

    text: str
    errors: Mapping[str, float]


def fit(name: str, netlist: MappedCore, timing: SlowestPath, used: Used,
        profiles: Sequence[AccessProfile]) -> Fitted:
    """The technology of a netlist and of what it did in some runs together."""
    machine = netlist.machine
    own = load_technology(DEFAULT)
    assert own.energies is not None
    profile = AccessProfile.joined(profiles)
    table = replace(own.energies, sram=_sram(netlist), leakage=None, dram_pj=0.0, row_pj=0.0,
                    clock_pj=_sum(used, "clock") / (used.cycles * register_bits(machine)) * 1e12)
    operations, registers = _factors(machine, own, table, profile, used)
    table = _scaled(table, operations, registers)
    errors = _errors(_by_unit(machine, own, table, profile), _targets(used))
    return Fitted(_text(name, netlist, timing, replace(
        table, leakage=_leakage(netlist, machine, used)), own, errors), errors)


def _sum(used: Used, *parts: str) -> float:
    return float(sum(row[part] for row in used.units.values() for part in parts))


def _sram(netlist: MappedCore) -> PowerLaw:
    macros = [netlist.macros.macro(MacroShape(size // 8, 64, 64)) for size in SIZES]
    return PowerLaw(tuple(map(float, SIZES)),
                    tuple((one.read_pj + one.write_pj) / 2 for one in macros))


def _scaled(table: EnergyTable, operations: float, registers: float) -> EnergyTable:
    def law(one: PowerLaw) -> PowerLaw:
        return PowerLaw(one.sizes, tuple(pj * operations for pj in one.pj))

    return replace(table, add=law(table.add), multiply=law(table.multiply),
                   logic_pj=table.logic_pj * operations, write_pj=table.write_pj * registers,
                   switch_pj=table.switch_pj * registers)


GROUPS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("gemm", "queue_gemm"), "vector": ("vector", "queue_vector"),
    "load": ("load", "queue_load"), "store": ("store", "queue_store"), "fetch": ("fetch",)}
"""Units of the netlist for each unit of the energies that works; all others are ``rest``."""


def _targets(used: Used) -> dict[str, float]:
    """Joules of logic and registers by group."""
    group_of = {unit: group for group, units in GROUPS.items() for unit in units}
    result = dict.fromkeys((*GROUPS, "rest"), 0.0)
    for unit, row in used.units.items():
        result[group_of.get(unit, "rest")] += row["logic"] + row["registers"]
    return result


def _by_unit(machine: Machine, own: Technology, table: EnergyTable, profile: AccessProfile
             ) -> dict[str, float]:
    """Joules by group without memories and without the clock."""
    bare = replace(table, clock_pj=0.0, leakage=None, sram=PowerLaw((1.0,), (0.0,)))
    units = energy(profile, machine, replace(own, energies=bare)).units
    result = {group: units[group] for group in GROUPS}
    return result | {"rest": sum(units.values()) - sum(result.values())}


def _factors(machine: Machine, own: Technology, table: EnergyTable, profile: AccessProfile,
             used: Used) -> tuple[float, float]:
    """The factors of operations and of registers, both above zero, by least squares over the
    groups and the whole."""
    target = _targets(used)
    once, twice = (_by_unit(machine, own, _scaled(table, 1.0, factor), profile)
                   for factor in (1.0, 2.0))
    design = np.array([[2 * once[group] - twice[group], twice[group] - once[group]]
                       for group in target])
    wanted = np.array(list(target.values()))
    design = np.vstack([design, design.sum(axis=0) * len(target)])
    wanted = np.append(wanted, wanted.sum() * len(target))
    both = np.linalg.lstsq(design, wanted, rcond=None)[0]
    alone = [max(float(column @ wanted / (column @ column)), 0.0) if column.any() else 0.0
             for column in design.T]
    found = [(float(both[0]), float(both[1])), (alone[0], LEAST), (LEAST, alone[1])]
    return min((one for one in found if min(one) > 0),
               key=lambda one: float(((design @ np.array(one) - wanted) ** 2).sum()))


def _errors(found: Mapping[str, float], target: Mapping[str, float]) -> dict[str, float]:
    whole = sum(target.values())
    return {**{group: found[group] / target[group] - 1 for group in GROUPS if target[group]},
            "whole": sum(found.values()) / whole - 1 if whole else 0.0}


def _leakage(netlist: MappedCore, machine: Machine, used: Used) -> Leakage:
    """Leakage of macros, flip-flops and gates, in the units of the file."""
    macros = sum(netlist.macros.macro(shape).leakage_mw * count
                 for shape, count in netlist.shapes.items())
    cells = max(sum(used.leakage_w.values()) - macros * 1e-3, 0.0)
    return Leakage(macros / memory_kib(machine), cells * 1e9 / register_bits(machine), 0.0)


def _text(name: str, netlist: MappedCore, timing: SlowestPath, table: EnergyTable, own: Technology,
          errors: Mapping[str, float]) -> str:
    machine, cells = netlist.machine, netlist.cells
    logic = sum(unit.logic_um2 for unit in netlist.units.values())
    memory = sum(unit.memory_um2 for unit in netlist.units.values())
    each = netlist.macros.area_coefficients
    known = sum(count * (each[0] + bits * each[1] + rows * bits * each[2])
                for (rows, bits), count in memory_shapes(machine).items())
    gates = area(machine).gates.value
    fitted = (f"fitted to one netlist before its layout: {machine.config.name} "
              f"({machine.hash[:12]}) in {cells.name}; errors on other machines are not known")
    off = ", ".join(f"{group} {100 * error:+.0f} %" for group, error in errors.items())
    assert table.leakage is not None

    def section(title: str, values: Mapping[str, float | Sequence[float]], source: str) -> str:
        lines = [f"{field} = {_number(value)}" for field, value in values.items()]
        return "\n".join([f"[{title}]", *lines, f'source = "{source}"', ""])

    return "\n".join([
        f"# Made by lockstep asic. Before a layout: {fitted}.", f'name = "{name}"', "",
        section("area", {"nand2_um2": logic / gates, "sram_um2": each[0],
                         "sram_um2_per_column": each[1], "sram_um2_per_kib": 8192 * each[2],
                         "rest_um2": max(memory - known, 0.0)},
                f"cells over estimated gates, small memories in flip-flops among them; {fitted}. "
                f"Memories: {netlist.macros.source}"),
        section("clock", {"mhz": timing.mhz},
                f"OpenSTA, {netlist.machine.config.name}, slowest from {timing.begin} to "
                f"{timing.end}; {fitted}"),
        section("add", {"bits": table.add.sizes, "pj": table.add.pj},
                f"that of {own.name}, scaled; {fitted}; errors of units without memories and "
                f"clock: {off}"),
        section("multiply", {"bits": table.multiply.sizes, "pj": table.multiply.pj},
                f"that of {own.name}, scaled as add"),
        section("logic", {"bit_pj": table.logic_pj}, f"that of {own.name}, scaled as add"),
        section("register", {"write_pj": table.write_pj, "switch_pj": table.switch_pj,
                             "clock_pj": table.clock_pj},
                f"that of {own.name}, scaled; the clock as the netlist has it, over the registers "
                "that are estimated"),
        section("sram", {"bytes": table.sram.sizes, "pj": table.sram.pj}, netlist.macros.source),
        section(OUTSIDE, {"bit_pj": own.energies.dram_pj if own.energies else 0.0,
                          "row_pj": own.energies.row_pj if own.energies else 0.0},
                f"that of {own.name}: {own.sources[OUTSIDE]}"),
        section("leakage", {"sram_mw_per_kib": table.leakage.sram_mw,
                            "register_nw_per_bit": table.leakage.register_nw,
                            "logic_uw_per_pj": table.leakage.logic_uw},
                f"cells of {cells.name} over the registers that are estimated; {fitted}. "
                f"Memories: {netlist.macros.source}")])


def _number(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return f"[{', '.join(_number(one) for one in value)}]"
    return f"{value:.6g}" if "e" not in f"{value:.6g}" else f"{value:.5e}"
