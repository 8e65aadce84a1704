"""Does the netlist that an ECP5 gets compute what the RTL does? Random programs on both.

The core as `bench.fmax` synthesizes it (its carry chains trimmed) is simulated cell by cell
(`fpga.emulation.ecp5`) and runs the programs of ``lockstep check``: the memory, the cycle of every
event and all counters must be those of the RTL. With ``--mutants`` outputs of cells are inverted,
one at a time, which must be noticed.

The first time takes some ten minutes. Needs the extra ``fpga``: ``pip install -e '.[fpga]' -c
constraints.txt``. Prints ``name value`` lines or JSON; exit status 1 if anything differs.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from accel.config import ConfigError, load
from accel.hw.core import Core
from accel.machine import Machine
from accel.sim import verilated
from accel.sim.check import MAX_CYCLES, Report, check
from accel.sim.dram import Dram
from accel.sim.generate import Case
from accel.sim.verilated import Port, VerilatedCore
from accel.status import Run
from bench import fmax
from bench.mutants import SELECT, Mutant, examine
from compiler.native import BuildError
from fpga.emulation.ecp5 import SELECT_BITS, simulated

PROGRAMS = 10           # of the check that is to notice a mutant, besides directed ones


def build(machine: Machine, mutants: int = 0) -> Path:
    """The netlist of a machine's core as an object for `VerilatedCore`."""
    tools, console, begin = fmax.Tools(native=False), Console(stderr=True), time.monotonic()

    def say(what: str) -> None:
        console.print(f"{time.monotonic() - begin:6.0f} s  {what}", highlight=False)

    folder = fmax.netlist(Core(machine), machine.config.name, tools)
    say("synthesized")
    module = json.loads((folder / "top.json").read_text())["modules"]["top"]
    text = simulated(module, "core", tools.yosys, mutants=mutants)
    say(f"{len(module['cells'])} cells")
    ports = verilated.ports_of(Core(machine)) + [Port(SELECT, SELECT_BITS, "in")] * bool(mutants)
    # One function of all cells would take the compiler hours.
    path = verilated.build_object(machine, text, ports, ("-O1",),
                                  ("--output-split-cfuncs", "1000"))
    say("simulator built")
    return path


def compare(machine: Machine, path: Path, count: int, seed: int) -> Report:
    """The check of RTL and netlist."""
    core = VerilatedCore(machine, path)

    def rtl(machine: Machine, case: Case) -> Run:
        return verilated.simulate(machine, case.program, case.memory, max_cycles=MAX_CYCLES,
                                  **case.timing)

    def netlist(machine: Machine, case: Case) -> Run:
        return core.run(case.program, case.memory.copy(), MAX_CYCLES, Dram(**case.timing))

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("programs")
        return check(machine, count, seed, {"RTL": rtl, "netlist": netlist}, locate=False,
                     progress=lambda done, total: progress.update(task, completed=done,
                                                                  total=total))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.post_synthesis", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="tiny-1x4x4", help="preset or TOML file")
    parser.add_argument("--count", type=_positive, default=50, help="random programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutants", type=int, default=0, choices=range(100), metavar="N")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    try:
        machine = Machine(load(args.config))
        path = build(machine, args.mutants)
    except (BuildError, ConfigError) as error:
        print(f"bench.post_synthesis: {error}", file=sys.stderr)
        return 2
    report = compare(machine, path, args.count, args.seed)
    mutants = [examine(machine, path, number, f"cell {number}", PROGRAMS)
               for number in range(1, args.mutants + 1)]
    _show(report, mutants, args.json)
    return 0 if report.difference is None and all(one.verdict for one in mutants) else 1


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def _show(report: Report, mutants: list[Mutant], as_json: bool) -> None:
    found = {"post_synthesis_programs": report.programs,
             "post_synthesis_instructions": report.instructions,
             "post_synthesis_cycles": report.cycles // 2,
             "post_synthesis_differences": int(report.difference is not None)}
    if mutants:
        found |= {"post_synthesis_mutants": len(mutants),
                  "post_synthesis_mutants_killed": sum(bool(one.verdict) for one in mutants)}
    if as_json:
        print(json.dumps(found | {
            "config": report.machine.config.name, "machine": report.machine.hash,
            "seed": report.seed,
            "difference": report.difference and report.difference.describe()}, indent=2))
        return
    for one in mutants:
        print(f"{one.number:3} {one.verdict or 'SURVIVED'}"[:160])
    if report.difference:
        print(report.difference.describe())
    for name, value in found.items():
        print(name, value)


if __name__ == "__main__":
    sys.exit(main())
