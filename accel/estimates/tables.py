"""Tables of energies: what an operation or an access takes in a process, from published figures.

A table is TOML, each section with its ``source``; `SECTIONS` has the fields. Figures for several
widths or sizes are joined by power laws: between two of them, and beyond the ends by the law of
the nearest two, so that a memory of 4 KiB beside one of 8 KiB and one of 32 KiB takes
``pj[0] * 0.5 ** (log(pj[1] / pj[0]) / log(4))``.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.errors import Error

__all__ = ["EnergyTable", "EnergyTableError", "SECTIONS", "energy_table", "energy_tables"]

DATA = Path(__file__).parent / "data"
PREFIX = "energy-"

SECTIONS = {
    "add": ("bits", "pj"), "multiply": ("bits", "pj"), "logic": ("bit_pj",),
    "register": ("write_pj", "switch_pj", "clock_pj"), "sram": ("bytes", "pj"),
    "dram": ("bit_pj", "row_pj"),
    "leakage": ("sram_mw_per_kib", "register_nw_per_bit", "logic_uw_per_pj")}
"""The sections of a table and their fields. Fields ``bits`` and ``bytes`` list the widths or sizes
that ``pj`` lists the energies of."""

LISTS = ("bits", "bytes", "pj")


class EnergyTableError(Error, ValueError):
    """A table that cannot be used: names the field, the rule and the value."""


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
class EnergyTable:
    """The energies of a process.

    Parameters
    ----------
    name : of the process.
    add, multiply : pJ of an operation, by bits; of a product by the geometric mean of its factors'.
    sram : pJ of an access of 64 bits, by the bytes of the memory.
    logic_pj : of a bit of a multiplexer, of a digit of a shift, or of a gate.
    write_pj, switch_pj : of a bit of a register that is written, its clock included; besides, of
        one that may change then.
    clock_pj : of a bit in any cycle, for the clock where it is not gated.
    dram_pj, row_pj : of a bit that moves; of a row that is opened.
    sram_mw, register_nw, logic_uw : leakage of a KiB of memory; of a bit of registers; of logic,
        for each pJ that all of its operations take once.
    sources : where each section's figures are from.
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
    sram_mw: float
    register_nw: float
    logic_uw: float
    sources: tuple[tuple[str, str], ...]

    @property
    def register_pj(self) -> float:
        """A bit that is written and may change, in pJ."""
        return self.write_pj + self.switch_pj

    def access_pj(self, size_bytes: float, bits: float) -> float:
        """The energy of reading or writing `bits` of a memory of `size_bytes`, in pJ."""
        return self.sram.at(size_bytes) * bits / 64


def energy_tables() -> list[str]:
    """The names of the tables that come with Lockstep."""
    return sorted(path.stem.removeprefix(PREFIX) for path in DATA.glob(f"{PREFIX}*.toml"))


def energy_table(name: str | Path) -> EnergyTable:
    """A table that comes with Lockstep, by name, or a file of one's own, which ends in ``.toml``.

    Raises EnergyTableError for a name that is none, and a file that is no table.
    """
    if str(name) in energy_tables():
        path = DATA / f"{PREFIX}{name}.toml"
    elif str(name).endswith(".toml"):
        path = Path(name)
    else:
        raise EnergyTableError(f"Energy table must be one of {', '.join(energy_tables())} or a "
                               f".toml file, not {str(name)!r}")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EnergyTableError(f"Energy table {path} cannot be read: {error}") from None
    try:
        return _table(raw, path.stem)
    except EnergyTableError as error:
        raise EnergyTableError(f"Energy table {path}: {error}") from None


def _table(raw: Mapping[str, Any], name: str) -> EnergyTable:
    _require_names("the table", raw, {"name": False, **dict.fromkeys(SECTIONS, True)})
    name = raw.get("name", name)
    _require("name", isinstance(name, str) and name != "", "a text", name)
    for section in SECTIONS:
        _check_section(section, raw[section])
    laws = {section: PowerLaw(*(tuple(map(float, raw[section][field]))
                                for field in SECTIONS[section]))
            for section in ("add", "multiply", "sram")}
    dram, register, leakage = raw["dram"], raw["register"], raw["leakage"]
    return EnergyTable(
        name, **laws, logic_pj=raw["logic"]["bit_pj"], write_pj=register["write_pj"],
        switch_pj=register["switch_pj"], clock_pj=register["clock_pj"], dram_pj=dram["bit_pj"],
        row_pj=dram["row_pj"], sram_mw=leakage["sram_mw_per_kib"],
        register_nw=leakage["register_nw_per_bit"],
        logic_uw=leakage["logic_uw_per_pj"],
        sources=tuple((section, raw[section]["source"]) for section in SECTIONS))


def _check_section(section: str, values: Any) -> None:
    _require(section, isinstance(values, Mapping), "a table", values)
    fields = SECTIONS[section]
    _require_names(section, values, dict.fromkeys((*fields, "source"), True))
    source = values["source"]
    _require(f"{section}.source", isinstance(source, str) and source != "",
             "a text that says where the figures are from", source)
    for field in fields:
        value = values[field]
        if field in LISTS:
            _require(f"{section}.{field}", isinstance(value, list) and value != []
                     and all(_is_number(one) and one > 0 for one in value),
                     "a list of numbers above 0", value)
        else:
            _require(f"{section}.{field}", _is_number(value) and value >= 0,
                     "a number, at least 0", value)
    if fields[1:] == ("pj",):
        sizes, pj = values[fields[0]], values["pj"]
        _require(f"{section}.{fields[0]}", sorted(set(sizes)) == sizes, "ascending", sizes)
        _require(f"{section}.pj", len(pj) == len(sizes),
                 f"a list of {len(sizes)} numbers, as {section}.{fields[0]} is", pj)


def _require_names(where: str, values: Mapping[str, Any], known: Mapping[str, bool]) -> None:
    if missing := [name for name, needed in known.items() if needed and name not in values]:
        raise EnergyTableError(f"{where} lacks {', '.join(missing)}")
    if unknown := sorted(set(values) - set(known)):
        raise EnergyTableError(f"{where} has unknown fields {', '.join(unknown)}; known are "
                               f"{', '.join(known)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(field: str, holds: bool, rule: str, value: Any) -> None:
    if not holds:
        raise EnergyTableError(f"{field} must be {rule}, not {value!r}")
