"""Hosts as tables: how many cycles an operation of a network takes there, and which energy.

A table is TOML, each section with its ``source``: `host.toml` is the one that comes with Lockstep.
What a table does not have, such as the energy of a process, is absent: nothing is made up for it.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from compiler.errors import Error
from runtime.pricing.link import Link

TABLE = "table"
"""The name of the table that comes with Lockstep."""
THIS = "this"
"""The name of this processor, on which host parts are measured."""

SHIPPED = Path(__file__).with_name("host.toml")

SECTIONS = {
    "cycles": ("operation", "division", "function", "access", "iteration", "operator"),
    "link": ("bytes_per_second", "latency_seconds", "start_seconds"),
    "energy": ("moves_per_byte",)}
"""The sections of a table and their numbers; ``energy.pj_per_cycle`` has one for each process."""


class HostTableError(Error, ValueError):
    """A host that cannot be used: names the field, the rule and the value."""


@dataclass(frozen=True)
class HostTable:
    """A host by counts of what its programs do.

    Parameters
    ----------
    text : of its file.
    operation, division, function, access, iteration : cycles of an operation of each kind, of an
        element that is read or written, and of an iteration of a loop.
    operator : cycles of each operator of a network besides.
    link : the way to the accelerator.
    cycle_pj : energy of a cycle by the process; others are absent.
    moves_per_byte : how often a byte that is copied crosses the memory's port.
    """

    name: str
    text: str
    mhz: float
    operation: float
    division: float
    function: float
    access: float
    iteration: float
    operator: float
    link: Link
    cycle_pj: tuple[tuple[str, float], ...]
    moves_per_byte: float

    def pj_per_cycle(self, process: str) -> float | None:
        """The energy of a cycle in this process; None where it is absent."""
        return dict(self.cycle_pj).get(process)


def known_host(name: str) -> HostTable | None:
    """The table of a host, ``table`` or a ``.toml`` file; None for ``this`` processor."""
    return None if name == THIS else host_table(name)


def host_text(name: str) -> str:
    """The text by which a process elsewhere knows a host: `host_of`."""
    return THIS if name == THIS else host_table(name).text


@cache
def host_of(text: str) -> HostTable | None:
    """The host of `host_text`. Raises HostTableError."""
    return None if text == THIS else _table(text)


@cache
def host_table(name: str = TABLE) -> HostTable:
    """Reads a table. Raises HostTableError for a name that is none, and a file that is no table."""
    if name != TABLE and not name.endswith(".toml"):
        raise HostTableError(f"Host must be {TABLE}, {THIS} or a .toml file, not {name!r}")
    path = SHIPPED if name == TABLE else Path(name)
    try:
        return _table(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise HostTableError(f"Host {path} cannot be read: {error}") from None
    except HostTableError as error:
        raise HostTableError(f"Host {path}: {error}") from None


def _table(text: str) -> HostTable:
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise HostTableError(f"cannot be read: {error}") from None
    _require_names("the table", raw, ("name", "mhz", *SECTIONS))
    _require("name", isinstance(raw["name"], str) and raw["name"] != "", "a text", raw["name"])
    _require("mhz", _is_number(raw["mhz"]) and raw["mhz"] > 0, "a number above 0", raw["mhz"])
    for section, fields in SECTIONS.items():
        _check_section(section, fields, raw[section])
    energies = raw["energy"]["pj_per_cycle"]
    _require("energy.pj_per_cycle", isinstance(energies, Mapping)
             and all(_is_number(pj) and pj >= 0 for pj in energies.values()),
             "a table of numbers by process", energies)
    cycles = {name: float(raw["cycles"][name]) for name in SECTIONS["cycles"]}
    link = Link(**{name: float(raw["link"][name]) for name in SECTIONS["link"]})
    return HostTable(raw["name"], text, float(raw["mhz"]), **cycles, link=link,
                     cycle_pj=tuple(energies.items()),
                     moves_per_byte=raw["energy"]["moves_per_byte"])


def _check_section(section: str, fields: tuple[str, ...], values: Any) -> None:
    _require(section, isinstance(values, Mapping), "a table", values)
    more = ("pj_per_cycle",) if section == "energy" else ()
    _require_names(section, values, (*fields, *more, "source"))
    source = values["source"]
    _require(f"{section}.source", isinstance(source, str) and source != "",
             "a text that says where the figures are from", source)
    for name in fields:
        _require(f"{section}.{name}", _is_number(values[name]) and values[name] >= 0,
                 "a number, at least 0", values[name])
    if section == "link":
        _require("link.bytes_per_second", values["bytes_per_second"] > 0, "above 0",
                 values["bytes_per_second"])


def _require_names(where: str, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if missing := [name for name in known if name not in values]:
        raise HostTableError(f"{where} must have {', '.join(missing)}")
    if unknown := sorted(set(values) - set(known)):
        raise HostTableError(f"{where} must have {', '.join(known)} alone, not "
                             f"{', '.join(unknown)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(field: str, holds: bool, rule: str, value: Any) -> None:
    if not holds:
        raise HostTableError(f"{field} must be {rule}, not {value!r}")
