"""What clock does the core reach on an ECP5-85F, speed grade 6? Synthesis, place and route.

The **bare core** is measured (`fpga.bare_core`). The clock is the best of ``--seeds`` placements;
nothing but the seed differs between them, and all are printed.

Prints ``name value`` lines (or JSON), and the critical path by unit.
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

from rich.console import Console

from accel.machine.config import ConfigError
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from compiler.native import BuildError
from fpga.bare_core import PlacedCore, place, synthesize
from fpga.flow import CELLS
from fpga.tools import Tools

MOST_SEEDS = 5


def measure(machine: Machine, seeds: int, jobs: int) -> list[PlacedCore]:
    """Makes all placements and returns them, the fastest first; progress goes to stderr."""
    tools, console = Tools(), Console(stderr=True)
    begin = time.monotonic()

    def say(what: str) -> None:
        console.print(f"{time.monotonic() - begin:6.0f} s  {what}", highlight=False)

    netlist, registers = synthesize(machine, tools)
    say("synthesized")

    def one(seed: int) -> PlacedCore:
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
