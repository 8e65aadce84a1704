"""What clock and area does a core reach on an ECP5, and does its netlist compute what the RTL does?

`fmax` places and routes the **bare core** (`fpga.building.bare_core`) on an ECP5-85F, speed grade
6. The clock is the best of ``--seeds`` placements; nothing but the seed differs between them, and
all are printed, with the critical path by unit.

`bitstreams` prints a table of the bitstreams that were built here (`fpga.building.build` keeps
their records in the cache), or of named records: how much of a board each machine takes, and its
clock. It shows the fastest of several builds of a machine for a board. With ``--write`` the table
takes its place in docs/fpga.md.

`post_synthesis` simulates the core as it is synthesized (its carry chains trimmed) cell by cell
(`fpga.emulation.ecp5`) and runs random programs of ``lockstep check``: the memory, the cycle of
every event and all counters must be those of the RTL. With ``--mutants`` it inverts outputs of
cells, one at a time; each must be noticed. The first time takes some ten minutes.

Needs the extra ``fpga``: ``pip install -e '.[fpga]' -c constraints.txt``.
"""

import ctypes
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from accel.hw.core import Core
from accel.machine.machine import Machine
from accel.sim.checking import check
from accel.sim.rtl import verilated
from accel.sim.checking.check import MAX_CYCLES
from accel.sim.programs.generate import generate
from accel.sim.rtl.verilated import Port, SimulatorError, VerilatedCore
from bench.frame import Bench, Sheet, positive
from bench.simulators.mutants import SELECT
from bench.support.shown import stopwatch
from compiler.errors import RequestError
from compiler.native import cache_folder
from fpga.building.bare_core import PlacedCore, netlist, place, synthesize
from fpga.building.build import NAMES, RECORDS
from fpga.emulation.ecp5 import SELECT_BITS, simulated
from fpga.building.flow import CELLS
from fpga.building.tools import Tools

MOST_SEEDS = 5
PROGRAMS = 10           # to detect a mutant
PAGE = Path(__file__).parents[2] / "docs" / "fpga.md"
BEGIN, END = "<!-- python -m bench fpga.cores --only bitstreams --write -->\n", "<!-- end -->\n"
Record = Mapping[str, Any]

BENCH = Bench(__file__, __doc__, "ecp5-1x16x16", seed=0)
BENCH.option("--seeds", type=int, default=1, choices=range(1, MOST_SEEDS + 1),
             help="placements, of which the best counts")
BENCH.option("--jobs", type=positive, default=1, help="placements at a time")
BENCH.option("--records", nargs="+", type=Path, metavar="RECORD.json", help="of bitstreams")
BENCH.option("--write", action="store_true", help="bitstreams into docs/fpga.md")
BENCH.option("--count", type=positive, default=50, help="random programs of post_synthesis")
BENCH.option("--mutants", type=int, default=0, choices=range(100), metavar="N")


@BENCH.part()
def fmax(sheet: Sheet) -> None:
    placements = placed(sheet.machine, sheet.seeds, sheet.jobs)
    for placement in placements:
        sheet.row(placement)
    best = placements[0]
    print("seeds", " ".join(f"{one.seed}:{one.mhz}" for one in placements))
    print("critical_path", ", ".join(f"{unit} {delay} ns" for unit, delay in best.path))
    sheet.figure("ecp5_85f_mhz", best.mhz)
    for name in CELLS:
        sheet.figure(f"ecp5_85f_{name}", getattr(best, name))


def placed(machine: Machine, seeds: int, jobs: int) -> list[PlacedCore]:
    """Makes all placements and returns them, the fastest first; progress goes to stderr."""
    tools, say = Tools(), stopwatch()
    netlist, registers = synthesize(machine, tools)
    say("synthesized")

    def one(seed: int) -> PlacedCore:
        placement = place(netlist, seed, tools, registers)
        say(f"seed {seed}: {placement.mhz} MHz")
        return placement

    with ThreadPoolExecutor(jobs) as pool:
        placements = list(pool.map(one, range(1, seeds + 1)))
    return sorted(placements, key=lambda placement: -placement.mhz)


@BENCH.part(extra=True)
def bitstreams(sheet: Sheet) -> None:
    paths = sheet.records or sorted((cache_folder() / RECORDS).glob("*/record.json"))
    try:
        records = fastest(json.loads(path.read_text()) for path in paths)
        told = table(records)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"not the record of a build: {error}") from None
    if not records:
        raise RequestError("no bitstream was built here; run lockstep fpga build")
    print(told, end="")
    if sheet.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + told + END + rest.split(END)[1])


