"""How well are area and clock estimated, and what are the models fitted to?

    python -m bench.estimates synthesize [--count N]    runs yosys for machines that are not in the data
    python -m bench.estimates route [--count N]         runs nextpnr for some of these
    python -m bench.estimates fit                       fits the models again
    python -m bench.estimates judge                     errors on machines held back from the fit

Machines are numbered, and drawn at random by their number; every fourth is held back. Runs are
appended to the data (`accel.estimates.runs`) as they end, and those in the data are not repeated.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from random import Random

from accel.estimates.runs import (DATA, MachineSpec, Routing, Synthesis, append, routings,
                                  syntheses)
from accel.hw.fetch import Fetch
from accel.hw.gemm import Gemm
from accel.hw.load import Load
from accel.hw.store import Store
from accel.hw.vector import Vector
from accel.machine.config import ConfigError, preset
from accel.machine.rules import DeclarationError
from bench import fmax
from compiler.native import BuildError
from fpga import flow
from fpga.flow import SIZES
from fpga.tools import Tools

UNITS = {"vector": Vector, "gemm": Gemm, "load": lambda machine: Load(machine.config),
         "store": lambda machine: Store(machine.config), "fetch": Fetch}
"""Units that yosys makes by themselves, which takes a fraction of a core's time."""

ALONE = {"load": (37,), "gemm": (22, 30), "vector": (30,)}
"""Numbers of machines of which the unit is made by itself."""

NUMBERS = 48
"""Machines that are drawn, the smallest first."""

BLOCKS = ((1, 2, 2), (1, 2, 2), (1, 4, 4), (1, 2, 4), (1, 4, 2), (1, 8, 2), (1, 2, 8), (1, 4, 8),
          (1, 8, 4), (2, 2, 2), (2, 4, 4), (4, 2, 2), (1, 8, 8))
"""Extents of a block product: small ones, as yosys takes a minute for 1x2x2."""

DECLARED = {1: "argmax.py", 3: "hardswish.py", 5: "sparse.py", 7: "depthwise.py",
            9: "bfloat16.py", 11: "halved.py", 14: "int16.py", 15: "int16_deep.py",
            18: "normalize.py", 22: "hardswish.py", 26: "sparse.py", 30: "bfloat16.py"}
"""Numbers of machines that have instructions of their own."""

LARGEST_ROUTED = 22_000
"""LUTs of the largest machine that is routed; ``tiny-1x4x4`` has fewer."""

OPTIONAL = ("reduce_add", "reduce_max", "reduce_min", "lookup", "add_scaled", "mul", "shr")
"""Shipped instructions that some machines do without."""

ELEMENT_BYTES = {"inp": 2, "wgt": 2, "res": 2, "par": 8, "acc": 8, "out": 2}
"""The widest elements of the buffers, so that every drawn depth is legal."""


def drawn(number: int) -> MachineSpec:
    """The machine of a number."""
    for attempt in range(100):
        spec = _drawn(Random(f"{number}.{attempt}"), number)
        try:
            spec.machine
        except (ConfigError, DeclarationError):
            continue
        return spec
    raise AssertionError(f"no machine of number {number}")


