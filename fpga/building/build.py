"""Bitstreams: from a board and a machine to a file, and a record of its contents.

>>> from fpga.building.build import build                                        # doctest: +SKIP
>>> build(board("ulx3s-85f"), Machine(preset("ecp5-1x8x8")), seeds=3).write(Path("."))
"""

import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel.machine.machine import Machine, MachineRecord
from compiler.errors import Error
from compiler.files import write_bytes, write_text
from compiler.native import BuildError, build_once, digest
from fpga.building import flow
from fpga.boards import BlockRam, Board
from fpga.building.flow import Routed
from fpga.gateware.board import BoardTop, require
from fpga.link.identity import machine_of
from fpga.gateware.pll import Pll, search
from fpga.building.record import wrong
from fpga.building.tools import Tools

RECORDS = "bitstreams"     # kind of entries of the cache, each has a file ``record.json``

NAMES = {"luts": "LUTs", "registers": "registers", "multipliers": "multipliers",
         "block_rams": "block RAMs"}

CAPACITY = {
    "12k": {"luts": 24_288, "registers": 24_288, "multipliers": 28, "block_rams": 56},
    "25k": {"luts": 24_288, "registers": 24_288, "multipliers": 28, "block_rams": 56},
    "45k": {"luts": 43_848, "registers": 43_848, "multipliers": 72, "block_rams": 108},
    "85k": {"luts": 83_640, "registers": 83_640, "multipliers": 156, "block_rams": 208}}
"""The cells of each die, as nextpnr counts them: the smallest two are one die."""

FULL = 0.75
"""The share of block RAMs in use above which shallow memories use none: wires to the last ones are
long.
"""


def written(folder: Path, name: str) -> tuple[Path, Path]:
    """The paths of a bitstream's bits and record, from its name ``BOARD-CONFIG``. Raises BuildError
    where no file can have that name.
    """
    if Path(name).name != name or not name.isprintable():
        raise BuildError(f"Bitstream must have a name that a file can have, not {name!r}; give the "
                         f"configuration another one")
    return folder / f"{name}.bit", folder / f"{name}.json"


class BitstreamError(Error, ValueError):
    """A bitstream that is damaged, or belongs to another board or machine. One line."""


@dataclass(frozen=True)
class Bitstream:
    """Bits and their record: board, config, machine (its hash), geometry,
    instructions and layouts (see `accel.machine.machine.MachineRecord`), clock_hz, baud, seed,
    seeds (clock of each), used and available cells, critical path, tools and their versions, and
    the hash of the bits.
    """

    bits: bytes
    record: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.record['board']}-{self.record['config']}"

    def require(self, machine: MachineRecord) -> None:
        """Raises BitstreamError if the bitstream holds a machine other than that of the program or
        driver.
        """
        held = machine_of(self.record)
        if held.hash != machine.hash:
            raise BitstreamError(f"Bitstream {self.name} holds machine {held}, not {machine}: "
                                 f"{held.difference(machine)}; build it again, or compile for its "
                                 f"configuration")

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write bits and record as files beside each other, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        bits, record = written(folder, self.name)
        write_bytes(bits, self.bits)
        write_text(record, json.dumps(self.record, indent=1) + "\n")
        return bits, record

    @classmethod
    def read(cls, path: Path) -> "Bitstream":
        """Read the bitstream of a ``.bit`` file whose record lies beside it."""
        record, bits = None, b""
        try:
            bits = path.read_bytes()
            record = json.loads(path.with_suffix(".json").read_text())
        except OSError as error:
            raise BitstreamError(f"Bitstream {path} must have its record beside it: "
                                 f"{error.filename}: {error.strerror}") from None
        except (ValueError, RecursionError):
            pass
        if (reason := wrong(record)) or record is None:
            raise BitstreamError(f"Record {path.with_suffix('.json')} must be one that `lockstep "
                                 f"fpga build` wrote: {reason}; build it again")
        if hashlib.sha256(bits).hexdigest() != record["sha256"]:
            raise BitstreamError(f"Bitstream {path} is not the one of its record; build it again")
        return cls(bits, record)


