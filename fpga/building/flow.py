"""From RTLIL to a placed and routed design: yosys, our changes to netlists, nextpnr, ecppack.

Netlists and placements are kept in the cache (`compiler.native`) by the hash of all their inputs,
including the programs (`fpga.building.tools`) and their versions.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from compiler.native import build_once, call, digest
from fpga.building import carries, floorplan, ties
from fpga.building.tools import Tools

KIND = "ecp5"               # of entries of the cache

SYNTHESIS = "synth_ecp5 -noabc9 -top top -json top.json"
PLACEMENT = ("--timing-allow-fail", "--router", "router1",     # router2's clocks are a fifth lower
             # The placer's own limit overflows for designs that fill the device.
             "--placer-heap-cell-placement-timeout", "0",
             # Large designs come out with shorter wires, and with a higher clock, too.
             "--placer-heap-alpha", "0.06", "--placer-heap-timingweight", "40")

CROWDED = 40_000            # the LUTs above which `fpga.building.floorplan` places large cells,
                            # and timing-driven routing takes longer than everything else

CELLS = {"luts": "TRELLIS_COMB", "registers": "TRELLIS_FF", "multipliers": "MULT18X18D",
         "block_rams": "DP16KD"}
"""Figures, and their names in nextpnr; carries and distributed RAM count as LUTs."""


SIZES = {       # two of a RAM's six LUTs only lend their inputs to its write port
    "luts": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}, "registers": {"TRELLIS_FF": 1},
    "multipliers": {"MULT18X18D": 1}, "block_rams": {"DP16KD": 1}}


def synthesize(text: str, tools: Tools, what: str) -> Path:
    """The folder of the netlist ``top.json`` of the RTLIL module ``top``; messages name `what`."""
    def make(folder: Path) -> None:
        (folder / "top.il").write_text(text)
        call([tools.yosys.path, "-q", "-p", f"read_rtlil top.il; {SYNTHESIS}"], cwd=folder)
        netlist = folder / "top.json"
        design = carries.trim(json.loads(netlist.read_text()))
        netlist.write_text(json.dumps(ties.localize(design)))

    key = digest([text, SYNTHESIS, tools.yosys.version,
                  Path(carries.__file__).read_text(), Path(ties.__file__).read_text()])
    return build_once(KIND, key, f"the netlist of {what}", make, "a few minutes")


def cells(netlist: Path) -> Counter[str]:
    """Cells of a netlist by their type."""
    text = (netlist / "top.json").read_text()
    return Counter(cell["type"] for cell in json.loads(text)["modules"]["top"]["cells"].values())


def taken(cells: Mapping[str, int]) -> dict[str, int]:
    """The resources that a netlist's cells take, by the names of `CELLS`."""
    return {name: sum(cells.get(cell, 0) * size for cell, size in sizes.items())
            for name, sizes in SIZES.items()}


@dataclass(frozen=True)
class Routed:
    """A placed and routed design, of which `folder` has ``top.config`` and ``nextpnr.log``.

    seed, mhz : the placement's seed; the clock that it reaches, of several the worst one.
    path : nanoseconds on that clock's critical path, unit by unit.
    used, available : cells, by the names of `CELLS`.
    """

    folder: Path
    seed: int
    mhz: float
    path: tuple[tuple[str, float], ...]
    used: dict[str, int]
    available: dict[str, int]


def place(netlist: Path, device: Sequence[str], seed: int, tools: Tools,
          constraints: str = "", mhz: float | None = None) -> Routed:
    """Place and route with one seed.

    A crowded design is routed without the clock first, and by it if `mhz` are not reached so.

    Parameters
    ----------
    netlist : folder that `synthesize` gave.
    device : nextpnr's options for the FPGA.
    constraints : pins and clocks, in Lattice's LPF.
    mhz : the clock that is enough; without it the highest one, however long that takes.
    """
    options = [*PLACEMENT, *device]
    luts = taken(cells(netlist))["luts"]
    crowded = luts >= CROWDED
    empty = floorplan.empty(device[0], luts)

    def nextpnr(folder: Path, design: str, *more: str) -> None:
        # The wheel's tools see relative paths only, wherever the cache is.
        call([tools.nextpnr.path, *options, *(("--lpf", "top.lpf") if constraints else ()),
              "--seed", str(seed), "--json", design, "--report", "report.json", "--quiet", *more],
             cwd=folder)

    def make(folder: Path) -> None:
        (folder / "top.lpf").write_text(constraints)
        design = _planned((netlist / "top.json").read_text(), device[0], crowded, empty)
        (folder / "planned.json").write_text(design)
        results = "--textcfg", "top.config", "--log", "nextpnr.log"
        if not crowded or mhz is None:
            nextpnr(folder, "planned.json", *results)
        else:
            nextpnr(folder, "planned.json", "--no-route", "--write", "placed.json",
                    "--textcfg", "placed.config", "--log", "placement.log")
            placed = folder / "placed.json"
            placed.write_text(_without_options(placed.read_text()))
            for clock in (["--no-tmdriv"], []):
                nextpnr(folder, placed.name, "--no-pack", "--no-place", "--freq", str(mhz), *clock,
                        *results)
                if _routed(folder, seed, 0).mhz >= mhz:
                    break
            config = folder / "top.config"
            config.write_text(tied(config.read_text(), (folder / "placed.config").read_text()))
        for name in ("planned.json", "placed.json", "placed.config"):       # large
            (folder / name).unlink(missing_ok=True)

    key = digest([netlist.name, *options, str(seed), constraints, tools.nextpnr.version,
                  *(Path(module).read_text() for module in (floorplan.__file__, __file__)),
                  *([str(mhz)] if crowded else [])])
    folder = build_once(KIND, key, f"placement {seed}", make, "ten minutes and more")
    return _routed(folder, seed, len(empty))


