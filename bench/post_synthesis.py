"""Does the netlist for an ECP5 compute the same as the RTL? Random programs on both.

The core as `fpga.bare_core` synthesizes it (its carry chains trimmed) is simulated cell by cell
(`fpga.emulation.ecp5`) and runs random programs of ``lockstep check``: the memory, the cycle of
every event and all counters must be those of the RTL. With ``--mutants`` it inverts outputs of
cells, one at a time; each must be noticed.

The first time takes some ten minutes. Needs the extra ``fpga``: ``pip install -e '.[fpga]' -c
constraints.txt``. Prints ``name value`` lines or JSON; exit status 1 if anything differs.
"""

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from accel.hw.core import Core
from accel.machine.config import ConfigError
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.sim import check, verilated
from accel.sim.check import MAX_CYCLES
from accel.sim.programs.generate import generate
from accel.sim.verilated import Port, SimulatorError, VerilatedCore
from bench.mutants import SELECT
from compiler.native import BuildError
from fpga.bare_core import netlist
from fpga.emulation.ecp5 import SELECT_BITS, simulated
from fpga.tools import Tools

PROGRAMS = 10           # to detect a mutant


def build(machine: Machine, mutants: int = 0) -> Path:
    """The netlist of a machine's core as an object for `VerilatedCore`."""
    tools, console, begin = Tools(), Console(stderr=True), time.monotonic()

    def say(what: str) -> None:
        console.print(f"{time.monotonic() - begin:6.0f} s  {what}", highlight=False)

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


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.post_synthesis", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", "--config", default="tiny-1x4x4", help="preset or file")
    parser.add_argument("--count", type=_positive, default=50, help="random programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutants", type=int, default=0, choices=range(100), metavar="N")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    try:
        machine = load_machine(args.machine)
        path = build(machine, args.mutants)
    except (BuildError, ConfigError) as error:
        print(f"bench.post_synthesis: {error}", file=sys.stderr)
        return 2
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("programs", total=args.count)
        found = compare(machine, path, args.count, args.seed,
                        progress=lambda done: bar.update(task, completed=done))
    verdicts = [verdict(machine, path, PROGRAMS, number) for number in range(1, args.mutants + 1)]
    _show(machine, args.seed, found, verdicts, args.json)
    return int(bool(found.difference) or not all(verdicts))


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def _show(machine: Machine, seed: int, found: Comparison, verdicts: list[str],
          as_json: bool) -> None:
    figures = {"post_synthesis_programs": found.programs,
               "post_synthesis_instructions": found.instructions,
               "post_synthesis_cycles": found.cycles,
               "post_synthesis_differences": int(bool(found.difference))}
    if verdicts:
        figures |= {"post_synthesis_mutants": len(verdicts),
                    "post_synthesis_mutants_killed": sum(map(bool, verdicts))}
    if as_json:
        print(json.dumps(figures | {
            "config": machine.config.name, "machine": machine.hash, "seed": seed,
            "difference": found.difference, "mutants": verdicts}, indent=2))
        return
    for number, one in enumerate(verdicts, 1):
        print(f"{number:3} {one or 'SURVIVED'}"[:160])
    if found.difference:
        print(found.difference)
    for name, value in figures.items():
        print(name, value)


if __name__ == "__main__":
    sys.exit(main())
