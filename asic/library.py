"""A library of standard cells: where its files lie, and what this flow must know of it.

Libraries are never part of this project. Debian has three that may be had without asking anybody
(`READY`); any other is named by the paths of its files.
"""

import math
import re
import zlib
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from compiler.errors import Error

from . import liberty
from .functions import truth_table
from .liberty import LibertyGroup


class LibraryError(Error, ValueError):
    """A library that cannot be used: names the file, the rule and what was found."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A library that a Debian package brings."""

    package: str
    path: str
    node_nm: float


READY = {f"osu{micron:03}": Ready(f"qflow-tech-osu{micron:03}",
                                  f"/usr/share/qflow/tech/osu{micron:03}/{file}_stdcells.lib", node)
         for micron, file, node in ((18, "osu018", 180.0), (35, "osu035", 350.0),
                                    (50, "osu05", 500.0))}
"""Libraries by name: Oklahoma State University's cells for TSMC 0.18 um and for AMI 0.35 and
0.5 um."""

_PREFIX = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}


@dataclass(frozen=True)
class Cells:
    """Standard cells of one process, and one corner of it.

    Parameters
    ----------
    name : of the library, as Liberty has it.
    path : its file.
    text_hash : hash of the file, by which results are kept.
    node_nm : the process; memories are scaled to it.
    volts : its nominal supply.
    nand2_um2 : the smallest NAND of two inputs.
    gates : cells that logic may be mapped to, with their areas in um2.
    flip_flops : those of them that are flip-flops.
    unused : cells that it may not: pads, cells that drive three states, cells without a function.
    buffer : the smallest buffer, which drives what comes in.
    pin_pf : capacitance of the buffer's input.
    gating : cells that gate clocks, with their areas.
    """

    name: str
    path: Path
    text_hash: str
    node_nm: float
    volts: float
    nand2_um2: float
    gates: dict[str, float]
    flip_flops: tuple[str, ...]
    unused: tuple[str, ...]
    buffer: str
    buffer_output: str
    pin_pf: float
    gating: dict[str, float]
    time_unit: float
    capacitance_unit: float
    leakage_unit: float

    @cached_property
    def pitch_um(self) -> float:
        """The side of a square as large as a NAND."""
        return math.sqrt(self.nand2_um2)


def ready_library(name: str) -> Cells:
    """A library of `READY`. Raises LibraryError with the package that is missing."""
    if name not in READY:
        raise LibraryError(f"--library must be one of {', '.join(READY)}, not {name!r}; "
                           "other libraries are given by --liberty FILE --node NM")
    ready = READY[name]
    if not Path(ready.path).is_file():
        raise LibraryError(f"--library {name} must be installed: apt install {ready.package}")
    return read_library(Path(ready.path), ready.node_nm)


def read_library(path: Path, node_nm: float) -> Cells:
    """The cells of a Liberty file. Raises LibraryError."""
    try:
        library = liberty.read(path)
        text_hash = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise LibraryError(f"--liberty {path} must be a file that can be read: "
                           f"{error.strerror or error}") from None
    except (liberty.LibertyError, EOFError, zlib.error) as error:
        raise LibraryError(f"--liberty {path} must be Liberty: {error}") from None
    return _cells(library, path, text_hash, node_nm)


def _cells(library: LibertyGroup, path: Path, text_hash: str, node_nm: float) -> Cells:
    every = {cell.name: cell for cell in library.of("cell")}
    usable = {name: cell for name, cell in every.items() if _is_usable(cell)}
    nands = [cell for cell in usable.values() if _is_function(cell, 2, _NAND)]
    buffers = [cell for cell in usable.values() if _is_function(cell, 1, _SAME)]
    for what, found in (("a NAND of two inputs", nands), ("a buffer", buffers),
                        ("a flip-flop", [cell for cell in usable.values() if any(cell.of("ff"))])):
        if not found:
            raise LibraryError(f"--liberty {path} must have {what}")
    buffer = min(buffers, key=_area)
    volts = library.number("nom_voltage")
    if not volts:
        raise LibraryError(f"--liberty {path} must have nom_voltage")
    capacitance = _capacitance_unit(library)
    inputs, outputs = _pins(buffer, "input"), _pins(buffer, "output")
    return Cells(
        library.name, path, text_hash, node_nm, volts, _area(min(nands, key=_area)),
        {name: _area(cell) for name, cell in usable.items()},
        tuple(sorted(name for name, cell in usable.items() if any(cell.of("ff")))),
        tuple(sorted(every.keys() - usable.keys())), buffer.name, outputs[0].name,
        (inputs[0].number("capacitance") or 0.0) * capacitance / 1e-12,
        {name: _area(cell) for name, cell in every.items()
         if "clock_gating_integrated_cell" in cell.values},
        _unit(library.values.get("time_unit", "1ns")), capacitance,
        _unit(library.values.get("leakage_power_unit", "1nW")))


def _is_usable(cell: LibertyGroup) -> bool:
    """True for gates and flip-flops of one output each way that no attribute forbids."""
    outputs = _pins(cell, "output")
    return (bool(outputs) and cell.values.get("dont_use", "false") != "true"
            and "pad_cell" not in cell.values and "clock_gating_integrated_cell" not in cell.values
            and not any(cell.of("latch")) and not any(cell.of("statetable"))
            and not _pins(cell, "inout") and _area(cell) > 0
            and all("function" in pin.values and "three_state" not in pin.values
                    and pin.values.get("is_pad", "false") != "true" for pin in outputs))


def _pins(cell: LibertyGroup, direction: str) -> list[LibertyGroup]:
    return [pin for pin in cell.of("pin") if pin.values.get("direction") == direction]


def _area(cell: LibertyGroup) -> float:
    return cell.number("area", 0.0) or 0.0


_NAND, _SAME = 0b0111, 0b10     # truth tables


def _is_function(cell: LibertyGroup, inputs: int, table: int) -> bool:
    """True for a gate of one output with this truth table."""
    outputs, names = _pins(cell, "output"), [pin.name for pin in _pins(cell, "input")]
    if len(outputs) != 1 or any(cell.of("ff")) or len(names) != inputs:
        return False
    try:
        return truth_table(outputs[0].values["function"], names) == table
    except ValueError:
        return False


def _unit(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)\s*([fpnumk]?)[a-zA-Z]+", text.strip())
    if not match:
        raise LibraryError(f"a unit of a library must be like 1ns, not {text!r}")
    return float(match[1]) * _PREFIX[match[2]]


def _capacitance_unit(library: LibertyGroup) -> float:
    amount, _, unit = library.values.get("capacitive_load_unit", "1,pf").partition(",")
    return _unit(amount.strip() + unit.strip().strip('"').lower())