def build(board: Board, machine: Machine, mhz: float | None = None, seeds: int = 1,
          say: Callable[[str], None] = lambda text: None) -> Bitstream:
    """Build a bitstream, or take it from the cache.

    Parameters
    ----------
    mhz : the requested clock; the PLL makes the next lower one. The default is the board's.
    seeds : the number of placements; the fastest counts.
    say : is told of each step.

    Raises `BuildError` where it does not fit, does not reach its clock, or a tool is missing.
    """
    begin = time.monotonic()
    oscillator_hz = round(board.make_platform().default_clk_frequency)
    build = f"{machine.config.name} on {board.name}"
    try:
        pll = search(oscillator_hz, (mhz or board.mhz) * 1e6)
        require(board, machine.config, round(pll.clock_hz))
        top = BoardTop(board, machine, pll)
    except ValueError as error:         # a clock or a bus that the board's parts do not have
        raise BuildError(f"Build of {build} is not possible: {error}") from None
    text, constraints, device = _prepared(board, top)
    tools = Tools()
    say(f"{build} at {pll.clock_hz / 1e6:g} MHz, by {', '.join(tools.versions)}")
    netlist = flow.synthesize(text, tools, build)
    _require_room(flow.cells(netlist), device, build)
    say("synthesized")
    placements: list[Routed] = []
    for seed in range(1, seeds + 1):
        try:
            placements.append(_placed(netlist, device, seed, tools, constraints,
                                      pll.clock_hz / 1e6, build))
        except BuildError as error:             # another seed may still succeed, or has
            if seed == seeds and not placements:
                raise
            say(f"seed {seed}: {error}")
        else:
            say(f"seed {seed}: {_shown(placements[-1].mhz):g} MHz")
    best = max(placements, key=lambda placement: placement.mhz)
    if best.mhz * 1e6 < pll.clock_hz:
        raise BuildError(f"Build of {build} reaches {_shown(best.mhz):g} MHz, not "
                         f"{pll.clock_hz / 1e6:g}; "
                         f"ask for less (--mhz {int(best.mhz)}), or try more seeds (--seeds)")
    record = _record(board, machine, pll, placements, best, tools)
    return _packed(best, record, tools, time.monotonic() - begin)


def _shown(mhz: float) -> float:
    """Rounds down to two decimals, so that it never exceeds the reached clock."""
    return math.floor(mhz * 100) / 100


def _prepared(board: Board, top: BoardTop) -> tuple[str, str, tuple[str, ...]]:
    """RTLIL, constraints and nextpnr's options for the FPGA. Shallow memories are block RAMs where
    there are enough of them."""
    for shallow_blocks in (True, False):
        plan = board.make_platform(shallow_blocks).prepare(
            top, "top", emit_src=False)                         # the same bits from any folder
        text, constraints = (plan.files[f"top.{kind}"] for kind in ("il", "lpf"))
        device = _device(plan.files["build_top.sh"])
        if roomy(text, device):
            break
    return text, constraints, device


def roomy(text: str, device: tuple[str, ...]) -> bool:
    """True if a design in RTLIL leaves enough block RAMs of the FPGA, by nextpnr's options."""
    return text.count("cell \\DP16KD") <= FULL * _capacity(device)["block_rams"]


def _capacity(device: tuple[str, ...]) -> dict[str, int]:
    return CAPACITY[device[0].rpartition("-")[2]]


def _device(script: str) -> tuple[str, ...]:
    """nextpnr's options for the FPGA, taken from Amaranth's own script."""
    match = re.search(r"(--\S*\d+k) --package (\S+) --speed (\S+)", script)
    assert match
    return match[1], "--package", match[2], "--speed", match[3]


def _require_room(cells: Mapping[str, int], device: tuple[str, ...], build: str) -> None:
    """Refuses at once designs that nextpnr would refuse after minutes, and less clearly."""
    capacity = _capacity(device)
    for name, count in flow.taken(cells).items():
        if count > capacity[name]:
            raise BuildError(f"Build of {build} does not fit: it takes {count:,} {NAMES[name]}, "
                             f"and the FPGA has {capacity[name]:,}; take a larger FPGA or a "
                             f"smaller machine")


def _placed(netlist: Path, device: tuple[str, ...], seed: int, tools: Tools, constraints: str,
            mhz: float, build: str) -> Routed:
    try:
        return flow.place(netlist, device, seed, tools, constraints, mhz)
    except BuildError as error:
        if "no BELs remaining" in str(error) or "Unable to find legal placement" in str(error):
            raise BuildError(f"Build of {build} does not fit: {error}") from None
        raise


def _record(board: Board, machine: Machine, pll: Pll, placements: list[Routed], best: Routed,
            tools: Tools) -> dict[str, Any]:
    config, known, clock_hz = machine.config, machine.record, round(pll.clock_hz)
    return {
        "board": board.name, "config": config.name, "machine": machine.hash,
        "geometry": known.geometry, "instructions": known.instructions, "layouts": known.layouts,
        "clock_hz": clock_hz, "baud": board.baud_rate(clock_hz),
        "memory": "block RAM" if isinstance(board.memory, BlockRam) else board.memory.name,
        "memory_bytes": board.memory.size_bytes,
        "peak_gops": round(2 * config.macs_per_cycle * clock_hz / 1e9, 2),
        "seed": best.seed,
        "seeds": {str(placement.seed): _shown(placement.mhz) for placement in placements},
        "mhz": _shown(best.mhz), "used": best.used, "available": best.available,
        "critical_path": [list(step) for step in best.path], "tools": list(tools.versions),
    }


def _packed(best: Routed, record: dict[str, Any], tools: Tools, seconds: float) -> Bitstream:
    def make(folder: Path) -> None:
        bits = flow.pack(best, tools, folder)
        whole = {**record, "seconds": round(seconds, 1), "sha256": hashlib.sha256(bits).hexdigest()}
        (folder / "bits").write_bytes(bits)
        (folder / "record.json").write_text(json.dumps(whole))

    key = digest([best.folder.name, json.dumps(record)])
    folder = build_once(RECORDS, key, "the bitstream", make, "seconds")
    return Bitstream((folder / "bits").read_bytes(),
                     json.loads((folder / "record.json").read_text()))