def _drawn(random: Random, number: int) -> MachineSpec:
    batch, block_in, block_out = random.choice(BLOCKS[:3] if number in (9, 15, 30) else BLOCKS)
    lanes = batch * block_out
    columns = {"inp": batch * block_in, "wgt": block_in * block_out, "par": block_out}
    geometry = {
        "name": f"drawn-{number}", "batch": batch, "block_in": block_in, "block_out": block_out,
        **{f"{buffer}_bytes": columns.get(buffer, lanes) * element << random.randint(5, 11)
           for buffer, element in ELEMENT_BYTES.items()},
        "tab_bytes": 256 << random.randint(2, 5),
        "bus_bytes": random.choice((4, 4, 8, 8, 16)),
        "queue_depth": random.choice((2, 4, 8, 16, 32)),
        "vector_beats": random.choice((1, 1, 2, 4)),
        "stage_depth": random.choice((1, 2, 2, 3, 4)),
        "weight_bits": random.choice(([8], [8], [8, 4], [8, 2], [8, 4, 2])),
    }
    if random.random() < 0.2:
        geometry["dsp_multipliers"] = max(batch * block_in * block_out // 2, 1)
    declared = DECLARED.get(number, "")
    without = () if declared or random.random() < 0.5 else tuple(
        name for name in OPTIONAL if random.random() < 0.5)
    return MachineSpec(geometry, declared, without)


def synthesized(spec: MachineSpec, held_back: bool, tools: Tools, unit: str = "") -> Synthesis:
    """Runs yosys for a core, or for one of its units."""
    machine = spec.machine
    if unit:
        component = UNITS[unit](machine)
        folder = fmax.netlist(component, f"{unit} of {machine.config.name}", tools)
    else:
        folder, _ = fmax.synthesize(machine, tools)
    parts = parts_of(folder / "top.json", unit)
    return Synthesis(spec, machine.hash, held_back, {part: dict(sorted(cells.items()))
                                                     for part, cells in sorted(parts.items())},
                     tools.yosys.version, unit)


def parts_of(netlist: Path, unit: str = "") -> dict[str, Counter[str]]:
    """The cells of a flattened core, or of a unit, by part and by type.

    A cell has the name of its output, so that a few gates at the edge of a part count for its
    neighbour. Registers of the harness do not count.
    """
    cells = json.loads(netlist.read_text())["modules"]["top"]["cells"]
    front = f"core.{unit}." if unit else ""
    known = {front + name for name, cell in cells.items() if cell["type"] == "$scopeinfo"}
    counted = {cell for sizes in SIZES.values() for cell in sizes}
    parts: dict[str, Counter[str]] = {}
    for name, cell in cells.items():
        path = (front + name).split(".")
        if cell["type"] not in counted or path[0] != "core" and cell["type"] == "TRELLIS_FF":
            continue
        depth = next((depth for depth in (3, 2) if ".".join(path[:depth]) in known), 1)
        inside, *part = path[1:depth] or [unit or "core"]
        whole = not part or inside == "acc" or re.search(r"slice|copy|words|indexes", part[0])
        key = inside if whole else f"{inside}.{part[0]}"
        parts.setdefault(key if path[0] == "core" else "core", Counter())[cell["type"]] += 1
    return parts


def synthesize(count: int) -> None:
    """Runs yosys for `count` machines that are not in the data."""
    tools = Tools()
    known = {(run.hash, run.unit) for run in syntheses()}
    for spec, held_back, unit in wanted():
        if not count:
            break
        if (spec.machine.hash, unit) not in known:
            begin = time.monotonic()
            append(synthesized(spec, held_back, tools, unit), DATA / "area.jsonl")
            _say(spec, begin, unit)
            count -= 1


def route(count: int) -> None:
    """Runs nextpnr for `count` machines that yosys has made, in turn held back and not."""
    tools = Tools()
    known = {run.hash for run in routings()}
    small = [run for run in syntheses() if run.hash not in known and not run.unit
             and taken(run)["luts"] <= LARGEST_ROUTED]
    turns = [[run for run in small if run.held_back == held] for held in (True, False)]
    if sum(run.held_back for run in routings()) > len(known) / 2:
        turns.reverse()
    for run in [run for pair in zip_longest(*turns) for run in pair if run][:count]:
        begin = time.monotonic()
        folder, registers = fmax.synthesize(run.spec.machine, tools)
        placement = fmax.place(folder, 1, tools, registers)
        append(Routing(run.spec, run.hash, run.held_back, {"1": placement.mhz}, placement.path,
                       tools.nextpnr.version), DATA / "clock.jsonl")
        _say(run.spec, begin, f"{placement.mhz} MHz")


def taken(run: Synthesis) -> dict[str, int]:
    """The resources that a core takes."""
    return flow.taken(sum(map(Counter, run.parts.values()), Counter()))


def specs() -> Iterator[tuple[MachineSpec, bool]]:
    """Machines to synthesize, and whether they are held back: presets, then drawn ones, of both
    kinds in turn, the smallest first."""
    for name in ("ecp5-1x2x2", "tiny-1x4x4"):
        yield MachineSpec(preset(name).values()), False
    numbers = sorted(range(NUMBERS), key=lambda number: (_lanes(drawn(number)), number))
    turns = [[number for number in numbers if (number % 4 == 3) == held] for held in (False, True)]
    for pair in zip_longest(*turns):
        yield from ((drawn(number), number % 4 == 3) for number in pair if number is not None)


def wanted() -> Iterator[tuple[MachineSpec, bool, str]]:
    """Runs of yosys: machines, whether they are held back, and the unit or a core."""
    drawn_ones = list(specs())
    by_unit = [(drawn(number), False, unit) for numbers in zip_longest(*ALONE.values())
               for unit, number in zip(ALONE, numbers, strict=True) if number is not None]
    held = [(spec, True, "") for spec, held_back in drawn_ones if held_back]
    for group in zip_longest(by_unit, held):
        yield from (run for run in group if run)
    yield from ((spec, False, "") for spec, held_back in drawn_ones if not held_back)


def _lanes(spec: MachineSpec) -> int:
    """Lanes of the datapaths, by which the time of synthesis grows."""
    config = spec.machine.config
    return config.macs_per_cycle // 4 + 4 * config.lanes // config.vector_beats


def _say(spec: MachineSpec, begin: float, more: str = "") -> None:
    print(f"{spec.geometry['name']} {spec.declared} {time.monotonic() - begin:.0f} s {more}",
          flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.estimates", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("synthesize", "route"):
        command = commands.add_parser(name)
        command.add_argument("--count", type=int, default=1, help="runs")
    args = parser.parse_args()
    try:
        (synthesize if args.command == "synthesize" else route)(args.count)
    except BuildError as error:
        print(f"bench.estimates: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
