"""Files of technologies: TOML, each section with its ``source``; what a file lacks is absent.

`FORMS` has the sections and the fields that they may have. The sections of `ENERGIES` come
together: a process with the energy of an addition and none of a memory has no energy of a run.
"""

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compiler.errors import Error

DATA = Path(__file__).parent / "data"
PREFIX = "technology-"

DEFAULT = "45nm"
"""The technology that has area and energies of published figures; its clock is nominal."""

MODEL = "ecp5"
"""The FPGA of which a model is fitted (`accel.estimates.area`, `accel.estimates.clock`)."""

FORMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "area": (("model",), ("nand2_um2", "sram_um2_per_kib"), (
        "nand2_um2", "sram_um2", "sram_um2_per_column", "sram_um2_per_kib", "rest_um2")),
    "clock": (("model",), ("mhz",)),
    "add": (("bits", "pj"),), "multiply": (("bits", "pj"),), "logic": (("bit_pj",),),
    "register": (("write_pj", "switch_pj", "clock_pj"),), "sram": (("bytes", "pj"),),
    "dram": (("bit_pj", "row_pj"),),
    "leakage": (("sram_mw_per_kib", "register_nw_per_bit", "logic_uw_per_pj"),)}
"""Sections with the fields of each form that they may have. Fields ``bits`` and ``bytes`` list the
widths or sizes that ``pj`` lists the energies of."""

ENERGIES = ("add", "multiply", "logic", "register", "sram", "dram")
LISTS = ("bits", "bytes", "pj")


class TechnologyError(Error, ValueError):
    """A technology that cannot be used: names the field, the rule and the value."""


def technologies() -> list[str]:
    """The names of the technologies that come with Lockstep."""
    return sorted(path.stem.removeprefix(PREFIX) for path in DATA.glob(f"{PREFIX}*.toml"))


def file_of(name: str | Path) -> Path:
    """The file of a technology that comes with Lockstep, or one of one's own in ``.toml``. Raises
    TechnologyError for a name that is none.
    """
    if str(name) in technologies():
        return DATA / f"{PREFIX}{name}.toml"
    if str(name).endswith(".toml"):
        return Path(name)
    raise TechnologyError(f"Technology must be one of {', '.join(technologies())} or a .toml file, "
                          f"not {str(name)!r}")


def sections_of(text: str) -> dict[str, Any]:
    """The sections of a file's text, checked, and its ``name``. Raises TechnologyError."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TechnologyError(f"cannot be read: {error}") from None
    _require_names("the file", raw, {"name": True, **dict.fromkeys(FORMS, False)})
    _require("name", isinstance(raw["name"], str) and raw["name"] != "", "a text", raw["name"])
    sections = {section: values for section, values in raw.items() if section != "name"}
    if not sections:
        raise TechnologyError(f"the file must have some of {', '.join(FORMS)}")
    if sections.keys() & {*ENERGIES, "leakage"}:
        _require_names("the file", sections, dict.fromkeys(FORMS, False)
                       | dict.fromkeys(ENERGIES, True))
    for section, values in sections.items():
        _check_section(section, values)
    return raw


def _check_section(section: str, values: Any) -> None:
    _require(section, isinstance(values, Mapping), "a table", values)
    fields = max(FORMS[section], key=lambda form: len(values.keys() & set(form)))
    _require_names(section, values, dict.fromkeys((*fields, "source"), True))
    source = values["source"]
    _require(f"{section}.source", isinstance(source, str) and source != "",
             "a text that says where the figures are from", source)
    for field in fields:
        _check_field(f"{section}.{field}", field, values[field])
    if fields[1:] == ("pj",):
        sizes, pj = values[fields[0]], values["pj"]
        _require(f"{section}.{fields[0]}", sorted(set(sizes)) == sizes, "ascending", sizes)
        _require(f"{section}.pj", len(pj) == len(sizes),
                 f"a list of {len(sizes)} numbers, as {section}.{fields[0]} is", pj)


def _check_field(where: str, field: str, value: Any) -> None:
    if field == "model":
        _require(where, value == MODEL, f"{MODEL!r}", value)
    elif field in LISTS:
        _require(where, isinstance(value, list) and value != []
                 and all(_is_number(one) and one > 0 for one in value),
                 "a list of numbers above 0", value)
    elif field == "mhz":
        _require(where, _is_number(value) and value > 0, "a number above 0", value)
    else:
        _require(where, _is_number(value) and value >= 0, "a number, at least 0", value)


def _require_names(where: str, values: Mapping[str, Any], known: Mapping[str, bool]) -> None:
    if missing := [name for name, needed in known.items() if needed and name not in values]:
        raise TechnologyError(f"{where} lacks {', '.join(missing)}")
    if unknown := sorted(set(values) - set(known)):
        raise TechnologyError(f"{where} has unknown fields {', '.join(unknown)}; known are "
                              f"{', '.join(known)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(field: str, holds: bool, rule: str, value: Any) -> None:
    if not holds:
        raise TechnologyError(f"{field} must be {rule}, not {value!r}")
