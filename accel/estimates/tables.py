"""Energies of a process: what an operation or an access takes, from published figures.

They are sections of a technology (`accel.estimates.technology`). Figures for several widths or
sizes are joined by power laws: between two of them, and beyond the ends by the law of the nearest
two, so that a memory of 4 KiB beside one of 8 KiB and one of 32 KiB takes
``pj[0] * 0.5 ** (log(pj[1] / pj[0]) / log(4))``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PowerLaw:
    """Energies in pJ at some sizes, with power laws between them and beyond the ends."""

    sizes: tuple[float, ...]
    pj: tuple[float, ...]

    def at(self, size: float) -> float:
        """The energy at a size, in pJ."""
        if len(self.sizes) == 1:
            return self.pj[0] * size / self.sizes[0]
        place = sum(size >= known for known in self.sizes[1:-1])
        (low, high), (here, there) = (values[place:place + 2] for values in (self.sizes, self.pj))
        exponent = math.log(there / here) / math.log(high / low)
        return here * (size / low) ** exponent


@dataclass(frozen=True)
class Leakage:
    """Power that leaks: mW of a KiB of memory, nW of a bit of registers, uW of logic for each pJ
    that all of its operations take once.
    """

    sram_mw: float
    register_nw: float
    logic_uw: float


@dataclass(frozen=True)
class EnergyTable:
    """The energies of a process.

    Parameters
    ----------
    name : of the technology.
    add, multiply : pJ of an operation, by bits; of a product by the geometric mean of its factors'.
    sram : pJ of an access of 64 bits, by the bytes of the memory.
    logic_pj : of a bit of a multiplexer, of a digit of a shift, or of a gate.
    write_pj, switch_pj : of a bit of a register that is written, its clock included; besides, of
        one that may change then.
    clock_pj : of a bit in any cycle, for the clock where it is not gated.
    dram_pj, row_pj : of a bit that moves; of a row that is opened.
    leakage : None where no figure is known.
    """

    name: str
    add: PowerLaw
    multiply: PowerLaw
    sram: PowerLaw
    logic_pj: float
    write_pj: float
    switch_pj: float
    clock_pj: float
    dram_pj: float
    row_pj: float
    leakage: Leakage | None = None

    @property
    def register_pj(self) -> float:
        """A bit that is written and may change, in pJ."""
        return self.write_pj + self.switch_pj

    def access_pj(self, size_bytes: float, bits: float) -> float:
        """The energy of reading or writing `bits` of a memory of `size_bytes`, in pJ."""
        return self.sram.at(size_bytes) * bits / 64


def energy_table(name: str, sections: Mapping[str, Any]) -> EnergyTable:
    """The energies that the sections of a technology tell, which were checked."""
    register, leakage = sections["register"], sections.get("leakage")
    return EnergyTable(
        name, _law(sections["add"], "bits"), _law(sections["multiply"], "bits"),
        _law(sections["sram"], "bytes"), sections["logic"]["bit_pj"], register["write_pj"],
        register["switch_pj"], register["clock_pj"], sections["dram"]["bit_pj"],
        sections["dram"]["row_pj"],
        Leakage(leakage["sram_mw_per_kib"], leakage["register_nw_per_bit"],
                leakage["logic_uw_per_pj"]) if leakage else None)


def _law(section: Mapping[str, Any], sizes: str) -> PowerLaw:
    return PowerLaw(tuple(map(float, section[sizes])), tuple(map(float, section["pj"])))
