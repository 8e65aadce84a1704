"""A technology: area, clock, energies and leakage of what a machine is built in, from one file.

::

    technology = load_technology("45nm")
    technology.clock(machine)       # an Estimate in MHz; of "45nm" the machine's nominal clock
    technology.has                  # {"silicon", "energy", "leakage"}

What its file does not have is absent (`accel.estimates.technology_files`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel.estimates.clock import clock
from accel.estimates.estimate import Estimate
from accel.estimates.tables import EnergyTable, energy_table
from accel.estimates.technology_files import (DEFAULT, ENERGIES, TechnologyError, file_of,
                                              sections_of, technologies)
from accel.machine.machine import Machine

__all__ = ["ASPECTS", "DEFAULT", "Silicon", "Technology", "TechnologyError", "technologies",
           "load_technology", "technology_of"]

ASPECTS = {"fpga": "cells of an FPGA", "silicon": "area in mm2", "clock": "an estimate of clocks",
           "energy": "energies", "leakage": "leakage"}
"""What a technology may have, in words."""


@dataclass(frozen=True, slots=True)
class Silicon:
    """Areas in um2.

    Parameters
    ----------
    nand2_um2 : of a NAND2. sram_um2_per_kib : of a KiB of memory.
    sram_um2, sram_um2_per_column : of each memory besides, and of each bit of its rows. None: only
        KiB are known.
    rest_um2 : of memories that are neither buffers nor queues of instructions.
    """

    nand2_um2: float
    sram_um2_per_kib: float
    sram_um2: float | None = None
    sram_um2_per_column: float = 0.0
    rest_um2: float = 0.0


@dataclass(frozen=True)
class Technology:
    """What a machine is built in.

    Parameters
    ----------
    text : the file, by which a process elsewhere knows it (`technology_of`).
    has : names of `ASPECTS`.
    mhz : the clock of every machine, where the file tells one.
    nominal_mhz : the clock where the technology has no estimate; None: the machine's own.
    sources : where the figures of each section are from.
    """

    name: str
    text: str
    has: frozenset[str]
    silicon: Silicon | None
    mhz: float | None
    energies: EnergyTable | None
    sources: Mapping[str, str] = field(compare=False)
    nominal_mhz: float | None = None

    def at(self, mhz: float) -> "Technology":
        """The technology where machines without an estimated clock run at this one, so that no
        machine is faster by its name.
        """
        return replace(self, nominal_mhz=mhz)

    def clock(self, machine: Machine) -> Estimate:
        """The clock of a machine in MHz: that of the model, of the file, or the nominal one."""
        if "clock" in self.has and self.mhz is None:
            return clock(machine)
        mhz = self.mhz or self.nominal_mhz or machine.config.clock_mhz
        return Estimate(mhz, mhz, mhz)

    @property
    def plain(self) -> dict[str, Any]:
        """What it has and where its figures are from, as plain data."""
        return {"name": self.name, "has": sorted(self.has), "sources": dict(self.sources),
                "nominal_mhz": None if "clock" in self.has else self.nominal_mhz,
                "text": self.summary}

    @property
    def summary(self) -> str:
        """At which clock times are, and what is absent."""
        absent = {"area": not self.has & {"fpga", "silicon"}, "energy": "energy" not in self.has,
                  "leakage": "leakage" not in self.has and "energy" in self.has}
        names = [name for name, missing in absent.items() if missing]
        return f"ms at {self.clock_text}" + (f"; absent: {', '.join(names)}" if names else "")

    @property
    def clock_text(self) -> str:
        """Which clock times and leakage are at."""
        if "clock" in self.has:
            return f"the clock that {self.name} is estimated to reach" if self.mhz is None else (
                f"the clock of {self.name}, {self.mhz:g} MHz")
        nominal = f", {self.nominal_mhz:g} MHz" if self.nominal_mhz else ""
        return f"the nominal clock{nominal}: {self.name} has no estimate of clocks"


def load_technology(name: str | Path = DEFAULT) -> Technology:
    """A technology that comes with Lockstep, by name, or a file of one's own, which ends in
    ``.toml``. Raises TechnologyError for a name that is none, and a file that is no technology.
    """
    path = file_of(name)
    try:
        text = path.read_text(encoding="utf-8")
        return technology_of(text)
    except (OSError, UnicodeError) as error:
        raise TechnologyError(f"Technology {path} cannot be read: {error}") from None
    except TechnologyError as error:
        raise TechnologyError(f"Technology {path}: {error}") from None


def technology_of(text: str) -> Technology:
    """The technology of a file's text. Raises TechnologyError."""
    sections = sections_of(text)
    name = sections.pop("name")
    area, period = sections.get("area", {}), sections.get("clock", {})
    has = {"fpga": "model" in area, "silicon": "nand2_um2" in area, "clock": bool(period),
           "energy": ENERGIES[0] in sections, "leakage": "leakage" in sections}
    return Technology(
        name, text, frozenset(aspect for aspect, there in has.items() if there),
        Silicon(**{field: value for field, value in area.items() if field != "source"})
        if has["silicon"] else None,
        period.get("mhz"), energy_table(name, sections) if has["energy"] else None,
        {section: values["source"] for section, values in sections.items()})
