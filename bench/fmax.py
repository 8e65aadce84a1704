"""What clock does the core reach on an ECP5-85F, speed grade 6? Synthesis, place and route.

The **bare core** is measured: no pins, no memory controller. Its inputs come from a chain of
registers and its outputs end in registers, so that every path inside the core or at its ports
counts, and no path to a pin does. The registers of this harness are not counted in the figures. The
clock is the best of ``--seeds`` placements; nothing but the seed differs between them, and all are
printed.

Flow and tools are those of bitstreams (`fpga.flow`, `fpga.tools`). Prints ``name value`` lines (or
JSON), and the critical path by unit.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from rich.console import Console

from accel.hw.core import Core
from accel.hw.parts import ECP5
from accel.machine.config import ConfigError
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from compiler.native import BuildError
from fpga import flow
from fpga.build import roomy
from fpga.flow import CELLS
from fpga.tools import Tools

MOST_SEEDS = 5
TARGET_MHZ = 100        # of place and route, which may fall short of it or exceed it

DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6", "--freq", str(TARGET_MHZ))


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


def synthesize(machine: Machine, tools: Tools) -> tuple[Path, int]:
    """Returns the folder of the netlist, and the number of registers of the harness."""
    harness = Harness(machine)
    return netlist(harness, machine.config.name, tools), harness.registers


def netlist(component: wiring.Component, name: str, tools: Tools) -> Path:
    """The folder of the netlist ``top.json`` of a component, as an ECP5 has it."""
    platform, text = ECP5(), ""
    for platform.shallow_blocks in (True, False):
        text = rtlil.convert(component, name="top", emit_src=False, platform=platform)
        if roomy(text, DEVICE):
            break
    return flow.synthesize(text, tools, name)


def place(netlist: Path, seed: int, tools: Tools, harness_registers: int) -> Placement:
    """Places and routes with one seed."""
    routed = flow.place(netlist, DEVICE, seed, tools)
    used = {**routed.used, "registers": routed.used["registers"] - harness_registers}
    return Placement(seed, routed.mhz, routed.path, **used)


def measure(machine: Machine, seeds: int, jobs: int) -> list[Placement]:
    """Makes all placements and returns them, the fastest first; progress goes to stderr."""
    tools, console = Tools(), Console(stderr=True)
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
    parser.add_argument("--machine", "--config", default="ecp5-1x16x16", help="preset or file")
    parser.add_argument("--seeds", type=int, default=1, choices=range(1, MOST_SEEDS + 1),
                        help="placements, of which the best counts")
    parser.add_argument("--jobs", type=int, default=1, help="placements at a time")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    try:
        machine = load_machine(args.machine)
        placements = measure(machine, args.seeds, max(args.jobs, 1))
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
