"""What clock does the core reach on an ECP5-85F, speed grade 6? Synthesis, place and route.

The **bare core** is measured: no pins, no memory controller. Its inputs come from a chain of
registers and its outputs end in registers (counters, which are registers, end where they are), so
that every path counts that is inside the core or at its ports, and no path to a pin does. The
registers of this harness are not counted in the figures. The clock is the best of ``--seeds``
placements; nothing but the seed differs between them, and all are printed.

Yosys and nextpnr come from their wheels (``pip install -e '.[fpga]' -c constraints.txt``); with
``--native`` the program `nextpnr-ecp5` of the system places and routes, which is about twice as
fast; one of the wheel's version finds the same. Netlists and placements are kept in the cache by
the hash of all that they are made from. Prints ``name value`` lines (or JSON), and the critical
path by unit.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from rich.console import Console

from accel.config import ConfigError, load
from accel.hw.core import Core
from accel.hw.parts import ECP5
from accel.machine import Machine
from compiler.native import BuildError, build_once, call, digest
from fpga import carries

MOST_SEEDS = 5
TARGET_MHZ = 125        # what place and route try to reach; it may fall short of it or exceed it

SYNTHESIS = "synth_ecp5 -noabc9 -top top -json top.json"
PLACEMENT = ("--85k", "--package", "CABGA381", "--speed", "6", "--freq", str(TARGET_MHZ),
             "--timing-allow-fail", "--router", "router1",     # router2 does not come to an end
             # The placer's own limit overflows for designs that fill the device.
             "--placer-heap-cell-placement-timeout", "0")

CELLS = {"luts": "TRELLIS_COMB", "registers": "TRELLIS_FF", "multipliers": "MULT18X18D",
         "block_rams": "DP16KD"}
"""Figures, and what nextpnr calls them; carries and distributed RAM count as LUTs."""


class Harness(wiring.Component):
    """The core between registers; see the module's text."""

    clk: Signal
    i: Signal

    def __init__(self, machine: Machine):
        self.core = Core(machine)
        self.registers = 0
        super().__init__({"clk": In(1), "i": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.core = core = self.core
        m.domains.sync = ClockDomain()
        m.d.comb += ClockSignal().eq(self.clk)
        last = self.i

        def chained(width: int) -> Signal:
            nonlocal last
            register = Signal(width, reset_less=True, name="chain")
            m.d.sync += register.eq((register << 1) | last)
            last = register[-1]
            self.registers += width
            return register

        m.d.comb += ResetSignal().eq(chained(1))
        for path, member, port in core.signature.flatten(core):
            name = "_".join(map(str, path))
            if member.flow == In:
                m.d.comb += port.eq(chained(len(Value.cast(port))))
                continue
            seen = Signal(member.shape, name=f"seen_{name}", attrs={"keep": 1}, reset_less=True)
            if name.startswith(("count_", "bytes_")):
                m.d.comb += seen.eq(port)
            else:
                m.d.sync += seen.eq(port)
                self.registers += len(Value.cast(seen))
        return m


@dataclass(frozen=True)
class Placement:
    """A placed and routed core. `path`: nanoseconds on the critical path, unit by unit."""

    seed: int
    mhz: float
    path: tuple[tuple[str, float], ...]
    luts: int
    registers: int
    multipliers: int
    block_rams: int


class Tools:
    """Yosys and nextpnr, the latter perhaps native. Raises BuildError if they are not there."""

    def __init__(self, native: bool):
        self.nextpnr, self.yosys = self._find("nextpnr-ecp5", native), self._find("yosys", False)
        self.versions = _packaged(self.yosys), (_said if native else _packaged)(self.nextpnr)

    def _find(self, name: str, native: bool) -> str:
        name, advice = ((name, "install it") if native else
                        (f"yowasp-{name}", "pip install -e '.[fpga]' -c constraints.txt"))
        folder = None if native else str(Path(sys.executable).parent)
        if (found := shutil.which(name, path=folder)) is None:
            raise BuildError(f"{name} must be there for place and route: {advice}")
        return found


def _said(program: str) -> str:
    """What a program calls its version."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    return done.stdout + done.stderr


def _packaged(program: str) -> str:
    name = Path(program).name
    return f"{name} {version(name)}"


def synthesize(machine: Machine, tools: Tools) -> tuple[Path, int]:
    """The folder of the netlist ``top.json``, and the number of registers of the harness."""
    harness = Harness(machine)
    return netlist(harness, machine.config.name, tools), harness.registers


def netlist(component: wiring.Component, name: str, tools: Tools) -> Path:
    """The folder of the netlist ``top.json`` of a component."""
    text = rtlil.convert(component, name="top", emit_src=False, platform=ECP5())

    def make(folder: Path) -> None:
        (folder / "top.il").write_text(text)
        call([tools.yosys, "-q", "-p", f"read_rtlil top.il; {SYNTHESIS}"], cwd=folder)
        found = folder / "top.json"
        found.write_text(json.dumps(carries.trim(json.loads(found.read_text()))))

    key = digest([text, SYNTHESIS, tools.versions[0], Path(carries.__file__).read_text()])
    return build_once("fmax", key, f"the netlist of {name}", make, "a few minutes")


def place(netlist: Path, seed: int, tools: Tools, harness_registers: int) -> Placement:
    """Place and route with one seed."""
    def make(folder: Path) -> None:
        call([tools.nextpnr, *PLACEMENT, "--seed", str(seed), "--json", str(netlist / "top.json"),
              "--report", "report.json", "--log", "nextpnr.log", "--quiet"], cwd=folder)

    key = digest([netlist.name, *PLACEMENT, str(seed), tools.versions[1]])
    folder = build_once("fmax", key, f"placement {seed}", make, "ten minutes and more")
    report = json.loads((folder / "report.json").read_text())
    used = {name: report["utilization"][cell]["used"] for name, cell in CELLS.items()}
    used["registers"] -= harness_registers
    clock, = report["fmax"].values()
    worst = next(path for path in report["critical_paths"] if path["from"] == path["to"])
    return Placement(seed, round(clock["achieved"], 2), tuple(_by_unit(worst["path"])), **used)


def _by_unit(path: list[dict]) -> Iterator[tuple[str, float]]:
    """Delays of a path, summed over neighbours in one unit."""
    for unit, steps in groupby(path, lambda step: _unit(step["to"]["cell"])):
        yield unit, round(sum(step["delay"] for step in steps), 2)


def _unit(cell: str) -> str:
    """``core.load.front.walking_TRELLIS_FF_Q`` is in ``load.front``."""
    top, *parts, _ = cell.split(".") if "." in cell else (cell, "")
    return ".".join(parts[:2]) or ("core" if top == "core" else "harness")


def measure(machine: Machine, seeds: int, jobs: int, native: bool) -> list[Placement]:
    """All placements, the fastest first; progress goes to stderr."""
    tools, console = Tools(native), Console(stderr=True)
    begin = time.monotonic()

    def say(what: str) -> None:
        console.print(f"{time.monotonic() - begin:6.0f} s  {what}", highlight=False)

    netlist, registers = synthesize(machine, tools)
    say("synthesized")

    def one(seed: int) -> Placement:
        placement = place(netlist, seed, tools, registers)
        say(f"seed {seed}: {placement.mhz} MHz")
        return placement

    with ThreadPoolExecutor(jobs) as pool:
        placements = list(pool.map(one, range(1, seeds + 1)))
    return sorted(placements, key=lambda placement: -placement.mhz)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fmax", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="ecp5-1x16x16", help="preset or TOML file")
    parser.add_argument("--seeds", type=int, default=1, choices=range(1, MOST_SEEDS + 1),
                        help="placements, of which the best counts")
    parser.add_argument("--jobs", type=int, default=1, help="placements at a time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--native", action="store_true",
                        help="nextpnr-ecp5 of the system")
    args = parser.parse_args()
    try:
        machine = Machine(load(args.config))
        placements = measure(machine, args.seeds, max(args.jobs, 1), args.native)
    except (BuildError, ConfigError) as error:
        print(f"bench.fmax: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"config": machine.config.name, "machine": machine.hash,
                          "placements": [asdict(one) for one in placements]}, indent=2))
        return 0
    best = placements[0]
    print("seeds", " ".join(f"{one.seed}:{one.mhz}" for one in placements))
    print("critical_path", ", ".join(f"{unit} {delay} ns" for unit, delay in best.path))
    print("ecp5_85f_mhz", best.mhz)
    for name in CELLS:
        print(f"ecp5_85f_{name}", getattr(best, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