def _planned(netlist: str, device: str, crowded: bool, empty: Sequence[str]) -> str:
    """The netlist with gates that keep others off; if crowded, with places of its large cells."""
    design = json.loads(netlist)
    cells = design["modules"]["top"]["cells"]
    if crowded:
        kinds = {name: cell["type"] for name, cell in cells.items()}
        for name, place in floorplan.places(kinds, device).items():
            cells[name]["attributes"]["BEL"] = place
    for place in empty:
        cells[f"keeps empty {place}"] = {
            "type": "LUT4", "parameters": {"INIT": "0" * 16}, "attributes": {"BEL": place},
            "port_directions": {"A": "input"}, "connections": {"A": []}}
    return json.dumps(design)


def _without_options(placed: str) -> str:
    """A placed design that leaves options to the command line.

    Routed by the clock, arcs on long paths pay next to nothing for the wires of others, so that in
    a crowded design they take them from each other, over and over. Like this they come first, and
    that is all.
    """
    design = json.loads(placed)
    for name in ("timing_driven", "target_freq"):
        design["modules"]["top"]["settings"].pop(name, None)
    return json.dumps(design)


def tied(routed: str, placed: str) -> str:
    """The configuration of a routed design, with the ties of the placed one.

    Inputs of block RAMs and multiplier blocks that nothing drives are tied to a constant where they
    enter from the fabric. A design in a file does not list them, so that what nextpnr writes of a
    design that it has read lacks just this (its ``ecp5/bitstream.cc``; the test compares). Both are
    Trellis's text: sections by tile, an element a line.
    """
    known = set(_elements(routed))
    missing: dict[str, list[str]] = {}
    for tile, line in _elements(placed):
        if line.startswith("enum: CIB.") and (tile, line) not in known:
            missing.setdefault(tile, []).append(line)
    lines: list[str] = []
    for line in routed.splitlines():
        lines += [line, *missing.pop(line, [])]                 # a tile has one section
    for tile, rest in missing.items():
        lines += ["", tile, *rest]
    return "\n".join(lines) + "\n"


def _elements(config: str) -> Iterator[tuple[str, str]]:
    """The sections of a configuration with their lines."""
    section = ""
    for line in config.splitlines():
        if line.startswith("."):
            section = line
        elif line:
            yield section, line


def _routed(folder: Path, seed: int, others: int) -> Routed:
    """The report of nextpnr, without gates that are not part of the design."""
    report = json.loads((folder / "report.json").read_text())
    clocks = report["fmax"]
    worst = min(clocks, key=lambda name: clocks[name]["achieved"] / clocks[name]["constraint"])
    path = next(path["path"] for path in report["critical_paths"]
                if path["from"] == path["to"] and path["from"].endswith(worst))
    used = {name: report["utilization"][cell] for name, cell in CELLS.items()}
    used["luts"]["used"] -= others
    return Routed(folder, seed, clocks[worst]["achieved"], tuple(_by_unit(path)),
                  {name: cell["used"] for name, cell in used.items()},
                  {name: cell["available"] for name, cell in used.items()})


def _by_unit(path: list[dict]) -> Iterator[tuple[str, float]]:
    """The delays of a path, summed over neighbours in one unit."""
    for unit, steps in groupby(path, lambda step: unit_of(step["to"]["cell"])):
        yield unit, round(sum(step["delay"] for step in steps), 2)


def unit_of(cell: str) -> str:
    """``core.load.front.walking_TRELLIS_FF_Q`` is in ``load.front``."""
    *parts, _ = cell.split(".")
    if "core" in parts:
        return ".".join(parts[parts.index("core") + 1:][:2]) or "core"
    return ".".join(parts[:2]) or "top"


def pack(routed: Routed, tools: Tools, folder: Path) -> bytes:
    """Pack the bitstream in `folder`, and leave nothing of it there."""
    files = shutil.copy(routed.folder / "top.config", folder), folder / "top.bit"
    call([tools.ecppack.path, "--compress", "--input", "top.config", "--bit", "top.bit"], folder)
    bits = files[1].read_bytes()
    for path in files:
        os.unlink(path)
    return bits