def fastest(records: Iterable[Record]) -> list[Record]:
    """The fastest record of each board and machine, in their order."""
    best: dict[tuple[str, str, str], Record] = {}
    for one in records:
        key = one["board"], one["config"], one["machine"]
        best[key] = max(one, best.get(key, one), key=lambda record: record["mhz"])
    return [best[key] for key in sorted(best)]


def table(records: Iterable[Record]) -> str:
    """The records as a table in Markdown."""
    head = ["board", "machine", *NAMES.values(), "clock (reached), MHz", "peak GOP/s", "seeds"]
    rows = [[one["board"], one["config"], *(_share(one, name) for name in NAMES),
             f"{one['clock_hz'] / 1e6:g} ({one['mhz']:g})", f"{one['peak_gops']:g}",
             str(len(one["seeds"]))] for one in records]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def _share(record: Record, name: str) -> str:
    used, of = record["used"][name], record["available"][name]
    return f"{used:,} ({used / of:.0%})"


@BENCH.part(extra=True)
def post_synthesis(sheet: Sheet) -> None:
    machine = sheet.machine_or("tiny-1x4x4")
    path = build(machine, sheet.mutants)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("programs", total=sheet.count)
        found = compare(machine, path, sheet.count, sheet.seed,
                        progress=lambda done: bar.update(task, completed=done))
    verdicts = [verdict(machine, path, PROGRAMS, number) for number in range(1, sheet.mutants + 1)]
    for number, one in enumerate(verdicts, 1):
        print(f"{number:3} {one or 'SURVIVED'}"[:160])
    if found.difference:
        print(found.difference)
    for name in ("programs", "instructions", "cycles"):
        sheet.figure(f"post_synthesis_{name}", getattr(found, name))
    sheet.figure("post_synthesis_differences", int(bool(found.difference)))
    if verdicts:
        sheet.figure("post_synthesis_mutants", len(verdicts))
        sheet.figure("post_synthesis_mutants_killed", sum(map(bool, verdicts)))
    sheet.require(not found.difference and all(verdicts))


def build(machine: Machine, mutants: int = 0) -> Path:
    """The netlist of a machine's core as an object for `VerilatedCore`."""
    tools, say = Tools(), stopwatch()
    core = Core(machine)
    folder = netlist(core, machine.config.name, tools)
    say("synthesized")
    module = json.loads((folder / "top.json").read_text())["modules"]["top"]
    text = simulated(module, "core", tools.yosys.path, mutants=mutants)
    say(f"{len(module['cells'])} cells")
    ports = verilated.ports_of(core) + [Port(SELECT, SELECT_BITS, "in")] * bool(mutants)
    # One function of all cells would take the compiler hours.
    path = verilated.build_object(machine, text, ports, ("-O1",),
                                  ("--output-split-cfuncs", "1000"))
    say("simulator built")
    return path


@dataclass
class Comparison:
    """The runs up to the first difference; its description is empty if there is none."""

    programs: int = 0
    instructions: int = 0
    cycles: int = 0
    difference: str = ""


def compare(machine: Machine, path: Path, count: int, seed: int = 0, mutant: int = 0,
            progress: Callable[[int], None] = lambda done: None) -> Comparison:
    """Runs random programs on the RTL and the netlist, optionally with an inverted output."""
    core, found = VerilatedCore(machine, path), Comparison()
    if mutant:
        ctypes.c_uint32.in_dll(core.library, f"lockstep_{SELECT}").value = mutant
    for number in range(count):
        case = generate(machine, seed * 1_000_000 + number)
        dram = replace(machine.config.memory, **case.timing)
        rtl = verilated.simulate(machine, case.program, case.memory, max_cycles=MAX_CYCLES,
                                 dram=dram)
        try:
            netlist = core.run(case.program, case.memory.copy(), MAX_CYCLES, dram)
            difference = check.compare(machine, case, {"RTL": rtl, "netlist": netlist})
            found.difference = difference.describe() if difference else ""
        except SimulatorError as error:
            found.difference = f"{case.name}: {error}"
        found.programs += 1
        found.instructions += case.program.count
        found.cycles += rtl.cycles
        progress(found.programs)
        if found.difference:
            break
    return found


def verdict(machine: Machine, path: Path, count: int, mutant: int) -> str:
    """The difference that a mutant makes, empty if none. Runs in a process of its own: Verilator
    aborts where logic does not settle.
    """
    # A machine has functions, which cannot be pickled: fork.
    with ProcessPoolExecutor(1, get_context("fork"), _played.append, (machine,)) as pool:
        try:
            return pool.submit(_difference, path, count, mutant).result()
        except BrokenProcessPool:
            return "the simulator aborts: logic does not settle"


_played: list[Machine] = []         # in the process of a verdict


def _difference(path: Path, count: int, mutant: int) -> str:
    return compare(_played[-1], path, count, 0, mutant).difference
