"""Does the cycle simulator tell how long a network takes on a board?

Networks on emulated boards, the whole gateware in Verilator, against the cycle simulator with the
memory that follows from the board (`fpga.memory`):

    digits           the int8 digits network, one image
    keywords         the zoo's int8 keyword network, 49 frames
    resnet18_block   the first residual block of the zoo's int8 ResNet-18 for images of 64x64

Block RAM is emulated with 1 MiB, since the keywords' program is larger than a board's; no cycle
depends on that. Prints a table: cycles of both, and by how much the simulator is off; also with the
memory that a machine has by default. Exit status 1 if it is off by more than ``--most`` per cent,
or if a rule of a memory chip is broken.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from accel.machine.config import ConfigError
from accel.machine.dram import DRAM
from accel.machine.loading import load_machine
from accel.machine.machine import Machine
from accel.machine.program import AccelProgram
from accel.sim import cycle
from bench.board_networks import DIGITS, Watched, resnet18_block
from compiler.frontend.models import Model
from compiler.native import BuildError
from lockstep.testing.zoo import build
from fpga.boards import BlockRam, BoardError, board
from fpga.device import BoardRefused
from fpga.emulation.emulated import EmulatedBoard
from fpga.link.host import LinkError
from fpga.memory import on_board
from lockstep.commands._arguments import memory
from lockstep.commands._table import show_columns
from runtime import compile_for

NETWORKS = ("digits", "keywords", "resnet18_block")
BOARDS = ("ulx3s-85f", "ulx3s-85f@50", "ecpix5-85f")
IMAGE = 64              # of the block, so that it takes seconds
BLOCK_BYTES = 1 << 20
MOST = 2.0


def measure(network: str, machine: Machine, name: str) -> dict[str, Any]:
    """Figures of a network on the emulated board ``NAME[@MHZ]``, and of the simulator."""
    which, mhz = memory(f"board:{name}")
    machine = on_board(machine, which, mhz)
    clock_hz = machine.config.clock_mhz * 1_000_000
    chosen = board(which).memory
    if isinstance(chosen, BlockRam):
        chosen = BlockRam(BLOCK_BYTES)
    with EmulatedBoard(machine, chosen, clock_hz=clock_hz) as emulated:
        device = Watched(machine, emulated)
        module = compile_for(_model(network), device)
        rng = np.random.default_rng(0)
        module({value: rng.random(module.graph.values[value].shape, np.float32)
                for value in module.graph.inputs})
        broken = len(emulated.broken_rules)
    programs = [segment.program for segment in module.accelerated]
    simulated = _cycles(machine, programs)
    plain = replace(machine, config=replace(machine.config, memory=DRAM))
    return {"network": network, "board": name, "cycles": device.cycles, "simulated": simulated,
            "error": simulated / device.cycles - 1, "broken_rules": broken,
            "error_of_default": _cycles(plain, programs) / device.cycles - 1}


def _cycles(machine: Machine, programs: list[AccelProgram]) -> int:
    return sum(cycle.simulate(machine, program, values=False).cycles for program in programs)


def _model(network: str) -> Model:
    match network:
        case "digits": return DIGITS
        case "keywords": return build("keywords", int8=True)
    return resnet18_block(IMAGE)


def _measured(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    machine = load_machine(args.machine)
    for name in args.board or BOARDS:
        for network in args.networks or NETWORKS:
            yield measure(network, machine, name)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.board_memory", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK",
                        help=f"{', '.join(NETWORKS)} (default all)")
    parser.add_argument("--machine", default="ecp5-1x8x8", help="preset or file")
    parser.add_argument("--board", action="append", metavar="NAME[@MHZ]",
                        help=f"repeatable (default {', '.join(BOARDS)})")
    parser.add_argument("--most", type=float, default=MOST, metavar="PERCENT",
                        help=f"by which the simulator may be off (default {MOST:g})")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    if wrong := [name for name in args.networks if name not in NETWORKS]:
        parser.error(f"NETWORK must be one of {', '.join(NETWORKS)}, not {wrong[0]!r}")
    try:
        found = list(_measured(args))
    except (BoardError, BoardRefused, BuildError, ConfigError, LinkError,
            argparse.ArgumentTypeError) as error:
        print(f"bench.board_memory: {error}", file=sys.stderr)
        return 1 if isinstance(error, LinkError) else 2
    if args.json:
        print(json.dumps(found, indent=1))
    else:
        show_columns(f"cycles of {args.machine} on emulated boards, and simulated",
                     ["board", "network", "cycles", "simulated", "off by", "default memory"],
                     [[row["board"], row["network"], f"{row['cycles']:,}",
                       f"{row['simulated']:,}", f"{row['error']:+.2%}",
                       f"{row['error_of_default']:+.1%}"] for row in found])
    return int(any(abs(row["error"]) > args.most / 100 or row["broken_rules"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
